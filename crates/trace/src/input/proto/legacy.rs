//! `LegacyEvent`: the fields of a Chrome trace event that Perfetto's own events do not have.
//!
//! Chrome, and tools that convert JSON to packets, write the phase of such an event and the fields of that phase. The phases mean
//! the same as in JSON, with three differences: ids are numbers; a slice that partly overlaps another on its track is dropped, not
//! put onto a lane; and where Perfetto requires that a slice's track belongs to a thread, here it may be any.

use super::wire::{Field, Fields, Malformed, Value};
use crate::event::{Bind, Kind, Scope};
use crate::time::Ns;

/// The fields of `LegacyEvent`.
const NAME_IID: u32 = 1;
const PHASE: u32 = 2;
const DURATION_US: u32 = 3;
const THREAD_DURATION_US: u32 = 4;
const UNSCOPED_ID: u32 = 6;
const ID_SCOPE: u32 = 7;
const BIND_ID: u32 = 8;
const LOCAL_ID: u32 = 10;
const GLOBAL_ID: u32 = 11;
const BINDS_TO_ENCLOSING: u32 = 12;
const FLOW_DIRECTION: u32 = 13;
const INSTANT_SCOPE: u32 = 14;
const PID_OVERRIDE: u32 = 18;
const TID_OVERRIDE: u32 = 19;

/// The bits of a flow's direction.
const FLOW_IN: u64 = 1;
const FLOW_OUT: u64 = 2;

/// The scopes of instants.
const SCOPE_GLOBAL: u64 = 1;
const SCOPE_PROCESS: u64 = 2;

/// The fields of a legacy event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Legacy<'a> {
    pub(super) name_iid: u64,
    /// A letter; 0 if there is none and the event has a type.
    phase: u8,
    duration_us: i64,
    thread_duration_us: i64,
    unscoped_id: Option<u64>,
    local_id: Option<u64>,
    global_id: Option<u64>,
    scope: Option<&'a [u8]>,
    bind_id: Option<u64>,
    binds_to_enclosing: bool,
    direction: u64,
    instant_scope: u64,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
}

/// An asynchronous operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    pub(super) id: u64,
    /// Whether the id is local to its process.
    pub(super) is_local: bool,
    /// Distinguishes it from others with this id, besides the category, or the name if `goes_by_name`.
    pub(super) scope: Option<&'a [u8]>,
    pub(super) goes_by_name: bool,
}

/// The track of an event that is not on its own track.
#[derive(Debug, Clone, Copy)]
pub(super) enum Elsewhere<'a> {
    Operation(Operation<'a>),
    InstantsOfProcess,
    InstantsOfAll,
}

impl<'a> Legacy<'a> {
    pub(super) fn new(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut event = Legacy::default();
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (NAME_IID, Value::Varint(iid)) => event.name_iid = iid,
                (PHASE, Value::Varint(phase)) => event.phase = phase as u8,
                (DURATION_US, Value::Varint(us)) => event.duration_us = us as i64,
                (THREAD_DURATION_US, Value::Varint(us)) => event.thread_duration_us = us as i64,
                (UNSCOPED_ID, Value::Varint(id)) => event.unscoped_id = Some(id),
                (LOCAL_ID, Value::Varint(id)) => event.local_id = Some(id),
                (GLOBAL_ID, Value::Varint(id)) => event.global_id = Some(id),
                (ID_SCOPE, Value::Bytes(scope)) => event.scope = Some(scope),
                (BIND_ID, Value::Varint(id)) => event.bind_id = Some(id),
                (BINDS_TO_ENCLOSING, Value::Varint(binds)) => event.binds_to_enclosing = binds != 0,
                (FLOW_DIRECTION, Value::Varint(direction)) => event.direction = direction,
                (INSTANT_SCOPE, Value::Varint(scope)) => event.instant_scope = scope,
                (PID_OVERRIDE, Value::Varint(pid)) => event.pid = Some(i64::from(pid as i32)),
                (TID_OVERRIDE, Value::Varint(tid)) => event.tid = Some(i64::from(tid as i32)),
                _ => {}
            }
        }
        Ok(event)
    }

    pub(super) fn has_phase(&self) -> bool {
        self.phase != 0
    }

    /// Whether it names a thread or process.
    pub(super) fn is_metadata(&self) -> bool {
        self.phase == b'M'
    }

    /// The kind of its phase; `None` if no table shows such events.
    pub(super) fn kind(&self) -> Option<Kind<'static>> {
        Some(match self.phase {
            b'X' => Kind::Complete { dur: ns(self.duration_us) },
            b'B' | b'b' | b'S' => Kind::Begin,
            b'E' | b'e' | b'F' => Kind::End,
            b'i' | b'I' | b'R' | b'n' | b'T' | b'p' => Kind::Instant(Scope::Thread),
            b's' => Kind::FlowStart(self.unscoped_id),
            b't' => Kind::FlowStep(self.unscoped_id),
            b'f' => Kind::FlowEnd { id: self.unscoped_id, enclosing: self.binds_to_enclosing },
            _ => return None,
        })
    }

    /// The track of its phase. An error if that needs an id and there is none.
    pub(super) fn elsewhere(&self) -> Result<Option<Elsewhere<'a>>, Malformed> {
        match self.phase {
            b'b' | b'e' | b'n' | b'S' | b'T' | b'p' | b'F' => {
                let id = self.unscoped_id.or(self.global_id);
                let is_local = id.is_none();
                let id = id.or(self.local_id).ok_or(Malformed)?;
                let goes_by_name = self.phase.is_ascii_uppercase() || self.phase == b'p';
                let scope = self.scope;
                Ok(Some(Elsewhere::Operation(Operation { id, is_local, scope, goes_by_name })))
            }
            b'i' | b'I' if self.instant_scope == SCOPE_GLOBAL => Ok(Some(Elsewhere::InstantsOfAll)),
            b'i' | b'I' if self.instant_scope == SCOPE_PROCESS => Ok(Some(Elsewhere::InstantsOfProcess)),
            _ => Ok(None),
        }
    }

    /// Whether it is on a track of its process.
    pub(super) fn is_of_process(&self) -> bool {
        match self.elsewhere() {
            Ok(Some(Elsewhere::Operation(operation))) => operation.is_local,
            Ok(Some(Elsewhere::InstantsOfProcess)) => true,
            _ => false,
        }
    }

    /// The CPU time of its thread that passed; known for phases that are one event.
    pub(super) fn thread_time(&self) -> Option<Ns> {
        match self.phase {
            b'X' => Some(ns(self.thread_duration_us)),
            b'i' | b'I' | b'R' => Some(Ns::ZERO),
            _ => None,
        }
    }

    /// The flow that is bound to the slice.
    pub(super) fn bind(&self) -> Option<Bind> {
        let id = self.bind_id?;
        let (flow_in, flow_out) = (self.direction & FLOW_IN != 0, self.direction & FLOW_OUT != 0);
        Some(Bind { id: Some(id), flow_in, flow_out })
    }
}

/// A time in microseconds; saturates.
pub(super) fn ns(us: i64) -> Ns {
    Ns(us.saturating_mul(1000))
}
