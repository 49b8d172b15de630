//! Pairs by what operations are, in their order.
//!
//! Where two orders part, the nearest place is looked for at which they go on alike, so that a lost operation costs one pair and not all
//! that follow. The best of all ways to pair them, as by ends, would take more than a hundred times as long: the streams of calls of a
//! thousand ranks are compared with each other, each of tens of thousands of calls.

/// How far a place to go on is looked for.
const WINDOW: usize = 64;

/// How many must be alike from there.
const ALIKE: usize = 8;

/// The pairs that are the same, in order. Takes as long as both sides have operations, but for those where they part.
pub(crate) fn by_order<T>(a: &[T], b: &[T], is_same: impl Fn(&T, &T) -> bool) -> Vec<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    while i < a.len() && j < b.len() {
        if is_same(&a[i], &b[j]) {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else {
            let (skip_a, skip_b) = next_alike(&a[i..], &b[j..], &is_same);
            (i, j) = (i + skip_a, j + skip_b);
        }
    }
    pairs
}

/// How many of each are skipped to go on alike.
fn next_alike<T>(a: &[T], b: &[T], is_same: &impl Fn(&T, &T) -> bool) -> (usize, usize) {
    let is_alike = |a: &[T], b: &[T]| {
        let length = ALIKE.min(a.len()).min(b.len());
        length > 0 && a[..length].iter().zip(&b[..length]).all(|(a, b)| is_same(a, b))
    };
    for skipped in 1..=WINDOW {
        if skipped < a.len() && is_alike(&a[skipped..], b) {
            return (skipped, 0);
        }
        if skipped < b.len() && is_alike(a, &b[skipped..]) {
            return (0, skipped);
        }
    }
    (1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_operation_costs_one_pair() {
        let whole: Vec<u32> = (0..40).map(|at| at % 7).collect();
        let mut lacking = whole.clone();
        lacking.remove(10);
        let pairs = by_order(&whole, &lacking, |a, b| a == b);
        assert_eq!(pairs.len(), 39);
        assert!(pairs.iter().all(|(a, b)| *a == *b + usize::from(*a > 10)));
    }
}
