//! Where the time between launches, and between collectives, went: the functions of the launching thread by their own time, and the
//! kernels that ran.
//!
//! One rank's segments say little by themselves. Compared with those of other ranks they say why a rank was late. Segments that begin
//! and end with the same stacks form a class, of which sums are kept; of a segment that is much longer than its class's median its own
//! parts are kept, too. So a part of a trace stays small, however many launches it has.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::reduction::{Class, Outlier, Segment};
use crate::id::{SliceId, ThreadId};
use crate::names::calls::waits_for_gpu;
use crate::names::frames::fold;
use crate::statistics::middle;
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// How many functions or kernels of a class are kept.
const PARTS: usize = 64;

/// The same for a single segment.
const PARTS_OF_ONE: usize = 12;

/// What is shorter is not kept of a class: a share of its time.
const SHORT: f64 = 0.001;

/// A segment is much longer than others if it is longer than their median by this and by half of it.
const MUCH_LONGER: Ns = Ns(20_000);

/// The name of the time in which a thread was in no slice.
pub(super) const OUTSIDE: &str = "(outside of any slice)";

/// Texts, each once.
#[derive(Debug, Clone, Default)]
pub(super) struct Texts {
    pub(super) list: Vec<String>,
    at: HashMap<String, u32, FixedState>,
}

impl Texts {
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if let Some(at) = self.at.get(text) {
            return *at;
        }
        let at = self.list.len() as u32;
        self.list.push(text.to_owned());
        self.at.insert(text.to_owned(), at);
        at
    }
}

/// A launch that ends a segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    pub(super) call: SliceId,
    pub(super) stack: Option<u32>,
    pub(super) step: Option<u32>,
}

/// Classes and outliers.
#[derive(Debug, Default)]
pub(super) struct Summed {
    pub(super) classes: Vec<Class>,
    pub(super) outliers: Vec<Outlier>,
}

/// One segment, before the classes are known.
struct Found {
    from: Option<u32>,
    to: Option<u32>,
    is_new_step: bool,
    start: Ns,
    call: Ns,
    end: Ns,
    /// How long of that the thread was blocked.
    blocked: Ns,
    parts: Vec<(u32, Ns)>,
}

impl Found {
    fn active(&self) -> Ns {
        self.end - self.start - self.blocked
    }
}

/// The segments that end with these launches, which are in the order of their starts. The first of a thread begins with the window, or
/// with the thread.
pub(super) fn sum_threads(
    store: &Store,
    launches: &[Launch],
    window: Window,
    texts: &mut Texts,
) -> (Vec<Segment>, Summed) {
    let mut threads: BTreeMap<ThreadId, (u32, Vec<usize>)> = BTreeMap::new();
    for (at, launch) in launches.iter().enumerate() {
        let Some(thread) = store.thread_of(launch.call) else { continue };
        let next = threads.len() as u32;
        threads.entry(thread).or_insert((next, Vec::new())).1.push(at);
    }
    let mut slices: BTreeMap<ThreadId, Vec<SliceId>> = BTreeMap::new();
    for slice in store.slices.ids() {
        if let Some(thread) = store.thread_of(slice).filter(|thread| threads.contains_key(thread)) {
            slices.entry(thread).or_default().push(slice);
        }
    }
    let mut found: Vec<Option<(u32, Found)>> = launches.iter().map(|_| None).collect();
    let mut names: HashMap<StringId, u32, FixedState> = HashMap::default();
    for (thread, (number, own)) in &threads {
        let slices = slices.get(thread).map_or(&[][..], Vec::as_slice);
        let mut segments = ends(store, launches, own, slices, window);
        own_times(store, slices, &mut segments, |name, store| {
            *names.entry(name).or_insert_with(|| texts.intern(&fold(store.strings.get(name).unwrap_or_default())))
        });
        own.iter().zip(segments).for_each(|(at, segment)| found[*at] = Some((*number, segment)));
    }
    let outside = texts.intern(OUTSIDE);
    let blocking: Vec<u32> = (0..).zip(&texts.list).filter(|(_, name)| waits_for_gpu(name)).map(|(at, _)| at).collect();
    let whole = |(thread, segment)| (thread, with_rest(segment, outside, &blocking));
    let found: Vec<(u32, Found)> = found.into_iter().flatten().map(whole).collect();
    let (classes, summed) = sum(found.iter().map(|(_, segment)| segment));
    let segment = |((thread, found), class): ((u32, Found), u32)| {
        let Found { start, call, end, blocked, .. } = found;
        Segment { thread, class, start, call, end, blocked }
    };
    (found.into_iter().zip(classes).map(segment).collect(), summed)
}

