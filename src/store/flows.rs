//! Flows: the flows between slices, bound as Perfetto binds them.
//!
//! A flow's ends are bound to whatever slice is on top of their track when the end is reached in time order, even one
//! that ended long ago. That is wrong for kernels which overlap on one stream, and it is what everybody's SQL expects; the
//! truth about launches is found elsewhere, by correlation ids.

use std::collections::HashMap;

use super::offsets::FlowEnd;
use super::slices::Slices;
use super::strings::StringId;
use crate::damage::{Damage, DamageReport};
use crate::id::{SliceId, TrackId};

/// All flows, in the order in which they were closed.
#[derive(Debug, Default)]
pub struct Flows {
    /// The slice that a flow leaves.
    pub slice_out: Vec<SliceId>,
    /// The slice at which it arrives.
    pub slice_in: Vec<SliceId>,
    /// Perfetto's number for the flow: a running number for `s`/`t`/`f`, the file's own for `bind_id`.
    pub trace_id: Vec<u64>,
    /// Name and category of the flow; both NULL for `bind_id`.
    pub label: Vec<(StringId, StringId)>,
}

impl Flows {
    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.slice_out.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slice_out.is_empty()
    }
}

type Label = (StringId, StringId);

/// Binds the ends of flows while the slices are laid in time order.
#[derive(Default)]
pub(super) struct Binder {
    pub(super) flows: Flows,
    /// By trace.
    live: Vec<LiveFlows>,
    /// The trace whose events come now.
    trace: usize,
    /// Ends that wait for the next slice on their track.
    parked: HashMap<TrackId, Vec<Parked>>,
    /// Where the event stands that is being bound, if that is to be kept.
    pub(super) offset: Option<u64>,
    /// The events that were bound, if their offsets are to be kept.
    pub(super) ends: Vec<FlowEnd>,
}

/// The flows of one trace: others number theirs alike.
#[derive(Default)]
struct LiveFlows {
    numbers: HashMap<(u64, Label), u64, foldhash::fast::FixedState>,
    /// The latest slice of each flow that has been started.
    started: HashMap<u64, SliceId, foldhash::fast::FixedState>,
}

/// A flow's number, its label, and where its end stands if that is to be kept.
type Parked = (u64, Label, Option<u64>);

impl Binder {
    /// For so many traces.
    pub(super) fn new(traces: usize) -> Self {
        Binder { live: std::iter::repeat_with(LiveFlows::default).take(traces).collect(), ..Binder::default() }
    }

    /// What comes next is of this trace.
    #[inline]
    pub(super) fn go_to_trace(&mut self, trace: usize) {
        self.trace = trace;
    }

    fn live(&mut self) -> &mut LiveFlows {
        &mut self.live[self.trace]
    }

    /// Perfetto's number for a flow of `s`, `t`, `f`: the same id, category and name are the same flow.
    fn number(&mut self, id: u64, label: Label) -> u64 {
        let numbers = &mut self.live().numbers;
        let next = numbers.len() as u64;
        *numbers.entry((id, label)).or_insert(next)
    }

