//! The collectives of one rank, in the order of their starts, as ranks are compared by them.

use serde::{Deserialize, Serialize};

use crate::names::collectives::Collective;
use crate::names::steps::number;
use crate::operation::{Communicator, Message, Operation, Split};
use crate::time::{Ns, Window};

/// The collectives of one rank of a job.
#[derive(Debug, Clone, Copy)]
pub struct RankRows<'a> {
    pub rank: u32,
    /// A row for each collective, in the order of their starts.
    pub rows: &'a [Row],
    pub kinds: &'a [Kind],
    pub groups: &'a [Communicator],
    /// Names of kernels; kinds have their positions.
    pub texts: &'a [String],
    pub steps: &'a [Step],
}

impl<'a> RankRows<'a> {
    pub fn kind(&self, row: &Row) -> &'a Kind {
        &self.kinds[row.kind as usize]
    }

    pub fn text(&self, at: u32) -> &'a str {
        self.texts.get(at as usize).map_or("", String::as_str)
    }

    /// What a row's collective is called: by its kernel's name if nothing else is known.
    pub fn collective(&self, row: &Row) -> &'a str {
        let kind = self.kind(row);
        kind.collective.as_deref().unwrap_or_else(|| self.text(kind.kernel))
    }
}

/// A step of training or serving.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub name: String,
    pub window: Window,
    /// How long any kernel that was launched in it ran on the rank's GPUs.
    #[serde(default)]
    pub busy: Ns,
    /// The same of kernels that are no collectives.
    #[serde(default)]
    pub compute: Ns,
}

/// One collective on one rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Row {
    /// The kernel: its slice in the trace. 0 in a file of parts, where there is no trace that it would be a slice of.
    pub kernel: u32,
    pub start: Ns,
    /// How long it ran; 0 if it did not end.
    pub dur: Ns,
    /// How long no compute kernel ran beside it.
    pub exposed: Ns,
    /// How long compute kernels ran on its GPU since the collective before, on any stream.
    pub busy_before: Ns,
    /// For how much of that time none did.
    pub idle_before: Ns,
    /// A position in the kinds.
    pub kind: u32,
    /// A position in the groups.
    pub group: Option<u32>,
    /// PyTorch's number of the collective in its group.
    pub seq: Option<u32>,
    /// A position in the stacks.
    pub stack: Option<u32>,
    /// Its stream, by the order of their first rows.
    pub stream: u32,
    /// A position in the steps.
    pub step: Option<u32>,
    pub is_replay: bool,
}

impl Step {
    /// The profiler's number of it.
    pub(crate) fn number(&self) -> Option<u64> {
        number(&self.name)
    }
}

impl Row {
    pub fn end(&self) -> Ns {
        self.start + self.dur
    }
}

/// What distinguishes collectives.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// Its name: that of nccl-tests, or as recorded.
    pub collective: Option<String>,
    /// The name of the kernel, a position in the texts.
    pub kernel: u32,
    pub dtype: Option<String>,
    /// How many elements this rank gives.
    pub in_elements: Option<u64>,
    /// How many elements this rank gets.
    pub out_elements: Option<u64>,
    /// The size as nccl-tests counts it, in bytes.
    pub bytes: Option<u64>,
    /// The other side of a send or receive: a global rank. Or the root: its place in the group's list of ranks.
    pub peer: Option<i64>,
    /// Whether PyTorch recorded the operation. Nothing is recorded of a kernel that a graph replays.
    pub is_recorded: bool,
    /// How the data of an all-to-all is divided among the ranks.
    pub split: Split,
    /// If one kernel carries out several sends and receives: these.
    pub messages: Vec<Message>,
}

/// How a collective ties the starts and ends of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tie {
    /// None ends before all have started, and all end at about the same time: all-reduce.
    Tight,
    /// None ends before all have started: all-gather, reduce-scatter, balanced all-to-all.
    Loose,
    /// The same, but some take longer than others: all-to-all with parts of different sizes.
    Uneven,
    /// The root gives, or takes: some may end before others start.
    Rooted,
    /// A send or receive.
    PointToPoint,
    /// Parts may be empty, or it is unknown what the kernel does.
    Unknown,
}

impl Tie {
    /// Whether no member can end before all have started.
    pub fn synchronises(self) -> bool {
        matches!(self, Tie::Tight | Tie::Loose | Tie::Uneven)
    }

    /// Whether all members end at about the same time, too.
    pub fn ends_together(self) -> bool {
        matches!(self, Tie::Tight | Tie::Loose)
    }
}

impl Kind {
    /// That of an operation, whose kernel's name is at this position.
    pub(crate) fn of(operation: &Operation, kernel: u32, is_recorded: bool) -> Self {
        Kind {
            collective: operation.collective.as_deref().map(str::to_owned),
            kernel,
            dtype: operation.dtype.as_deref().map(str::to_owned),
            in_elements: operation.in_elements,
            out_elements: operation.out_elements,
            bytes: operation.bytes,
            peer: operation.peer,
            is_recorded,
            split: operation.split,
            messages: operation.messages.clone(),
        }
    }

    /// Whether all that is known is that the kernel sends and receives.
    pub(super) fn is_exchange(&self) -> bool {
        self.collective.as_deref().and_then(Collective::of_record) == Some(Collective::SendRecv)
    }

    /// How it ties its members. NCCL carries out all-to-all by a kernel `SendRecv`; without a record it is taken for one, and the
    /// bounds on the clocks show where that is wrong.
    pub fn tie(&self) -> Tie {
        let Some(collective) = self.collective.as_deref() else { return Tie::Unknown };
        if collective == "barrier" {
            return Tie::Tight;
        }
        match Collective::of_record(collective) {
            Some(Collective::AllReduce) => Tie::Tight,
            Some(Collective::AllGather | Collective::ReduceScatter) => Tie::Loose,
            Some(Collective::AllToAll) => match self.split {
                Split::Even => Tie::Loose,
                Split::Uneven => Tie::Uneven,
                Split::Unknown => Tie::Unknown,
            },
            Some(Collective::SendRecv) if !self.is_recorded && self.split == Split::Even => Tie::Loose,
            Some(Collective::SendRecv) if !self.is_recorded => Tie::Unknown,
            Some(Collective::Broadcast | Collective::Reduce | Collective::Gather | Collective::Scatter) => Tie::Rooted,
            Some(Collective::Send | Collective::Recv | Collective::SendRecv) => Tie::PointToPoint,
            None => Tie::Unknown,
        }
    }
}
