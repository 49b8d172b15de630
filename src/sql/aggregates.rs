//! Aggregates that SQLite lacks: the median and the standard deviation of numbers, for the columns of `nsys stats`.

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

use super::functions::{PURE, failed};
use crate::statistics;

/// A statistic of all numbers of a group: its name, and how it follows from the numbers.
struct Statistic(&'static str, fn(&[f64]) -> f64);

/// Adds the aggregates to a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection) -> Result<()> {
    let median = Statistic("median", |numbers| statistics::median(numbers.iter().copied()));
    let stddev = Statistic("stddev", |numbers| statistics::std_dev(numbers.iter().copied()));
    for statistic in [median, stddev] {
        connection.create_aggregate_function(statistic.0, 1, PURE, statistic)?;
    }
    Ok(())
}

impl Aggregate<Vec<f64>, Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, numbers: &mut Vec<f64>) -> Result<()> {
        match context.get_raw(0) {
            ValueRef::Null => {}
            ValueRef::Integer(number) => numbers.push(number as f64),
            ValueRef::Real(number) => numbers.push(number),
            ValueRef::Text(_) | ValueRef::Blob(_) => return Err(failed(self.0, "the argument is not a number")),
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, numbers: Option<Vec<f64>>) -> Result<Option<f64>> {
        Ok(numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| (self.1)(&numbers)))
    }
}
