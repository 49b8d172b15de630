//! The sentences about ranks that enter NCCL late: the verdict, and how far to trust it.

use std::collections::BTreeSet;

use super::{Delay, EntryGroup, EntryReport, SlowRank};
use crate::document::format::{count, duration, percent, ranks, visible};
use crate::operation::ranges::ranges;
use crate::operations::calls::groups::Role;
use crate::time::Ns;

/// How many sentences a verdict has at most.
const SENTENCES: usize = 3;

/// The most lines about anything else.
const LINES: usize = 6;

/// The verdict, with a sentence for each slow rank.
pub fn verdict(report: &EntryReport) -> Vec<String> {
    let judged = report.groups.iter().filter(|group| group.not_judged.is_none()).count();
    if report.groups.is_empty() {
        return vec![no_group(report)];
    }
    if judged == 0 {
        return vec!["No rank can be judged; the reasons are below.".to_owned()];
    }
    // Names a rank once even if it is late in several groups.
    let mut named: Vec<&SlowRank> = Vec::new();
    for slow in &report.slow {
        if !named.iter().any(|known| known.rank == slow.rank) {
            named.push(slow);
        }
    }
    let nobody = named.is_empty().then(|| "No rank enters NCCL clearly later than the others.".to_owned());
    let nobody_count = usize::from(nobody.is_some());
    let is_all = nobody_count + named.len() + report.delays.len() <= SENTENCES;
    // The last sentence is about all others.
    let room = SENTENCES - nobody_count - usize::from(!is_all);
    let (slow, late) = (named.len().min(room), report.delays.len().min(room - named.len().min(room)));
    let (slow, more_slow) = named.split_at(slow);
    let (late, more_late) = report.delays.split_at(late);
    let slow = slow.iter().map(|slow| slow_sentence(report, slow));
    let late = late.iter().enumerate().map(|(at, delay)| delay_sentence(report, delay, at == 0));
    nobody.into_iter().chain(slow).chain(late).chain(others(more_slow, more_late)).collect()
}

/// `Ranks 5-7 are also later than the others; rank 9 was also once much later than usual.`
fn others(slow: &[&SlowRank], late: &[Delay]) -> Option<String> {
    let said = |of: BTreeSet<u32>, one: &str, several: &str, how: &str| {
        let of: Vec<u32> = of.into_iter().collect();
        let verb = if of.len() == 1 { one } else { several };
        (!of.is_empty()).then(|| format!("{} {verb} also {how}", ranks(&of)))
    };
    let slow = said(slow.iter().map(|of| of.rank).collect(), "is", "are", "later than the others");
    let late = said(late.iter().map(|of| of.rank).collect(), "was", "were", "once much later than usual");
    let said = slow.into_iter().chain(late).collect::<Vec<_>>().join("; ");
    said.strip_prefix('r').map(|rest| format!("R{rest}."))
}

fn no_group(report: &EntryReport) -> String {
    match &report.ranks_here[..] {
        [] => "Nothing says which rank of the job made the calls, so nothing is compared.".to_owned(),
        [one] => {
            format!("Only calls of rank {one} are here, so nothing is compared: add the records of the other ranks.")
        }
        ranks => format!("None of the calls of ranks {} can be compared; the reasons are below.", ranges(ranks)),
    }
}

/// `Rank 2 enters NCCL a median 506 µs after rank 3 of its tensor parallel group, and last in 75.0 % of 9,191 calls on stream 0x…; …`
fn slow_sentence(report: &EntryReport, slow: &SlowRank) -> String {
    let row = &report.ranks[slow.row];
    let group = &report.groups[row.group];
    let peers = match &slow.peers[..] {
        [one] => format!("rank {one}"),
        several => format!("ranks {}", ranges(several)),
    };
    let stream = row.stream.map_or(String::new(), |stream| format!(" on stream {stream:#x}"));
    let others = match slow.others_count {
        1 => format!("the only other rank compared is {} later than its peers", duration(slow.others_lag_ns.0)),
        n => format!(
            "the {} others compared are {} to {} later than their peers",
            count(n),
            duration(slow.others_lag_ns.0),
            duration(slow.others_lag_ns.1)
        ),
    };
    format!(
        "Rank {} enters NCCL a median {} after {peers} of its {}, and last in {} of {} calls{stream}; {others}.",
        slow.rank,
        duration(row.lag_ns),
        group.role.title(),
        percent(row.last_share),
        count(row.calls)
    )
}

