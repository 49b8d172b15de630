//! Flows between slices, bound as Perfetto binds them.
//!
//! In time order, each end of a flow is bound to the slice on top of its track, even if that ended long ago. That is wrong for kernels that overlap
//! on one stream, but SQL written for Perfetto expects it. The attribution of kernels to launches uses correlation ids instead.

use std::collections::HashMap;

use super::FlowEnd;
use super::raw::{Extras, Mark, RawKind};
use super::slices::Slices;
use super::strings::StringId;
use crate::damage::{Damage, DamageReport};
use crate::id::{SliceId, TraceId, TrackId};

/// The columns of all flows, in the order in which they were closed.
#[derive(Debug, Default)]
pub struct Flows {
    pub slice_out: Vec<SliceId>,
    pub slice_in: Vec<SliceId>,
    /// Perfetto's number for the flow: a running number for `s`/`t`/`f`, the file's own for `bind_id`.
    pub trace_id: Vec<u64>,
    /// Name and category of the flow; both NULL for `bind_id`.
    pub label: Vec<(StringId, StringId)>,
}

impl Flows {
    pub fn len(&self) -> usize {
        self.slice_out.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slice_out.is_empty()
    }
}

type Label = (StringId, StringId);

/// An event, as far as the binder needs it, in time order.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowItem {
    pub(super) trace: TraceId,
    pub(super) what: FlowEvent,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum FlowEvent {
    /// A mark by its index, and the slice that its flow leaves or reaches: the top of its track, or its own slice.
    Mark(u32, Option<SliceId>),
    /// The next slice on a track where flows wait, and the first slice of its trace.
    Opened(TrackId, SliceId, SliceId),
    /// A slice with a `bind_id`, by its row.
    Bind(u32, SliceId),
}

#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) marks: &'a [Mark],
    /// Their byte offsets in the text, if the load keeps offsets.
    pub(super) offsets: &'a [u64],
    pub(super) extras: &'a Extras,
}

/// Binds the ends of flows to the slices that nesting found for them, in time order.
pub(super) struct Binder<'a> {
    marks: Marks<'a>,
    found: Bound,
    /// By trace.
    live: Vec<LiveFlows>,
    trace: usize,
    /// Ends that wait for the next slice on their track.
    parked: HashMap<TrackId, Vec<Parked>>,
    /// The byte offset of the event that is being bound, if the load keeps offsets.
    offset: Option<u64>,
}

#[derive(Default)]
pub(super) struct Bound {
    /// The flows, in the direction they were recorded.
    pub(super) flows: Flows,
    /// By trace.
    pub(super) damage: Vec<DamageReport>,
    /// The ends that were bound, if the load keeps offsets.
    pub(super) ends: Vec<FlowEnd>,
}

/// The flows of one trace. Other traces use the same numbers.
#[derive(Default)]
struct LiveFlows {
    numbers: Numbers,
    started: Started,
}

/// Perfetto's numbers of flows: equal id, category and name mean the same flow.
///
/// Ids are correlation ids, which rise with time, and flows are numbered in time order. So blocks of neighbouring ids are kept together: the next
/// lookup is in the processor's cache.
#[derive(Default)]
struct Numbers {
    labels: HashMap<Label, u32, foldhash::fast::FixedState>,
    /// The label of the latest flow and its index, usually also that of the next flow.
    latest: Option<(Label, u32)>,
    /// By label and block.
    blocks: HashMap<(u32, u64), [u32; BLOCK], foldhash::fast::FixedState>,
    /// The number of flows numbered so far.
    count: u32,
}

/// How many ids share a block.
const BLOCK: usize = 8;

/// An empty place in a block or column.
const NONE: u32 = u32::MAX;

impl Numbers {
    /// The number of a flow, and whether it is new.
    fn number(&mut self, id: u64, label: Label) -> (u64, bool) {
        let label = self.label(label);
        let block = self.blocks.entry((label, id / BLOCK as u64)).or_insert([NONE; BLOCK]);
        let number = &mut block[(id % BLOCK as u64) as usize];
        let is_new = *number == NONE;
        if is_new {
            // There are fewer marks than 2^32, and each adds at most one number.
            *number = self.count;
            self.count += 1;
        }
        ((*number).into(), is_new)
    }

