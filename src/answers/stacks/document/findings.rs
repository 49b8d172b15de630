//! What every form of the stacks says: the verdict on the window, the stacks or groups with the most exposed time, and facts; and for people
//! the window's figures.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::coverage::why;
use super::page::{label, names_of};
use super::table::kernels;
use crate::answers::cost::{Outliers, Totals};
use crate::answers::damage;
use crate::answers::stacks::collective_info::Bytes;
use crate::answers::stacks::data::{Stack, StackReport};
use crate::answers::stacks::not_asked::{FamilyTime, NotAsked, PossibleTime};
use crate::answers::stacks::origin::Names;
use crate::answers::stacks::summary::{Summary, Unrecorded};
use crate::answers::stacks::verdict::{PACE, WORTH, Waiting};
use crate::attribution::launches::Reason;
use crate::attribution::selection::ALL_FAMILIES;
use crate::document::Screen;
use crate::document::findings::{Document, Finding, FindingKind, LEAST, Link, Place};
use crate::document::format::{WIDTH_WITHOUT_SCREEN, count, duration, percent, percent_or_unknown, size, visible};
use crate::names::families::FUSED;
use crate::names::kernels::kernel_beginning;
use crate::replay::critical::PathKind;
use crate::replay::findings::SEEN;
use crate::time::{Ns, Window};

/// The smallest share of the exposed time that makes a stack a finding.
const NOTABLE: f64 = 0.05;

const NO_STACKS: &str = "No call stacks";

pub(crate) fn document(report: &StackReport) -> Document {
    let windows: Vec<Window> = report.traces.iter().map(|trace| trace.window).collect();
    if report.coverage.kernels == 0 && !report.not_asked.families.is_empty() {
        // What others cost was not asked.
        return Document {
            title: NO_STACKS.to_owned(),
            damage: damage::sentences(&report.damage, windows.len(), &windows),
            ..Document::default()
        };
    }
    let mut verdict = sentences(report);
    verdict.extend(on_critical_path(report));
    verdict.extend(beside(&report.not_asked));
    Document {
        title: if report.has_answer() { "What collectives cost" } else { NO_STACKS }.to_owned(),
        damage: damage::sentences(&report.damage, windows.len(), &windows)
            .into_iter()
            .chain(unrecorded(report))
            .collect(),
        verdict,
        findings: findings(report),
        facts: facts(report),
        ..Document::default()
    }
}

struct Time {
    label: &'static str,
    get: fn(&Summary) -> Ns,
    /// Whether it covers everything that runs on the GPUs, even where the other times cover only what the window launched.
    is_of_all: bool,
}

const TIMES: &[Time] = &[
    Time { label: "GPU busy", get: |summary| summary.busy_ns, is_of_all: true },
    Time { label: "compute", get: |summary| summary.compute_ns, is_of_all: false },
    Time { label: "collectives", get: |summary| summary.collectives_ns, is_of_all: false },
    Time { label: "exposed", get: |summary| summary.exposed_ns, is_of_all: false },
];

/// Writes the window's figures: a line before stacks, otherwise with the longest-running kernels, in a table as wide as the screen.
pub(crate) fn figures(report: &StackReport, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let summary = &report.summary;
    if report.has_answer() && !screen.verbose {
        let share = |time: &Time| {
            let any = if time.is_of_all && summary.gpu_span.is_some() { " with any work" } else { "" };
            format!("{}{any} {}", time.label, percent_or_unknown(summary.share((time.get)(summary))))
        };
        let shares: Vec<String> = TIMES.iter().map(share).collect();
        let line = format!("Of {}: {}", measured(report), shares.join(", "));
        writeln!(out, "{}", screen.fill(&line))?;
        let path = report.critical_path_ns.as_ref().map(critical_path);
        return path.map_or(Ok(()), |line| writeln!(out, "{}", screen.fill(&line)));
    }
    writeln!(out)?;
    for Time { label, get, .. } in TIMES {
        let time = get(summary);
        let share = percent_or_unknown(summary.share(time));
        writeln!(out, " {label:<12}{:>12}{share:>10}", duration(time))?;
    }
    writeln!(out, " {:<12}{:>12}{}", summary.whole(), duration(summary.wall_ns), on_gpus(summary))?;
    if let Some(window) = launched_within(report) {
        writeln!(out, " {:<12}{:>12}", "window", duration(window))?;
    }
    writeln!(out)?;
    let table = kernels(&summary.top_kernels, Some(screen.width.unwrap_or(WIDTH_WITHOUT_SCREEN)));
    writeln!(out, "{}", table.trim_end())?;
    match summary.kernel_names_found.saturating_sub(summary.top_kernels.len() as u64) {
        0 => Ok(()),
        more => writeln!(out, " … and {} more names", count(more)),
    }
}

