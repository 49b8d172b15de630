//! All ranks side by side on one clock, as a trace in Chrome's JSON that ui.perfetto.dev opens.
//!
//! Each rank is a process with threads for its steps, its launching calls, and its streams' collectives. A kernel that waited contains a
//! slice for its waiting. Flows connect a launch with its kernel (category `launch`), a kernel with the member of its collective that
//! started next (`collective`), and waiting with the kernel that it waits for (`waiting`), which starts where the waiting ends.
//!
//! In Perfetto a flow belongs to the slice that was opened last on its thread, and at equal times slices open first. So a waiting slice
//! starts 1 ns after its kernel, and all flows of the kernel are at the kernel's start. Events with equal times keep the file's order,
//! which is the ranks' order.

use std::io;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::critical;
use super::table::group_name;
use crate::answers::ranks::data::{Compared, RankReport};
use crate::answers::ranks::reduction::RankReduction;
use crate::answers::ranks::timeline::{Arrivals, KernelTime, LaunchTime, Timeline, lanes};
use crate::chrome::{TraceWriter, Track};
use crate::document::format::base_name;
use crate::operations::clocks::RankClock;
use crate::operations::matching::MatchedGroup;
use crate::time::{Ns, Window};

/// How much later than its kernel a waiting slice starts.
const LATER: Ns = Ns(1);

/// The arguments of a slice, without those that are not known.
struct Args(Vec<(&'static str, Value)>);

impl Serialize for Args {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name, value)))
    }
}

pub(crate) fn ranks(compared: &Compared, report: &RankReport, out: &mut Vec<u8>) -> io::Result<()> {
    let Compared { job, matches, clocks, .. } = compared;
    let timeline = Timeline::new(job, matches, clocks);
    // The time of a rank that is not aligned starts with its own first event.
    let about = |((rank, reduction), clock): ((&u32, &RankReduction), &RankClock)| {
        json!({
            "rank": rank, "trace": reduction.trace, "is_aligned": clock.component.is_some(), "offset_ns": clock.offset,
            "uncertainty_ns": clock.uncertainty, "drift_ns_per_ms": clock.slope * 1e6,
        })
    };
    let ranks: Vec<Value> = job.ranks.iter().zip(&job.reductions).zip(&clocks.ranks).map(about).collect();
    let program = concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"));
    let about = json!({"program": program, "clock": compared.clock(), "ranks": ranks});
    let groups = matches.groups.iter().map(|group| name_of(group, &job.ranks)).collect();
    let placed = Placed { compared, first_row: first_rows(&job.reductions), timeline, groups };
    let mut trace = TraceWriter::new(out);
    trace.field(b"\"otherData\"", about.to_string().as_bytes())?;
    let threads = (0..job.ranks.len()).map(|rank| placed.rank(rank, &mut trace)).collect::<io::Result<Vec<u32>>>()?;
    if let Some(path) = &report.critical_path {
        let rows: u64 = job.reductions.iter().map(|reduction| reduction.rows.len() as u64).sum();
        let free = (threads.into_iter().max().unwrap_or_default(), 3 * rows + 1);
        critical::trace(compared, path, free, &mut trace)?;
    }
    trace.finish()
}

fn name_of(group: &MatchedGroup, ranks: &[u32]) -> String {
    let here: Vec<u32> = group.members.iter().map(|rank| ranks[*rank]).collect();
    group_name(&group.name, &here)
}

fn first_rows(reductions: &[RankReduction]) -> Vec<u64> {
    let before = |sum: &mut u64, reduction: &RankReduction| {
        let before = *sum;
        *sum += reduction.rows.len() as u64;
        Some(before)
    };
    reductions.iter().scan(0, before).collect()
}

pub(crate) type Trace<'t> = TraceWriter<&'t mut Vec<u8>>;

struct Placed<'a> {
    compared: &'a Compared,
    timeline: Timeline,
    /// For each rank, the number of rows in the ranks before it.
    first_row: Vec<u64>,
    groups: Vec<String>,
}

/// The kinds of flows, with their names. At most one of each kind starts at a row.
const LAUNCH: (u64, &str) = (1, "launch");
const COLLECTIVE: (u64, &str) = (2, "collective");
const WAITING: (u64, &str) = (3, "waiting");