    fn label(&mut self, label: Label) -> u32 {
        if let Some((_, number)) = self.latest.filter(|(latest, _)| *latest == label) {
            return number;
        }
        let next = self.labels.len() as u32;
        let number = *self.labels.entry(label).or_insert(next);
        self.latest = Some((label, number));
        number
    }
}

/// The latest slice of each started flow, by the flow's number.
#[derive(Default)]
struct Started {
    /// By number, for flows numbered here; [`NONE`] if the flow has not started.
    numbered: Vec<u32>,
    others: HashMap<u64, SliceId, foldhash::fast::FixedState>,
}

impl Started {
    /// Makes room for the next number.
    fn add_number(&mut self) {
        // A flow to which the file gave this number is the same flow, as in Perfetto.
        let known = self.others.remove(&(self.numbered.len() as u64));
        self.numbered.push(known.map_or(NONE, |slice| slice.0));
    }

    fn get(&self, number: u64) -> Option<SliceId> {
        match self.numbered.get(number as usize) {
            Some(slice) => Some(*slice).filter(|slice| *slice != NONE).map(SliceId),
            None => self.others.get(&number).copied(),
        }
    }

    /// Sets the latest slice of a flow. Returns the previous one.
    fn set(&mut self, number: u64, slice: Option<SliceId>) -> Option<SliceId> {
        if let Some(known) = self.numbered.get_mut(number as usize) {
            let before = std::mem::replace(known, slice.map_or(NONE, |slice| slice.0));
            return Some(before).filter(|slice| *slice != NONE).map(SliceId);
        }
        match slice {
            Some(slice) => self.others.insert(number, slice),
            None => self.others.remove(&number),
        }
    }
}

/// A flow's number, its label, and the byte offset of its end if the load keeps offsets.
type Parked = (u64, Label, Option<u64>);

impl<'a> Binder<'a> {
    pub(super) fn new(marks: Marks<'a>, traces: usize) -> Self {
        Binder {
            marks,
            found: Bound { damage: vec![DamageReport::default(); traces], ..Bound::default() },
            live: std::iter::repeat_with(LiveFlows::default).take(traces).collect(),
            trace: 0,
            parked: HashMap::new(),
            offset: None,
        }
    }

    pub(super) fn finish(self) -> Bound {
        self.found
    }

    pub(super) fn run(&mut self, items: &[FlowItem]) {
        for FlowItem { trace, what } in items {
            self.trace = trace.row();
            match *what {
                FlowEvent::Mark(at, slice) => self.mark(at as usize, slice),
                FlowEvent::Opened(track, slice, first) => self.opened(track, slice, first),
                FlowEvent::Bind(row, slice) => self.bind(row, slice),
            }
        }
    }

    fn mark(&mut self, at: usize, slice: Option<SliceId>) {
        let Mark { id, name, category, track, kind, .. } = self.marks.marks[at];
        let label = (name, category);
        self.offset = self.marks.offsets.get(at).copied();
        match kind {
            RawKind::FlowStart | RawKind::FlowStep | RawKind::FlowEnd => {
                let number = self.number(id, label);
                match (kind, slice) {
                    (_, None) => self.count(Damage::FlowNoEnclosingSlice),
                    (RawKind::FlowStart, Some(slice)) => self.start(number, slice),
                    (RawKind::FlowStep, Some(slice)) => self.step(number, label, slice),
                    (_, Some(slice)) => self.end(number, label, slice),
                }
            }
            RawKind::FlowEndAtNext => self.park(id, label, track),
            RawKind::SliceFlow { terminates, .. } => self.pass(id, slice, terminates),
            _ => self.count(Damage::FlowInvalidId),
        }
        self.offset = None;
    }

    fn live(&mut self) -> &mut LiveFlows {
        &mut self.live[self.trace]
    }

    fn count(&mut self, kind: Damage) {
        self.found.damage[self.trace].count(kind, None);
    }