/// `Critical path of each rank alone, 87.0 ms: collectives 82.2 %, compute 14.4 %, idle 3.4 %`
fn critical_path(times: &BTreeMap<&'static str, Ns>) -> String {
    let whole: Ns = times.values().copied().sum();
    let known = PathKind::ALL.into_iter().filter_map(|kind| Some((kind, *times.get(kind.word())?)));
    let mut kinds: Vec<(PathKind, Ns)> = known.collect();
    kinds.sort_by_key(|(kind, time)| (std::cmp::Reverse(*time), *kind));
    let name = |kind: PathKind| if kind == PathKind::Transfer { "collectives" } else { kind.name() };
    let share = |(kind, time): (PathKind, Ns)| format!("{} {}", name(kind), percent_or_unknown(time.share_of(whole)));
    let shares: Vec<String> = kinds.into_iter().map(share).collect();
    format!("Critical path of each rank alone, {}: {}", duration(whole), shares.join(", "))
}

/// What the shares are of: `5.24 ms`, or `5.24 ms of GPU work (launched within 1.39 ms)`. Windows of several traces have separate clocks, so they form
/// no common span.
pub(crate) fn measured(report: &StackReport) -> String {
    let summary = &report.summary;
    let work = if summary.gpu_span.is_some() { " of GPU work" } else { "" };
    let length = format!("{}{work}{}", duration(summary.wall_ns), on_gpus(summary));
    launched_within(report).map_or(length.clone(), |window| {
        let too = if summary.gpu_annotation.is_some() { "; its annotation on the GPU spans it, too" } else { "" };
        format!("{length} (launched within {}{too})", duration(window))
    })
}

/// The length of the window whose launches are measured, if there is one such window.
fn launched_within(report: &StackReport) -> Option<Ns> {
    report.summary.gpu_span.filter(|_| report.traces.len() < 2).map(|_| report.summary.window.duration())
}

fn on_gpus(summary: &Summary) -> String {
    if summary.gpus == 1 { String::new() } else { format!(" on {} GPUs, summed", summary.gpus) }
}

/// A sentence for each kind of communication outside of the selected collectives.
pub fn beside(found: &NotAsked) -> impl Iterator<Item = String> {
    [not_asked(found), fused(found), possible(found)].into_iter().flatten()
}

/// `Of 16 of 48 launches no kernel is known: what the GPU did for them, and so how long it was idle, is unknown.`, and the same of graphs without their kernels.
fn unrecorded(report: &StackReport) -> impl Iterator<Item = String> {
    let Unrecorded { launches, launches_without_kernels: without, graphs_ns, .. } = report.summary.unrecorded;
    let dropped = lacks_kernels(report).then(|| {
        format!(
            "Of {} of {} launches no kernel is known: what the GPU did for them, and so how long it was idle, is unknown.",
            count(without),
            count(launches)
        )
    });
    let graphs = has_whole_graphs(report).then(|| {
        format!(
            "CUDA graphs take {} of the {}, recorded as a whole: which collectives ran in them is unknown. Record with --cuda-graph-trace=node.",
            percent_or_unknown(report.summary.share(graphs_ns)),
            report.summary.whole()
        )
    });
    [dropped, graphs].into_iter().flatten()
}

/// Whether so many launches have no kernel that what looks like idle time may be theirs. Of 52 real traces with launches 49 have a kernel for each; one, of four ranks
/// in one file, lacks those of 0.5 %; and two are of captures, whose launches run nothing.
fn lacks_kernels(report: &StackReport) -> bool {
    let Unrecorded { launches, launches_without_kernels, .. } = report.summary.unrecorded;
    launches_without_kernels as f64 >= WORTH * launches as f64 && launches_without_kernels > 0
}

fn has_whole_graphs(report: &StackReport) -> bool {
    report.summary.share(report.summary.unrecorded.graphs_ns).is_some_and(|share| share >= WORTH)
}

