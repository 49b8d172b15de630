//! `LegacyEvent`: the fields of a Chrome trace event that Perfetto's own events do not have.
//!
//! Chrome, and tools that convert JSON to packets, write the phase of such an event and the fields of that phase. The phases mean
//! the same as in JSON, with three differences: ids are numbers; a slice that partly overlaps another on its track is dropped, not
//! put onto a lane; and where Perfetto requires that a slice's track belongs to a thread, here it may be any.

use super::messages::{FLOW_IN, FLOW_OUT, LegacyEvent, SCOPE_GLOBAL, SCOPE_PROCESS};
use super::wire::Malformed;
use crate::event::{Bind, Kind, Scope};
use crate::time::Ns;

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

impl<'a> LegacyEvent<'a> {
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
            // It may name a thread or process.
            b'M' => Kind::Metadata,
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
