//! Pairs by the ends of collectives.
//!
//! Names and sizes alone do not show where a kernel is missing, because thousands of all-reduces in a row are alike. Their ends do: the
//! members of a collective end together, so the difference between the clocks hardly changes from one collective to the next. If one is
//! lost and the next is taken for it, the difference jumps by the time between two collectives, and by another time at each that follows.
//! So of all ways to pair them in order, the one is taken in which the difference changes least. Leaving two collectives out costs more
//! than any pair, so pairs are not left out because their times disagree; whether they do is decided by the clocks.

use super::{FASTEST, Token};
use crate::statistics::median;

/// What leaving out one collective costs, in ns of disagreement.
const LEFT_OUT: i64 = 30_000;

/// What the change of the difference between the clocks costs at most: less than leaving both out.
const MAX_CHANGE: i64 = 50_000;

/// What pairing two collectives of different sizes costs.
const OTHER_SIZE: i64 = 5_000;

/// How far one rank may be ahead in the count of collectives, beside the difference in how many they have.
const WINDOW: usize = 64;

/// At most so many pairs show whether a shift fits.
const SAMPLES: usize = 128;

const MAX_BAND: usize = 4096;

/// Clocks of hosts that are set over the network are nearer to each other than this, in ns. A greater difference has to fit better: twice as
/// well for each time this, up to [`MOST_APART`] times.
const APART: i64 = 1_000_000_000;
const MOST_APART: i64 = 10;

/// The pairs, in order.
pub(super) fn pairs(a: &[Token], b: &[Token]) -> Vec<(usize, usize)> {
    if are_alike(a, b) {
        return (0..a.len()).map(|at| (at, at)).collect();
    }
    let (_, by_order) = cheapest(a, b, None);
    // Where all fit alike, as with one pair, order decides, and then the clocks as they are.
    let mut candidates = shifted(a, b);
    candidates.sort_by_key(|candidate| candidate.difference.saturating_abs());
    candidates.splice(0..0, Expected::of(a, b, by_order.iter().copied()));
    candidates.sort_by_key(Expected::cost);
    let least = candidates.first().map_or(0, Expected::cost);
    candidates.retain(|candidate| candidate.cost() <= least.saturating_mul(CLOSE));
    let ways = candidates.iter().take(CANDIDATES).map(|expected| {
        let (cost, pairs) = cheapest(a, b, Some(expected));
        (cost.saturating_mul(expected.unlikely()), pairs)
    });
    ways.min_by_key(|(cost, _)| *cost).map_or(by_order, |(_, pairs)| pairs)
}

/// Of the expectations that fit about as well as the best, so many are tried.
const CANDIDATES: usize = 8;
const CLOSE: i64 = 4;

/// The difference between two clocks over time, as most pairs have it.
struct Expected {
    difference: i64,
    /// In ns per ns, from this time on.
    slope: f64,
    from: i64,
    /// How far apart the half of the differences is that agrees best, in ns.
    width: i64,
}

impl Expected {
    fn at(&self, end: i64) -> i64 {
        self.difference.saturating_add((self.slope * end.saturating_sub(self.from) as f64) as i64)
    }

    fn cost(&self) -> i64 {
        self.width.saturating_mul(self.unlikely())
    }

    fn unlikely(&self) -> i64 {
        1 + (self.difference.saturating_abs() / APART).min(MOST_APART)
    }

