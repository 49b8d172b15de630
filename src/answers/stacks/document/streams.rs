//! The kernels of a trace's window, for the page's drawing.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use crate::answers::stacks::cpu_calls::{CpuCalls, CpuThread};
use crate::answers::stacks::functions::{FINER, FunctionRow};
use crate::answers::stacks::timeline::{ExposedPart, Lane, Row, Timeline};
use crate::attribution::stack_key::StackKey;
use crate::document::html::Drawing;
use crate::document::html::columns::{Columns, Packed, pack};
use crate::names::kernels::short_kernel;
use crate::numbers::Numbers;
use crate::time::{Ns, Window};

/// A timeline, with its stacks mapped to those of the page's document.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    timeline: Timeline,
    /// For each stack of the timeline: 1 + its position in the document, 0 for none.
    of_stack: Vec<u64>,
    /// The most bytes of its functions.
    of_functions: usize,
}

/// The functions of all timelines of a page take at most so many bytes, which is what packing the style with the script has freed, and where a timeline
/// would have less than the least, that with the costliest step has all.
const MOST_OF_FUNCTIONS: usize = 8_400;
const LEAST_OF_FUNCTIONS: usize = 2_000;

/// Times of functions are as exact as this part of the shortest one: half a pixel where it has eight.
const GRAIN: i64 = 16;

impl Streams {
    /// Maps each timeline to the stacks of a document, given in their order.
    pub(crate) fn collect<'s>(
        timelines: &[Timeline],
        stacks: impl Iterator<Item = (&'s Option<String>, &'s StackKey)>,
    ) -> Vec<Box<dyn Drawing>> {
        let known: BTreeMap<_, u64> = stacks.zip(1..).collect();
        let share = MOST_OF_FUNCTIONS / timelines.len().max(1);
        let step = |timeline: &Timeline| timeline.calls.step.unwrap_or(timeline.window).duration();
        let costliest = (0..timelines.len()).rev().max_by_key(|at| step(&timelines[*at]));
        let streams = |(at, timeline): (usize, &Timeline)| -> Box<dyn Drawing> {
            let of_stack = timeline.stacks.iter().map(|(rank, key)| known.get(&(rank, key)).copied().unwrap_or(0));
            let of_functions = match share {
                LEAST_OF_FUNCTIONS.. => share,
                _ if costliest == Some(at) => MOST_OF_FUNCTIONS,
                _ => 0,
            };
            Box::new(Streams { of_stack: of_stack.collect(), of_functions, timeline: timeline.clone() })
        };
        timelines.iter().enumerate().map(streams).collect()
    }

    /// The short names of kernels, each once, and for each name of the timeline 1 + the position of its short name.
    fn short_names(&self) -> (Vec<&str>, Vec<u64>) {
        let mut known: BTreeMap<&str, u64> = BTreeMap::new();
        let mut short = Vec::new();
        let place = |name| {
            *known.entry(short_kernel(name)).or_insert_with_key(|name| {
                short.push(*name);
                short.len() as u64
            })
        };
        let places = self.timeline.names.iter().map(|name| name.as_str()).map(place).collect();
        (short, places)
    }
}

impl Drawing for Streams {
    fn pack(&self) -> io::Result<Value> {
        let Timeline { name, rank, window, lanes, rows, exposed, steps, merged, left_out, .. } = &self.timeline;
        let mut kernels = Columns::default();
        kernels.plain("lane", rows.iter().map(|row| row.lane.into()));
        kernels.near("start", rows.iter().map(|row| row.window.start.0));
        kernels.plain("dur", rows.iter().map(|row| row.window.duration().0 as u64));
        let stack = |row: &Row| row.stack.map_or(0, |stack| self.of_stack[stack as usize]);
        kernels.plain("stack", rows.iter().map(stack));
        kernels.plain("does", rows.iter().map(|row| row.does as u64));
        kernels.plain("count", rows.iter().map(|row| row.count));
        let (names, short) = self.short_names();
        kernels.plain("name", rows.iter().map(|row| row.name.map_or(0, |name| short[name as usize])));
        let launched: Vec<(i64, i64)> = (0..).zip(rows).filter_map(|(at, row)| Some((at, row.call?.into()))).collect();
        let mut launches = Columns::default();
        launches.near("kernel", launched.iter().map(|(kernel, _)| *kernel));
        launches.near("call", launched.iter().map(|(_, call)| *call));
        let mut parts = Columns::default();
        parts.near("kernel", exposed.iter().map(|part| part.row.into()));
        // Since the part before it, or the kernel's start; the length is 0 up to the kernel's end. Most kernels are exposed from start to end: two zeros.
        let mut before: Option<ExposedPart> = None;
        let gap = |part: &ExposedPart| {
            let known = before.replace(*part).filter(|before| before.row == part.row).map(|before| before.window.end);
            part.window.start - known.unwrap_or(rows[part.row as usize].window.start)
        };
        parts.plain("gap", exposed.iter().map(gap).map(|gap| gap.0 as u64));
        let is_last = |part: &ExposedPart| part.window.end == rows[part.row as usize].window.end;
        let length = |part: &ExposedPart| if is_last(part) { Ns::ZERO } else { part.window.duration() };
        parts.plain("dur", exposed.iter().map(length).map(|length| length.0 as u64));
        let lane = |lane: &Lane| format!("GPU {}, stream {}", lane.gpu, lane.stream);
        let step = |(name, window): &(String, Window)| json!({ "name": name, "start": window.start.0, "dur": window.duration().0 });
        Ok(json!({
            "name": name,
            "rank": rank,
            "origin_ns": window.start.to_string(),
            "window_ns": window.duration().0,
            "merged_ns": merged.0,
            "left_out": left_out,
            "lanes": lanes.iter().map(lane).collect::<Vec<_>>(),
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
            "names": pack(&serde_json::to_vec(&names)?)?,
            "kernels": kernels.pack()?,
            "exposed": parts.pack()?,
            "launches": launches.pack()?,
            "cpu": pack_calls(&self.timeline.calls, self.of_functions)?,
        }))
    }

