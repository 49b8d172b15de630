//! The collectives of many ranks on one clock, for the page's drawing.

use std::collections::HashMap;
use std::io;

use serde_json::{Value, json};

use super::critical::{self, PathSpan};
use crate::answers::ranks::data::{Compared, RankReport};
use crate::answers::ranks::pipeline::Pipeline;
use crate::answers::ranks::schedule::Piece;
use crate::answers::ranks::timeline::{Arrivals, Axis, Timeline};
use crate::answers::ranks::what_if::{RerunRank, RerunSlice, WhatIf};
use crate::document::html::Drawing;
use crate::document::html::columns::{Columns, Packed};
use crate::numbers::Numbers;
use crate::time::{Ns, Window};

/// A page has at most this many kernels: those of the collectives with the longest waits.
const MOST_KERNELS: usize = 150_000;

/// Pieces of the critical path that are shorter than the path by this factor are drawn with their neighbours.
const MOST_SPANS: i64 = 4_000;

/// With more pieces of microbatches, those of one rank of each stage are drawn.
const MOST_PIECES: usize = 20_000;

/// A rerun takes at most so many bytes of a page: about a seventh of the page of 512 ranks.
const MOST_OF_RERUN: usize = 150_000;

/// Collectives with the kernels of all ranks.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    ranks: Vec<u32>,
    groups: Vec<String>,
    names: Vec<String>,
    /// In order of time.
    collectives: Vec<Collective>,
    left_out: u64,
    span: Ns,
    /// By step of the report: from its first start on a rank to its last end; none of spans of time.
    steps: Vec<Window>,
    /// The critical path, in order of time; empty where it is not known.
    path: Vec<PathSpan>,
    /// What the stages of a pipeline compute, on the axis of all ranks.
    pieces: Vec<Piece>,
    /// A rule and what it saves, where each kernel has its rerun.
    rerun: Option<(String, Ns)>,
}

#[derive(Debug, Default)]
struct Collective {
    /// Its index among all collectives, including those left out.
    number: usize,
    group: u64,
    name: u64,
    /// 1 + its position in the report's steps; 0 for none.
    step: u64,
    /// 1 + its position in the ranks; 0 for none.
    late: u64,
    is_matched: bool,
    waited: Ns,
    /// In order of their starts.
    kernels: Vec<Kernel>,
}

#[derive(Debug, Default)]
struct Kernel {
    rank: u64,
    /// A position in the rank's rows.
    row: usize,
    start: Ns,
    /// Its start in the rank's own trace.
    in_trace: Ns,
    dur: Ns,
    waited: Option<Ns>,
    /// 1 + its position in the report's stacks; 0 for none.
    stack: u64,
    /// When its launch returned, in ns since the kernel's start: negative if before it.
    launch: Option<Ns>,
    rerun: Moved,
}

/// How a kernel differs in a rerun.
#[derive(Debug, Default)]
struct Moved {
    end: Ns,
    waited: Ns,
    /// How long it runs without waiting.
    transfer: Ns,
}

