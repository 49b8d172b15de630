//! The groups of the records, each with what its members did.

use std::collections::{BTreeMap, BTreeSet};

use super::{Evidence, GroupName, Outcome};
use crate::nccl::collectives::Collective;
use crate::operation::{Communicator, Operation, Source, State};
use crate::records::{RankStatus, Records};

/// Of all groups that have nothing but a size, so many ranks are listed. A damaged file may name thousands of groups of any size.
const MOST_RANKS: u32 = 1 << 20;

/// So much evidence of a group that lists ranks is kept. In a damaged log each rank may have a count of its own, and each such count has the
/// same peers: memory would grow with the square of the ranks.
const MOST_EVIDENCE: usize = 100;

/// All groups, and all ranks that have records.
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    /// The ranks of the job that have records, and how many operations each has.
    pub(super) ranks: BTreeMap<u32, usize>,
}

/// A communicator as one source knows it.
pub(super) struct Group {
    pub(super) source: Source,
    pub(super) name: GroupName,
    pub(super) members: BTreeMap<u32, Member>,
    /// Whether its ranks are ranks of the job.
    pub(super) is_global: bool,
}

/// What is known of a rank in a group. Numbers are positions in the records.
#[derive(Default)]
pub(super) struct Member {
    /// Collectives, by their numbers.
    pub(super) collectives: Vec<usize>,
    /// Sends and receives, in the order in which they were recorded.
    pub(super) peers: Vec<usize>,
    /// What a source says beside operations, in the order of its answers.
    pub(super) status: Vec<usize>,
    /// How many collectives it called, where a source counts more than it keeps.
    pub(super) called: Option<u64>,
    /// Whether it sends or receives, by its operations or by what its source counts.
    pub(super) has_peers: bool,
}

/// What a group by itself shows.
#[derive(Default)]
pub(super) struct Finding {
    /// The ranks by how far they got, those who got least first; each waits for all before it.
    pub(super) levels: Vec<Vec<u32>>,
    /// Who waits for whom beside that.
    pub(super) waits: BTreeSet<(u32, u32)>,
    /// The same of many: all of the first wait for all of the second.
    pub(super) crowds: Vec<(Vec<u32>, Vec<u32>)>,
    pub(super) collective: Option<String>,
    pub(super) sequence: Option<i64>,
    pub(super) missing: BTreeSet<u32>,
    pub(super) stuck: BTreeSet<u32>,
    pub(super) odd: BTreeSet<u32>,
    pub(super) waiting: BTreeSet<u32>,
    /// Ranks of which nothing says whether what they enqueued is complete.
    pub(super) unknown: BTreeSet<u32>,
    /// Ranks that are at fault, whether or not they wait elsewhere.
    pub(super) proved: BTreeSet<u32>,
    pub(super) evidence: Vec<Evidence>,
    /// How much more there was than is kept.
    pub(super) left_out: usize,
    /// The operation that ranks wait in, and that of a rank at fault in its place.
    pub(super) awaited: Option<usize>,
    pub(super) theirs: Option<usize>,
    /// By rank: the oldest incomplete operation.
    pub(super) oldest: BTreeMap<u32, usize>,
    /// What this alone shows.
    pub(super) outcome: Option<Outcome>,
}

impl Finding {
    /// Adds evidence that lists ranks. Beyond the limit it is counted and not made.
    pub(super) fn prove(&mut self, evidence: impl FnOnce() -> Evidence) {
        match self.evidence.len() < MOST_EVIDENCE {
            true => self.evidence.push(evidence()),
            false => self.left_out += 1,
        }
    }
}

