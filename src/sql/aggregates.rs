//! Aggregates that SQLite lacks: the median and the standard deviation of numbers, for the columns of `nsys stats`, and percentiles.

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::functions::{PURE, failed};
use crate::statistics;

/// Adds the aggregates to a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection) -> Result<()> {
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
