//! When kernels ran in a window, with a lane for each stream: the data that a drawing of the window needs.
//!
//! A window may have millions of kernels, but a screen has a few thousand pixels, so the number of rows is limited. Neighbours on a lane that would
//! look alike are merged if the gap between them is small, and the gap grows until the rows are few enough. Only compute kernels are merged; kernels
//! left out after that are counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::cpu_calls::{CpuCalls, texts};
use super::gpu_spans::within_trace;
use super::reduction::{Attributed, kernels_by_stack};
use super::step_costs::{StepCost, StepSums};
use super::steps::{Step, Steps};
use crate::attribution::Attribution;
use crate::attribution::stack_key::StackKey;
use crate::id::{GpuId, SliceId, ThreadId};
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// For so many kernels there is one row of calls, if these are more than the least number. A row of calls takes as much room as one of kernels, and
/// a page of one trace is to grow by a quarter at most: measured on five traces of 3,000 to 12,000 kernels.
const KERNELS_PER_CALL: usize = 4;
const LEAST_CALLS: usize = 1000;

/// A window of a trace, ready to be drawn.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    pub name: String,
    pub rank: Option<u32>,
    /// The window, on the trace's own clock.
    pub window: Window,
    /// The streams on which kernels ran.
    pub lanes: Vec<Lane>,
    /// The kernels, by start.
    pub rows: Vec<Row>,
    /// The names of the kernels, each once.
    pub names: Vec<String>,
    /// The calls that launch kernels or block.
    pub calls: CpuCalls,
    /// When collectives ran while no compute kernel ran on their GPU.
    pub exposed: Vec<ExposedPart>,
    /// The stacks of the rows: the rank, if ranks are distinguished, and the key.
    pub stacks: Vec<(Option<String>, StackKey)>,
    /// The steps that begin in the window.
    pub steps: Vec<(String, Window)>,
    /// What each of these steps cost, if that was added.
    pub costs: Vec<StepCost>,
    /// Neighbours with a gap up to this are merged into one row; 0 if no rows are merged.
    pub merged: Ns,
    /// The number of kernels left out because there were too many rows; the shortest rows go first.
    pub left_out: u64,
}

/// A stream of a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The GPU: the number that the trace has as process id.
    pub gpu: i64,
    /// The stream: the number that the trace has as thread id.
    pub stream: i64,
}

/// What a kernel does; a page stores it as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    Compute,
    Communicate,
    /// Possibly a collective: no known family matches it.
    Unknown,
}

/// A kernel, or several merged ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Index of its lane.
    pub lane: u32,
    /// Start and end in ns since the window began, cut at the edges of the window.
    pub window: Window,
    /// Index of its stack, if it has one.
    pub stack: Option<u32>,
    /// Index of its name; `None` for merged kernels of several names.
    pub name: Option<u32>,
    /// Index of the call that launched it, for a chosen kernel whose call has a row.
    pub call: Option<u32>,
    pub does: Does,
    pub count: u64,
}

/// A part of a collective during which no compute kernel ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExposedPart {
    /// Index of its row.
    pub row: u32,
    /// Start and end in ns since the window began.
    pub window: Window,
}

type Track = (GpuId, Option<ThreadId>);

impl Timeline {
    /// The kernels of a window. Others than the chosen ones are drawn too, without a stack. There are at most `most` rows, and about as many exposed
    /// parts.
    pub fn new(of: &Attributed<'_>, most: usize) -> Self {
        let Attributed { name, store, ref attribution, window, .. } = *of;
        let window = within_trace(store, window);
        let since = |step: Window| Window { start: step.start - window.start, end: step.end - window.start };
        let named = |step: Step| (store.slice_name(step.slice).to_owned(), since(step.window));
        let steps = steps(store, window).into_iter().map(named).collect();
        let Stacks { stacks, of_kernel } = Stacks::new(of);
        let mut timeline = Timeline { name: name.to_owned(), window, steps, stacks, ..Timeline::default() };
        let mut names: Numbers<StringId> = Numbers::default();
        let mut lanes: BTreeMap<(GpuId, Option<ThreadId>), u32> = BTreeMap::new();
        let (mut rows, mut of_row) = (Vec::new(), Vec::new());
        for kernel in store.kernels.iter().copied() {
            let own = store.slices.window(kernel);
            if own.start >= window.end {
                break;
            }
            if own.end <= window.start {
                continue;
            }
            let next = lanes.len() as u32;
            let lane = *lanes.entry((store.gpu_of(kernel), store.stream_of(kernel))).or_insert(next);
            of_row.push(kernel);
            rows.push(Row {
                lane,
                window: own.within(window),
                stack: of_kernel.get(&kernel).copied(),
                name: Some(names.number(store.slices.name(kernel))),
                call: None,
                does: Does::from_name(attribution, store.slices.name(kernel)),
                count: 1,
            });
        }
        timeline.names = texts(store, names);
        timeline.add_calls(store, attribution, &mut rows, &of_row);
        let tracks = timeline.sort_lanes(store, &lanes, &mut rows);
        timeline.fill(rows, most);
        timeline.thin_calls((timeline.rows.len() / KERNELS_PER_CALL).max(LEAST_CALLS));
        timeline.expose(attribution, &tracks, most);
        timeline
    }