/// `Compute takes 97.0 % of 7.42 ms.`, where kernels twice as fast would save more than all that is exposed, and more than all that is idle.
fn computes(report: &StackReport, idle: Option<(Ns, f64)>) -> Option<String> {
    let summary = &report.summary;
    let [compute, exposed] = [summary.compute_ns, summary.exposed_ns].map(|time| summary.share(time).unwrap_or(0.0));
    let is_most = compute / 2.0 >= PACE && compute / 2.0 > exposed.max(idle.map_or(0.0, |(_, share)| share));
    let is_known = !lacks_kernels(report) && !has_whole_graphs(report);
    (is_most && is_known)
        .then(|| format!("Compute takes {} of {}{}.", percent(compute), duration(summary.wall_ns), on_gpus(summary)))
}

fn sentences(report: &StackReport) -> Vec<String> {
    let summary = &report.summary;
    let idle = idle(report);
    if let Some(asked) = asked(report) {
        let none = (summary.collectives_ns == Ns::ZERO).then(|| no_collective(report, ""));
        return [Some(asked), idle.map(|idle| is_idle(report, idle, false)), none].into_iter().flatten().collect();
    }
    if summary.collectives_ns == Ns::ZERO {
        let compute =
            summary.share(summary.compute_ns).filter(|_| summary.compute_ns + summary.compute_ns > summary.wall_ns);
        let compute = compute.map_or(String::new(), |share| format!("; compute takes {} of it", percent(share)));
        return [no_collective(report, &compute)]
            .into_iter()
            .chain(idle.map(|idle| is_idle(report, idle, true)))
            .collect();
    }
    if has_only_collectives(report) {
        return vec![cost(report, true), ONLY_COLLECTIVES.to_owned()];
    }
    let exposed = summary.share(summary.exposed_ns).unwrap_or(0.0);
    // Copies and the rest of that time are two facts.
    let copies = summary.copies_ns.and_then(|copies| summary.share(copies)).unwrap_or(0.0);
    let comes_first = idle.is_some_and(|(_, share)| copies.max(share - copies) > exposed);
    let mut said: Vec<String> = computes(report, idle).into_iter().collect();
    let is_first = said.is_empty();
    match idle {
        Some(idle) if comes_first => said.extend([is_idle(report, idle, is_first), cost(report, false)]),
        _ => said.push(cost(report, is_first)),
    }
    said.extend(if exposed >= WORTH { doubtful(report) } else { None });
    said.extend(idle.filter(|_| !comes_first).map(|idle| is_idle(report, idle, false)));
    said
}

fn no_collective(report: &StackReport, but: &str) -> String {
    let any =
        if report.not_asked.possibly_communication.is_empty() { "collective" } else { "kernel of a known collective" };
    let ran = if lacks_kernels(report) || has_whole_graphs(report) { "is recorded in" } else { "ran during" };
    format!("No {any} {ran} the window{but}.")
}

/// `The kernels asked for take 204.6 ms of 1.20 s (17.1 %).` `None` if these are all collectives.
fn asked(report: &StackReport) -> Option<String> {
    let summary = &report.summary;
    let NotAsked { families, possibly_communication, .. } = &report.not_asked;
    // What may be communication is shown without being asked for.
    let has_none = summary.collectives_ns == Ns::ZERO && possibly_communication.is_empty();
    if families.is_empty() && !has_none || report.coverage.kernels == 0 {
        return None;
    }
    let (times, apart) = rows(report);
    let all = |get: fn(&Totals) -> Ns| -> Ns { times.iter().chain([&apart]).map(get).sum() };
    let (time, exposed) = (all(|of| of.gpu_time_ns), all(|of| of.exposed_ns));
    let are_collectives =
        report.stacks.iter().chain(&report.hidden).any(|stack| !stack.messages.collectives.is_empty());
    let exposed = if are_collectives { format!(", {}", hidden(exposed, time)) } else { String::new() };
    let whole = format!("{}{}", duration(summary.wall_ns), on_gpus(summary));
    Some(match summary.share(time).filter(|share| *share <= 1.0) {
        Some(share) => {
            format!("The kernels asked for take {} of {whole} ({}){exposed}.", duration(time), percent(share))
        }
        None => format!("The kernels asked for take {} within {whole}, several at a time{exposed}.", duration(time)),
    })
}

/// The totals of all stacks or groups, shown or left out, and of the kernels without a launch that are in none of them.
fn rows(report: &StackReport) -> (Vec<Totals>, Totals) {
    match report.groups() {
        Some(grouped) => (vec![grouped.totals()], Totals::default()),
        None => {
            let stacks = report.stacks.iter().chain(&report.hidden);
            (stacks.map(Stack::totals).collect(), report.coverage.without_launch())
        }
    }
}

