//! Aggregates that SQLite lacks: the median and the standard deviation of numbers, for the columns of `nsys stats`, and percentiles.

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
    connection.create_aggregate_function(PERCENTILE, 2, PURE, Percentile)
}

/// A number among the arguments of an aggregate; `None` for NULL.
fn number(context: &Context<'_>, at: usize, function: &str) -> Result<Option<f64>> {
    match context.get_raw(at) {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(number) => Ok(Some(number as f64)),
        ValueRef::Real(number) => Ok(Some(number)),
        ValueRef::Text(_) | ValueRef::Blob(_) => Err(failed(function, "the argument is not a number")),
    }
}

impl Aggregate<Vec<f64>, Option<f64>> for Statistic {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, numbers: &mut Vec<f64>) -> Result<()> {
        numbers.extend(number(context, 0, self.0)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, numbers: Option<Vec<f64>>) -> Result<Option<f64>> {
        Ok(numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| (self.1)(&numbers)))
    }
}

const PERCENTILE: &str = "percentile";

/// `percentile(number, p)`: the number below which `p` percent of all are, between two of them in proportion, as SQLite's extension of this name has it.
struct Percentile;

impl Aggregate<(Vec<f64>, f64), Option<f64>> for Percentile {
    fn init(&self, _: &mut Context<'_>) -> Result<(Vec<f64>, f64)> {
        Ok((Vec::new(), 0.0))
    }

    fn step(&self, context: &mut Context<'_>, (numbers, percent): &mut (Vec<f64>, f64)) -> Result<()> {
        *percent = number(context, 1, PERCENTILE)?.unwrap_or(f64::NAN);
        if !(0.0..=100.0).contains(percent) {
            return Err(failed(PERCENTILE, "the second argument is not between 0 and 100"));
        }
        numbers.extend(number(context, 0, PERCENTILE)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, state: Option<(Vec<f64>, f64)>) -> Result<Option<f64>> {
        let Some((mut numbers, percent)) = state.filter(|(numbers, _)| !numbers.is_empty()) else { return Ok(None) };
        numbers.sort_by(f64::total_cmp);
        let at = percent / 100.0 * (numbers.len() - 1) as f64;
        let [below, above] = [at.floor(), at.ceil()].map(|at| numbers[at as usize]);
        Ok(Some(below + (above - below) * at.fract()))
    }
}
