//! The operations of two ranks, or of two sources, in order: which of them are the same.
//!
//! Three things can say it, the strongest first, and each is one function here:
//!
//! - numbers that both sides count alike: [`by_number`];
//! - the ends of collectives, which all members leave together: `by_ends`, within [`pairs`];
//! - what they are, in their order, where nothing else is known: [`by_order()`].
//!
//! The beginning of numbers that two sides count from different beginnings is another question, which [`join`](super::join) asks.

mod by_ends;
mod by_order;

pub(crate) use by_order::by_order;

/// No two clocks drift apart faster: 200 us in a second.
pub(crate) const FASTEST: f64 = 2e-4;

/// How far the ends of a collective may be apart that mean the same moment, in ns, if its transfer takes so long: one that takes long ends
/// less sharply.
pub(crate) fn sharpness(transfer: f64) -> f64 {
    1_000.0 + 0.05 * transfer
}

/// A collective of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    /// A number for what it is: only collectives with equal numbers are paired.
    pub(crate) what: u32,
    /// A number for its type and sizes, which should be equal; 0 if unknown.
    pub(crate) size: u32,
    /// PyTorch's number; equal ones belong together, and different ones never do.
    pub(crate) seq: Option<u32>,
    /// The profiler's number of its step. Where there are no others, operations of equal ones belong together.
    pub(crate) step: Option<u64>,
    /// When it ended on its rank's clock, in ns.
    pub(crate) end: i64,
    /// Whether all members end together.
    pub(crate) is_tied: bool,
}

impl Token {
    fn may_be(&self, other: &Token) -> bool {
        let differ = match (self.seq, other.seq) {
            (Some(seq), Some(of)) => seq != of,
            _ => matches!((self.step, other.step), (Some(step), Some(of)) if step != of),
        };
        self.what == other.what && !differ
    }

    fn has_other_size(&self, other: &Token) -> bool {
        self.size != 0 && other.size != 0 && self.size != other.size
    }
}

/// The pairs, in order: by numbers if both sides have them throughout, otherwise by ends, with the numbers that there are.
pub(crate) fn pairs(a: &[Token], b: &[Token]) -> Vec<(usize, usize)> {
    numbered(a, b).unwrap_or_else(|| by_steps(a, b))
}

/// The same of two sides that may count from different beginnings, and whether they do.
pub(crate) fn pairs_of_counts(a: &[Token], b: &[Token]) -> (Vec<(usize, usize)>, bool) {
    let by_numbers = numbered(a, b);
    match renumbered(a, b, by_numbers.as_deref()) {
        Some(found) => (found, true),
        None => (by_numbers.unwrap_or_else(|| by_steps(a, b)), false),
    }
}

fn numbered(a: &[Token], b: &[Token]) -> Option<Vec<(usize, usize)>> {
    by_number(a, b, |token| token.seq.map(i64::from), Token::may_be)
}

/// The pairs of two sides that count from different beginnings, as if they had no numbers: PyTorch counts in each process, and one may have begun
/// anew. `None` unless both ran at one time by their own clocks, what they are, their sizes and ends pair nearly all, and the numbers do not: few are on
/// both sides, or the ends of those that are disagree far more.
fn renumbered(a: &[Token], b: &[Token], numbered: Option<&[(usize, usize)]>) -> Option<Vec<(usize, usize)>> {
    let numbers = |side: &[Token]| Some((side.iter().map(|of| of.seq).min()??, side.iter().map(|of| of.seq).max()??));
    let ((first_a, last_a), (first_b, last_b)) = (numbers(a)?, numbers(b)?);
    if !ran_together(a, b)? {
        return None;
    }
    // `None` if numbers do not say which operation is which, or few are on both sides, which those of one time would be.
    let mut by_numbers = None;
    if last_a >= first_b && last_b >= first_a {
        let pairs = numbered?;
        if pairs.len() * FEW >= a.len().min(b.len()) {
            by_numbers = Some(disagreement(a, b, pairs)).filter(|of| *of >= DISAGREE);
            by_numbers?;
        }
    }
    let [a, b] = [a, b].map(|side| side.iter().map(|of| Token { seq: None, ..*of }).collect::<Vec<_>>());
    let found = by_steps(&a, &b);
    let alike = found.iter().filter(|(i, j)| !a[*i].has_other_size(&b[*j])).count();
    let is_better = by_numbers.is_none_or(|of| disagreement(&a, &b, &found) * BETTER < of);
    (is_better && alike * 10 >= a.len().min(b.len()) * 9).then_some(found)
}