impl Placed<'_> {
    /// Writes a rank, and returns the next thread number.
    fn rank(&self, rank: usize, trace: &mut Trace<'_>) -> io::Result<u32> {
        let Compared { job, .. } = self.compared;
        let (reduction, pid) = (&job.reductions[rank], job.ranks[rank]);
        let clock = if self.timeline.ranks[rank].is_aligned { "" } else { ", clock not aligned" };
        let process = Track { pid, tid: pid };
        trace.process(pid, &format!("rank {pid} ({}{clock})", base_name(&reduction.trace)))?;
        if !reduction.steps.is_empty() {
            trace.thread(process, "steps", 0)?;
            for (step, Window { start, end }) in reduction.steps.iter().zip(&self.timeline.ranks[rank].steps) {
                trace.slice(process, (*start, Some(*end)), ("step", &step.name), &Map::new())?;
            }
        }
        // Viewers take the thread with its process's number for the main thread; here that is the thread of the steps.
        let first = job.ranks.last().map_or(0, |last| last + 1);
        let next = self.launches(rank, first, trace)?;
        self.kernels(rank, next, trace)
    }

    /// Writes the launching calls, and returns the next thread number.
    fn launches(&self, rank: usize, first: u32, trace: &mut Trace<'_>) -> io::Result<u32> {
        let Compared { job, .. } = self.compared;
        let (reduction, pid) = (&job.reductions[rank], job.ranks[rank]);
        let launches = &self.timeline.ranks[rank].launches;
        let (lanes, of) = lanes(launches.iter().map(|launch| (launch.thread, launch.window)));
        name_lanes(trace, (pid, first), &lanes, ("launches", "thread"))?;
        for (LaunchTime { window, rows, .. }, lane) in launches.iter().zip(of) {
            let track = Track { pid, tid: first + lane };
            let stack = rows.first().and_then(|row| reduction.rows[*row as usize].stack);
            let stack = stack.map(|stack| &reduction.stacks[stack as usize]);
            let name = stack.and_then(|stack| stack.frames.last()).map_or("launch", String::as_str);
            let headline = stack.and_then(|stack| stack.telling.first()).map(String::as_str);
            let args = Args(vec![("headline", json!(headline)), ("kernels", json!(rows.len()))]);
            trace.slice(track, (window.start, Some(window.end)), ("launch", name), &args)?;
            for row in rows.iter().map(|row| *row as usize) {
                if self.is_launched_before(rank, row) {
                    trace.flow(track, window.start, self.flow(LAUNCH, (rank, row)), (0, 2))?;
                }
            }
        }
        Ok(first + lanes.len() as u32)
    }

    /// Whether a flow connects a kernel with its launch. GPU times are converted, and their error may exceed a launch's length.
    fn is_launched_before(&self, rank: usize, row: usize) -> bool {
        let of_rank = &self.timeline.ranks[rank];
        let kernel = &of_rank.kernels[row];
        kernel.launch.is_some_and(|at| of_rank.launches[at].window.start <= kernel.window.start)
    }

    fn kernels(&self, rank: usize, first: u32, trace: &mut Trace<'_>) -> io::Result<u32> {
        let Compared { job, .. } = self.compared;
        let (reduction, pid) = (&job.reductions[rank], job.ranks[rank]);
        let stacks: Vec<String> = reduction.stacks.iter().map(|stack| stack.frames.join("; ")).collect();
        let windows = reduction.rows.iter().zip(&self.timeline.ranks[rank].kernels);
        let (lanes, of) = lanes(windows.map(|(row, kernel)| (row.stream, kernel.window)));
        name_lanes(trace, (pid, first), &lanes, ("collectives", "stream"))?;
        for (at, lane) in of.into_iter().enumerate() {
            let name = reduction.collective(&reduction.rows[at]);
            let (track, window) = (Track { pid, tid: first + lane }, self.timeline.ranks[rank].kernels[at].window);
            let args = self.args(rank, at, &stacks);
            trace.slice(track, (window.start, Some(window.end)), ("kernel", name), &args)?;
            self.flows_of_kernel(track, rank, at, trace)?;
            self.waiting(track, (rank, at), trace)?;
        }
        Ok(first + lanes.len() as u32)
    }

    fn args(&self, rank: usize, at: usize, stacks: &[String]) -> Args {
        let Compared { job, .. } = self.compared;
        let reduction = &job.reductions[rank];
        let (row, KernelTime { collective, waited, .. }) = (&reduction.rows[at], self.timeline.ranks[rank].kernels[at]);
        let (kind, Arrivals { group, last, is_late, .. }) =
            (reduction.kind(row), &self.timeline.collectives[collective]);
        let last_rank = last.map(|(last, _)| job.ranks[last]);
        let stack = row.stack.map(|stack| stack as usize);
        Args(vec![
            ("waited_ns", json!(waited)),
            ("transfer_ns", json!(waited.map(|waited| row.dur - waited))),
            ("last_rank", json!(last_rank)),
            ("late_rank", json!(last_rank.filter(|_| *is_late))),
            ("headline", json!(stack.and_then(|stack| reduction.stacks[stack].telling.first()))),
            ("collective", json!(kind.collective)),
            ("dtype", json!(kind.dtype)),
            ("bytes", json!(kind.bytes)),
            ("group", json!(self.groups[*group])),
            ("seq", json!(row.seq)),
            ("step", json!(row.step.map(|step| &reduction.steps[step as usize].name))),
            ("kernel", json!(reduction.text(kind.kernel))),
            ("stack", json!(stack.map(|stack| &stacks[stack]))),
        ])
    }

    /// Writes the flows that start at, end at or pass through a kernel.
    fn flows_of_kernel(&self, track: Track, rank: usize, at: usize, trace: &mut Trace<'_>) -> io::Result<()> {
        let KernelTime { window: Window { start, .. }, collective, place, .. } = self.timeline.ranks[rank].kernels[at];
        if self.is_launched_before(rank, at) {
            trace.flow(track, start, self.flow(LAUNCH, (rank, at)), (1, 2))?;
        }
        let of = &self.timeline.collectives[collective];
        if of.is_matched {
            trace.flow(track, start, self.flow(COLLECTIVE, of.members[0]), (place, of.members.len()))?;
        }
        let is_last = of.last == Some((rank, at));
        let mut waiting = of.members.iter().filter(|member| is_last && self.waits_for_last(**member));
        waiting.try_for_each(|member| trace.flow(track, start, self.flow(WAITING, *member), (1, 2)))
    }

    /// The waiting slice of a kernel, if it waited. The clock of its GPU may be faster than the aligned one, and so may end the kernel earlier.
    fn waiting_of(&self, (rank, at): (usize, usize)) -> Option<Window> {
        let KernelTime { window: Window { start, end }, waited, .. } = self.timeline.ranks[rank].kernels[at];
        let window = Window { start: start + LATER, end: (start + waited?).min(end) };
        (window.end > window.start).then_some(window)
    }

    /// Whether a flow connects a kernel's waiting with the last kernel of its collective: only if clocks show that it waited for that one.
    fn waits_for_last(&self, (rank, at): (usize, usize)) -> bool {
        let Arrivals { last, by_clocks, .. } =
            &self.timeline.collectives[self.timeline.ranks[rank].kernels[at].collective];
        let Some((last, row)) = last.filter(|(last, _)| *by_clocks && *last != rank) else { return false };
        let start = self.timeline.ranks[last].kernels[row].window.start;
        self.waiting_of((rank, at)).is_some_and(|waiting| waiting.start < start)
    }

    fn waiting(&self, track: Track, of: (usize, usize), trace: &mut Trace<'_>) -> io::Result<()> {
        let Some(window) = self.waiting_of(of) else { return Ok(()) };
        let kernel = self.timeline.ranks[of.0].kernels[of.1];
        let last = self.timeline.collectives[kernel.collective].last.filter(|(last, _)| *last != of.0);
        let whom = last.map_or(String::new(), |(last, _)| format!(" for rank {}", self.compared.job.ranks[last]));
        trace.slice(track, (window.start, Some(window.end)), ("waiting", &format!("waiting{whom}")), &Map::new())?;
        if self.waits_for_last(of) {
            trace.flow(track, window.start, self.flow(WAITING, of), (0, 2))?;
        }
        Ok(())
    }

    /// The number and kind of the flow that starts at a row.
    fn flow(&self, (kind, name): (u64, &'static str), (rank, row): (usize, usize)) -> (u64, &'static str) {
        ((self.first_row[rank] + row as u64) * 3 + kind, name)
    }
}

pub(crate) fn name_lanes(
    trace: &mut Trace<'_>,
    (pid, first): (u32, u32),
    lanes: &[u32],
    (name, of): (&str, &str),
) -> io::Result<()> {
    for (tid, key) in (first..).zip(lanes) {
        let one = lanes.iter().all(|other| other == key);
        let name = if one { name.to_owned() } else { format!("{name} of {of} {key}") };
        trace.thread(Track { pid, tid }, &name, tid)?;
    }
    Ok(())
}
