//! The critical path in the comparison of ranks: what it consists of, by kind and by line, and its pieces as slices of a trace.

use std::io::{self, Write};

use serde_json::Map;

use crate::answers::ranks::critical::{CriticalPath, OTHERS, PathLine, PlacedPiece};
use crate::answers::ranks::data::{Compared, LongTransfers, RankReport, StackWaits};
use crate::answers::ranks::hidden::WhyExposed;
use crate::answers::ranks::timeline::Axis;
use crate::answers::ranks::verdict::{Pace, WORTH};
use crate::chrome::{TraceWriter, Track};
use crate::document::Screen;
use crate::document::findings::{FINDINGS, Finding, FindingKind, Link, Place};
use crate::document::format::{count, duration, percent, shorten_right, visible};
use crate::document::table::{Cell, Column, Table, name, number, words};
use crate::names::calls::Work;
use crate::names::kernels::short_kernel;
use crate::operation::ranges::ranges;
use crate::replay::build::OUTSIDE;
use crate::replay::critical::PathKind;
use crate::replay::findings::{LateWork, Reruns, SEEN};
use crate::time::{Ns, Window};

const LINES: usize = 8;

/// The most characters of a list of ranks.
const RANKS: usize = 16;

/// Calls that allocate or free the GPU's memory.
const ALLOCATIONS: &[&str] = &["cudaMalloc", "cudaFree", "hipMalloc", "hipFree"];

/// The context is the path's length in ns, and its number of steps.
const COLUMNS: &[Column<PathLine, (i64, u32)>] = &[
    number("", "on the path").read(|line, (_, steps)| Cell::Time(Ns(line.path_ns / i64::from((*steps).max(1))))),
    number("", "share").read(|line, (length, _)| share(line.path_ns, *length)),
    number("", "without it").read(|line, (length, _)| match line.without_it_saves_ns {
        Some(saves) if saves > 0 => Cell::Text(format!("−{}", share(saves, *length).shown())),
        Some(_) => Cell::Share(0.0),
        None => Cell::Empty,
    }),
    words("", "kind").read(|line, _| Cell::Text(line.kind.name().to_owned())),
    words("", "ranks").dropped(0).read(|line, _| Cell::Text(shorten_right(&ranges(&line.ranks), RANKS))),
    name("line").read(|line, _| Cell::Text(visible(shown(line)).into_owned())),
];

fn share(time: i64, length: i64) -> Cell {
    Cell::known(Ns(time).share_of(Ns(length)), Cell::Share)
}

pub(crate) fn table(path: &CriticalPath) -> Table {
    let rows = path.lines.iter().map(|line| (line, (path.length_ns, path.steps)));
    Table::new("critical", "Critical path", COLUMNS, rows)
}

/// `Critical path of a mean step: CPU 61.2 %, compute 22.0 %`, then its longest lines.
pub(crate) fn text(path: &CriticalPath, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let mut kinds: Vec<_> = path.kinds.iter().filter(|kind| kind.path_ns > 0).collect();
    kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.path_ns), kind.kind));
    let kinds =
        kinds.iter().map(|kind| format!("{} {}", kind.kind.name(), share(kind.path_ns, path.length_ns).shown()));
    let of = if path.steps > 1 { " of a mean step" } else { "" };
    let head = format!("Critical path{of}: {}", kinds.collect::<Vec<_>>().join(", "));
    writeln!(out, "{}", screen.fill(&head))?;
    out.write_all(table(path).top(LINES).text(screen.width).as_bytes())?;
    // A short rest is a line as any other.
    let least = path.lines.iter().take(LINES).map(|line| line.path_ns).min();
    let is_rest = |line: &&PathLine| line.name == OTHERS && Some(line.path_ns) > least;
    let (rest, left): (Vec<&PathLine>, Vec<&PathLine>) = path.lines.iter().skip(LINES).partition(is_rest);
    let sum = |lines: &[&PathLine]| {
        let sum = Ns(lines.iter().map(|line| line.path_ns).sum());
        let share = percent(sum.share_of(Ns(path.length_ns)).unwrap_or(0.0));
        format!("{}, {share}", duration(Ns(sum.0 / i64::from(path.steps.max(1)))))
    };
    if !left.is_empty() {
        writeln!(out, "  … and {} more lines: {}", left.len(), sum(&left))?;
    }
    if !rest.is_empty() {
        writeln!(out, "  … other code: {}", sum(&rest))?;
    }
    Ok(())
}

