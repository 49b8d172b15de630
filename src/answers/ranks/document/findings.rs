//! What every form of the comparison of ranks says: who waits for whom, the late ranks, and the stacks at which ranks wait.

use super::trust::trust;
use super::verdict::{damaged, is_latest_unjudged, is_worth, main_step, name, sentences, weight};
use super::{RankAnswer, critical, pipeline};
use crate::answers::ranks::data::{RankReport, StackWaits};
use crate::answers::ranks::verdict::HALF;
use crate::answers::stacks::data::{Stack, StackReport};
use crate::answers::stacks::document::measured;
use crate::attribution::call_tree::CallPath;
use crate::document::findings::{Document, Finding, FindingKind, LEAST, Link, Place};
use crate::document::format::{count, duration, percent, percent_or_unknown, ranks, visible};
use crate::names::kernels::short_kernel;
use crate::operation::ranges::ranges;
use crate::replay::culprits::{Culprit, Instead};
use crate::replay::findings::{Extent, LateWork, Part, Reruns};
use crate::time::Ns;

/// The smallest share of all waiting that makes a stack a finding.
const NOTABLE: f64 = 0.05;

/// The smallest share of a stack's waiting for which a late rank is named.
pub(crate) const WORTH_NAMING: f64 = 0.25;

/// The headline of kernels without a launch.
const NO_LAUNCH: &str = "(no launch)";

/// How many functions or kernels are listed.
const NAMED: usize = 3;

pub(crate) fn document(answer: &RankAnswer<'_>) -> Document {
    let RankAnswer { report, stacks, .. } = *answer;
    Document {
        title: if report.ranks.len() > 1 { "Who waits for whom" } else { "What holds this rank" }.to_owned(),
        damage: damaged(report),
        verdict: sentences(report),
        findings: findings(report, stacks),
        facts: facts(report, stacks),
        notes: trust(report),
    }
}

fn facts(report: &RankReport, stacks: Option<&StackReport>) -> Vec<(&'static str, String)> {
    let here = report.ranks.len();
    let of_job = match report.world_size {
        Some(size) if size as usize != here => format!("{} of {}", count(here as u64), count(size.into())),
        _ => count(here as u64),
    };
    let mut facts = vec![("Ranks", of_job)];
    let steps = if report.has_spans { 0 } else { report.steps.len() };
    if steps > 0 {
        facts.push(("Steps", count(steps as u64)));
    }
    facts.extend(stacks.map(|stacks| ("Windows", measured(stacks))));
    facts.push((
        "Waiting",
        format!("{} of collectives' time", percent_or_unknown(report.waited_ns.share_of(report.measured_ns))),
    ));
    facts.extend(stacks.and_then(|stacks| {
        let exposed = stacks.summary.share(stacks.summary.exposed_ns)?;
        Some(("Exposed", format!("{} of the {}s", percent(exposed), stacks.summary.whole())))
    }));
    let matches = &report.matches;
    let partly = match matches.partial {
        0 => String::new(),
        n if n == matches.kernels => ", with the ranks that are here".to_owned(),
        n => format!(", {} of them with the ranks that are here", count(n)),
    };
    let matched = matches.matched + matches.partial;
    facts.push(("Coverage", format!("{} of {} kernels matched{partly}", count(matched), count(matches.kernels))));
    let clock = &report.clock;
    let within =
        clock.residual.residual_median_ns.map_or(String::new(), |median| format!(", within {}", duration(median)));
    facts.push((
        "Clocks",
        match clock.method {
            "align" if clock.anchors == 0 => "aligned by messages".to_owned(),
            "align" => format!("aligned by {} collectives{within}", count(clock.anchors)),
            "trust" => format!("trusted{within}"),
            "none" => "not compared".to_owned(),
            _ => "not alignable".to_owned(),
        },
    ));
    facts
}

