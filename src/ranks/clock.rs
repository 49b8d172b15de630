//! How the ranks' clocks differ, and how well that is known.
//!
//! Each rank's times are its host's clock, converted for its GPU. The ends of matched all-reduces agree within microseconds, so a
//! weighted median polish over them gives one offset per rank, and where the trace is long and the ends drift apart, a slope. `bounds`
//! says within which limits an offset can be at all. Where the ends do not agree, the estimate is refused, and waiting is known from
//! the lengths of kernels alone.

use std::collections::BTreeMap;

use serde::Serialize;

use super::bounds::{Constraint, Impossible, possible};
use super::job::Job;
use super::matching::{Column, Fault, Matches, Unit};
use super::part::Tie;
use crate::time::Ns;

/// How the clocks of different ranks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockMode {
    /// By the ends of collectives.
    #[default]
    Align,
    /// As they are.
    Trust,
    /// Not at all.
    None,
}

/// The clocks of a job's ranks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Clocks {
    /// What was asked for.
    pub mode: ClockMode,
    /// By rank.
    pub ranks: Vec<RankClock>,
    /// How many collectives the estimate is from.
    pub anchors: u64,
    /// How far their ends are from the moment at which all should end.
    pub residual: Option<Residual>,
    /// Why ranks are not aligned.
    pub refused: Vec<String>,
}

/// One rank's clock.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct RankClock {
    /// The lowest rank whose clock it is compared with; `None` if it is not aligned with any.
    pub component: Option<usize>,
    /// How far it is ahead of that one's, in the middle of its trace.
    pub offset: Ns,
    /// How much faster it is, in ns per ns; 0 unless that is clear.
    pub slope: f64,
    /// Where the slope is 0 on the rank's clock.
    middle: Ns,
    /// How far the offset may be wrong, by how much the ends disagree.
    pub uncertainty: Ns,
    /// How far the offset could be lower and higher, by what is possible at all.
    pub possible: (Option<Ns>, Option<Ns>),
    /// Whether the offset changes over the trace by more than a slope explains.
    pub is_unsteady: bool,
}

/// How far the ends of one collective are apart once the clocks are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Residual {
    /// Half are closer than this.
    #[serde(rename = "median_ns")]
    pub median: Ns,
    /// Of 100 ends 95 are closer.
    #[serde(rename = "p95_ns")]
    pub p95: Ns,
    /// The worst.
    #[serde(rename = "max_ns")]
    pub max: Ns,
}

/// With fewer collectives two ranks are not aligned.
const ANCHORS: usize = 5;

/// With a larger median the ends do not agree.
const MAX_RESIDUAL: Ns = Ns(50_000);

/// A slope takes a trace of this length.
const LONG: f64 = 10e9;

/// A change of the offset by this is not constant any more.
const UNSTEADY: f64 = 5_000.0;

/// How often offsets and moments are estimated in turn.
const ROUNDS: usize = 20;

/// A collective by which clocks are compared: the positions of ranks, and their ends since the start of their traces.
struct Anchor {
    of: (usize, usize),
    weight: f64,
    ends: Vec<(usize, f64)>,
}

impl RankClock {
    /// The moment of one of its times on the clock of the lowest rank.
    pub fn aligned(&self, time: Ns) -> Ns {
        let drift = if self.slope == 0.0 { Ns::ZERO } else { Ns::rounded(self.slope * (time - self.middle).as_f64()) };
        time - self.offset - drift
    }
}

impl Clocks {
    /// With these offsets, to check what follows from them.
    pub fn given(offsets: &[Ns]) -> Self {
        let clock = |offset: &Ns| RankClock { component: Some(0), offset: *offset, ..RankClock::default() };
        Clocks { ranks: offsets.iter().map(clock).collect(), ..Clocks::default() }
    }

    /// Whether two ranks can be compared by their clocks.
    pub fn are_comparable(&self, a: usize, b: usize) -> bool {
        let component = |rank: usize| self.ranks.get(rank).and_then(|clock| clock.component);
        component(a).is_some() && component(a) == component(b)
    }

    /// Whether all ranks of a group can be compared.
    pub fn cover(&self, unit: &Unit) -> bool {
        unit.members.windows(2).all(|pair| self.are_comparable(pair[0], pair[1]))
    }

    /// How far apart two ends may be without meaning anything.
    pub fn uncertainty(&self) -> Ns {
        self.residual.map_or(Ns::ZERO, |residual| residual.median)
    }

