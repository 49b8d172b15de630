//! The verdict of the comparison of ranks, in words.

use crate::names::collectives::Collective;
use crate::operation::ranges::ranges;
use crate::ranks::cause::{Excess, ExcessPart, LaunchLate, Pattern, Place};
use crate::ranks::report::RankReport;
use crate::ranks::verdict::{Blame, RanksVerdict, Reason};
use crate::report::damage;
use crate::report::format::{count, duration, percent, visible};
use crate::time::{Ns, Window};

/// Smaller shares are not mentioned.
const NOTABLE: f64 = 0.05;

/// The verdict on one line.
pub fn plain(report: &RankReport) -> String {
    [damaged(report), sentences(report)].concat().join(" ")
}

/// The sentences of the verdict without those about damage, most important first.
pub(super) fn sentences(report: &RankReport) -> Vec<String> {
    let mut text = whole(report);
    text.extend(blames(&report.verdict()).into_iter().map(|(_, sentence)| sentence));
    text
}

/// The sentences about damage that precede the verdict.
pub(super) fn damaged(report: &RankReport) -> Vec<String> {
    let windows: Vec<Window> = report.ranks.iter().map(|rank| rank.window).collect();
    damage::sentences(&report.damage, windows.len(), &windows)
}

/// The verdict without individual ranks.
fn whole(report: &RankReport) -> Vec<String> {
    let verdict = report.verdict();
    let unjudged = [unmeasured(report), left_out(report)].into_iter().flatten();
    if report.collectives == 0 {
        let none = match report.matches.matched + report.matches.partial {
            0 => "No collective was matched over several ranks, so no waiting can be seen.",
            _ => "No collective can be measured, so no waiting can be seen.",
        };
        return std::iter::once(none.to_owned()).chain(unjudged).collect();
    }
    let mut text = Vec::new();
    if let Some((least, most)) = verdict.launch_bound {
        text.push(format!(
            "All ranks are launch-bound: for {} of the {} nothing was queued on their GPUs, so their CPUs set the pace.",
            between(least, most),
            if report.ranks.iter().any(|rank| rank.gpu_span.is_some()) { "GPU span" } else { "window" }
        ));
        text.push("CUDA graphs, compiled code or larger batches take work off the CPUs of all ranks.".to_owned());
    }
    let what = what(report);
    text.push(format!(
        "{} of {what} time is waiting for another rank: {} of {} over all ranks.",
        percent(verdict.waiting),
        duration(report.waited),
        duration(report.measured)
    ));
    text.extend(unjudged);
    if verdict.blamed.is_empty() {
        text.push(nobody(report));
    }
    text
}

/// `No waiting can be measured in 95.5 % of collectives' time: 64.000 ms of 67.000 ms over all ranks, in kernels of mscclpp.`
fn unmeasured(report: &RankReport) -> Option<String> {
    let mut kinds: Vec<(&str, Ns)> = report.unmeasured.iter().map(|(name, time)| (name.as_str(), *time)).collect();
    kinds.sort_by_key(|(name, time)| (std::cmp::Reverse(*time), *name));
    let time: Ns = kinds.iter().map(|(_, time)| *time).sum();
    let list = |names: &[&str]| names.iter().map(|name| visible(name)).collect::<Vec<_>>().join(", ");
    let names: Vec<&str> = kinds.into_iter().map(|(name, _)| name).collect();
    let needs_clocks =
        |name: &&str| Collective::of_record(name).is_some_and(|of| of.has_root() || of.is_point_to_point());
    let with_clocks: Vec<&str> = match report.verdict().is_by_lengths {
        true => names.iter().copied().filter(needs_clocks).collect(),
        false => Vec::new(),
    };
    let share = time.share_of(report.gpu).filter(|_| !names.is_empty())?;
    let clocks = match &with_clocks[..] {
        [] => String::new(),
        names => format!(" Aligned clocks would show who waits at {}.", list(names)),
    };
    Some(format!(
        "No waiting can be measured in {} of collectives' time: {} of {} over all ranks, in kernels of {}.{clocks}",
        percent(share),
        duration(time),
        duration(report.gpu),
        list(&names),
    ))
}