    fn rows(&self) -> usize {
        self.timeline.rows.len() + self.timeline.calls.rows.len()
    }

    fn halve(&mut self) {
        let (kernels, calls) = (self.timeline.rows.len() / 2, self.timeline.calls.rows.len() / 2);
        self.timeline.shorten(kernels);
        self.timeline.thin_calls(calls);
        self.of_functions /= 2;
    }

    fn left_out(&self) -> u64 {
        self.timeline.left_out
    }
}

/// The calls of threads, as the page reads them, and as many of their functions as so many bytes have room for.
fn pack_calls(of: &CpuCalls, most: usize) -> io::Result<Value> {
    let CpuCalls { threads, names: all_names, rows, merged, left_out, functions, step } = of;
    let mut names: Numbers<&str> = Numbers::default();
    let mut name_of = |name: u32| u64::from(names.number(&all_names[name as usize]));
    let of_calls: Vec<u64> = rows.iter().map(|row| row.name.map_or(0, |name| name_of(name) + 1)).collect();
    let mut calls = Columns::default();
    calls.plain("lane", rows.iter().map(|row| row.thread.into()));
    calls.near("start", rows.iter().map(|row| row.window.start.0));
    calls.plain("dur", rows.iter().map(|row| row.window.duration().0 as u64));
    calls.plain("name", of_calls.into_iter());
    calls.plain("blocks", rows.iter().map(|row| row.blocks.into()));
    calls.plain("count", rows.iter().map(|row| row.count));
    let without = pack(&serde_json::to_vec(&names.list)?)?.len();
    let mut count = functions.rows.len();
    // All of them to the nanosecond, if they fit.
    let mut is_exact = true;
    let (functions_packed, names, least, grain) = loop {
        let (rows, least) = functions.heaviest(count, *step);
        let shortest = rows.iter().map(|row| row.window.duration().0).min().unwrap_or_default();
        let grain = if is_exact { 1 } else { (shortest / GRAIN).max(1) };
        let mut names = names.clone();
        let table = pack_functions(&rows, grain, |name| names.number(&all_names[name as usize]))?;
        let table = if rows.is_empty() { None } else { Some(table) };
        let packed = pack(&serde_json::to_vec(&names.list)?)?;
        if count == 0 || packed.len() - without + table.as_ref().map_or(0, Packed::len) <= most {
            break (table, packed, least, grain);
        }
        count -= if is_exact { 0 } else { count.div_ceil(5) };
        is_exact = false;
    };
    let finer = if step.is_some() { FINER } else { 1 };
    let thread = |CpuThread { process, thread, name }: &CpuThread| json!({ "process": process.to_string(), "thread": thread.to_string(), "name": name });
    Ok(json!({
        "threads": threads.iter().map(thread).collect::<Vec<_>>(),
        "names": names,
        "merged_ns": merged.0,
        "left_out": left_out,
        "calls": calls.pack()?,
        "functions": functions_packed,
        "functions_left_out": functions.found - count as u64,
        "least_ns": least.0 / finer,
        "finer": finer,
        "grain_ns": grain,
    }))
}

fn pack_functions(rows: &[FunctionRow], grain: i64, mut name: impl FnMut(u32) -> u32) -> io::Result<Packed> {
    let window = |row: &FunctionRow| (row.window.start.0 / grain, row.window.end.0 / grain);
    let mut functions = Columns::default();
    functions.plain("thread", rows.iter().map(|row| row.thread.into()));
    functions.near("start", rows.iter().map(|row| window(row).0));
    functions.plain("dur", rows.iter().map(|row| (window(row).1 - window(row).0) as u64));
    functions.plain("name", rows.iter().map(|row| name(row.name).into()));
    functions.plain("isCall", rows.iter().map(|row| row.is_call.into()));
    functions.pack()
}
