//! Whether a job hangs, on which ranks, in which call.
//!
//! Asked of [records](crate::records): who has not enqueued what its peers wait in (**missing**), on whom an operation is incomplete that
//! its peers have completed (**stuck**), and who called something else than the others (**odd**, by majority). Ranks that wait are not
//! to blame, even if others wait for them: waiting is followed from group to group to where it begins. Only what the records prove is
//! said; what they leave open is [`Outcome::Unclear`].
//!
//! Sources without states (logs, and RAS with its counts) show who is after the others, and by how much; of two answers of RAS also
//! whether that moves.

mod chains;
mod counts;
mod finding;
mod graph;
mod matrix;
mod mismatch;
mod paths;
mod peers;
mod positions;

use serde::Serialize;

use self::finding::Finding;
use super::recording::{FailedCalls, Loss};
pub use crate::operations::recorded_groups::RecordedGroupName;
use crate::operations::recorded_groups::{RecordedGroup, RecordedGroups};
use crate::records::Records;

pub use matrix::{Cell, CellState, MatrixRow};
pub use paths::ComparedPaths;

/// What the records show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// Some ranks wait for others that do not come.
    Hung,
    /// Some ranks have done less than others; nothing shows whether they come.
    Lagging,
    /// Operations are incomplete, and nothing shows why.
    Unclear,
    /// Nobody waits for anybody.
    Clear,
}

/// The answer about a job.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HangReport {
    /// What the records show.
    pub outcome: Outcome,
    /// The ranks on which the job hangs: others wait for them, and they wait for nobody or are proved to be at fault.
    pub culprits: Vec<u32>,
    /// Ranks that wait for each other in a circle, if waiting leads nowhere else.
    pub circle: Vec<u32>,
    /// The groups in which somebody waits for somebody, those where it begins first.
    pub hung: Vec<HungGroup>,
    /// The groups in which some ranks have done less than others.
    pub lagging: Vec<HungGroup>,
    /// The groups with operations that are incomplete although all ranks with records have enqueued them.
    pub open: Vec<OpenGroup>,
    /// Ranks by groups, of the groups above.
    pub matrix: Vec<MatrixRow>,
    /// How many ranks have records.
    pub rank_count: usize,
    /// Ranks of the groups above of which there are no records.
    pub ranks_without_records: Vec<u32>,
    /// Ranks whose records have no operation at all.
    pub ranks_without_operations: Vec<u32>,
    /// How many operations were looked at.
    pub operation_count: usize,
    /// How many groups have operations or counts.
    pub group_count: usize,
    /// What the recordings lack: nothing follows from what nobody is seen to wait for.
    pub losses: Vec<Loss>,
    /// The calls of NCCL that failed. What they were to do did not run, so that their ranks do not wait in it.
    pub failed_calls: Vec<FailedCalls>,
}

/// A group in which somebody waits for somebody.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct HungGroup {
    /// Its name and ranks.
    #[serde(flatten)]
    pub name: RecordedGroupName,
    /// How many other groups are between this one and the culprits: 0 where the hang begins; `None` if that is unknown.
    pub distance: Option<u32>,
    /// What the waiting ranks wait in.
    pub collective: Option<String>,
    /// Its number in the group; `None` for sends and receives.
    pub sequence: Option<i64>,
    /// The ranks that did not enqueue it.
    pub missing_ranks: Vec<u32>,
    /// The ranks on which an operation is incomplete that others of the group have completed.
    pub stuck_ranks: Vec<u32>,
    /// The ranks that called something else than the majority.
    pub odd_ranks: Vec<u32>,
    /// The ranks that wait.
    pub waiting_ranks: Vec<u32>,
    /// The ranks of which there are no records.
    pub unknown_ranks: Vec<u32>,
    /// Those of its ranks on which the job hangs.
    pub culprits: Vec<u32>,
    /// What proves it.
    pub evidence: Vec<Evidence>,
    /// How much more evidence there is: of ranks that all differ, so much is kept as a person can read.
    pub evidence_left_out: usize,
    /// The call path of a rank at fault beside that of another.
    pub paths: Option<ComparedPaths>,
}

