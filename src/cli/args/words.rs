//! Options whose value is one of a few words, and the library's type for each.
//!
//! The variants have no docs: clap would show them in a long help for each option.

use crate::analysis::cost::Order;
use crate::attribution::launches::WindowOn;
use crate::operations::clocks::ClockMode;
use crate::report::{Answer, Form, Weight};
use crate::time::TimeRule;
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The parser of --format with the forms of an answer.
pub(crate) fn form_of<A: Answer>() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(A::forms().map(Form::word)).map(|word| Form::parse(&word).unwrap_or(Form::Text))
}

/// The parser of --sort where nobody asks for critical paths.
pub(crate) fn sort_of_costs() -> impl TypedValueParser<Value = Sort> {
    let words = Sort::value_variants().iter().filter(|sort| **sort != Sort::Critical);
    PossibleValuesParser::new(words.filter_map(Sort::to_possible_value))
        .map(|word| Sort::from_str(&word, false).unwrap_or(Sort::Exposed))
}

/// What has to start in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum On {
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

/// The unit of the times in JSON traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TsUnit {
    Us,
    Ns,
}

impl From<TsUnit> for TimeRule {
    fn from(unit: TsUnit) -> Self {
        match unit {
            TsUnit::Us => TimeRule::Exact,
            TsUnit::Ns => TimeRule::Nanoseconds,
        }
    }
}

/// Whether to do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

/// A form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TableFormat {
    Table,
    Csv,
    Json,
}

/// How clocks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WhichClock {
    Align,
    Trust,
    None,
}

impl WhichClock {
    /// The word for the command line; `None` for the default.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            WhichClock::Align => None,
            WhichClock::Trust => Some("trust"),
            WhichClock::None => Some("none"),
        }
    }
}

impl From<WhichClock> for ClockMode {
    fn from(which: WhichClock) -> Self {
        match which {
            WhichClock::Align => ClockMode::Align,
            WhichClock::Trust => ClockMode::Trust,
            WhichClock::None => ClockMode::None,
        }
    }
}

/// An order of the stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    Count,
    Gpu,
    Exposed,
    Mean,
    Critical,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Count => Order::Count,
            Sort::Gpu => Order::GpuTime,
            Sort::Exposed => Order::Exposed,
            Sort::Mean => Order::Mean,
            Sort::Critical => Order::Critical,
        }
    }
}

/// What the widths of a flame graph mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Weigh {
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