impl Lanes {
    /// Collects the collectives of a job and its report. `groups` are the names of the matched groups, in their order.
    pub(crate) fn new(compared: &Compared, report: &RankReport, groups: Vec<String>) -> Self {
        let Compared { job, matches, clocks, .. } = compared;
        let timeline = Timeline::new(job, matches, clocks);
        let steps: HashMap<u32, u64> = report.steps.iter().zip(1..).map(|(step, at)| (step.number, at)).collect();
        let mut lanes = Lanes {
            ranks: job.ranks.clone(),
            groups,
            steps: report.steps.iter().map_while(|step| step_window(&timeline, step.number as usize)).collect(),
            path: joined(report.critical_path.iter().flat_map(|path| critical::lane(compared, path)).collect()),
            pieces: pieces(compared, report.pipeline.as_ref()),
            ..Lanes::default()
        };
        let mut names: Numbers<&str> = Numbers::default();
        for arrivals in &timeline.collectives {
            let Some((rank, row)) = arrivals.members.first() else { continue };
            let reduction = &job.reductions[*rank];
            let name = names.number(reduction.collective(&reduction.rows[*row])).into();
            let kernels: Vec<Kernel> =
                arrivals.members.iter().map(|(rank, row)| kernel(compared, report, &timeline, *rank, *row)).collect();
            let late = arrivals.last.filter(|_| arrivals.is_late).map_or(0, |(rank, _)| 1 + rank as u64);
            let Arrivals { group, is_matched, step, .. } = *arrivals;
            let step = step.and_then(|step| steps.get(&step).copied()).unwrap_or(0);
            let waited = kernels.iter().filter_map(|kernel| kernel.waited).sum();
            lanes.span =
                kernels.iter().map(|kernel| kernel.start + kernel.dur).max().unwrap_or_default().max(lanes.span);
            let (number, group) = (0, group as u64);
            lanes.collectives.push(Collective { number, group, name, step, late, is_matched, waited, kernels });
        }
        lanes.names = names.list.into_iter().map(str::to_owned).collect();
        lanes.collectives.sort_by_key(|of| of.kernels.first().map(|kernel| kernel.start));
        (0..).zip(&mut lanes.collectives).for_each(|(number, of)| of.number = number);
        lanes.shorten(MOST_KERNELS);
        lanes
    }

    /// The same with the rerun of a rule; without it if a kernel is no part of the rerun.
    #[must_use]
    pub(crate) fn with_rerun(mut self, rule: &str, found: &WhatIf) -> Self {
        let by_row = |rank: &RerunRank| rank.slices.iter().filter_map(|slice| Some((slice.row?, *slice))).collect();
        let slices: Vec<HashMap<u32, RerunSlice>> = found.ranks.iter().map(by_row).collect();
        for of in &mut self.collectives {
            let slice = |kernel: &Kernel| slices.get(kernel.rank as usize)?.get(&(kernel.row as u32)).copied();
            let Some(slices) = of.kernels.iter().map(slice).collect::<Option<Vec<RerunSlice>>>() else { return self };
            of.rerun(&slices);
        }
        let last = |end: fn(&RerunSlice) -> Ns| found.ranks.iter().flat_map(|rank| &rank.slices).map(end).max();
        let end = last(|slice| slice.rerun.end);
        self.rerun = end.map(|end| (rule.to_owned(), last(|slice| slice.recorded.end).unwrap_or_default() - end));
        self
    }

    /// Keeps the collectives with the longest waits, up to `most` kernels in all.
    fn shorten(&mut self, most: usize) {
        if self.rows() <= most {
            return;
        }
        let mut order: Vec<usize> = (0..self.collectives.len()).collect();
        order.sort_by_key(|at| (std::cmp::Reverse(self.collectives[*at].waited), *at));
        let (mut kernels, mut is_kept) = (0, vec![false; self.collectives.len()]);
        for at in order {
            kernels += self.collectives[at].kernels.len();
            if kernels > most {
                break;
            }
            is_kept[at] = true;
        }
        let before = self.collectives.len();
        let mut is_kept = is_kept.into_iter();
        self.collectives.retain(|_| is_kept.next().unwrap_or(false));
        self.left_out += (before - self.collectives.len()) as u64;
    }

    /// The number of the first collective at which a rank waited for this one at least 90 % as long as at the worst.
    pub(crate) fn worst(&self, late: u32) -> Option<usize> {
        let is_of = |of: &&Collective| of.late > 0 && self.ranks.get(of.late as usize - 1) == Some(&late);
        let longest = |of: &Collective| of.kernels.iter().filter_map(|kernel| kernel.waited).max().unwrap_or_default();
        let most = self.collectives.iter().filter(is_of).map(longest).max().filter(|most| *most > Ns::ZERO)?;
        let about = most.as_f64() * 0.9;
        self.collectives.iter().filter(is_of).find(|of| longest(of).as_f64() >= about).map(|of| of.number)
    }

