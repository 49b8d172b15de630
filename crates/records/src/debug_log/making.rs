//! Communicators that some of their ranks have not made, or have given up.
//!
//! Their ranks may have no calls yet, so that nothing else tells of such a hang. What a rank says counts against it where others of the communicator are
//! further; those that wait in the making are not at fault. Where none has ended it, the ranks are awaited that have no line of it: where as many processes of
//! the log have made no communicator, they are these.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::super::tables::{Making, RankStatus, Records};
use super::UNSAID;
use crate::operation::Source;
use crate::operation::ranges::ranges;

/// Takes the communicators away of which the log says no id, where two processes have one rank of what would be one communicator.
pub(crate) fn tell_apart(records: &mut Records) {
    let mut known: HashMap<(usize, u32), _> = HashMap::new();
    let mut several: HashSet<usize> = HashSet::new();
    for status in records.rank_status.iter().filter(|of| of.source == Source::DEBUG_LOG) {
        let Some((communicator, place)) = status.communicator.zip(status.place) else { continue };
        let of = &records.communicators[communicator];
        if of.hash.is_none() && of.name.as_ref().is_some_and(|name| name.starts_with(UNSAID)) {
            let process = (&status.host, status.pid, status.device);
            if *known.entry((communicator, place)).or_insert(process) != process {
                several.insert(communicator);
            }
        }
    }
    let is_it = |communicator: Option<usize>| communicator.is_some_and(|of| several.contains(&of));
    records.rank_status.retain(|status| !is_it(status.communicator));
    let calls = records.calls.iter_mut().map(|(call, _)| call);
    for operation in records.operations.iter_mut().chain(calls).filter(|of| is_it(of.communicator)) {
        (operation.communicator, operation.place) = (None, None);
    }
}

pub(crate) fn judge(records: &mut Records) {
    let mut by_communicator: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
    for (at, status) in records.rank_status.iter().enumerate().filter(|(_, of)| of.making != Making::Unknown) {
        if let (Some(communicator), Some(place)) = (status.communicator, status.place) {
            by_communicator.entry(communicator).or_default().insert(place, at);
        }
    }
    let is_without = |of: &&RankStatus| of.source == Source::DEBUG_LOG && of.communicator.is_none() && of.pid.is_some();
    let without: Vec<RankStatus> = records.rank_status.iter().filter(is_without).cloned().collect();
    let (mut faults, mut notes): (Vec<RankStatus>, usize) = (Vec::new(), 0);
    for (communicator, ranks) in &by_communicator {
        let of = |making: Making| -> Vec<(u32, &RankStatus)> {
            let all = ranks.iter().map(|(rank, at)| (*rank, &records.rank_status[*at]));
            all.filter(|(_, status)| status.making == making).collect()
        };
        let known = &records.communicators[*communicator];
        let name = known.name.as_deref().map(|name| name.strip_prefix(UNSAID).unwrap_or(name)).unwrap_or_default();
        let name = known.hash.map_or_else(|| name.to_owned(), |hash| format!("{hash:#x}"));
        let (began, ended) = (of(Making::Began), of(Making::Ended));
        if let ([(_, first), ..], []) = (&began[..], &ended[..]) {
            notes += 1;
            if notes > NOTED {
                continue;
            }
            let (size, file) = (known.size.unwrap_or(0), first.file as usize);
            let source = first.source;
            let began: Vec<u32> = began.iter().map(|(rank, _)| *rank).collect();
            let silent: Vec<u32> = (0..size.min(MOST) as u32).filter(|rank| !ranks.contains_key(rank)).collect();
            let began = named(&began);
            // The processes that have these ranks in a communicator that is made.
            let process = |at: usize| {
                (&records.rank_status[at].host, records.rank_status[at].pid, records.rank_status[at].device)
            };
            let is_alike = |other: &&BTreeMap<u32, usize>| {
                silent.iter().all(|rank| other.contains_key(rank))
                    && ranks
                        .iter()
                        .all(|(rank, at)| other.get(rank).is_some_and(|other| process(*other) == process(*at)))
            };
            let processes: Vec<&RankStatus> = match by_communicator.values().find(is_alike) {
                Some(other) => silent.iter().map(|rank| &records.rank_status[other[rank]]).collect(),
                None => without.iter().collect(),
            };
            match &silent[..] {
                [] => records.files[file]
                    .note(format!("none of the {size} ranks has made communicator {name}: {began} began")),
                silent if silent.len() == processes.len() => {
                    let have = if silent.len() == 1 { "has" } else { "have" };
                    let fault = format!("{} {have} not begun communicator {name}, which {began} began", named(silent));
                    faults.extend(processes.into_iter().map(|of| of_process(of, fault.clone())));
                }
                silent => {
                    let silent = named(silent);
                    let fault = format!(
                        "there is no line of {silent} in the making of communicator {name}, which {began} began"
                    );
                    faults.push(RankStatus { source, file: file as u32, faults: vec![fault], ..RankStatus::default() });
                }
            }
            continue;
        }
        let what = [(began, "has not made"), (of(Making::Aborted), "has aborted")];
        for (of, what) in what.into_iter().filter(|_| !ended.is_empty()) {
            let fault = |rank: u32| format!("rank {rank} {what} communicator {name}");
            faults.extend(of.into_iter().map(|(rank, of)| of_process(of, fault(rank))));
        }
    }
    records.rank_status.extend(faults);
}

/// What is wrong with the process that a status is of.
fn of_process(RankStatus { source, file, host, pid, device, .. }: &RankStatus, fault: String) -> RankStatus {
    let (source, file, host) = (*source, *file, host.clone());
    RankStatus { source, file, host, pid: *pid, device: *device, faults: vec![fault], ..RankStatus::default() }
}

fn named(several: &[u32]) -> String {
    format!("rank{} {}", if several.len() == 1 { "" } else { "s" }, ranges(several))
}

/// So many communicators are named that no rank has made.
const NOTED: usize = 4;

/// So many ranks are looked for by name: a damaged log may say any size.
const MOST: u64 = 1 << 16;
