//! All ranks on one axis of time: when their launches, kernels and steps were, and who waited at which kernel.
//!
//! The axis begins with the first of them. Ranks whose clocks are not aligned with others cannot be placed beside these: their axis begins
//! with their own first one.

use std::collections::BTreeMap;

use super::job::Job;
use super::reduction::{RankReduction, Row};
use super::waiting::measure;
use crate::operations::clocks::Clocks;
use crate::operations::matching::{MatchedGroup, Matches};
use crate::time::{Ns, Window};

#[derive(Debug)]
pub struct Axis<'c> {
    clocks: &'c Clocks,
    /// By rank: where it begins, on the aligned clock.
    begins: Vec<Ns>,
}

/// A job on the axis.
#[derive(Debug)]
pub struct Timeline {
    /// By rank, in the order of [`Job::ranks`].
    pub ranks: Vec<RankTimes>,
    pub collectives: Vec<Arrivals>,
}

#[derive(Debug)]
pub struct RankTimes {
    /// Whether its clock is aligned with that of another rank, or is the one that others are aligned with.
    pub is_aligned: bool,
    pub steps: Vec<Window>,
    /// The calls that launched collectives, in the order of their starts.
    pub launches: Vec<LaunchTime>,
    /// By row.
    pub kernels: Vec<KernelTime>,
}

#[derive(Debug)]
pub struct LaunchTime {
    /// From its start to its return.
    pub window: Window,
    pub thread: u32,
    pub rows: Vec<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct KernelTime {
    pub window: Window,
    /// Its launch: a position in the rank's launches.
    pub launch: Option<usize>,
    /// How long it waited, if that is known.
    pub waited: Option<Ns>,
    /// Its collective: a position in the collectives.
    pub collective: usize,
    /// How many other members came before.
    pub place: usize,
}

/// A collective, by when its members came.
#[derive(Debug)]
pub struct Arrivals {
    /// Its group: a position among the matched groups.
    pub group: usize,
    /// Whether its kernels carried out one collective. Otherwise it has one kernel only, or kernels that may not belong together.
    pub is_matched: bool,
    /// The ranks and their rows, the first to come first.
    pub members: Vec<(usize, usize)>,
    /// Who came last, if it is known who waited.
    pub last: Option<(usize, usize)>,
    /// Whether that one was late: no other came at about the same time.
    pub is_late: bool,
    pub by_clocks: bool,
    /// Its step, by the number that the report gives it: that of the lowest rank.
    pub step: Option<u32>,
}

impl<'c> Axis<'c> {
    pub fn new(job: &Job, clocks: &'c Clocks) -> Self {
        let group = |rank: usize| clocks.ranks[rank].component.unwrap_or(rank);
        let mut first: BTreeMap<usize, Ns> = BTreeMap::new();
        for (rank, reduction) in job.reductions.iter().enumerate() {
            let Some(begin) = begin(reduction).map(|begin| clocks.ranks[rank].aligned(begin)) else { continue };
            first.entry(group(rank)).and_modify(|first| *first = begin.min(*first)).or_insert(begin);
        }
        let begins =
            (0..job.reductions.len()).map(|rank| first.get(&group(rank)).copied().unwrap_or_default()).collect();
        Axis { clocks, begins }
    }

    /// A time of a rank's clock.
    pub fn at(&self, rank: usize, time: Ns) -> Ns {
        self.clocks.ranks[rank].aligned(time) - self.begins[rank]
    }

    fn window(&self, rank: usize, start: Ns, end: Ns) -> Window {
        let start = self.at(rank, start);
        Window { start, end: self.at(rank, end).max(start) }
    }
}

/// When a rank's first call, kernel or step was.
fn begin(reduction: &RankReduction) -> Option<Ns> {
    let steps = reduction.steps.iter().map(|step| step.window.start);
    let nodes = reduction.graph.nodes.iter().map(|node| node.start);
    reduction.rows.iter().map(|row| row.start).chain(nodes).chain(steps).min()
}

impl Timeline {
    pub fn new(job: &Job, matches: &Matches, clocks: &Clocks) -> Self {
        let axis = Axis::new(job, clocks);
        let times = |(rank, reduction): (usize, &RankReduction)| {
            let kernel =
                |row: &Row| KernelTime { window: axis.window(rank, row.start, row.end()), ..KernelTime::default() };
            let mut kernels: Vec<KernelTime> = reduction.rows.iter().map(kernel).collect();
            let launch = |(node, rows): (u32, Vec<u32>)| {
                let node = &reduction.graph.nodes[node as usize];
                LaunchTime { window: axis.window(rank, node.start, node.end), thread: node.lane, rows }
            };
            let mut launches: Vec<LaunchTime> = reduction.graph.rows_by_launch().into_iter().map(launch).collect();
            launches.sort_by_key(|launch| launch.window.start);
            for (at, launch) in launches.iter().enumerate() {
                launch.rows.iter().for_each(|row| kernels[*row as usize].launch = Some(at));
            }
            let steps = reduction.steps.iter().map(|step| axis.window(rank, step.window.start, step.window.end));
            let (is_aligned, steps) = (clocks.ranks[rank].component.is_some(), steps.collect());
            RankTimes { is_aligned, steps, launches, kernels }
        };
        let ranks = job.reductions.iter().enumerate().map(times).collect();
        let mut timeline = Timeline { ranks, collectives: Vec::new() };
        for (at, group) in matches.groups.iter().enumerate() {
            timeline.add_group(job, clocks, at, group);
        }
        let spans = Spans::for_job(job, &axis);
        for of in &mut timeline.collectives {
            let Some((rank, row)) = of.members.iter().min() else { continue };
            let row = &job.reductions[*rank].rows[*row];
            of.step = spans.as_ref().map_or(row.step, |spans| Some(spans.at(axis.at(*rank, row.start))));
        }
        timeline
    }

