//! Whether a job hangs, on which ranks, in which call.
//!
//! The answer comes from [records](crate::records): which ranks have not enqueued what their peers wait in (**missing**), which have an incomplete
//! operation that their peers have completed (**stuck**), and which called something different from the majority (**odd**). Ranks that wait are not
//! at fault, even if others wait for them: waiting is followed from group to group to its origin. Only what the records prove is reported; the rest
//! is [`Outcome::Unclear`].
//!
//! Sources without states (logs, and RAS with its counts) show which ranks have done less, and by how much; two answers of RAS also show whether that
//! changes.
//!
//! `positions` finds how far each rank of a group is, `mismatch` compares the calls at one position, `graph` follows which rank waits for which,
//! `chains` combines the groups, `waits` finds which of them wait for which, `peers` pairs sends and receives, `messages` counts them in logs, `sizes` adds up what all-to-alls send and receive, `order` compares which of two groups
//! ranks started first or called first, `counts` judges sources without states, `ahead` finds a rank that alone did more than all others, and `gaps` finds whose records are incomplete; `matrix`, `paths` and `processes` show who is where.

mod ahead;
mod chains;
mod counts;
pub mod document;
mod finding;
mod gaps;
mod graph;
mod matrix;
mod messages;
mod mismatch;
mod order;
mod paths;
mod peers;
mod positions;
mod processes;
mod sizes;
mod waits;
mod warnings;

use std::collections::BTreeSet;

use serde::Serialize;

use super::hang::finding::Finding;
use super::recording::{FailedCalls, Loss};
use crate::operation::Source;
pub use crate::operations::recorded_groups::RecordedGroupName;
use crate::operations::recorded_groups::{RecordedGroup, RecordedGroups};
use crate::records::Records;
use crate::time::Ns;

pub use matrix::{Cell, CellState, MatrixRow};
pub use paths::ComparedPaths;
pub use processes::{ComparedProcesses, RankProcess};
pub use warnings::NcclWarning;
pub(crate) use warnings::merged;

/// What the records show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Some ranks wait for others that do not arrive.
    Hung,
    /// Some ranks have done less than others; nothing shows whether they will catch up.
    Lagging,
    /// Operations are incomplete, but nothing shows why.
    Unclear,
    /// No rank is seen to wait, in records that do not say which operations have ended: logs of calls, and of what has ended alone.
    NothingSeen,
    /// No rank waits for another.
    Clear,
}

/// Whether the records of a source show which operations have not ended. `NCCL_DEBUG` and Megatrace write calls, NCCL Inspector writes what has ended, the example
/// plugin dumps when a process ends, the flow extractor only plans, and RAS counts what was enqueued.
fn shows_what_is_open(source: Source) -> bool {
    let without =
        [Source::DEBUG_LOG, Source::MEGATRACE, Source::INSPECTOR, Source::PLUGIN_DUMP, Source::FLOW, Source::RAS];
    !without.contains(&source)
}

/// Counts that did not move between two answers, while no rank has done less than others. All ranks may be stuck in one operation, or the job does without
/// collectives for so long.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Standstill {
    /// In how many groups.
    pub group_count: usize,
    /// How far the answers are apart; `None` if they do not say when they were given.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub duration_ns: Option<Ns>,
}

