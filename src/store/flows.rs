//! Flows: the arrows between slices, bound as Perfetto binds them.
//!
//! An arrow's ends are bound to whatever slice is on top of their track when the end is reached in time order, even one
//! that ended long ago. That is wrong for kernels which overlap on one stream, and it is what everybody's SQL expects; the
//! truth about launches is found elsewhere, by correlation ids.

use std::collections::HashMap;

use super::places::ArrowEnd;
use super::slices::Slices;
use super::strings::StringId;
use crate::damage::{Damage, DamageReport};

/// All arrows, in the order in which they were closed.
#[derive(Debug, Default)]
pub struct Flows {
    /// The slice that an arrow leaves.
    pub slice_out: Vec<u32>,
    /// The slice at which it arrives.
    pub slice_in: Vec<u32>,
    /// Perfetto's number for the arrow: a running number for `s`/`t`/`f`, the file's own for `bind_id`.
    pub trace_id: Vec<u64>,
    /// Name and category of the arrow; both NULL for `bind_id`.
    pub label: Vec<(StringId, StringId)>,
}

impl Flows {
    /// How many arrows there are.
    pub fn len(&self) -> usize {
        self.slice_out.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slice_out.is_empty()
    }
}

type Label = (StringId, StringId);

/// Binds the ends of arrows while the slices are laid in time order.
#[derive(Default)]
pub(super) struct Binder {
    pub(super) flows: Flows,
    /// By trace.
    arrows: Vec<Arrows>,
    /// The trace whose events come now.
    trace: usize,
    /// Ends that wait for the next slice on their track.
    parked: HashMap<u32, Vec<Parked>>,
    /// Where the event stands that is being bound, if that is to be kept.
    pub(super) place: Option<u64>,
    /// The events that were bound, if their places are to be kept.
    pub(super) ends: Vec<ArrowEnd>,
}

/// The arrows of one trace: others number theirs alike.
#[derive(Default)]
struct Arrows {
    numbers: HashMap<(u64, Label), u64, foldhash::fast::FixedState>,
    /// The latest slice of each arrow that has been started.
    started: HashMap<u64, u32, foldhash::fast::FixedState>,
}

/// An arrow's number, its label, and where its end stands if that is to be kept.
type Parked = (u64, Label, Option<u64>);

impl Binder {
    /// For so many traces.
    pub(super) fn new(traces: usize) -> Self {
        Binder { arrows: std::iter::repeat_with(Arrows::default).take(traces).collect(), ..Binder::default() }
    }

    /// What comes next is of this trace.
    #[inline]
    pub(super) fn go_to_trace(&mut self, trace: usize) {
        self.trace = trace;
    }

    fn arrows(&mut self) -> &mut Arrows {
        &mut self.arrows[self.trace]
    }

    /// Perfetto's number for an arrow of `s`, `t`, `f`: the same id, category and name are the same arrow.
    fn number(&mut self, id: u64, label: Label) -> u64 {
        let numbers = &mut self.arrows().numbers;
        let next = numbers.len() as u64;
        *numbers.entry((id, label)).or_insert(next)
    }