/// A line as people see it: of a kernel without its parameters.
pub(crate) fn shown(line: &PathLine) -> &str {
    if line.kind == PathKind::Compute { short_kernel(&line.name) } else { &line.name }
}

/// The lines that the job's length consists of most, by reruns without them; not those of these findings, of which some ranks take longer for them.
pub(crate) fn findings(report: &RankReport, reruns: &Reruns, late: &[&LateWork]) -> Vec<Finding> {
    let Some(path) = &report.critical_path else { return Vec::new() };
    let share = |time: i64| Ns(time).share_of(Ns(path.length_ns)).unwrap_or(0.0);
    let mut lines: Vec<(&PathLine, i64)> =
        path.lines.iter().filter_map(|line| Some((line, line.without_it_saves_ns?))).collect();
    let late: Vec<&str> = late.iter().filter_map(|of| Some(of.culprit()?.name.as_str())).collect();
    lines.retain(|(line, saves)| share(*saves) >= WORTH && line.name != OUTSIDE && !late.contains(&line.name.as_str()));
    lines.sort_by_key(|(_, saves)| std::cmp::Reverse(*saves));
    // A rerun makes no rank wait where the trace does not show for whom.
    let (up_to, bound) = match report.is_mostly_unmeasured() {
        true => ("", "Most waiting is not measured, so this is no bound:"),
        false => ("up to ", "Upper bound:"),
    };
    let share_of_path = |line: &PathLine, saves: i64| match percent(share(line.path_ns)) {
        same if same == percent(share(saves)) => "that share".to_owned(),
        other => other,
    };
    let finding = |(line, saves): (&PathLine, i64)| Finding {
        kind: FindingKind::CriticalPath,
        cost: format!(
            "{up_to}{} would be saved: {}{}",
            percent(share(saves)),
            duration(Ns(saves)),
            in_steps(report, reruns)
        ),
        cost_ns: Some(Ns(saves)),
        what: shown(line).to_owned(),
        evidence: vec![format!(
            "It is {} of the critical path ({}{}, {}). {bound} a rerun with it at 0 ns on every rank.",
            share_of_path(line, saves),
            line.kind.name(),
            // Without other ranks it is unknown how much of it is waiting.
            if line.kind == PathKind::Transfer && report.collectives == 0 { " and waiting" } else { "" },
            crate::document::format::ranks(&line.ranks)
        )]
        .into_iter()
        .chain(long_transfers(report, line).map(|long| long_in_words(&long)))
        .collect(),
        advice: Some(match line.kind {
            PathKind::Transfer if report.ranks.len() == 1 => ALONE.to_owned(),
            PathKind::Transfer if report.absent.is_some() => ABSENT.to_owned(),
            PathKind::Transfer => match long_transfers(report, line) {
                Some(long) => look_at(report, &long),
                None => transfer_advice(report, line).to_owned(),
            },
            _ => advice(line).to_owned(),
        }),
        place: Place { ranks: line.ranks.clone(), line: Some(line.name.clone()), ..Place::default() },
        link: Some(Link { text: "The critical path", view: "critical", ..Link::default() }),
        ..Finding::default()
    };
    lines.into_iter().take(FINDINGS).map(finding).collect()
}

/// A line of this share of the critical path is looked at first.
const LARGE: f64 = 0.1;

/// The CPUs or the GPUs, where these set the pace.
pub(crate) fn pace(report: &RankReport, reruns: &Reruns, pace: Pace) -> Finding {
    let are_cpus = pace.cpus > pace.gpus;
    let (what, saves) = match are_cpus {
        true => ("CPUs twice as fast", reruns.cpus_twice_as_fast_saves_ns),
        false => ("GPUs twice as fast", reruns.gpus_twice_as_fast_saves_ns),
    };
    let at_most = if report.absent.is_some() { "at most " } else { "" };
    Finding {
        kind: FindingKind::Pace,
        cost: format!("{at_most}{} would be saved{}", duration(Ns(saves)), in_steps(report, reruns)),
        cost_ns: Some(Ns(saves)),
        what: what.to_owned(),
        advice: Some(first_of_pace(report, are_cpus)),
        link: Some(Link { text: "The critical path", view: "critical", ..Link::default() }),
        ..Finding::default()
    }
}

