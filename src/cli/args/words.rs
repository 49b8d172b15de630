//! Options whose value is one of a few words, each with what it means to the library.

use crate::answers::cost::Order;
use crate::answers::stacks::weight::Weight;
use crate::attribution::launches::WindowOn;
use crate::document::{Answer, Form};
use crate::operations::clocks::ClockMode;
use crate::time::TimeRule;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// The words of an option, and what each means.
type Words<T> = [(&'static str, T)];

/// The parser of an option that has these words.
pub(crate) fn one_of<T: Copy + Send + Sync>(words: &'static Words<T>) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.iter().map(|(word, _)| *word))
        .map(|typed| words[words.iter().position(|(word, _)| *word == typed).unwrap_or(0)].1)
}

/// The parser of --format with the forms of an answer.
pub(crate) fn form_of<A: Answer>() -> impl TypedValueParser<Value = Form> {
    PossibleValuesParser::new(A::forms().map(Form::word)).map(|word| Form::parse(&word).unwrap_or(Form::Text))
}

/// What has to start in the window.
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

/// The forms of rows.
pub(crate) const ROWS: &Words<Form> = &[("table", Form::Table), ("csv", Form::Csv), ("json", Form::Json)];