    /// The difference that most pairs agree on: pairs that are wrong have differences that vary with the time between collectives. So it is
    /// the middle of the shortest span with half of all differences.
    fn of(a: &[Token], b: &[Token], pairs: impl Iterator<Item = (usize, usize)>) -> Option<Self> {
        let tied = pairs.filter(|(i, _)| a[*i].is_tied);
        let points: Vec<(i64, i64)> = tied.map(|(i, j)| (a[i].end, b[j].end.saturating_sub(a[i].end))).collect();
        let from = points.first()?.0;
        let (early, late) = points.split_at(points.len() / 2);
        let slopes = early.iter().zip(late).filter(|(a, b)| b.0 > a.0);
        let slope = median(slopes.map(|(a, b)| b.1.saturating_sub(a.1) as f64 / b.0.saturating_sub(a.0) as f64));
        let slope = if slope.abs() < FASTEST { slope } else { 0.0 };
        let least = points.len().div_ceil(2).max(2).min(points.len());
        let shortest = |slope: f64| {
            let drift = |end: i64| (slope * end.saturating_sub(from) as f64) as i64;
            let mut differences: Vec<i64> =
                points.iter().map(|(end, difference)| difference.saturating_sub(drift(*end))).collect();
            differences.sort_unstable();
            let spans = differences.windows(least);
            let spans = spans.map(|span| (span[least - 1].saturating_sub(span[0]), span[least / 2]));
            spans.min_by_key(|(width, _)| *width).map(|(width, difference)| Expected { difference, slope, from, width })
        };
        let (steady, drifting) = (shortest(0.0)?, shortest(slope)?);
        // A slope of chance hardly shortens it.
        Some(if drifting.width < steady.width / 2 { drifting } else { steady })
    }
}

/// The differences between the clocks if all collectives of one side are those of the other so many places later, for each number: by order alone, a trace
/// that ends early might as well begin late, step after step.
fn shifted(a: &[Token], b: &[Token]) -> Vec<Expected> {
    let more = b.len().abs_diff(a.len()).min(MAX_BAND);
    let most = i64::try_from(WINDOW + more).unwrap_or(i64::MAX);
    let shift = |shift: i64| {
        let (skip_a, skip_b) = (usize::try_from(-shift).unwrap_or(0), usize::try_from(shift).unwrap_or(0));
        let common = a.len().saturating_sub(skip_a).min(b.len().saturating_sub(skip_b));
        if common == 0 || common * 4 < a.len().min(b.len()) * 3 {
            return None;
        }
        let places = (0..common).step_by(common.div_ceil(SAMPLES)).map(|at| (at + skip_a, at + skip_b));
        let (sampled, pairs) = (places.len(), places.filter(|(i, j)| a[*i].may_be(&b[*j])).collect::<Vec<_>>());
        // A lost one moves all that follow it, so half may differ.
        if pairs.len() * 2 > sampled { Expected::of(a, b, pairs.into_iter()) } else { None }
    };
    (-most..=most).filter_map(shift).collect()
}

/// Whether they are equal one by one, and none of the differences between the clocks jumps.
fn are_alike(a: &[Token], b: &[Token]) -> bool {
    let mut last = None;
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let now = Difference::of(a, b);
            let fits = !a.is_tied || last.is_none_or(|last| now.change(last) < MAX_CHANGE);
            if a.is_tied {
                last = Some(now);
            }
            a.may_be(b) && !a.has_other_size(b) && fits
        })
}

/// The difference between the clocks at an end on the first.
#[derive(Debug, Clone, Copy)]
struct Difference {
    end: i64,
    ahead: i64,
}

impl Difference {
    fn of(a: &Token, b: &Token) -> Self {
        Difference { end: a.end, ahead: b.end.saturating_sub(a.end) }
    }

    /// How much it has changed since another, in ns: by more than drift explains.
    fn change(self, last: Self) -> i64 {
        let drift = (FASTEST * self.end.saturating_sub(last.end) as f64).abs() as i64;
        self.ahead.saturating_sub(last.ahead).saturating_abs().saturating_sub(drift).max(0)
    }
}

/// The cheapest way to a place, and the last difference between the clocks on it.
#[derive(Debug, Clone, Copy)]
struct Way {
    cost: i64,
    difference: Option<Difference>,
}

const NO_WAY: Way = Way { cost: i64::MAX / 2, difference: None };

