//! What calls that wait for a GPU waited for.
//!
//! No trace says it, so it is concluded from when things ended. On the real traces that were measured, a call that waited returned 2.8 to 22 µs after the
//! end of what it waited for: 5.5 to 9.1 µs for a device, 4.1 to 9 for a stream, 5.9 to 9.2 for an event, 6 to 22 for a copy; none between 22 and 30.
//! What ended later than that is a coincidence: a kernel of another stream, or of the rest of a graph.
//! So a call waited for the latest end in that span, in whatever stream, of what had been launched when the call began. An end that nothing shows is unknown:
//! a long call without one is neither work of the CPU nor a wait for what was launched last.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use crate::id::ThreadId;
use crate::statistics::median_time;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// A thread needs at least this from the end of what it waited for to its return.
const SOONEST: Ns = Ns(2_500);

/// If all times are whole microseconds, both of these may be off by a half.
const ROUNDED: Ns = Ns(1_000);

/// And at most this.
const LATEST: Ns = Ns(25_000);

/// A call for the device that is longer than this cannot have returned before an end inside it. What comes after is the profiler, which writes its buffers.
const PROFILED: Ns = Ns(500_000);

/// So long after that end such a call would have returned: the most that was measured.
const WAKE: Ns = Ns(9_100);

/// A call that waits for nothing takes no longer than this by itself: streams 3 µs (median), events 7, devices 13.
const USUAL: Ns = Ns(10_000);

/// The same of a call for the device that waits.
const USUAL_OF_DEVICE: Ns = Ns(5_000);

/// A call for an event that is longer than this many times its usual length, and by this, may have waited.
const LONGER: f64 = 1.5;
const LONGER_BY: Ns = Ns(4_000);

/// What a call that waited for nothing may take as work of the CPU: three times its usual length, at least this; of one for the device a millisecond, since
/// 443 µs were measured at the end of a profile.
const WORK: Ns = Ns(50_000);
const WORK_OF_DEVICE: Ns = Ns(1_000_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitsFor {
    Stream,
    Device,
    Event,
}

impl WaitsFor {
    /// By the name of a call that waits.
    pub(super) fn of_name(name: &str) -> Self {
        if name.contains("DeviceSynchronize") || name.contains("CtxSynchronize") {
            WaitsFor::Device
        } else if name.contains("EventSynchronize") {
            WaitsFor::Event
        } else {
            WaitsFor::Stream
        }
    }
}

/// A slice on a stream, as far as a call may have waited for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) end: Ns,
    pub(super) stream: ThreadId,
    /// When its call began, and on which lane; `None` if it is not recorded.
    pub(super) launch: Option<(Ns, u32)>,
}

impl Work {
    fn launched(&self) -> Ns {
        self.launch.map_or(Ns::MIN, |(at, _)| at)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) name: StringId,
    pub(super) waits_for: WaitsFor,
    pub(super) window: Window,
    pub(super) lane: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waited {
    /// For a slice: from when, and when the call was back; what comes after that is the profiler's.
    For { work: usize, since: Ns, until: Ns },
    /// For nothing: it is work of the CPU. If these take longer, it would wait for them.
    Nothing(Vec<usize>),
    /// Nobody knows: since when.
    Unknown(Ns),
}

/// The last of several values in a row that are at most something.
#[derive(Debug, Default)]
struct LastAtMost {
    /// By node of a binary tree over the values: the least below it. The root is at 1.
    least: Vec<Ns>,
}

impl LastAtMost {
    fn new(values: impl ExactSizeIterator<Item = Ns>) -> Self {
        let leaves = (values.len() + 1).next_power_of_two();
        let mut least = vec![Ns::MAX; leaves];
        least.extend(values);
        least.resize(2 * leaves, Ns::MAX);
        (1..leaves).rev().for_each(|at| least[at] = least[2 * at].min(least[2 * at + 1]));
        LastAtMost { least }
    }

