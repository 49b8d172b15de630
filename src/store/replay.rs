//! Running through the events in time order: slices are laid, open ones closed, flows bound.

use super::args::Args;
use super::batch::{Extra, Raw, RawKind};
use super::flows::Binder;
use super::nest::{Layer, NewSlice};
use super::tracks::Tracks;
use crate::damage::{Damage, DamageReport};

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
    pub(super) fn event(&mut self, raw: Raw, extra: Option<&Extra>) {
        match raw.kind {
            RawKind::Complete => self.slice(raw, Some(raw.value), extra),
            RawKind::Instant => self.slice(raw, Some(0), extra),
            RawKind::Begin => self.slice(raw, None, extra),
            RawKind::End => self.end(raw, extra),
            RawKind::FlowInvalid => self.damage.count(Damage::FlowInvalidId, None),
            RawKind::FlowStart | RawKind::FlowStep | RawKind::FlowEnd | RawKind::FlowEndAtNext => self.flow(raw),
        }
    }

    fn slice(&mut self, raw: Raw, dur: Option<i64>, extra: Option<&Extra>) {
        let Raw { ts, track, name, category, args, .. } = raw;
        let new = NewSlice { ts, dur, track, name, category, args };
        let Some((row, track)) = self.layer.lay(new, &mut self.damage) else { return };
        let slices = &mut self.layer.slices;
        match extra {
            None => slices.correlation.push(raw.correlation),
            Some(extra) => {
                slices.correlation.set(row, extra.correlation);
                if extra.thread_time != (None, None) {
                    slices.thread_times.insert(row, extra.thread_time);
                }
            }
        }
        self.binder.opened(track, row);
        if let Some(bind) = extra.and_then(|extra| extra.bind) {
            self.binder.bind(bind, row, &self.layer.slices.ts, &mut self.damage);
        }
    }

    fn end(&mut self, raw: Raw, extra: Option<&Extra>) {
        let Some(row) = self.layer.close(raw.track, raw.ts, raw.name, raw.category, &mut self.damage) else { return };
        let slices = &mut self.layer.slices;
        let set = &mut slices.args[row as usize];
        *set = self.args.merge(*set, raw.args);
        let correlation = extra.map_or(raw.correlation.into(), |extra| extra.correlation);
        if correlation != 0 {
            slices.correlation.set(row, correlation);
        }
        let times = extra.map(|extra| extra.thread_time);
        if let (Some(known), Some((Some(end), _))) = (slices.thread_times.get_mut(&row), times) {
            known.1 = known.0.map(|start| end.saturating_sub(start));
        }
    }

    fn flow(&mut self, raw: Raw) {
        let (id, label) = (raw.value as u64, (raw.name, raw.category));
        let top = self.layer.top(raw.track);
        let (ts, damage) = (&self.layer.slices.ts, &mut self.damage);
        match raw.kind {
            RawKind::FlowStart => self.binder.start(id, label, top, damage),
            RawKind::FlowStep => self.binder.step(id, label, top, ts, damage),
            RawKind::FlowEnd => self.binder.end(id, label, top, ts, damage),
            _ => self.binder.park(id, label, raw.track),
        }
    }
}