    /// Adds what each step cost. Steps of one name get numbers.
    pub fn add_costs(&mut self, of: &Attributed<'_>) {
        let Attributed { store, ref attribution, options, .. } = *of;
        let sums = StepSums::of_trace(store, attribution, self.window, options.window_on, options.exact_names);
        let steps = steps(store, self.window);
        let cost = |step: &Step| Some(sums.get(&step.label)?.cost(&options.user_code));
        let Some(costs) = steps.iter().map(cost).collect() else { return };
        self.costs = costs;
        self.steps.iter_mut().zip(steps).for_each(|((name, _), step)| *name = step.label);
    }

    /// Adds the calls of threads, and to the rows of these kernels the calls that launched them.
    fn add_calls(&mut self, store: &Store, attribution: &Attribution, rows: &mut [Row], kernels: &[SliceId]) {
        let launches = attribution.kernels.iter().map(|kernel| kernel.launched);
        let call_of: HashMap<SliceId, SliceId> =
            launches.filter_map(|launched| Some((launched.kernel, launched.call?))).collect();
        let chosen: BTreeSet<SliceId> = call_of.values().copied().collect();
        let (calls, of_call) = CpuCalls::find(store, self.window, self.costliest(), &chosen);
        self.calls = calls;
        for (row, kernel) in rows.iter_mut().zip(kernels) {
            row.call = call_of.get(kernel).and_then(|call| of_call.get(call)).copied();
        }
    }

    /// The longest of several steps, in ns since the window began: what a drawing shows first.
    fn costliest(&self) -> Option<Window> {
        let longest = self.steps.iter().map(|(_, step)| *step).rev().max_by_key(|step| step.duration());
        longest.filter(|_| self.steps.len() > 1)
    }

    /// Sorts the lanes by GPU and stream, and returns their GPUs.
    fn sort_lanes(&mut self, store: &Store, found: &BTreeMap<Track, u32>, rows: &mut [Row]) -> Vec<Track> {
        let lane = |(gpu, stream): &(GpuId, Option<ThreadId>)| Lane {
            gpu: store.tracks.process(gpu.process).pid,
            stream: stream.map_or(0, |stream| store.tracks.thread(stream).tid),
        };
        let mut sorted: Vec<(Track, Lane, u32)> = found.iter().map(|(key, at)| (*key, lane(key), *at)).collect();
        sorted.sort_by_key(|((gpu, _), lane, _)| (gpu.trace, lane.gpu, lane.stream));
        let mut place = vec![0; sorted.len()];
        sorted.iter().enumerate().for_each(|(at, (_, _, was))| place[*was as usize] = at as u32);
        rows.iter_mut().for_each(|row| row.lane = place[row.lane as usize]);
        let tracks = sorted.iter().map(|(key, ..)| *key).collect();
        self.lanes = sorted.into_iter().map(|(_, lane, _)| lane).collect();
        tracks
    }

    /// Stores the rows, merged until they are few enough.
    fn fill(&mut self, mut rows: Vec<Row>, most: usize) {
        let mut gap = Ns((self.window.duration().0 / (1 << 20)).max(1));
        // With gaps above a hundredth of the window, a drawing would be wrong.
        while rows.len() > most && gap.0 <= self.window.duration().0 / 100 {
            rows = merged(&rows, gap, self.lanes.len());
            self.merged = gap;
            gap = Ns(gap.0 * 2);
        }
        self.rows = rows;
        if self.rows.len() > most {
            self.shorten(most);
        }
    }

    /// Leaves out the shortest rows until at most `most` remain, and counts their kernels.
    pub fn shorten(&mut self, most: usize) {
        let rows = std::mem::take(&mut self.rows);
        let mut kept: Vec<usize> = (0..rows.len()).collect();
        kept.sort_by_key(|at| (std::cmp::Reverse(rows[*at].window.duration()), *at));
        kept.truncate(most);
        kept.sort_unstable();
        let all: u64 = rows.iter().map(|row| row.count).sum();
        self.left_out += all - kept.iter().map(|at| rows[*at].count).sum::<u64>();
        let mut place: Vec<Option<u32>> = vec![None; rows.len()];
        kept.iter().zip(0..).for_each(|(was, at)| place[*was] = Some(at));
        self.rows = kept.into_iter().map(|at| rows[at]).collect();
        let parts = std::mem::take(&mut self.exposed).into_iter();
        self.exposed = parts.filter_map(|part| Some(ExposedPart { row: place[part.row as usize]?, ..part })).collect();
    }

    /// Reduces the rows of calls to at most `most`.
    pub fn thin_calls(&mut self, most: usize) {
        let place = self.calls.thin(most);
        self.rows.iter_mut().for_each(|row| row.call = row.call.and_then(|call| place[call as usize]));
    }

