//! Options whose value is one of a few words, each with what it means to the library.

use std::ffi::OsStr;

use crate::answers::cost::Order;
use crate::answers::stacks::document::Weight;
use crate::attribution::launches::WindowOn;
use crate::attribution::selection::ALL_FAMILIES;
use crate::document::{Answer, Form};
use crate::names::families::FAMILIES;
use crate::operations::clocks::ClockMode;
use crate::time::TimeRule;
use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// The words of an option, and what each means.
pub(crate) type Words<T> = [(&'static str, T)];

/// The parser of an option that has these words.
pub(crate) fn one_of<T: Copy + Send + Sync>(words: &'static Words<T>) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word))
        .map(|typed| words[words.iter().position(|(word, _)| *word == typed).unwrap_or(0)].1)
}

/// The parser of --format with the forms of an answer.
pub(crate) fn form_of<A: Answer>() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(A::forms().map(Form::word)).map(|word| Form::parse(&word).unwrap_or(Form::Text))
}

pub(crate) const WINDOW_ON: &Words<WindowOn> = &[("launch", WindowOn::Launch), ("kernel", WindowOn::Kernel)];

/// The unit of the times in JSON traces.
pub(crate) const TS_UNIT: &Words<TimeRule> = &[("us", TimeRule::Exact), ("ns", TimeRule::Nanoseconds)];

/// Whether to do something.
pub(crate) const SWITCH: &Words<bool> = &[("on", true), ("off", false)];

/// How clocks are compared. The first is the default.
pub(crate) const CLOCK: &Words<ClockMode> =
    &[("align", ClockMode::Align), ("trust", ClockMode::Trust), ("none", ClockMode::None)];

/// What the widths of a flame graph mean.
pub(crate) const WEIGHT: &Words<Weight> =
    &[("count", Weight::Count), ("gpu", Weight::Gpu), ("exposed", Weight::Exposed)];

pub(crate) const COSTS: &Words<Order> =
    &[("count", Order::Count), ("gpu", Order::GpuTime), ("exposed", Order::Exposed), ("mean", Order::Mean)];

/// The orders of stacks, which may be on a critical path, too.
pub(crate) const SORT: &Words<Order> = &[COSTS[0], COSTS[1], COSTS[2], COSTS[3], ("critical", Order::Critical)];

/// Whether to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

pub(crate) const COLOUR: &Words<Colour> =
    &[("auto", Colour::Auto), ("always", Colour::Always), ("never", Colour::Never)];

pub(crate) const ROWS: &Words<Form> = &[("table", Form::Table), ("csv", Form::Csv), ("json", Form::Json)];

/// The name of a family: any text, because users may define families. Shells complete the built-in names; clap's own list of possible values would
/// refuse users' families.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyName;

impl TypedValueParser for FamilyName {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = PossibleValue::new(ALL_FAMILIES).help("all of these");
        let known = FAMILIES.iter().map(|family| PossibleValue::new(family.name).help(family.about));
        Some(Box::new(known.chain([all])))
    }
}