/// The answer about a job. Ranks are those of the job, or within the communicator where a group's `ranks_are_local` says so.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HangReport {
    /// Which of several runs this is, and where the others are, in a sentence; `None` if there is one.
    pub run: Option<String>,
    /// What the records show.
    pub outcome: Outcome,
    /// The ranks on which the job hangs: others wait for them, and they wait for no rank or are proved to be at fault. If all waiting ends at ranks
    /// without records, these.
    pub culprits: Vec<u32>,
    /// Ranks that wait for each other in a circle, if waiting leads nowhere else.
    pub circle: Vec<u32>,
    /// The processes of that circle, where it goes through several groups that have no ranks of the job.
    #[serde(skip)]
    pub circle_processes: Vec<RankProcess>,
    /// The groups in which ranks wait for others; the origin of the hang comes first.
    #[serde(skip)]
    pub hung: Vec<HungGroup>,
    /// The groups in which some ranks have done less than others.
    #[serde(skip)]
    pub lagging: Vec<HungGroup>,
    /// The groups in which ranks called something different, which proves no hang.
    #[serde(skip)]
    pub differing: Vec<HungGroup>,
    /// The groups with incomplete operations that all ranks with records have enqueued.
    pub open: Vec<OpenGroup>,
    /// The state of each rank in the groups above.
    pub matrix: Vec<MatrixRow>,
    /// The processes of the ranks at fault, or else of those that have done less, and those that a source reports itself.
    #[serde(skip)]
    pub processes: Vec<RankProcess>,
    /// What NCCL warned of, most telling first.
    pub warnings: Vec<NcclWarning>,
    /// Processes that are compared although their ranks are unknown.
    pub processes_without_ranks: Option<ComparedProcesses>,
    /// Of recordings that show a hang: whether the job was still when they were read; `None` of other records.
    pub still: Option<Still>,
    /// For how long nothing had moved, or how far apart the readings are between which ranks went on.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub still_ns: Option<Ns>,
    /// Counts that do not move, if nothing else is to be seen.
    pub standstill: Option<Standstill>,
    /// The number of ranks with records.
    pub rank_count: usize,
    /// Ranks of the groups above without records; if there is none above, of all groups.
    pub ranks_without_records: Vec<u32>,
    /// The group whose numbering these are in, if not that of the job.
    #[serde(skip)]
    pub without_records_in: Option<String>,
    /// Ranks whose records have no operation.
    pub ranks_without_operations: Vec<u32>,
    /// The number of operations examined.
    pub operation_count: usize,
    /// The number of these with a call path.
    pub call_path_count: usize,
    /// The number of groups with operations or counts.
    pub group_count: usize,
    /// Of an outcome without what is open, or without any group: the titles of the sources.
    #[serde(skip)]
    pub sources: Vec<&'static str>,
    /// The ranks that failed otherwise than by a timeout, as the log says so: others may wait for them.
    pub failed_ranks: Vec<FailedRank>,
    /// The ranks that others wait for, as the log says so itself.
    pub awaited_ranks: Vec<AwaitedRank>,
    /// The ranks of which a collective timed out, so that the job does not run.
    #[serde(skip)]
    pub timed_out_ranks: Vec<u32>,
    /// What the recordings lack: then the absence of an operation proves nothing, and the outcome is never `clear`.
    pub losses: Vec<Loss>,
    /// The NCCL calls that failed. Their operations did not run, so their ranks do not wait in them.
    pub failed_calls: Vec<FailedCalls>,
}

/// A rank that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FailedRank {
    /// The rank.
    pub rank: u32,
    /// What the log says: an error or a signal.
    pub what: String,
}

/// A rank that others wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AwaitedRank {
    /// The rank.
    pub rank: u32,
    /// What it did not do.
    pub what: String,
    /// Whether the others go on waiting, so that it may come.
    pub may_come: bool,
}

/// A group in which ranks wait for others, or have done less than others.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HungGroup {
    /// Its name and ranks.
    #[serde(flatten)]
    pub name: RecordedGroupName,
    /// The number of groups between this one and the culprits: 0 where the hang begins; `None` if unknown.
    pub distance: Option<u32>,
    /// What the waiting ranks wait in, by its nccl-tests name.
    pub collective: Option<String>,
    /// The number of that operation in the group; `None` for sends, receives and counts.
    pub sequence: Option<i64>,
    /// The ranks that did not enqueue it.
    pub missing_ranks: Vec<u32>,
    /// The ranks with an incomplete operation that others of the group have completed.
    pub stuck_ranks: Vec<u32>,
    /// The ranks that called something different from the majority.
    pub odd_ranks: Vec<u32>,
    /// The ranks that wait.
    pub waiting_ranks: Vec<u32>,
    /// The ranks without records.
    pub unknown_ranks: Vec<u32>,
    /// The ranks of the group on which the job hangs.
    pub culprits: Vec<u32>,
    /// What proves it.
    #[serde(skip)]
    pub evidence: Vec<Evidence>,
    /// The number of further pieces of evidence: if many ranks differ, only as many are kept as a person can read.
    pub evidence_left_out: usize,
    /// The ranks that have done less here, and in another group what others have not: they may wait there.
    #[serde(skip)]
    pub may_wait_elsewhere: Vec<u32>,
    /// The call path of a rank at fault next to that of a waiting rank.
    pub paths: Option<ComparedPaths>,
}