    fn add_group(&mut self, job: &Job, clocks: &Clocks, at: usize, group: &MatchedGroup) {
        for of in job.collectives(group) {
            let (collective, number) = (of.collective, self.collectives.len());
            let rows = group.members.iter().zip(&collective.rows);
            let mut members: Vec<(usize, usize)> =
                rows.filter_map(|(rank, row)| Some((*rank, (*row)? as usize))).collect();
            members.sort_by_key(|(rank, row)| (self.ranks[*rank].kernels[*row].window.start, *rank));
            let counts = |rank: usize| {
                group.members.iter().position(|of| *of == rank).is_some_and(|member| collective.counts(member))
            };
            for (place, (rank, row)) in members.iter().enumerate().filter(|(_, (rank, _))| counts(*rank)) {
                let kernel = &mut self.ranks[*rank].kernels[*row];
                (kernel.collective, kernel.place) = (number, place);
            }
            let is_matched = collective.fault.is_none() && members.len() > 1;
            let mut arrivals =
                Arrivals { group: at, is_matched, members, last: None, is_late: false, by_clocks: false, step: None };
            if let Some(measured) = measure(of, clocks) {
                arrivals.last = group.place(collective, measured.last);
                (arrivals.is_late, arrivals.by_clocks) = (measured.late.is_some(), measured.by_clocks);
                for (member, wait) in measured.waits {
                    let Some((rank, row)) = group.place(collective, member) else { continue };
                    self.ranks[rank].kernels[row].waited = Some(wait);
                }
            }
            self.collectives.push(arrivals);
        }
    }
}

/// Lines on which no windows overlap: the keys of all lines, and the line of each window. The windows are in order; those of one key
/// overlap rarely.
pub fn lanes(windows: impl Iterator<Item = (u32, Window)>) -> (Vec<u32>, Vec<u32>) {
    let mut lanes: Vec<(u32, Ns)> = Vec::new();
    let lane = |(key, window): (u32, Window)| {
        let free = lanes.iter().position(|(of, end)| *of == key && *end <= window.start);
        let at = free.unwrap_or(lanes.len());
        match lanes.get_mut(at) {
            Some((_, end)) => *end = window.end,
            None => lanes.push((key, window.end)),
        }
        at as u32
    };
    let of = windows.map(lane).collect();
    (lanes.into_iter().map(|(key, _)| key).collect(), of)
}

/// Equal spans of time, for jobs without steps.
#[derive(Debug)]
pub(super) struct Spans {
    length: Ns,
    pub(super) count: u32,
}

/// A job is divided into at most this many spans.
const SPANS: i64 = 48;

impl Spans {
    /// Those of a job, if none of its ranks has steps: of 1, 2, 2.5 or 5 times a power of ten.
    pub(super) fn for_job(job: &Job, axis: &Axis<'_>) -> Option<Self> {
        if job.reductions.iter().any(|reduction| !reduction.steps.is_empty()) {
            return None;
        }
        let last =
            |(rank, reduction): (usize, &RankReduction)| reduction.rows.last().map(|row| axis.at(rank, row.start));
        let last = job.reductions.iter().enumerate().filter_map(last).max()?.max(Ns::ZERO);
        let least = last.0 / SPANS + 1;
        let powers = (2..18).map(|power| 10_i64.pow(power));
        let length =
            powers.flat_map(|power| [power, 2 * power, power / 2 * 5, 5 * power]).find(|length| *length >= least)?;
        Some(Spans { length: Ns(length), count: (last.0 / length) as u32 + 1 })
    }

    /// The one of a time on the axis.
    pub(super) fn at(&self, time: Ns) -> u32 {
        ((time.0.max(0) / self.length.0) as u32).min(self.count - 1)
    }

    /// `2.5-5.0 ms`
    pub(super) fn name(&self, at: u32) -> String {
        let mut decimals = 1;
        while decimals < 6 && self.length.0 % 10_i64.pow(6 - decimals) != 0 {
            decimals += 1;
        }
        let power = 10_i64.pow(6 - decimals);
        let text = |at: u32| {
            let (whole, rest) = (self.length.0 * i64::from(at) / 1_000_000, self.length.0 * i64::from(at) % 1_000_000);
            format!("{whole}.{:0width$}", rest / power, width = decimals as usize)
        };
        format!("{}-{} ms", text(at), text(at + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_named_with_the_decimals_that_they_have() {
        let spans = |length: i64| Spans { length: Ns(length), count: 4 };
        assert_eq!(spans(2_500_000).name(1), "2.5-5.0 ms");
        assert_eq!(spans(2_000_000).name(0), "0.0-2.0 ms");
        assert_eq!(spans(25_000).name(40), "1.000-1.025 ms");
        assert_eq!(spans(500).name(3), "0.0015-0.0020 ms");
        assert_eq!(spans(1000).at(Ns(1999)), 1);
        assert_eq!(spans(1000).at(Ns(100_000)), 3);
    }
}
