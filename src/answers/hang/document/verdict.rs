//! The answer in one sentence, and its assumptions.

use std::collections::BTreeSet;

use super::lag::lagging;
use super::words;
use super::words::{GROUPS, alike, by_log, capital, has, operation, sentence};
use crate::answers::hang::{Evidence, EvidenceKind, HangReport, HungGroup, Outcome, Still};
use crate::answers::recording::words::{all_failed, lacks};
use crate::document::format::{count, duration, ranks, visible};
use crate::names::collectives::Collective;
use crate::operation::Source;

/// What is said of records without anything to judge by.
pub(crate) const NOTHING: &str = "The records have nothing by which to judge.";

/// The verdict in one line, then the calls that failed, then what the recordings lack.
pub fn verdict(report: &HangReport) -> String {
    sentences(report).collect::<Vec<_>>().join(" ")
}

pub(crate) fn sentences(report: &HangReport) -> impl Iterator<Item = String> {
    let judged = match report.outcome {
        Outcome::Hung => hung(report),
        Outcome::Lagging => lagging(report),
        Outcome::NothingSeen if report.group_count == 0 => report.processes_without_ranks.map_or(NOTHING.to_owned(), |of| {
            format!(
                "Nothing seen: {} processes made {} calls each. Logs of NCCL_DEBUG do not say which operations have not ended, so that they cannot show whether \
                 the job hangs.",
                of.process_count, of.calls
            )
        }),
        Outcome::Unclear if report.open.is_empty() && !report.timed_out_ranks.is_empty() => timed_out(report),
        _ if report.group_count == 0 && report.standstill.is_none() => NOTHING.to_owned(),
        Outcome::Unclear if matches!(report.still, Some(Still::Moves | Still::Ended)) => unsettled(report),
        Outcome::Unclear if report.open.is_empty() && report.standstill.is_some() => standstill(report),
        Outcome::Unclear if report.open.is_empty() && !report.differing.is_empty() => differing(report),
        Outcome::Unclear => unclear(report),
        Outcome::NothingSeen => format!(
            "Nothing seen: in {} no rank is known to have called less than others, or another collective, type, size or root. These records ({}) do not say which operations have not ended, so \
             that they cannot show whether the job hangs.{}",
            groups(report),
            report.sources.join(" and "),
            if report.sources == [Source::RAS.title()] { " Ask again: a second answer shows whether the counts move." } else { "" }
        ),
        _ => format!("No hang: in {} no rank waits for another.", groups(report)),
    };
    let judged = match report.differing.first().and_then(words::difference) {
        Some(difference) if !judged.contains(&difference) => format!("{judged} {difference}"),
        _ => judged,
    };
    let judged = match (report.outcome, report.warnings.first().filter(|of| of.is_telling())) {
        (Outcome::Unclear | Outcome::NothingSeen, Some(first))
            if report.open.is_empty() && report.losses.is_empty() =>
        {
            format!("{} Whether the job hangs, these records do not show.", words::warned(first))
        }
        (_, Some(first)) => format!("{judged} {}", words::warned(first)),
        _ => judged,
    };
    let judged = match by_log(report).filter(|_| !report.hung.is_empty() || !report.lagging.is_empty()) {
        Some(awaited) => format!("{judged} By the log, {awaited}."),
        None => judged,
    };
    let is_judged = report.group_count > 0 || !report.timed_out_ranks.is_empty() || !report.awaited_ranks.is_empty();
    let judged = match failed(report) {
        Some(failed) if !is_judged => failed,
        Some(failed) => format!("{failed} {judged}"),
        None => judged,
    };
    let beside = all_failed(&report.failed_calls).into_iter().chain(lacks(&report.losses));
    report.run.clone().into_iter().chain([judged]).chain(beside)
}

/// `2 groups of 8 ranks`
fn groups(report: &HangReport) -> String {
    let several = |of: usize| if of == 1 { "" } else { "s" };
    let (groups, ranks) = (report.group_count, report.rank_count);
    format!("{groups} group{} of {ranks} rank{}", several(groups), several(ranks))
}

/// The group whose numbering names the culprits, unless they are ranks of the job.
fn group_suffix(group: Option<&HungGroup>) -> String {
    group.filter(|group| group.name.ranks_are_local).map_or(String::new(), |group| format!(" of {}", group.name.group))
}

