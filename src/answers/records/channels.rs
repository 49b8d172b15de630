//! How evenly the channels of a rank were busy. An operation ends with its last channel, so one slow channel slows the whole operation.

use std::collections::BTreeMap;

use serde::Serialize;

use super::links::LinkRow;
use super::steady::Steady;
use crate::operation::Operation;
use crate::operations::communicators::Communicators;
use crate::records::Records;
use crate::time::Ns;

/// The channels of a rank.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChannelRow {
    /// The communicator: its description and ranks, or NCCL's hash.
    pub communicator: Option<String>,
    /// The rank within the communicator.
    pub rank: Option<u32>,
    /// The number of channels.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub channels: u64,
    /// The distribution of their times on the GPU, in ns; `None` if not all ends of kernels are recorded.
    pub time: Option<Imbalance>,
    /// The distribution of the bytes of their proxies; `None` if there are none.
    pub bytes: Option<Imbalance>,
    /// The channel that takes longest in most operations, and how many times the mean of an operation's channels it takes.
    #[serde(skip)]
    pub longest: Option<(u32, Steady)>,
    /// The mean time of a channel in an operation.
    #[serde(skip)]
    pub mean: Ns,
}

/// How uneven the channels are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Imbalance {
    /// The mean over the channels.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// The channel with the largest.
    pub channel: u32,
    /// The largest as a multiple of the mean; 1 if all channels are equal.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub ratio: f64,
}

impl Imbalance {
    /// The imbalance of these values; `None` for fewer than two channels, or if all values are 0.
    fn find(values: &ByChannel) -> Option<Self> {
        let mean = values.values().sum::<f64>() / values.len() as f64;
        let (channel, max) = values.iter().rev().max_by(|a, b| a.1.total_cmp(b.1))?;
        (values.len() > 1 && mean > 0.0).then(|| Imbalance { mean, max: *max, channel: *channel, ratio: max / mean })
    }
}

/// A value for each channel.
type ByChannel = BTreeMap<u32, f64>;

/// For each channel, its share of the mean of each operation's channels.
type Ratios = BTreeMap<u32, Vec<f64>>;

/// For each channel, the sum and number of its times.
type Times = BTreeMap<u32, (Ns, u64)>;

pub(super) fn rows(records: &Records, communicators: &Communicators, links: &[LinkRow]) -> Vec<ChannelRow> {
    let key = |of: &Operation| (communicators.of_operation(of), of.place_or_rank());
    let mut rows: BTreeMap<_, (Times, Ratios)> = BTreeMap::new();
    // By operation: the times of its channels.
    let mut each: BTreeMap<usize, Vec<(u32, f64)>> = BTreeMap::new();
    for row in &records.channels {
        let Some(operation) = row.operation.and_then(|at| records.operations.get(at)) else { continue };
        let (times, _) = rows.entry(key(operation)).or_default();
        let (time, ends) = times.entry(row.channel).or_default();
        let on_gpu = row.gpu_start.zip(row.gpu_stop).or(row.start.zip(row.end));
        if let Some((start, stop)) = on_gpu.filter(|(start, stop)| stop >= start) {
            *time += stop - start;
            *ends += 1;
            each.entry(row.operation.unwrap_or_default()).or_default().push((row.channel, (stop - start).as_f64()));
        }
    }
    for (at, times) in each.into_iter().filter(|(_, times)| times.len() > 1) {
        let mean = times.iter().map(|(_, time)| time).sum::<f64>() / times.len() as f64;
        let (_, ratios) = rows.entry(key(&records.operations[at])).or_default();
        for (channel, time) in times.into_iter().filter(|_| mean > 0.0) {
            ratios.entry(channel).or_default().push(time / mean);
        }
    }
    let mut found: Vec<ChannelRow> = rows
        .into_iter()
        .map(|((group, rank), (channels, ratios))| {
            let steady = ratios.into_iter().filter_map(|(channel, ratios)| Some((channel, Steady::find(ratios)?)));
            // With different numbers of ends, the sums are not comparable.
            let counts: Vec<u64> = channels.values().map(|(_, ends)| *ends).collect();
            let comparable = counts.iter().all(|ends| *ends > 0 && *ends == counts[0]);
            let times = channels.iter().map(|(channel, (time, _))| (*channel, time.as_f64())).collect();
            let (time, ends) = channels.values().fold((Ns::ZERO, 0), |(time, ends), of| (time + of.0, ends + of.1));
            ChannelRow {
                communicator: communicators.title(group),
                rank,
                channels: channels.len() as u64,
                longest: steady.max_by(|one, other| one.1.median.total_cmp(&other.1.median)),
                mean: Ns(time.0.checked_div(i64::try_from(ends).unwrap_or(i64::MAX)).unwrap_or(0)),
                time: if comparable { Imbalance::find(&times) } else { None },
                bytes: None,
            }
        })
        .collect();
    add_bytes(&mut found, links);
    found
}

/// Adds the bytes moved by the proxies of each channel.
fn add_bytes(rows: &mut Vec<ChannelRow>, links: &[LinkRow]) {
    let mut bytes: BTreeMap<(Option<&str>, Option<u32>), ByChannel> = BTreeMap::new();
    for link in links {
        let channels = bytes.entry((link.communicator.as_deref(), link.rank)).or_default();
        *channels.entry(link.channel).or_default() += link.bytes.unwrap_or(0) as f64;
    }
    let mut known: BTreeMap<(Option<String>, Option<u32>), usize> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        known.entry((row.communicator.clone(), row.rank)).or_insert(at);
    }
    for ((communicator, rank), channels) in bytes {
        let at = known.get(&(communicator.map(str::to_owned), rank));
        let imbalance = Imbalance::find(&channels);
        match at.and_then(|at| rows.get_mut(*at)) {
            Some(row) => row.bytes = imbalance,
            None => rows.push(ChannelRow {
                communicator: communicator.map(str::to_owned),
                rank,
                channels: channels.len() as u64,
                bytes: imbalance,
                ..ChannelRow::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_the_largest_by_the_mean() {
        let of = |values: &[f64]| Imbalance::find(&(0..).zip(values.iter().copied()).collect());
        let found = of(&[10.0, 10.0, 40.0]).unwrap();
        assert_eq!((found.mean, found.channel, found.ratio), (20.0, 2, 2.0));
        assert_eq!((of(&[5.0]), of(&[0.0, 0.0]), of(&[])), (None, None, None));
    }
}