/// What makes the costs of stacks doubtful: most of that of the costliest is of a few kernels, or more than it costs has no stack.
fn doubtful(report: &StackReport) -> Option<String> {
    let stacks: Vec<&Stack> = report.stacks.iter().chain(&report.hidden).collect();
    let exposed = |stack: &Stack| stack.cost.exposed_ns;
    let most = stacks.iter().enumerate().max_by_key(|(_, stack)| exposed(stack));
    let without = report.coverage.without_launch();
    if report.groups().is_none() && without.exposed_ns > most.map_or(Ns::ZERO, |(_, stack)| exposed(stack)) {
        let kernels = crate::document::format::kernels(without.count);
        let why = only_reason(report).map_or(String::new(), |reason| format!(", {}", why(reason)));
        return Some(format!("No code is known for {kernels} ({} exposed){why}.", duration(without.exposed_ns)));
    }
    let (at, most) = most?;
    let outliers = outliers_in_words(most.cost.outliers.as_ref()?, most.count);
    let frames: Vec<_> = Names::new(stacks.iter().map(|stack| stack.naming())).name(at);
    let frames: Vec<_> = frames.into_iter().map(visible).collect();
    Some(format!("Of {}: {outliers}", frames.join(" in ")))
}

/// Why the kernels without a launch have none; `None` if they have several reasons.
fn only_reason(report: &StackReport) -> Option<Reason> {
    let mut reasons = report.coverage.without_launch.keys();
    reasons.next().copied().filter(|_| reasons.next().is_none())
}

/// Said instead of the time in which the GPU was idle and that no kernel hides.
const ONLY_COLLECTIVES: &str =
    "No other work of the GPU and no launch is recorded: whether the GPU computed beside them or was idle is unknown.";

/// Whether there is neither other work of the GPU nor a call that launched a collective: what else ran was not recorded, or removed.
fn has_only_collectives(report: &StackReport) -> bool {
    let summary = &report.summary;
    summary.collectives_ns > Ns::ZERO && summary.busy_ns == summary.collectives_ns && report.coverage.attributed() == 0
}

/// `Collectives take 243.4 µs of 918.8 µs (26.5 %), 61.6 % of it (150.0 µs) exposed: no compute kernel hides that.` `is_first`: whether what the share
/// is of has not been named yet.
fn cost(report: &StackReport, is_first: bool) -> String {
    let summary = &report.summary;
    let whole = if is_first { format!(" of {}{}", duration(summary.wall_ns), on_gpus(summary)) } else { String::new() };
    let of_window = summary.share(summary.collectives_ns).unwrap_or(0.0);
    let (time, share) = (duration(summary.collectives_ns), percent(of_window));
    if has_only_collectives(report) {
        return format!("Collectives take {time}{whole} ({share}).");
    }
    let is_all = report.not_asked.possibly_communication.is_empty() && report.not_asked.fused_ns == Ns::ZERO;
    if !is_first && is_all && of_window < NOTABLE && !has_whole_graphs(report) {
        return format!("Collectives are not the problem: they take {time} ({share}).");
    }
    format!("Collectives take {time}{whole} ({share}), {}.", hidden(summary.exposed_ns, summary.collectives_ns))
}

/// `61.6 % of it (150.0 µs) exposed: no compute kernel hides that`
fn hidden(exposed: Ns, all: Ns) -> String {
    let share = exposed.share_of(all).unwrap_or(0.0);
    match exposed {
        Ns::ZERO => "none of it exposed: compute kernels hide all of it".to_owned(),
        // What would be printed as 100.0 %.
        _ if share > 1.0 - SEEN => "all of it exposed: no compute kernel hides it".to_owned(),
        some => format!("{} of it ({}) exposed: no compute kernel hides that", percent(share), duration(some)),
    }
}

/// The share of the time that kernels take that are not known, if they are as long as the others; `None` if whole graphs are not.
fn lost_busy(report: &StackReport) -> Option<f64> {
    let Unrecorded { launches, launches_without_kernels: without, graphs_without_kernels, .. } =
        report.summary.unrecorded;
    match (launches - without) as f64 {
        _ if !lacks_kernels(report) => Some(0.0),
        known if known > 0.0 && graphs_without_kernels == 0 => {
            Some(report.summary.share(report.summary.busy_ns)? * without as f64 / known)
        }
        _ => None,
    }
}