/// All that costs time, the largest first, by what could be saved: all that late ranks take longer, and half of a line that all ranks have, as if it were twice
/// as fast. Waiting comes after what reruns show: how much of it can be saved is not known. That for a rank that has a finding is evidence of that one.
fn findings(report: &RankReport, stacks: Option<&StackReport>) -> Vec<Finding> {
    let mut found: Vec<(Ns, Finding)> = Vec::new();
    let mut claimed: Vec<usize> = Vec::new();
    if let Some(reruns) = &report.reruns {
        let is_of = |stack: &StackWaits, of: &LateWork| {
            let caused = stack.late_ranks.iter().filter(|(rank, _)| of.ranks.contains(rank));
            caused.map(|(_, time)| *time).sum::<Ns>().share_of(stack.waited_ns).is_some_and(|share| share >= HALF)
        };
        let (worth, others): (Vec<&LateWork>, Vec<&LateWork>) =
            reruns.findings.iter().partition(|of| is_worth(reruns, of));
        for of in worth.iter().copied() {
            let of_it: Vec<usize> = (0..report.stacks.len())
                .filter(|at| {
                    is_notable(report, &report.stacks[*at]) && is_of(&report.stacks[*at], of) && !claimed.contains(at)
                })
                .collect();
            let mut finding = late_work(report, reruns, of);
            finding.evidence.extend(of_it.first().map(|at| waited_most(report, *at, of)));
            claimed.extend(of_it);
            found.push((Ns(of.named_saving()), finding));
        }
        let is_beyond_error = |of: &&LateWork| !of.is_proven || of.named_saving() > of.error_ns;
        let others = others.into_iter().filter(is_beyond_error);
        found.extend(others.map(|of| (Ns(of.named_saving()), late_work(report, reruns, of))));
        let pace = report.pace().filter(|pace| pace.is_of_one() && report.ranks.len() > 1);
        found.extend(pace.map(|pace| {
            let saves = weight(reruns, pace) * reruns.length_ns as f64;
            (Ns::rounded(saves), critical::pace(report, reruns, pace))
        }));
        let half = |finding: Finding| (Ns(finding.cost_ns.unwrap_or_default().0 / 2), finding);
        found.extend(critical::findings(report, reruns, &worth).into_iter().map(half));
    }
    found.extend(report.pipeline.as_ref().map(|of| pipeline::finding(of, report.reruns.as_ref())));
    let waiting = of_stacks(report, stacks, &claimed).into_iter();
    let mut waiting: Vec<(Ns, Finding)> = waiting.map(|of| (of.cost_ns.unwrap_or_default(), of)).collect();
    let longest = || report.ranks.iter().map(|rank| rank.window.duration()).max().unwrap_or_default();
    let length = report.reruns.as_ref().map_or_else(longest, |reruns| Ns(reruns.length_ns));
    for of in [&mut found, &mut waiting] {
        of.retain(|(saves, _)| saves.share_of(length).is_none_or(|share| share >= LEAST));
        of.sort_by_key(|(saves, _)| std::cmp::Reverse(*saves));
    }
    // Where nothing shows why the rank is late for which others wait, reruns cannot make that shorter.
    if report.reruns.as_ref().is_some_and(|reruns| is_latest_unjudged(report, reruns)) {
        std::mem::swap(&mut found, &mut waiting);
    }
    found.into_iter().chain(waiting).map(|(_, finding)| finding).collect()
}

/// The rule of `what-if` for what would save most if late ranks did as their peers, where that is worth it.
pub(crate) fn best_rule(report: &RankReport) -> Option<String> {
    let reruns = report.reruns.as_ref()?;
    reruns.findings.iter().find(|of| is_worth(reruns, of)).map(rule)
}

/// The rule of `what-if` in which late ranks do as their peers: not only where something is named.
fn rule(of: &LateWork) -> String {
    if of.extent == Extent::Begin {
        return "all begin together".to_owned();
    }
    let noun = if of.ranks.len() == 1 { "rank" } else { "ranks" };
    let part = if of.part == Part::Cpu { "cpu" } else { "gpu" };
    format!("{noun} {} {part} like peers", ranges(&of.ranks).replace(' ', ""))
}

fn is_notable(report: &RankReport, stack: &StackWaits) -> bool {
    stack.waited_ns.share_of(report.waited_ns).is_some_and(|share| share >= NOTABLE)
}

/// The stacks with the most waiting, without some.
fn of_stacks(report: &RankReport, stacks: Option<&StackReport>, without: &[usize]) -> Vec<Finding> {
    let is_one = |(at, stack): &(usize, &StackWaits)| is_notable(report, stack) && !without.contains(at);
    let found = report.stacks.iter().enumerate().filter(is_one);
    found.map(|(at, stack)| of_stack(report, at, id(at, stack, stacks))).collect()
}