/// How a way came to a place.
const PAIRED: u8 = 1;
const WITHOUT_A: u8 = 2;
const WITHOUT_B: u8 = 3;

/// The cheapest pairs, by how much the difference between the clocks is not as expected at an end of `a`, or where nothing is expected by how
/// much it changes. A way is at `lead` before `a[at]` if `b[at + lead]` comes next on the other side.
fn cheapest(a: &[Token], b: &[Token], expected: Option<&Expected>) -> (i64, Vec<(usize, usize)>) {
    let more = b.len().abs_diff(a.len()).min(MAX_BAND);
    let (less, band) = (WINDOW + if b.len() < a.len() { more } else { 0 }, 2 * WINDOW + more + 1);
    // Each lead at the end leaves a different number of `b` out; the best is the one at the end of `b`. If the band does not reach it, there are no pairs.
    let end = (b.len() + less).checked_sub(a.len()).filter(|lead| *lead < band);
    let Some(end) = end else { return (NO_WAY.cost, Vec::new()) };
    // The place in `b` of a lead, counted from the lowest.
    let place = |at: usize, lead: usize| (at + lead).checked_sub(less).filter(|place| *place <= b.len());
    let mut ways = vec![NO_WAY; band];
    ways[less] = Way { cost: 0, difference: None };
    let mut steps = vec![0u8; (a.len() + 1) * band];
    for at in 0..=a.len() {
        for lead in 1..band {
            let cost = ways[lead - 1].cost + LEFT_OUT;
            if cost < ways[lead].cost && place(at, lead).is_some() {
                ways[lead] = Way { cost, difference: ways[lead - 1].difference };
                steps[at * band + lead] = WITHOUT_B;
            }
        }
        let Some(token) = a.get(at) else { break };
        let mut next = vec![NO_WAY; band];
        for lead in 0..band {
            let Way { cost, difference } = ways[lead];
            if cost >= NO_WAY.cost {
                continue;
            }
            let other = place(at, lead).and_then(|place| b.get(place)).filter(|other| token.may_be(other));
            if let Some(other) = other {
                let last = expected.map(|expected| Difference { end: token.end, ahead: expected.at(token.end) });
                let (change, difference) = change(token, other, last.or(difference));
                if cost + change < next[lead].cost {
                    next[lead] = Way { cost: cost + change, difference };
                    steps[(at + 1) * band + lead] = PAIRED;
                }
            }
            if lead > 0 && cost + LEFT_OUT < next[lead - 1].cost {
                next[lead - 1] = Way { cost: cost + LEFT_OUT, difference };
                steps[(at + 1) * band + lead - 1] = WITHOUT_A;
            }
        }
        ways = next;
    }
    (ways[end].cost, backwards(&steps, band, a.len(), end, less))
}

/// What pairing two costs, and the difference between the clocks from then on.
fn change(a: &Token, b: &Token, last: Option<Difference>) -> (i64, Option<Difference>) {
    let size = if a.has_other_size(b) { OTHER_SIZE } else { 0 };
    let now = Difference::of(a, b);
    // Equal numbers are stronger than any time.
    if a.seq.is_some() && a.seq == b.seq {
        return (size.min(LEFT_OUT / 10), if a.is_tied { Some(now) } else { last });
    }
    if !a.is_tied {
        return (size, last);
    }
    (last.map_or(0, |last| now.change(last)).min(MAX_CHANGE) + size, Some(now))
}