/// A group with incomplete operations that all ranks with records have enqueued.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OpenGroup {
    /// Its name and ranks.
    #[serde(flatten)]
    pub name: RecordedGroupName,
    /// The number of groups between this one and the culprits: 0 where the hang begins; `None` if unknown.
    pub distance: Option<u32>,
    /// The oldest incomplete operation, by its nccl-tests name.
    pub collective: Option<String>,
    /// The number of that operation in the group; `None` for sends and receives.
    pub sequence: Option<i64>,
    /// The ranks on which it is incomplete.
    pub waiting_ranks: Vec<u32>,
    /// The ranks without records.
    pub unknown_ranks: Vec<u32>,
    /// Where the operation has a root: the rank on which it has ended, which says nothing of the others.
    pub ended_ranks: Vec<u32>,
    /// The ranks on which the collective has not begun, if it has on others.
    pub not_started_ranks: Vec<u32>,
    /// The ranks that have nothing incomplete in the group, where the operation is a send or receive whose other side is unknown. Where the group's ranks are,
    /// those of other groups that wait in none.
    pub idle_ranks: Vec<u32>,
    /// How many ranks the group has by the sizes of its operation, if they are unknown.
    pub size_by_elements: Option<u64>,
    /// What ranks wait in, where some send and others receive: by operation these ranks.
    #[serde(skip)]
    pub by_operation: Vec<(String, Vec<u32>)>,
    /// The ranks with records of the group.
    #[serde(skip)]
    pub known_ranks: Vec<u32>,
    /// The groups in which these ranks have waited longer.
    pub waits_for: Vec<String>,
}

/// The kind of a fact that the records prove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// The ranks enqueued nothing after `last`; the peers wait in `sequence`.
    #[default]
    NeverEnqueued,
    /// The rank alone waits in `sequence`, or made `here` calls. The peers are several, wait in nothing, and enqueued nothing after `last`, or made `there` calls.
    Ahead,
    /// Operations from `sequence` to `last` are incomplete on the ranks, and the peers have completed those up to `there`.
    Stuck,
    /// Like [`stuck`](Self::Stuck), for an operation with a root, which may end on some ranks before others take part.
    StuckRooted,
    /// The records of the ranks have no operation.
    NoOperations,
    /// The ranks have no records, and the peers wait in `sequence`.
    NoRecords,
    /// In `sequence` the ranks called `here`, and the peers `there`.
    OtherCollective,
    /// Like [`other_collective`](Self::OtherCollective), for the element type.
    OtherType,
    /// Like [`other_collective`](Self::OtherCollective), for the number of elements, or of bytes.
    OtherSize,
    /// Like [`other_collective`](Self::OtherCollective), for the root.
    OtherRoot,
    /// Like [`other_collective`](Self::OtherCollective), for the reduction.
    OtherReduction,
    /// The ranks and the peers called different things, and there is no majority.
    Undecidable,
    /// Like [`undecidable`](Self::Undecidable): the ranks send `here` elements to the peers, which receive `there`.
    OtherMessage,
    /// The ranks of an all-to-all send `here` elements together, and receive `there`.
    OtherTotals,
    /// The ranks started (or called, as `there` says) `sequence` of `collective` of this group before what `here` names, and the peers that before this: each
    /// waits for the other.
    OtherOrder,
    /// The same in a circle of several groups: what `here` names waits on the ranks for `sequence` of `collective` of this group.
    HoldsUp,
    /// The ranks send to the peers, which receive from rank `here`, from which nothing was sent to them yet.
    OtherPeer,
    /// The ranks send to the peers, which do not receive.
    NoReceive,
    /// The ranks receive from the peers, which do not send.
    NoSend,
    /// The ranks have enqueued `here` calls of a collective, and the peers `there`; `nothing` if no call is recorded.
    FewerCalls,
    /// The ranks have called `here` receives from the peers (or sends to them, as `collective` says), and the peers `there` of the other.
    FewerMessages,
    /// No count of the group moved between two answers.
    NoProgress,
    /// Counts of the ranks moved between two answers, and those of the peers did not.
    Progress,
    /// The source reports `here` about the ranks.
    Fault,
    /// The ranks were in the answer before the last one, and are not in the last; the peers are.
    NoAnswer,
}

impl EvidenceKind {
    /// Whether it shows that ranks did different things, but not which of them are right.
    pub fn is_tie(self) -> bool {
        let ties =
            [Self::Ahead, Self::Undecidable, Self::OtherMessage, Self::OtherTotals, Self::OtherOrder, Self::OtherPeer];
        ties.contains(&self)
    }
}