    /// `s`: the flow leaves the slice on top of the track.
    pub(super) fn start(&mut self, id: u64, label: Label, top: Option<SliceId>, damage: &mut DamageReport) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.start_at(number, slice, damage),
        }
    }

    fn start_at(&mut self, number: u64, slice: SliceId, damage: &mut DamageReport) {
        if self.live().started.contains_key(&number) {
            return damage.count(Damage::FlowDuplicateId, None);
        }
        self.live().started.insert(number, slice);
        self.bound(self.offset, number, slice, true);
    }

    /// `t`: the flow arrives at the slice on top of the track, and leaves it again.
    pub(super) fn step(
        &mut self,
        id: u64,
        label: Label,
        top: Option<SliceId>,
        slices: &Slices,
        damage: &mut DamageReport,
    ) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.step_at(number, label, slice, slices, damage),
        }
    }

    fn step_at(&mut self, number: u64, label: Label, slice: SliceId, slices: &Slices, damage: &mut DamageReport) {
        let Some(latest) = self.live().started.get_mut(&number) else {
            return damage.count(Damage::FlowStepWithoutStart, None);
        };
        let from = std::mem::replace(latest, slice);
        self.bound(self.offset, number, slice, false);
        self.connect(number, label, from, slice, slices);
    }

    /// `f` with `bp: e`: the flow arrives at the slice on top of the track. It stays started, so that any number of ends
    /// may follow: one graph launch, hundreds of kernels.
    pub(super) fn end(
        &mut self,
        id: u64,
        label: Label,
        top: Option<SliceId>,
        slices: &Slices,
        damage: &mut DamageReport,
    ) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.end_at(number, label, slice, slices, damage),
        }
    }

    fn end_at(&mut self, number: u64, label: Label, slice: SliceId, slices: &Slices, damage: &mut DamageReport) {
        match self.live().started.get(&number).copied() {
            Some(from) => {
                self.bound(self.offset, number, slice, false);
                self.connect(number, label, from, slice, slices);
            }
            None => damage.count(Damage::FlowEndWithoutStart, None),
        }
    }

    /// `f` without `bp`: the flow arrives at the next slice on the track.
    pub(super) fn park(&mut self, id: u64, label: Label, track: TrackId) {
        let number = self.number(id, label);
        self.parked.entry(track).or_default().push((number, label, self.offset));
    }

    /// A slice was opened on a track: the flows that waited for it arrive. One that was never started leaves the first slice of
    /// its trace, as in Perfetto.
    pub(super) fn opened(&mut self, track: TrackId, slice: SliceId, first: impl Fn() -> SliceId) {
        if self.parked.is_empty() {
            return;
        }
        for (number, label, offset) in self.parked.remove(&track).unwrap_or_default() {
            let from = *self.live().started.entry(number).or_insert_with(&first);
            self.bound(offset, number, slice, false);
            self.push(number, label, from, slice);
        }
    }

    fn bound(&mut self, offset: Option<u64>, flow: u64, slice: SliceId, is_start: bool) {
        self.ends.extend(offset.map(|offset| FlowEnd { offset, flow, slice, is_start }));
    }

    /// `bind_id` on a slice.
    pub(super) fn bind(
        &mut self,
        bind: crate::event::Bind,
        slice: SliceId,
        slices: &Slices,
        damage: &mut DamageReport,
    ) {
        let Some(id) = bind.id else { return damage.count(Damage::FlowInvalidId, None) };
        let label = (StringId::NULL, StringId::NULL);
        match (bind.flow_in, bind.flow_out) {
            (true, true) => self.step_at(id, label, slice, slices, damage),
            (false, true) => self.start_at(id, slice, damage),
            (true, false) => self.end_at(id, label, slice, slices, damage),
            (false, false) => damage.count(Damage::FlowWithoutDirection, None),
        }
    }

    /// A flow of Perfetto's own format passes a slice: it leaves from there if it is not under way, otherwise it arrives.
    pub(super) fn pass(&mut self, id: u64, slice: SliceId, terminates: bool, slices: &Slices) {
        let started = &mut self.live().started;
        let from = if terminates { started.remove(&id) } else { started.insert(id, slice) };
        if let Some(from) = from {
            self.connect(id, (StringId::NULL, StringId::NULL), from, slice, slices);
        }
    }

    /// The slice that starts earlier is the one that the flow leaves, whichever end was met first.
    fn connect(&mut self, number: u64, label: Label, from: SliceId, to: SliceId, slices: &Slices) {
        let flipped = slices.ts(from) > slices.ts(to);
        let (from, to) = if flipped { (to, from) } else { (from, to) };
        self.push(number, label, from, to);
    }

    fn push(&mut self, number: u64, label: Label, from: SliceId, to: SliceId) {
        self.flows.slice_out.push(from);
        self.flows.slice_in.push(to);
        self.flows.trace_id.push(number);
        self.flows.label.push(label);
    }
}