    fn number(&mut self, id: u64, label: Label) -> u64 {
        let live = self.live();
        let (number, is_new) = live.numbers.number(id, label);
        if is_new {
            live.started.add_number();
        }
        number
    }

    /// `s`: the flow starts at the slice on top of the track.
    fn start(&mut self, number: u64, slice: SliceId) {
        if self.live().started.get(number).is_some() {
            return self.count(Damage::FlowDuplicateId);
        }
        self.live().started.set(number, Some(slice));
        self.bound(self.offset, number, slice, true);
    }

    /// `t`: the flow arrives at the slice on top of the track and leaves it again.
    fn step(&mut self, number: u64, label: Label, slice: SliceId) {
        let Some(from) = self.live().started.get(number) else {
            return self.count(Damage::FlowStepWithoutStart);
        };
        self.live().started.set(number, Some(slice));
        self.bound(self.offset, number, slice, false);
        self.push(number, label, from, slice);
    }

    /// `f` with `bp: e`: the flow arrives at the slice on top of the track. It stays started: one graph launch has hundreds of ends.
    fn end(&mut self, number: u64, label: Label, slice: SliceId) {
        match self.live().started.get(number) {
            Some(from) => {
                self.bound(self.offset, number, slice, false);
                self.push(number, label, from, slice);
            }
            None => self.count(Damage::FlowEndWithoutStart),
        }
    }

    /// `f` without `bp`: the flow arrives at the next slice on the track.
    fn park(&mut self, id: u64, label: Label, track: TrackId) {
        let number = self.number(id, label);
        self.parked.entry(track).or_default().push((number, label, self.offset));
    }

    /// Binds the flows that waited for this slice. One that never started leaves the first slice of its trace, as in Perfetto.
    fn opened(&mut self, track: TrackId, slice: SliceId, first: SliceId) {
        for (number, label, offset) in self.parked.remove(&track).unwrap_or_default() {
            let started = &mut self.live().started;
            let from = started.get(number).unwrap_or(first);
            started.set(number, Some(from));
            self.bound(offset, number, slice, false);
            self.push(number, label, from, slice);
        }
    }

    fn bound(&mut self, offset: Option<u64>, flow: u64, slice: SliceId, is_start: bool) {
        self.found.ends.extend(offset.map(|offset| FlowEnd { offset, flow, slice, is_start }));
    }

    /// `bind_id` on a slice.
    fn bind(&mut self, row: u32, slice: SliceId) {
        let Some(bind) = self.marks.extras.binds.get(&row) else { return };
        let Some(id) = bind.id else { return self.count(Damage::FlowInvalidId) };
        let label = (StringId::NULL, StringId::NULL);
        match (bind.flow_in, bind.flow_out) {
            (true, true) => self.step(id, label, slice),
            (false, true) => self.start(id, slice),
            (true, false) => self.end(id, label, slice),
            (false, false) => self.count(Damage::FlowWithoutDirection),
        }
    }

    /// A flow in Perfetto's own format: it leaves the slice if it has not started, otherwise it arrives there.
    fn pass(&mut self, id: u64, slice: Option<SliceId>, terminates: bool) {
        let Some(slice) = slice else { return };
        let from = self.live().started.set(id, Some(slice).filter(|_| !terminates));
        if let Some(from) = from {
            self.push(id, (StringId::NULL, StringId::NULL), from, slice);
        }
    }

    fn push(&mut self, number: u64, label: Label, from: SliceId, to: SliceId) {
        let flows = &mut self.found.flows;
        flows.slice_out.push(from);
        flows.slice_in.push(to);
        flows.trace_id.push(number);
        flows.label.push(label);
    }
}

impl Flows {
    /// Turns each flow so that it leaves the earlier slice, whichever end was recorded first.
    pub(super) fn in_order_of_time(mut self, slices: &Slices) -> Self {
        for (from, to) in self.slice_out.iter_mut().zip(&mut self.slice_in) {
            // Ids follow the starts.
            if from > to && slices.ts(*from) > slices.ts(*to) {
                std::mem::swap(from, to);
            }
        }
        self
    }
}
