//! The groups of some records, each with what its members did.
//!
//! A group is a communicator as one source knows it: each source counts in its own way, so that the positions of ranks compare within one
//! source only. A rank is that of the job where a source says so, lists the ranks of the communicator, or shows by its process which rank it is. Ranks that
//! would only be inferred, as [`recorded_ranks`](super::recorded_ranks) does, are not taken: a group without global ranks has those within the communicator.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::communicators::Communicators;
use super::processes::Processes;
use crate::id::RankId;
use crate::operation::{Communicator, Source};
use crate::records::{RankStatus, Records};

/// At most this many ranks are listed, over all groups of which only the size is known. A damaged file may name thousands of groups of any
/// size.
const MOST_RANKS: u32 = 1 << 20;

/// What PyTorch calls the group of all ranks of a job.
const WHOLE: &str = "default_pg";

/// A group and how it is named.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordedGroupName {
    /// What a person calls it: its description and name, or NCCL's hash.
    pub group: String,
    /// Its ranks, sorted; empty if they are unknown.
    pub ranks: Vec<u32>,
    /// Whether ranks are those within the communicator, because the source does not know those of the job.
    pub ranks_are_local: bool,
    /// What recorded it.
    #[cfg_attr(test, schemars(with = "super::written::Source"))]
    pub source: &'static str,
}

/// All groups, and all ranks that have records.
pub(crate) struct RecordedGroups {
    pub(crate) all: Vec<RecordedGroup>,
    /// The ranks of the job that have records, and how many operations each has, of a dump that is cut off at least one.
    pub(crate) ranks: BTreeMap<u32, usize>,
    pub(crate) processes: Processes,
}

/// A communicator as one source knows it.
#[derive(Clone)]
pub(crate) struct RecordedGroup {
    pub(crate) source: Source,
    /// Its position among the communicators.
    pub(crate) position: usize,
    pub(crate) name: RecordedGroupName,
    pub(crate) members: BTreeMap<u32, Member>,
    /// Whether its ranks are ranks of the job.
    pub(crate) is_global: bool,
}

/// What is known of a rank in a group. Numbers are positions in the records.
#[derive(Default, Clone)]
pub(crate) struct Member {
    /// Collectives, by their numbers.
    pub(crate) collectives: Vec<usize>,
    /// Sends and receives, in the order in which they were recorded.
    pub(crate) peers: Vec<usize>,
    /// What a source says beside operations, in the order of its answers.
    pub(crate) status: Vec<usize>,
    /// How many collectives it called, where a source counts more than it keeps.
    pub(crate) called: Option<u64>,
    /// Whether it sends or receives, by its operations or by what its source counts.
    pub(crate) has_peers: bool,
    /// Whether its records are cut off, so that they do not show how far it got: it has none here.
    pub(crate) is_cut: bool,
}

