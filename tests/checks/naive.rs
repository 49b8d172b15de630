//! Perfetto's rules of order, nesting, lanes and flows, written literally and as slow as that is: a reference to compare with.
//!
//! One list of events, sorted as a whole; every stack is walked to its bottom each time.

use std::collections::BTreeMap;

/// What an event does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A slice of this length.
    Complete(i64),
    Begin,
    End,
    Instant,
    FlowStart,
    FlowStep,
    /// At the slice that is open here, or at the next one.
    FlowEnd {
        enclosing: bool,
    },
    /// It makes no row, but takes part in the file's order of time.
    Nothing,
}

/// A track: a thread's by its process and number, or any other by a number and whether that is unique in its process only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    Thread(u8, u8),
    /// The lane with this number of a thread.
    Lane(u8, u8, usize),
    Process(u8),
    Global,
    Operation {
        process: Option<u8>,
        category: Option<u8>,
        id: u8,
    },
}

/// A flow that is bound to the slice itself.
#[derive(Debug, Clone, Copy)]
pub struct Bind {
    pub id: u64,
    pub flow_in: bool,
    pub flow_out: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub what: What,
    pub line: Line,
    pub ts: i64,
    pub name: Option<u8>,
    pub category: Option<u8>,
    /// The flow's id; `None` if it cannot be read.
    pub id: Option<u64>,
    pub bind: Option<Bind>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    pub ts: i64,
    /// -1 if it never ends.
    pub dur: i64,
    pub line: Line,
    pub depth: usize,
    pub parent: Option<usize>,
    pub name: Option<u8>,
    pub category: Option<u8>,
}

/// The label of a flow: its name and its category.
type Label = (Option<u8>, Option<u8>);

/// The slice it leaves, the slice where it arrives, its number.
pub type Flow = (usize, usize, u64);

/// What was counted.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub spilled: u64,
    pub misplaced: u64,
    pub duplicate: u64,
    pub nowhere: u64,
    pub invalid: u64,
    pub no_direction: u64,
    pub end_without_start: u64,
    pub step_without_start: u64,
}

#[derive(Debug, Default)]
pub struct Trace {
    pub slices: Vec<Slice>,
    pub flows: Vec<Flow>,
    pub counts: Counts,
    stacks: BTreeMap<Line, Vec<usize>>,
    /// By thread and lane, the ends of the slices that may still be open on it.
    lanes: BTreeMap<(u8, u8), Vec<Vec<i64>>>,
    numbers: Vec<(u64, Label)>,
    started: BTreeMap<u64, usize>,
    parked: BTreeMap<Line, Vec<u64>>,
}

/// The time from which the rule for equal times holds.
fn rule_from(events: &[Event]) -> i64 {
    let (mut largest, mut has_complete, mut from) = (i64::MIN, false, i64::MAX);
    for event in events {
        has_complete |= matches!(event.what, What::Complete(_));
        if event.ts < largest || has_complete && event.ts == largest {
            from = from.min(event.ts);
        }
        largest = largest.max(event.ts);
    }
    from
}

impl Trace {
    pub fn new(events: &[Event]) -> Trace {
        let (mut sorted, rule_from) = (events.to_vec(), rule_from(events));
        // A stable sort: equal events stay in file order.
        sorted.sort_by_key(|event| {
            let key = match event.what {
                _ if event.ts < rule_from => 0,
                What::End => i64::MIN,
                What::Complete(dur) => i64::MAX - dur,
                _ => i64::MAX,
            };
            (event.ts, key)
        });
        let mut trace = Trace::default();
        sorted.iter().for_each(|event| trace.take(event));
        trace
    }

    fn take(&mut self, event: &Event) {
        match event.what {
            What::Complete(dur) => self.slice(event, Some(dur)),
            What::Begin => self.slice(event, None),
            What::Instant => self.slice(event, Some(0)),
            What::End => self.end(event),
            What::Nothing => {}
            What::FlowStart | What::FlowStep | What::FlowEnd { .. } => self.flow(event),
        }
    }

    fn slice(&mut self, event: &Event, dur: Option<i64>) {
        let mut line = event.line;
        if !self.make_room(line, event.ts, dur) {
            self.counts.spilled += 1;
            line = self.lane(line, event.ts, event.ts + dur.unwrap());
            assert!(self.make_room(line, event.ts, dur), "a lane has room");
        }
        let (id, stack) = (self.slices.len(), self.stacks.entry(line).or_default());
        let (depth, parent) = (stack.len(), stack.last().copied());
        stack.push(id);
        let Event { ts, name, category, .. } = *event;
        self.slices.push(Slice { ts, dur: dur.unwrap_or(-1), line, depth, parent, name, category });
        for number in self.parked.remove(&line).unwrap_or_default() {
            let from = *self.started.entry(number).or_insert(0);
            self.flows.push((from, id, number));
        }
        match event.bind {
            Some(Bind { id: flow, flow_in: true, flow_out: true }) => self.step(flow, id),
            Some(Bind { id: flow, flow_in: false, flow_out: true }) => self.start(flow, id),
            Some(Bind { id: flow, flow_in: true, flow_out: false }) => self.arrive(flow, id),
            Some(_) => self.counts.no_direction += 1,
            None => {}
        }
    }

