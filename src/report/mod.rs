//! Answers in all their forms. What every form says of an answer is its [`Document`]; an [`Answer`] adds what a form shows besides. Nothing is
//! computed here, and nothing is written to a terminal. [`format`](mod@format) defines the notation of numbers and names, `table` their
//! layout.

pub mod answer;
mod csv;
mod damage;
pub mod damage_lines;
pub mod describe;
pub mod diff;
pub mod document;
mod form;
pub mod format;
mod frames;
pub mod hang;
mod html;
mod json;
mod kernels;
pub mod lists;
pub mod ranks;
pub mod recorded;
pub mod recording;
pub mod results;
#[cfg(test)]
mod schemas;
pub mod stacks;
mod table;

use crate::analysis::timeline::Timeline;
pub use crate::analysis::weight::Weight;
pub use answer::Answer;
pub use csv::without_formulas;
pub use document::{Document, Finding, FindingKind, Place};
pub use form::Form;
use html::Command;
pub use html::Page;
pub use stacks::{StacksAnswer, beside, script};

/// How people see an answer.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// The columns of the screen; `None` for lines of any length.
    pub width: Option<usize>,
    /// How many callers are shown: in text those down to the user's own code, in the script's form those above the launch. `None` for all.
    pub depth: Option<usize>,
    /// Whether to show all frames, including those of libraries.
    pub full_stacks: bool,
    /// Whether to show everything known about a stack.
    pub verbose: bool,
    /// Whether to highlight in colour.
    pub colour: bool,
}

/// With more traces than this, only the collectives are drawn, with a lane for each trace.
pub const MOST_DRAWN: usize = 32;

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

impl Screen {
    /// The columns left next to `taken` others.
    fn room(&self, taken: usize) -> usize {
        self.width.map_or(usize::MAX, |width| width.saturating_sub(taken))
    }

    /// Wraps sentences at blanks into lines that fit. A word may be longer than a line.
    fn fill(&self, text: &str) -> String {
        let room = self.room(0);
        let mut lines = Vec::new();
        for paragraph in text.lines() {
            let mut line = String::new();
            for word in paragraph.split(' ') {
                if !line.is_empty() && shown_width(&line) + 1 + shown_width(word) > room {
                    lines.push(std::mem::take(&mut line));
                } else if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    /// Highlights a text, if colour is on.
    fn accent(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1;36m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How many columns a text takes, without its colour codes.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let plain = parts.next().map_or(0, |part| part.chars().count());
    plain + parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest).chars().count()).sum::<usize>()
}