/// `The others wait for it most at train.py(50): step: 42.1 ms over 4 ranks.`
fn waited_most(report: &RankReport, at: usize, of: &LateWork) -> String {
    let stack = &report.stacks[at];
    format!(
        "The others wait for {} most at {}: {} over {} ranks.",
        if of.ranks.len() == 1 { "it" } else { "them" },
        visible(stack.headline.as_deref().unwrap_or(NO_LAUNCH)),
        duration(stack.waited_ns),
        count(report.ranks.len() as u64)
    )
}

fn late_work(report: &RankReport, reruns: &Reruns, of: &LateWork) -> Finding {
    let late = ranks(&of.ranks);
    let part = of.part.name();
    let culprit = of.culprit().map(|culprit| culprit.name.clone());
    let what = match of.culprit() {
        Some(culprit) => format!("{late}: {}", name(of, culprit)),
        None if of.extent == Extent::Begin => format!("{late}: late from the start"),
        None => format!("{late}: {part}"),
    };
    let saves = Ns(of.named_saving());
    let share = |time: Ns| percent(time.share_of(Ns(reruns.length_ns)).unwrap_or(0.0));
    let is_beyond_error = |culprit: &&Culprit| culprit.saves_ns > of.error_ns;
    let named = of.culprits.iter().filter(is_beyond_error).take(NAMED);
    let named: Vec<String> = named.map(|one| format!("{} {}", name(of, one), duration(Ns(one.saves_ns)))).collect();
    let each = format!("Each by itself, which does not add up: {}.", named.join(", "));
    let mut evidence = if named.len() > 1 { vec![each] } else { Vec::new() };
    let load = more_load(report, reruns, of);
    evidence.extend(load.map(|(stack, rank)| {
        let at = visible(stack.headline.as_deref().unwrap_or(NO_LAUNCH));
        format!("Rank {rank} {} at {at}.", loaded(stack.load(rank).unwrap_or_default()))
    }));
    let after = (!of.after.is_empty())
        .then(|| format!("That is once {} as fast as their peers; before that it saves far less.", are(&of.after)));
    let step = main_step(report, of).map(str::to_owned);
    let is_like_peers = of.extent == Extent::Everywhere && of.culprit().is_none();
    Finding {
        kind: FindingKind::LateRank,
        cost: format!(
            "{}{} (± {}) would be saved: {}{}",
            // Where the profiler may have started later, that much is not.
            if of.extent == Extent::Begin {
                "up to "
            } else if report.absent.is_some() {
                "at most "
            } else {
                ""
            },
            share(saves),
            share(Ns(of.error_ns)),
            duration(saves),
            critical::in_steps(report, reruns)
        ),
        cost_ns: Some(saves),
        what,
        evidence: evidence.into_iter().chain(after).collect(),
        advice: Some(match load {
            Some(_) => {
                format!("see how data is distributed: {late} may take longer for what it is given, and not be slower.")
            }
            None => advice(of, &late),
        }),
        link: of.ranks.first().map(|rank| Link {
            text: "The steps in which others wait for it",
            view: "heat",
            rank: Some(*rank),
            ..Link::default()
        }),
        place: Place { ranks: of.ranks.clone(), line: culprit, steps: step.into_iter().collect(), ..Place::default() },
        rule: is_like_peers.then(|| rule(of)),
        ..Finding::default()
    }
}

/// `rank 1 is`, `ranks 0 and 1 are`
fn are(late: &[u32]) -> String {
    format!("{} {}", ranks(late), if late.len() == 1 { "is" } else { "are" })
}