impl RecordedGroups {
    pub(crate) fn find(records: &Records) -> Self {
        let communicators = Communicators::find(records);
        let processes = Processes::find(records, &communicators);
        let mut found: BTreeMap<(Source, usize), RecordedGroup> = BTreeMap::new();
        let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
        // A dump that breaks off has lost what its rank did last, and would make it look as if the rank had not done it.
        let of_file = |file: Option<&u32>| file.and_then(|file| records.files.get(*file as usize));
        let is_cut = |file: Option<&u32>| of_file(file).is_some_and(|file| file.is_cut);
        // One that is older makes it look so as well.
        let is_older = |file: Option<&u32>, rank: Option<RankId>| {
            of_file(file).zip(rank).is_some_and(|(file, rank)| file.older_than.contains(&rank.0))
        };
        let known = (&communicators, &processes);
        // The same of one rank in a log of several.
        for status in records.rank_status.iter().filter(|of| of.is_cut) {
            let member_of = (status.source, status.communicator, status.rank, status.place);
            member(&mut found, known, member_of).into_iter().for_each(|member| member.is_cut = true);
        }
        for (at, operation) in records.operations.iter().enumerate() {
            let file = records.file_of.get(at);
            if is_cut(file) {
                // A dump says how far its rank got beside its operations.
                if operation.source != Source::FLIGHT_RECORDER {
                    let member_of = (operation.source, operation.communicator, operation.rank, operation.place);
                    member(&mut found, known, member_of).into_iter().for_each(|member| member.is_cut = true);
                }
                continue;
            }
            if is_older(file, operation.rank) {
                continue;
            }
            if let Some(rank) = operation.rank {
                *ranks.entry(rank.0).or_default() += usize::from(!operation.did_not_run);
            }
            if operation.did_not_run {
                continue;
            }
            let member_of = (operation.source, operation.communicator, operation.rank, operation.place);
            let Some(member) = member(&mut found, known, member_of).filter(|of| !of.is_cut) else { continue };
            match operation.is_point_to_point() {
                true => {
                    member.has_peers = true;
                    member.peers.push(at);
                }
                false => member.collectives.push(at),
            }
        }
        for (at, status) in records.rank_status.iter().enumerate() {
            // What a dump says of its groups is before its operations: it is whole where these are cut off.
            let is_cut = is_cut(Some(&status.file));
            if is_cut && status.last_enqueued.is_none() || is_older(Some(&status.file), status.rank) {
                continue;
            }
            // That a rank timed out or failed says nothing of what it did, nor does a dump without groups and operations.
            let says = !status.is_end() && (status.source != Source::FLIGHT_RECORDER || status.communicator.is_some());
            if let Some(rank) = status.rank.filter(|_| says) {
                *ranks.entry(rank.0).or_default() += usize::from(is_cut);
            }
            let member_of = (status.source, status.communicator, status.rank, status.place);
            let member = member(&mut found, known, member_of).filter(|of| !of.is_cut);
            member.into_iter().for_each(|member| member.status.push(at));
        }
        for (call, count) in &records.calls {
            let member_of = (call.source, call.communicator, call.rank, call.place);
            let Some(member) = member(&mut found, known, member_of).filter(|of| !of.is_cut) else { continue };
            match call.is_point_to_point() {
                true => member.has_peers = true,
                false => member.called = Some(member.called.unwrap_or(0).saturating_add(*count)),
            }
        }
        let mut room = MOST_RANKS;
        for ((_, number), group) in found.iter_mut().filter(|(_, group)| !group.is_global) {
            let size = communicators.get(Some(*number)).and_then(|of| u32::try_from(of.size?).ok());
            if let Some((size, rest)) = size.and_then(|size| Some((size, room.checked_sub(size)?))) {
                (group.name.ranks, room) = ((0..size).collect(), rest);
            }
        }
        // The watchdog does not say which ranks the group of the whole job has: all up to the last that is seen.
        let ended =
            records.rank_status.iter().filter(|status| status.is_end()).filter_map(|status| Some(status.rank?.0));
        let last = ended.chain(ranks.keys().copied()).max().filter(|last| *last < MOST_RANKS);
        for ((_, number), group) in found.iter_mut().filter(|((source, _), _)| *source == Source::WATCHDOG) {
            let description = communicators.get(Some(*number)).and_then(|of| of.description.as_deref());
            if description == Some(WHOLE) && group.is_global && group.name.ranks.is_empty() {
                let size = group.size_by_elements(records).and_then(|size| u32::try_from(size).ok());
                group.name.ranks = last.map_or(Vec::new(), |last| (0..size.unwrap_or(0).max(last + 1)).collect());
            }
        }
        let mut all: Vec<RecordedGroup> = found.into_values().collect();
        // A group has a name for all of its backends.
        let backend = |group: &RecordedGroup| communicators.get(Some(group.position)).and_then(|of| of.backend);
        let others: BTreeSet<String> =
            all.iter().filter(|group| backend(group).is_none()).map(|group| group.name.group.clone()).collect();
        for group in all.iter_mut().filter(|group| others.contains(&group.name.group)) {
            if let Some(backend) = backend(group) {
                group.name.group += &format!(" ({backend})");
            }
        }
        // The watchdog has less of a group than the dumps of its ranks.
        let of_dumps: BTreeMap<String, BTreeSet<u32>> = all
            .iter()
            .filter(|group| group.source == Source::FLIGHT_RECORDER)
            .map(|group| (group.name.group.clone(), group.members.keys().copied().collect()))
            .collect();
        all.retain(|group| {
            let known = of_dumps.get(&group.name.group).filter(|_| group.source == Source::WATCHDOG);
            known.is_none_or(|known| !group.members.keys().all(|rank| known.contains(rank)))
        });
        for member in all.iter_mut().flat_map(|group| group.members.values_mut()) {
            member.collectives.sort_by_key(|at| records.operations[*at].sequence);
        }
        RecordedGroups { all, ranks, processes }
    }
}

/// What a record says of whose it is: its source, communicator, rank of the job, and place within the communicator.
type MemberOf = (Source, Option<usize>, Option<RankId>, Option<u32>);

