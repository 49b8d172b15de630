//! Sentences about what the records prove, and what to do about it first.

use crate::answers::hang::{Evidence, EvidenceKind, HangReport, HungGroup, NcclWarning, RankProcess};
use crate::document::format::{count, duration, ranks, shell_word, shorten_right, visible};
use crate::operation::Source;
use crate::time::Ns;

/// A rank is said to be idle from this time on.
const IDLE: Ns = Ns(1_000_000_000);

/// So many letters of a warning are shown.
const LONGEST_WARNING: usize = 160;

/// With more processes, how to look at one of them is said in general.
const COMMANDS: usize = 2;

/// This many groups are named, where each has ranks of its own.
pub(crate) const GROUPS: usize = 4;

/// What the log says of ranks that others wait for: `ranks 4-7 did not reach …`. Ranks of which it says the same are named together.
pub(crate) fn by_log(report: &HangReport) -> Option<String> {
    let alike = alike(report.awaited_ranks.iter().map(|of| (of.rank, of.what.as_str())));
    let several = alike.len().saturating_sub(GROUPS);
    let each = alike.iter().take(GROUPS).map(|(what, all)| format!("{} {}", ranks(all), visible(what)));
    let more = (several > 0).then(|| format!("and {several} more"));
    (!alike.is_empty()).then(|| each.chain(more).collect::<Vec<_>>().join("; "))
}

/// What is said of which ranks.
pub(crate) fn alike<'r>(each: impl Iterator<Item = (u32, &'r str)>) -> Vec<(&'r str, Vec<u32>)> {
    let mut alike: Vec<(&str, Vec<u32>)> = Vec::new();
    for (rank, what) in each {
        match alike.iter_mut().find(|(known, _)| *known == what) {
            Some((_, all)) => all.push(rank),
            None => alike.push((what, vec![rank])),
        }
    }
    alike
}

/// A text with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// An operation with its sequence number: `all_reduce 17`.
pub(crate) fn operation(collective: Option<&str>, sequence: Option<i64>) -> String {
    let name = collective.unwrap_or("an operation");
    sequence.map_or(name.to_owned(), |sequence| format!("{name} {sequence}"))
}

/// A process by its number, host and GPU: `process 10207 (n2, GPU 3)`.
pub(crate) fn process(of: &RankProcess) -> String {
    located(of.pid, of.host.as_deref(), of.gpu)
}

fn located(pid: Option<i64>, host: Option<&str>, gpu: Option<i64>) -> String {
    let pid = pid.map_or("a process".to_owned(), |pid| format!("process {pid}"));
    let host = host.map(|host| visible(host).into_owned());
    let parts: Vec<String> = host.into_iter().chain(gpu.map(|gpu| format!("GPU {gpu}"))).collect();
    if parts.is_empty() { pid } else { format!("{pid} ({})", parts.join(", ")) }
}

/// What NCCL warned of, with the process that did first: `NCCL warned on process 200 (n2, GPU 0): "NET/IB : …".` A peer that several name comes before that.
pub(crate) fn warned(of: &NcclWarning) -> String {
    let who = located(of.pid, of.host.as_deref(), of.gpu);
    let more = match of.process_count {
        0 | 1 => String::new(),
        n => format!(" and {} more", count(n - 1)),
    };
    let often = if of.count > of.process_count { format!(", {} times", count(of.count)) } else { String::new() };
    let why = status(&of.text).map_or(String::new(), |why| format!(" {why}"));
    let peer = of.peers.first().filter(|_| of.peer_process_count > 1).map_or(String::new(), |peer| {
        format!("Look at {} first: {} processes warn of it. ", visible(peer), count(of.peer_process_count))
    });
    format!("{peer}NCCL warned on {who}{more}{often}: \"{}\".{why}", shorten_right(&visible(&of.text), LONGEST_WARNING))
}

/// What the status of an InfiniBand completion means, as verbs.h numbers them.
fn status(text: &str) -> Option<&'static str> {
    let number = text.split_once("status=")?.1;
    let digits = number.find(|letter: char| !letter.is_ascii_digit()).map_or(number, |end| &number[..end]);
    match digits {
        "5" => Some("Status 5 is a request that was flushed: an error before it stopped the connection."),
        "12" => Some("Status 12 means that the other side did not answer: its process is gone, or the link is down."),
        "13" => Some("Status 13 means that the other side had no room to receive."),
        _ => None,
    }
}

/// Where a rank at fault is: `Rank 3 is process 10207 (n2, GPU 3), rank 1 of tp 3.` `None` without a rank.
pub(crate) fn whereabouts(of: &RankProcess) -> Option<String> {
    let of_group = || of.group.as_ref().map(|group| format!(" of {}", visible(group))).unwrap_or_default();
    // A rank that lacks what others have enqueued has been idle for a moment in any case.
    let idle = of.idle_ns.filter(|idle| *idle >= IDLE);
    let idle =
        idle.map_or(String::new(), |idle| format!(" Its last operation is {} older than the newest.", duration(idle)));
    let who = process(of);
    let said = match (of.rank, of.place) {
        (Some(rank), Some(place)) => format!("Rank {rank} is {who}, rank {place}{}.", of_group()),
        (Some(rank), None) => format!("Rank {rank} is {who}."),
        (None, place) => format!("Rank {}{} is {who}.", place?, of_group()),
    };
    Some(said + &idle)
}