/// What to do first if CPUs or GPUs set the pace: look at what most of the critical path is, if one line is; if none is, it is distributed over many short calls.
fn first_of_pace(report: &RankReport, are_cpus: bool) -> String {
    let path = report.critical_path.iter();
    let lines = path.clone().flat_map(|path| &path.lines);
    let kind = if are_cpus { PathKind::Cpu } else { PathKind::Compute };
    let longest = lines.filter(|line| line.kind == kind && line.is_known()).max_by_key(|line| line.path_ns);
    let length = path.map(|path| path.length_ns).sum::<i64>();
    let share = |line: &PathLine| percent(Ns(line.path_ns).share_of(Ns(length)).unwrap_or(0.0));
    match longest.filter(|line| line.path_ns as f64 >= LARGE * length as f64) {
        Some(line) if line.long_calls_ns * 2 > line.path_ns => format!(
            "record after a warm-up: {} of the critical path is in {}, most of it in calls of more than a millisecond, which load modules.",
            share(line),
            visible(shown(line))
        ),
        Some(line) => format!("look at {}: it is {} of the critical path.", visible(shown(line)), share(line)),
        None if are_cpus => "take work off the CPUs with CUDA graphs, compiled code or larger batches.".to_owned(),
        None => "look at the kernels that are longest on the critical path.".to_owned(),
    }
}

/// ` in 4 steps`
pub(crate) fn in_steps(report: &RankReport, reruns: &Reruns) -> String {
    if reruns.steps < 2 || report.has_spans {
        String::new()
    } else {
        format!(" in {} steps", count(reruns.steps.into()))
    }
}

/// The few collectives of a line with most of its transfer, if most of what it is on the critical path is theirs.
fn long_transfers(report: &RankReport, line: &PathLine) -> Option<LongTransfers> {
    let of_line = || report.stacks.iter().filter(|stack| stack.headline.as_deref() == Some(&line.name));
    let stack = of_line().filter(|_| line.kind == PathKind::Transfer).max_by_key(|stack| stack.transfer_ns)?;
    let has_most = stack.transfer_ns.share_of(of_line().map(|stack| stack.transfer_ns).sum())? >= AGREES;
    let others = |long: &LongTransfers| (long.all - long.of.count) as f64 * long.of.others_median_ns;
    stack.long.filter(|long| has_most && line.path_ns as f64 > 2.0 * others(long))
}

/// `1 of its 20 collectives takes 6.00 ms; the other 19 take a median of 20.1 µs.`
fn long_in_words(LongTransfers { of, all, .. }: &LongTransfers) -> String {
    let take = if of.count == 1 { "takes" } else { "take" };
    format!(
        "{} of its {} collectives {take} {}; the other {} take a median of {}.",
        count(of.count),
        count(*all),
        duration(of.gpu_time_ns),
        count(all - of.count),
        duration(Ns::rounded(of.others_median_ns))
    )
}

/// What to do first about a few collectives that take far longer than the others: what makes all of them shorter does not make these so.
fn look_at(report: &RankReport, long: &LongTransfers) -> String {
    let step = report.steps.iter().find(|step| Some(step.number) == long.step);
    let at = step.map_or(String::new(), |step| format!(", in {}", visible(&step.name)));
    let which = if long.of.count == 1 { "that one".to_owned() } else { format!("these {}", count(long.of.count)) };
    format!("look at {which}{at}: what else used the network or the GPUs then, and whether the others are as large.")
}

/// What to do first about a collective of which only one rank is here.
const ALONE: &str = "record the other ranks over the same steps, and compare all of them with `nccl-stacks ranks`: that shows how much of it is \
    waiting for a late rank, and how fast its transfer is.";

/// What to do first about a collective, by why it is not hidden.
fn transfer_advice(report: &RankReport, line: &PathLine) -> &'static str {
    let mut stacks = report.stacks.iter().filter(|stack| stack.headline.as_deref() == Some(&line.name));
    let reason = stacks.find_map(|stack| stack.exposed_for.first().map(|of| of.why));
    match reason {
        Some(WhyExposed::LaunchedLate) => {
            "launch what follows earlier: the next kernel is launched too late to run beside it."
        }
        Some(WhyExposed::CpuWaits) => {
            "launch more before the thread waits for it: until then nothing can run beside it."
        }
        Some(WhyExposed::NothingLeft) => "start it earlier in the step: no other kernel is left to run beside it.",
        Some(WhyExposed::SameStream) => "give it a stream of its own, beside work that does not need it, or send less.",
        _ => "find work that does not need it to run beside it, or send less: the next kernel waits for it.",
    }
}

