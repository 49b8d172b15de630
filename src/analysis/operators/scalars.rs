//! Non-tensor inputs whose value varies between the calls of an operator at one place of the program.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use foldhash::fast::FixedState;
use serde::Serialize;

use super::calls::{Calls, Stack};
use super::place::{Place, Sums, of_stack};
use crate::store::strings::StringId;
use crate::time::Ns;

/// A number as recorded: the default end of `aten::slice` is 2^63 - 1, which [`f64`] cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Number {
    /// All values of the input are integers.
    Integer(i128),
    /// Some value has a fraction or an exponent, or is too large.
    Real(f64),
}

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(number) => number.fmt(out),
            Number::Real(number) => number.fmt(out),
        }
    }
}

/// The smallest and largest of these texts, if all are numbers.
fn range(texts: &[&String]) -> Option<(Number, Number)> {
    let integers: Option<Vec<i128>> = texts.iter().map(|text| text.parse().ok()).collect();
    if let Some(integers) = integers {
        return Some((Number::Integer(*integers.iter().min()?), Number::Integer(*integers.iter().max()?)));
    }
    let real = |text: &&String| text.parse().ok().filter(|number: &f64| number.is_finite());
    let numbers: Vec<f64> = texts.iter().map(real).collect::<Option<_>>()?;
    let (min, max) = (numbers.iter().copied().reduce(f64::min)?, numbers.into_iter().reduce(f64::max)?);
    Some((Number::Real(min), Number::Real(max)))
}

/// An input whose value varies.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScalarRow {
    /// The operator.
    pub operator: String,
    /// The index of the input.
    pub input: u32,
    /// The number of distinct values.
    pub values: u64,
    /// The smallest, if all are numbers.
    pub min: Option<Number>,
    /// The largest, if all are numbers.
    pub max: Option<Number>,
    /// The first two values.
    pub examples: Vec<String>,
    /// The number of calls with a value there.
    pub calls: u64,
    /// Their GPU time.
    #[serde(rename = "gpu_ns")]
    pub gpu: Ns,
    /// Where it is called.
    pub place: Place,
}

#[derive(Default)]
struct OfInput {
    all: Sums,
    /// Numbers of the values, in order of first occurrence.
    values: BTreeSet<u32>,
}

/// The rows, most distinct values first, then most GPU time.
pub(super) fn rows(calls: &Calls<'_>) -> Vec<ScalarRow> {
    let mut by_input: HashMap<(StringId, Stack, u32), OfInput, FixedState> = HashMap::default();
    for call in &calls.all {
        for (input, value) in &calls.inputs_of(call).scalars {
            let of = by_input.entry((call.name, call.stack, *input)).or_default();
            of.all.add(call);
            of.values.insert(*value);
        }
    }
    let is_shown = |of: &OfInput| of.values.len() > 1 && (!calls.has_gpu_time() || of.all.gpu > Ns::ZERO);
    let mut shown: Vec<_> = by_input.into_iter().filter(|(_, of)| is_shown(of)).collect();
    shown.sort_by_key(|((name, stack, input), of)| {
        (std::cmp::Reverse((of.values.len(), of.all.gpu, of.all.calls)), *name, *stack, *input)
    });
    let row = |((name, stack, input), of): ((StringId, Stack, u32), OfInput)| {
        let texts: Vec<&String> = of.values.iter().map(|value| &calls.pools.values.all[*value as usize]).collect();
        let (min, max) = range(&texts).unzip();
        ScalarRow {
            operator: calls.text(name),
            input,
            values: texts.len() as u64,
            min,
            max,
            examples: texts.into_iter().take(2).cloned().collect(),
            calls: of.all.calls,
            gpu: of.all.gpu,
            place: of_stack(stack, calls, name),
        }
    };
    shown.into_iter().map(row).collect()
}
