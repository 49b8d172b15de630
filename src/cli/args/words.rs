//! Values that are one word of a few, and what the library calls them.

use crate::analysis::cost::Order;
use crate::attribution::launches::WindowOn;
use crate::report::diff::DiffForm;
use crate::report::{Form, Weight};

/// By what a kernel lies in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "clap would show the docs of each value, and make of one help two")]
pub enum On {
    Launch,
    Kernel,
}

impl From<On> for WindowOn {
    fn from(on: On) -> Self {
        match on {
            On::Launch => WindowOn::Launch,
            On::Kernel => WindowOn::Kernel,
        }
    }
}

/// Whether to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum Switch {
    On,
    Off,
}

/// A form of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum Format {
    Text,
    Table,
    Json,
    Csv,
    Folded,
    Speedscope,
    #[cfg(feature = "flamegraph")]
    Svg,
}

impl From<Format> for Form {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Form::Text,
            Format::Table => Form::Table,
            Format::Json => Form::Json,
            Format::Csv => Form::Csv,
            Format::Folded => Form::Folded,
            Format::Speedscope => Form::Speedscope,
            #[cfg(feature = "flamegraph")]
            Format::Svg => Form::Svg,
        }
    }
}

/// A form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum TableFormat {
    Table,
    Csv,
    Json,
}

/// A form of two traces side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum DiffFormat {
    Table,
    Text,
    Csv,
    Json,
}

impl From<DiffFormat> for DiffForm {
    fn from(format: DiffFormat) -> Self {
        match format {
            DiffFormat::Table => DiffForm::Table,
            DiffFormat::Text => DiffForm::Text,
            DiffFormat::Csv => DiffForm::Csv,
            DiffFormat::Json => DiffForm::Json,
        }
    }
}

/// An order of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum Sort {
    Count,
    Gpu,
    Exposed,
    Mean,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Count => Order::Count,
            Sort::Gpu => Order::GpuTime,
            Sort::Exposed => Order::Exposed,
            Sort::Mean => Order::Mean,
        }
    }
}

/// What weighs in a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "as above")]
pub enum Weigh {
    Count,
    Gpu,
    Exposed,
}

impl From<Weigh> for Weight {
    fn from(weigh: Weigh) -> Self {
        match weigh {
            Weigh::Count => Weight::Count,
            Weigh::Gpu => Weight::Gpu,
            Weigh::Exposed => Weight::Exposed,
        }
    }
}
