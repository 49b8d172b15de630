//! Clocks: from the one that a packet's time is on to that of the trace.
//!
//! A snapshot says what several clocks showed at one moment. To get from one clock to another, the last snapshot of both that is
//! not later is taken, or the first one; if no snapshot has both, the way goes by others, at most four times, as in Perfetto.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::wire::{Fields, Malformed, Value};

/// A clock: its number, and the sequence for those that count within one only; 0 for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Clock {
    pub(super) number: u64,
    pub(super) sequence: u64,
}

impl Clock {
    /// Perfetto numbers clocks from 64 to 127 anew in each sequence.
    pub(super) fn new(number: u64, sequence: u64) -> Self {
        Clock { number, sequence: if (64..128).contains(&number) { sequence } else { 0 } }
    }
}

/// `BUILTIN_CLOCK_MONOTONIC`
pub(super) const MONOTONIC: u64 = 3;

/// `BUILTIN_CLOCK_BOOTTIME`: that of a trace which says nothing else.
const BOOTTIME: u64 = 6;

/// A way may go by so many snapshots.
const MAX_HOPS: usize = 4;

/// The fields of `ClockSnapshot` and of its `Clock`.
const CLOCKS: u32 = 1;
const PRIMARY: u32 = 2;
const CLOCK_ID: u32 = 1;
const TIMESTAMP: u32 = 2;
const IS_INCREMENTAL: u32 = 3;
const UNIT_MULTIPLIER: u32 = 4;

/// How a clock writes its times.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// How many ns one of its units has.
    multiplier: u64,
    /// For clocks whose times are each the time since the one before: the last one, in its units.
    running: Option<u64>,
}

/// A step of a way: the clocks of the snapshots by which it goes, from which of them to which.
type Hop = (Vec<Clock>, Clock, Clock);

/// What is known of clocks.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    of_trace: Option<Clock>,
    units: HashMap<Clock, Unit>,
    /// Snapshots by the clocks they have: what each showed, in ns, in file order.
    groups: BTreeMap<Vec<Clock>, Vec<Vec<i64>>>,
    /// By clock: how to get from it to the trace's, if there is a way.
    ways: HashMap<Clock, Option<Vec<Hop>>>,
}

impl Clocks {
    /// Takes a `ClockSnapshot` of a sequence.
    pub(super) fn snapshot(&mut self, message: &[u8], sequence: u64) -> Result<(), Malformed> {
        let (mut shown, mut primary) = (BTreeMap::new(), None);
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (CLOCKS, Value::Bytes(clock)) => {
                    let (clock, ns) = self.clock(clock, sequence)?;
                    shown.insert(clock, ns);
                }
                (PRIMARY, Value::Varint(number)) if number != 0 => primary = Some(Clock::new(number, sequence)),
                _ => {}
            }
        }
        if self.of_trace.is_none() {
            let boottime = Clock::new(BOOTTIME, 0);
            self.of_trace = primary.or(shown.contains_key(&boottime).then_some(boottime));
        }
        let (clocks, times): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
        let rows = self.groups.entry(clocks).or_default();
        if rows.is_empty() {
            self.ways.clear();
        }
        rows.push(times);
        Ok(())
    }

    fn clock(&mut self, message: &[u8], sequence: u64) -> Result<(Clock, i64), Malformed> {
        let (mut number, mut timestamp, mut is_incremental, mut multiplier) = (0, 0, false, 1);
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (CLOCK_ID, Value::Varint(value)) => number = value,
                (TIMESTAMP, Value::Varint(value)) => timestamp = value,
                (IS_INCREMENTAL, Value::Varint(value)) => is_incremental = value != 0,
                (UNIT_MULTIPLIER, Value::Varint(value)) => multiplier = value.max(1),
                _ => {}
            }
        }
        let clock = Clock::new(number, sequence);
        // Only a clock of one sequence can count on from packet to packet.
        let running = (is_incremental && clock.sequence != 0).then_some(timestamp);
        self.units.insert(clock, Unit { multiplier, running });
        Ok((clock, in_ns(timestamp, multiplier)))
    }

    /// A time as written, in ns of its own clock. Moves clocks on that count from packet to packet.
    pub(super) fn ns(&mut self, clock: Option<Clock>, written: u64) -> i64 {
        let Some(unit) = clock.and_then(|clock| self.units.get_mut(&clock)) else { return in_ns(written, 1) };
        let total = match &mut unit.running {
            Some(running) => {
                *running = running.wrapping_add(written);
                *running
            }
            None => written,
        };
        in_ns(total, unit.multiplier)
    }

    /// A time of a clock on the trace's clock; `None` if no snapshot ties the two together. A time on no clock is on the trace's.
    pub(super) fn on_trace(&mut self, clock: Option<Clock>, ns: i64) -> Option<i64> {
        let of_trace = self.of_trace.unwrap_or(Clock::new(BOOTTIME, 0));
        let Some(clock) = clock.filter(|clock| *clock != of_trace) else { return Some(ns) };
        if !self.ways.contains_key(&clock) {
            let way = self.way(clock, of_trace);
            self.ways.insert(clock, way);
        }
        let way = self.ways.get(&clock)?.as_ref()?;
        way.iter().try_fold(ns, |ns, (group, from, to)| {
            let rows = self.groups.get(group)?;
            let (from, to) = (group.binary_search(from).ok()?, group.binary_search(to).ok()?);
            let row = &rows[rows.partition_point(|row| row[from] <= ns).saturating_sub(1)];
            ns.checked_sub(row[from])?.checked_add(row[to])
        })
    }

    /// Whether nothing at all is known.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The shortest way from a clock to another.
    fn way(&self, from: Clock, to: Clock) -> Option<Vec<Hop>> {
        let mut seen = HashSet::from([from]);
        let mut ends = vec![(from, Vec::<Hop>::new())];
        for _ in 0..MAX_HOPS {
            let mut further = Vec::new();
            for (end, way) in &ends {
                for group in self.groups.keys().filter(|group| group.contains(end)) {
                    for next in group {
                        if !seen.insert(*next) {
                            continue;
                        }
                        let mut way = way.clone();
                        way.push((group.clone(), *end, *next));
                        if *next == to {
                            return Some(way);
                        }
                        further.push((*next, way));
                    }
                }
            }
            ends = further;
        }
        None
    }
}