    /// Those of a job. A collective whose times are impossible is taken out of the matches, one for each group; a rank whose times are
    /// impossible even then is taken out of the job, and `matches` must be made again if this returns `true`.
    ///
    /// # Errors
    /// The proof that the traces do not fit together.
    pub fn of(job: &mut Job, matches: &mut Matches, mode: ClockMode) -> Result<(Self, bool), Unfit> {
        let mut excluded: Vec<usize> = Vec::new();
        let mut first_proof: Option<Unfit> = None;
        loop {
            let clocks = Clocks::estimate(job, matches, mode);
            if mode == ClockMode::None {
                return Ok((clocks, false));
            }
            let constraints = constraints(job, matches, &clocks);
            let first: Vec<usize> =
                clocks.ranks.iter().enumerate().map(|(at, clock)| clock.component.unwrap_or(at)).collect();
            match possible(job.ranks.len(), &constraints, &first) {
                Ok(found) => return Ok((clocks.within(&found.intervals), false)),
                Err(proof) => {
                    let unfit = first_proof.get_or_insert_with(|| Unfit::of(job, matches, &proof)).clone();
                    let again = proof.cycle.iter().filter(|(_, (unit, _), _)| !excluded.contains(unit));
                    let worst = again.map(|(_, of, _)| *of).max_by_key(|of| clocks.disagreement(job, matches, *of));
                    if let Some((unit, column)) = worst {
                        excluded.push(unit);
                        matches.units[unit].columns[column].fault = Some(Fault::ImpossibleTimes);
                        continue;
                    }
                    let Some(rank) = misfit(job.ranks.len(), &constraints, &proof) else { return Err(unfit) };
                    job.refuse(rank, format!("its times are impossible beside those of other ranks: {unfit}"));
                    return Ok((clocks, true));
                }
            }
        }
    }

    /// The offsets without any proof of what is possible.
    fn estimate(job: &Job, matches: &Matches, mode: ClockMode) -> Self {
        let ranks = job.ranks.len();
        let none = Clocks { mode, ranks: vec![RankClock::default(); ranks], ..Clocks::default() };
        if mode == ClockMode::None {
            return none;
        }
        let bases = bases(job);
        let anchors = anchors(job, matches, &bases);
        let mut fit = Fit::new(ranks, &anchors, matches);
        if mode == ClockMode::Align {
            fit.polish();
            fit.refuse_what_disagrees();
        } else {
            fit.trust(&bases);
        }
        let refused = fit.refused(job);
        let clocks = (0..ranks).map(|rank| fit.clock(rank, &bases)).collect();
        let residual = fit.residual();
        Clocks { ranks: clocks, anchors: fit.used() as u64, residual, refused, ..none }
    }

    /// With the offsets clipped to what is possible.
    fn within(mut self, intervals: &[(Option<Ns>, Option<Ns>)]) -> Self {
        for (clock, (least, most)) in self.ranks.iter_mut().zip(intervals) {
            clock.possible = (*least, *most);
            if self.mode == ClockMode::Trust || clock.component.is_none() {
                continue;
            }
            let correction = Ns::ZERO.max(least.unwrap_or(Ns::MIN)).min(most.unwrap_or(Ns::MAX));
            clock.offset = clock.offset - correction;
            clock.possible = (least.map(|least| least - correction), most.map(|most| most - correction));
        }
        self
    }

    /// How far apart the ends of a collective are.
    fn disagreement(&self, job: &Job, matches: &Matches, (unit, column): (usize, usize)) -> Ns {
        let (unit, column) = (&matches.units[unit], &matches.units[unit].columns[column]);
        let ends = (0..unit.members.len())
            .filter_map(|member| Some(self.ranks[unit.members[member]].aligned(unit.row(job, column, member)?.end())));
        let (least, most) = ends.fold((Ns::MAX, Ns::MIN), |(least, most), end| (least.min(end), most.max(end)));
        most - least
    }
}

/// When the first collective of each rank started, on its own clock.
fn bases(job: &Job) -> Vec<Ns> {
    job.parts.iter().map(|part| part.rows.first().map_or(Ns::ZERO, |row| row.start)).collect()
}

/// The collectives whose ends are compared: of several ranks, synchronising, alone on their group's ranks.
fn anchors(job: &Job, matches: &Matches, bases: &[Ns]) -> Vec<Anchor> {
    let mut found = Vec::new();
    for (number, unit) in matches.units.iter().enumerate() {
        for (at, column) in unit.columns.iter().enumerate() {
            if !column.tie.synchronises() || column.fault.is_some() || column.present() < 2 || overlaps(job, unit, at) {
                continue;
            }
            let rows = (0..unit.members.len()).filter_map(|member| Some((member, unit.row(job, column, member)?)));
            let transfer = rows.clone().map(|(_, row)| row.dur).min().unwrap_or_default();
            let end = |(member, row): (usize, &super::part::Row)| {
                let rank = unit.members[member];
                (rank, (row.end() - bases[rank]).as_f64())
            };
            // A collective that takes long ends less sharply.
            let sharpness = 1_000.0 + 0.05 * transfer.as_f64();
            found.push(Anchor {
                of: (number, at),
                weight: 1.0 / (sharpness * sharpness),
                ends: rows.map(end).collect(),
            });
        }
    }
    found
}

