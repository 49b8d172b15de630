//! Flows between slices, bound as Perfetto binds them.
//!
//! In time order, each end of a flow is bound to the slice on top of its track, even to one that ended long ago. That is wrong for
//! kernels that overlap on one stream, but SQL written for Perfetto expects it. The attribution of kernels to launches does not rely
//! on it; it uses correlation ids.

use std::collections::HashMap;

use super::offsets::FlowEnd;
use super::slices::Slices;
use super::strings::StringId;
use crate::damage::{Damage, DamageReport};
use crate::id::{SliceId, TrackId};

/// The columns of all flows, in the order in which they were closed.
#[derive(Debug, Default)]
pub struct Flows {
    /// The slice that the flow leaves.
    pub slice_out: Vec<SliceId>,
    /// The slice at which it arrives.
    pub slice_in: Vec<SliceId>,
    /// Perfetto's number for the flow: a running number for `s`/`t`/`f`, the file's own for `bind_id`.
    pub trace_id: Vec<u64>,
    /// Name and category of the flow; both NULL for `bind_id`.
    pub label: Vec<(StringId, StringId)>,
}

impl Flows {
    /// Number of flows.
    pub fn len(&self) -> usize {
        self.slice_out.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slice_out.is_empty()
    }
}

/// Name and category of a flow.
type Label = (StringId, StringId);

/// Binds the ends of flows while the slices are nested in time order.
#[derive(Default)]
pub(super) struct Binder {
    pub(super) flows: Flows,
    /// By trace.
    live: Vec<LiveFlows>,
    /// The index of the trace of the current events.
    trace: usize,
    /// Ends that wait for the next slice on their track.
    parked: HashMap<TrackId, Vec<Parked>>,
    /// The byte offset of the event that is being bound, if the load keeps offsets.
    pub(super) offset: Option<u64>,
    /// The ends that were bound, if the load keeps offsets.
    pub(super) ends: Vec<FlowEnd>,
}

/// The flows of one trace. Other traces use the same numbers.
#[derive(Default)]
struct LiveFlows {
    numbers: HashMap<(u64, Label), u64, foldhash::fast::FixedState>,
    /// The latest slice of each flow that has started.
    started: HashMap<u64, SliceId, foldhash::fast::FixedState>,
}

/// A flow's number, its label, and the byte offset of its end if the load keeps offsets.
type Parked = (u64, Label, Option<u64>);

impl Binder {
    /// A binder for this number of traces.
    pub(super) fn new(traces: usize) -> Self {
        Binder { live: std::iter::repeat_with(LiveFlows::default).take(traces).collect(), ..Binder::default() }
    }

    /// The next events belong to the trace with this index.
    #[inline]
    pub(super) fn set_trace(&mut self, trace: usize) {
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

    /// Binds the flows that waited for the next slice on this track. A flow that was never started leaves the first slice of its
    /// trace, as in Perfetto.
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

    /// A flow of Perfetto's own format at a slice: it leaves the slice if it has not started, otherwise it arrives there.
    pub(super) fn pass(&mut self, id: u64, slice: SliceId, terminates: bool, slices: &Slices) {
        let started = &mut self.live().started;
        let from = if terminates { started.remove(&id) } else { started.insert(id, slice) };
        if let Some(from) = from {
            self.connect(id, (StringId::NULL, StringId::NULL), from, slice, slices);
        }
    }

    /// Adds a flow. It leaves the slice that starts earlier, whichever of its ends came first.
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