    /// `s`: the arrow leaves the slice on top of the track.
    pub(super) fn start(&mut self, id: u64, label: Label, top: Option<u32>, damage: &mut DamageReport) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.start_at(number, slice, damage),
        }
    }

    fn start_at(&mut self, number: u64, slice: u32, damage: &mut DamageReport) {
        if self.arrows().started.contains_key(&number) {
            return damage.count(Damage::FlowDuplicateId, None);
        }
        self.arrows().started.insert(number, slice);
        self.bound(self.place, number, slice, true);
    }

    /// `t`: the arrow arrives at the slice on top of the track, and leaves it again.
    pub(super) fn step(&mut self, id: u64, label: Label, top: Option<u32>, slices: &Slices, damage: &mut DamageReport) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.step_at(number, label, slice, slices, damage),
        }
    }

    fn step_at(&mut self, number: u64, label: Label, slice: u32, slices: &Slices, damage: &mut DamageReport) {
        let Some(latest) = self.arrows().started.get_mut(&number) else {
            return damage.count(Damage::FlowStepWithoutStart, None);
        };
        let from = std::mem::replace(latest, slice);
        self.bound(self.place, number, slice, false);
        self.arrow(number, label, from, slice, slices);
    }

    /// `f` with `bp: e`: the arrow arrives at the slice on top of the track. It stays started, so that any number of ends
    /// may follow: one graph launch, hundreds of kernels.
    pub(super) fn end(&mut self, id: u64, label: Label, top: Option<u32>, slices: &Slices, damage: &mut DamageReport) {
        let number = self.number(id, label);
        match top {
            None => damage.count(Damage::FlowNoEnclosingSlice, None),
            Some(slice) => self.end_at(number, label, slice, slices, damage),
        }
    }

    fn end_at(&mut self, number: u64, label: Label, slice: u32, slices: &Slices, damage: &mut DamageReport) {
        match self.arrows().started.get(&number).copied() {
            Some(from) => {
                self.bound(self.place, number, slice, false);
                self.arrow(number, label, from, slice, slices);
            }
            None => damage.count(Damage::FlowEndWithoutStart, None),
        }
    }

    /// `f` without `bp`: the arrow arrives at the next slice on the track.
    pub(super) fn park(&mut self, id: u64, label: Label, track: u32) {
        let number = self.number(id, label);
        self.parked.entry(track).or_default().push((number, label, self.place));
    }

    /// A slice was opened on a track: the arrows that waited for it arrive. One that was never started leaves the first slice of
    /// its trace, as in Perfetto.
    pub(super) fn opened(&mut self, track: u32, slice: u32, first: impl Fn() -> u32) {
        if self.parked.is_empty() {
            return;
        }
        for (number, label, place) in self.parked.remove(&track).unwrap_or_default() {
            let from = *self.arrows().started.entry(number).or_insert_with(&first);
            self.bound(place, number, slice, false);
            self.push(number, label, from, slice);
        }
    }

    fn bound(&mut self, place: Option<u64>, arrow: u64, slice: u32, is_start: bool) {
        self.ends.extend(place.map(|place| ArrowEnd { place, arrow, slice, is_start }));
    }

    /// `bind_id` on a slice.
    pub(super) fn bind(&mut self, bind: crate::event::Bind, slice: u32, slices: &Slices, damage: &mut DamageReport) {
        let Some(id) = bind.id else { return damage.count(Damage::FlowInvalidId, None) };
        let label = (StringId::NULL, StringId::NULL);
        match (bind.flow_in, bind.flow_out) {
            (true, true) => self.step_at(id, label, slice, slices, damage),
            (false, true) => self.start_at(id, slice, damage),
            (true, false) => self.end_at(id, label, slice, slices, damage),
            (false, false) => damage.count(Damage::FlowWithoutDirection, None),
        }
    }

    /// An arrow of Perfetto's own format passes a slice: it leaves from there if it is not under way, otherwise it arrives.
    pub(super) fn pass(&mut self, id: u64, slice: u32, terminates: bool, slices: &Slices) {
        let started = &mut self.arrows().started;
        let from = if terminates { started.remove(&id) } else { started.insert(id, slice) };
        if let Some(from) = from {
            self.arrow(id, (StringId::NULL, StringId::NULL), from, slice, slices);
        }
    }

    /// The slice that starts earlier is the one that the arrow leaves, whichever end was met first.
    fn arrow(&mut self, number: u64, label: Label, from: u32, to: u32, slices: &Slices) {
        let flipped = slices.ts(from as usize) > slices.ts(to as usize);
        let (from, to) = if flipped { (to, from) } else { (from, to) };
        self.push(number, label, from, to);
    }

    fn push(&mut self, number: u64, label: Label, from: u32, to: u32) {
        self.flows.slice_out.push(from);
        self.flows.slice_in.push(to);
        self.flows.trace_id.push(number);
        self.flows.label.push(label);
    }
}
