//! What every form of the comparison of ranks says: who waits for whom, the late ranks, and the stacks at which ranks wait.

use super::RankAnswer;
use super::trust::trust;
use super::verdict::{blames, damaged, sentences};
use crate::analysis::stacks::{Stack, StackReport};
use crate::attribution::call_tree::CallPath;
use crate::ranks::cause::{Excess, LateRank, LaunchLate, Pattern};
use crate::ranks::report::{RankReport, StackWaits};
use crate::ranks::verdict::{Blame, Reason};
use crate::report::document::{Document, Finding, FindingKind, Link, Place};
use crate::report::format::{count, duration, percent, percent_or_unknown, visible};
use crate::report::stacks::measured;
use crate::time::Ns;

/// The smallest share of all waiting that makes a stack a finding.
const NOTABLE: f64 = 0.05;

/// The smallest share of a stack's waiting for which a late rank is named.
pub(super) const WORTH_NAMING: f64 = 0.25;

/// What all forms say.
pub(super) fn document(answer: &RankAnswer<'_>) -> Document {
    let RankAnswer { report, stacks, .. } = *answer;
    Document {
        title: "Who waits for whom".to_owned(),
        damage: damaged(report),
        verdict: sentences(report),
        findings: findings(report, stacks),
        facts: facts(report, stacks),
        notes: trust(report),
    }
}

fn facts(report: &RankReport, stacks: Option<&StackReport>) -> Vec<(&'static str, String)> {
    let here = report.ranks.len();
    let ranks = match report.world_size {
        Some(size) if size as usize != here => format!("{} of {}", count(here as u64), count(size.into())),
        _ => count(here as u64),
    };
    let mut facts = vec![("Ranks", ranks)];
    let steps = if report.has_spans { 0 } else { report.steps.len() };
    if steps > 0 {
        facts.push(("Steps", count(steps as u64)));
    }
    facts.extend(stacks.map(|stacks| ("Windows, summed", measured(stacks))));
    facts.push((
        "Waiting",
        format!("{} of collectives' time", percent_or_unknown(report.waited.share_of(report.measured))),
    ));
    facts.extend(stacks.and_then(|stacks| {
        let exposed = stacks.summary.share(stacks.summary.exposed)?;
        Some(("Exposed", format!("{} of the {}s", percent(exposed), stacks.summary.whole())))
    }));
    let matches = &report.matches;
    facts.push(("Coverage", format!("{} of {} kernels matched", count(matches.matched), count(matches.kernels))));
    let clock = &report.clock;
    let within =
        clock.residual.residual_median_ns.map_or(String::new(), |median| format!(", within {}", duration(median)));
    facts.push((
        "Clocks",
        match clock.method {
            "align" => format!("aligned by {} collectives{within}", count(clock.anchors)),
            "trust" => format!("trusted{within}"),
            "none" => "not compared".to_owned(),
            _ => "not alignable".to_owned(),
        },
    ));
    facts
}

/// The blamed ranks, then the stacks with the most waiting.
fn findings(report: &RankReport, stacks: Option<&StackReport>) -> Vec<Finding> {
    let found = report.verdict();
    let of_ranks = blames(&found).into_iter().map(|(group, _)| of_ranks(report, group));
    let waited = |stack: &&StackWaits| stack.waited.share_of(report.waited).is_some_and(|share| share >= NOTABLE);
    let of_stacks = report.stacks.iter().enumerate().filter(|(_, stack)| waited(stack));
    of_ranks.chain(of_stacks.map(|(at, stack)| of_stack(report, at, id(at, stack, stacks)))).collect()
}