/// For how long the GPUs were idle, and the share of the time, if that is large or more than what collectives cost. Where kernels may be lost, as much
/// of that may be their time.
fn idle(report: &StackReport) -> Option<(Ns, f64)> {
    let summary = &report.summary;
    let idle = summary.wall_ns - summary.busy_ns;
    let (share, lost) = (summary.share(idle)?, report.damage.lost_share? + lost_busy(report)?);
    let most = if lost > 0.0 { PACE } else { summary.share(summary.exposed_ns)?.clamp(WORTH, PACE) };
    let is_known = summary.gpus > 0 && !has_only_collectives(report);
    (is_known && share - lost >= most).then_some((idle, share))
}

/// `The GPU is idle for 87.7 % of 342.4 ms: look at the CPU (launches, data loading), not at NCCL.` A wait for another process looks alike; that no collective ran in
/// that time is certain. Where copies run in most of it, or launched kernels had not begun, the CPU is not the reason. `is_first`: whether what the share is of has not been named yet.
fn is_idle(report: &StackReport, (idle, share): (Ns, f64), is_first: bool) -> String {
    let summary = &report.summary;
    let gpus = if summary.gpus == 1 { "The GPU is" } else { "The GPUs are" };
    let (another, whole) = match is_first {
        true => ("", format!(" of {}{}", duration(summary.wall_ns), on_gpus(summary))),
        false => ("another ", String::new()),
    };
    let another = format!("{}{another}", at_most(report));
    if !is_idle_for_most(report, share) {
        return format!("{gpus} idle for {another}{}{whole}.", percent(share));
    }
    let most = |of: Option<Ns>| of.filter(|of| *of + *of >= idle).map(duration);
    if let Some(copies) = most(summary.copies_ns) {
        return format!(
            "{gpus} without a kernel for {another}{}{whole}: copies run in {copies} of that.",
            percent(share)
        );
    }
    if let Some(queued) = most(summary.queued_ns) {
        return format!(
            "{gpus} idle for {another}{}{whole}. In {queued} of that launched kernels had not begun: look at waits between streams and at launch latency first.",
            percent(share)
        );
    }
    let where_to = match summary.share(summary.exposed_ns) {
        _ if share < PACE => "",
        Some(exposed) if exposed >= NOTABLE => ": look at the CPU (launches, data loading) first",
        _ => ": look at the CPU (launches, data loading), not at NCCL",
    };
    format!("{gpus} idle for {another}{}{whole}{where_to}.", percent(share))
}

/// How much of the path of each rank alone the kernels are, if that was asked for. What is not on it can go without making it shorter.
fn on_critical_path(report: &StackReport) -> Option<String> {
    let path = report.critical_path_ns.as_ref().filter(|_| report.coverage.kernels > 0)?;
    let whole: Ns = path.values().copied().sum();
    let stacks = report.stacks.iter().chain(&report.hidden).chain(&report.without_launch);
    let on_path = match report.groups() {
        Some(grouped) => grouped.totals().critical.unwrap_or_default(),
        None => stacks.filter_map(|stack| stack.cost.critical_ns).sum(),
    };
    Some(match on_path.share_of(whole).filter(|_| on_path > Ns::ZERO) {
        Some(share) => format!(
            "Of the critical path of each rank alone ({}) these kernels are {} ({}).",
            duration(whole),
            percent(share),
            duration(on_path)
        ),
        None => {
            "None of these kernels is on the critical path of its rank alone: to hide them would not make that shorter."
                .to_owned()
        }
    })
}

/// The window, and facts about its kernels.
fn facts(report: &StackReport) -> Vec<(&'static str, String)> {
    let (summary, coverage) = (&report.summary, &report.coverage);
    let share = |time: Ns| percent_or_unknown(summary.share(time));
    if summary.gpus == 0 {
        return vec![("Window", duration(summary.window.duration())), ("GPUs", "none in the trace".to_owned())];
    }
    let mut facts = vec![
        (if summary.gpu_span.is_some() { "Measured" } else { "Window" }, measured(report)),
        ("GPU busy", share(summary.busy_ns)),
        ("Compute", share(summary.compute_ns)),
        ("Collectives", share(summary.collectives_ns)),
        ("Exposed", share(summary.exposed_ns)),
        (
            "Coverage",
            format!(
                "{} of {} have a launch",
                count(coverage.attributed()),
                crate::document::format::kernels(coverage.kernels)
            ),
        ),
    ];
    match report.damage.lost_share {
        Some(share) if share > 0.0 => facts.push(("Lost", format!("{} of the text", percent(share)))),
        Some(_) => {}
        None => facts.push(("Lost", "unknown".to_owned())),
    }
    facts
}