/// A reason is said if it holds for this share of the time, and what shows it named if that is one for this share.
const AGREES: f64 = 0.8;

/// The most characters of a kernel's name.
const KERNEL: usize = 60;

/// Why collectives are not hidden: `Exposed 12.3 ms: for 93.0 % of it the next kernel (rms_norm_kernel) waits for it. With a free transfer the job would be 5.1 % shorter.`
pub(crate) fn exposed(report: &RankReport, stack: &StackWaits) -> Option<String> {
    let share = |time: Ns| time.share_of(stack.exposed_ns).unwrap_or(0.0);
    let first = stack.exposed_for.first()?;
    let same = || stack.exposed_for.iter().filter(|of| of.why == first.why);
    let agrees = share(same().map(|of| of.exposed_ns).sum());
    let mut text = format!("Exposed {}", duration(stack.exposed_ns));
    if agrees >= AGREES && first.why != WhyExposed::Unknown {
        let named = first.by.as_deref().filter(|_| share(first.exposed_ns) >= AGREES);
        let named = named.map(|name| shorten_right(&visible(short_kernel(name)), KERNEL));
        let next =
            named.as_ref().map_or_else(|| "the next kernel".to_owned(), |name| format!("the next kernel ({name})"));
        let why = match first.why {
            WhyExposed::WaitedFor => format!("{next} waits for it"),
            WhyExposed::SameStream => format!("{next} is queued after it on the same stream"),
            WhyExposed::LaunchedLate => format!("{next} is launched too late to run beside it"),
            WhyExposed::CpuWaits => {
                let call = named.as_ref().map_or(String::new(), |call| format!(" in {call}"));
                format!("the CPU waits for it{call} before it launches more")
            }
            _ => "no kernel follows it in its step".to_owned(),
        };
        // What would be printed as 100.0 %.
        let part = if agrees > 1.0 - SEEN { String::new() } else { format!("for {} of it ", percent(agrees)) };
        text.push_str(&format!(": {part}{why}"));
    }
    text.push('.');
    let saved = stack.without_transfer_saves_ns.zip(report.reruns.as_ref());
    if let Some(saved) = saved.and_then(|(saves, reruns)| Ns(saves).share_of(Ns(reruns.length_ns))) {
        // How much of it is waiting is unknown without other ranks.
        let free = if stack.transfer_ns == Ns::ZERO { "Without it" } else { "With a free transfer" };
        if saved >= SEEN {
            text.push_str(&format!(" {free} the job would be {} shorter.", percent(saved)));
            return Some(text);
        }
        let path = report.critical_path.as_ref();
        let most = path.and_then(|path| Some((path, path.kinds.iter().max_by_key(|kind| kind.path_ns)?)));
        let most = most.and_then(|(path, kind)| Some((kind.kind, Ns(kind.path_ns).share_of(Ns(path.length_ns))?)));
        let why = match most.filter(|(_, share)| *share >= AGREES) {
            _ if report.pace().is_some_and(|pace| !pace.is_of_one()) => {
                ": the CPUs take as long as the GPUs".to_owned()
            }
            Some((kind, share)) => format!(": {} of the critical path is {}", percent(share), kind.name()),
            None => String::new(),
        };
        text.push_str(&format!(" {free} the job would be no shorter{why}."));
    }
    Some(text)
}

/// What to do first about a collective of which some ranks are not here.
const ABSENT: &str =
    "record the ranks that are not here over the same steps: how much of it is waiting for one of them is not known.";

/// What to do first about a line of the path.
fn advice(line: &PathLine) -> &'static str {
    match line.kind {
        PathKind::Cpu if ALLOCATIONS.contains(&line.name.as_str()) => {
            "record after a warm-up; if memory is still allocated in steps, look at the settings of the caching allocator."
        }
        PathKind::Cpu if line.long_calls_ns * 2 > line.path_ns => {
            "record after a warm-up: most of it is in a few calls of more than a millisecond, which load modules or allocate memory."
        }
        PathKind::Cpu if Work::is_launch(&line.name) => "launch less: CUDA graphs, compiled code, larger kernels.",
        PathKind::Cpu => {
            "this CPU time starves the GPU: capture or compile this part, call it less often, or move it off the launching thread."
        }
        _ => "compare its time with what the GPU can do, or do it less often.",
    }
}

