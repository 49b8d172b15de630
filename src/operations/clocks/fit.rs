//! The estimate of the clocks: a weighted median polish over the ends of collectives.

use std::collections::BTreeMap;

use super::{RankClock, Residual};
use crate::operation::ranges::ranges;
use crate::operations::matching::Matches;
use crate::operations::rows::RankRows;
use crate::statistics::{median, weighted_median};
use crate::time::Ns;

/// Two ranks with fewer anchors in common are not aligned.
const ANCHORS: usize = 5;

/// Ranks whose residuals have a larger median are not aligned.
const MAX_RESIDUAL: Ns = Ns(50_000);

/// A slope is estimated only if the anchors cover at least this time, in ns.
const LONG: f64 = 10e9;

/// A clock is unsteady if the median residuals of its quarters differ by more, in ns.
const UNSTEADY: f64 = 5_000.0;

/// Offsets and moments are estimated in turn, at most this often.
const ROUNDS: usize = 20;

/// A collective by which clocks are compared: the positions of ranks, and their ends since the start of their traces.
pub(super) struct Anchor {
    pub(super) of: (usize, usize),
    pub(super) weight: f64,
    pub(super) ends: Vec<(usize, f64)>,
}

/// The estimate.
pub(super) struct Fit<'a> {
    anchors: &'a [Anchor],
    /// By rank.
    offsets: Vec<f64>,
    slopes: Vec<f64>,
    /// By rank: the lowest rank that is aligned with it.
    component: Vec<Option<usize>>,
    /// By rank: the anchors that it is a member of.
    of_rank: Vec<Vec<(usize, usize)>>,
    moments: Vec<f64>,
    middle: f64,
    span: f64,
    refused: Vec<(Vec<usize>, String)>,
}

impl<'a> Fit<'a> {
    pub(super) fn new(ranks: usize, anchors: &'a [Anchor], matches: &Matches) -> Self {
        let mut of_rank: Vec<Vec<(usize, usize)>> = vec![Vec::new(); ranks];
        for (at, anchor) in anchors.iter().enumerate() {
            anchor.ends.iter().enumerate().for_each(|(place, (rank, _))| of_rank[*rank].push((at, place)));
        }
        let ends = anchors.iter().flat_map(|anchor| anchor.ends.iter().map(|(_, end)| *end));
        let (least, most) = ends.fold((f64::MAX, f64::MIN), |(least, most), end| (least.min(end), most.max(end)));
        let mut fit = Fit {
            anchors,
            offsets: vec![0.0; ranks],
            slopes: vec![0.0; ranks],
            component: vec![None; ranks],
            of_rank,
            moments: vec![0.0; anchors.len()],
            middle: if anchors.is_empty() { 0.0 } else { (least + most) / 2.0 },
            span: (most - least).max(0.0),
            refused: Vec::new(),
        };
        fit.connect(matches);
        fit
    }