/// The command that shows what a process does; `None` where its number or host is not known for certain.
pub(crate) fn command(of: &RankProcess) -> Option<String> {
    let (pid, host) = of.pid.zip(of.host.as_ref()).filter(|_| of.is_unique)?;
    Some(format!("ssh {} py-spy dump --pid {pid}", shell_word(host)))
}

fn verb<'a>(ranks: &[u32], one: &'a str, several: &'a str) -> &'a str {
    if ranks.len() == 1 { one } else { several }
}

pub(crate) fn sentence(of: &Evidence) -> String {
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
        EvidenceKind::Ahead => {
            let alone = match of.sequence {
                Some(_) => {
                    let last = of.last.map_or("they enqueued nothing there".to_owned(), |last| {
                        format!("the last they enqueued is {last}")
                    });
                    let waits = verb(&of.ranks, "waits", "wait");
                    format!("{who} alone {waits} in {what}. {} wait in nothing, and {last}", capital(&peers))
                }
                None => {
                    let made = verb(&of.ranks, "has", "have");
                    format!("{who} alone {made} enqueued {here} {name}, and {peers} {there}")
                }
            };
            format!("{alone}: either {who} made a call too many, or {peers} one too few.")
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
        EvidenceKind::OtherCollective
        | EvidenceKind::OtherType
        | EvidenceKind::OtherSize
        | EvidenceKind::OtherRoot
        | EvidenceKind::OtherReduction => {
            format!("in {what} {who} {} {here}, and {peers} {there}.", verb(&of.ranks, "has", "have"))
        }
        EvidenceKind::Undecidable => {
            format!(
                "in {what} {who} {} {here}, and {peers} {there}; nothing says who is right.",
                verb(&of.ranks, "has", "have")
            )
        }
        EvidenceKind::OtherMessage => {
            let within = of.sequence.map_or(String::new(), |_| format!("in {what} "));
            let (sends, receives) = (verb(&of.ranks, "sends", "send"), verb(&of.peers, "receives", "receive"));
            format!("{within}{who} {sends} {} elements to {peers}, which {receives} {}.", number(here), number(there))
        }
        EvidenceKind::OtherTotals => {
            let (sent, received) = (number(here), number(there));
            format!("in {what} {who} send {sent} elements together and receive {received}: their sizes do not fit.")
        }
        EvidenceKind::OtherOrder => {
            let (have, others) = (verb(&of.ranks, "has", "have"), verb(&of.peers, "has", "have"));
            format!(
                "{who} {have} {there} {what} before {here}, and {peers} {others} {there} that first: they wait for each other, most likely."
            )
        }
        EvidenceKind::HoldsUp => {
            format!(
                "{who} {} {there} {what} before {here}, which waits there for its end.",
                verb(&of.ranks, "has", "have")
            )
        }
        EvidenceKind::OtherPeer => format!(
            "{who} sends to {peers}, which receives from rank {here}, and rank {here} has not sent to it yet: one of the three may name the wrong rank."
        ),
        EvidenceKind::NoReceive => format!("{who} sends to {peers} ({here}x), which has no receive for that."),
        EvidenceKind::NoSend => format!("{who} receives from {peers} ({here}x), which has no send for that."),
        EvidenceKind::FewerCalls => {
            let by =
                here.parse::<u64>().ok().zip(there.parse::<u64>().ok()).map(|(here, there)| there.saturating_sub(here));
            let name = if by == Some(1) && of.collective.is_none() { "operation" } else { name };
            let by = by.map_or(String::new(), |by| format!(" by {by} {name}"));
            format!("{who} {}{by}: {here} against {there} on {peers}.", verb(&of.ranks, "lags", "lag"))
        }
        EvidenceKind::FewerMessages => match of.collective.as_deref() {
            Some("send") => format!("{who} called {here} sends to {peers}, which called {there} receives from it."),
            _ => format!("{who} called {here} receives from {peers}, which called {there} sends to it."),
        },
        EvidenceKind::NoProgress => format!("no count moved between the last two answers{}.", apart(of)),
        EvidenceKind::Progress => {
            let still = if of.peers.is_empty() { String::new() } else { format!(", and those of {peers} did not") };
            let apart = Some(apart(of)).filter(|apart| !apart.is_empty()).map_or(String::new(), |apart| apart + ",");
            format!("between the last two answers{apart} the counts of {who} moved{still}.")
        }
        EvidenceKind::NoAnswer => {
            let (were, are) = (verb(&of.ranks, "was", "were"), verb(&of.ranks, "is", "are"));
            let ended = verb(
                &of.ranks,
                "its process has ended, or has destroyed",
                "their processes have ended, or have destroyed",
            );
            format!(
                "{who} {were} in the answer before the last one, and {are} not in the last: {ended} the communicator."
            )
        }
        EvidenceKind::Fault => format!("{who} {}: {here}.", verb(&of.ranks, "is reported", "are reported")),
    })
}