/// When its pieces are on the axis of all ranks.
fn on_axis(compared: &Compared, path: &CriticalPath) -> Vec<Window> {
    let Compared { job, clocks, .. } = compared;
    let axis = Axis::new(job, clocks);
    // How far a rank's pieces are from the axis: the same for all of them, so that they do not overlap.
    let mut shifts: Vec<Option<Ns>> = vec![None; job.ranks.len()];
    let place = |piece: &PlacedPiece| {
        let own = job.reductions[piece.rank].graph.nodes[piece.node as usize].end;
        let shift = *shifts[piece.rank].get_or_insert_with(|| axis.at(piece.rank, own) - (own - piece.ahead));
        // Ranks that are aligned apart begin at 0 each.
        let start = (piece.window.start + shift).max(Ns::ZERO);
        Window { start, end: (piece.window.end + shift).max(start) }
    };
    path.pieces.iter().map(place).collect()
}

fn piece_name(compared: &Compared, piece: &PlacedPiece) -> String {
    let node = compared.job.reductions[piece.rank].graph.name(piece.node);
    match piece.kind {
        PathKind::Cpu => format!("CPU until {node}"),
        PathKind::LaunchLatency => format!("launch latency of {node}"),
        PathKind::Compute | PathKind::Transfer => node.to_owned(),
        PathKind::Idle => format!("idle before {node}"),
        PathKind::BlockedUnknown => format!("blocked in {node}, unknown by what"),
        PathKind::Profiler => format!("profiler in {node}"),
        PathKind::Absent => format!("waiting in {node} for a rank that is not here"),
    }
}

/// A piece of the critical path for the page's drawing.
#[derive(Debug, Clone)]
pub(crate) struct PathSpan {
    /// A position in the ranks.
    pub(crate) rank: usize,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    /// When it is on the axis of all ranks.
    pub(crate) window: Window,
}

pub(crate) fn lane(compared: &Compared, path: &CriticalPath) -> Vec<PathSpan> {
    let windows = on_axis(compared, path);
    let span = |(piece, window): (&PlacedPiece, Window)| PathSpan {
        rank: piece.rank,
        kind: piece.kind.name(),
        name: piece_name(compared, piece),
        window,
    };
    path.pieces.iter().zip(windows).map(span).collect()
}

