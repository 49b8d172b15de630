//! The kernels of a trace's window, for the page's drawing.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use crate::answers::stacks::cpu_calls::{CpuCalls, CpuThread};
use crate::answers::stacks::timeline::{Lane, Row, Timeline};
use crate::attribution::stack_key::StackKey;
use crate::document::html::Drawing;
use crate::document::html::columns::{Columns, pack};
use crate::names::kernels::short_kernel;
use crate::time::Window;

/// A timeline, with its stacks mapped to those of the page's document.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    timeline: Timeline,
    /// For each stack of the timeline: 1 + its position in the document, 0 for none.
    of_stack: Vec<u64>,
}

impl Streams {
    /// Maps each timeline to the stacks of a document, given in their order.
    pub(crate) fn collect<'s>(
        timelines: &[Timeline],
        stacks: impl Iterator<Item = (&'s Option<String>, &'s StackKey)>,
    ) -> Vec<Box<dyn Drawing>> {
        let known: BTreeMap<_, u64> = stacks.zip(1..).collect();
        let streams = |timeline: &Timeline| -> Box<dyn Drawing> {
            let of_stack = timeline.stacks.iter().map(|(rank, key)| known.get(&(rank, key)).copied().unwrap_or(0));
            Box::new(Streams { of_stack: of_stack.collect(), timeline: timeline.clone() })
        };
        timelines.iter().map(streams).collect()
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
        parts.near("start", exposed.iter().map(|part| part.window.start.0));
        parts.plain("dur", exposed.iter().map(|part| part.window.duration().0 as u64));
        let lane = |lane: &Lane| {
            json!({
                "gpu": format!("GPU {}", lane.gpu),
                "stream": lane.stream.to_string(),
                "device": lane.device,
                "label": format!("GPU {}, stream {}", lane.gpu, lane.stream),
            })
        };
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
            "cpu": pack_calls(&self.timeline.calls)?,
        }))
    }

    fn rows(&self) -> usize {
        self.timeline.rows.len() + self.timeline.calls.rows.len()
    }

    fn halve(&mut self) {
        let (kernels, calls) = (self.timeline.rows.len() / 2, self.timeline.calls.rows.len() / 2);
        self.timeline.shorten(kernels);
        self.timeline.thin_calls(calls);
    }

    fn left_out(&self) -> u64 {
        self.timeline.left_out
    }
}

/// The calls of threads, as the page reads them.
fn pack_calls(CpuCalls { threads, names, rows, merged, left_out, .. }: &CpuCalls) -> io::Result<Value> {
    let mut calls = Columns::default();
    calls.plain("lane", rows.iter().map(|row| row.thread.into()));
    calls.near("start", rows.iter().map(|row| row.window.start.0));
    calls.plain("dur", rows.iter().map(|row| row.window.duration().0 as u64));
    calls.plain("name", rows.iter().map(|row| row.name.map_or(0, |name| u64::from(name) + 1)));
    calls.plain("blocks", rows.iter().map(|row| row.blocks.into()));
    calls.plain("count", rows.iter().map(|row| row.count));
    let thread = |CpuThread { process, thread, name }: &CpuThread| json!({ "process": process.to_string(), "thread": thread.to_string(), "name": name });
    Ok(json!({
        "threads": threads.iter().map(thread).collect::<Vec<_>>(),
        "names": names,
        "merged_ns": merged.0,
        "left_out": left_out,
        "calls": calls.pack()?,
    }))
}