/// The all-to-all in which all ranks with longer kernels receive or send more than the mean, by at least the share of the job that would be saved, and
/// the first of these ranks.
fn more_load<'r>(report: &'r RankReport, reruns: &Reruns, of: &LateWork) -> Option<(&'r StackWaits, u32)> {
    let least = 1.0 + Ns(of.named_saving()).share_of(Ns(reruns.length_ns))?;
    let has_more = |stack: &StackWaits, rank: u32| stack.load(rank).is_some_and(|[a, b]| a.max(b) >= least);
    let first = *of.ranks.first().filter(|_| of.part == Part::Gpu)?;
    let stacks = report.stacks.iter().filter(|stack| of.ranks.iter().all(|rank| has_more(stack, *rank)));
    let most = |stack: &StackWaits| stack.load(first).map_or(0.0, |[a, b]| a.max(b));
    stacks.max_by(|a, b| most(a).total_cmp(&most(b))).map(|stack| (stack, first))
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

/// What to do first about ranks that take longer.
fn advice(of: &LateWork, late: &str) -> String {
    match (of.culprit(), of.part, of.extent) {
        (_, _, Extent::Begin) => {
            format!(
                "record a step or two more, so that what comes before is seen: {late} may be late, or the profiler may start later there."
            )
        }
        (_, _, Extent::Calls) => {
            format!(
                "find what waits for the GPU on {late} alone: .item(), .cpu(), printing a tensor, a copy from pageable memory."
            )
        }
        (None, _, Extent::Everywhere) if !of.each.is_empty() => {
            format!("see what {late} do there, and not the others: one of them alone hides the others.")
        }
        (Some(culprit), Part::Cpu, _) => {
            format!("see what {} does on {late}, and not on the others.", visible(&culprit.name))
        }
        (Some(Culprit { instead: Instead::Nothing, name, .. }), Part::Gpu, _) => {
            format!("see what launches {} on {late}, and not on the others.", visible(short_kernel(name)))
        }
        (_, Part::Gpu, _) => {
            format!("compare these kernels on {late} with another rank's: their shapes, the GPU's clock.")
        }
        (None, Part::Cpu, Extent::Everywhere) => {
            format!("compare the CPU of {late} with the others': its clock, affinity, other processes on it.")
        }
        (None, Part::Cpu, Extent::Pieces) => {
            format!("see what else happened there on {late}: garbage collection, a log, a checkpoint, a compilation.")
        }
    }
}

fn of_stack(report: &RankReport, at: usize, id: Option<usize>) -> Finding {
    let stack = &report.stacks[at];
    let share = |of: Ns, all: Ns| of.share_of(all).unwrap_or(0.0);
    let shares: Vec<(u32, f64)> =
        stack.late_ranks.iter().map(|(rank, of)| (*rank, share(*of, stack.waited_ns))).collect();
    let named: Vec<&(u32, f64)> = shares.iter().take(2).filter(|(_, share)| *share >= WORTH_NAMING).collect();
    let names: Vec<String> = named.iter().map(|(rank, share)| format!("rank {rank} ({})", percent(*share))).collect();
    // If many ranks are late in turn, none of them is the cause.
    let for_whom =
        if names.is_empty() { format!("{} ranks in turn", count(shares.len() as u64)) } else { names.join(", ") };
    let collectives: Vec<&str> = stack.collectives.keys().map(String::as_str).collect();
    let here = report.ranks.len() as u64;
    let mut late: Vec<u32> = named.iter().map(|(rank, _)| *rank).collect();
    late.sort_unstable();
    let each = Ns::rounded(stack.waited_ns.as_f64() / here.max(1) as f64);
    Finding {
        kind: FindingKind::Waiting,
        cost: format!("{} waited per rank", duration(each)),
        cost_ns: Some(each),
        what: stack.headline.clone().unwrap_or_else(|| NO_LAUNCH.to_owned()),
        place: Place { ranks: late, line: stack.headline.clone(), row: Some(at), ..Place::default() },
        evidence: vec![format!(
            "{} of the waiting is at its {} {}: {} of {} over {} ranks, for {for_whom}.",
            percent(share(stack.waited_ns, report.waited_ns)),
            count(stack.count),
            collectives.join(", "),
            duration(stack.waited_ns),
            duration(stack.waited_ns + stack.transfer_ns),
            count(here)
        )]
        .into_iter()
        .chain(critical::exposed(report, stack))
        .collect(),
        link: id.map(|id| Link { text: "Its row", view: "stacks", stack: Some(id), ..Link::default() }),
        ..Finding::default()
    }
}

/// `receives 2.0 times the mean`
pub(crate) fn loaded([received, sent]: [f64; 2]) -> String {
    let verb = if received >= sent { "receives" } else { "sends" };
    format!("{verb} {:.1} times the mean", received.max(sent))
}