pub(crate) fn hung(report: &HangReport) -> String {
    if let Some(awaited) = by_log(report).filter(|_| report.hung.is_empty()) {
        let (who, it) = (ranks(&report.culprits), if report.culprits.len() == 1 { "it" } else { "they" });
        let awaited = awaited.strip_prefix(&who).map_or(awaited.clone(), |did| format!("{it}{did}"));
        return format!("The job hangs on {who}: by the log, {awaited}.");
    }
    let tie = |group: &&HungGroup| group.evidence.iter().any(|of| of.kind.is_tie());
    let Some(culprits) = Some(&report.culprits).filter(|culprits| !culprits.is_empty()) else {
        if let Some(group) = report.hung.iter().find(tie) {
            let sides = group.evidence.iter().find(|of| of.kind.is_tie()).map(sentence);
            return format!("The job hangs in {}. {}", group.name.group, sides.unwrap_or_default());
        }
        if let [_, _, ..] = report.circle_processes[..] {
            let all: Vec<String> = report.circle_processes.iter().map(words::process).collect();
            return format!("The job hangs because these wait for each other: {}.", all.join("; "));
        }
        let holds_up = |group: &&HungGroup| group.evidence.iter().any(|of| of.kind == EvidenceKind::HoldsUp);
        return match (&report.circle[..], report.hung.iter().filter(holds_up).count()) {
            ([], _) => "The job hangs, and the records do not show on which rank.".to_owned(),
            (circle, 0) => format!("The job hangs because {} wait for each other.", ranks(circle)),
            (circle, n) => format!(
                "The job hangs, most likely because {} wait for each other: they call {n} groups in different orders.",
                ranks(circle)
            ),
        };
    };
    if let Some(none) = without_records(report) {
        return none;
    }
    let (local, global): (Vec<&HungGroup>, Vec<&HungGroup>) =
        report.hung.iter().filter(|group| !group.culprits.is_empty()).partition(|group| group.name.ranks_are_local);
    let of_job: BTreeSet<u32> = global.iter().flat_map(|group| &group.culprits).copied().collect();
    if local.len() + usize::from(!of_job.is_empty()) > 1 {
        if let Some(processes) = processes_of(report, &local).filter(|_| of_job.is_empty()) {
            return format!("The job hangs on {processes}.");
        }
        // Rank 1 of one communicator is not rank 1 of another.
        let of_job: Vec<u32> = of_job.into_iter().collect();
        let of_job = Some(ranks(&of_job)).filter(|_| !of_job.is_empty());
        let of_groups = local.iter().take(GROUPS).map(|of| format!("{} of {}", ranks(&of.culprits), of.name.group));
        let each: Vec<String> = of_job.into_iter().chain(of_groups).collect();
        let more = local.len().saturating_sub(GROUPS);
        let more = if more > 0 { format!("; and in {more} more groups") } else { String::new() };
        return format!("The job hangs on {}{more}.", each.join("; "));
    }
    let blamed = |of: fn(&HungGroup) -> &Vec<u32>| {
        let is_blamed = |rank: &&u32| report.hung.iter().any(|group| has(of(group), **rank));
        culprits.iter().filter(is_blamed).copied().collect::<Vec<u32>>()
    };
    let odd = blamed(|group| &group.odd_ranks);
    let mut stuck = blamed(|group| &group.stuck_ranks);
    let mut missing = blamed(|group| &group.missing_ranks);
    stuck.retain(|rank| !has(&odd, *rank));
    missing.retain(|rank| !has(&odd, *rank) && !has(&stuck, *rank));
    let mut reasons = Vec::new();
    let mut reason = |of: &[u32], one: &str, several: &str| {
        let who = if of.len() == culprits.len() { String::new() } else { format!("{} ", ranks(of)) };
        match of.len() {
            0 => {}
            1 if who.is_empty() => reasons.push(format!("it {one}")),
            _ if who.is_empty() => reasons.push(format!("they {several}")),
            1 => reasons.push(format!("{who}{one}")),
            _ => reasons.push(format!("{who}{several}")),
        }
    };
    reason(&odd, "made a different call than the others", "made a different call than the others");
    reason(&stuck, "has not finished what its peers have", "have not finished what their peers have");
    reason(&missing, "did not enqueue what its peers wait in", "did not enqueue what their peers wait in");
    let kinds: &[EvidenceKind] = match () {
        () if !odd.is_empty() => &[EvidenceKind::OtherCollective, EvidenceKind::OtherType, EvidenceKind::OtherSize],
        () if !stuck.is_empty() => &[EvidenceKind::Stuck, EvidenceKind::StuckRooted],
        () => &[EvidenceKind::NeverEnqueued],
    };
    let example = example(report, kinds);
    let others: Vec<u32> = report.circle.iter().copied().filter(|rank| !has(culprits, *rank)).collect();
    let itself = match others.len() {
        0 => String::new(),
        n => {
            let wait = if culprits.len() == 1 { "It waits itself" } else { "They wait themselves" };
            format!(" {wait} for {}, of which all {n} agree.", ranks(&others))
        }
    };
    format!(
        "The job hangs on {}{}: {}{example}.{itself}",
        ranks(culprits),
        group_suffix(local.first().copied()),
        reasons.join("; ")
    )
}

