//! Events between reading and nesting: a shard makes them, a batch carries them, and they are nested and bound. Every step uses these types.

use std::collections::HashMap;

use super::args::ArgSetId;
use super::ids::PackedIds;
use super::strings::StringId;
use crate::event::{Bind, TrackKey, TrackOwner};
use crate::id::TrackId;
use crate::time::Ns;

/// An event, in the numbering of its shard or, after the builder, of the store.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawEvent {
    /// In ns.
    pub(super) ts: i64,
    /// The length of a slice in ns, or the id of a flow.
    pub(super) value: i64,
    pub(super) track: u32,
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) args: ArgSetId,
    /// Its ids, see [`PackedIds`]. If the event has an [`Extra`], the index of that instead.
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
    /// A flow of the slice that the previous event opened or closed.
    SliceFlow {
        terminates: bool,
        of_closed: bool,
    },
}

impl RawKind {
    pub(super) fn is_slice(self) -> bool {
        matches!(self, RawKind::Complete | RawKind::Begin | RawKind::Instant)
    }
}

/// The fields that few events have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra {
    pub(super) bind: Option<Bind>,
    pub(super) thread_time: (Option<Ns>, Option<Ns>),
    pub(super) ids: PackedIds,
}

impl RawEvent {
    /// The ids of an event without [`Extra`].
    pub(super) fn small_ids(&self) -> PackedIds {
        PackedIds { first: self.ids.0.into(), second: self.ids.1.into(), ..PackedIds::default() }
    }
}

/// The fields that few events have, by event.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// For slices: `bind_id`, by row.
    pub(super) binds: HashMap<u32, Bind>,
    /// For end events: by the index of the mark.
    pub(super) ends: HashMap<u32, Extra>,
}

/// The id of a process or thread; a text is represented by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum IdKey {
    Absent,
    Number(u32),
    Text(StringId),
}

/// A change to the tables of processes, threads and tracks: a row that is new to a shard, or metadata of one. Threads and tracks are numbered in
/// the order of these changes.
#[derive(Debug)]
pub(super) enum TrackChange {
    Thread {
        pid: IdKey,
        tid: IdKey,
    },
    /// A track, with the name of its first event if it gets that.
    Track(TrackOf, StringId),
    /// The owner and names of such a track, or of a thread or process without one.
    Description {
        track: Option<u32>,
        owner: TrackOwner,
        names: DescribedNames,
    },
    /// The name of a thread, or of its process.
    Name {
        thread: u32,
        of_process: bool,
        name: StringId,
        ts: i64,
    },
    /// The arguments of a thread, or of its process.
    Args {
        thread: u32,
        of_process: bool,
        args: ArgSetId,
    },
}

/// A track as a shard knows it, by its own numbers of threads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum TrackOf {
    Thread(u32),
    /// The instants of the process of this thread, or of the whole trace.
    Instants(Option<u32>),
    /// An asynchronous operation of the process of this thread, or of the whole trace; the text identifies it.
    Operation(Option<u32>, String),
    /// One that the file describes.
    Described(TrackKey),
}

/// The names in a track's description: its own, its thread's, its process's.
#[derive(Debug, Clone, Copy)]
pub(super) struct DescribedNames {
    pub(super) track: StringId,
    pub(super) thread: StringId,
    pub(super) process: StringId,
}

/// An event that creates no slice: an end or a flow event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// In ns.
    pub(super) ts: i64,
    pub(super) id: u64,
    pub(super) track: TrackId,
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) args: ArgSetId,
    /// The number of slice rows before it.
    pub(super) rows_before: u32,
    pub(super) kind: RawKind,
}

impl Mark {
    pub(super) fn new(raw: &RawEvent, rows_before: u32) -> Self {
        let RawEvent { ts, value, track, name, category, args, kind, .. } = *raw;
        Mark { ts, id: value as u64, track: TrackId(track), name, category, args, rows_before, kind }
    }
}
