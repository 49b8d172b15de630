//! What the arguments of operators show: shapes that differ from call to call, tensors that are not contiguous, values that vary, hardware counters,
//! and unreadable values.
//!
//! The report is evidence: what was recorded, how often, and the GPU time below it. A kernel counts once, at the innermost operator with recorded
//! arguments.

mod calls;
pub mod counters;
pub mod inputs;
pub mod layouts;
mod place;
pub mod scalars;
pub mod shapes;

use serde::Serialize;

use super::losses::Losses;
use super::malformed::{Malformed, MalformedValues};
use crate::attribution::launches::{Launches, WindowOn};
use crate::recorded_args::List;
use crate::store::Store;
use crate::time::{Ns, Window};
use calls::Calls;
use counters::Counters;
use layouts::{ChannelsLast, LayoutRow};
pub use place::Place;
use scalars::ScalarRow;
use shapes::ShapeRow;

/// The arguments of all operators in a window.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OperatorReport {
    /// The number of operators that begin in the window.
    pub operators: u64,
    /// The number of kernels in the window.
    pub kernels: u64,
    /// Their GPU time.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// The number of kernels below an operator with recorded arguments.
    pub kernels_below: u64,
    /// Their GPU time.
    #[serde(rename = "gpu_below_ns")]
    pub gpu_below: Ns,
    /// The number of operators that have each list key.
    pub operators_with: Vec<KeyCount>,
    /// The number of operators with a hardware counter.
    pub counted: u64,
    /// Operators with several shapes.
    pub shapes: Vec<ShapeRow>,
    /// The number of these, including those left out by a limit.
    pub shapes_found: u64,
    /// Inputs that are not contiguous.
    pub layouts: Vec<LayoutRow>,
    /// The number of these.
    pub layouts_found: u64,
    /// Calls with channels-last inputs.
    pub channels_last: ChannelsLast,
    /// Inputs whose values vary at one place.
    pub scalars: Vec<ScalarRow>,
    /// The number of these.
    pub scalars_found: u64,
    /// Hardware counters.
    pub counters: Counters,
    /// The number of counter rows by operator.
    pub counter_operators_found: u64,
    /// The number of counter rows by module.
    pub counter_modules_found: u64,
    /// Values of an unexpected form.
    pub malformed: Vec<Malformed>,
    /// What is wrong with the trace.
    pub damage: Losses,
}

/// The number of operators with a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct KeyCount {
    /// The key.
    pub key: &'static str,
    /// The number of operators that have it.
    pub operators: u64,
}

/// Reads the arguments of the operators that begin in a window. The trace must have been loaded with
/// [`ArgsWanted::OPERATORS`](crate::event::ArgsWanted::OPERATORS). `launches` are the launches of all kernels.
pub fn operator_report(
    store: &Store,
    launches: &Launches,
    window: Window,
    on: WindowOn,
    limit: usize,
) -> OperatorReport {
    let calls = Calls::collect(store, launches, window, on);
    let mut shapes = shapes::rows(&calls);
    let (mut layouts, channels_last) = layouts::rows(&calls);
    let mut scalars = scalars::rows(&calls);
    let mut malformed = malformed_lists(&calls);
    let (mut counters, counted) = counters::sums(&calls, &mut malformed);
    let found = [shapes.len(), layouts.len(), scalars.len(), counters.operators.len(), counters.modules.len()];
    let [shapes_found, layouts_found, scalars_found, counter_operators_found, counter_modules_found] =
        found.map(|rows| rows as u64);
    shapes.truncate(limit);
    layouts.truncate(limit);
    scalars.truncate(limit);
    counters.operators.truncate(limit);
    counters.modules.truncate(limit);
    OperatorReport {
        operators: calls.all.len() as u64,
        kernels: calls.kernels.0,
        gpu: calls.kernels.1,
        kernels_below: calls.below.0,
        gpu_below: calls.below.1,
        operators_with: operators_with(&calls),
        counted,
        shapes,
        shapes_found,
        layouts,
        layouts_found,
        channels_last,
        scalars,
        scalars_found,
        counters,
        counter_operators_found,
        counter_modules_found,
        malformed: malformed.found(),
        damage: Losses::count(store),
    }
}

fn operators_with(calls: &Calls<'_>) -> Vec<KeyCount> {
    let of = |(list, at): (&List, usize)| {
        let with = calls.all.iter().filter(|call| calls.inputs_of(call).has[at]).count();
        KeyCount { key: list.key(), operators: with as u64 }
    };
    List::ALL.iter().zip(0..).map(of).collect()
}

fn malformed_lists(calls: &Calls<'_>) -> MalformedValues {
    let mut values = MalformedValues::default();
    for call in &calls.all {
        calls.inputs_of(call).malformed.iter().for_each(|(list, text)| values.add(list.key(), text));
    }
    values
}
