//! Which operations were recorded: by source, communicator, collective and size class, with times, bandwidths, and how NCCL carried them out.
//!
//! Size classes are powers of two, because NCCL selects algorithm and protocol by size. If a source counts its calls, as logs with a line per call
//! do, the table has rows for the counts, without times. The operations kept from such a source are included in its counts and get no rows.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::communicators::counted;
use crate::answers::cost::Distribution;
use crate::operation::{Operation, Source};
use crate::operations::communicators::Communicators;
use crate::records::Records;
use crate::statistics::median;
use crate::time::Ns;

/// Operations of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CensusRow {
    /// The source that recorded them.
    #[cfg_attr(test, schemars(with = "crate::operations::written::Source"))]
    pub source: &'static str,
    /// Their communicator: its description and ranks, or NCCL's hash; `None` if it is not recorded.
    pub communicator: Option<String>,
    /// The collective by its nccl-tests name, or as recorded if nccl-tests has no equivalent.
    pub collective: Option<String>,
    /// Their size class; `None` if sizes are not recorded.
    pub size: Option<SizeClass>,
    /// The number of operations; each rank's count separately.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub count: u64,
    /// The number of ranks.
    pub ranks: u64,
    /// How long they took; `None` if no duration is known.
    pub time: Option<Distribution>,
    /// The number of operations with a known duration.
    pub timed: u64,
    /// The median of their algorithm bandwidths, in GB/s (10^9 bytes); `None` without sizes or durations.
    pub algbw_gb_per_s: Option<f64>,
    /// The median of their bus bandwidths, in GB/s; `None` without sizes, durations or the number of ranks.
    pub busbw_gb_per_s: Option<f64>,
    /// The number of operations by algorithm.
    pub algorithms: BTreeMap<String, u64>,
    /// The number of operations by protocol.
    pub protocols: BTreeMap<String, u64>,
    /// The number of operations by number of channels.
    pub channels: BTreeMap<u32, u64>,
    /// The number of operations by element type, in PyTorch's words.
    pub dtypes: BTreeMap<String, u64>,
}

/// Sizes from one power of two to the next, as nccl-tests counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SizeClass {
    /// The smallest size of the class, in bytes.
    pub from_bytes: u64,
    /// The smallest size that occurs, in bytes.
    pub min_bytes: u64,
    /// The largest size that occurs, in bytes.
    pub max_bytes: u64,
}

/// What the operations of a row have in common.
type Key<'r> = (Source, Option<usize>, Option<&'r str>, Option<u64>);

#[derive(Default)]
struct Sums {
    row: CensusRow,
    ranks: BTreeSet<u32>,
    times: Vec<Ns>,
    algbw: Vec<f64>,
    busbw: Vec<f64>,
}

pub(super) fn rows(records: &Records, communicators: &Communicators) -> Vec<CensusRow> {
    let mut rows: BTreeMap<Key<'_>, Sums> = BTreeMap::new();
    for (operation, count) in counted(records) {
        let group = communicators.of_operation(operation);
        let key = (operation.source, group, operation.collective.as_deref(), operation.bytes.map(class));
        rows.entry(key).or_default().add(operation, count, communicators.size(group));
    }
    let mut rows: Vec<CensusRow> = rows.into_iter().map(|(key, sums)| sums.row(key, communicators)).collect();
    let total = |row: &CensusRow| row.time.map_or(Ns::ZERO, |time| time.total_ns);
    rows.sort_by_key(|row| (std::cmp::Reverse(total(row)), std::cmp::Reverse(row.count)));
    rows
}

/// The class of a size: the largest power of two that does not exceed it.
fn class(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

/// Algorithm and bus bandwidth of an operation in GB/s: bytes per nanosecond. `None` for one too short for its source's clock.
pub(super) fn bandwidths(operation: &Operation, ranks: Option<u64>) -> Option<(f64, Option<f64>)> {
    let algorithm = operation.bytes? as f64 / operation.took().filter(|took| *took > Ns::ZERO)?.as_f64();
    let factor = operation.known_collective().and_then(|collective| match ranks {
        _ if collective.bus_factor(2) == collective.bus_factor(4) => Some(collective.bus_factor(2)),
        ranks => ranks.map(|ranks| collective.bus_factor(ranks)),
    });
    Some((algorithm, factor.map(|factor| algorithm * factor)))
}

impl Sums {
    fn add(&mut self, operation: &Operation, times: u64, ranks: Option<u64>) {
        self.row.count += times;
        self.ranks.extend(operation.place_or_rank());
        self.times.extend(operation.took());
        if let Some((algorithm, bus)) = bandwidths(operation, ranks) {
            self.algbw.push(algorithm);
            self.busbw.extend(bus);
        }
        let row = &mut self.row;
        if let Some(bytes) = operation.bytes {
            let size =
                row.size.get_or_insert(SizeClass { from_bytes: class(bytes), min_bytes: bytes, max_bytes: bytes });
            size.min_bytes = size.min_bytes.min(bytes);
            size.max_bytes = size.max_bytes.max(bytes);
        }
        count(&mut row.algorithms, operation.algorithm.as_deref(), times);
        count(&mut row.protocols, operation.protocol.as_deref(), times);
        count(&mut row.dtypes, operation.dtype.as_deref(), times);
        if let Some(channels) = operation.channels {
            *row.channels.entry(channels).or_default() += times;
        }
    }

    fn row(self, (source, group, collective, _): Key<'_>, communicators: &Communicators) -> CensusRow {
        let known = |bandwidths: Vec<f64>| (!bandwidths.is_empty()).then(|| median(bandwidths));
        CensusRow {
            source: source.name(),
            communicator: communicators.title(group),
            collective: collective.map(str::to_owned),
            ranks: self.ranks.len() as u64,
            timed: self.times.len() as u64,
            time: Distribution::from_times(self.times),
            algbw_gb_per_s: known(self.algbw),
            busbw_gb_per_s: known(self.busbw),
            ..self.row
        }
    }
}

fn count(counts: &mut BTreeMap<String, u64>, value: Option<&str>, times: u64) {
    if let Some(value) = value {
        *counts.entry(value.to_owned()).or_default() += times;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_classes_of_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1_048_575, 1_048_576].map(class), [0, 1, 2, 2, 4, 524_288, 1_048_576]);
    }
}