/// `Left out: 5.035 ms to 5.043 ms of collectives on each of ranks 0-1, 3, where the trace of another rank had ended or not begun.`
fn left_out(report: &RankReport) -> Option<String> {
    let of: Vec<(u32, Ns)> = report.ranks.iter().map(|rank| (rank.rank, rank.left_out)).collect();
    let (ranks, times): (Vec<u32>, Vec<Ns>) = of.into_iter().filter(|(_, time)| *time > Ns::ZERO).unzip();
    let (least, most) = (duration(*times.iter().min()?), duration(*times.iter().max()?));
    let each = if ranks.len() > 1 { "each of " } else { "" };
    Some(format!(
        "Left out: {} of collectives on {each}{}, where the trace of another rank had ended or not begun.",
        if least == most { least } else { format!("{least} to {most}") },
        some_ranks(&ranks)
    ))
}

fn between(least: f64, most: f64) -> String {
    let (least, most) = (format!("{:.0}", least * 100.0), format!("{:.0}", most * 100.0));
    if least == most { format!("{least} %") } else { format!("{least} to {most} %") }
}

/// `all-reduce`, if ranks waited at nothing else.
fn what(report: &RankReport) -> String {
    let names: std::collections::BTreeSet<&str> = report
        .stacks
        .iter()
        .filter(|stack| stack.waited > Ns::ZERO)
        .flat_map(|stack| stack.collectives.keys())
        .map(String::as_str)
        .collect();
    match names.into_iter().collect::<Vec<_>>()[..] {
        [one] => one.replace('_', "-"),
        _ => "collectives'".to_owned(),
    }
}

/// The blamed ranks, each with a sentence, or several with a common one.
pub(super) fn blames<'v, 'r>(verdict: &'v RanksVerdict<'r>) -> Vec<(&'v [Blame<'r>], String)> {
    let mut found = Vec::new();
    let mut rest = &verdict.blamed[..];
    while let Some((first, _)) = rest.split_first() {
        // Consecutive ranks that are slower everywhere share a sentence.
        let alike = rest.iter().take_while(|blame| slower(first).is_some() && slower(blame).is_some()).count().max(1);
        let (group, others) = rest.split_at(alike);
        found.push((group, sentence(group)));
        rest = others;
    }
    found
}

/// Whether launch times are known. Traces have them; NCCL's own records have only kernels.
pub(super) fn has_launches(report: &RankReport) -> bool {
    report.ranks.iter().any(|rank| rank.queue_empty_share.is_some())
}

fn nobody(report: &RankReport) -> String {
    if report.late == 0 {
        return "The ranks arrive together: no rank is late at any collective.".to_owned();
    }
    match report.late_ranks.first() {
        Some(late)
            if late.caused.share_of(report.waited).is_some_and(|share| share >= 0.5) && !has_launches(report) =>
        {
            format!(
                "{} of it is for rank {}. Records have no launches, which would say why: traces of the same steps do.",
                percent(late.caused.share_of(report.waited).unwrap_or(0.0)),
                late.rank
            )
        }
        Some(late) if late.caused.share_of(report.waited).is_some_and(|share| share >= 0.5) => format!(
            "{} of it is for rank {}, and no measurement shows why: between its launches it is sometimes slower and sometimes faster than the others.",
            percent(late.caused.share_of(report.waited).unwrap_or(0.0)),
            late.rank
        ),
        _ => format!(
            "No rank stands out: at {} of {} collectives some rank was late, in turn or by chance.",
            count(report.late),
            count(report.collectives)
        ),
    }
}

/// The late launches of a rank that is slower everywhere without a function that accounts for most of it.
fn slower<'a>(blame: &Blame<'a>) -> Option<&'a LaunchLate> {
    match blame.reason {
        Reason::Launch(launch) if launch.pattern == Pattern::SlowerEverywhere && launch.excess.parts.is_empty() => {
            Some(launch)
        }
        _ => None,
    }
}