/// Adds the time in which the thread was in no slice, and finds that in which it was blocked.
fn with_rest(mut segment: Found, outside: u32, blocking: &[u32]) -> Found {
    segment.blocked = segment.parts.iter().filter(|(text, _)| blocking.contains(text)).map(|(_, time)| *time).sum();
    let inside: Ns = segment.parts.iter().map(|(_, time)| *time).sum();
    let rest = segment.end - segment.start - inside;
    if rest > Ns::ZERO {
        segment.parts.push((outside, rest));
    }
    segment
}

/// The empty segments of a thread's launches.
fn ends(store: &Store, launches: &[Launch], own: &[usize], slices: &[SliceId], window: Window) -> Vec<Found> {
    let first = slices.first().map_or(Ns::MIN, |slice| store.slices.ts(*slice));
    let (mut start, mut from, mut last_step) = (first.max(window.start), None, None);
    let segment = |at: &usize| {
        let Launch { call, stack, step } = launches[*at];
        let (ts, dur) = (store.slices.ts(call), store.slices.dur(call));
        let end = (ts + dur.max(Ns::ZERO)).max(start);
        let is_new_step = step != last_step;
        let found = Found { from, to: stack, is_new_step, start, call: ts, end, blocked: Ns::ZERO, parts: Vec::new() };
        (start, from, last_step) = (end, stack, step);
        found
    };
    own.iter().map(segment).collect()
}

/// Adds the own time of each function to the segments that it falls into: the time in which it is the innermost of its thread's slices.
fn own_times(store: &Store, slices: &[SliceId], segments: &mut [Found], mut text: impl FnMut(StringId, &Store) -> u32) {
    let mut open: Vec<(Ns, StringId)> = Vec::new();
    let mut sweep = Sweep { segments, at: 0, times: HashMap::default(), order: Vec::new() };
    let mut last = Ns::MIN;
    let mut close = |open: &mut Vec<(Ns, StringId)>, last: &mut Ns, until: Ns, sweep: &mut Sweep<'_>| {
        while let Some((end, name)) = open.pop_if(|(end, _)| *end <= until) {
            sweep.add(*last, end, text(name, store));
            *last = end.max(*last);
        }
        if let Some((_, name)) = open.last() {
            sweep.add(*last, until, text(*name, store));
        }
        *last = until.max(*last);
    };
    for slice in slices {
        let (ts, dur) = (store.slices.ts(*slice), store.slices.dur(*slice));
        if sweep.is_done(ts) {
            break;
        }
        close(&mut open, &mut last, ts, &mut sweep);
        let end = if dur == UNFINISHED { Ns::MAX } else { ts + dur };
        open.push((end, store.slices.name(*slice)));
    }
    let until = sweep.segments.last().map_or(Ns::MIN, |segment| segment.end);
    close(&mut open, &mut last, until, &mut sweep);
    sweep.flush();
}

/// Gives spans of time, in order, to the segments that they fall into.
struct Sweep<'a> {
    segments: &'a mut [Found],
    at: usize,
    times: HashMap<u32, usize, FixedState>,
    order: Vec<(u32, Ns)>,
}

impl Sweep<'_> {
    fn is_done(&self, time: Ns) -> bool {
        self.segments.last().is_none_or(|last| last.end <= time)
    }

    fn add(&mut self, from: Ns, until: Ns, text: u32) {
        let mut from = from;
        while from < until {
            let Some(segment) = self.segments.get(self.at) else { return };
            if segment.end <= from {
                self.flush();
                self.at += 1;
                continue;
            }
            from = from.max(segment.start);
            let cut = until.min(segment.end);
            if cut > from {
                let next = self.order.len();
                let place = *self.times.entry(text).or_insert(next);
                if place == next {
                    self.order.push((text, Ns::ZERO));
                }
                self.order[place].1 += cut - from;
            }
            from = from.max(cut);
        }
    }

    fn flush(&mut self) {
        self.times.clear();
        if let Some(segment) = self.segments.get_mut(self.at) {
            // No larger than it must be, because there is one for each launch; one more may follow.
            segment.parts.reserve_exact(self.order.len() + 1);
            segment.parts.append(&mut self.order);
        }
        self.order.clear();
    }
}

/// What ran on the GPU between two collectives.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub(super) from: Option<u32>,
    pub(super) to: Option<u32>,
    pub(super) is_new_step: bool,
    pub(super) start: Ns,
    pub(super) end: Ns,
}

/// What is known of one of these times: its class, and how long kernels ran in it, or none did.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfGap {
    pub(super) class: u32,
    pub(super) busy: Ns,
    pub(super) idle: Ns,
}

