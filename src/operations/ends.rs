//! How far ranks are from each other by the ends of their kernels: how much the difference of two ranks' ends varies, beside drift.
//!
//! Of few ranks each is compared with each. Of many, those are compared that may be near (`neighbours`), and each with some others: the number of comparisons
//! grows with the ranks. Lost rows are looked for at as many ranks as where there are few.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::alignment::{FASTEST, Token, by_order, pairs};
use super::nearness::Nearness;
use super::neighbours;
use super::random::Random;
use crate::statistics::middle;

/// At most this many rows of two ranks are compared.
pub(super) const ROWS: usize = 128;

/// Of more members than this not each is compared with each.
const FEW: usize = 256;

/// With fewer ends in common a line fits any differences.
const FEWEST: usize = 8;

/// A rank is compared anew with so many of those that are near to it by order: where a row is lost, only ends show which.
pub(super) const NEAR: usize = 32;

/// Of many members so many comparisons are made anew at most, as many as of 256.
const ANEW: usize = 8_192;

/// Of so many members each is compared with each by ends.
const ANEW_ALL: usize = 128;

/// Each of many members is compared with so many by chance, and with as many that are far from all.
const OTHERS: usize = 3;

/// How far members are from each other, in ns: each from each, or of many some.
pub(super) struct Distances<'m> {
    members: &'m [Vec<Token>],
    /// As [`ends`].
    ends: Vec<Vec<Option<i64>>>,
    /// By member: how its clock differs from the first one's at each of these, beside drift; empty until it is asked for.
    coordinates: Vec<Vec<f32>>,
    /// All of few members; of many those that ends and not order say.
    known: HashMap<(usize, usize), f64>,
    /// Of many members: they connect all.
    pairs: Vec<(f64, usize, usize)>,
}

impl<'m> Distances<'m> {
    /// Compares members by their kernels: by order, and by ends beside members that order brings near to none. If all are within `close`, no more is
    /// asked.
    pub(super) fn measure(members: &'m [Vec<Token>], tolerance: f64, close: f64) -> Self {
        if members.len() <= FEW {
            return Distances::all(members, tolerance);
        }
        let mut sample = Distances::of_chance(members);
        if sample.pairs.iter().any(|pair| pair.0.is_finite() && pair.0 > close) {
            sample.add_near();
            let near = sample.nearest();
            let is_lone: Vec<bool> = near.iter().map(|near| near.iter().all(|(of, _)| *of > tolerance)).collect();
            // Where most are near to none, lost rows are not why.
            if is_lone.iter().filter(|is_lone| **is_lone).count() * 2 <= members.len() {
                sample.compare_anew(near, &is_lone);
            }
        }
        sample
    }

    fn none(members: &'m [Vec<Token>]) -> Self {
        Distances { members, ends: ends(members), coordinates: Vec::new(), known: HashMap::new(), pairs: Vec::new() }
    }

    /// Each from each.
    fn all(members: &'m [Vec<Token>], tolerance: f64) -> Self {
        let mut found = Distances::none(members);
        for b in 0..members.len() {
            for a in 0..b {
                found.known.insert((a, b), by_order_of(&found.ends[a], &found.ends[b]));
            }
        }
        for a in 0..members.len() {
            let others = (0..members.len()).filter(|b| *b != a);
            let mut near: Vec<(f64, usize)> = others.map(|b| (found.between(a, b), b)).collect();
            near.sort_by(|b, c| b.0.total_cmp(&c.0));
            if members.len() > NEAR && near.first().is_some_and(|(distance, _)| *distance <= tolerance) {
                continue;
            }
            for (known, b) in near.into_iter().take(NEAR) {
                let distance = exactly(&members[a], &members[b]);
                if distance < known || known.is_infinite() {
                    found.known.insert((a.min(b), a.max(b)), distance);
                }
            }
        }
        found
    }