/// What ranks of a group called differently: `In communicator 0xabc, in broadcast 3 rank 2 has root 2, and ranks 0, 1 and 3 root 0.`
pub(crate) fn difference(group: &HungGroup) -> Option<String> {
    let what = sentence(group.evidence.first()?);
    let what = what.strip_prefix("In ").map_or(what.clone(), |what| format!("in {what}"));
    Some(format!("In {}, {what}", visible(&group.name.group)))
}

/// How far two answers are apart: `, 60.0 s apart`.
fn apart(of: &Evidence) -> String {
    of.during_ns.map_or(String::new(), |time| format!(", {} apart", duration(time)))
}

/// A number with its thousands apart.
fn number(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), count)
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
pub(crate) fn has(ranks: &[u32], rank: u32) -> bool {
    ranks.binary_search(&rank).is_ok()
}

/// Whether all ranks of a group are aborted: then somebody had given up before.
pub(crate) fn is_aborted(group: &HungGroup) -> bool {
    let is_abort = |of: &&Evidence| of.kind == EvidenceKind::Fault && of.here.as_deref() == Some("aborted");
    let aborted: usize = group.evidence.iter().filter(is_abort).map(|of| of.ranks.len()).sum();
    aborted > 0 && aborted >= group.name.ranks.len() && group.evidence.iter().all(|of| is_abort(&of))
}

/// Whether a source says what is wrong with ranks of a group, and nothing shows that they have done less.
pub(crate) fn is_reported(group: &HungGroup) -> bool {
    !group.evidence.is_empty() && group.evidence.iter().all(|of| of.kind == EvidenceKind::Fault)
}

/// Whether nothing says which process it is.
pub(crate) fn is_unknown(of: &RankProcess) -> bool {
    of.pid.is_none() && of.host.is_none() && of.gpu.is_none()
}

/// What to do first about a group, after `First: `; `None` if it only waits for others.
pub(crate) fn advice(report: &HangReport, group: &HungGroup) -> Option<String> {
    // Nothing shows which rank is at fault.
    let is_open = report.culprits.is_empty();
    let of = |blamed: &[u32]| -> Vec<u32> {
        let is_it = |rank: &u32| match &report.circle[..] {
            [] if is_open => true,
            circle if is_open => has(circle, *rank),
            _ => has(&group.culprits, *rank),
        };
        blamed.iter().copied().filter(is_it).collect()
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
    if let Some(ahead) = group.evidence.iter().find(|of| of.kind == EvidenceKind::Ahead) {
        let (who, others) = (ranks(&ahead.ranks), ranks(&ahead.peers));
        return Some(format!(
            "find the line of {who} that makes this call, and whether the others make it, too. Then check in which function {others} are: py-spy dump --pid PID."
        ));
    }
    if shows(EvidenceKind::OtherOrder) || shows(EvidenceKind::HoldsUp) {
        return Some(
            "call these groups in the same order on all ranks, or wait for the end of one before the other is called."
                .to_owned(),
        );
    }
    if shows(EvidenceKind::OtherPeer) {
        return Some("print the peer of each send and receive on these ranks before the call.".to_owned());
    }
    if shows(EvidenceKind::OtherMessage) || shows(EvidenceKind::OtherTotals) {
        return Some(
            "print the sizes on all ranks before the call: what one sends has to be what the other expects.".to_owned(),
        );
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
    if is_aborted(group) {
        return Some(
            "find the first error in the logs before that: NCCL WARN, Watchdog, a Python traceback.".to_owned(),
        );
    }
    let is_answer = group.name.source == Source::RAS.name();
    let is_known = [EvidenceKind::Progress, EvidenceKind::Fault, EvidenceKind::NoAnswer].into_iter().any(shows);
    let is_stuck = report.hung.iter().any(|of| std::ptr::eq(of, group));
    if shows(EvidenceKind::FewerCalls) && is_answer && !is_known && !is_stuck {
        let later = if shows(EvidenceKind::NoProgress) { " after a minute" } else { "" };
        return Some(format!("ask again{later}, and give both answers: if no count has moved, it hangs."));
    }
    let mut missing = of(&group.missing_ranks);
    missing.retain(|rank| !has(&group.may_wait_elsewhere, *rank));
    let who = ranks(&missing);
    let waits = |process: &RankProcess| {
        let rank = if group.name.ranks_are_local { process.place } else { process.rank };
        rank.is_some_and(|rank| has(&group.may_wait_elsewhere, rank))
    };
    let own = |process: &&RankProcess| process.is_in(&group.name.group) && !waits(process);
    let commands: Vec<String> = report.processes.iter().filter(own).filter_map(command).take(COMMANDS + 1).collect();
    let how = match &commands[..] {
        all if !all.is_empty() && all.len() <= COMMANDS => all.join("; "),
        _ => "py-spy dump --pid PID".to_owned(),
    };
    Some(match missing.len() {
        0 => return None,
        1 => format!("check whether the process of {who} still runs, and in which function: {how}."),
        _ => format!("check whether the processes of {who} still run, and in which function: {how}."),
    })
}
