//! Answers in all their forms, one file per form. Nothing is computed here, and nothing is written to a terminal: each form fills a `Write` or
//! returns a `String`. [`format`](mod@format) defines the notation of numbers and names, `column` the layout of tables.

mod column;
mod csv;
mod damage;
pub mod damage_lines;
pub mod describe;
pub mod diff;
mod flame;
mod folded;
pub mod format;
mod frames;
mod grouping;
pub mod hang;
mod html;
mod json;
mod kernels;
pub mod lists;
mod page;
pub mod pairs;
pub mod ranks;
pub mod recorded;
pub mod recording;
pub mod results;
pub mod script;
mod speedscope;
mod summary;
#[cfg(feature = "flamegraph")]
pub mod svg;
mod table;
mod text;

use std::io;

use crate::analysis::stacks::StackReport;
use crate::analysis::timeline::Timeline;
pub use crate::analysis::weight::Weight;
pub use csv::without_formulas;
pub use summary::beside;

/// A form of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// For people: a summary, then every stack with its frames.
    Text,
    /// For people: a summary, then one row for each stack.
    Table,
    /// For programs that read the output of `get_call_stacks.py`.
    Script,
    /// For programs: everything, described by a schema.
    Json,
    /// For spreadsheets: one row for each stack.
    Csv,
    /// For flame graph tools: one line for each stack.
    Folded,
    /// For speedscope.app.
    Speedscope,
    /// A flame graph as an SVG image.
    #[cfg(feature = "flamegraph")]
    Svg,
    /// A page for a browser, in one file.
    Html,
}

impl Form {
    /// Whether the form is for people, with a summary before the stacks.
    pub fn is_for_people(self) -> bool {
        matches!(self, Form::Text | Form::Table)
    }
}

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

/// An answer and how to show it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// The stacks.
    pub report: &'a StackReport,
    /// The name of the trace.
    pub trace: &'a str,
    /// What the widths of flame graphs measure.
    pub weight: Weight,
    /// How people see it.
    pub screen: Screen,
    /// What a page shows besides it.
    pub on_page: OnPage,
}

impl<'a> Answer<'a> {
    /// An answer with the defaults for a file: flame graphs by GPU time, lines of any width, all callers.
    pub fn new(report: &'a StackReport, trace: &'a str) -> Self {
        Answer { report, trace, weight: Weight::Gpu, screen: Screen::default(), on_page: OnPage::default() }
    }

    /// The same with flame graphs of another weight.
    #[must_use]
    pub fn weight(self, weight: Weight) -> Self {
        Answer { weight, ..self }
    }

    /// The same for another screen.
    #[must_use]
    pub fn screen(self, screen: Screen) -> Self {
        Answer { screen, ..self }
    }

    /// The same with what a page shows besides it.
    #[must_use]
    pub fn on_page(self, on_page: OnPage) -> Self {
        Answer { on_page, ..self }
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// Returns the writer's error.
    pub fn write(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        if form.is_for_people() {
            summary::summary(self.report, &self.screen, out)?;
        }
        // People read in the summary that there are no groups, and need no empty table.
        let groups = self.report.groups().filter(|grouped| grouped.groups_found > 0 || !form.is_for_people());
        match (form, groups) {
            (Form::Text, Some(grouped)) => {
                out.push(b'\n');
                return grouping::text(grouped, &self.screen, out);
            }
            (Form::Table, Some(grouped)) => {
                out.push(b'\n');
                return grouping::table(grouped, self.screen.width, out);
            }
            (Form::Csv, Some(grouped)) => return grouping::csv(grouped, out),
            (Form::Script, Some(_)) => return Err(io::Error::other("the form of get_call_stacks.py has stacks alone")),
            _ => {}
        }
        match form {
            Form::Text => text::stacks(self.report, &self.screen, out),
            Form::Table => {
                out.push(b'\n');
                table::stacks(self.report, self.screen.width, out)
            }
            Form::Script => script::stacks(self.report, self.screen.depth, out),
            Form::Json => json::stacks(self.report, self.trace, out),
            Form::Csv => csv::stacks(self.report, out),
            Form::Folded => folded::stacks(self.report, self.weight, out),
            Form::Speedscope => speedscope::stacks(self.report, self.trace, self.weight, out),
            #[cfg(feature = "flamegraph")]
            Form::Svg => svg::stacks(self.report, self.trace, self.weight, out),
            Form::Html => page::stacks(self, out),
        }
    }
}