    /// Each with some others: these by chance, and those that are far from all. The farthest from one is the noisiest or the farthest away, and so is
    /// the farthest from that.
    fn of_chance(members: &'m [Vec<Token>]) -> Self {
        let mut sample = Distances::none(members);
        let mut from = 0;
        for _ in 0..OTHERS {
            let others = (0..members.len()).filter(|other| *other != from);
            let of_one: Vec<_> = others.map(|other| (sample.between(from, other), from, other)).collect();
            let finite = of_one.iter().filter(|pair| pair.0.is_finite());
            from = finite.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |pair| pair.2);
            sample.pairs.extend(of_one);
        }
        let mut random = Random(0xE4D5);
        let others = (0..members.len() * OTHERS).map(|at| (at / OTHERS, random.below(members.len())));
        for (member, other) in others.filter(|(member, other)| member != other) {
            sample.pairs.push((sample.between(member, other), member, other));
        }
        sample
    }

    pub(super) fn between(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (a.min(b), a.max(b));
        let known = if self.known.is_empty() { None } else { self.known.get(&(a, b)) };
        known.copied().unwrap_or_else(|| by_order_of(&self.ends[a], &self.ends[b]))
    }

    /// The greatest one, of those that can be compared.
    pub(super) fn greatest(&self) -> f64 {
        let all = self.known.values().chain(self.pairs.iter().map(|(distance, ..)| distance));
        all.copied().filter(|of| of.is_finite()).fold(0.0, f64::max)
    }

    /// The clear groups. Of many, what is in none and one of each that is in one are compared once more: where most that may be near are of one group, few others are
    /// compared with it.
    pub(super) fn clear(&self) -> Nearness {
        let between = |a: usize, b: usize| self.between(a, b);
        if self.pairs.is_empty() {
            return Nearness::clear(self.members.len(), between);
        }
        let found = Nearness::clear_of_pairs(self.members.len(), self.pairs.clone(), between);
        if found.groups.len() < 2 {
            return found;
        }
        let firsts: Vec<usize> = found.groups.iter().map(|group| group.members[0]).chain(found.alone).collect();
        let near = neighbours::pairs(firsts.len(), self.ends[0].len(), |at, by| self.coordinates[firsts[at]][by]);
        let near = near.into_iter().map(|(a, b)| (firsts[a], firsts[b]));
        let pairs = self.pairs.iter().copied().chain(near.map(|(a, b)| (between(a, b), a, b))).collect();
        Nearness::clear_of_pairs(self.members.len(), pairs, between)
    }

    /// Adds the distances of members that may be near, by how their clocks differ from the first one's at each of its kernels.
    fn add_near(&mut self) {
        let first = &self.ends[0];
        let of_member = |own: &Vec<Option<i64>>| {
            let line = Line::fit(both(first, own));
            let residual = |(a, b): (&Option<i64>, &Option<i64>)| Some(line.residual((*a)?, (*b)?) as f32);
            first.iter().zip(own).map(|both| residual(both).unwrap_or_default()).collect::<Vec<f32>>()
        };
        self.coordinates = self.ends.iter().map(of_member).collect();
        let near = neighbours::pairs(self.members.len(), first.len(), |member, at| self.coordinates[member][at]);
        self.pairs.extend(near.into_iter().map(|(a, b)| (by_order_of(&self.ends[a], &self.ends[b]), a, b)));
    }

    /// By member: those that it was compared with, nearest first.
    fn nearest(&self) -> Vec<Vec<(f64, usize)>> {
        let mut near: Vec<Vec<(f64, usize)>> = vec![Vec::new(); self.members.len()];
        for (distance, a, b) in &self.pairs {
            near[*a].push((*distance, *b));
            near[*b].push((*distance, *a));
        }
        for of_member in &mut near {
            of_member.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            of_member.dedup();
        }
        near
    }

    /// Compares these members by ends with those that order brings nearest.
    fn compare_anew(&mut self, near: Vec<Vec<(f64, usize)>>, is_lone: &[bool]) {
        let lone = is_lone.iter().filter(|is_lone| **is_lone).count();
        for (a, near) in near.into_iter().enumerate().filter(|(a, _)| is_lone[*a]) {
            for (known, b) in near.into_iter().take((ANEW / lone).clamp(1, NEAR)) {
                let distance = exactly(&self.members[a], &self.members[b]);
                if distance < known || known.is_infinite() {
                    self.known.insert((a.min(b), a.max(b)), distance);
                    self.pairs.push((distance, a, b));
                }
            }
        }
    }
}