/// The stacks or groups with the most exposed time, and the kernels without a launch.
fn findings(report: &StackReport) -> Vec<Finding> {
    let rows: Vec<Totals> = match report.groups() {
        Some(grouped) => grouped.groups.iter().map(|group| group.totals()).collect(),
        None => report.stacks.iter().map(Stack::totals).collect(),
    };
    // Groups include the kernels without a launch.
    let (all, apart) = self::rows(report);
    let all: Ns = all.iter().chain([&apart]).map(|row| row.exposed_ns).sum();
    let share = |of: Totals| of.exposed_ns.share_of(all).unwrap_or(0.0);
    let is_seen = |time: Ns| report.summary.share(time).is_none_or(|share| share >= LEAST);
    let is_notable = |row: Totals| share(row) >= NOTABLE && is_seen(row.exposed_ns);
    let notable: Vec<usize> = (0..rows.len()).filter(|at| is_notable(rows[*at])).collect();
    let names = names_of(report);
    let finding = |at: usize| {
        let label = label(report, &names, at);
        Finding {
            kind: FindingKind::Exposed,
            what: label.join(" in "),
            place: Place { row: Some(at), line: line(report, at), ..Place::default() },
            link: Some(Link { text: "Its row", view: "stacks", stack: Some(at), ..Link::default() }),
            ..match report.groups() {
                Some(_) => of_group(rows[at], share(rows[at])),
                None => of_stack(report, &report.stacks[at], &label, share(rows[at])),
            }
        }
    };
    let mut found: Vec<(Ns, Finding)> = notable.into_iter().map(|at| (rows[at].exposed_ns, finding(at))).collect();
    if is_notable(apart) {
        found.push((apart.exposed_ns, no_launch(report, apart, share(apart))));
    }
    found.extend(idle(report).map(|(time, _)| {
        let copies = report.summary.copies_ns.filter(|copies| *copies + *copies >= time);
        copies.map_or_else(|| (time, idle_gpu(report, time)), |copies| (copies, copying(copies)))
    }));
    found.extend(computes(report, idle(report)).map(|_| (Ns(report.summary.compute_ns.0 / 2), computing(report))));
    found.sort_by_key(|(exposed, _)| std::cmp::Reverse(*exposed));
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// The frame that best shows where a stack comes from.
fn line(report: &StackReport, at: usize) -> Option<String> {
    if report.groups().is_some() { None } else { report.stacks.get(at)?.headline.clone() }
}

/// The cost of kernels: `39.2 ms exposed`.
fn exposed(row: Totals) -> Finding {
    Finding {
        cost: format!("{} exposed", duration(row.exposed_ns)),
        cost_ns: Some(row.exposed_ns),
        ..Finding::default()
    }
}

fn of_group(row: Totals, share: f64) -> Finding {
    let kernels = crate::document::format::kernels(row.count);
    let text = format!("{} of the exposed time: {kernels}, GPU time {}.", percent(share), duration(row.gpu_time_ns));
    Finding { evidence: vec![text], ..exposed(row) }
}

fn no_launch(report: &StackReport, row: Totals, share: f64) -> Finding {
    let kernels = crate::document::format::kernels(row.count);
    let (from, cost) = match has_only_collectives(report) {
        true => (format!("These are {kernels}"), format!("{} of GPU time", duration(row.gpu_time_ns))),
        false => (format!("{} of the exposed time: {kernels}", percent(share)), exposed(row).cost),
    };
    let reason = only_reason(report);
    let advice = reason.and_then(|reason| match reason {
        Reason::NoCalls => Some("record with ProfilerActivity.CPU, too."),
        Reason::BeforeTrace => {
            Some("let the profiler begin a step earlier: what runs in its first step was launched before.")
        }
        Reason::NotRecorded => Some("record fewer steps: the profiler has dropped calls."),
        Reason::NoId => None,
    });
    Finding {
        kind: FindingKind::NoLaunch,
        what: "kernels without a launch".to_owned(),
        cost,
        evidence: vec![format!("{from}{}.", reason.map_or(String::new(), |reason| format!(", {}", why(reason))))],
        advice: advice.map(str::to_owned),
        link: Some(Link { text: "Why", view: "trust", ..Link::default() }),
        ..exposed(row)
    }
}

fn computing(report: &StackReport) -> Finding {
    let traces = if report.traces.len() == 1 { "the same trace" } else { "the same traces" };
    Finding {
        kind: FindingKind::Pace,
        cost: format!("{} of compute", duration(report.summary.compute_ns)),
        cost_ns: Some(report.summary.compute_ns),
        what: "kernels that are no collectives".to_owned(),
        advice: Some(format!("ask which code launches them: `nccl-stacks` with {traces} and `--kernel-name '*'`.")),
        ..Finding::default()
    }
}

/// Copies while no kernel runs.
fn copying(copies: Ns) -> Finding {
    Finding {
        kind: FindingKind::IdleGpu,
        cost: format!("{} of copies", duration(copies)),
        cost_ns: Some(copies),
        what: "no kernel runs beside them".to_owned(),
        ..Finding::default()
    }
}

/// Whether kernels that are not known leave most of the idle time, so that its reason can be looked for.
fn is_idle_for_most(report: &StackReport, share: f64) -> bool {
    lost_busy(report).is_some_and(|lost| lost < share / 2.0)
}

fn at_most(report: &StackReport) -> &'static str {
    if lacks_kernels(report) { "up to " } else { "" }
}