/// A group with operations that are incomplete although all ranks with records have enqueued them.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct OpenGroup {
    /// Its name and ranks.
    #[serde(flatten)]
    pub name: RecordedGroupName,
    /// As in [`HungGroup::distance`].
    pub distance: Option<u32>,
    /// The oldest incomplete operation.
    pub collective: Option<String>,
    /// Its number in the group; `None` for sends and receives.
    pub sequence: Option<i64>,
    /// The ranks on which it is incomplete.
    pub waiting_ranks: Vec<u32>,
    /// The ranks of which there are no records.
    pub unknown_ranks: Vec<u32>,
    /// The groups in which these ranks have waited for longer.
    pub waits_for: Vec<String>,
}

/// What an [`Evidence`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EvidenceKind {
    /// The ranks enqueued nothing after `last`; the peers wait in `sequence`.
    NeverEnqueued,
    /// Operations from `sequence` to `last` are incomplete on the ranks, and the peers have completed those up to `there`.
    Stuck,
    /// The same, of an operation with a root, which may end on some ranks before others take part.
    StuckRooted,
    /// The records of the ranks have no operation at all.
    NoOperations,
    /// In `sequence` the ranks called `here`, and the peers `there`.
    OtherCollective,
    /// The same, of the type of the elements.
    OtherType,
    /// The same, of the number of elements.
    OtherSize,
    /// The ranks and the peers called different things, and none of these is what most called.
    Undecidable,
    /// The ranks send to the peers, which do not receive that.
    NoReceive,
    /// The ranks receive from the peers, which do not send that.
    NoSend,
    /// The ranks have enqueued `here` of a collective, and the peers `there`; `nothing` where no call of theirs is recorded.
    FewerCalls,
    /// Between two answers no count of the group moved.
    NoProgress,
    /// Between two answers the counts moved.
    Progress,
    /// The source reports `here` of the ranks.
    Fault,
}

/// Something that the records prove.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Evidence {
    /// What it is.
    pub kind: EvidenceKind,
    /// The ranks of which it is said.
    pub ranks: Vec<u32>,
    /// The ranks with which they are compared.
    pub peers: Vec<u32>,
    /// The operation that it is about.
    pub collective: Option<String>,
    /// Its number in the group.
    pub sequence: Option<i64>,
    /// The last number.
    pub last: Option<i64>,
    /// What the ranks have.
    pub here: Option<String>,
    /// What the peers have.
    pub there: Option<String>,
}

impl Evidence {
    /// Evidence of nothing but ranks.
    fn new(kind: EvidenceKind, ranks: Vec<u32>, peers: Vec<u32>) -> Self {
        Evidence { kind, ranks, peers, collective: None, sequence: None, last: None, here: None, there: None }
    }
}

impl HangReport {
    /// Whether the records have anything by which to judge.
    pub fn is_empty(&self) -> bool {
        self.group_count == 0 && self.losses.is_empty() && self.failed_calls.is_empty()
    }
}

/// Judges a job by its records.
pub fn hang(records: &Records) -> HangReport {
    let groups = RecordedGroups::find(records);
    let found: Vec<Finding> = groups.all.iter().map(|group| judge(group, records)).collect();
    chains::report(records, &groups, found)
}

/// Judges a group by itself, by what its source knows.
fn judge(group: &RecordedGroup, records: &Records) -> Finding {
    match group.source {
        crate::operation::Source::RAS => counts::of_answers(group, records),
        crate::operation::Source::FLIGHT_RECORDER => {
            let mut finding = positions::of_group(group, records);
            peers::add(group, records, &mut finding);
            mismatch::add(group, records, &mut finding);
            finding
        }
        crate::operation::Source::RECORDER if positions::are_known(group, records) => {
            let mut finding = positions::of_group(group, records);
            mismatch::add(group, records, &mut finding);
            finding
        }
        _ => {
            let mut finding = counts::of_calls(group, records);
            mismatch::add(group, records, &mut finding);
            finding
        }
    }
}
