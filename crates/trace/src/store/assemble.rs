//! Processes the events in time order: nests slices, closes open ones, and finds the slice at each end of a flow.
//!
//! This pass follows the reading, because files are not in time order. Changes to slices are collected and applied at the end, so that other
//! threads can read the rows meanwhile (`stages`).

use std::collections::HashSet;

use super::args::{ArgSetId, Args};
use super::flows::{FlowEvent, FlowItem, Marks};
use super::nest::{Nester, NewSlice};
use super::order::{Next, Ordered};
use super::raw::{Mark, RawKind};
use super::slices::{EndedSlices, Nested, Rows, Slices, UNFINISHED};
use super::tracks::Tracks;
use crate::damage::DamageReport;
use crate::id::{SliceId, TraceId, TrackId};
use crate::names::category::CategoryKind;

/// The state of this pass.
pub(super) struct Assembler<'a> {
    rows: &'a Rows,
    nester: Nester<'a>,
    marks: Marks<'a>,
    /// By trace.
    damage: Vec<DamageReport>,
    /// The first nested slice of each trace.
    first: Vec<Option<SliceId>>,
    /// The slice that the last end closed.
    closed: Option<SliceId>,
    /// The slices whose end events add more than a time, and the indexes of these events.
    additions: Vec<(SliceId, u32)>,
    /// Slices closed by an event, and the byte offset of that event, if the load keeps offsets.
    end_offsets: Vec<(SliceId, u64)>,
    /// The tracks on whose next slice a flow waits.
    awaited: HashSet<TrackId, foldhash::fast::FixedState>,
    kernels: Vec<SliceId>,
    runtime_calls: Vec<SliceId>,
    /// The rows that could not be nested.
    dropped: Vec<u32>,
}

/// The results of the pass.
pub(super) struct Assembled {
    nested: Nested,
    ended: EndedSlices,
    additions: Vec<(SliceId, u32)>,
    /// See [`super::Store::kernels`].
    pub(super) kernels: Vec<SliceId>,
    /// See [`super::Store::runtime_calls`].
    pub(super) runtime_calls: Vec<SliceId>,
    /// The rows that could not be nested, in order.
    pub(super) dropped: Vec<u32>,
    /// See [`super::Store::first_slices`].
    pub(super) first_slices: Vec<Option<SliceId>>,
    /// See [`Nester::spilled`].
    pub(super) spilled: Vec<(SliceId, TrackId)>,
    /// The tracks, including lanes.
    pub(super) tracks: Tracks,
    /// By trace.
    pub(super) damage: Vec<DamageReport>,
    /// See [`super::EventOffsets::ends`].
    pub(super) end_offsets: Vec<(SliceId, u64)>,
}

impl<'a> Assembler<'a> {
    /// The state before the first event.
    pub(super) fn new(tracks: Tracks, rows: &'a Rows, marks: Marks<'a>, traces: usize) -> Self {
        Assembler {
            rows,
            nester: Nester::new(tracks, rows),
            marks,
            damage: vec![DamageReport::default(); traces],
            first: vec![None; traces],
            closed: None,
            additions: Vec::new(),
            end_offsets: Vec::new(),
            awaited: HashSet::default(),
            kernels: Vec::new(),
            runtime_calls: Vec::new(),
            dropped: Vec::new(),
        }
    }

    /// Processes the next events. Appends those that concern flows to `items`.
    pub(super) fn run(&mut self, events: &[Ordered], items: &mut Vec<FlowItem>) {
        for event in events {
            let trace = TraceId::of_row(event.trace());
            match event.event() {
                Next::Slice(row) => self.slice(row, *event, trace, items),
                Next::Mark(at) => self.mark(at, trace, items),
            }
        }
    }

    #[inline]
    fn slice(&mut self, row: u32, event: Ordered, trace: TraceId, items: &mut Vec<FlowItem>) {
        let dur = Some(event.dur(self.rows)).filter(|dur| *dur != UNFINISHED.0);
        let new = NewSlice { row, ts: event.ts, dur, track: event.track() };
        let Some((slice, track)) = self.nester.nest(new, &mut self.damage[trace.row()]) else {
            self.dropped.push(row);
            return;
        };
        if event.is_of(CategoryKind::Kernel) {
            self.kernels.push(slice);
        } else if event.is_of(CategoryKind::Runtime) {
            self.runtime_calls.push(slice);
        }
        let first = *self.first[trace.row()].get_or_insert(slice);
        if !self.awaited.is_empty() && self.awaited.remove(&track) {
            items.push(FlowItem { trace, what: FlowEvent::Opened(track, slice, first) });
        }
        let binds = &self.marks.extras.binds;
        if !binds.is_empty() && binds.contains_key(&row) {
            items.push(FlowItem { trace, what: FlowEvent::Bind(row, slice) });
        }
    }

    fn mark(&mut self, at: u32, trace: TraceId, items: &mut Vec<FlowItem>) {
        let mark = &self.marks.marks[at as usize];
        let slice = match mark.kind {
            RawKind::End => return self.end(at, *mark, trace),
            // In the file it follows the event of its slice, and here too.
            RawKind::SliceFlow { of_closed: true, .. } => self.closed,
            RawKind::SliceFlow { of_closed: false, .. } => self.nester.nested.last_id(mark.rows_before.wrapping_sub(1)),
            RawKind::FlowEndAtNext => {
                self.awaited.insert(mark.track);
                None
            }
            _ => self.nester.top(mark.track),
        };
        items.push(FlowItem { trace, what: FlowEvent::Mark(at, slice) });
    }

    fn end(&mut self, at: u32, mark: Mark, trace: TraceId) {
        let Mark { ts, track, name, category, .. } = mark;
        self.closed = self.nester.close(track, ts, name, category, &mut self.damage[trace.row()]);
        let Some(slice) = self.closed else { return };
        self.end_offsets.extend(self.marks.offsets.get(at as usize).map(|offset| (slice, *offset)));
        if mark.args != ArgSetId::NONE || self.marks.extras.ends.contains_key(&at) {
            self.additions.push((slice, at));
        }
    }

    pub(super) fn finish(self) -> Assembled {
        let Assembler { nester, additions, kernels, runtime_calls, mut dropped, damage, end_offsets, .. } = self;
        dropped.sort_unstable();
        let first_slices = nester.first_slices();
        let Nester { nested, tracks, spilled, ended, .. } = nester;
        Assembled {
            nested,
            ended,
            additions,
            kernels,
            runtime_calls,
            dropped,
            first_slices,
            spilled,
            tracks,
            damage,
            end_offsets,
        }
    }
}

impl Assembled {
    /// The slices, with the additions of their end events, and on the tracks of their lanes. May be called only once.
    pub(super) fn slices(&mut self, rows: Rows, marks: Marks<'_>, args: &mut Args) -> Slices {
        let mut slices = std::mem::take(&mut self.nested).into_slices(rows);
        slices.set_tracks(&self.spilled);
        slices.set_durs(&self.ended);
        for (slice, at) in std::mem::take(&mut self.additions) {
            let of_end = marks.marks[at as usize].args;
            if of_end != ArgSetId::NONE {
                slices.set_args(slice, args.merge(slices.args(slice), of_end));
            }
            let Some(extra) = marks.extras.ends.get(&at) else { continue };
            slices.add_ids(slice, extra.ids);
            if let (Some(end), _) = extra.thread_time {
                slices.set_thread_end(slice, end);
            }
        }
        slices
    }
}
