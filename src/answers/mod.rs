//! Questions and their answers: a folder for each question, with its data, its sums and its `document`, which is what all forms say, and the forms
//! that it alone has. Data holds numbers and names and no formatting.
//!
//! [`stacks`] is the main question, and groups kernels by the code that launched them; [`ranks`] compares the ranks of a job; [`diff`] compares two
//! answers; [`hang`], [`records`] and [`entries`] read NCCL's own records; [`describe`] says what a file can answer. What several questions need is
//! beside them: [`bound`] what a value may be, [`cost`] what kernels cost, with mergeable durations ([`mod@time_sums`]), [`window`] the span of time that a question is about, [`damage`] what
//! an answer cannot know because of damage, [`recording`] what recordings lack. Questions that are sums over tables are in `queries/`.

pub mod bound;
pub mod cost;
pub mod damage;
pub mod describe;
pub mod diff;
pub mod entries;
pub mod hang;
pub mod ranks;
pub mod recording;
pub mod records;
#[cfg(test)]
mod schemas;
pub mod stacks;
pub mod time_sums;
pub mod window;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use crate::document::html::Command;
use stacks::timeline::Timeline;

/// With more traces than this, only the collectives are drawn, with a lane for each trace.
pub const MOST_DRAWN: usize = 32;

/// Adds sums to those of the same keys.
fn add_up<K: Ord, V: Default + AddAssign>(sums: &mut BTreeMap<K, V>, others: BTreeMap<K, V>) {
    others.into_iter().for_each(|(key, other)| *sums.entry(key).or_default() += other);
}

/// What a page shows besides its answer.
#[derive(Debug, Clone, Default)]
pub struct OnPage {
    /// The inputs, quoted for a shell, for the commands on the page.
    pub inputs: String,
    /// The options that select the data, each with a blank before it.
    pub options: String,
    /// The options that only a comparison of ranks has.
    pub of_ranks: String,
    /// Notes on damage and on what was left out.
    pub notes: Vec<String>,
    /// When kernels ran, by trace.
    pub timelines: Vec<Timeline>,
    /// Why there is no answer, if there is none.
    pub reason: Option<String>,
}

impl OnPage {
    /// The page of an answer, without timelines.
    pub fn new(inputs: String, options: String, notes: Vec<String>) -> Self {
        OnPage { inputs, options, notes, ..OnPage::default() }
    }

    /// Commands that show what a view does, each with a description of its output and what follows the inputs.
    fn commands(&self, view: &'static str, command: &str, of: &[(&'static str, &str)]) -> Vec<Command> {
        let text = |rest: &str| format!("nccl-stacks {command}{}{}{rest}", self.inputs, self.options);
        of.iter().map(|(what, rest)| Command { view, what, text: text(rest) }).collect()
    }

    /// The same with timelines, unless there are more than [`MOST_DRAWN`].
    #[must_use]
    pub fn timelines(self, timelines: Vec<Timeline>) -> Self {
        OnPage { timelines: if timelines.len() > MOST_DRAWN { Vec::new() } else { timelines }, ..self }
    }

    /// The same with the reason why there is no answer, if there is none.
    #[must_use]
    pub fn reason(self, reason: Option<&str>) -> Self {
        OnPage { reason: reason.map(str::to_owned), ..self }
    }
}