/// Writes its pieces as a thread of each rank, with flows where it goes from one rank to another. `first` is a number of threads and of flows that no
/// other has.
pub(crate) fn trace(
    compared: &Compared,
    path: &CriticalPath,
    (thread, flow): (u32, u64),
    trace: &mut TraceWriter<&mut Vec<u8>>,
) -> io::Result<()> {
    let track = |rank: usize| Track { pid: compared.job.ranks[rank], tid: thread };
    let mut is_named = vec![false; compared.job.ranks.len()];
    for (at, (piece, Window { start, end })) in path.pieces.iter().zip(on_axis(compared, path)).enumerate() {
        if !std::mem::replace(&mut is_named[piece.rank], true) {
            trace.thread(track(piece.rank), "critical path", 0)?;
        }
        let name = piece_name(compared, piece);
        trace.slice(track(piece.rank), (start, Some(end)), ("critical path", &name), &Map::new())?;
        let goes = |from: usize, to: usize| path.pieces[from].rank != path.pieces[to].rank;
        let id = |to: usize| (flow + to as u64, "critical path");
        if at > 0 && goes(at - 1, at) {
            trace.flow(track(piece.rank), start, id(at), (1, 2))?;
        }
        if at + 1 < path.pieces.len() && goes(at, at + 1) {
            trace.flow(track(piece.rank), start, id(at + 1), (0, 2))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::cost::Outliers;
    use crate::answers::ranks::data::StepWaits;
    use crate::answers::ranks::hidden::ExposedFor;

    /// A line of collectives with this much of the path and saved, of which one of twenty takes 6 ms.
    fn found(path_ns: i64, saves_ns: i64, of_stack: &[(i64, bool)]) -> Finding {
        let line = PathLine {
            kind: PathKind::Transfer,
            name: "model.py(40): forward".to_owned(),
            path_ns,
            ranks: vec![0],
            long_calls_ns: 0,
            is_annotation: false,
            without_it_saves_ns: Some(saves_ns),
        };
        let times: Vec<(Ns, Ns)> = (0..20).map(|at| (Ns(at), Ns(if at == 7 { 6_000_000 } else { 20_000 }))).collect();
        let stack = |(transfer, is_long): &(i64, bool)| StackWaits {
            headline: Some(line.name.clone()),
            transfer_ns: Ns(*transfer),
            long: Outliers::find(&times).filter(|_| *is_long).map(|of| LongTransfers { of, all: 20, step: Some(1) }),
            ..StackWaits::default()
        };
        let step = |number: u32| StepWaits { number, name: format!("ProfilerStep#{number}"), ..StepWaits::default() };
        let path = CriticalPath { length_ns: 20_000_000, lines: vec![line.clone()], ..CriticalPath::default() };
        let report = RankReport {
            stacks: of_stack.iter().map(stack).collect(),
            steps: vec![step(0), step(1)],
            critical_path: Some(path),
            ..RankReport::default()
        };
        findings(&report, &Reruns::default(), &[]).remove(0)
    }

    /// A few collectives that make most of what a line costs are looked at, and not what all of them do; not where it is the others that cost it, or those of
    /// another stack.
    #[test]
    fn a_few_long_collectives_are_looked_at() {
        let long = "1 of its 20 collectives takes 6.00 ms; the other 19 take a median of 20.0 µs.";
        let of_one = found(6_200_000, 6_000_000, &[(6_380_000, true)]);
        assert_eq!(of_one.evidence[1..], [long]);
        let advised = "look at that one, in ProfilerStep#1: what else used the network or the GPUs then, and whether the others are as large.";
        assert_eq!(of_one.advice.as_deref(), Some(advised));
        for of in [
            found(6_200_000, 6_000_000, &[(6_380_000, false)]),
            found(380_000, 380_000, &[(6_380_000, true)]),
            found(6_200_000, 6_000_000, &[(6_380_000, true), (5_000_000, false)]),
        ] {
            assert_eq!(of.evidence.len(), 1, "{of:?}");
            assert!(of.advice.unwrap().starts_with("find work that does not need it"));
        }
    }

    /// What is advised goes by the reason why a collective is exposed, and by what a line of the CPU is.
    #[test]
    fn advice_goes_by_reason_and_kind() {
        let line = |kind: PathKind, name: &str, long_calls_ns: i64| PathLine {
            kind,
            name: name.to_owned(),
            path_ns: 10_000_000,
            ranks: vec![0],
            long_calls_ns,
            is_annotation: false,
            without_it_saves_ns: None,
        };
        let allocates = "record after a warm-up; if memory is still allocated in steps, look at the settings of the caching allocator.";
        let loads = "record after a warm-up: most of it is in a few calls of more than a millisecond, which load modules or allocate memory.";
        assert_eq!(advice(&line(PathKind::Cpu, "cudaMalloc", 0)), allocates);
        assert_eq!(advice(&line(PathKind::Cpu, "cudaLaunchKernel", 6_000_000)), loads);
        let others = [line(PathKind::Cpu, "cudaLaunchKernel", 4_000_000), line(PathKind::Compute, "gemm", 6_000_000)];
        assert!(others.iter().all(|of| ![allocates, loads].contains(&advice(of))));

        let of = |why: WhyExposed| {
            let exposed_for = vec![ExposedFor { why, by: None, exposed_ns: Ns(1) }];
            let stack =
                StackWaits { headline: Some("train.py(7): step".to_owned()), exposed_for, ..StackWaits::default() };
            let report = RankReport { stacks: vec![stack], ..RankReport::default() };
            transfer_advice(&report, &line(PathKind::Transfer, "train.py(7): step", 0))
        };
        let late = "launch what follows earlier: the next kernel is launched too late to run beside it.";
        assert_eq!(of(WhyExposed::LaunchedLate), late);
        let waits = "launch more before the thread waits for it: until then nothing can run beside it.";
        assert_eq!(of(WhyExposed::CpuWaits), waits);
        let report = RankReport::default();
        let advised = first_of_pace(&report, false);
        assert_eq!(advised, "look at the kernels that are longest on the critical path.");
    }

    /// A line that saves all that it is on the path has one number for both.
    #[test]
    fn a_share_is_said_once() {
        let of = |saves: i64| found(4_000_000, saves, &[]).evidence[0].clone();
        assert!(of(4_000_000).starts_with("It is that share of the critical path (transfer"), "{}", of(4_000_000));
        assert!(of(3_000_000).starts_with("It is 20.0 % of the critical path (transfer"), "{}", of(3_000_000));
    }
}