impl Groups {
    pub(super) fn of(records: &Records) -> Self {
        let mut found: BTreeMap<(Source, usize), Group> = BTreeMap::new();
        let mut ranks: BTreeMap<u32, usize> = BTreeMap::new();
        // A dump that breaks off has lost what its rank did last. As if that was missing, the rank would be to blame.
        let is_cut = |file: Option<&u32>| {
            file.and_then(|file| records.files.get(*file as usize)).is_some_and(|file| file.is_cut)
        };
        for (at, operation) in records.operations.iter().enumerate() {
            if is_cut(records.file_of.get(at)) {
                continue;
            }
            if let Some(rank) = operation.rank {
                *ranks.entry(rank.0).or_default() += usize::from(!operation.did_not_run);
            }
            let Some(number) = operation.communicator.filter(|_| !operation.did_not_run) else { continue };
            let Some((group, rank)) =
                member(&mut found, records, operation.source, number, operation.rank, operation.place)
            else {
                continue;
            };
            let member = group.members.entry(rank).or_default();
            match is_point_to_point(operation) {
                true => {
                    member.has_peers = true;
                    member.peers.push(at);
                }
                false => member.collectives.push(at),
            }
        }
        for (at, status) in records.rank_status.iter().enumerate().filter(|(_, status)| !is_cut(Some(&status.file))) {
            if let Some(rank) = status.rank {
                ranks.entry(rank.0).or_default();
            }
            let Some(number) = status.communicator else { continue };
            if let Some((group, rank)) = member(&mut found, records, status.source, number, status.rank, status.place) {
                group.members.entry(rank).or_default().status.push(at);
            }
        }
        for call in &records.calls {
            let Some(number) = call.communicator else { continue };
            let of_call = member(&mut found, records, call.source, number, call.rank, call.place);
            let Some((group, rank)) = of_call else { continue };
            let member = group.members.entry(rank).or_default();
            match is_of_two(call.collective.as_deref()) {
                true => member.has_peers = true,
                false => member.called = Some(member.called.unwrap_or(0).saturating_add(call.count)),
            }
        }
        let mut room = MOST_RANKS;
        for ((_, number), group) in found.iter_mut().filter(|(_, group)| !group.is_global) {
            let size = records.communicators.get(*number).and_then(|of| u32::try_from(of.size?).ok());
            if let Some((size, rest)) = size.and_then(|size| Some((size, room.checked_sub(size)?))) {
                (group.name.ranks, room) = ((0..size).collect(), rest);
            }
        }
        let mut all: Vec<Group> = found.into_values().collect();
        for member in all.iter_mut().flat_map(|group| group.members.values_mut()) {
            member.collectives.sort_by_key(|at| records.operations[*at].sequence);
        }
        Groups { all, ranks }
    }
}

/// The group of a record, and the rank within it that the record is of.
fn member<'g>(
    found: &'g mut BTreeMap<(Source, usize), Group>,
    records: &Records,
    source: Source,
    number: usize,
    rank: Option<crate::id::RankId>,
    place: Option<u32>,
) -> Option<(&'g mut Group, u32)> {
    let communicator = records.communicators.get(number)?;
    let of_place = || communicator.ranks.as_ref()?.get(place? as usize).copied();
    let global = rank.map(|rank| rank.0).or_else(of_place);
    let group = found.entry((source, number)).or_insert_with(|| Group {
        source,
        name: name_of(communicator, source, global.is_some()),
        members: BTreeMap::new(),
        is_global: global.is_some(),
    });
    // A group whose ranks are of one kind must not get others.
    let rank = if group.is_global { global } else { place };
    Some((group, rank?))
}

fn name_of(communicator: &Communicator, source: Source, is_global: bool) -> GroupName {
    let hash = communicator.hash.map(|hash| format!("communicator {hash:#x}"));
    let parts = [communicator.description.clone(), communicator.name.clone().filter(|name| !name.is_empty()), hash];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.dedup();
    let ranks = communicator.ranks.clone().filter(|_| is_global);
    GroupName {
        group: if parts.is_empty() { "unnamed".to_owned() } else { parts.join(" ") },
        ranks: ranks.unwrap_or_default(),
        ranks_are_local: !is_global,
        source: source.name(),
    }
}

/// Whether an operation is of two ranks.
pub(super) fn is_point_to_point(operation: &Operation) -> bool {
    is_of_two(operation.collective.as_deref())
}

fn is_of_two(collective: Option<&str>) -> bool {
    collective.and_then(Collective::of_record).is_some_and(Collective::is_point_to_point)
}

/// Whether it was enqueued and has not ended.
pub(super) fn is_open(operation: &Operation) -> bool {
    matches!(operation.state, State::Scheduled | State::Started)
}

impl Group {
    /// Members of which nothing is recorded.
    pub(super) fn unknown(&self) -> Vec<u32> {
        self.name.ranks.iter().copied().filter(|rank| !self.members.contains_key(rank)).collect()
    }

    /// Whether some of its ranks send or receive. Then numbers that count all calls differ between those that do and the others.
    pub(super) fn has_peers(&self) -> bool {
        self.members.values().any(|member| member.has_peers)
    }

    /// Whether it has operations or counts at all.
    pub(super) fn is_used(&self, records: &Records) -> bool {
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
        let listed: Vec<usize> = Groups::of(&records).all.iter().map(|group| group.name.ranks.len()).collect();
        assert_eq!(listed, [700_000, 0, 300_000, 0]);
    }
}