/// Whether another collective of the group runs at the same time on one of its ranks.
fn overlaps(job: &Job, unit: &Unit, at: usize) -> bool {
    let column = &unit.columns[at];
    let touches = |other: Option<&Column>, member: usize, row: &super::part::Row| {
        let other = other.and_then(|other| unit.row(job, other, member));
        other.is_some_and(|other| other.start < row.end() && row.start < other.end())
    };
    (0..unit.members.len()).any(|member| {
        let Some(row) = unit.row(job, column, member) else { return false };
        let before = at.checked_sub(1).map(|before| &unit.columns[before]);
        touches(before, member, row) || touches(unit.columns.get(at + 1), member, row)
    })
}

/// What the clocks must allow, whether they are aligned or not.
fn constraints(job: &Job, matches: &Matches, clocks: &Clocks) -> Vec<Constraint> {
    let bases = bases(job);
    let mut found = Vec::new();
    for (number, unit) in matches.units.iter().enumerate() {
        for (at, column) in unit.columns.iter().enumerate() {
            if !column.tie.synchronises() || column.fault.is_some() || column.present() < 2 {
                continue;
            }
            let member = |member: usize| {
                let (rank, row) = (unit.members[member], unit.row(job, column, member)?);
                let (clock, base) = (&clocks.ranks[rank], clocks.ranks[rank].component.unwrap_or(rank));
                // Small numbers: sums of some times of day do not fit.
                let since = |time: Ns| (clock.aligned(time) - bases[base]).0;
                // What never ended has no end to speak of.
                let end = if row.dur > Ns::ZERO { since(row.end()) } else { i64::MAX / 8 };
                Some((rank, since(row.start), end))
            };
            found.push(Constraint { of: (number, at), members: (0..unit.members.len()).filter_map(member).collect() });
        }
    }
    found
}

/// The rank without which all is possible, if there is just one such rank, or one that contradicts more of the others.
fn misfit(ranks: usize, constraints: &[Constraint], proof: &Impossible) -> Option<usize> {
    let without = |left_out: &dyn Fn(usize) -> bool| -> bool {
        let rest: Vec<Constraint> = constraints
            .iter()
            .map(|constraint| Constraint {
                members: constraint.members.iter().copied().filter(|(rank, ..)| !left_out(*rank)).collect(),
                ..*constraint
            })
            .collect();
        possible(ranks, &rest, &(0..ranks).collect::<Vec<_>>()).is_ok()
    };
    let mut candidates: Vec<usize> = proof.cycle.iter().map(|(rank, ..)| *rank).collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|candidate| without(&|rank| rank == *candidate));
    let others: Vec<usize> = (0..ranks).collect();
    let contradicted = |candidate: usize| {
        let pair = |other: &&usize| **other != candidate && !without(&|rank| rank != candidate && rank != **other);
        others.iter().filter(pair).take(3).count()
    };
    let mut counted: Vec<(usize, usize)> = candidates.into_iter().map(|rank| (contradicted(rank), rank)).collect();
    counted.sort_unstable();
    match counted[..] {
        [] => None,
        [(_, only)] => Some(only),
        [.., (second, _), (first, rank)] => (first > second).then_some(rank),
    }
}

/// Why traces do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Unfit {
    text: String,
}

impl Unfit {
    fn of(job: &Job, matches: &Matches, proof: &Impossible) -> Self {
        let name = |(unit, column): (usize, usize)| {
            let unit = &matches.units[unit];
            let rows = (0..unit.members.len())
                .find_map(|member| Some((member, unit.row(job, &unit.columns[column], member)?)));
            let what = rows.map_or(String::new(), |(member, row)| {
                let part = &job.parts[unit.members[member]];
                let kind = part.kind(row);
                kind.collective.clone().unwrap_or_else(|| part.text(kind.kernel).to_owned())
            });
            format!("{what} {} of {}", column + 1, unit.columns.len())
        };
        let step = |(before, of, after): &(usize, (usize, usize), usize)| {
            format!("rank {} ended its {} before rank {} started it", job.ranks[*before], name(*of), job.ranks[*after])
        };
        let steps: Vec<String> = proof.cycle.iter().map(step).collect();
        let by = proof.by as f64 / 1e6;
        Unfit { text: format!("whatever the clocks are, {}: off by {by:.3} ms", steps.join(", or ")) }
    }
}

