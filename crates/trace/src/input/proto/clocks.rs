//! Clocks: converts the time of a packet's clock to the trace's clock.
//!
//! A snapshot has the times of several clocks at one instant. The last snapshot of both clocks that is not later converts, or the first
//! one; if no snapshot has both, the conversion goes through other clocks, in at most four steps, as in Perfetto.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use super::messages::{ClockSnapshot, ClockTime};
use super::wire::Malformed;

/// A clock: its number, and its sequence if it is local to one; 0 otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Clock {
    pub(super) number: u64,
    pub(super) sequence: u64,
}

impl Clock {
    /// Clocks 64 to 127 are local to a sequence.
    pub(super) fn new(number: u64, sequence: u64) -> Self {
        Clock { number, sequence: if (64..128).contains(&number) { sequence } else { 0 } }
    }
}

/// `BUILTIN_CLOCK_BOOTTIME`, the default of a trace's clock.
const BOOTTIME: u64 = 6;

const MAX_HOPS: usize = 4;

/// How many clocks a search visits: real traces have a dozen and one for each sequence; the common ones, with small numbers, come first.
const MAX_SEEN: usize = 256;

/// The most clocks of a snapshot; real ones have seven.
const MAX_CLOCKS: usize = 64;

#[derive(Debug, Clone, Copy)]
struct Unit {
    /// In ns.
    multiplier: u64,
    /// The last time of an incremental clock, in its unit: each time is written as the difference to it.
    running: Option<u64>,
}

/// Snapshots of the same clocks: their times in ns, in file order.
type Snapshots = Vec<Vec<i64>>;

/// The groups that have a clock, in order of their clocks.
type ClockSets = BTreeSet<(Rc<[Clock]>, usize)>;

/// A step of a conversion: the number of the group, and the columns of the source and the target clock in it.
type Hop = (usize, usize, usize);

#[derive(Debug, Default)]
pub(super) struct Clocks {
    of_trace: Option<Clock>,
    units: HashMap<Clock, Unit, foldhash::fast::FixedState>,
    groups: Vec<Snapshots>,
    /// The group with exactly these clocks.
    by_clocks: HashMap<Rc<[Clock]>, usize, foldhash::fast::FixedState>,
    with_clock: HashMap<Clock, ClockSets, foldhash::fast::FixedState>,
    /// Clocks that went backwards: their times are ambiguous.
    backwards: HashSet<Clock, foldhash::fast::FixedState>,
    /// By clock: the steps to the trace's clock, if there are any, and the value of `changes` when they were found.
    ways: HashMap<Clock, (u64, Option<Vec<Hop>>), foldhash::fast::FixedState>,
    /// How often a snapshot may have changed the steps.
    changes: u64,
}

impl Clocks {
    /// Adds a `ClockSnapshot` of a sequence, unless the trace's clock goes backwards in it. Returns whether it was added.
    pub(super) fn snapshot(&mut self, message: &[u8], sequence: u64) -> Result<bool, Malformed> {
        let (mut shown, mut units) = (BTreeMap::new(), Vec::new());
        let message = ClockSnapshot::read(message)?;
        for clock in message.clocks() {
            if units.len() >= MAX_CLOCKS {
                return Err(Malformed);
            }
            let ClockTime { clock, timestamp, is_incremental, unit, .. } = clock?;
            let (clock, multiplier) = (Clock::new(clock, sequence), unit.max(1));
            // Only a clock that is local to a sequence can be incremental.
            let running = (is_incremental && clock.sequence != 0).then_some(timestamp);
            shown.insert(clock, in_ns(timestamp, multiplier));
            units.push((clock, Unit { multiplier, running }));
        }
        if self.of_trace.is_none() {
            let boottime = Clock::new(BOOTTIME, 0);
            let primary = (message.primary != 0).then(|| Clock::new(message.primary, sequence));
            self.of_trace = primary.or(shown.contains_key(&boottime).then_some(boottime));
            self.changes += 1;
        }
        let (clocks, times): (Vec<_>, Vec<_>) = shown.into_iter().unzip();
        let group = match self.by_clocks.get(&*clocks) {
            Some(group) => *group,
            None => self.add_group(clocks.as_slice().into()),
        };
        if let Some(before) = self.groups[group].last() {
            let back = (0..clocks.len()).filter(|at| times[*at] < before[*at]);
            let back: Vec<Clock> = back.map(|at| clocks[at]).collect();
            if back.iter().any(|clock| Some(*clock) == self.of_trace) {
                return Ok(false);
            }
            for clock in back {
                self.changes += u64::from(self.backwards.insert(clock));
            }
        }
        self.groups[group].push(times);
        self.units.extend(units);
        Ok(true)
    }