    /// The critical path: kinds and names are listed once.
    fn pack_path(&self) -> io::Result<Value> {
        let mut texts: Numbers<&str> = Numbers::default();
        let kinds: Vec<u32> = self.path.iter().map(|span| texts.number(span.kind)).collect();
        let names: Vec<u32> = self.path.iter().map(|span| texts.number(&span.name)).collect();
        let mut spans = Columns::default();
        spans.plain("rank", self.path.iter().map(|span| span.rank as u64));
        spans.near("start", self.path.iter().map(|span| span.window.start.0));
        spans.plain("dur", self.path.iter().map(|span| span.window.duration().0.max(0) as u64));
        spans.plain("kind", kinds.into_iter().map(u64::from));
        spans.plain("name", names.into_iter().map(u64::from));
        Ok(json!({ "texts": texts.list, "spans": spans.pack()? }))
    }

    fn pack_pieces(&self) -> io::Result<Packed> {
        let mut pieces = Columns::default();
        pieces.plain("rank", self.pieces.iter().map(|piece| piece.rank as u64));
        pieces.near("start", self.pieces.iter().map(|piece| piece.window.start.0));
        pieces.plain("dur", self.pieces.iter().map(|piece| piece.window.duration().0.max(0) as u64));
        pieces.plain("forward", self.pieces.iter().map(|piece| piece.is_forward.into()));
        pieces.plain("microbatch", self.pieces.iter().map(|piece| piece.microbatch.map_or(0, |of| 1 + u64::from(of))));
        pieces.pack()
    }

    /// The rerun, without its kernels if they take more than so many bytes.
    fn pack_rerun(&self, most: usize) -> io::Result<Option<Value>> {
        let Some((rule, saves)) = &self.rerun else { return Ok(None) };
        let moved = || self.collectives.iter().flat_map(|of| &of.kernels).map(|kernel| &kernel.rerun);
        let mut rows = Columns::default();
        rows.near("end", moved().map(|moved| moved.end.0));
        rows.signed("waited", moved().map(|moved| moved.waited.0));
        rows.signed("transfer", moved().map(|moved| moved.transfer.0));
        let rows = Some(serde_json::to_value(rows.pack()?)?).filter(|rows| rows.to_string().len() <= most);
        Ok(Some(json!({ "rule": rule, "saves_ns": saves.0, "rows": rows })))
    }
}

impl Drawing for Lanes {
    fn pack(&self) -> io::Result<Value> {
        let of = &self.collectives;
        let mut collectives = Columns::default();
        let firsts = of.iter().scan(0, |next, of| {
            let first = *next;
            *next += of.kernels.len() as i64;
            Some(first)
        });
        collectives.near("first", firsts);
        collectives.plain("members", of.iter().map(|of| of.kernels.len() as u64));
        collectives.plain("group", of.iter().map(|of| of.group));
        collectives.plain("name", of.iter().map(|of| of.name));
        collectives.plain("step", of.iter().map(|of| of.step));
        collectives.plain("late", of.iter().map(|of| of.late));
        collectives.plain("matched", of.iter().map(|of| of.is_matched.into()));
        let kernels = || of.iter().flat_map(|of| &of.kernels);
        let mut rows = Columns::default();
        rows.plain("rank", kernels().map(|kernel| kernel.rank));
        rows.near("start", kernels().map(|kernel| kernel.start.0));
        // Where clocks drift, a trace's time is not that of the axis and a constant.
        let mut origins = vec![None; self.ranks.len()];
        let drift = |kernel: &Kernel| {
            let ahead = kernel.in_trace - kernel.start;
            (ahead - *origins[kernel.rank as usize].get_or_insert(ahead)).0
        };
        rows.near("drift", kernels().map(drift));
        let origins = origins.into_iter().map(|origin| origin.unwrap_or_default().0.to_string());
        rows.plain("dur", kernels().map(|kernel| kernel.dur.0.max(0) as u64));
        rows.plain("waited", kernels().map(|kernel| kernel.waited.map_or(0, |waited| 1 + waited.0.max(0) as u64)));
        rows.plain("stack", kernels().map(|kernel| kernel.stack));
        rows.signed("launch", kernels().map(|kernel| kernel.launch.map_or(0, |launch| launch.0)));
        let mut steps = Columns::default();
        steps.near("start", self.steps.iter().map(|step| step.start.0));
        steps.plain("dur", self.steps.iter().map(|step| step.duration().0 as u64));
        Ok(json!({
            "ranks": self.ranks,
            "origins_ns": origins.collect::<Vec<_>>(),
            "steps": steps.pack()?,
            "groups": self.groups,
            "names": self.names,
            "span_ns": self.span.0,
            "left_out": self.left_out,
            "path": self.pack_path()?,
            "pieces": self.pack_pieces()?,
            "rerun": self.pack_rerun(MOST_OF_RERUN)?,
            "collectives": collectives.pack()?,
            "rows": rows.pack()?,
        }))
    }

