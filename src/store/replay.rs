//! Running through the events in time order: slices are laid, open ones closed, flows bound.

use super::args::{ArgSetId, Args};
use super::flows::Binder;
use super::nest::{Layer, NewSlice};
use super::strings::StringId;
use super::tracks::Tracks;
use crate::damage::{Damage, DamageReport};
use crate::event::Bind;

/// An event as kept until the trace is complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw {
    pub(super) ts: i64,
    /// The length of a slice, the id of a flow.
    pub(super) value: i64,
    pub(super) track: u32,
    pub(super) name: StringId,
    pub(super) category: StringId,
    pub(super) args: ArgSetId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawKind {
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
    pub(super) thread_time: Option<(Option<i64>, Option<i64>)>,
}

/// See the file's header.
pub(super) struct Replay {
    pub(super) layer: Layer,
    pub(super) binder: Binder,
    pub(super) args: Args,
    pub(super) damage: DamageReport,
}

impl Replay {
    pub(super) fn new(tracks: Tracks, args: Args, damage: DamageReport, capacity: usize) -> Self {
        Replay { layer: Layer::new(tracks, capacity), binder: Binder::default(), args, damage }
    }

    /// The next event in order.
    pub(super) fn event(&mut self, kind: RawKind, raw: Raw, extra: Extra) {
        match kind {
            RawKind::Complete => self.slice(raw, Some(raw.value), extra),
            RawKind::Instant => self.slice(raw, Some(0), extra),
            RawKind::Begin => self.slice(raw, None, extra),
            RawKind::End => self.end(raw, extra),
            RawKind::FlowInvalid => self.damage.count(Damage::FlowInvalidId, None),
            RawKind::FlowStart | RawKind::FlowStep | RawKind::FlowEnd | RawKind::FlowEndAtNext => self.flow(kind, raw),
        }
    }

    fn slice(&mut self, raw: Raw, dur: Option<i64>, extra: Extra) {
        let Raw { ts, track, name, category, args, .. } = raw;
        let new = NewSlice { ts, dur, track, name, category, args };
        let Some((row, track)) = self.layer.lay(new, &mut self.damage) else { return };
        self.binder.opened(track, row);
        if let Some(bind) = extra.bind {
            self.binder.bind(bind, row, &self.layer.slices.ts, &mut self.damage);
        }
        if let Some(times) = extra.thread_time {
            self.layer.slices.thread_times.insert(row, times);
        }
    }

    fn end(&mut self, raw: Raw, extra: Extra) {
        let Some(row) = self.layer.close(raw.track, raw.ts, raw.name, raw.category, &mut self.damage) else { return };
        let slices = &mut self.layer.slices;
        let set = &mut slices.args[row as usize];
        *set = self.args.merge(*set, raw.args);
        if let (Some(times), Some((Some(end), _))) = (slices.thread_times.get_mut(&row), extra.thread_time) {
            times.1 = times.0.map(|start| end.saturating_sub(start));
        }
    }

    fn flow(&mut self, kind: RawKind, raw: Raw) {
        let (id, label) = (raw.value as u64, (raw.name, raw.category));
        let top = self.layer.top(raw.track);
        let (ts, damage) = (&self.layer.slices.ts, &mut self.damage);
        match kind {
            RawKind::FlowStart => self.binder.start(id, label, top, damage),
            RawKind::FlowStep => self.binder.step(id, label, top, ts, damage),
            RawKind::FlowEnd => self.binder.end(id, label, top, ts, damage),
            _ => self.binder.park(id, label, raw.track),
        }
    }
}