fn backwards(steps: &[u8], band: usize, end: usize, lead: usize, less: usize) -> Vec<(usize, usize)> {
    let (mut at, mut lead) = (end, lead);
    let mut found = Vec::new();
    loop {
        match steps[at * band + lead] {
            PAIRED => {
                at -= 1;
                found.push((at, at + lead - less));
            }
            WITHOUT_A => {
                at -= 1;
                lead += 1;
            }
            WITHOUT_B => lead -= 1,
            _ => break,
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: i64 = 5_000_000_000;

    /// Ends of a job in which collectives come every 90 us, and up to `random` ns later, on a rank whose clock is ahead.
    fn rank(ahead: i64, random: i64, without: &[usize]) -> Vec<Token> {
        let mut time = 0;
        let token = |at: usize| {
            time += 90_000 + ((at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as i64 % random;
            let end = time + ahead + (at as i64 * 31 + ahead) % 1000;
            Token { what: 1, size: 0, seq: None, step: None, end, is_tied: true }
        };
        (0..400).map(token).enumerate().filter(|(at, _)| !without.contains(at)).map(|(_, token)| token).collect()
    }

    /// The number of the collective among all 400.
    fn number(at: usize, without: &[usize]) -> usize {
        (0..400).filter(|number| !without.contains(number)).nth(at).unwrap()
    }

    #[test]
    fn a_lost_collective_costs_one_pair() {
        for (of_a, of_b) in [
            (vec![], vec![]),
            (vec![], vec![200]),
            (vec![3], vec![]),
            (vec![100], vec![300]),
            (vec![], vec![0]),
            (vec![], vec![1]),
            (vec![1], vec![]),
            (vec![398], vec![2]),
            (vec![], vec![399]),
            (vec![0, 1, 2, 3, 4], vec![397, 398, 399]),
            ((0..40).collect(), vec![]),
            (vec![10, 11, 12], vec![12, 200, 201, 390]),
        ] {
            for random in [20_000, 3_000] {
                let found = pairs(&rank(0, random, &of_a), &rank(1_000_000_007, random, &of_b));
                let wrong: Vec<_> =
                    found.iter().map(|(a, b)| (number(*a, &of_a), number(*b, &of_b))).filter(|(a, b)| a != b).collect();
                assert!(wrong.is_empty(), "{random} {of_a:?} {of_b:?}: {wrong:?}");
                let both = (0..400).filter(|at| !of_a.contains(at) && !of_b.contains(at)).count();
                assert_eq!(found.len(), both, "{random} {of_a:?} {of_b:?}");
            }
        }
    }

    #[test]
    fn numbers_are_stronger_than_times() {
        let token = |(seq, end)| Token { what: 1, size: 0, seq: Some(seq), step: None, end, is_tied: true };
        let a = [(1, 10), (2, 20), (3, 30), (4, 40)].map(token);
        let b = [(2, 10), (3, 20), (4, 30), (5, 40)].map(token);
        assert_eq!(pairs(&a, &b), [(1, 0), (2, 1), (3, 2)]);
        assert_eq!(pairs(&a, &[]), []);
        assert_eq!(pairs(&[], &b), []);
    }

    #[test]
    fn times_near_the_limits_are_no_overflow() {
        let token = |end| Token { what: 1, size: 0, seq: None, step: None, end, is_tied: true };
        let far = [i64::MIN, -5, 0, LONG, 2 * LONG, i64::MAX - 1, i64::MAX].map(token);
        for (a, b) in [(&far[..], &far[1..]), (&far[..6], &far[..]), (&far[2..], &[token(i64::MAX); 7][..])] {
            assert!(pairs(a, b).windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        }
        let expected = Expected { difference: i64::MAX, slope: 1e-4, from: 0, width: 0 };
        assert_eq!(expected.at(i64::MAX), i64::MAX);
        let (a, b) = ([i64::MIN, -5, LONG, i64::MAX].map(token), [i64::MAX; 4].map(token));
        assert!(Expected::of(&a, &b, (0..4).map(|at| (at, at))).is_some());
    }

    #[test]
    fn different_collectives_are_never_paired() {
        let token = |what| Token { what, size: 0, seq: None, step: None, end: 0, is_tied: false };
        assert_eq!(pairs(&[1, 2, 3].map(token), &[1, 3].map(token)), [(0, 0), (2, 1)]);
    }
}