    /// Which ranks are connected by enough anchors, with a first estimate from one to the next.
    fn connect(&mut self, matches: &Matches) {
        let mut by_group: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, anchor) in self.anchors.iter().enumerate() {
            by_group.entry(anchor.of.0).or_default().push(at);
        }
        for start in 0..self.offsets.len() {
            if self.component[start].is_some() || self.of_rank[start].is_empty() {
                continue;
            }
            let (mut queue, mut found) = (vec![start], vec![start]);
            self.component[start] = Some(start);
            while let Some(rank) = queue.pop() {
                for (group, anchors) in
                    by_group.iter().filter(|(group, _)| matches.groups[**group].members.contains(&rank))
                {
                    for other in &matches.groups[*group].members {
                        if self.component[*other].is_some() {
                            continue;
                        }
                        let differences = self.differences(anchors, rank, *other);
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
    }

    /// How far one rank's ends are after another's.
    fn differences(&self, anchors: &[usize], rank: usize, other: usize) -> Vec<(f64, f64)> {
        let end = |anchor: &Anchor, wanted: usize| {
            let at = anchor.ends.binary_search_by_key(&wanted, |(rank, _)| *rank).ok()?;
            Some(anchor.ends[at].1)
        };
        let pair = |at: &usize| {
            let anchor = &self.anchors[*at];
            Some((end(anchor, other)? - end(anchor, rank)?, anchor.weight))
        };
        anchors.iter().filter_map(pair).collect()
    }

    /// An end on the common clock.
    fn aligned(&self, rank: usize, end: f64) -> f64 {
        end - self.offsets[rank] - self.slopes[rank] * (end - self.middle)
    }

    pub(super) fn polish(&mut self) {
        self.rounds(false);
        if self.span >= LONG {
            self.rounds(true);
            let earned: Vec<bool> = (0..self.offsets.len())
                .map(|rank| {
                    let deviation = median(self.residuals(rank).into_iter().map(|(_, residual, _)| residual.abs()));
                    self.slopes[rank].abs() * self.span > 3.0 * deviation
                })
                .collect();
            if earned.contains(&false) {
                self.slopes.iter_mut().zip(earned).filter(|(_, earned)| !earned).for_each(|(slope, _)| *slope = 0.0);
                self.rounds(false);
            }
        }
        self.refer();
    }

    /// Estimates the moments, the offsets and perhaps the slopes in turn.
    fn rounds(&mut self, with_slopes: bool) {
        for _ in 0..ROUNDS {
            self.estimate_moments();
            let mut change: f64 = 0.0;
            for rank in 0..self.offsets.len() {
                let residuals = self.residuals(rank);
                if residuals.is_empty() || self.component[rank].is_none() {
                    continue;
                }
                if with_slopes {
                    self.slopes[rank] += slope(&residuals);
                }
                let of = self.residuals(rank).into_iter().map(|(_, residual, weight)| (residual, weight));
                let shift = weighted_median(of.collect());
                self.offsets[rank] += shift;
                change = change.max(shift.abs());
            }
            if change < 0.5 && !with_slopes {
                break;
            }
        }
        self.estimate_moments();
    }

    fn estimate_moments(&mut self) {
        for (at, anchor) in self.anchors.iter().enumerate() {
            let ends = anchor.ends.iter().map(|(rank, end)| self.aligned(*rank, *end));
            self.moments[at] = median(ends);
        }
    }

    /// Of a rank: its ends, how far they are from the moments, and their weights.
    fn residuals(&self, rank: usize) -> Vec<(f64, f64, f64)> {
        let residual = |(at, place): &(usize, usize)| {
            let end = self.anchors[*at].ends[*place].1;
            (end, self.aligned(rank, end) - self.moments[*at], self.anchors[*at].weight)
        };
        self.of_rank[rank].iter().map(residual).collect()
    }

    /// Makes the lowest rank of each component the one whose clock is right.
    fn refer(&mut self) {
        for rank in (0..self.offsets.len()).rev() {
            let Some(first) = self.component[rank] else { continue };
            self.offsets[rank] -= self.offsets[first];
            self.slopes[rank] -= self.slopes[first];
        }
        self.estimate_moments();
    }

    pub(super) fn trust(&mut self, bases: &[Ns]) {
        let Some(first) = (0..self.offsets.len()).find(|rank| !self.of_rank[*rank].is_empty()) else {
            self.component = vec![Some(0); self.offsets.len()];
            return;
        };
        for (rank, base) in bases.iter().enumerate() {
            self.offsets[rank] = (bases[first] - *base).as_f64();
            self.component[rank] = Some(first);
        }
        self.estimate_moments();
    }

    pub(super) fn refuse_what_disagrees(&mut self) {
        let mut by_component: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rank, component) in self.component.iter().enumerate() {
            component.iter().for_each(|component| by_component.entry(*component).or_default().push(rank));
        }
        for ranks in by_component.into_values() {
            let residuals = ranks.iter().flat_map(|rank| self.residuals(*rank));
            let apart = median(residuals.map(|(_, residual, _)| residual.abs()));
            if apart > MAX_RESIDUAL.as_f64() {
                let why = format!("the ends of their collectives are {:.0} µs apart in the median", apart / 1000.0);
                ranks.iter().for_each(|rank| self.component[*rank] = None);
                self.refused.push((ranks, why));
            }
        }
    }

    pub(super) fn refused(&self, ranks: &[RankRows<'_>]) -> Vec<String> {
        let named = |of: &[usize]| ranges(&of.iter().map(|rank| ranks[*rank].rank).collect::<Vec<_>>());
        let mut lines: Vec<String> =
            self.refused.iter().map(|(of, why)| format!("ranks {} are not aligned: {why}", named(of))).collect();
        let known: Vec<usize> = self.refused.iter().flat_map(|(of, _)| of.iter().copied()).collect();
        let alone: Vec<usize> =
            (0..self.component.len()).filter(|rank| self.component[*rank].is_none() && !known.contains(rank)).collect();
        if !alone.is_empty() {
            let why = format!("fewer than {ANCHORS} matched collectives compare their clocks with other ranks'");
            lines.push(format!("ranks {} are not aligned: {why}", named(&alone)));
        }
        lines
    }

    pub(super) fn used(&self) -> usize {
        self.anchors.iter().filter(|anchor| anchor.ends.iter().all(|(rank, _)| self.component[*rank].is_some())).count()
    }

    pub(super) fn residual(&self) -> Option<Residual> {
        let aligned = (0..self.offsets.len()).filter(|rank| self.component[*rank].is_some());
        let mut all: Vec<f64> =
            aligned.flat_map(|rank| self.residuals(rank)).map(|(_, residual, _)| residual.abs()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| Ns::rounded(all[((all.len() - 1) as f64 * share) as usize]);
        (!all.is_empty()).then(|| Residual { median: at(0.5), p95: at(0.95), max: at(1.0) })
    }

    pub(super) fn clock(&self, rank: usize, bases: &[Ns]) -> RankClock {
        let Some(first) = self.component[rank] else { return RankClock::default() };
        let residuals = self.residuals(rank);
        let deviation = median(residuals.iter().map(|(_, residual, _)| residual.abs()));
        let quarter = |quarter: usize| {
            let (from, until) = (residuals.len() * quarter / 4, residuals.len() * (quarter + 1) / 4);
            median(residuals[from..until].iter().map(|(_, residual, _)| *residual))
        };
        let quarters: Vec<f64> = if residuals.len() < 8 { Vec::new() } else { (0..4).map(quarter).collect() };
        let most = quarters.iter().copied().fold(0.0, f64::max);
        let change = most - quarters.iter().copied().fold(0.0, f64::min);
        let is_unsteady = change > UNSTEADY;
        let uncertainty = if is_unsteady { deviation.max(change / 2.0) } else { deviation };
        RankClock {
            component: Some(first),
            offset: Ns::rounded(self.offsets[rank]) + bases[rank] - bases[first],
            slope: self.slopes[rank],
            middle: bases[rank] + Ns::rounded(self.middle),
            uncertainty: Ns::rounded(uncertainty),
            possible: (None, None),
            is_unsteady,
        }
    }
}

/// The median of the slopes between each residual of the first half and one of the second.
fn slope(residuals: &[(f64, f64, f64)]) -> f64 {
    let half = residuals.len() / 2;
    let pairs = residuals[..half].iter().zip(&residuals[half..]);
    let slopes = pairs.filter(|(a, b)| b.0 > a.0).map(|(a, b)| (b.1 - a.1) / (b.0 - a.0));
    median(slopes)
}
