//! Processes all events in time order: nests slices, closes open ones, binds flows. It comes after reading because files are not in
//! time order.

use std::collections::HashMap;

use super::args::{ArgSetId, Args};
use super::flows::Binder;
use super::nest::Nester;
use super::offsets::EventOffsets;
use super::order::{Events, Merge, Next};
use super::raw::{Extra, Mark, RawKind};
use crate::damage::{Damage, DamageReport};
use crate::event::Bind;
use crate::id::{SliceId, TraceId};

/// The fields that few events have.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// Of slices: `bind_id`, by row.
    pub(super) binds: HashMap<u32, Bind>,
    /// Of ends, by the index of the mark.
    pub(super) ends: HashMap<u32, Extra>,
}

/// The state of this pass.
pub(super) struct Assembler<'a> {
    pub(super) nester: Nester,
    pub(super) binder: Binder,
    pub(super) args: Args,
    /// By trace.
    pub(super) damage: Vec<DamageReport>,
    /// The trace of the current events.
    pub(super) trace: TraceId,
    pub(super) marks: &'a [Mark],
    /// Their byte offsets in the text, if the load keeps offsets.
    pub(super) mark_offsets: &'a [u64],
    pub(super) extras: &'a Extras,
    pub(super) offsets: EventOffsets,
    /// The slice that the last end closed.
    pub(super) closed: Option<SliceId>,
}

impl Assembler<'_> {
    /// Processes all events in the order of `merge`.
    pub(super) fn run(&mut self, merge: impl FnOnce(Events<'_>) -> Merge) {
        let mut merge = merge(self.events());
        loop {
            let (trace, group) = merge.next_group(self.events());
            if group.is_empty() {
                return;
            }
            self.trace = TraceId::of_row(trace);
            self.binder.set_trace(trace);
            for next in group {
                match *next {
                    Next::Slice(row) => self.slice(row),
                    Next::Mark(at) => self.mark(at),
                }
            }
        }
    }

    fn events(&self) -> Events<'_> {
        let rows = &self.nester.slices.rows;
        Events { ts: &rows.ts, dur: &rows.dur, marks: self.marks }
    }

    #[inline]
    fn slice(&mut self, row: u32) {
        let Some((slice, track)) = self.nester.nest(row, &mut self.damage[self.trace.row()]) else { return };
        self.binder.opened(track, slice, || self.nester.first_slice_of(self.trace));
        if !self.extras.binds.is_empty()
            && let Some(bind) = self.extras.binds.get(&row)
        {
            self.binder.bind(*bind, slice, &self.nester.slices, &mut self.damage[self.trace.row()]);
        }
    }

    fn mark(&mut self, at: u32) {
        let mark = self.marks[at as usize];
        if mark.kind == RawKind::End {
            return self.end(mark, self.extras.ends.get(&at), self.mark_offsets.get(at as usize).copied());
        }
        if let RawKind::SliceFlow { terminates, of_closed } = mark.kind {
            // The event before it in the file is that of its slice, and was the one before it here, too.
            let slice =
                if of_closed { self.closed } else { self.nester.slices.last_id(mark.rows_before.wrapping_sub(1)) };
            if let Some(slice) = slice {
                self.binder.pass(mark.id, slice, terminates, &self.nester.slices);
            }
            return;
        }
        let (id, label) = (mark.id, (mark.name, mark.category));
        let top = self.nester.top(mark.track);
        let (slices, damage) = (&self.nester.slices, &mut self.damage[self.trace.row()]);
        self.binder.offset = self.mark_offsets.get(at as usize).copied();
        match mark.kind {
            RawKind::FlowStart => self.binder.start(id, label, top, damage),
            RawKind::FlowStep => self.binder.step(id, label, top, slices, damage),
            RawKind::FlowEnd => self.binder.end(id, label, top, slices, damage),
            RawKind::FlowEndAtNext => self.binder.park(id, label, mark.track),
            _ => damage.count(Damage::FlowInvalidId, None),
        }
        self.binder.offset = None;
    }

    fn end(&mut self, mark: Mark, extra: Option<&Extra>, offset: Option<u64>) {
        let Mark { ts, track, name, category, .. } = mark;
        self.closed = self.nester.close(track, ts, name, category, &mut self.damage[self.trace.row()]);
        let Some(slice) = self.closed else { return };
        self.offsets.ends.extend(offset.map(|offset| (slice, offset)));
        let slices = &mut self.nester.slices;
        if mark.args != ArgSetId::NONE {
            slices.set_args(slice, self.args.merge(slices.args(slice), mark.args));
        }
        let Some(extra) = extra else { return };
        slices.add_ids(slice, extra.ids);
        if let (Some(end), _) = extra.thread_time {
            slices.set_thread_end(slice, end);
        }
    }
}
