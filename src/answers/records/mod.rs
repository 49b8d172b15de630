//! What NCCL's own records show: which collectives of which size ran how often and how fast, with which algorithm, what the proxies waited for, how
//! much each link carried, and what is wrong.
//!
//! Each question is a file and a pure function of [`Records`]. Nothing is estimated: if a source does not record a value, the field is empty. Rows of
//! different sources are never added up, because two sources may have recorded the same operations.

mod bandwidth;
mod census;
mod channels;
mod communicators;
mod diagnoses;
pub mod document;
pub mod flows;
mod links;
mod lists;
mod proxy;
mod steady;

use serde::Serialize;

pub use bandwidth::BandwidthCheck;
pub use census::{CensusRow, SizeClass};
pub use channels::{ChannelRow, Imbalance};
pub use communicators::CommunicatorRow;
pub use links::{LinkRow, PairRow};
pub use lists::{EventRow, FileRow, GroupRow};
pub use proxy::{Phases, ProxyRow};
pub use steady::Steady;

use crate::document::findings::Finding;
use crate::operations::communicators::Communicators;
use crate::records::Records;
use flows::FlowReport;

/// What was recorded.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecordsReport {
    /// The problems, most important first.
    #[serde(skip)]
    pub diagnoses: Vec<Finding>,
    /// What could not be used, by kind, each with its number (`137 records that newer ones have overwritten`), and in how many files.
    #[serde(skip)]
    pub left_out: Vec<(String, u64)>,
    /// The communicators.
    pub communicators: Vec<CommunicatorRow>,
    /// Operations by source, communicator, collective and size class, longest total time first.
    pub census: Vec<CensusRow>,
    /// Recorded bus bandwidths compared with computed ones; `None` if no source records them.
    pub bandwidth_check: Option<BandwidthCheck>,
    /// What the proxies waited for, by communicator, rank and direction.
    pub proxies: Vec<ProxyRow>,
    /// What each channel of a rank sent to and received from each peer.
    pub links: Vec<LinkRow>,
    /// How evenly the channels of each rank were busy.
    pub channels: Vec<ChannelRow>,
    /// The non-empty cells of the matrix of bytes from rank to rank.
    pub pairs: Vec<PairRow>,
    /// Other events of NCCL's profiler interface, by kind.
    pub profiler_events: Vec<EventRow>,
    /// Groups of operations, by what they are groups of and how many belong together.
    pub groups: Vec<GroupRow>,
    /// What the flow extractor planned, and whether its files agree; `None` without such files.
    pub flows: Option<FlowReport>,
    /// The files.
    pub files: Vec<FileRow>,
}

/// What could not be used, by kind, each with its number, and in how many files.
pub(in crate::answers) fn left_out(records: &Records) -> Vec<(String, u64)> {
    diagnoses::remarks(&records.files, |file| &file.skipped)
}

/// Reports what was recorded.
pub fn report(records: &Records) -> RecordsReport {
    let communicators = Communicators::find(records);
    let census = census::rows(records, &communicators);
    let links = links::rows(records, &communicators);
    let mut report = RecordsReport {
        communicators: communicators::count(records, &communicators),
        census,
        bandwidth_check: bandwidth::check(records, &communicators),
        proxies: proxy::rows(records, &communicators),
        channels: channels::rows(records, &communicators, &links),
        pairs: links::pairs(records, &communicators),
        links,
        profiler_events: lists::events(records),
        groups: lists::groups(records),
        flows: flows::report(records),
        files: records.files.iter().map(lists::file_row).collect(),
        left_out: left_out(records),
        ..RecordsReport::default()
    };
    report.diagnoses = diagnoses::find(records, &communicators, &report);
    report
}