    /// Removes the slices that are over; returns whether a slice of this length fits then.
    fn make_room(&mut self, line: Line, ts: i64, dur: Option<i64>) -> bool {
        let stack = self.stacks.entry(line).or_default();
        let mut pending_above = false;
        for at in (0..stack.len()).rev() {
            let Slice { ts: begin, dur: lasts, .. } = self.slices[stack[at]];
            let end = begin + lasts;
            if lasts == -1 {
                pending_above = true;
            } else if pending_above {
                if ts > end {
                    self.counts.misplaced += 1;
                    for above in stack.drain(at..).skip(1) {
                        self.slices[above].dur = end - self.slices[above].ts;
                    }
                    pending_above = false;
                }
            } else if end < ts || end == ts && !(lasts == 0 && dur == Some(0)) {
                stack.pop();
            } else if dur.is_some_and(|dur| dur > 0 && ts < end && ts + dur > end) {
                return false;
            }
        }
        true
    }

    fn lane(&mut self, line: Line, ts: i64, end: i64) -> Line {
        let Line::Thread(pid, tid) = line else { panic!("{line:?} has no lanes") };
        let lanes = self.lanes.entry((pid, tid)).or_default();
        for (number, ends) in lanes.iter_mut().enumerate() {
            while ends.last().is_some_and(|last| *last <= ts) {
                ends.pop();
            }
            if ends.last().is_none_or(|last| *last >= end) {
                ends.push(end);
                return Line::Lane(pid, tid, number);
            }
        }
        lanes.push(vec![end]);
        Line::Lane(pid, tid, lanes.len() - 1)
    }

    fn end(&mut self, event: &Event) {
        self.make_room(event.line, event.ts, None);
        let stack = self.stacks.entry(event.line).or_default();
        let slices = &mut self.slices;
        let fits = |wanted: Option<u8>, is: Option<u8>| wanted.is_none() || wanted == is;
        let found = stack.iter().rposition(|id| {
            let slice = &slices[*id];
            // An end of any name closes a slice without a name; one of any category does not close a slice without a category.
            let is_named = slice.name.is_none() || fits(event.name, slice.name);
            slice.dur == -1 && is_named && fits(event.category, slice.category)
        });
        let Some(at) = found else { return };
        slices[stack[at]].dur = event.ts - slices[stack[at]].ts;
        if at + 1 == stack.len() {
            stack.pop();
        }
    }

    fn flow(&mut self, event: &Event) {
        let top = self.stacks.get(&event.line).and_then(|stack| stack.last()).copied();
        let Some(id) = event.id else {
            self.counts.invalid += 1;
            return;
        };
        let key = (id, (event.name, event.category));
        let number = self.numbers.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.numbers.push(key);
            self.numbers.len() - 1
        }) as u64;
        match (event.what, top) {
            (What::FlowEnd { enclosing: false }, _) => self.parked.entry(event.line).or_default().push(number),
            (_, None) => self.counts.nowhere += 1,
            (What::FlowStart, Some(top)) => self.start(number, top),
            (What::FlowStep, Some(top)) => self.step(number, top),
            (_, Some(top)) => self.arrive(number, top),
        }
    }

    fn start(&mut self, number: u64, slice: usize) {
        self.counts.duplicate += u64::from(self.started.contains_key(&number));
        self.started.entry(number).or_insert(slice);
    }

    fn step(&mut self, number: u64, slice: usize) {
        match self.started.insert(number, slice) {
            Some(from) => self.connect(from, slice, number),
            None => {
                self.started.remove(&number);
                self.counts.step_without_start += 1;
            }
        }
    }

    fn arrive(&mut self, number: u64, slice: usize) {
        match self.started.get(&number) {
            Some(from) => self.connect(*from, slice, number),
            None => self.counts.end_without_start += 1,
        }
    }

    /// A flow leaves the earlier slice.
    fn connect(&mut self, from: usize, to: usize, number: u64) {
        let flips = self.slices[to].ts < self.slices[from].ts;
        self.flows.push(if flips { (to, from, number) } else { (from, to, number) });
    }
}