/// A fact that the records prove.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Evidence {
    /// The kind.
    pub kind: EvidenceKind,
    /// The ranks it concerns.
    pub ranks: Vec<u32>,
    /// The ranks they are compared with.
    pub peers: Vec<u32>,
    /// The collective it concerns.
    pub collective: Option<String>,
    /// Its number in the group.
    pub sequence: Option<i64>,
    /// The last number: up to which the ranks enqueued operations, or on which they are stuck.
    pub last: Option<i64>,
    /// What the ranks have: a collective, a type, a size, a count or a fault.
    pub here: Option<String>,
    /// What the peers have; of stuck operations, the number up to which they have completed them.
    pub there: Option<String>,
    /// How far the two answers are apart, if they say when they were given.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub during_ns: Option<Ns>,
}

impl Evidence {
    /// Evidence that consists only of ranks.
    fn new(kind: EvidenceKind, ranks: Vec<u32>, peers: Vec<u32>) -> Self {
        Evidence { kind, ranks, peers, ..Evidence::default() }
    }
}

/// Whether a job was still when its recordings were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Still {
    /// Nothing is known: its records have no times.
    Unknown,
    /// Nothing had moved.
    Idle,
    /// Ranks went on between two readings.
    Moves,
    /// The processes are gone, and nothing says for how long they had waited.
    Ended,
}

impl HangReport {
    /// The same with what is known of the job's standstill. Nobody is at fault in a job that moves, or that may have moved until it was ended.
    pub fn judged(self, still: Still, for_ns: Option<Ns>) -> Self {
        let mut report = HangReport { still: Some(still), still_ns: for_ns, ..self };
        if matches!(still, Still::Moves | Still::Ended) {
            report.outcome = Outcome::Unclear;
            report.culprits.clear();
            report.circle.clear();
            report.hung.iter_mut().chain(&mut report.lagging).for_each(|group| group.culprits.clear());
            report.processes.clear();
        }
        report
    }

    /// Whether the records have nothing to judge by.
    pub fn is_empty(&self) -> bool {
        let has_processes =
            !self.processes.is_empty() || self.processes_without_ranks.is_some() || !self.warnings.is_empty();
        let has_nothing = self.losses.is_empty()
            && self.failed_calls.is_empty()
            && self.timed_out_ranks.is_empty()
            && self.failed_ranks.is_empty()
            && self.awaited_ranks.is_empty();
        self.group_count == 0 && has_nothing && !has_processes
    }
}

/// Judges a job by its records.
pub fn hang(records: &Records) -> HangReport {
    let groups = RecordedGroups::find(records);
    let mut found: Vec<Finding> = groups.all.iter().map(|group| judge(group, records)).collect();
    order::add(&groups, records, &mut found);
    ahead::add(&groups, &mut found);
    chains::report(records, &groups, found)
}

/// Judges a single group by what its source records.
fn judge(group: &RecordedGroup, records: &Records) -> Finding {
    let cut = || group.members.iter().filter(|(_, member)| member.is_cut).map(|(rank, _)| *rank);
    match group.source {
        Source::RAS => counts::of_answers(group, records),
        Source::FLIGHT_RECORDER | Source::WATCHDOG => {
            let incomplete: BTreeSet<u32> = cut().collect();
            let rest = (!incomplete.is_empty()).then(|| group.without(&incomplete));
            let group = rest.as_ref().unwrap_or(group);
            let mut finding = positions::of_group(group, records);
            finding.unknown.extend(incomplete);
            peers::add(group, records, &mut finding);
            mismatch::add(group, records, &mut finding);
            sizes::add(group, records, &mut finding);
            finding
        }
        Source::RECORDER if positions::are_known(group, records) => {
            let mut finding = positions::of_group(group, records);
            mismatch::add(group, records, &mut finding);
            finding
        }
        _ => {
            let incomplete: BTreeSet<u32> = cut().chain(gaps::ranks(group, records)).collect();
            let mut finding = match incomplete.is_empty() {
                true => counts::of_calls(group, records),
                false => counts::of_calls(&group.without(&incomplete), records),
            };
            finding.unknown.extend(incomplete);
            mismatch::add(group, records, &mut finding);
            messages::add(group, records, &mut finding);
            finding
        }
    }
}