fn idle_gpu(report: &StackReport, time: Ns) -> Finding {
    let one = report.summary.gpus == 1;
    let has_calls = !report.coverage.without_launch.contains_key(&Reason::NoCalls);
    let traces = if report.traces.len() == 1 { "the same trace" } else { "the same traces" };
    let has_collectives = report.summary.collectives_ns > Ns::ZERO;
    let advice = match has_calls {
        true if has_collectives => format!(
            "ask `nccl-stacks ranks` with {traces}: its critical path names what the GPU waits for."
        ),
        true => "ask `nccl-stacks sql` with the trace of one rank and `--query critical_path`, which names what the GPU waits for."
            .to_owned(),
        false => "record with ProfilerActivity.CPU, so that one sees what the CPU does meanwhile.".to_owned(),
    };
    Finding {
        kind: FindingKind::IdleGpu,
        cost: format!("{}{} idle", at_most(report), duration(time)),
        cost_ns: Some(time),
        what: if one { "the GPU".to_owned() } else { format!("{} GPUs, summed", count(report.summary.gpus)) },
        advice: Some(advice).filter(|_| is_idle_for_most(report, report.summary.share(time).unwrap_or(0.0))),
        ..Finding::default()
    }
}

fn of_stack(report: &StackReport, stack: &Stack, label: &[String], share: f64) -> Finding {
    let traces = report.traces.len();
    let mut text = format!("{} of the exposed time", percent(share));
    if traces > 1 {
        text.push_str(&format!(" of {} traces", count(traces as u64)));
    }
    text.push_str(&format!(": {}", crate::document::format::kernels(stack.count)));
    let collectives: Vec<&str> = stack.messages.collectives.keys().map(String::as_str).collect();
    if !collectives.is_empty() {
        text.push_str(&format!(", {}", collectives.join(", ")));
    }
    if let Some(Bytes { min, max, .. }) = stack.messages.bytes {
        let of = if stack.messages.is_shared() { " per collective" } else { " each" };
        let to = if min == max { of.to_owned() } else { format!(" to {}", size(max)) };
        text.push_str(&format!(" of {}{to}", size(min)));
    }
    let (mut evidence, mut advice) = (vec![text + "."], None);
    if let Some(outliers) = &stack.cost.outliers {
        evidence.push(outliers_in_words(outliers, stack.count));
        let (from, until) = (outliers.last_end_ns, report.summary.window.end);
        let without = || {
            let them = if outliers.count == 1 { "it" } else { "them" };
            format!("--start-ts {from} --duration {} leaves {them} out.", until - from)
        };
        advice = (outliers.are_first && from < until).then(without);
    } else if let Some(Waiting { mean, best, .. }) = Waiting::find(stack) {
        let over = if traces > 1 { format!(" over {} traces", count(traces as u64)) } else { String::new() };
        evidence.push(format!(
            "They take a mean of {}; the fastest with this collective, size and number of ranks{over} takes {}: the rest is waiting for other \
             ranks, or contention.",
            duration(Ns::rounded(mean)),
            duration(best)
        ));
    }
    if label.iter().any(|label| label.contains("torch::autograd::")) {
        evidence.push("Autograd launched them in the backward pass, not a line of the model.".to_owned());
        advice = advice.or(Some(
            "ask `nccl-stacks sql` with the same trace and `--query pairs`, which names the modules.".to_owned(),
        ));
    }
    if !collectives.is_empty() {
        advice = advice.or_else(|| Some(who_waits(traces)));
    }
    Finding { evidence, advice, ..exposed(stack.totals()) }
}

