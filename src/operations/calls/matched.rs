//! Which call of one rank is which call of another.
//!
//! Numbers say it where a source has them. Else it is the order, with what is called: where two orders part, the nearest place is
//! looked for at which they go on alike, so that a lost call costs one match and not all that follow.

use super::{Call, Stream};

/// How far a place to go on is looked for.
const WINDOW: usize = 64;

/// How many calls must be alike from there.
const ALIKE: usize = 8;

/// Positions in both streams of calls that are the same, ascending.
pub(super) fn matched(a: &Stream, b: &Stream) -> Vec<(usize, usize)> {
    if a.has_numbers() && b.has_numbers() { by_number(&a.calls, &b.calls) } else { by_order(&a.calls, &b.calls) }
}

fn by_number(a: &[Call], b: &[Call]) -> Vec<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    while i < a.len() && j < b.len() {
        match a[i].number.cmp(&b[j].number) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                if a[i].kind == b[j].kind {
                    pairs.push((i, j));
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    pairs
}

fn by_order(a: &[Call], b: &[Call]) -> Vec<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    while i < a.len() && j < b.len() {
        if a[i].kind == b[j].kind {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else {
            let (skip_a, skip_b) = next_alike(&a[i..], &b[j..]);
            (i, j) = (i + skip_a, j + skip_b);
        }
    }
    pairs
}

/// How many calls of each are skipped to go on alike.
fn next_alike(a: &[Call], b: &[Call]) -> (usize, usize) {
    let is_alike = |a: &[Call], b: &[Call]| {
        let length = ALIKE.min(a.len()).min(b.len());
        length > 0 && a[..length].iter().zip(&b[..length]).all(|(a, b)| a.kind == b.kind)
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
    use crate::time::Ns;

    fn stream(kinds: &[u32], first: Option<i64>) -> Stream {
        let call = |(at, kind): (usize, &u32)| Call {
            time: Ns(at as i64),
            kind: *kind,
            number: first.map(|first| first + at as i64),
        };
        Stream { calls: kinds.iter().enumerate().map(call).collect(), ..Stream::default() }
    }

    #[test]
    fn a_lost_call_costs_one_match() {
        let whole: Vec<u32> = (0..40).map(|at| at % 7).collect();
        let mut lacking = whole.clone();
        lacking.remove(10);
        let pairs = matched(&stream(&whole, None), &stream(&lacking, None));
        assert_eq!(pairs.len(), 39);
        assert!(pairs.iter().all(|(a, b)| *a == *b + usize::from(*a > 10)));
    }

    #[test]
    fn numbers_match_what_order_cannot() {
        // All calls are alike, and the first five of one are lost.
        let pairs = matched(&stream(&[1; 20], Some(0)), &stream(&[1; 15], Some(5)));
        assert_eq!((pairs.len(), pairs[0]), (15, (5, 0)));
        // A number that is another call on the other rank is no match.
        assert_eq!(matched(&stream(&[1, 2, 1], Some(0)), &stream(&[1, 3, 1], Some(0))), [(0, 0), (2, 2)]);
    }
}