/// The processes of all culprits of these groups, which are one where host, process and GPU are; `None` where they are not known of all.
fn processes_of(report: &HangReport, groups: &[&HungGroup]) -> Option<String> {
    let of_group =
        |group: &HungGroup| report.processes.iter().filter(|of| of.is_unique && of.is_in(&group.name.group)).count();
    let is_known = groups.iter().all(|group| of_group(group) == group.culprits.len());
    let own = || report.processes.iter().filter(|of| groups.iter().any(|group| of.is_in(&group.name.group)));
    let more = own().count().saturating_sub(GROUPS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let named = own().take(GROUPS).map(|of| {
        let place = of.place.zip(of.group.as_ref()).map(|(place, group)| format!(", rank {place} of {group}"));
        format!("{}{}", words::process(of), place.unwrap_or_default())
    });
    is_known.then(|| named.collect::<Vec<String>>().join("; ") + &more)
}

/// Who waits for ranks without records, if all waiting ends there.
fn without_records(report: &HangReport) -> Option<String> {
    let is_it = |of: &&Evidence| of.kind == EvidenceKind::NoRecords;
    let groups = || report.hung.iter().filter_map(|group| Some((group, group.evidence.iter().find(is_it)?)));
    let Some((first, evidence)) = groups().next() else {
        let blamed = |group: &HungGroup, rank| {
            [&group.missing_ranks, &group.stuck_ranks, &group.odd_ranks].into_iter().any(|of| has(of, rank))
        };
        let is_blamed = |rank: u32| report.hung.iter().any(|group| blamed(group, rank));
        let is_unknown =
            report.culprits.iter().all(|rank| has(&report.ranks_without_records, *rank) && !is_blamed(*rank));
        let who = ranks(&report.culprits);
        return is_unknown
            .then(|| format!("The job hangs: all waiting ends at {who}, without records: look there first."));
    };
    let all = |of: fn(&Evidence) -> &Vec<u32>| -> Vec<u32> {
        groups().flat_map(|(_, evidence)| of(evidence)).copied().collect::<BTreeSet<u32>>().into_iter().collect()
    };
    let (waiting, awaited) = (all(|of| &of.peers), all(|of| &of.ranks));
    let wait = if waiting.len() == 1 { "waits" } else { "wait" };
    let what = operation(evidence.collective.as_deref(), evidence.sequence);
    let is = if awaited.len() == 1 { "It is" } else { "They are" };
    let of = if first.name.ranks_are_local { format!(" of {}", first.name.group) } else { String::new() };
    Some(format!(
        "The job hangs: {} {wait} for {}{of}, which left no records: look there first. {is} awaited in {what} of {}.",
        ranks(&waiting),
        ranks(&awaited),
        first.name.group
    ))
}

/// An example, which says more than the rule.
fn example(report: &HangReport, kinds: &[EvidenceKind]) -> String {
    let is_example =
        |of: &&Evidence| kinds.contains(&of.kind) && of.ranks.iter().any(|rank| has(&report.culprits, *rank));
    let found = report.hung.iter().find_map(|group| Some((group, group.evidence.iter().find(is_example)?)));
    found.map_or(String::new(), |(group, of)| {
        let what = operation(of.collective.as_deref(), of.sequence);
        format!(", as in {what} of {}", group.name.group)
    })
}

/// What recordings of a job that moves, or that was ended, show.
fn unsettled(report: &HangReport) -> String {
    if report.still == Some(Still::Moves) {
        let apart = report.still_ns.map_or(String::new(), |apart| format!(", {} apart", duration(apart)));
        return format!(
            "The job runs: ranks went on between two readings{apart}. That some seem to wait for others is how it was while it was read."
        );
    }
    let first = report.hung.iter().chain(&report.lagging).find(|group| !group.missing_ranks.is_empty());
    let waits = first.map_or(String::new(), |group| {
        let who = if group.waiting_ranks.is_empty() { "others".to_owned() } else { ranks(&group.waiting_ranks) };
        let what = operation(group.collective.as_deref(), group.sequence);
        format!(" while {who} wait for {} in {what} of {}", ranks(&group.missing_ranks), group.name.group)
    });
    format!(
        "Unclear: the processes are gone, and their recordings end{waits}. Nothing says for how long: a job that is killed while it runs ends like that."
    )
}

/// Counts that do not move and are equal.
fn standstill(report: &HangReport) -> String {
    let apart = report.standstill.and_then(|of| of.duration_ns);
    let apart = apart.map_or(String::new(), |apart| format!(", {} apart", duration(apart)));
    format!(
        "Unclear: between the last two answers{apart}, no count moved in {}, and all ranks have the same. Either all are stuck in one operation, or the job calls no \
         collective for so long.",
        groups(report)
    )
}

/// `The log says of rank 2: torch.OutOfMemoryError: CUDA out of memory.` Ranks of which it says the same are named together.
pub(crate) fn failed(report: &HangReport) -> Option<String> {
    let alike = alike(report.failed_ranks.iter().map(|of| (of.rank, of.what.as_str())));
    let several = alike.len().saturating_sub(GROUPS);
    let each =
        alike.iter().take(GROUPS).map(|(what, all)| format!("The log says of {}: {}.", ranks(all), visible(what)));
    let more = (several > 0).then(|| format!("It has {several} more errors."));
    (!alike.is_empty()).then(|| each.chain(more).collect::<Vec<_>>().join(" "))
}

/// A timeout in a group that nothing names.
fn timed_out(report: &HangReport) -> String {
    let who = ranks(&report.timed_out_ranks);
    let without = match &report.ranks_without_records[..] {
        [] => String::new(),
        of => format!(" There are no records of {}.", ranks(of)),
    };
    format!(
        "Unclear: collectives timed out on {who}, and nothing says in which group, so that no rank can be compared with its peers.{without}"
    )
}

/// Calls that differ, where nothing shows whether they have ended.
fn differing(report: &HangReport) -> String {
    let difference = report.differing.first().and_then(words::difference).unwrap_or_default();
    let records =
        if report.sources.is_empty() { String::new() } else { format!(" ({})", report.sources.join(" and ")) };
    format!(
        "{difference} That is an error, and gives wrong values or a hang. Whether the job hangs, these records{records} do not show."
    )
}

fn unclear(report: &HangReport) -> String {
    let Some(group) = report.open.first() else {
        let seen = format!("Cannot say whether the job hangs: in {} no rank is seen to wait", groups(report));
        return match &report.ranks_without_records[..] {
            [] => format!("{seen}."),
            unknown => {
                let of = report.without_records_in.as_ref().map_or(String::new(), |group| format!(" of {group}"));
                let they = if unknown.len() == 1 { "it" } else { "they" };
                format!(
                    "{seen}, and there are no records of {}{of}: {they} may wait, or be what others wait for.",
                    ranks(unknown)
                )
            }
        };
    };
    let n = report.open.len();
    let groups = if n == 1 { "1 group".to_owned() } else { format!("{n} groups") };
    let what = operation(group.collective.as_deref(), group.sequence);
    let is_of_two = |name: &str| Collective::of_record(name).is_some_and(Collective::is_point_to_point);
    let by_all = match group.collective.as_deref().is_some_and(is_of_two) {
        true => ",",
        false => " that all ranks with records have enqueued,",
    };
    let first = format!("Unclear: in {groups} operations are incomplete{by_all} first {what} of {}.", group.name.group);
    let known = group.known_ranks.len() as u64;
    let lacking = group.size_by_elements.filter(|size| *size > known);
    let by_size = lacking.map_or(String::new(), |size| {
        let are = if known == 1 { "is" } else { "are" };
        format!(" By its sizes that group has {} ranks, of which {} {are} in these records.", count(size), count(known))
    });
    let first = first + &by_size;
    if let [ended] = &group.ended_ranks[..] {
        return format!(
            "{first} It has ended on rank {ended} alone. If that is its root, it may have ended before the others took part: nothing shows which side is at fault."
        );
    }
    match &report.ranks_without_records[..] {
        [] if !group.idle_ranks.is_empty() => {
            let does = if group.idle_ranks.len() == 1 { "does" } else { "do" };
            let waiting = if group.waiting_ranks.len() == 1 { "waits" } else { "wait" };
            format!(
                "{first} {} {does} not wait in this group, and may be what {} {waiting} for.",
                capital(&ranks(&group.idle_ranks)),
                ranks(&group.waiting_ranks)
            )
        }
        [] if !group.not_started_ranks.is_empty() && group.waits_for.is_empty() => {
            let runs: Vec<u32> =
                group.waiting_ranks.iter().copied().filter(|rank| !has(&group.not_started_ranks, *rank)).collect();
            let or = if !report.timed_out_ranks.is_empty() { "" } else { "; or the job runs" };
            format!(
                "{first} It has begun on {}, and not on {}, where something before it may be stuck on the GPU{or}.",
                ranks(&runs),
                ranks(&group.not_started_ranks)
            )
        }
        [] if lacking.is_some() => format!("{first} Look at the others first."),
        [] if !report.timed_out_ranks.is_empty() && report.rank_count == 1 => {
            format!("{first} No other rank is in these records, so that they do not show what it waits for.")
        }
        [] if !report.timed_out_ranks.is_empty() => {
            let or = if group.size_by_elements.is_none() { ", or a rank that is not in these records" } else { "" };
            format!(
                "{first} This may be a slow or broken link{or}: the job does not run, as the watchdog's time is over."
            )
        }
        [] => format!("{first} This may be a slow or broken link, or a running job."),
        unknown => format!("{first} There are no records of {}, which may be what they wait for.", ranks(unknown)),
    }
}

/// Says so if no dump has call stacks, and what records them. PyTorch records those of Python by default, and leaves them out of dumps on
/// request, because collecting them may need a lock that the stuck process holds.
fn without_call_paths(report: &HangReport) -> Option<String> {
    let mut names =
        report.hung.iter().chain(&report.lagging).map(|of| &of.name).chain(report.open.iter().map(|of| &of.name));
    let has_dumps = names.any(|name| name.source == "flight-recorder");
    (has_dumps && report.operation_count > 0 && report.call_path_count == 0).then(|| {
        "The dumps have no call stacks, so that no line of code can be named. PyTorch writes those of Python unless \
         TORCH_INCLUDE_STACK_TRACE is 0: with TORCH_INCLUDE_STACK_TRACE=1 the next dumps have them. TORCH_NCCL_TRACE_CPP_STACK=1 adds the frames of C++."
            .to_owned()
    })
}

/// What the verdict assumes, and what it lacks.
pub(crate) fn notes(report: &HangReport) -> Vec<String> {
    let mut notes = Vec::new();
    let has_dumps = report.hung.iter().any(|group| group.name.source == "flight-recorder");
    if report.outcome == Outcome::Hung && has_dumps {
        notes.push("Dumps do not say when they were written. This supposes that nothing moved any more; dumps of a running job differ by what it did between them.".to_owned());
    }
    notes.extend(without_call_paths(report));
    if report.sources.contains(&Source::MEGATRACE.title()) {
        notes.push(
            "Which rank enters NCCL late is another question: `nccl-stacks ranks` with the same files answers it."
                .to_owned(),
        );
    }
    let is_recorded = report.hung.iter().any(|group| group.name.source == "recorder");
    match report.still {
        Some(Still::Idle) => {
            let time = report.still_ns.map_or(String::new(), |time| format!(" for {}", duration(time)));
            notes.push(format!("Nothing had moved{time} when the recordings were read."));
        }_ if report.outcome == Outcome::Hung && is_recorded => notes.push("Files of the recorder are as the job was when they were read. Ranks of a running job differ by what they did in between: ask again after some seconds. A hang stays as it is.".to_owned()),
        _ => {}
    }
    let others = report.ranks_without_records.iter().copied().filter(|rank| !has(&report.culprits, *rank));
    let others: Vec<u32> = others.collect();
    if report.outcome == Outcome::Hung && !others.is_empty() {
        notes.push(capital(&format!(
            "there are no records of {}: what these did is unknown, and they may be at fault as well.",
            ranks(&others)
        )));
    }
    notes
}