fn of_ranks(report: &RankReport, group: &[Blame<'_>]) -> Finding {
    let ranks: Vec<u32> = group.iter().map(|blame| blame.rank).collect();
    let is_of = |late: &&LateRank| ranks.contains(&late.rank);
    let caused: Ns = report.late_ranks.iter().filter(is_of).map(|late| late.root_caused).sum();
    let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let late = format!("rank{} {}", if ranks.len() > 1 { "s" } else { "" }, list.join(" and "));
    let part = match group.first().map(|blame| blame.reason) {
        Some(Reason::Launch(launch)) => launch.excess.parts.first(),
        Some(Reason::Gpu { kernels, .. }) => kernels.first(),
        None => None,
    };
    // If no function there takes longer, the line at which the others wait.
    let at = |stack: &&StackWaits| {
        stack.late_ranks.iter().filter(|(rank, _)| ranks.contains(rank)).map(|(_, of)| *of).sum::<Ns>()
    };
    let line = || report.stacks.iter().filter(|stack| at(stack) > Ns::ZERO).max_by_key(at)?.headline.clone();
    let (line, what) = match (part, line()) {
        (Some(part), _) => (Some(part.name.clone()), format!("{late}: {}", part.name)),
        (None, Some(line)) => (Some(line.clone()), format!("{late}; the others wait at {line}")),
        (None, None) => (None, late.clone()),
    };
    let here = report.ranks.len() as u64;
    let (each, steps) = (each(caused, here), steps_of(report, &ranks));
    Finding {
        kind: FindingKind::LateRank,
        cost: format!("{} waited per rank for {late}{}", duration(each), in_steps(each, &steps)),
        cost_ns: Some(each),
        what,
        evidence: vec![format!("Summed over {} ranks that is {}.", count(here), duration(caused))],
        advice: group.first().map(|blame| advice(blame, &late)),
        link: ranks.first().map(|rank| Link {
            text: "The steps in which",
            view: "heat",
            rank: Some(*rank),
            ..Link::default()
        }),
        place: Place { ranks, line, steps, ..Place::default() },
        ..Finding::default()
    }
}

/// The mean per rank.
fn each(time: Ns, ranks: u64) -> Ns {
    Ns::rounded(time.as_f64() / ranks.max(1) as f64)
}

/// The names of the steps in which others waited for one of these ranks, if the traces mark steps.
fn steps_of(report: &RankReport, ranks: &[u32]) -> Vec<String> {
    let places: Vec<usize> =
        report.ranks.iter().enumerate().filter(|(_, of)| ranks.contains(&of.rank)).map(|(at, _)| at).collect();
    let caused = |at: &usize, caused: &[Ns]| caused.get(*at).is_some_and(|time| *time > Ns::ZERO);
    let steps = report.steps.iter().filter(|step| places.iter().any(|at| caused(at, &step.caused)));
    if report.has_spans { Vec::new() } else { steps.map(|step| step.name.clone()).collect() }
}

/// How a time is distributed over the steps that have some of it: `, 13.068 ms a step in 3 steps`.
fn in_steps(time: Ns, steps: &[String]) -> String {
    match steps {
        [] => String::new(),
        [one] => format!(", all in {}", visible(one)),
        several => {
            let each = Ns::rounded(time.as_f64() / several.len() as f64);
            format!(", {} a step in {} steps", duration(each), count(several.len() as u64))
        }
    }
}

/// The page's number for a stack: its index in the call stacks of all ranks if these are known, and `at` otherwise.
fn id(at: usize, stack: &StackWaits, stacks: Option<&StackReport>) -> Option<usize> {
    let frames = |path: &Option<CallPath>| path.as_ref().map(|path| path.frames.clone());
    let is_it = |of: &Stack| {
        of.key.frames == stack.frames
            && of.key.thread == stack.thread
            && frames(&of.key.captured) == stack.captured
            && frames(&of.key.forward) == stack.forward
    };
    stacks.map_or(Some(at), |report| report.stacks.iter().position(is_it))
}

/// What to do first about a late rank.
fn advice(blame: &Blame<'_>, late: &str) -> String {
    let what = match blame.reason {
        Reason::Gpu { .. } => {
            format!("compare these kernels on {late} with another rank's: their shapes, the GPU's clock")
        }
        Reason::Launch(LaunchLate { excess: Excess { parts, .. }, .. }) if !parts.is_empty() => {
            format!("see what {} does on {late}, and not on the other ranks", visible(&parts[0].name))
        }
        Reason::Launch(launch) => match launch.pattern {
            Pattern::OneEvent => format!(
                "see what happened once on {late} there: garbage collection, a log, a checkpoint, a compilation"
            ),
            Pattern::SamePlace => format!("profile that place on {late}, with stacks"),
            Pattern::SlowerEverywhere => {
                format!("compare the host of {late} with the others': CPU clock, affinity, other processes")
            }
            Pattern::BlockedByGpu => {
                format!("compare these kernels on {late} with another rank's, and see why its CPU waits for its GPU")
            }
            Pattern::ConstantLag | Pattern::EarlierLag => {
                format!("record from earlier on: what delayed {late} was before this window")
            }
            Pattern::Unsteady => {
                format!("see what else the host of {late} does: other processes, data loading, logging")
            }
        },
    };
    format!("{what}.")
}

fn of_stack(report: &RankReport, at: usize, id: Option<usize>) -> Finding {
    let stack = &report.stacks[at];
    let share = |of: Ns, all: Ns| of.share_of(all).unwrap_or(0.0);
    let shares: Vec<(u32, f64)> = stack.late_ranks.iter().map(|(rank, of)| (*rank, share(*of, stack.waited))).collect();
    let named: Vec<&(u32, f64)> = shares.iter().take(2).filter(|(_, share)| *share >= WORTH_NAMING).collect();
    let names: Vec<String> = named.iter().map(|(rank, share)| format!("rank {rank} ({})", percent(*share))).collect();
    // If many ranks are late in turn, none of them is the cause.
    let for_whom =
        if names.is_empty() { format!("{} ranks in turn", count(shares.len() as u64)) } else { names.join(", ") };
    let collectives: Vec<&str> = stack.collectives.keys().map(String::as_str).collect();
    let here = report.ranks.len() as u64;
    let mut ranks: Vec<u32> = named.iter().map(|(rank, _)| *rank).collect();
    ranks.sort_unstable();
    let each = each(stack.waited, here);
    Finding {
        kind: FindingKind::Waiting,
        cost: format!("{} waited per rank", duration(each)),
        cost_ns: Some(each),
        what: stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned()),
        place: Place { ranks, line: stack.headline.clone(), row: Some(at), ..Place::default() },
        evidence: vec![format!(
            "{} of the waiting is at its {} {}: {} of {} over {} ranks, for {for_whom}.",
            percent(share(stack.waited, report.waited)),
            count(stack.count),
            collectives.join(", "),
            duration(stack.waited),
            duration(stack.waited + stack.transfer),
            count(here)
        )],
        link: id.map(|id| Link { text: "Its row", view: "stacks", stack: Some(id), ..Link::default() }),
        ..Finding::default()
    }
}