/// The clear groups of members of which some may have lost rows: few are compared by ends each with each, of many these with those that order brings nearest.
pub(super) fn clear_by_ends(members: &[Vec<Token>], may_have_lost: &[bool]) -> Nearness {
    if members.len() <= ANEW_ALL {
        return Nearness::clear(members.len(), |a, b| exactly(&members[a], &members[b]));
    }
    let mut sample = Distances::of_chance(members);
    sample.add_near();
    sample.compare_anew(sample.nearest(), may_have_lost);
    let mut found = sample.clear();
    // Groups that lost nothing are whole.
    found.groups.retain(|group| group.members.iter().filter(|member| !may_have_lost[**member]).count() < 2);
    found
}

/// How far two members are from each other by ends.
pub(super) fn exactly(a: &[Token], b: &[Token]) -> f64 {
    let both = pairs(a, b);
    distance(both.iter().map(|(i, j)| (a[*i].end, b[*j].end)))
}

/// By member: the ends of its kernels, by the places of the first member's that order pairs them with.
fn ends(members: &[Vec<Token>]) -> Vec<Vec<Option<i64>>> {
    let Some(first) = members.first() else { return Vec::new() };
    let of_first = |own: &Vec<Token>| {
        let mut ends = vec![None; first.len()];
        by_order(first, own, |a, b| a.what == b.what)
            .into_iter()
            .for_each(|(place, at)| ends[place] = Some(own[at].end));
        ends
    };
    members.iter().map(of_first).collect()
}

fn both(a: &[Option<i64>], b: &[Option<i64>]) -> impl Iterator<Item = (i64, i64)> + Clone {
    a.iter().zip(b).filter_map(|(a, b)| Some(((*a)?, (*b)?)))
}

/// How far two members are from each other by order.
fn by_order_of(a: &[Option<i64>], b: &[Option<i64>]) -> f64 {
    distance(both(a, b))
}

/// How much the difference between the ends of two ranks' kernels varies beside drift, in ns: its median deviation. Infinite if they have too
/// few in common.
fn distance(both: impl Iterator<Item = (i64, i64)>) -> f64 {
    let both: SmallVec<[(i64, i64); ROWS]> = both.collect();
    if both.len() < FEWEST {
        return f64::INFINITY;
    }
    let (line, mut differences) = Line::beside_drift(&both);
    differences.iter_mut().for_each(|difference| *difference = (*difference - line.middle).abs());
    median_of(&mut differences)
}

/// The median, without memory of its own: it is asked for a thousand times as often as anything else here.
fn median_of(values: &mut [f64]) -> f64 {
    middle(values, f64::total_cmp).map_or(0.0, |middle| f64::midpoint(middle.lower, middle.upper))
}

/// The difference between two clocks, as it is at most ends.
#[derive(Default)]
pub(super) struct Line {
    /// An end on both.
    from: (i64, i64),
    slope: f64,
    middle: f64,
}

impl Line {
    pub(super) fn fit(both: impl Iterator<Item = (i64, i64)>) -> Self {
        Line::beside_drift(&both.collect::<SmallVec<[_; ROWS]>>()).0
    }

    /// The line, and by how much the clocks differ beside drift, in no order.
    fn beside_drift(both: &[(i64, i64)]) -> (Self, SmallVec<[f64; ROWS]>) {
        let Some(from) = both.first().copied() else { return (Line::default(), SmallVec::new()) };
        let mut line = Line { from, slope: 0.0, middle: 0.0 };
        let point = |(a, b): &(i64, i64)| (a.saturating_sub(from.0) as f64, line.residual(*a, *b));
        let points: SmallVec<[(f64, f64); ROWS]> = both.iter().map(point).collect();
        let (early, late) = points.split_at(points.len() / 2);
        let slopes = early.iter().zip(late).filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
        let slope = median_of(&mut slopes.collect::<SmallVec<[f64; ROWS]>>());
        line.slope = if slope.abs() < FASTEST { slope } else { 0.0 };
        let mut differences: SmallVec<[f64; ROWS]> =
            points.iter().map(|(time, difference)| difference - line.slope * time).collect();
        line.middle = median_of(&mut differences);
        (line, differences)
    }

