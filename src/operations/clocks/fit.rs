//! The estimate of the clocks: which ranks can be compared, the joint fit, and how well each clock is known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::messages::{Link, links};
use super::solve::{Anchor, Problem, Unknowns};
use super::{RankClock, Residual};
use crate::operation::ranges::ranges;
use crate::operations::alignment::FASTEST;
use crate::operations::matching::Matches;
use crate::operations::rows::RankRows;
use crate::statistics::{Deviation, median, weighted_median};
use crate::time::Ns;

/// Two ranks with fewer anchors in common are not aligned.
const ANCHORS: usize = 5;

/// Ranks whose ends are farther apart in the median are not aligned.
const MAX_RESIDUAL: Ns = Ns(50_000);

/// Slopes are estimated if some clock gains more than this over the trace, in ns. Ranks that come within it of each other come together
/// anyway.
const GAIN: f64 = 5_000.0;

/// A slope is clear if it is so many of its standard deviations, and what the clock gains so many of those of its ends: who comes late ends
/// an all-to-all later, so that a trend of the waiting looks like a slope of that size.
const CLEAR: f64 = 4.0;

/// A clock is unsteady if the median residuals of its quarters differ by more, in ns.
const UNSTEADY: f64 = 5_000.0;

/// The clocks are fitted to at least one anchor from each of so many parts of a group's.
const PARTS: usize = 256;

#[derive(Default)]
pub(super) struct Fit {
    anchors: Vec<Anchor>,
    /// Which of them the clocks are fitted to.
    fitted: Vec<usize>,
    /// By rank.
    offsets: Vec<f64>,
    slopes: Vec<f64>,
    /// By rank: the lowest rank that is aligned with it.
    component: Vec<Option<usize>>,
    /// By rank: the anchors that it is a member of.
    of_rank: Vec<Vec<(usize, usize)>>,
    moments: Vec<f64>,
    middle: f64,
    half: f64,
    /// By rank: how far the offset may be wrong.
    known: Vec<f64>,
    refused: Vec<(Vec<usize>, String)>,
}

impl Fit {
    pub(super) fn new(ranks: usize, anchors: Vec<Anchor>, matches: &Matches) -> Self {
        let ends = anchors.iter().flat_map(|anchor| anchor.ends.iter().map(|(_, end)| *end));
        let (least, most) = ends.fold((f64::MAX, f64::MIN), |(least, most), end| (least.min(end), most.max(end)));
        let mut fit = Fit {
            offsets: vec![0.0; ranks],
            slopes: vec![0.0; ranks],
            component: vec![None; ranks],
            of_rank: vec![Vec::new(); ranks],
            moments: vec![0.0; anchors.len()],
            middle: if anchors.is_empty() { 0.0 } else { (least + most) / 2.0 },
            half: ((most - least) / 2.0).max(1.0),
            known: vec![0.0; ranks],
            anchors,
            ..Fit::default()
        };
        for (at, anchor) in fit.anchors.iter().enumerate() {
            anchor.ends.iter().enumerate().for_each(|(place, (rank, _))| fit.of_rank[*rank].push((at, place)));
        }
        fit.connect(matches);
        fit
    }

    /// Which ranks are connected by enough anchors, with a first estimate from one to the next.
    fn connect(&mut self, matches: &Matches) {
        let by_group = self.by_group();
        let mut groups_of: Vec<Vec<usize>> = vec![Vec::new(); self.offsets.len()];
        for group in by_group.keys() {
            matches.groups[*group].members.iter().for_each(|rank| groups_of[*rank].push(*group));
        }
        for start in 0..self.offsets.len() {
            if self.component[start].is_some() || self.of_rank[start].is_empty() {
                continue;
            }
            let (mut queue, mut found) = (vec![start], vec![start]);
            self.component[start] = Some(start);
            while let Some(rank) = queue.pop() {
                for group in &groups_of[rank] {
                    for other in &matches.groups[*group].members {
                        if self.component[*other].is_some() {
                            continue;
                        }
                        let differences = self.differences(&by_group[group], rank, *other);
                        if differences.len() < ANCHORS {
                            continue;
                        }
                        self.component[*other] = Some(start);
                        self.offsets[*other] = self.offsets[rank] + weighted_median(differences);
                        queue.push(*other);
                        found.push(*other);
                    }
                }
            }
            if found.len() == 1 {
                self.component[start] = None;
            }
        }
        self.fitted = by_group.into_values().flatten().collect();
    }