/// What to do first about the time of collectives: a part of it may be waiting for other ranks.
fn who_waits(traces: usize) -> String {
    match traces {
        1 => "give the traces of all ranks to `nccl-stacks ranks`, which shows who waits for whom.",
        _ => "ask `nccl-stacks ranks` with the same traces who waits for whom.",
    }
    .to_owned()
}

/// `1 of the 64 kernels, the first, takes 17.5 s of their time, at 1000300000 ns; the other 63 take a median of 14.3 µs.`
fn outliers_in_words(outliers: &Outliers, all: u64) -> String {
    let Outliers {
        count: n,
        gpu_time_ns: gpu_time,
        others_median_ns: others_median,
        first_start_ns: first_start,
        are_first,
        ..
    } = *outliers;
    let take = if n == 1 { "takes" } else { "take" };
    let first = match (are_first, n) {
        (true, 1) => ", the first,",
        (true, _) => ", the first ones,",
        _ => "",
    };
    format!(
        "{} of the {} kernels{first} {take} {} of their time, at {first_start} ns; the other {} take a median of {}.",
        count(n),
        count(all),
        duration(gpu_time),
        count(all - n),
        duration(Ns::rounded(others_median))
    )
}

/// `121.1 ms of 125.2 ms of communication is in kernels that are not asked for: custom-allreduce 110.7 ms, nccl 10.4 ms.`
fn not_asked(found: &NotAsked) -> Option<String> {
    let family = |family: &FamilyTime| format!("{} {}", family.family, duration(family.of.gpu_time_ns));
    let families: Vec<String> = found.families.iter().map(family).collect();
    if found.gpu_time() == found.collectives_ns && !families.is_empty() {
        return Some(format!("None of the kernels asked for is communication, which takes: {}.", families.join(", ")));
    }
    (!families.is_empty()).then(|| {
        format!(
            "{} of {} of communication is in kernels that are not asked for: {}.",
            duration(found.gpu_time()),
            duration(found.collectives_ns),
            families.join(", ")
        )
    })
}

/// `12.3 ms are matrix products that communicate themselves: neither hidden nor exposed. The option --family fused-gemm shows them.`
fn fused(found: &NotAsked) -> Option<String> {
    (found.fused_ns > Ns::ZERO).then(|| {
        format!(
            "{} are matrix products that communicate themselves: neither hidden nor exposed. The option --family {FUSED} shows them.",
            duration(found.fused_ns)
        )
    })
}

/// How many kernel names a line has.
const NAMED: usize = 3;

/// `8 kernels (12.3 ms) are possibly communication, and count neither as collectives nor as computation: send_tokens (12.3 ms), launched by dispatch.
/// The options --family all-collectives --kernel-name 'send_tokens' make them collectives.`
fn possible(found: &NotAsked) -> Option<String> {
    let longest = found.possibly_communication.first()?;
    let name = |of: &PossibleTime| {
        let caller = of.caller.as_deref().map_or(String::new(), |caller| format!(", launched by {}", visible(caller)));
        format!("{} ({}{caller})", visible(kernel_beginning(&of.name)), duration(of.of.gpu_time_ns))
    };
    let mut names: Vec<String> = found.possibly_communication.iter().take(NAMED).map(name).collect();
    match found.possibly_communication.len() - names.len() {
        0 => {}
        more => names.push(format!("{} more", count(more as u64))),
    }
    let all: u64 = found.possibly_communication.iter().map(|known| known.of.kernels).sum();
    let (is, them) = if all == 1 { ("is", "it a collective") } else { ("are", "them collectives") };
    Some(format!(
        "{} ({}) {is} possibly communication, and counted neither as collectives nor as computation: {}. The options --family {ALL_FAMILIES} --kernel-name '{}' make {them}.",
        crate::document::format::kernels(all),
        duration(found.possibly_communication.iter().map(|known| known.of.gpu_time_ns).sum()),
        names.join("; "),
        visible(kernel_beginning(&longest.name)),
    ))
}
