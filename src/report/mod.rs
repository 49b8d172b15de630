//! Results in forms: one file per form. Nothing is computed here, and nothing is written to a terminal: each form fills a `Write` or
//! returns a `String`. How numbers and names are written is in [`format`](mod@format), how a table is laid out in `column`.

mod column;
mod csv;
pub mod diff;
mod flame;
mod folded;
pub mod format;
mod frames;
pub mod json;
pub mod kernels;
pub mod lists;
pub mod results;
mod speedscope;
mod summary;
#[cfg(feature = "flamegraph")]
pub mod svg;
mod table;
mod text;

use std::io;

use crate::analysis::stacks::StackReport;
pub use crate::analysis::weight::Weight;

/// A form of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// For people: a summary, then every stack with its frames.
    Text,
    /// For people: a summary, then one row for each stack.
    Table,
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
}

impl Form {
    /// Whether it is a flame graph, or the input of a tool that draws one.
    pub fn is_flame_graph(self) -> bool {
        match self {
            Form::Folded | Form::Speedscope => true,
            #[cfg(feature = "flamegraph")]
            Form::Svg => true,
            Form::Text | Form::Table | Form::Json | Form::Csv => false,
        }
    }
}

/// An answer and how to show it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Answer<'a> {
    /// The stacks.
    pub report: &'a StackReport,
    /// The trace's name.
    pub trace: &'a str,
    /// The widths of flame graphs.
    pub weight: Weight,
    /// The columns of the screen, if it is for one.
    pub width: Option<usize>,
}

impl<'a> Answer<'a> {
    /// An answer for a file: flame graphs by GPU time, lines of any width.
    pub fn new(report: &'a StackReport, trace: &'a str) -> Self {
        Answer { report, trace, weight: Weight::Gpu, width: None }
    }

    /// The same with flame graphs of another weight.
    #[must_use]
    pub fn weight(self, weight: Weight) -> Self {
        Answer { weight, ..self }
    }

    /// The same for a screen of so many columns.
    #[must_use]
    pub fn width(self, width: Option<usize>) -> Self {
        Answer { width, ..self }
    }

    /// Writes the answer in a form.
    ///
    /// # Errors
    /// What the writer fails with.
    pub fn write(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Text => {
                summary::summary(self.report, self.width, out)?;
                text::stacks(self.report, out)
            }
            Form::Table => {
                summary::summary(self.report, self.width, out)?;
                table::stacks(self.report, self.width, out)
            }
            Form::Json => json::stacks(self.report, self.trace, out),
            Form::Csv => csv::stacks(self.report, out),
            Form::Folded => folded::stacks(self.report, self.weight, out),
            Form::Speedscope => speedscope::stacks(self.report, self.trace, self.weight, out),
            #[cfg(feature = "flamegraph")]
            Form::Svg => svg::stacks(self.report, self.trace, self.weight, out),
        }
    }
}