/// The estimate.
struct Fit<'a> {
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
    fn new(ranks: usize, anchors: &'a [Anchor], matches: &Matches) -> Self {
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
        let mut by_unit: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, anchor) in self.anchors.iter().enumerate() {
            by_unit.entry(anchor.of.0).or_default().push(at);
        }
        for start in 0..self.offsets.len() {
            if self.component[start].is_some() || self.of_rank[start].is_empty() {
                continue;
            }
            let (mut queue, mut found) = (vec![start], vec![start]);
            self.component[start] = Some(start);
            while let Some(rank) = queue.pop() {
                for (unit, anchors) in by_unit.iter().filter(|(unit, _)| matches.units[**unit].members.contains(&rank))
                {
                    for other in &matches.units[*unit].members {
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
        let end =
            |anchor: &Anchor, wanted: usize| anchor.ends.iter().find(|(rank, _)| *rank == wanted).map(|(_, end)| *end);
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

    fn polish(&mut self) {
        self.rounds(false);
        if self.span >= LONG {
            self.rounds(true);
            let earned: Vec<bool> = (0..self.offsets.len())
                .map(|rank| {
                    let deviation = median_of(self.residuals(rank).into_iter().map(|(_, residual, _)| residual.abs()));
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
            self.moments[at] = median_of(ends);
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

    fn trust(&mut self, bases: &[Ns]) {
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

    fn refuse_what_disagrees(&mut self) {
        let mut by_component: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (rank, component) in self.component.iter().enumerate() {
            component.iter().for_each(|component| by_component.entry(*component).or_default().push(rank));
        }
        for ranks in by_component.into_values() {
            let residuals = ranks.iter().flat_map(|rank| self.residuals(*rank));
            let median = median_of(residuals.map(|(_, residual, _)| residual.abs()));
            if median > MAX_RESIDUAL.as_f64() {
                let why = format!("the ends of their collectives are {:.0} µs apart in the median", median / 1000.0);
                ranks.iter().for_each(|rank| self.component[*rank] = None);
                self.refused.push((ranks, why));
            }
        }
    }

    fn refused(&self, job: &Job) -> Vec<String> {
        let ranks = |of: &[usize]| super::job::ranges(&of.iter().map(|rank| job.ranks[*rank]).collect::<Vec<_>>());
        let mut lines: Vec<String> =
            self.refused.iter().map(|(of, why)| format!("ranks {} are not aligned: {why}", ranks(of))).collect();
        let named: Vec<usize> = self.refused.iter().flat_map(|(of, _)| of.iter().copied()).collect();
        let alone: Vec<usize> =
            (0..self.component.len()).filter(|rank| self.component[*rank].is_none() && !named.contains(rank)).collect();
        if !alone.is_empty() {
            let why = format!("fewer than {ANCHORS} matched collectives compare their clocks with other ranks'");
            lines.push(format!("ranks {} are not aligned: {why}", ranks(&alone)));
        }
        lines
    }

    fn used(&self) -> usize {
        self.anchors.iter().filter(|anchor| anchor.ends.iter().all(|(rank, _)| self.component[*rank].is_some())).count()
    }

    fn residual(&self) -> Option<Residual> {
        let aligned = (0..self.offsets.len()).filter(|rank| self.component[*rank].is_some());
        let mut all: Vec<f64> =
            aligned.flat_map(|rank| self.residuals(rank)).map(|(_, residual, _)| residual.abs()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| Ns::rounded(all[((all.len() - 1) as f64 * share) as usize]);
        (!all.is_empty()).then(|| Residual { median: at(0.5), p95: at(0.95), max: at(1.0) })
    }

    fn clock(&self, rank: usize, bases: &[Ns]) -> RankClock {
        let Some(first) = self.component[rank] else { return RankClock::default() };
        let residuals = self.residuals(rank);
        let deviation = median_of(residuals.iter().map(|(_, residual, _)| residual.abs()));
        let quarter = |quarter: usize| {
            let (from, until) = (residuals.len() * quarter / 4, residuals.len() * (quarter + 1) / 4);
            median_of(residuals[from..until].iter().map(|(_, residual, _)| *residual))
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
    median_of(slopes)
}

/// The median; the mean of the two in the middle. 0 of nothing.
pub(super) fn median_of(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[odd / 2],
        even => (values[even / 2 - 1] + values[even / 2]) / 2.0,
    }
}

/// The value with half of the weight on either side; values with their weights.
fn weighted_median(mut values: Vec<(f64, f64)>) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = values.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut sum = 0.0;
    for (value, weight) in &values {
        sum += weight;
        if sum >= half {
            return *value;
        }
    }
    values.last().map_or(0.0, |(value, _)| *value)
}

impl Tie {
    /// Whether waiting at it is known only where the clocks are.
    pub fn needs_clocks(self) -> bool {
        matches!(self, Tie::Rooted | Tie::PointToPoint)
    }
}