/// Whether both ran at one time by their own clocks, for half of the shorter one. `None` of nothing.
fn ran_together(a: &[Token], b: &[Token]) -> Option<bool> {
    let span = |side: &[Token]| Some((side.iter().map(|of| of.end).min()?, side.iter().map(|of| of.end).max()?));
    let ((from_a, to_a), (from_b, to_b)) = (span(a)?, span(b)?);
    let together = to_a.min(to_b).saturating_sub(from_a.max(from_b));
    let shorter = to_a.saturating_sub(from_a).min(to_b.saturating_sub(from_b));
    Some(together >= shorter / 2)
}

/// The pairs by ends within steps of equal numbers. Where profilers count from different beginnings, as if there were no steps: both ran at one time, and few are in
/// steps that both have, or the ends of those that are disagree far more.
fn by_steps(a: &[Token], b: &[Token]) -> Vec<(usize, usize)> {
    let found = by_ends::pairs(a, b);
    let has_steps = |side: &[Token]| side.iter().any(|of| of.step.is_some());
    if found.len() == a.len().max(b.len()) || !has_steps(a) || !has_steps(b) {
        return found;
    }
    let [plain_a, plain_b] = [a, b].map(|side| side.iter().map(|of| Token { step: None, ..*of }).collect::<Vec<_>>());
    let plain = by_ends::pairs(&plain_a, &plain_b);
    let is_few = found.len() * FEW < a.len().min(b.len()) && ran_together(a, b) == Some(true);
    let disagrees = disagreement(a, b, &found);
    let is_wrong = disagrees >= DISAGREE && disagreement(a, b, &plain) * BETTER < disagrees;
    // At the edge of a step a rank may be in the next one already.
    let differ =
        |(i, j): &&(usize, usize)| matches!((a[*i].step, b[*j].step), (Some(one), Some(other)) if one != other);
    let is_more = plain.iter().filter(differ).count() * 2 <= plain.len();
    if is_few || is_wrong || is_more { plain } else { found }
}

/// Two sides that ran at one time for half of it or more have more than one number in so many in common, if they count alike.
const FEW: usize = 4;

/// Pairs whose ends disagree less, in ns, are what their numbers say. In five real jobs the ends of a collective differ by at most 6.5 µs (95 %).
const DISAGREE: i64 = 10_000;

/// So many times as well the ends have to agree if numbers are not to count.
const BETTER: i64 = 10;

/// By how much the difference between the ends of pairs changes from one to the next, in ns: the mean.
fn disagreement(a: &[Token], b: &[Token], pairs: &[(usize, usize)]) -> i64 {
    let tied = pairs.iter().filter(|(i, j)| a[*i].is_tied && b[*j].is_tied);
    let differences: Vec<i64> = tied.map(|(i, j)| a[*i].end.saturating_sub(b[*j].end)).collect();
    let changes = differences.windows(2).map(|two| two[1].saturating_sub(two[0]).saturating_abs());
    changes.fold(0, i64::saturating_add) / (differences.len() as i64 - 1).max(1)
}