    fn add_group(&mut self, clocks: Rc<[Clock]>) -> usize {
        let group = self.groups.len();
        for clock in &*clocks {
            self.with_clock.entry(*clock).or_default().insert((Rc::clone(&clocks), group));
        }
        self.by_clocks.insert(clocks, group);
        self.groups.push(Snapshots::new());
        self.changes += 1;
        group
    }

    /// A time as written, in ns of its own clock. Advances an incremental clock.
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

    /// A clock's time on the trace's clock, in ns; `None` if no snapshots link the two. A time without a clock is on the trace's.
    pub(super) fn on_trace(&mut self, clock: Option<Clock>, ns: i64) -> Option<i64> {
        let of_trace = self.of_trace.unwrap_or(Clock::new(BOOTTIME, 0));
        let Some(clock) = clock.filter(|clock| *clock != of_trace) else { return Some(ns) };
        if self.ways.get(&clock).is_none_or(|(changes, _)| *changes != self.changes) {
            let way = self.way(clock, of_trace);
            self.ways.insert(clock, (self.changes, way));
        }
        let way = self.ways.get(&clock)?.1.as_ref()?;
        way.iter().try_fold(ns, |ns, (group, from, to)| {
            let rows = &self.groups[*group];
            let row = &rows[rows.partition_point(|row| row[*from] <= ns).saturating_sub(1)];
            ns.checked_sub(row[*from])?.checked_add(row[*to])
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn way(&self, from: Clock, to: Clock) -> Option<Vec<Hop>> {
        let mut seen = HashSet::from([from]);
        let mut ends = vec![(from, Vec::<Hop>::new())];
        let mut visited = 0;
        for _ in 0..MAX_HOPS {
            let mut further = Vec::new();
            // A clock that went backwards may be a target, but not a source.
            for (end, way) in ends.iter().filter(|(end, _)| !self.backwards.contains(end)) {
                for (clocks, group) in self.with_clock.get(end).into_iter().flatten() {
                    let at = clocks.binary_search(end).ok()?;
                    // The target is checked first, so that the limit never hides it.
                    if let Ok(last) = clocks.binary_search(&to) {
                        return Some([&way[..], &[(*group, at, last)]].concat());
                    }
                    for (place, next) in clocks.iter().enumerate() {
                        visited += 1;
                        if visited > MAX_SEEN {
                            return None;
                        }
                        if seen.insert(*next) {
                            further.push((*next, [&way[..], &[(*group, at, place)]].concat()));
                        }
                    }
                }
            }
            ends = further;
        }
        None
    }
}

/// A time in ns. One beyond `i64` is before all time: Perfetto would take it for negative.
fn in_ns(units: u64, multiplier: u64) -> i64 {
    i64::try_from(units.saturating_mul(multiplier)).unwrap_or(i64::MIN)
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

    /// A refused snapshot changes nothing.
    #[test]
    fn a_snapshot_has_so_many_clocks() {
        let mut clocks = Clocks::default();
        let many: Vec<_> = (0..=MAX_CLOCKS as u8).map(|n| (n + 1, 5, &[0x20, 2][..])).collect();
        assert_eq!(clocks.snapshot(&snapshot(&many), 1), Err(Malformed));
        assert!(clocks.units.is_empty() && clocks.is_empty());
        clocks.snapshot(&snapshot(&many[1..]), 1).unwrap();
        assert_eq!(clocks.units.len(), MAX_CLOCKS);
    }
}