    fn rows(&self) -> usize {
        self.collectives.iter().map(|of| of.kernels.len()).sum()
    }

    fn halve(&mut self) {
        self.shorten(self.rows() / 2);
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn place(&self, number: usize) -> Option<usize> {
        self.collectives.iter().position(|of| of.number == number)
    }
}

/// What a pipeline's ranks compute, on the axis of all ranks; of many ranks, that of the first rank of each stage.
fn pieces(compared: &Compared, pipeline: Option<&Pipeline>) -> Vec<Piece> {
    let Some(pipeline) = pipeline else { return Vec::new() };
    let Compared { job, clocks, .. } = compared;
    let axis = Axis::new(job, clocks);
    let is_all = pipeline.pieces.len() <= MOST_PIECES;
    let is_first = |rank: u32| pipeline.stages.iter().any(|stage| stage.ranks.first() == Some(&rank));
    let shown = pipeline.pieces.iter().filter(|piece| is_all || is_first(job.ranks[piece.rank]));
    let placed = |piece: &Piece| {
        let [start, end] = [piece.window.start, piece.window.end].map(|time| axis.at(piece.rank, time));
        Piece { window: Window { start, end }, ..piece.clone() }
    };
    shown.map(placed).collect()
}

impl Collective {
    /// Sets how its kernels, in their order, differ in a rerun. A kernel waits until the last member has come.
    fn rerun(&mut self, slices: &[RerunSlice]) {
        let last = |window: fn(&RerunSlice) -> Window| slices.iter().map(|slice| window(slice).start).max();
        let arrived = last(|slice| slice.rerun).unwrap_or_default() - last(|slice| slice.recorded).unwrap_or_default();
        for (kernel, RerunSlice { recorded, rerun, .. }) in self.kernels.iter_mut().zip(slices) {
            let longer = rerun.duration() - recorded.duration();
            let waited = kernel.waited.map_or(Ns::ZERO, |waited| {
                let longest = (kernel.dur + longer).max(Ns::ZERO);
                (waited + arrived + recorded.start - rerun.start).max(Ns::ZERO).min(longest) - waited
            });
            kernel.rerun = Moved { end: rerun.end - recorded.end, waited, transfer: longer - waited };
        }
    }
}

/// From the first start of a step on a rank to its last end.
fn step_window(timeline: &Timeline, number: usize) -> Option<Window> {
    let of_ranks = timeline.ranks.iter().filter_map(|rank| rank.steps.get(number));
    of_ranks.copied().reduce(Window::around)
}

/// Puts pieces of a rank that are too short to be seen together until they can be. They have the kind and name of the longest of them.
fn joined(spans: Vec<PathSpan>) -> Vec<PathSpan> {
    let length = spans.last().zip(spans.first()).map_or(0, |(last, first)| (last.window.end - first.window.start).0);
    let least = Ns(length / MOST_SPANS);
    let mut found: Vec<PathSpan> = Vec::new();
    let mut longest = Ns::ZERO;
    for span in spans {
        let time = span.window.duration();
        match found.last_mut() {
            Some(last) if last.rank == span.rank && last.window.duration() < least => {
                last.window.end = span.window.end.max(last.window.end);
                if time > longest {
                    (last.kind, last.name, longest) = (span.kind, span.name, time);
                }
            }
            _ => {
                longest = time;
                found.push(span);
            }
        }
    }
    found
}

fn kernel(compared: &Compared, report: &RankReport, timeline: &Timeline, rank: usize, row: usize) -> Kernel {
    let reduction = &compared.job.reductions[rank];
    let (of, time) = (&reduction.rows[row], &timeline.ranks[rank].kernels[row]);
    // A limit may have left it out.
    let stack = of.stack.and_then(|_| report.stack_of(rank, of)).filter(|at| *at < report.stacks.len());
    Kernel {
        rank: rank as u64,
        row,
        start: time.window.start,
        in_trace: of.start,
        dur: time.window.duration(),
        waited: time.waited,
        stack: stack.map_or(0, |at| 1 + at as u64),
        launch: time.launch.map(|launch| timeline.ranks[rank].launches[launch].window.end - time.window.start),
        ..Kernel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Window {
        Window { start: Ns(start), end: Ns(end) }
    }

    fn lanes() -> Lanes {
        let kernel = |(rank, start): (u64, i64)| Kernel {
            rank,
            start: Ns(start),
            in_trace: Ns(start),
            dur: Ns(50 - start),
            waited: Some(Ns(30 - start)),
            ..Kernel::default()
        };
        let kernels = [(0, 10), (1, 30)].map(kernel).into();
        let of = Collective { late: 2, is_matched: true, waited: Ns(20), kernels, ..Collective::default() };
        let names = vec!["all_reduce".to_owned()];
        Lanes { ranks: vec![0, 1], names, collectives: vec![of], span: Ns(50), ..Lanes::default() }
    }

    fn found(ranks: u32) -> WhatIf {
        let slice = |recorded, rerun| RerunSlice { is_cpu: false, lane: 0, name: 0, row: Some(0), recorded, rerun };
        let slices = [slice(window(10, 50), window(10, 32)), slice(window(30, 50), window(12, 32))];
        let rank = |rank: u32| RerunRank { rank, slices: vec![slices[rank as usize]], texts: Vec::new() };
        let ranks = (0..ranks).map(rank).collect();
        WhatIf { length_ns: 50, steps: 1, ranks, ..WhatIf::default() }
    }

    /// The second rank comes 18 ns earlier in the rerun, so that the first one waits for 2 ns instead of 20; the transfer takes 20 ns in both.
    #[test]
    fn a_rerun_waits_less_and_transfers_as_long() {
        let lanes = lanes().with_rerun("rank 1 like peers", &found(2));
        let moved =
            lanes.collectives[0].kernels.iter().map(|of| (of.rerun.end.0, of.rerun.waited.0, of.rerun.transfer.0));
        assert_eq!(moved.collect::<Vec<_>>(), [(-18, -18, 0), (-18, 0, 0)]);
        let packed = lanes.pack_rerun(1000).unwrap().unwrap();
        assert_eq!((&packed["saves_ns"], &packed["rows"]["rows"]), (&json!(18), &json!(2)));
        assert!(lanes.pack_rerun(10).unwrap().unwrap()["rows"].is_null());
    }

    #[test]
    fn a_rerun_without_a_rank_is_left_out() {
        assert!(lanes().with_rerun("rank 1 like peers", &found(1)).pack_rerun(1000).unwrap().is_none());
    }
}