/// `Rank 4 once entered NCCL 2.48 s after its peers of TP 4,5, 37.2 s after the first call of the job; a usual rank is at most 15 ms late.` What is usual is the
/// same for all, and said once.
fn delay_sentence(report: &EntryReport, delay: &Delay, is_first: bool) -> String {
    let usual = match is_first {
        true => format!("; a usual rank is at most {} late", duration(delay.usual_ns)),
        false => String::new(),
    };
    format!(
        "Rank {} once entered NCCL {} after its peers of {}, {} after the first call of the job{usual}.",
        delay.rank,
        duration(delay.lag_ns),
        group_name(&report.groups[report.ranks[delay.row].group]),
        duration(delay.after_ns)
    )
}

/// How far to trust the answer.
pub(super) fn trust(report: &EntryReport) -> Vec<String> {
    if report.groups.is_empty() {
        return vec![calls(report)];
    }
    let mut lines = Vec::new();
    if let Some(layout) = &report.layout {
        lines.push(format!(
            "Layout: tensor parallel {}, pipeline parallel {}, data parallel {}, inferred from equal sequences of calls and from which \
             ranks call close together.",
            layout.tensor, layout.pipeline, layout.data
        ));
    }
    if !report.groups.iter().any(|group| group.role == Role::Named) {
        lines.push("The records do not name their groups; all are inferred.".to_owned());
    }
    lines.push(clocks(report));
    let doubtful = &report.clock.doubtful_ranks;
    if !doubtful.is_empty() {
        lines.push(format!(
            "Later or earlier than their peers in nearly every call, which may be their clocks: ranks {}. They are not judged.",
            ranges(doubtful)
        ));
    }
    let mut reasons: Vec<(&str, Vec<&EntryGroup>)> = Vec::new();
    for group in &report.groups {
        let Some(why) = group.not_judged else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, groups)) => groups.push(group),
            None => reasons.push((why, vec![group])),
        }
    }
    for (why, groups) in reasons.iter().take(LINES) {
        let first = group_name(groups[0]);
        let more = if groups.len() > 1 { format!(" and {} more", groups.len() - 1) } else { String::new() };
        lines.push(format!("Not judged: {first}{more}, because {why}."));
    }
    lines.push(calls(report));
    if !report.has_numbers {
        lines.push("The calls have no numbers: what was overwritten before it was written cannot be seen.".to_owned());
    }
    lines.push(format!(
        "Judged by median absolute deviations. {}",
        match report.clock.is_by_length {
            true => "All ranks leave a call at once, so that the rank that was in it for the shortest time came last: its clock has no part in that.",
            false => "Times are of the entry into NCCL's function: nothing says how long the calls took.",
        }
    ));
    lines
}

fn calls(report: &EntryReport) -> String {
    let mut line = format!("Calls: {} of {} compared", count(report.compared), count(report.calls));
    for (reason, n) in &report.not_compared {
        line.push_str(&format!(", {} {reason}", count(*n)));
    }
    line + "."
}

