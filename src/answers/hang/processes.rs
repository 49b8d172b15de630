//! Which processes to look at: those of the ranks at fault, and those that a source reports itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::HungGroup;
use crate::operation::Source;
use crate::operations::processes::{Process, Processes};
use crate::operations::recorded_groups::{RecordedGroup, RecordedGroups};
use crate::records::{RankStatus, Records};
use crate::time::Ns;

/// The process of a rank. What the source does not say is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankProcess {
    /// The rank of the job.
    pub rank: Option<u32>,
    /// The group in which it is at fault, by its name, and the rank within that.
    pub group: Option<String>,
    /// Further groups in which it is.
    #[serde(skip)]
    pub also_in: Vec<String>,
    /// The rank within the group.
    pub place: Option<u32>,
    /// Its host.
    pub host: Option<String>,
    /// Its number on that host.
    pub pid: Option<i64>,
    /// The CUDA device.
    pub gpu: Option<i64>,
    /// How much older its last operation is than the newest of all ranks.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub idle_ns: Option<Ns>,
    /// Since when it does nothing more: when it enqueued the last operation, since the Unix epoch.
    #[cfg_attr(test, schemars(with = "Option<i64>"))]
    pub since_ns: Option<Ns>,
    /// Whether host, process and GPU are of no other rank: the processes of containers may have the same numbers.
    pub is_unique: bool,
    /// Whether it is here because it made less calls than others of its communicator, although its rank is unknown.
    pub made_less: bool,
    /// What a source says is wrong with it.
    pub faults: Vec<String>,
}

impl RankProcess {
    /// Whether it is at fault in the group of this name.
    pub fn is_in(&self, group: &str) -> bool {
        self.group.as_deref() == Some(group) || self.also_in.iter().any(|other| other == group)
    }
}

/// Processes that are compared although their ranks are unknown: each has one communicator of so many ranks as there are processes, so that it is the same
/// one.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ComparedProcesses {
    /// How many processes.
    pub process_count: usize,
    /// How many calls those made that made most.
    pub calls: i64,
}

/// Compares the calls of processes whose ranks are unknown: how many were compared, and those that made less calls.
pub(super) fn without_ranks(records: &Records) -> (Option<ComparedProcesses>, Vec<RankProcess>) {
    let mut by_communicator: BTreeMap<usize, Vec<&RankStatus>> = BTreeMap::new();
    for status in records.rank_status.iter().filter(|of| of.source == Source::DEBUG_LOG && of.place.is_none()) {
        if let Some(communicator) = status.communicator {
            by_communicator.entry(communicator).or_default().push(status);
        }
    }
    let mut compared: Option<ComparedProcesses> = None;
    let mut fewer = Vec::new();
    for (communicator, statuses) in by_communicator {
        let keys: BTreeSet<_> = statuses.iter().map(|of| (&of.host, of.pid, of.device)).collect();
        let is_one =
            records.communicators[communicator].size == Some(keys.len() as u64) && keys.len() == statuses.len();
        let Some(most) = statuses.iter().filter_map(|of| of.last_enqueued).max().filter(|_| is_one && keys.len() > 1)
        else {
            continue;
        };
        // Of several communicators the largest is said.
        if compared.is_none_or(|known| known.process_count < keys.len()) {
            compared = Some(ComparedProcesses { process_count: keys.len(), calls: most });
        }
        for status in statuses.into_iter().filter(|of| of.last_enqueued < Some(most)) {
            let calls = status.last_enqueued.unwrap_or_default();
            fewer.push(RankProcess {
                host: status.host.clone(),
                pid: status.pid,
                gpu: status.device,
                is_unique: status.host.is_some(),
                made_less: true,
                faults: vec![format!("{calls} calls against {most}")],
                ..RankProcess::default()
            });
        }
    }
    (compared, fewer)
}

fn of_group(processes: &Processes, group: &RecordedGroup, rank: u32) -> Option<RankProcess> {
    let process = match group.is_global {
        true => processes.of_rank(rank)?,
        false => processes.at(group.source, group.position, rank)?,
    };
    let place = if group.is_global { process.places.get(&group.position).copied() } else { Some(rank) };
    let (group, place) = (Some(group.name.group.clone()), place.filter(|place| process.rank != Some(*place)));
    Some(RankProcess { group, place, ..of_process(process) })
}

pub(super) fn of_process(process: &Process) -> RankProcess {
    RankProcess {
        rank: process.rank,
        host: process.host.clone(),
        pid: process.pid,
        gpu: process.device,
        is_unique: process.is_unique,
        faults: process.faults.iter().cloned().collect(),
        ..RankProcess::default()
    }
}

/// The processes of the ranks at fault in these groups, or else of those that have done less in them; and those that a source reports. `since`: when a rank
/// of the job enqueued its last operation; `newest`: when the last of all did.
pub(super) fn to_look_at(
    groups: &RecordedGroups,
    blamed: &[(&RecordedGroup, &HungGroup)],
    since: impl Fn(u32) -> Option<Ns>,
    newest: Option<Ns>,
) -> Vec<RankProcess> {
    fn key(of: &RankProcess) -> (Option<&str>, Option<i64>, Option<i64>) {
        (of.host.as_deref(), of.pid, of.gpu)
    }
    let processes = &groups.processes;
    let mut found: Vec<RankProcess> = Vec::new();
    let is_known = blamed.iter().any(|(_, of)| !of.culprits.is_empty());
    for (group, of) in blamed {
        let fewer = || of.missing_ranks.iter().chain(&of.stuck_ranks).chain(&of.odd_ranks).copied();
        let ranks: BTreeSet<u32> = if is_known { of.culprits.iter().copied().collect() } else { fewer().collect() };
        for rank in ranks {
            let Some(process) = of_group(processes, group, rank) else { continue };
            let is_it = |known: &&mut RankProcess| key(known) == key(&process) && known.rank == process.rank;
            if let Some(known) = found.iter_mut().find(is_it) {
                known.also_in.extend(process.group);
            } else {
                let since_ns = process.rank.and_then(&since);
                let idle_ns = newest.zip(since_ns).map(|(newest, since)| newest - since);
                found.push(RankProcess { since_ns, idle_ns, ..process });
            }
        }
    }
    for process in processes.all.iter().filter(|process| !process.faults.is_empty()) {
        let own = of_process(process);
        match found.iter_mut().find(|known| key(known) == key(&own)) {
            Some(known) => {
                known.faults.extend(process.faults.difference(&known.faults.iter().cloned().collect()).cloned())
            }
            None => found.push(own),
        }
    }
    found
}
