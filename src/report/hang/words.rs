//! Sentences about what the records prove, and what to do about it first.

use crate::analysis::hang::{Evidence, EvidenceKind, HungGroup};
use crate::report::format::ranks;

/// A text with its first letter in upper case.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// An operation with its sequence number: `all_reduce 17`.
pub(super) fn operation(collective: Option<&str>, sequence: Option<i64>) -> String {
    let name = collective.unwrap_or("an operation");
    sequence.map_or(name.to_owned(), |sequence| format!("{name} {sequence}"))
}

/// The verb form for one rank or for several.
fn verb<'a>(ranks: &[u32], one: &'a str, several: &'a str) -> &'a str {
    if ranks.len() == 1 { one } else { several }
}

/// A piece of evidence as a sentence.
pub(super) fn sentence(of: &Evidence) -> String {
    let (here, there) = (of.here.as_deref().unwrap_or("?"), of.there.as_deref().unwrap_or("?"));
    let (who, peers) = (ranks(&of.ranks), ranks(&of.peers));
    let what = operation(of.collective.as_deref(), of.sequence);
    let name = of.collective.as_deref().unwrap_or("operations");
    let wait = verb(&of.peers, "waits", "wait");
    capital(&match of.kind {
        EvidenceKind::NeverEnqueued => {
            let last = match of.last {
                Some(last) if of.ranks.len() == 1 => format!("; the last it enqueued is {last}"),
                Some(last) => format!("; the last they enqueued is {last}"),
                None => "; no operation of the group is recorded there".to_owned(),
            };
            format!("{who} did not enqueue {what}, in which {peers} {wait}{last}.")
        }
        EvidenceKind::Stuck | EvidenceKind::StuckRooted => {
            let from =
                of.last.filter(|last| Some(*last) != of.sequence).map_or(String::new(), |last| format!(" to {last}"));
            let is = if from.is_empty() { "is" } else { "are" };
            let have = verb(&of.peers, "has", "have");
            let rooted = match of.kind {
                EvidenceKind::StuckRooted => " It may end on some ranks before others take part.",
                _ => "",
            };
            format!("{what}{from} {is} incomplete on {who}, while {peers} {have} completed {}{rooted}", completed(of))
        }
        EvidenceKind::NoOperations => {
            let (its, are) = if of.ranks.len() == 1 { ("the dump", "has") } else { ("the dumps", "have") };
            format!("{its} of {who} {are} no operation: what was enqueued there has ended, or is not in the dump.")
        }
        EvidenceKind::NoRecords => {
            format!("{peers} {wait} in {what} for {who}, which left no records.")
        }
        EvidenceKind::OtherCollective | EvidenceKind::OtherType | EvidenceKind::OtherSize => {
            format!("in {what} {who} {} {here}, and {peers} {there}.", verb(&of.ranks, "has", "have"))
        }
        EvidenceKind::Undecidable => {
            format!(
                "in {what} {who} {} {here}, and {peers} {there}; nothing says who is right.",
                verb(&of.ranks, "has", "have")
            )
        }
        EvidenceKind::NoReceive => format!("{who} sends to {peers} ({here}x), which has no receive for that."),
        EvidenceKind::NoSend => format!("{who} receives from {peers} ({here}x), which has no send for that."),
        EvidenceKind::FewerCalls => {
            let by =
                here.parse::<u64>().ok().zip(there.parse::<u64>().ok()).map(|(here, there)| there.saturating_sub(here));
            let name = if by == Some(1) && of.collective.is_none() { "operation" } else { name };
            let by = by.map_or(String::new(), |by| format!(" by {by} {name}"));
            format!("{who} {}{by}: {here} against {there} on {peers}.", verb(&of.ranks, "lags", "lag"))
        }
        EvidenceKind::NoProgress => "no count moved between the last two answers.".to_owned(),
        EvidenceKind::Progress => format!("between the last two answers the counts of {who} moved."),
        EvidenceKind::Fault => format!("{who} {}: {here}.", verb(&of.ranks, "is reported", "are reported")),
    })
}

/// Which operations the peers have completed.
fn completed(of: &Evidence) -> String {
    let done = of.there.as_deref().and_then(|done| done.parse::<i64>().ok());
    match (of.sequence.zip(of.last).filter(|(first, last)| last > first), done) {
        (Some((_, last)), Some(done)) if done < last => format!("those up to {done}."),
        (Some(_), _) => "them.".to_owned(),
        (None, _) => "it.".to_owned(),
    }
}

/// Whether a rank is among `ranks`, which are sorted.
pub(super) fn has(ranks: &[u32], rank: u32) -> bool {
    ranks.binary_search(&rank).is_ok()
}

/// What to do first about a group, after `First: `; `None` if it only waits for others. `is_open` means that nothing shows which rank is at fault.
pub(super) fn advice(group: &HungGroup, is_open: bool) -> Option<String> {
    let of = |blamed: &[u32]| -> Vec<u32> {
        blamed.iter().copied().filter(|rank| is_open || has(&group.culprits, *rank)).collect()
    };
    let shows = |kind: EvidenceKind| group.evidence.iter().any(|evidence| evidence.kind == kind);
    if group.distance.is_some_and(|distance| distance > 0) {
        return None;
    }
    if let Some(none) = group.evidence.iter().find(|evidence| evidence.kind == EvidenceKind::NoRecords) {
        let who = ranks(&none.ranks);
        let (process, run) =
            if none.ranks.len() == 1 { ("the process", "it still runs") } else { ("the processes", "they still run") };
        return Some(format!("look at {process} of {who}: the end of the log, and whether {run}."));
    }
    if !group.odd_ranks.is_empty() || shows(EvidenceKind::Undecidable) {
        let what = match &group.odd_ranks[..] {
            _ if group.paths.is_some() => "compare the call paths".to_owned(),
            [] => "find where the code of these ranks differs".to_owned(),
            odd => format!("find where the code of {} differs from that of its peers", ranks(odd)),
        };
        return Some(format!("{what}: all ranks of a group have to call the same, in the same order."));
    }
    let stuck = of(&group.stuck_ranks);
    if !stuck.is_empty() {
        let who = ranks(&stuck);
        return Some(format!(
            "look at the GPU of {who}: Xid errors in dmesg, nvidia-smi -q, the kernel that runs there."
        ));
    }
    if shows(EvidenceKind::FewerCalls) && !shows(EvidenceKind::NoProgress) {
        return Some("ask again, and give both answers: if no count has moved, it hangs.".to_owned());
    }
    let missing = of(&group.missing_ranks);
    let who = ranks(&missing);
    Some(match missing.len() {
        0 => return None,
        1 => format!("check whether the process of {who} still runs, and in which function: py-spy dump --pid PID."),
        _ => format!("check whether the processes of {who} still run, and in which function: py-spy dump --pid PID."),
    })
}
