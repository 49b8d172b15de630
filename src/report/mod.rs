//! Results in forms: one file per form. Nothing is computed here, and nothing is written to a terminal: each form fills a `Write` or
//! returns a `String`. How numbers and names are written is in [`format`](mod@format), how a table is laid out in `column`.

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
pub mod json;
pub mod kernels;
pub mod lists;
pub mod memory;
pub mod operators;
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
    /// For programs that read the answers of `get_call_stacks.py`.
    Script,
    /// For programs: everything, by a schema.
    Json,
    /// For spreadsheets: one row for each stack.
    Csv,
    /// For flame graphs: one line for each stack.
    Folded,
    /// For speedscope.app.
    Speedscope,
    /// A flame graph as a picture.
    #[cfg(feature = "flamegraph")]
    Svg,
    /// A page for a browser, in one file.
    Html,
}

impl Form {
    /// Whether it is for people, with a summary before the stacks.
    pub fn is_for_people(self) -> bool {
        matches!(self, Form::Text | Form::Table)
    }
}

/// How an answer is shown to people.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// Its columns; `None` for lines of any length.
    pub width: Option<usize>,
    /// How many callers are shown: in text those down to the user's own code, in the script's form those above the launch. `None` for all.
    pub depth: Option<usize>,
    /// Show all frames, also those of libraries.
    pub full_stacks: bool,
    /// Show everything that is known of a stack.
    pub verbose: bool,
    /// Mark what matters with a colour.
    pub colour: bool,
}

/// Of more traces than this only the collectives are drawn, each trace a lane.
pub const MOST_DRAWN: usize = 32;

/// What a page shows beside its answer.
#[derive(Debug, Clone, Default)]
pub struct OnPage {
    /// The inputs, as a shell takes them: for the commands that the page names.
    pub inputs: String,
    /// The options that decide what is asked, each with a blank before it.
    pub options: String,
    /// Those that only a comparison of ranks has.
    pub of_ranks: String,
    /// What is not as it should be: damage, and what was left out.
    pub notes: Vec<String>,
    /// When kernels ran, by trace.
    pub timelines: Vec<Timeline>,
    /// Why there is no answer, if there is none.
    pub reason: Option<String>,
}

impl OnPage {
    /// What a page shows beside an answer that there is.
    pub fn new(inputs: String, options: String, notes: Vec<String>) -> Self {
        OnPage { inputs, options, notes, ..OnPage::default() }
    }

    /// The same with timelines, if these are not too many to be drawn.
    #[must_use]
    pub fn timelines(self, timelines: Vec<Timeline>) -> Self {
        OnPage { timelines: if timelines.len() > MOST_DRAWN { Vec::new() } else { timelines }, ..self }
    }

    /// The same, where there may be no answer, for a reason.
    #[must_use]
    pub fn reason(self, reason: Option<&str>) -> Self {
        OnPage { reason: reason.map(str::to_owned), ..self }
    }
}

impl Screen {
    /// The columns beside so many others.
    fn room(&self, taken: usize) -> usize {
        self.width.map_or(usize::MAX, |width| width.saturating_sub(taken))
    }

    /// Sentences in lines that fit, broken at blanks. A word may be longer than a line.
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

    /// A text in the colour of what matters, if there are colours.
    fn accent(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1;36m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How many columns a text takes: its letters without the codes of colours.
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
    /// The trace's name.
    pub trace: &'a str,
    /// The widths of flame graphs.
    pub weight: Weight,
    /// How it is shown to people.
    pub screen: Screen,
    /// What a page shows beside it.
    pub on_page: OnPage,
}

impl<'a> Answer<'a> {
    /// An answer for a file: flame graphs by GPU time, lines of any width, all callers.
    pub fn new(report: &'a StackReport, trace: &'a str) -> Self {
        Answer { report, trace, weight: Weight::Gpu, screen: Screen::default(), on_page: OnPage::default() }
    }

    /// The same with flame graphs of another weight.
    #[must_use]
    pub fn weight(self, weight: Weight) -> Self {
        Answer { weight, ..self }
    }

    /// The same, shown in another way.
    #[must_use]
    pub fn screen(self, screen: Screen) -> Self {
        Answer { screen, ..self }
    }

    /// The same with what a page shows beside it.
    #[must_use]
    pub fn on_page(self, on_page: OnPage) -> Self {
        Answer { on_page, ..self }
    }

    /// Writes the groups of an answer as a tree for people, without a summary of the window; nothing if there are none.
    ///
    /// # Errors
    /// What the writer fails with.
    pub fn write_groups(&self, out: &mut Vec<u8>) -> io::Result<()> {
        self.report.groups().map_or(Ok(()), |grouped| grouping::text(grouped, &self.screen, out))
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// What the writer fails with.
    pub fn write(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        if form.is_for_people() {
            summary::summary(self.report, &self.screen, out)?;
        }
        // A summary says that there is nothing, and a table need not.
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
