//! Communicators that some of their ranks have not made, or have given up.
//!
//! Their ranks may have no calls yet, so that nothing else tells of such a hang. What a rank says counts against it where others of the communicator are
//! further; where none is, it is a remark on the file alone: those that wait in the making are not at fault.

use std::collections::BTreeMap;

use super::super::tables::{Making, RankStatus, Records};
use crate::operation::ranges::ranges;

pub(crate) fn judge(records: &mut Records) {
    let mut by_communicator: BTreeMap<usize, BTreeMap<u32, usize>> = BTreeMap::new();
    for (at, status) in records.rank_status.iter().enumerate().filter(|(_, of)| of.making != Making::Unknown) {
        if let (Some(communicator), Some(place)) = (status.communicator, status.place) {
            by_communicator.entry(communicator).or_default().insert(place, at);
        }
    }
    let (mut faults, mut notes): (Vec<RankStatus>, usize) = (Vec::new(), 0);
    for (communicator, ranks) in by_communicator {
        let of = |making: Making| -> Vec<(u32, &RankStatus)> {
            let all = ranks.iter().map(|(rank, at)| (*rank, &records.rank_status[*at]));
            all.filter(|(_, status)| status.making == making).collect()
        };
        let known = &records.communicators[communicator];
        let name = known.hash.map_or_else(|| known.name.clone().unwrap_or_default(), |hash| format!("{hash:#x}"));
        let (began, ended) = (of(Making::Began), of(Making::Ended));
        if let ([(_, first), ..], []) = (&began[..], &ended[..]) {
            notes += 1;
            if notes > NOTED {
                continue;
            }
            let (size, file) = (known.size.unwrap_or(0), first.file as usize);
            let began: Vec<u32> = began.iter().map(|(rank, _)| *rank).collect();
            let silent: Vec<u32> = (0..size.min(MOST) as u32).filter(|rank| !ranks.contains_key(rank)).collect();
            let silent = match &silent[..] {
                [] => String::new(),
                ranks => format!(", and there is no line of {}", named(ranks)),
            };
            let note =
                format!("none of the {size} ranks has made communicator {name}: {} began{silent}", named(&began));
            records.files[file].note(note);
            continue;
        }
        let what = [(began, "has not made"), (of(Making::Aborted), "has aborted")];
        for (of, what) in what.into_iter().filter(|_| !ended.is_empty()) {
            faults.extend(of.into_iter().map(|(rank, of)| RankStatus {
                source: of.source,
                file: of.file,
                host: of.host.clone(),
                pid: of.pid,
                device: of.device,
                faults: vec![format!("rank {rank} {what} communicator {name}")],
                ..RankStatus::default()
            }));
        }
    }
    records.rank_status.extend(faults);
}

fn named(several: &[u32]) -> String {
    format!("rank{} {}", if several.len() == 1 { "" } else { "s" }, ranges(several))
}

/// So many communicators are named that no rank has made.
const NOTED: usize = 4;

/// So many ranks are looked for by name: a damaged log may say any size.
const MOST: u64 = 1 << 16;