    pub(super) fn residual(&self, a: i64, b: i64) -> f64 {
        let (a, b) = (a.saturating_sub(self.from.0), b.saturating_sub(self.from.1));
        b.saturating_sub(a) as f64 - self.slope * a as f64 - self.middle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks of groups of four, each on a clock of its own. The ends of a group vary by 200 ns, and each group is up to 40 us late at any kernel.
    fn members(count: usize, random: &mut Random) -> Vec<Vec<Token>> {
        let mut all = Vec::new();
        let mut ends: Vec<f64> = Vec::new();
        for member in 0..count {
            if member % 4 == 0 {
                ends = (0..48).map(|at| f64::from(at) * 100_000.0 + 40_000.0 * random.unit()).collect();
            }
            let ahead = 1e9 * random.unit();
            let end = |end: &f64| (end + ahead + 200.0 * random.normal()) as i64;
            let token = |end: i64| Token { what: 1, size: 0, seq: None, step: None, end, is_tied: true };
            all.push(ends.iter().map(end).map(token).collect());
        }
        all
    }

    fn groups(found: &Nearness) -> Vec<Vec<usize>> {
        found.groups.iter().map(|group| group.members.clone()).collect()
    }

    /// How many fours are groups. No group has members of two.
    fn whole(found: &Nearness) -> usize {
        let groups = groups(found);
        assert!(groups.iter().all(|group| group.iter().all(|member| member / 4 == group[0] / 4)), "{groups:?}");
        groups.iter().filter(|group| group.len() == 4).count()
    }

    #[test]
    fn many_ranks_are_grouped_by_comparisons_that_grow_with_them() {
        let mut random = Random(9);
        for count in [FEW + 4, 3_072] {
            let members = members(count, &mut random);
            let found = Distances::measure(&members, 2_000.0, 1_000.0);
            // In one of a hundred fours noise makes pairs.
            assert!(whole(&found.clear()) * 100 >= 98 * count / 4, "{} of {}", whole(&found.clear()), count / 4);
            assert!(found.greatest() > 5_000.0);
            assert!((1..=32 * count).contains(&found.pairs.len()), "{} of {count}", found.pairs.len());
        }
    }

    #[test]
    fn many_ranks_are_grouped_as_if_each_was_compared_with_each() {
        let members = members(FEW + 32, &mut Random(6));
        let found = Distances::measure(&members, 2_000.0, 1_000.0).clear();
        let exact = Distances::all(&members, 2_000.0).clear();
        assert_eq!(groups(&found), groups(&exact));
        // The nearest of all is hardly nearer than the nearest of those that were compared.
        let gaps = found.groups.iter().zip(&exact.groups).map(|(found, exact)| found.gap / exact.gap);
        let gaps: Vec<f64> = gaps.collect();
        assert!(gaps.iter().all(|of| (1.0..1.5).contains(of)), "{gaps:?}");
    }

    #[test]
    fn a_rank_that_lost_a_row_is_in_its_group() {
        let mut members = members(FEW + 64, &mut Random(4));
        for lacking in [5, 102, FEW + 1] {
            members[lacking].remove(20);
        }
        let found = Distances::measure(&members, 2_000.0, 1_000.0);
        let found = found.clear();
        // By order they are near to none; by ends to those that they happen to be compared with.
        assert!(whole(&found) * 100 >= 96 * members.len() / 4, "{}", whole(&found));
    }

    #[test]
    fn ranks_that_end_at_once_are_not_divided() {
        let one = members(4, &mut Random(2)).swap_remove(0);
        let all = vec![one; 3_000];
        let found = Distances::measure(&all, 2_000.0, 1_000.0);
        assert!((1..=2 * OTHERS * all.len()).contains(&found.pairs.len()) && found.greatest() == 0.0);
    }
}
