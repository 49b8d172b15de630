//! SQL functions over the store, of names and of numbers, and aggregates that SQLite lacks: the median and the standard deviation of numbers, for
//! the columns of `nsys stats`, and percentiles. `text_functions` has the functions of texts.

use std::sync::Arc;

use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

use crate::attribution::selection::{OwnFamilies, Wanted};
use crate::event::ArgValue;
use crate::id::SliceId;
use crate::names::steps::{self, ANNOTATION};
use crate::statistics;
use crate::store::Store;
use crate::time::Ns;

type OfOne = fn(f64) -> f64;
type OfTwo = fn(f64, f64) -> f64;

/// SQLite's mathematical functions of one number, which its build here lacks. Arguments for which a function has no value give NULL.
const MATH: &[(&str, OfOne)] = &[
    ("sqrt", f64::sqrt),
    ("exp", f64::exp),
    ("ln", f64::ln),
    ("log", f64::log10),
    ("log10", f64::log10),
    ("log2", f64::log2),
    ("floor", f64::floor),
    ("ceil", f64::ceil),
    ("ceiling", f64::ceil),
    ("trunc", f64::trunc),
];

/// Those of two numbers.
const MATH_OF_TWO: &[(&str, OfTwo)] = &[("pow", f64::powf), ("power", f64::powf), ("mod", |a, b| a % b)];

/// The flags of a function whose result depends only on its arguments and the trace, which never changes.
pub(super) const PURE: FunctionFlags = FunctionFlags::SQLITE_UTF8.union(FunctionFlags::SQLITE_DETERMINISTIC);

/// Adds the functions to a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection, store: &Arc<Store>) -> Result<()> {
    let with_store = |function: fn(&Store, &Context<'_>) -> Result<Value>| {
        let store = Arc::clone(store);
        move |context: &Context<'_>| function(&store, context)
    };
    connection.create_scalar_function("EXTRACT_ARG", 2, PURE, with_store(extract_arg))?;
    connection.create_scalar_function("slice_is_ancestor", 2, PURE, with_store(slice_is_ancestor))?;
    connection.create_scalar_function("trace_start", 0, PURE, with_store(|store, _| time(store.bounds.start)))?;
    connection.create_scalar_function("trace_end", 0, PURE, with_store(|store, _| time(store.bounds.end)))?;
    connection.create_scalar_function("trace_dur", 0, PURE, with_store(|store, _| time(store.bounds.duration())))?;
    connection.create_scalar_function("to_timecode", 1, PURE, to_timecode)?;
    connection.create_scalar_function("step_priority", 2, PURE, step_priority)?;
    connection.create_scalar_function("matches_name", 2, PURE, |context| {
        chosen(context, |patterns| Ok(Wanted::parse(patterns, &[], &OwnFamilies::default())?))
    })?;
    register_families(connection, OwnFamilies::default())?;
    for (name, function) in MATH {
        connection.create_scalar_function(*name, 1, PURE, move |context| {
            Ok(number(context, 0).map(function).filter(is_value))
        })?;
    }
    for (name, function) in MATH_OF_TWO {
        let of_two = move |context: &Context<'_>| {
            let both = number(context, 0).zip(number(context, 1));
            Ok(both.map(|(a, b)| function(a, b)).filter(is_value))
        };
        connection.create_scalar_function(*name, 2, PURE, of_two)?;
    }
    let median = Statistic { name: "median", value: |numbers, _| statistics::median(numbers.iter().copied()) };
    let stddev = Statistic { name: "stddev", value: |numbers, _| statistics::std_dev(numbers.iter().copied()) };
    // As SQLite's extension of this name has it: the number below which that percentage of all are, between two of them in proportion.
    let percentile =
        Statistic { name: "percentile", value: |numbers, percent| statistics::quantile(numbers, percent / 100.0) };
    for (statistic, arguments) in [(median, 1), (stddev, 1), (percentile, 2)] {
        connection.create_aggregate_function(statistic.name, arguments, PURE, statistic)?;
    }
    Ok(())
}

