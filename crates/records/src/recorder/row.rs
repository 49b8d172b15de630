//! An operation in the making, filled from its records one after the other.

use std::sync::Arc;

use nccl_stacks_recorder_format::{Kind, Record, flag};

use super::facts::Facts;
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values::dtype_of_number;
use nccl_stacks_trace::time::Ns;

#[derive(Default)]
pub(super) struct Row {
    /// The communicator, among those of the process.
    pub(super) communicator: Option<u32>,
    /// Whether nothing says which that is on other ranks, or to the other half of the recorder.
    pub(super) is_nameless: bool,
    pub(super) collective: Option<Collective>,
    pub(super) name: Option<Arc<str>>,
    pub(super) dtype: Option<Arc<str>>,
    pub(super) count: Option<u64>,
    pub(super) peer: Option<i64>,
    pub(super) reduction: Option<u32>,
    pub(super) stream: Option<u64>,
    pub(super) tag: Option<u64>,
    pub(super) enqueued: Option<Ns>,
    pub(super) launched: Option<Ns>,
    pub(super) algorithm: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) channels: Option<u32>,
    /// Its number among the collectives of the communicator, as the recorder counted; and as NCCL counts those of one function.
    pub(super) number: Option<u32>,
    pub(super) nccl_number: Option<u64>,
    /// Whether the interceptor saw the call, and whether NCCL has reported the operation to its plugin.
    pub(super) is_call: bool,
    pub(super) is_planned: bool,
    /// Whether it was captured into a graph and not carried out, and whether it is carried out by a graph.
    pub(super) is_captured: bool,
    pub(super) is_replayed: bool,
    /// Whether its call, or the end of the group around it, returned an error.
    pub(super) is_failed: bool,
    /// Whether copy engines carry it out: nothing is recorded of when.
    pub(super) is_copied: bool,
    /// Channels of its kernel: those that started, and those of them that stopped.
    pub(super) started: u32,
    pub(super) stopped: u32,
    pub(super) proxies: u32,
    pub(super) proxies_done: u32,
}

impl Row {
    pub(super) fn from_record(record: &Record, facts: &Facts<'_>) -> Self {
        let word = facts.word(record.function);
        let collective = word.and_then(|word| word.collective);
        let communicator = facts.communicator(record);
        let mut row = Row {
            communicator,
            is_nameless: communicator.is_some_and(|at| facts.communicators[at as usize].row.is_none()),
            collective,
            name: word.map(|word| Arc::clone(&word.name)),
            count: Some(record.a),
            enqueued: facts.time(record.time),
            is_captured: record.flags & flag::CAPTURED != 0,
            ..Row::default()
        };
        row.dtype = match record.kind {
            Kind::Call => u64::from(record.dtype).checked_sub(1).and_then(dtype_of_number).map(Arc::from),
            _ => facts.word(record.dtype).and_then(|word| word.dtype.clone()),
        };
        if record.kind == Kind::Call {
            // 255 is one of the program's own.
            row.reduction = u32::from(record.algorithm).checked_sub(1).filter(|number| *number < 5);
        }
        if matches!(record.kind, Kind::Call | Kind::CollApi | Kind::P2pApi) {
            row.stream = Some(record.b);
        }
        // A send of the API has no peer yet.
        if record.kind != Kind::P2pApi {
            row.peer = collective.and_then(|of| peer(of, record));
        }
        row
    }

    /// The number of a collective in the high half of a record's `c`.
    pub(super) fn set_number(&mut self, record: &Record) {
        let number = (record.c >> 32) as u32;
        // All bits are a root of -1.
        let is_counted = matches!(record.kind, Kind::Call | Kind::Coll);
        let is_one = is_counted && number != 0 && number != u32::MAX && !self.is_point_to_point();
        self.number = self.number.or(is_one.then_some(number));
    }

    pub(super) fn plan(&mut self, record: &Record, facts: &Facts<'_>) {
        let capitals = |number| facts.word(number).and_then(|word| word.capitals.clone());
        self.is_planned = true;
        self.algorithm = capitals(record.algorithm);
        self.protocol = capitals(record.protocol);
        self.channels = Some(u32::from(record.channel)).filter(|channels| *channels > 0);
        self.peer = self.peer.or_else(|| self.collective.and_then(|of| peer(of, record)));
        self.is_copied = record.kind == Kind::CeColl;
        if record.kind == Kind::Coll {
            self.nccl_number = Some(record.b);
        }
    }

    pub(super) fn is_point_to_point(&self) -> bool {
        self.collective.is_some_and(Collective::is_point_to_point)
    }

    /// Whether a record may be of the same operation: function and communicator agree as far as they are known.
    pub(super) fn may_be(&self, other: &Row) -> bool {
        let is_open = |row: &Row| row.communicator.is_none() || row.is_nameless;
        self.collective == other.collective
            && (self.communicator == other.communicator || is_open(self) || is_open(other))
    }
}

/// The other side of a send or receive, or the root of what has one.
fn peer(of: Collective, record: &Record) -> Option<i64> {
    let peer = i64::from(record.c as u32 as i32);
    ((of.is_point_to_point() || of.has_root()) && peer >= 0).then_some(peer)
}
