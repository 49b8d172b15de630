//! Bus bandwidths that a source records beside size and time, against those that follow from size and time by nccl-tests' formulas.
//!
//! A time that is written in whole microseconds may be off by one of them: as far as that changes a bandwidth, the two agree.

use serde::Serialize;

use super::census::{bandwidths, took};
use crate::operations::communicators::Communicators;
use crate::records::{Measure, Records};
use crate::time::Ns;

/// Half of the last digit of a bandwidth, in GB/s: they have six decimals, or three.
const ROUNDING: f64 = 0.000_6;

/// How recorded bus bandwidths compare with those worked out here.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BandwidthCheck {
    /// How many operations have one.
    pub recorded: u64,
    /// How many of them agree within the rounding of their time.
    pub agree: u64,
    /// How many differ.
    pub differ: u64,
    /// How many cannot be compared, because something is unknown or the source gives 0 for a collective that it has no formula of.
    pub not_comparable: u64,
    /// The largest difference of those that agree or differ, as a share of the recorded one.
    pub largest_difference: Option<f64>,
}

pub(super) fn check(records: &Records, communicators: &Communicators) -> Option<BandwidthCheck> {
    let mut check = BandwidthCheck::default();
    for measure in &records.measures {
        let Some(recorded) = measure.busbw else { continue };
        check.recorded += 1;
        let Some((worked_out, slack)) = worked_out(records, communicators, measure).filter(|_| recorded > 0.0) else {
            check.not_comparable += 1;
            continue;
        };
        let difference = (worked_out - recorded).abs();
        if difference <= slack * recorded + ROUNDING {
            check.agree += 1
        } else {
            check.differ += 1
        }
        let share = difference / recorded;
        check.largest_difference = Some(check.largest_difference.map_or(share, |largest| largest.max(share)));
    }
    (check.recorded > 0).then_some(check)
}

/// The bandwidth, and by which share of it the rounding of the time may change it.
fn worked_out(records: &Records, communicators: &Communicators, measure: &Measure) -> Option<(f64, f64)> {
    let operation = records.operations.get(measure.operation)?;
    let (_, bus) = bandwidths(operation, communicators.size(communicators.of_operation(operation)))?;
    let time = took(operation)?;
    let shortest = (time - measure.resolution).max(Ns(1));
    Some((bus?, measure.resolution.as_f64() / shortest.as_f64()))
}