/// The pairs with equal numbers that are of the same thing; `None` unless the numbers of both sides say which operation is which: each has
/// one, and it is greater than that before. Several operations that PyTorch coalesces have one number.
pub(crate) fn by_number<T>(
    a: &[T],
    b: &[T],
    number: impl Fn(&T) -> Option<i64>,
    is_same: impl Fn(&T, &T) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let increase = |side: &[T]| {
        let pairs = side.windows(2);
        side.iter().all(|one| number(one).is_some())
            && pairs.map(|two| [&two[0], &two[1]].map(&number)).all(|two| two[0] < two[1])
    };
    if a.is_empty() || b.is_empty() || !increase(a) || !increase(b) {
        return None;
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::with_capacity(a.len().min(b.len()));
    while i < a.len() && j < b.len() {
        match number(&a[i]).cmp(&number(&b[j])) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                if is_same(&a[i], &b[j]) {
                    pairs.push((i, j));
                }
                (i, j) = (i + 1, j + 1);
            }
        }
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renumbered(a: &[Token], b: &[Token]) -> Option<Vec<(usize, usize)>> {
        super::renumbered(a, b, numbered(a, b).as_deref())
    }

    fn token(seq: Option<u32>, what: u32) -> Token {
        Token { what, size: 0, seq, step: None, end: 0, is_tied: true }
    }

    #[test]
    fn numbers_match_however_far_they_are_apart() {
        // All are alike, and the second rank began when 500 had run.
        let side = |first: u32, last: u32| (first..last).map(|seq| token(Some(seq), 1)).collect::<Vec<_>>();
        let found = pairs(&side(0, 600), &side(500, 1_100));
        assert_eq!((found.len(), found[0], found[99]), (100, (500, 0), (599, 99)));
    }

    #[test]
    fn numbers_that_begin_elsewhere_lose_against_order_and_time() {
        let side = |first: u32, at: i64, what: fn(u32) -> u32| {
            let token = |n: u32| Token { end: at + i64::from(n) * 1_000_000, ..token(Some(first + n), what(n)) };
            (0..20).map(token).collect::<Vec<_>>()
        };
        let a = side(500, 0, |n| n % 3);
        let all: Vec<(usize, usize)> = (0..20).map(|at| (at, at)).collect();
        assert_eq!(renumbered(&a, &side(0, 5_000, |n| n % 3)), Some(all.clone()));
        // Where a number is of different collectives on both sides, it is no number of the group.
        assert_eq!(renumbered(&a, &side(510, 5_000, |n| n % 3)), Some(all.clone()));
        // Those of another time, of other collectives, and with numbers in common that fit.
        assert_eq!(renumbered(&a, &side(0, 60_000_000_000, |n| n % 3)), None);
        assert_eq!(renumbered(&a, &side(0, 0, |_| 7)), None);
        assert_eq!(renumbered(&side(500, 0, |_| 7), &side(510, 0, |_| 7)), None);
        // Numbers in common, of unequal lengths of time: they pair what did not end together.
        let uneven = |first: u32, at: i64| {
            let token = |n: u32| Token { end: at + i64::from(n * n) * 100_000, ..token(Some(first + n), 1) };
            (0..20).map(token).collect::<Vec<_>>()
        };
        assert_eq!(renumbered(&uneven(500, 0), &uneven(503, 5_000)), Some(all));
        assert_eq!(renumbered(&uneven(500, 0), &uneven(500, 5_000)), None);
    }

    #[test]
    fn steps_of_equal_numbers_belong_together_unless_they_begin_elsewhere() {
        // Four steps of five collectives.
        let side = |first: u64, at: i64| {
            let token = |n: u64| Token { step: Some(first + n / 5), end: at + n as i64 * 1_000_000, ..token(None, 1) };
            (0..20).map(token).collect::<Vec<_>>()
        };
        let shifted = |by: usize| (by..20).map(|at| (at, at - by)).collect::<Vec<_>>();
        assert_eq!(pairs(&side(1, 0), &side(1, 7_000_000_000)), shifted(0));
        assert_eq!(pairs(&side(1, 0), &side(3, 10_000_000)), shifted(10));
        assert_eq!(pairs(&side(1, 0), &side(7, 30_000_000)), []);
        assert_eq!(pairs(&side(1, 0), &side(101, 5_000)), shifted(0));
    }

    #[test]
    fn a_number_of_another_operation_is_no_match() {
        let side = |kinds: [u32; 3]| [0, 1, 2].map(|at| token(Some(at), kinds[at as usize]));
        assert_eq!(pairs(&side([1, 2, 1]), &side([1, 3, 1])), [(0, 0), (2, 2)]);
    }

    #[test]
    fn numbers_that_repeat_do_not_say_which_is_which() {
        let number = |at: &i64| Some(*at);
        assert_eq!(by_number(&[1, 1, 2], &[1, 2, 3], number, |_, _| true), None);
        assert_eq!(by_number(&[1, 2], &[2, 3], |at| Some(*at).filter(|at| *at < 3), |_, _| true), None);
        assert_eq!(by_number(&[], &[1], number, |_, _| true), None);
    }
}
