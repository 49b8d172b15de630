//! Results in the forms that people use them in. Nothing is computed here, and nothing is written to a terminal: each form fills a
//! `Write` or makes a String.

pub mod csv;
pub mod diff;
pub mod flame;
pub mod folded;
pub mod json;
pub mod results;
pub mod speedscope;
#[cfg(feature = "flamegraph")]
pub mod svg;
pub mod table;
pub mod text;

use std::io;

use crate::analysis::cost::Totals;
use crate::analysis::stacks::StackReport;

/// A form of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: a summary, then every stack with its frames.
    Text,
    /// For people: a summary, then one row for each stack.
    Table,
    /// For programs: all there is, by a schema.
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
    /// Whether it is a flame graph, or what one is made of.
    pub fn is_flame_graph(self) -> bool {
        match self {
            Form::Folded | Form::Speedscope => true,
            #[cfg(feature = "flamegraph")]
            Form::Svg => true,
            Form::Text | Form::Table | Form::Json | Form::Csv => false,
        }
    }
}

/// What a flame graph's widths stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// How many kernels.
    Count,
    /// How long they ran, in ns.
    Gpu,
    /// How long of that nothing hid them, in ns.
    Exposed,
}

impl Weight {
    /// All of them.
    pub const ALL: [Weight; 3] = [Weight::Count, Weight::Gpu, Weight::Exposed];

    /// What kernels weigh.
    pub fn of(self, kernels: Totals) -> u64 {
        match self {
            Weight::Count => kernels.count,
            Weight::Gpu => u64::try_from(kernels.gpu_time).unwrap_or(0),
            Weight::Exposed => u64::try_from(kernels.exposed).unwrap_or(0),
        }
    }

    /// What it is a weight of.
    pub fn name(self) -> &'static str {
        match self {
            Weight::Count => "kernels",
            Weight::Gpu => "GPU time",
            Weight::Exposed => "exposed GPU time",
        }
    }
}

/// The last part of a path: what fits a title.
fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// An answer and how to show it.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The stacks.
    pub report: &'a StackReport,
    /// The trace's name.
    pub trace: &'a str,
    /// For flame graphs.
    pub weight: Weight,
    /// How many columns there are, if it is for a screen.
    pub width: Option<usize>,
}

impl Answer<'_> {
    /// Writes the answer in a form.
    ///
    /// # Errors
    /// What the writer fails with.
    pub fn write(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Text => {
                text::summary(self.report, self.width, out)?;
                text::stacks(self.report, out)
            }
            Form::Table => {
                text::summary(self.report, self.width, out)?;
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