    fn expose(&mut self, attribution: &Attribution, tracks: &[Track], most: usize) {
        let begin = self.window.start;
        // Parts this close look like one part.
        let mut gap = Ns::ZERO;
        loop {
            self.exposed.clear();
            for (at, row) in self.rows.iter().enumerate().filter(|(_, row)| row.does == Does::Communicate) {
                let (gpu, stream) = tracks[row.lane as usize];
                let Some(activity) = attribution.activity.of.get(&gpu) else { continue };
                let from = self.exposed.len();
                let hides = activity.hides(stream);
                for (start, end) in hides.uncovered(begin + row.window.start, begin + row.window.end) {
                    let window = Window { start: start - begin, end: end - begin };
                    match self.exposed[from..].last_mut() {
                        Some(last) if window.start - last.window.end <= gap => last.window.end = window.end,
                        _ => self.exposed.push(ExposedPart { row: at as u32, window }),
                    }
                }
            }
            if self.exposed.len() <= most.max(self.rows.len()) || gap >= self.window.duration() {
                return;
            }
            gap = Ns((gap.0 * 4).max(1000));
            self.merged = self.merged.max(gap);
        }
    }
}

impl Does {
    fn from_name(attribution: &Attribution, name: StringId) -> Self {
        let activity = &attribution.activity;
        match (activity.is_collective[name.0 as usize], activity.may_communicate(name)) {
            (true, _) => Does::Communicate,
            (false, Some(_)) => Does::Unknown,
            (false, None) => Does::Compute,
        }
    }
}

/// Merges compute kernels that are neighbours on a lane if the gap between them is at most `gap`. Collectives stay separate, because their durations
/// are what users ask about.
fn merged(rows: &[Row], gap: Ns, lanes: usize) -> Vec<Row> {
    let mut found: Vec<Row> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; lanes];
    for row in rows {
        let before = last[row.lane as usize];
        match before.map(|at| &mut found[at]) {
            Some(before)
                if before.does == Does::Compute
                    && row.does == Does::Compute
                    && before.stack == row.stack
                    && row.window.start - before.window.end <= gap =>
            {
                before.window.end = before.window.end.max(row.window.end);
                before.count += row.count;
                before.name = before.name.filter(|name| row.name == Some(*name));
                before.call = None;
            }
            _ => {
                last[row.lane as usize] = Some(found.len());
                found.push(*row);
            }
        }
    }
    found
}

/// The distinguished stacks of an answer, and the index of each kernel's stack.
#[derive(Default)]
struct Stacks {
    stacks: Vec<(Option<String>, StackKey)>,
    of_kernel: HashMap<SliceId, u32>,
}

impl Stacks {
    fn new(of: &Attributed<'_>) -> Self {
        let mut found = Stacks::default();
        // Groups have keys of their own and no stacks.
        if of.options.grouping.is_asked() {
            return found;
        }
        for (number, (stack, kernels)) in (0..).zip(kernels_by_stack(of)) {
            found.stacks.push(stack);
            found.of_kernel.extend(kernels.iter().map(|kernel| (kernel.launched.kernel, number)));
        }
        found
    }
}

/// The steps that begin in the window, from the process whose steps last longest in total.
fn steps(store: &Store, window: Window) -> Vec<Step> {
    let steps = Steps::find(store);
    let inside = |step: &&Step| window.contains(step.window.start);
    let length = |steps: &[Step]| -> Ns { steps.iter().filter(inside).map(|step| step.window.duration()).sum() };
    let longest = steps.processes().max_by_key(|(process, steps)| (length(steps), std::cmp::Reverse(*process)));
    longest.map_or(Vec::new(), |(_, steps)| steps.iter().filter(inside).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lane: u32, start: i64, end: i64, stack: Option<u32>) -> Row {
        let window = Window { start: Ns(start), end: Ns(end) };
        let does = if stack.is_some() { Does::Communicate } else { Does::Compute };
        Row { lane, window, stack, name: Some(0), call: None, does, count: 1 }
    }

    /// On lane 0, a collective follows two compute kernels 5 ns apart; lane 1 lies between them in time and stays separate.
    #[test]
    fn neighbours_that_look_alike_are_merged() {
        let rows = [row(0, 0, 10, None), row(1, 12, 14, None), row(0, 15, 20, None), row(0, 21, 30, Some(3))];
        let found = merged(&rows, Ns(5), 2);
        let first = Row { count: 2, ..row(0, 0, 20, None) };
        assert_eq!(found, [first, rows[1], rows[3]]);
        assert_eq!(merged(&rows, Ns(4), 2), rows);
    }

    /// Of four rows that no gap of a hundredth of the window can merge, the two longest stay.
    #[test]
    fn the_shortest_rows_are_left_out_and_counted() {
        let rows = vec![row(0, 0, 90, None), row(0, 200, 210, None), row(0, 400, 490, None), row(0, 700, 701, None)];
        let window = Window { start: Ns(0), end: Ns(1000) };
        let mut timeline = Timeline { window, lanes: vec![Lane { gpu: 0, stream: 7 }], ..Timeline::default() };
        timeline.fill(rows.clone(), 2);
        assert_eq!((timeline.rows, timeline.left_out), (vec![rows[0], rows[2]], 2));
    }
}
