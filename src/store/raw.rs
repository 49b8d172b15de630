//! Events on their way through the store: read by a shard, carried by a batch, laid as slices and flows.
//!
//! These types are a file of their own because every step from [`super::batch`] to [`super::assemble`] takes them.

use super::args::ArgSetId;
use super::ids::PackedIds;
use super::strings::StringId;
use crate::event::{Bind, Scope, TrackOwner};
use crate::id::TrackId;

/// An event on its way.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raw {
    pub(super) ts: i64,
    /// The length of a slice, the id of a flow.
    pub(super) value: i64,
    pub(super) track: u32,
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) args: ArgSetId,
    /// Its ids, see [`PackedIds`]. If the event has an [`Extra`], its place among them instead.
    pub(super) ids: (u32, u32),
    pub(super) kind: RawKind,
    pub(super) has_extra: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum RawKind {
    #[default]
    Complete,
    Begin,
    End,
    Instant,
    FlowStart,
    FlowStep,
    FlowEnd,
    FlowEndAtNext,
    /// A flow event whose id cannot be read.
    FlowInvalid,
    /// A flow of the slice that the event before opened or closed.
    SliceFlow {
        terminates: bool,
        of_closed: bool,
    },
}

impl RawKind {
    /// Whether the event makes a slice of its own.
    pub(super) fn is_slice(self) -> bool {
        matches!(self, RawKind::Complete | RawKind::Begin | RawKind::Instant)
    }
}

/// What few events have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra {
    pub(super) bind: Option<Bind>,
    pub(super) thread_time: (Option<i64>, Option<i64>),
    /// All ids, however large.
    pub(super) ids: PackedIds,
}

impl Raw {
    /// The ids of an event without [`Extra`].
    pub(super) fn small_ids(&self) -> PackedIds {
        PackedIds { first: self.ids.0.into(), second: self.ids.1.into(), pair: (0, 0) }
    }
}

/// The id of a process or thread; texts by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IdKey {
    Absent,
    Number(u32),
    Text(StringId),
}

/// What a shard met for the first time, and what an event says of a process or thread. Threads and tracks are numbered as they
/// come.
#[derive(Debug)]
pub(super) enum News {
    Thread {
        pid: IdKey,
        tid: IdKey,
    },
    ThreadTrack {
        thread: u32,
    },
    InstantTrack {
        scope: Scope,
        thread: u32,
    },
    AsyncTrack {
        per_process: bool,
        thread: u32,
        key: String,
        name: StringId,
    },
    /// A track that the file describes, with the name of its first event.
    DescribedTrack {
        name: StringId,
    },
    /// What it is, or a thread or process that has no such track.
    Description {
        track: Option<u32>,
        owner: TrackOwner,
        names: DescribedNames,
    },
    ProcessName {
        thread: u32,
        name: StringId,
        ts: i64,
    },
    ThreadName {
        thread: u32,
        name: StringId,
        ts: i64,
    },
    ProcessArgs {
        thread: u32,
        args: ArgSetId,
    },
    ThreadArgs {
        thread: u32,
        args: ArgSetId,
    },
}

/// The names in the description of a track: its own, its thread's, its process's.
#[derive(Debug, Clone, Copy)]
pub(super) struct DescribedNames {
    pub(super) track: StringId,
    pub(super) thread: StringId,
    pub(super) process: StringId,
}

/// An event that makes no slice: an end, or one of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) ts: i64,
    /// The id of a flow.
    pub(super) id: u64,
    pub(super) track: TrackId,
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) args: ArgSetId,
    /// How many rows of slices came before it.
    pub(super) rows_before: u32,
    pub(super) kind: RawKind,
}

impl Mark {
    pub(super) fn new(raw: &Raw, rows_before: u32) -> Self {
        let Raw { ts, value, track, name, category, args, kind, .. } = *raw;
        Mark { ts, id: value as u64, track: TrackId(track), name, category, args, rows_before, kind }
    }
}