fn clocks(report: &EntryReport) -> String {
    match report.clock.method {
        "one-host" => "Clocks: all ranks are on one host.".to_owned(),
        "hosts" if report.clock.hosts.is_empty() => "Clocks: each group is on one host.".to_owned(),
        "hosts" => {
            let hosts = report.clock.hosts.iter().skip(1).take(LINES);
            let hosts: Vec<String> =
                hosts.map(|host| format!("{} {}", visible(&host.host), signed(host.offset_ns))).collect();
            let more = report.clock.hosts.len().saturating_sub(LINES + 1);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let first = report.clock.hosts.first().map_or_else(String::new, |host| visible(&host.host).into_owned());
            format!(
                "Clocks: one offset for each host, by the median of its ranks, is subtracted; against {first}: {}{more}. A host that is \
                 late as a whole cannot be distinguished from its clock.",
                hosts.join(", ")
            )
        }
        _ if report.clock.is_by_length => {
            "Clocks: not needed, where the records say how long each rank was in a call.".to_owned()
        }
        _ => "Clocks: taken as they are: nothing says on which hosts the ranks ran.".to_owned(),
    }
}

pub(super) fn group_name(group: &EntryGroup) -> String {
    let word = match group.role {
        Role::Tensor => "TP ",
        Role::Data => "DP ",
        _ => "",
    };
    let ranks = ranges(&group.ranks);
    // Evenly spaced ranks are short as well: `0,2..14`.
    let is_long = ranks.len() > 24;
    match (&group.ranks[..], is_long) {
        ([first, second, .., last], true) => format!("{word}{first},{second}..{last}"),
        _ => format!("{word}{ranks}"),
    }
}

/// `+506 µs`
pub(super) fn signed(time: Ns) -> String {
    format!("{}{}", if time > Ns::ZERO { "+" } else { "" }, duration(time))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::OnPage;
    use crate::answers::entries::{EntryRank, document::EntriesAnswer};
    use crate::document::answer::Answer;

    /// A group of ranks of which so many are slow, and others were late once.
    fn report(slow: u32, late: u32) -> EntryReport {
        let group = EntryGroup {
            role: Role::Named,
            is_busiest: true,
            ranks: (0..16).collect(),
            stage: None,
            calls: 100,
            last_rank: 0,
            lag_ns: Ns::ZERO,
            not_judged: None,
        };
        let row = |rank: u32| EntryRank { rank, calls: 100, lag_ns: Ns(1_000), ..EntryRank::default() };
        let slow_rank = |rank: u32| SlowRank { rank, row: rank as usize, peers: vec![15], ..SlowRank::default() };
        let (lag_ns, after_ns, usual_ns) = (Ns(2_000_000_000), Ns(9), Ns(17_700_000));
        let delay = |rank: u32| Delay { rank, row: rank as usize, lag_ns, after_ns, usual_ns };
        EntryReport {
            groups: vec![group],
            ranks: (0..16).map(row).collect(),
            slow: (0..slow).map(slow_rank).collect(),
            delays: (8..8 + late).map(delay).collect(),
            ..EntryReport::default()
        }
    }

    /// The rest of many is in the last one, and what is usual in one of them.
    #[test]
    fn a_verdict_has_at_most_three_sentences() {
        for (slow, late, last) in [
            (0, 0, "No rank enters NCCL clearly later than the others."),
            (0, 2, "Rank 9 once entered NCCL 2.00 s after its peers of 0-15, 9 ns after the first call of the job."),
            (0, 3, "Ranks 9 and 10 were also once much later than usual."),
            (3, 0, "Rank 2 enters NCCL a median 1.00 µs after rank 15"),
            (4, 0, "Ranks 2 and 3 are also later than the others."),
            (2, 2, "Ranks 8 and 9 were also once much later than usual."),
            (3, 1, "Rank 2 is also later than the others; rank 8 was also once much later than usual."),
        ] {
            let report = report(slow, late);
            let said = verdict(&report);
            assert!(said.len() <= SENTENCES && said.last().unwrap().starts_with(last), "{slow} {late}: {said:?}");
            let answer = EntriesAnswer { report: &report, name: "", limit: None, on_page: OnPage::default() };
            let document = answer.document();
            let all =
                said.iter().chain(document.findings.iter().flat_map(|of| &of.evidence)).cloned().collect::<String>();
            let is_named = said.iter().any(|said| said.contains("once entered"));
            assert_eq!(all.matches("17.7 ms").count(), usize::from(is_named), "{all}");
        }
    }
}