/// Which kernels ran in the times between collectives, which are in order; `kernels` are those that compute, in the order of their starts.
pub(super) fn sum_gaps(store: &Store, gaps: &[Gap], kernels: &[SliceId], texts: &mut Texts) -> (Vec<OfGap>, Summed) {
    let mut names: HashMap<StringId, u32, FixedState> = HashMap::default();
    let mut from = 0;
    let mut found = Vec::with_capacity(gaps.len());
    for gap in gaps {
        let end_of = |kernel: SliceId| store.slices.ts(kernel) + store.slices.dur(kernel).max(Ns::ZERO);
        while kernels.get(from).is_some_and(|kernel| end_of(*kernel) <= gap.start) {
            from += 1;
        }
        let mut parts: Vec<(u32, Ns)> = Vec::new();
        for kernel in kernels[from..].iter().copied().take_while(|kernel| store.slices.ts(*kernel) < gap.end) {
            let time = end_of(kernel).min(gap.end) - store.slices.ts(kernel).max(gap.start);
            if time <= Ns::ZERO {
                continue;
            }
            let name = store.slices.name(kernel);
            let text = *names.entry(name).or_insert_with(|| texts.intern(store.strings.get(name).unwrap_or_default()));
            match parts.iter_mut().find(|(known, _)| *known == text) {
                Some((_, known)) => *known += time,
                None => parts.push((text, time)),
            }
        }
        let Gap { from: before, to, is_new_step, start, end } = *gap;
        let end = end.max(start);
        // What counts is how long kernels ran. The GPU waits for launches in between.
        let blocked = end - start - parts.iter().map(|(_, time)| *time).sum();
        found.push(Found { from: before, to, is_new_step, start, call: end, end, blocked, parts });
    }
    let (classes, summed) = sum(found.iter());
    let of_gap =
        |(found, class): (&Found, u32)| OfGap { class, busy: found.active(), idle: found.blocked.max(Ns::ZERO) };
    (found.iter().zip(classes).map(of_gap).collect(), summed)
}

/// The class of each segment, the sums of the classes, and the parts of what is much longer.
fn sum<'f>(found: impl Iterator<Item = &'f Found> + Clone) -> (Vec<u32>, Summed) {
    let mut numbers: BTreeMap<(Option<u32>, Option<u32>, bool), u32> = BTreeMap::new();
    let mut lengths: Vec<Vec<Ns>> = Vec::new();
    let mut sums: Vec<(Class, HashMap<u32, Ns, FixedState>)> = Vec::new();
    let mut of = Vec::new();
    for segment in found.clone() {
        let next = numbers.len() as u32;
        let number = *numbers.entry((segment.from, segment.to, segment.is_new_step)).or_insert(next);
        if number == next {
            let Found { from, to, is_new_step, .. } = *segment;
            let class = Class { from, to, is_new_step, count: 0, total: Ns::ZERO, parts: Vec::new() };
            sums.push((class, HashMap::default()));
            lengths.push(Vec::new());
        }
        let (class, parts) = &mut sums[number as usize];
        class.count += 1;
        class.total += segment.active();
        segment.parts.iter().for_each(|(text, time)| *parts.entry(*text).or_default() += *time);
        lengths[number as usize].push(segment.active());
        of.push(number);
    }
    // Of two the shorter, so that the longer one can be an outlier.
    let usual = |mut lengths: Vec<Ns>| middle(&mut lengths, Ns::cmp).map_or(Ns::ZERO, |middle| middle.lower);
    let usual: Vec<Ns> = lengths.into_iter().map(usual).collect();
    let is_outlier = |segment: &Found, class: u32| {
        let (length, usual) = (segment.active(), usual[class as usize]);
        length > usual + MUCH_LONGER.max(Ns(usual.0 / 2))
    };
    let outlier = |(at, (segment, class)): (usize, (&Found, &u32))| {
        is_outlier(segment, *class)
            .then(|| Outlier { at: at as u32, parts: longest(segment.parts.clone(), PARTS_OF_ONE, Ns::ZERO) })
    };
    let outliers = found.zip(&of).enumerate().filter_map(outlier).collect();
    let class = |(class, parts): (Class, HashMap<u32, Ns, FixedState>)| {
        let short = Ns::rounded(class.total.as_f64() * SHORT);
        Class { parts: longest(parts.into_iter().collect(), PARTS, short), ..class }
    };
    (of, Summed { classes: sums.into_iter().map(class).collect(), outliers })
}

/// The longest parts, those of equal length by their text.
fn longest(mut parts: Vec<(u32, Ns)>, limit: usize, short: Ns) -> Vec<(u32, Ns)> {
    parts.retain(|(_, time)| *time > short);
    parts.sort_unstable_by_key(|(text, time)| (std::cmp::Reverse(*time), *text));
    parts.truncate(limit);
    parts
}
