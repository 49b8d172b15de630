//! The kernels of a trace's window, for the page's drawing.

use std::collections::BTreeMap;
use std::io;

use serde_json::{Value, json};

use super::columns::Columns;
use crate::analysis::stack_key::StackKey;
use crate::analysis::timeline::{Lane, Row, Timeline};
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
    ) -> Vec<Self> {
        let known: BTreeMap<_, u64> = stacks.zip(1..).collect();
        let streams = |timeline: &Timeline| {
            let of_stack = timeline.stacks.iter().map(|(rank, key)| known.get(&(rank, key)).copied().unwrap_or(0));
            Streams { of_stack: of_stack.collect(), timeline: timeline.clone() }
        };
        timelines.iter().map(streams).collect()
    }

    pub(crate) fn rows(&self) -> usize {
        self.timeline.rows.len()
    }

    /// How many kernels have no row.
    pub(crate) fn left_out(&self) -> u64 {
        self.timeline.left_out
    }

    /// Halves the number of rows.
    pub(crate) fn halve(&mut self) {
        let most = self.rows() / 2;
        self.timeline.shorten(most);
    }

    /// The form that the page reads.
    ///
    /// # Errors
    /// Returns gzip's error.
    pub(crate) fn pack(&self) -> io::Result<Value> {
        let Timeline { name, rank, window, lanes, rows, exposed, steps, merged, left_out, .. } = &self.timeline;
        let mut kernels = Columns::default();
        kernels.plain("lane", rows.iter().map(|row| row.lane.into()));
        kernels.near("start", rows.iter().map(|row| row.window.start.0));
        kernels.plain("dur", rows.iter().map(|row| row.window.duration().0 as u64));
        let stack = |row: &Row| row.stack.map_or(0, |stack| self.of_stack[stack as usize]);
        kernels.plain("stack", rows.iter().map(stack));
        kernels.plain("does", rows.iter().map(|row| row.does as u64));
        kernels.plain("count", rows.iter().map(|row| row.count));
        let mut parts = Columns::default();
        parts.near("kernel", exposed.iter().map(|part| part.row.into()));
        parts.near("start", exposed.iter().map(|part| part.window.start.0));
        parts.plain("dur", exposed.iter().map(|part| part.window.duration().0 as u64));
        let lane = |lane: &Lane| {
            json!({
                "gpu": format!("GPU {}", lane.gpu),
                "stream": lane.stream.to_string(),
                "label": format!("GPU {}, stream {}", lane.gpu, lane.stream),
            })
        };
        let step = |(name, window): &(String, Window)| json!({ "name": name, "start": window.start.0, "dur": window.duration().0 });
        Ok(json!({
            "name": name,
            "rank": rank,
            "window_ns": window.duration().0,
            "merged_ns": merged.0,
            "left_out": left_out,
            "lanes": lanes.iter().map(lane).collect::<Vec<_>>(),
            "steps": steps.iter().map(step).collect::<Vec<_>>(),
            "kernels": kernels.pack()?,
            "exposed": parts.pack()?,
        }))
    }
}
