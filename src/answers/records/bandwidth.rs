//! Compares the bus bandwidths recorded by a source with those computed from size and time by nccl-tests' formulas.
//!
//! A time recorded in whole microseconds may be off by one microsecond. Bandwidths agree if they differ by no more than that explains.

use serde::Serialize;

use super::census::bandwidths;
use crate::operations::communicators::Communicators;
use crate::records::{Measure, Records};
use crate::time::Ns;

/// Just over half of the last recorded digit, in GB/s: bandwidths have three decimals, or six.
const ROUNDING: f64 = 0.000_6;

/// How recorded bus bandwidths compare with computed ones.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BandwidthCheck {
    /// The number of operations with a recorded bandwidth.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub recorded: u64,
    /// The number that agree within the rounding of their time.
    pub agree: u64,
    /// The number that differ.
    pub differ: u64,
    /// The number that cannot be compared, because something is unknown or the source writes 0 for a collective without a formula.
    pub not_comparable: u64,
    /// The largest difference of the compared bandwidths, as a share of the recorded value; `None` if none can be compared.
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

/// The bandwidth, and the share of it by which rounding of the time may change it.
fn worked_out(records: &Records, communicators: &Communicators, measure: &Measure) -> Option<(f64, f64)> {
    let operation = records.operations.get(measure.operation)?;
    let (_, bus) = bandwidths(operation, communicators.size(communicators.of_operation(operation)))?;
    let time = operation.took()?;
    let shortest = (time - measure.resolution).max(Ns(1));
    Some((bus?, measure.resolution.as_f64() / shortest.as_f64()))
}
