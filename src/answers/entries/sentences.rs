//! The sentences about ranks that enter NCCL late: the verdict, and how far to trust it.

use super::{EntryGroup, EntryReport, SlowRank};
use crate::document::format::{count, duration, percent, visible};
use crate::operation::ranges::ranges;
use crate::operations::calls::groups::Role;
use crate::time::Ns;

/// How many slow ranks a verdict describes.
const NAMED: usize = 3;

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
    if report.slow.is_empty() {
        let mut sentences = vec!["No rank enters NCCL clearly later than the others.".to_owned()];
        sentences.extend(delays(report));
        return sentences;
    }
    // Names a rank once even if it is late in several groups.
    let mut named: Vec<&SlowRank> = Vec::new();
    for slow in &report.slow {
        if !named.iter().any(|known| known.rank == slow.rank) {
            named.push(slow);
        }
    }
    let mut sentences: Vec<String> = named.iter().take(NAMED).map(|slow| slow_sentence(report, slow)).collect();
    sentences.extend(delays(report));
    let mut more: Vec<u32> = named.iter().skip(NAMED).map(|slow| slow.rank).collect();
    more.sort_unstable();
    if !more.is_empty() {
        sentences.push(format!("Ranks {} are also later than the others.", ranges(&more)));
    }
    sentences
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

/// `Rank 4 once entered NCCL 2.48 s after its peers of TP 4,5, 37.2 s after the first call of the job; a usual rank is at most 15 ms late.`
fn delays(report: &EntryReport) -> impl Iterator<Item = String> + '_ {
    let mut more: Vec<u32> = report.delays.iter().skip(NAMED).map(|delay| delay.rank).collect();
    more.sort_unstable();
    more.dedup();
    let more = (!more.is_empty()).then(|| format!("Ranks {} were also once much later than usual.", ranges(&more)));
    let named = report.delays.iter().take(NAMED).map(|delay| {
        let row = &report.ranks[delay.row];
        format!(
            "Rank {} once entered NCCL {} after its peers of {}, {} after the first call of the job; a usual rank is at most {} late.",
            delay.rank,
            duration(delay.lag_ns),
            group_name(&report.groups[row.group]),
            duration(delay.after_ns),
            duration(delay.usual_ns)
        )
    });
    named.chain(more)
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
