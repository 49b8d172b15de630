//! The comparison of ranks as a page: who waits for whom, with the call stacks of all ranks if they are known.

use std::collections::BTreeSet;
use std::io;

use super::table::group_name;
use super::verdict::{self, blames};
use super::{RankAnswer, RankForm};
use crate::analysis::stacks::{Stack, StackReport};
use crate::attribution::call_tree::CallPath;
use crate::ranks::cause::{Excess, LateRank, LaunchLate, Pattern};
use crate::ranks::report::{Compared, RankReport, StackWaits};
use crate::ranks::verdict::{Blame, Reason};
use crate::report::format::{count, duration, percent, percent_or_unknown, visible};
use crate::report::html::lanes::Lanes;
use crate::report::html::timeline::Streams;
use crate::report::html::{Bytes, Command, Documents, FINDINGS, Finding, Link, Page, ROWS, Top, in_steps, labels};
use crate::report::page::{self, in_form as stacks_in_form, labels_of, telling};
use crate::report::summary::measured;
use crate::report::{Form, OnPage, Screen};
use crate::time::Ns;

/// The smallest share of all waiting that makes a stack a finding.
const NOTABLE: f64 = 0.05;

/// The smallest share of a stack's waiting for which a late rank is named.
const WORTH_NAMING: f64 = 0.25;

/// How many pairs of ranks a page that is too large keeps for each stack.
const PAIRS: usize = 8;

/// Writes the page.
///
/// # Errors
/// Returns the writer's error.
pub(super) fn ranks(answer: &RankAnswer<'_>, out: &mut Vec<u8>) -> io::Result<()> {
    let RankAnswer { compared, name, on_page, stacks, .. } = answer;
    let limited;
    let report = match answer.limit {
        Some(limit) => {
            let mut short = answer.report.clone();
            short.stacks.truncate(limit);
            limited = short;
            &limited
        }
        None => answer.report,
    };
    let groups = compared.matches.groups.iter().zip(&report.groups);
    let groups = groups.map(|(matched, waits)| group_name(&matched.name, &waits.ranks_here)).collect();
    let lanes = Lanes::new(compared, report, groups);
    let mut tables = vec![("ranks", in_form(compared, report, name, RankForm::Csv)?)];
    if let Some(stacks) = stacks {
        tables.push(("stacks", stacks_in_form(stacks, name, Form::Csv)?));
    }
    let page = Page {
        kind: "ranks",
        title: "Who waits for whom".to_owned(),
        names: (*name).to_owned(),
        verdict: sentences(report),
        facts: facts(report, *stacks),
        findings: findings(report, *stacks, &lanes),
        top: top(report),
        documents: documents(compared, report, *stacks, name)?,
        shorten: Some(Box::new(|most| {
            let mut short = report.clone();
            short.stacks.truncate(most);
            short.pairs.truncate(PAIRS * most);
            documents(compared, &short, stacks.map(|stacks| stacks.first(most)).as_ref(), name)
        })),
        tables,
        commands: commands(on_page, stacks.is_some()),
        notes: on_page.notes.clone(),
        labels: stacks.map_or_else(|| labels(report.stacks.iter().map(|stack| stack.telling.as_slice())), labels_of),
        telling: stacks
            .map_or_else(|| report.stacks.iter().flat_map(|stack| stack.telling.iter().cloned()).collect(), telling),
        streams: streams(on_page, *stacks),
        lanes: Some(lanes),
    };
    page.write(out)
}

/// The documents of the page.
fn documents(
    compared: &Compared,
    report: &RankReport,
    stacks: Option<&StackReport>,
    name: &str,
) -> io::Result<Documents> {
    let mut documents = vec![("ranks", in_form(compared, report, name, RankForm::Json)?)];
    if let Some(stacks) = stacks {
        documents.extend(page::document(stacks, name)?);
    }
    Ok(documents)
}

fn in_form(compared: &Compared, report: &RankReport, name: &str, form: RankForm) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    RankAnswer::new(compared, report, name).write(form, &mut bytes)?;
    Ok(bytes)
}