    /// The last position before another one whose value is at most `most`.
    fn before(&self, end: usize, most: Ns) -> Option<usize> {
        let leaves = self.least.len() / 2;
        // Up from the end, until a subtree that is wholly before it has one.
        let mut at = leaves + end;
        loop {
            while at > 1 && at.is_multiple_of(2) {
                at /= 2;
            }
            if at <= 1 {
                return None;
            }
            at -= 1;
            if self.least[at] <= most {
                break;
            }
        }
        while at < leaves {
            at = if self.least[2 * at + 1] <= most { 2 * at + 1 } else { 2 * at };
        }
        Some(at - leaves)
    }
}

/// Slices by their ends.
struct ByEnd {
    /// Their ends, and which they are.
    ends: Vec<(Ns, usize)>,
    launched: LastAtMost,
}

impl ByEnd {
    fn new(work: &[Work], which: impl Iterator<Item = usize>) -> Self {
        let mut ends: Vec<(Ns, usize)> = which.map(|at| (work[at].end, at)).collect();
        ends.sort_unstable();
        let launched = LastAtMost::new(ends.iter().map(|(_, at)| work[*at].launched()));
        ByEnd { ends, launched }
    }

    /// The one that ends last after `after` and up to `until`, of those launched by the time of a call.
    fn last(&self, after: Ns, until: Ns, launched: Ns) -> Option<usize> {
        let end = self.ends.partition_point(|(end, _)| *end <= until);
        let (end, at) = self.ends[self.launched.before(end, launched)?];
        (end > after).then_some(at)
    }

    fn has_within(&self, window: Window) -> bool {
        let after = self.ends.partition_point(|(end, _)| *end <= window.start);
        self.ends.get(after).is_some_and(|(end, _)| *end < window.end)
    }
}

pub(super) struct Waits<'a> {
    work: &'a [Work],
    all: ByEnd,
    /// After which an event may have been recorded.
    of_events: ByEnd,
    /// By lane: what it launched, in that order, with its ends.
    of_lanes: BTreeMap<u32, (Vec<(Ns, usize)>, LastAtMost)>,
    /// How soon a thread wakes up.
    soonest: Ns,
    /// By name of a call: how long it takes if it waits for nothing.
    usual: HashMap<StringId, Ns, FixedState>,
}

impl<'a> Waits<'a> {
    /// `calls` are all that wait for others' work; `records` when events were recorded, in order.
    pub(super) fn find(work: &'a [Work], calls: &[Waiting], records: &[Ns]) -> Self {
        let all = ByEnd::new(work, 0..work.len());
        let mut lengths: HashMap<StringId, Vec<Ns>, FixedState> = HashMap::default();
        for call in calls.iter().filter(|call| !all.has_within(call.window)) {
            lengths.entry(call.name).or_default().push(call.window.duration());
        }
        let usual = lengths.into_iter().map(|(name, mut of)| (name, median_time(&mut of).min(USUAL))).collect();
        let mut lanes: BTreeMap<u32, Vec<(Ns, usize)>> = BTreeMap::new();
        for (at, of) in work.iter().enumerate() {
            of.launch.into_iter().for_each(|(start, lane)| lanes.entry(lane).or_default().push((start, at)));
        }
        let by_launch = |(lane, mut of): (u32, Vec<(Ns, usize)>)| {
            of.sort_unstable();
            let ends = LastAtMost::new(of.iter().map(|(_, at)| work[*at].end));
            (lane, (of, ends))
        };
        let of_events = ByEnd::new(work, before_events(work, records).into_iter());
        let is_rounded = work.iter().all(|of| of.end.0 % ROUNDED.0 == 0);
        let soonest = if is_rounded { SOONEST - ROUNDED } else { SOONEST };
        Waits { work, all, soonest, of_events, of_lanes: lanes.into_iter().map(by_launch).collect(), usual }
    }