/// A number of units in ns, as far as there are numbers.
fn in_ns(units: u64, multiplier: u64) -> i64 {
    i64::try_from(units.saturating_mul(multiplier)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A snapshot of clocks: number, time, further fields. All numbers are below 128.
    fn snapshot(clocks: &[(u8, u8, &[u8])]) -> Vec<u8> {
        let clock = |(number, time, more): &(u8, u8, &[u8])| {
            let message = [&[0x08, *number, 0x10, *time], *more].concat();
            [&[0x0a, message.len() as u8], &message[..]].concat()
        };
        clocks.iter().flat_map(clock).collect()
    }

    #[test]
    fn times_go_from_clock_to_clock() {
        let mut clocks = Clocks::default();
        let monotonic = Some(Clock::new(MONOTONIC, 1));
        assert_eq!(clocks.on_trace(None, 7), Some(7));
        assert_eq!(clocks.on_trace(monotonic, 7), None);
        clocks.snapshot(&snapshot(&[(6, 100, &[]), (3, 50, &[])]), 1).unwrap();
        clocks.snapshot(&snapshot(&[(6, 120, &[]), (3, 60, &[])]), 1).unwrap();
        // Before the first snapshot, between the two, and from the second on.
        assert_eq!([40, 59, 60].map(|ns| clocks.on_trace(monotonic, ns)), [Some(90), Some(109), Some(120)]);
        // By another clock.
        clocks.snapshot(&snapshot(&[(3, 50, &[]), (1, 10, &[])]), 1).unwrap();
        assert_eq!(clocks.on_trace(Some(Clock::new(1, 1)), 12), Some(102));
        assert_eq!(clocks.on_trace(Some(Clock::new(9, 1)), 12), None);
    }

    #[test]
    fn a_sequences_clock_may_count_from_packet_to_packet() {
        let mut clocks = Clocks::default();
        // Clock 64, incremental, in units of 10 ns.
        clocks.snapshot(&snapshot(&[(6, 100, &[]), (64, 5, &[0x18, 1, 0x20, 10])]), 3).unwrap();
        let clock = Some(Clock::new(64, 3));
        assert_eq!([clocks.ns(clock, 1), clocks.ns(clock, 2)], [60, 80]);
        assert_eq!(clocks.on_trace(clock, 80), Some(130));
        assert_eq!(clocks.ns(Some(Clock::new(64, 4)), 2), 2, "another sequence's");
    }
}