fn streams(on_page: &OnPage, stacks: Option<&StackReport>) -> Vec<Streams> {
    let stacks = stacks.map_or(&[][..], |report| &report.stacks);
    Streams::collect(&on_page.timelines, stacks.iter().map(|stack| (&stack.rank, &stack.key)))
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
fn findings(report: &RankReport, stacks: Option<&StackReport>, lanes: &Lanes) -> Vec<Finding> {
    let found = report.verdict();
    let blamed = blames(&found, &Screen::default());
    let of_ranks = blamed.into_iter().map(|(group, sentence)| blame_finding(report, group, sentence, lanes));
    let waited = |stack: &&StackWaits| stack.waited.share_of(report.waited).is_some_and(|share| share >= NOTABLE);
    let of_stacks = report.stacks.iter().enumerate().filter(|(_, stack)| waited(stack));
    let of_stacks = of_stacks.map(|(at, stack)| stack_finding(report, at, id(at, stack, stacks), lanes));
    of_ranks.chain(of_stacks).take(FINDINGS).collect()
}

fn blame_finding(report: &RankReport, group: &[Blame<'_>], sentence: String, lanes: &Lanes) -> Finding {
    let ranks: Vec<u32> = group.iter().map(|blame| blame.rank).collect();
    let is_of = |late: &&LateRank| ranks.contains(&late.rank);
    let caused: Ns = report.late_ranks.iter().filter(is_of).map(|late| late.root_caused).sum();
    let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let late = format!("rank{} {}", if ranks.len() > 1 { "s" } else { "" }, list.join(" and "));
    let first = ranks.first().copied();
    let part = match group.first().map(|blame| blame.reason) {
        Some(Reason::Launch(launch)) => launch.excess.parts.first(),
        Some(Reason::Gpu { kernels, .. }) => kernels.first(),
        None => None,
    };
    // If no function there takes longer, the line at which the others wait.
    let what = part.map(|part| format!("{late}: {}", part.name)).or_else(|| {
        let at = |stack: &&StackWaits| {
            stack.late_ranks.iter().filter(|(rank, _)| ranks.contains(rank)).map(|(_, of)| *of).sum::<Ns>()
        };
        report.stacks.iter().filter(|stack| at(stack) > Ns::ZERO).max_by_key(at)?.headline.clone()
    });
    let what = what.map(|line| if part.is_some() { line } else { format!("{late}; the others wait at {line}") });
    let link = first.map(|rank| match lanes.worst(rank) {
        Some(collective) => Link {
            text: "A collective at which the others waited for it",
            view: "collective",
            rank: Some(rank),
            collective: Some(collective),
            ..Link::default()
        },
        None => Link { text: "The steps in which", view: "heat", rank: Some(rank), ..Link::default() },
    });
    let here = report.ranks.len() as u64;
    let advice = group.first().map_or(String::new(), |blame| advice(blame, &late));
    Finding {
        cost: in_steps(
            each(caused, here),
            &format!("waited per rank for {late}"),
            &step_names(report, lanes.steps_of_late(&ranks)),
        ),
        what: what.unwrap_or_else(|| late.clone()),
        text: format!("{sentence} Summed over {} ranks that is {}. {advice}", count(here), duration(caused)),
        link,
        ..Finding::default()
    }
}

/// The mean per rank.
fn each(time: Ns, ranks: u64) -> Ns {
    Ns::rounded(time.as_f64() / ranks.max(1) as f64)
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

/// The sentences about all ranks together.
fn sentences(report: &RankReport) -> Vec<String> {
    let mut sentences = verdict::damaged(report);
    sentences.extend(verdict::whole(report));
    if report.verdict().launch_bound.is_some() {
        sentences.push(
            "First for all ranks: launch less. CUDA graphs, compiled code or larger batches take work off the CPUs."
                .to_owned(),
        );
    }
    sentences
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
    format!("First: {what}.")
}

/// The names of steps, if the traces mark steps.
fn step_names(report: &RankReport, steps: BTreeSet<usize>) -> Vec<&str> {
    let names = steps.into_iter().map(|at| report.steps[at].name.as_str());
    if report.has_spans { Vec::new() } else { names.collect() }
}

fn stack_finding(report: &RankReport, at: usize, id: Option<usize>, lanes: &Lanes) -> Finding {
    let stack = &report.stacks[at];
    let share = |of: Ns, all: Ns| of.share_of(all).unwrap_or(0.0);
    let shares: Vec<(u32, f64)> = stack.late_ranks.iter().map(|(rank, of)| (*rank, share(*of, stack.waited))).collect();
    let named: Vec<String> = shares
        .iter()
        .take(2)
        .filter(|(_, share)| *share >= WORTH_NAMING)
        .map(|(rank, share)| format!("rank {rank} ({})", percent(*share)))
        .collect();
    // If many ranks are late in turn, none of them is the cause.
    let for_whom =
        if named.is_empty() { format!("{} ranks in turn", count(shares.len() as u64)) } else { named.join(", ") };
    let collectives: Vec<&str> = stack.collectives.keys().map(String::as_str).collect();
    let here = report.ranks.len() as u64;
    let link = Link { text: "Its row", view: "stacks", stack: id, ..Link::default() };
    Finding {
        cost: in_steps(each(stack.waited, here), "waited per rank", &step_names(report, lanes.steps_of_stack(at))),
        what: stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned()),
        text: format!(
            "{} of the waiting is at its {} {}: {} of {} over {} ranks, for {for_whom}.",
            percent(share(stack.waited, report.waited)),
            count(stack.count),
            collectives.join(", "),
            duration(stack.waited),
            duration(stack.waited + stack.transfer),
            count(here)
        ),
        link: id.map(|_| link),
        ..Finding::default()
    }
}

fn top(report: &RankReport) -> Option<Top> {
    let row = |stack: &StackWaits| {
        let late = stack.late_ranks.first().map_or(String::new(), |(rank, _)| rank.to_string());
        vec![
            stack.headline.clone().unwrap_or_else(|| "(no launch)".to_owned()),
            count(stack.count),
            duration(stack.gpu),
            duration(stack.waited),
            duration(stack.caused),
            duration(stack.transfer),
            stack.bandwidth.map_or(String::new(), |of| format!("{:.1} GB/s", of.transfer)),
            late,
        ]
    };
    (!report.stacks.is_empty()).then(|| Top {
        title: "Call stacks of all ranks",
        columns: vec!["from", "count", "GPU time", "waited", "caused", "transfer", "busbw of transfer", "late rank"],
        rows: report.stacks.iter().take(ROWS).map(row).collect(),
        found: report.stacks.len(),
    })
}

fn commands(on_page: &OnPage, has_stacks: bool) -> Vec<Command> {
    let OnPage { inputs, options, of_ranks, .. } = on_page;
    let ranks = |rest: &str| format!("nccl-stacks ranks {inputs}{options}{of_ranks}{rest}");
    let command = |view: &'static str, what: &'static str, text: String| Command { view, what, text };
    let mut commands = vec![
        command("ranks", "Who waits for whom, as text", ranks("")),
        command("ranks", "Everything, for programs", ranks(" --format json --output ranks.json")),
        command(
            "collective",
            "All ranks side by side on one clock, for ui.perfetto.dev",
            ranks(" --format perfetto --output ranks.json.gz"),
        ),
    ];
    if has_stacks {
        commands.push(command("stacks", "The stacks of all ranks", format!("nccl-stacks {inputs}{options}")));
        commands.push(command(
            "pairs",
            "Who waited for whom, in the whole traces",
            format!("nccl-stacks sql {inputs} 'SELECT late_rank, rank, sum(waited) FROM collective_match GROUP BY 1, 2 ORDER BY 3 DESC'"),
        ));
    }
    commands
}