/// What is known of the rank in a group that a record is of.
fn member<'g>(
    found: &'g mut BTreeMap<(Source, usize), RecordedGroup>,
    (communicators, processes): (&Communicators, &Processes),
    (source, communicator, rank, place): MemberOf,
) -> Option<&'g mut Member> {
    let position = communicators.position(communicator)?;
    let communicator = communicators.get(Some(position))?;
    let by_process = || processes.rank_at(source, position, place);
    let global = rank.map(|rank| rank.0).or_else(|| communicator.rank_at(place)).or_else(by_process);
    let group = found.entry((source, position)).or_insert_with(|| RecordedGroup {
        source,
        position,
        name: name_of(communicator, source, global.is_some(), processes.ranks_of(source, position)),
        members: BTreeMap::new(),
        is_global: global.is_some(),
    });
    // A group whose ranks are of one kind must not get others.
    let rank = if group.is_global { global } else { place };
    Some(group.members.entry(rank?).or_default())
}

fn name_of(
    communicator: &Communicator,
    source: Source,
    is_global: bool,
    by_process: Option<Vec<u32>>,
) -> RecordedGroupName {
    let hash = communicator.hash.map(|hash| format!("communicator {hash:#x}"));
    let parts = [communicator.description.clone(), communicator.name.clone().filter(|name| !name.is_empty()), hash];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.dedup();
    if let [number] = &parts[..]
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        parts = vec![format!("process group {number}")];
    }
    let ranks = communicator.ranks.clone().or(by_process).filter(|_| is_global);
    RecordedGroupName {
        group: if parts.is_empty() { "unnamed".to_owned() } else { parts.join(" ") },
        ranks: ranks.unwrap_or_default(),
        ranks_are_local: !is_global,
        source: source.name(),
    }
}

impl RecordedGroup {
    /// The members without records.
    pub(crate) fn unknown(&self) -> Vec<u32> {
        self.name.ranks.iter().copied().filter(|rank| !self.members.contains_key(rank)).collect()
    }

    /// How many ranks it has by the elements of its collectives, of which all say the same.
    pub(crate) fn size_by_elements(&self, records: &Records) -> Option<u64> {
        let operations = self.members.values().flat_map(|member| &member.collectives);
        let sizes: BTreeSet<u64> =
            operations.filter_map(|at| Some(records.operations[*at].gathered()?.1)).take(MOST_RANKS as usize).collect();
        let is_size = |size: &u64| (self.members.len() as u64..u64::from(MOST_RANKS)).contains(size);
        sizes.first().copied().filter(|size| sizes.len() == 1 && is_size(size))
    }

    /// The same without the records of some ranks.
    pub(crate) fn without(&self, ranks: &BTreeSet<u32>) -> Self {
        let mut rest = self.clone();
        rest.members.retain(|rank, _| !ranks.contains(rank));
        rest
    }

    /// Whether some of its ranks send or receive. Then numbers that count all calls differ between those that do and the others.
    pub(crate) fn has_peers(&self) -> bool {
        self.members.values().any(|member| member.has_peers)
    }

    /// Whether it has operations or counts at all.
    pub(crate) fn is_used(&self, records: &Records) -> bool {
        let says = |at: &usize| {
            let status: &RankStatus = &records.rank_status[*at];
            status.last_enqueued.is_some() || !status.counts.is_empty() || !status.faults.is_empty()
        };
        let uses = |member: &Member| {
            !member.collectives.is_empty() || !member.peers.is_empty() || member.status.iter().any(says)
        };
        self.members.values().any(uses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Keep, read_as};

    /// Sizes are what a file claims: all groups together do not take more memory than one that is large.
    #[test]
    fn the_ranks_of_large_groups_are_listed_up_to_a_limit() {
        let line = |pointer: u32, size: u32| {
            format!(
                "n:1:1 [0] NCCL INFO ncclCommInitRank comm {pointer:#x} rank 0 nranks {size} commId {pointer:#x} - Init COMPLETE\n"
            )
        };
        let text = [line(1, 700_000), line(2, 700_000), line(3, 300_000), line(4, u32::MAX)].concat();
        let records =
            read_as(Source::DEBUG_LOG, "nccl.log", Box::new(std::io::Cursor::new(text.into_bytes())), Keep::All);
        let listed: Vec<usize> =
            RecordedGroups::find(&records).all.iter().map(|group| group.name.ranks.len()).collect();
        assert_eq!(listed, [700_000, 0, 300_000, 0]);
    }
}