    pub(super) fn waited_for(&self, call: &Waiting) -> Waited {
        let Window { start, end } = call.window;
        let length = call.window.duration();
        let usual = self.usual.get(&call.name).copied().unwrap_or(USUAL);
        let ends = if call.waits_for == WaitsFor::Event { &self.of_events } else { &self.all };
        let may_wait = call.waits_for != WaitsFor::Event || length > longer(usual);
        let found = ends.last(start.max(end - LATEST - Ns(1)), end - self.soonest, start).filter(|_| may_wait);
        let is_device = call.waits_for == WaitsFor::Device;
        let own = if is_device { usual.min(USUAL_OF_DEVICE) } else { usual };
        if let Some(work) = found {
            return Waited::For { work, since: self.work[work].end.min(start + own), until: end };
        }
        // It cannot have returned before.
        let inside = ends.last(start, end - self.soonest, start).filter(|_| is_device && length > PROFILED);
        if let Some(work) = inside {
            let ended = self.work[work].end;
            return Waited::For { work, since: ended.min(start + own), until: end.min(ended + WAKE) };
        }
        let work = if is_device { WORK_OF_DEVICE } else { WORK.max(Ns(3 * usual.0)) };
        match length > work {
            true => Waited::Unknown(start + own),
            false => Waited::Nothing(self.may_wait_for(call)),
        }
    }

    /// What was launched last, and had ended by the return of a call, by its thread; if it waits for the device, by each thread. Nothing says what an event
    /// follows.
    fn may_wait_for(&self, call: &Waiting) -> Vec<usize> {
        let last = |(launched, ends): &(Vec<(Ns, usize)>, LastAtMost)| {
            let before = launched.partition_point(|(at, _)| *at <= call.window.start);
            Some(launched[ends.before(before, call.window.end)?].1)
        };
        match call.waits_for {
            WaitsFor::Event => Vec::new(),
            WaitsFor::Device => self.of_lanes.values().filter_map(last).collect(),
            WaitsFor::Stream => self.of_lanes.get(&call.lane).and_then(last).into_iter().collect(),
        }
    }
}

/// How long a call for an event is that may have waited.
fn longer(usual: Ns) -> Ns {
    Ns((LONGER * usual.as_f64()) as i64).max(usual + LONGER_BY)
}

/// The slices after which an event may have been recorded: the last of each launch on its stream, so none within a graph, if one was recorded between that launch
/// and the next one onto that stream. Where none is recorded at all, that is unknown, and each may be followed by one.
fn before_events(work: &[Work], records: &[Ns]) -> Vec<usize> {
    let mut streams: BTreeMap<ThreadId, Vec<(Ns, Ns, usize)>> = BTreeMap::new();
    for (at, of) in work.iter().enumerate() {
        streams.entry(of.stream).or_default().push((of.launched(), of.end, at));
    }
    let mut found = Vec::new();
    for mut launched in streams.into_values() {
        launched.sort_unstable();
        let mut launches = launched.chunk_by(|one, other| one.0 == other.0).peekable();
        while let Some(launch) = launches.next() {
            if launch[0].0 == Ns::MIN {
                // From before the recording.
                found.extend(launch.iter().map(|(_, _, at)| *at));
                continue;
            }
            let next = launches.peek().map_or(Ns::MAX, |next| next[0].0);
            let recorded = records.get(records.partition_point(|at| *at <= launch[0].0));
            if records.is_empty() || recorded.is_some_and(|at| *at < next) {
                found.extend(launch.last().map(|(_, _, at)| *at));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::random::Random;

    #[test]
    fn the_last_value_that_is_small_enough_is_found() {
        let mut random = Random(7);
        for length in [0, 1, 2, 3, 8, 9, 100] {
            let values: Vec<Ns> = (0..length).map(|_| Ns(random.below(20) as i64)).collect();
            let tree = LastAtMost::new(values.iter().copied());
            for (end, most) in (0..=length).flat_map(|end| (-1..21).map(move |most| (end, Ns(most)))) {
                let plain = values[..end].iter().rposition(|value| *value <= most);
                assert_eq!(tree.before(end, most), plain, "{values:?} before {end}, at most {most}");
            }
        }
    }
}