    /// By group: the anchors that the clocks are fitted to. Each part of a group's has one with most of its members, and more until each
    /// member is there that the part has at all.
    fn by_group(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut by_group: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, anchor) in self.anchors.iter().enumerate() {
            by_group.entry(anchor.of.0).or_default().push(at);
        }
        for anchors in by_group.values_mut() {
            let mut kept = Vec::new();
            for part in anchors.chunks(anchors.len().div_ceil(PARTS)) {
                let mut fullest = part.to_vec();
                fullest.sort_by_key(|at| Reverse(self.anchors[*at].ends.len()));
                let mut seen = BTreeSet::new();
                let mut is_new = |at: &usize| {
                    let before = seen.len();
                    seen.extend(self.anchors[*at].ends.iter().map(|(rank, _)| *rank));
                    seen.len() > before
                };
                fullest.retain(&mut is_new);
                kept.extend(fullest);
            }
            kept.sort_unstable();
            *anchors = kept;
        }
        by_group
    }

    /// How far one rank's ends are after another's.
    fn differences(&self, anchors: &[usize], rank: usize, other: usize) -> Vec<(f64, f64)> {
        let end = |anchor: &Anchor, wanted: usize| {
            let at = anchor.ends.binary_search_by_key(&wanted, |(rank, _)| *rank).ok()?;
            Some(anchor.ends[at].1)
        };
        let pair = |at: &usize| {
            let anchor = &self.anchors[*at];
            Some((end(anchor, other)? - end(anchor, rank)?, 1.0 / anchor.sharpness.powi(2)))
        };
        anchors.iter().filter_map(pair).collect()
    }

    /// An end on the common clock.
    fn aligned(&self, rank: usize, end: f64) -> f64 {
        end - self.offsets[rank] - self.slopes[rank] * (end - self.middle)
    }

    /// Fits offsets, and slopes in the components where clocks drift.
    pub(super) fn solve(&mut self) {
        let fitted: Vec<Anchor> = self.fitted.iter().flat_map(|at| self.split(*at)).collect();
        let mut problem = Problem::new(fitted.iter(), self.middle, self.half);
        let ranks = self.offsets.len();
        let mut steady: Vec<Unknowns> = self.offsets.iter().map(|offset| [*offset, 0.0]).collect();
        problem.solve(&mut steady, &self.free(&vec![false; ranks]));
        let mut drifting = steady.clone();
        problem.solve(&mut drifting, &self.free(&vec![true; ranks]));
        let has_slope = self.with_slope(&drifting, &problem.deviations(ranks));
        let choose = |((has_slope, drifting), steady): ((&bool, &Unknowns), Unknowns)| {
            if *has_slope { *drifting } else { steady }
        };
        let mut clocks: Vec<Unknowns> = has_slope.iter().zip(&drifting).zip(steady).map(choose).collect();
        if has_slope.contains(&true) {
            problem.solve(&mut clocks, &self.free(&has_slope));
        }
        self.offsets = clocks.iter().map(|clock| clock[0]).collect();
        self.slopes = clocks.iter().map(|clock| clock[1] / self.half).collect();
        self.estimate_moments();
    }

    /// Which unknowns are fitted, if these ranks have a slope: those of all ranks but the first of each component.
    fn free(&self, has_slope: &[bool]) -> Vec<[bool; 2]> {
        let is_free = |rank: usize| self.component[rank].is_some_and(|first| first != rank);
        has_slope.iter().enumerate().map(|(rank, slope)| [is_free(rank), is_free(rank) && *slope]).collect()
    }

    /// Which ranks have a slope that is clear, in components where one matters and all are possible.
    fn with_slope(&self, clocks: &[Unknowns], deviations: &[Unknowns]) -> Vec<bool> {
        let is_clear = |rank: usize| clocks[rank][1].abs() > CLEAR * deviations[rank][1];
        let (mut matters, mut possible) = (vec![false; clocks.len()], vec![true; clocks.len()]);
        for (rank, first) in self.component.iter().enumerate() {
            let Some(first) = *first else { continue };
            let gain = clocks[rank][1].abs();
            matters[first] |= 2.0 * gain > GAIN.max(CLEAR * deviations[rank][0]) && is_clear(rank);
            possible[first] &= gain < FASTEST * self.half;
        }
        let has_slope = |(rank, first): (usize, &Option<usize>)| {
            first.is_some_and(|first| matters[first] && possible[first]) && is_clear(rank)
        };
        self.component.iter().enumerate().map(has_slope).collect()
    }

    /// The anchor with the ranks of one component each.
    fn split(&self, at: usize) -> Vec<Anchor> {
        let Anchor { of, sharpness, ends } = &self.anchors[at];
        let mut parts: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (rank, end) in ends {
            self.component[*rank].iter().for_each(|first| parts.entry(*first).or_default().push((*rank, *end)));
        }
        let parts = parts.into_values().filter(|ends| ends.len() > 1);
        parts.map(|ends| Anchor { of: *of, sharpness: *sharpness, ends }).collect()
    }

    fn estimate_moments(&mut self) {
        for (at, anchor) in self.anchors.iter().enumerate() {
            let ends = anchor.ends.iter().map(|(rank, end)| self.aligned(*rank, *end));
            self.moments[at] = median(ends);
        }
    }

    /// Of a rank: its ends, and how far they are from the moments.
    fn residuals(&self, rank: usize) -> Vec<(f64, f64)> {
        let residual = |(at, place): &(usize, usize)| {
            let end = self.anchors[*at].ends[*place].1;
            (end, self.aligned(rank, end) - self.moments[*at])
        };
        self.of_rank[rank].iter().map(residual).collect()
    }

    /// How far a rank's ends are from those of the others: a moment lies between them, so that of two ranks a residual is half the distance.
    fn apart(&self, rank: usize) -> Vec<f64> {
        let apart = |((at, _), (_, residual)): (&(usize, usize), (f64, f64))| {
            let members = self.anchors[*at].ends.len() as f64;
            residual.abs() * members / (members - 1.0)
        };
        self.of_rank[rank].iter().zip(self.residuals(rank)).map(apart).collect()
    }

    /// By rank: how far the offset may be wrong. A skew of a rank in a group does not average out over many collectives, so each clock
    /// is known as well as from one collective of each group on the best way from the reference: within two standard deviations.
    fn uncertainties(&self) -> Vec<f64> {
        let ranks = self.offsets.len();
        // By group and by rank: the variance of the rank's ends in the group.
        let mut of_group: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        let mut of_rank: Vec<Vec<(usize, f64)>> = vec![Vec::new(); ranks];
        for (rank, anchors) in self.of_rank.iter().enumerate() {
            let mut residuals: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for ((at, _), (_, residual)) in anchors.iter().zip(self.residuals(rank)) {
                let Anchor { of, ends, .. } = &self.anchors[*at];
                // A residual is from a moment that the rank's own end has moved.
                let shared = (ends.len() as f64 / (ends.len() as f64 - 1.0)).sqrt();
                residuals.entry(of.0).or_default().push(residual.abs() * shared);
            }
            for (group, residuals) in residuals {
                of_group.entry(group).or_default().push((rank, (Deviation::SCALE * median(residuals)).powi(2)));
            }
        }
        for (group, members) in &mut of_group {
            // Of few ends one rank's may agree by chance.
            let common = median(members.iter().map(|(_, variance)| *variance));
            for (rank, variance) in members {
                *variance = variance.max(common);
                of_rank[*rank].push((*group, *variance));
            }
        }
        let mut known: Vec<Option<f64>> = vec![None; ranks];
        let mut passed: BTreeMap<usize, f64> = BTreeMap::new();
        // Variances in whole square nanoseconds can be ordered.
        let first = |rank: &usize| self.component[*rank] == Some(*rank);
        let mut ways: BinaryHeap<(Reverse<u64>, usize)> =
            (0..ranks).filter(first).map(|rank| (Reverse(0), rank)).collect();
        while let Some((Reverse(variance), rank)) = ways.pop() {
            if known[rank].is_some() {
                continue;
            }
            known[rank] = Some(2.0 * (variance as f64).sqrt());
            for (group, own) in &of_rank[rank] {
                let here = variance as f64 + own;
                if passed.get(group).is_some_and(|before| *before <= here) {
                    continue;
                }
                passed.insert(*group, here);
                let unknown = of_group[group].iter().filter(|(other, _)| known[*other].is_none());
                ways.extend(unknown.map(|(other, variance)| (Reverse((here + variance) as u64), *other)));
            }
        }
        known.into_iter().map(Option::unwrap_or_default).collect()
    }

    pub(super) fn trust(&mut self, bases: &[Ns]) {
        // Without a collective that shows a clock, the lowest rank's is as good as any.
        let first = (0..self.offsets.len()).find(|rank| !self.of_rank[*rank].is_empty()).unwrap_or(0);
        for (rank, base) in bases.iter().enumerate() {
            self.offsets[rank] = (bases[first] - *base).as_f64();
            self.component[rank] = Some(first);
        }
        self.estimate_moments();
        self.known = self.uncertainties();
    }

    pub(super) fn refuse_what_disagrees(&mut self) {
        let mut by_component: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rank, component) in self.component.iter().enumerate() {
            component.iter().for_each(|component| by_component.entry(*component).or_default().push(rank));
        }
        for ranks in by_component.into_values() {
            let apart = median(ranks.iter().flat_map(|rank| self.apart(*rank)));
            if apart > MAX_RESIDUAL.as_f64() {
                let why = format!("the ends of their collectives are {:.0} µs apart in the median", apart / 1000.0);
                ranks.iter().for_each(|rank| self.component[*rank] = None);
                self.refused.push((ranks, why));
            }
        }
        self.known = self.uncertainties();
    }

    /// Joins components whose ranks send to each other.
    pub(super) fn connect_by_messages(&mut self, ranks: &[RankRows<'_>], matches: &Matches, bases: &[Ns]) {
        let known = links(ranks, matches, |rank, end| self.aligned(rank, (end - bases[rank]).as_f64()));
        let disagrees = |rank: &usize| self.refused.iter().any(|(of, _)| of.contains(rank));
        let is_known = |link: &Link| link.error <= MAX_RESIDUAL.as_f64() && !link.ranks.iter().any(disagrees);
        let known: Vec<Link> = known.into_iter().filter(is_known).collect();
        let mut moved = vec![0.0; self.offsets.len()];
        for Link { ranks: [low, high], ahead, error } in known {
            let [first, second] = [low, high].map(|rank| self.component[rank].unwrap_or(rank));
            // What was joined before has moved.
            let ahead = ahead - moved[high] + moved[low];
            let (into, other, ahead) = if first < second { (first, second, ahead) } else { (second, first, -ahead) };
            if into == other {
                continue;
            }
            self.component[into] = Some(into);
            for (rank, moved) in moved.iter_mut().enumerate() {
                if self.component[rank].unwrap_or(rank) == other {
                    (self.offsets[rank], *moved) = (self.offsets[rank] + ahead, *moved + ahead);
                    (self.component[rank], self.known[rank]) = (Some(into), self.known[rank].hypot(error));
                }
            }
        }
    }

    pub(super) fn refused(&self, ranks: &[RankRows<'_>]) -> Vec<String> {
        let line = |of: &[usize], why: &str| {
            let named = ranges(&of.iter().map(|rank| ranks[*rank].rank).collect::<Vec<_>>());
            let (noun, verb) = if of.len() == 1 { ("rank", "is") } else { ("ranks", "are") };
            format!("{noun} {named} {verb} not aligned: {why}")
        };
        let mut lines: Vec<String> = self.refused.iter().map(|(of, why)| line(of, why)).collect();
        let known: Vec<usize> = self.refused.iter().flat_map(|(of, _)| of.iter().copied()).collect();
        let alone: Vec<usize> =
            (0..self.component.len()).filter(|rank| self.component[*rank].is_none() && !known.contains(rank)).collect();
        // One by itself has no clock to be aligned with.
        if !alone.is_empty() && ranks.len() > 1 {
            let why = format!(
                "fewer than {ANCHORS} matched collectives compare their clocks with other ranks', and no messages in both \
                 directions do so within 50 µs; for ranks of one host, --clock trust compares them"
            );
            lines.push(line(&alone, &why));
        }
        lines
    }

    pub(super) fn used(&self) -> usize {
        self.anchors.iter().filter(|anchor| anchor.ends.iter().all(|(rank, _)| self.component[*rank].is_some())).count()
    }

    pub(super) fn residual(&self) -> Residual {
        let aligned = (0..self.offsets.len()).filter(|rank| self.component[*rank].is_some());
        let mut all: Vec<f64> =
            aligned.flat_map(|rank| self.residuals(rank)).map(|(_, residual)| residual.abs()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| Some(Ns::rounded(all[(all.len().checked_sub(1)? as f64 * share) as usize]));
        Residual { residual_median_ns: at(0.5), residual_p95_ns: at(0.95), residual_max_ns: at(1.0) }
    }

    pub(super) fn clocks(&self, bases: &[Ns]) -> Vec<RankClock> {
        (0..self.offsets.len()).map(|rank| self.clock(rank, self.known[rank], bases)).collect()
    }

    fn clock(&self, rank: usize, known: f64, bases: &[Ns]) -> RankClock {
        let Some(first) = self.component[rank] else { return RankClock::default() };
        let residuals = self.residuals(rank);
        let quarter = |quarter: usize| {
            let (from, until) = (residuals.len() * quarter / 4, residuals.len() * (quarter + 1) / 4);
            median(residuals[from..until].iter().map(|(_, residual)| *residual))
        };
        let quarters: Vec<f64> = if residuals.len() < 8 { Vec::new() } else { (0..4).map(quarter).collect() };
        let most = quarters.iter().copied().fold(0.0, f64::max);
        let change = most - quarters.iter().copied().fold(0.0, f64::min);
        let is_unsteady = change > UNSTEADY;
        let uncertainty = if is_unsteady { known.max(change / 2.0) } else { known };
        // A trace that is cut has its middle elsewhere.
        let ends = residuals.iter().map(|(end, _)| *end);
        let (least, most) = ends.fold((f64::MAX, f64::MIN), |(least, most), end| (least.min(end), most.max(end)));
        let middle = if self.slopes[rank] == 0.0 { self.middle } else { (least + most) / 2.0 };
        let offset = self.offsets[rank] + self.slopes[rank] * (middle - self.middle);
        RankClock {
            component: Some(first),
            offset: Ns::rounded(offset) + bases[rank] - bases[first],
            slope: self.slopes[rank],
            middle: bases[rank] + Ns::rounded(middle),
            uncertainty: Ns::rounded(uncertainty),
            possible: (None, None),
            is_unsteady,
        }
    }
}