fn sentence(group: &[Blame<'_>]) -> String {
    let Some(first) = group.first() else { return String::new() };
    let list = |of: &dyn Fn(&Blame<'_>) -> String| group.iter().map(of).collect::<Vec<_>>().join(" and ");
    let ranks = list(&|blame| blame.rank.to_string());
    let ranks = format!("rank{} {ranks}", if group.len() > 1 { "s" } else { "" });
    let share = list(&|blame| percent(blame.share));
    let others = match first.by_way_of_others {
        share if share >= NOTABLE && group.len() == 1 => {
            format!(" ({} of it by way of ranks that wait for it in another group)", percent(share / first.share))
        }
        _ => String::new(),
    };
    let head = format!("{share} of the waiting is for {ranks}{others}: ");
    let (they, their) = if group.len() > 1 { ("they launch", "their CPUs are") } else { ("it launches", "its CPU is") };
    if let Some(launch) = slower(first) {
        let all: Vec<&LaunchLate> = group.iter().filter_map(slower).collect();
        let each =
            |of: &dyn Fn(&LaunchLate) -> String| all.iter().map(|launch| of(launch)).collect::<Vec<_>>().join(" and ");
        return format!(
            "{head}{they} late, since {their} slower everywhere. {} of {} times between launches are longer than on the other ranks, by a median of {}, {} in all ({}); no function stands out.",
            each(&|launch| format!("{:.0} %", 100.0 * launch.longer as f64 / launch.segments.max(1) as f64)),
            count(launch.segments),
            each(&|launch| duration(launch.median_excess)),
            each(&|launch| duration(launch.total_excess)),
            each(&|launch| percent(launch.total_excess.share_of(launch.others).unwrap_or(0.0))),
        );
    }
    head + &match first.reason {
        Reason::Launch(launch) => launches(launch),
        Reason::Gpu { total, kernels, is_launch_late } => format!(
            "{}: what runs before takes {} longer there{}.",
            if is_launch_late {
                "it launches late, after its GPU, which needs longer"
            } else {
                "it launches in time, but its GPU is still busy"
            },
            duration(total),
            parts(kernels, total)
        ),
    }
}

fn launches(launch: &LaunchLate) -> String {
    let LaunchLate { excess: Excess { total, parts: named }, .. } = launch;
    let place = place(launch);
    let of = parts(named, *total);
    match launch.pattern {
        Pattern::OneEvent => format!(
            "it launches late after one event: {} longer than elsewhere, once{place}{of}.",
            duration(launch.largest_excess)
        ),
        Pattern::SamePlace => format!(
            "it launches late because one place takes {} longer in all{place}{of}.",
            duration((*total).max(launch.largest_excess))
        ),
        Pattern::SlowerEverywhere => format!(
            "it launches late: {} of {} times between launches are longer than elsewhere, {} in all{of}.",
            count(launch.longer),
            count(launch.segments),
            duration(launch.total_excess)
        ),
        Pattern::ConstantLag => format!(
            "it launches {} after the others throughout, a constant lag: it fell back before the first of these calls, and all ranks launch at the same pace since. The lag can be gained once, not at every call.",
            launch.lag.map_or_else(|| "some time".to_owned(), duration)
        ),
        Pattern::BlockedByGpu => format!(
            "it launches late because its CPU is blocked until its GPU is done, for {} longer than elsewhere{place}; between collectives its kernels take {} longer{of}.",
            duration(launch.total_excess),
            duration(*total)
        ),
        Pattern::EarlierLag => format!(
            "it was {} late at the first of these collectives already, and less from then on: what delayed it was before.",
            launch.largest_lag.map_or_else(|| "some time".to_owned(), duration)
        ),
        Pattern::Unsteady => format!(
            "it launches late{}. {} of {} times between launches are longer than elsewhere, {} in all ({}); neither one place nor one function has most of it.",
            launch.lag.map_or_else(String::new, |lag| format!(", a median of {} after the others", duration(lag))),
            count(launch.longer),
            count(launch.segments),
            duration(launch.total_excess),
            percent(launch.total_excess.share_of(launch.others).unwrap_or(0.0))
        ),
    }
}

fn place(launch: &LaunchLate) -> String {
    let Some(Place { from, to, is_new_step, .. }) = &launch.place else { return String::new() };
    let between = match (from, to) {
        (Some(from), Some(to)) if from == to => format!("between calls of {}", visible(to)),
        (Some(from), Some(to)) => format!("between {} and {}", visible(from), visible(to)),
        (None, Some(to)) => format!("before {}", visible(to)),
        (_, None) => "between two launches".to_owned(),
    };
    match (is_new_step, to) {
        (true, Some(to)) => format!(", at the start of a step, before {}", visible(to)),
        _ => format!(", {between}"),
    }
}

/// `, 2.041 ms of it in f`
fn parts(named: &[ExcessPart], total: Ns) -> String {
    let Some(first) = named.first() else { return "; nothing that was recorded has most of it".to_owned() };
    let part = |part: &ExcessPart| {
        let share = if part.excess >= total { String::new() } else { format!("{} of it ", duration(part.excess)) };
        format!("{share}in {}", visible(&part.name))
    };
    let others: String = named[1..].iter().map(|of| format!(", {}", part(of))).collect();
    format!(", {}{others}", part(first))
}

/// A list of ranks with its noun.
pub(super) fn some_ranks(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, ranges(ranks))
}