/// A number among the arguments of a function, or a text that is one, as SQLite's own functions have it; `None` for everything else.
fn number(context: &Context<'_>, at: usize) -> Option<f64> {
    match context.get_raw(at) {
        ValueRef::Integer(number) => Some(number as f64),
        ValueRef::Real(number) => Some(number),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(parsed),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

/// Parses a number as SQLite does, without `inf` and `nan`.
fn parsed(text: &str) -> Option<f64> {
    let text = text.trim();
    let looks = text.bytes().all(|c| c.is_ascii_digit() || b"+-.eE".contains(&c));
    if looks { text.parse().ok() } else { None }
}

/// Whether a function has a value for its arguments: not the root or the logarithm of a negative number.
fn is_value(number: &f64) -> bool {
    !number.is_nan() && *number != f64::NEG_INFINITY
}

/// Adds the function for families, which include a user's own. Fails if SQLite does.
pub(super) fn register_families(connection: &Connection, own: OwnFamilies) -> Result<()> {
    connection.create_scalar_function("in_family", 2, PURE, move |context| {
        chosen(context, |families| Ok(Wanted::parse(&[], families, &own)?))
    })
}

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// `matches_name(name, patterns)`, `in_family(name, families)`: whether a kernel has such a name, as `--kernel-name` and `--family` choose it. The second
/// argument is one text or a JSON array of texts; NULL chooses nothing.
fn chosen(context: &Context<'_>, parse: impl Fn(&[String]) -> Result<Wanted, BoxedError>) -> Result<Value> {
    let (Some(name), Some(_)) = (context.get::<Option<String>>(0)?, context.get::<Option<String>>(1)?) else {
        return Ok(Value::Integer(0));
    };
    let wanted = context.get_or_create_aux(1, |value| {
        let text = value.as_str().unwrap_or_default();
        let texts = serde_json::from_str(text).unwrap_or_else(|_| vec![text.to_owned()]);
        if texts.is_empty() { Ok(Wanted::default()) } else { parse(&texts) }
    })?;
    Ok(Value::Integer(wanted.fits(&name).into()))
}

/// `step_priority(name, category)`: how surely a slice is a step of training or serving, 0 the surest; NULL if it is none.
fn step_priority(context: &Context<'_>) -> Result<Value> {
    let Some(name) = context.get::<Option<String>>(0)? else { return Ok(Value::Null) };
    let is_annotation = context.get::<Option<String>>(1)?.is_some_and(|category| category == ANNOTATION);
    Ok(steps::priority(&name, is_annotation).map_or(Value::Null, |priority| Value::Integer(priority.into())))
}

/// The error of a function: `function: message`.
pub(super) fn failed(function: &str, message: &str) -> Error {
    Error::UserFunctionError(format!("{function}: {message}").into())
}

fn time(time: Ns) -> Result<Value> {
    Ok(Value::Integer(time.0))
}

/// `EXTRACT_ARG(arg_set_id, key)`: the value of exactly this key, NULL if there is none, as in Perfetto.
fn extract_arg(store: &Store, context: &Context<'_>) -> Result<Value> {
    let (Some(row), Some(key)) = (context.get::<Option<i64>>(0)?, context.get::<Option<String>>(1)?) else {
        return Ok(Value::Null);
    };
    let value = u32::try_from(row)
        .ok()
        .zip(store.strings.find(&key))
        .and_then(|(row, key)| store.args.get(store.args.set_at_row(row), key));
    Ok(match value {
        None => Value::Null,
        Some(ArgValue::Int(value)) => Value::Integer(value),
        Some(ArgValue::Bool(value)) => Value::Integer(value.into()),
        Some(ArgValue::Real(value)) => Value::Real(value),
        Some(ArgValue::Text(id)) => store.strings.get(id).map_or(Value::Null, |text| Value::Text(text.to_owned())),
    })
}

/// `slice_is_ancestor(ancestor, descendant)`: whether the first slice encloses the second on the same track; NULL if there is no such slice. A
/// slice that was never closed encloses everything that begins after it.
fn slice_is_ancestor(store: &Store, context: &Context<'_>) -> Result<Value> {
    let slices = &store.slices;
    let slice = |i| -> Result<Option<SliceId>> {
        let id = context.get::<Option<i64>>(i)?;
        Ok(id.and_then(|id| u32::try_from(id).ok()).map(SliceId).filter(|id| id.row() < slices.len()))
    };
    let (Some(ancestor), Some(descendant)) = (slice(0)?, slice(1)?) else { return Ok(Value::Null) };
    let end = |slice| slices.ts(slice) + slices.dur(slice);
    let encloses = slices.track(ancestor) == slices.track(descendant)
        && slices.depth(ancestor) < slices.depth(descendant)
        && slices.ts(ancestor) <= slices.ts(descendant)
        && (slices.dur(ancestor) < Ns::ZERO || end(ancestor) >= end(descendant));
    Ok(Value::Integer(encloses.into()))
}

/// `to_timecode(ns)`: `01:02:03 004 005 006`, from hours to nanoseconds.
fn to_timecode(context: &Context<'_>) -> Result<Value> {
    let ns = match context.get_raw(0) {
        ValueRef::Null => return Ok(Value::Null),
        ValueRef::Integer(ns) => ns,
        _ => return Err(failed("to_timecode", "a time is an integer, in ns")),
    };
    let [hours, minutes, seconds] = [ns / 3_600_000_000_000, ns / 60_000_000_000 % 60, ns / 1_000_000_000 % 60];
    let [ms, us, ns] = [ns / 1_000_000 % 1000, ns / 1000 % 1000, ns % 1000];
    Ok(Value::Text(format!("{hours:02}:{minutes:02}:{seconds:02} {ms:03} {us:03} {ns:03}")))
}

/// A statistic of all numbers of a group.
struct Statistic {
    name: &'static str,
    /// How it follows from the numbers, of which there is at least one, and from the second argument.
    value: fn(&[f64], f64) -> f64,
}

impl Statistic {
    /// A number among the arguments; `None` for NULL.
    fn number(&self, context: &Context<'_>, at: usize) -> Result<Option<f64>> {
        match context.get_raw(at) {
            ValueRef::Null => Ok(None),
            ValueRef::Integer(number) => Ok(Some(number as f64)),
            ValueRef::Real(number) => Ok(Some(number)),
            ValueRef::Text(_) | ValueRef::Blob(_) => Err(failed(self.name, "the argument is not a number")),
        }
    }
}

impl Aggregate<(Vec<f64>, f64), Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> Result<(Vec<f64>, f64)> {
        Ok((Vec::new(), 0.0))
    }

    fn step(&self, context: &mut Context<'_>, (numbers, percent): &mut (Vec<f64>, f64)) -> Result<()> {
        if context.len() > 1 {
            *percent = self.number(context, 1)?.unwrap_or(f64::NAN);
            if !(0.0..=100.0).contains(percent) {
                return Err(failed(self.name, "the second argument is not between 0 and 100"));
            }
        }
        numbers.extend(self.number(context, 0)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, state: Option<(Vec<f64>, f64)>) -> Result<Option<f64>> {
        let some = state.filter(|(numbers, _)| !numbers.is_empty());
        Ok(some.map(|(numbers, percent)| (self.value)(&numbers, percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn numbers_are_sqlites() {
        assert_eq!(
            [" 2.5 ", "1e3", "inf", "nan", "", "x"].map(parsed),
            [Some(2.5), Some(1000.0), None, None, None, None]
        );
    }
}
