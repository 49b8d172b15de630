//! What makes a job slow: channels and links that are slower than others, and the phase that bounds the proxies.

use std::collections::{BTreeMap, BTreeSet};

use super::{problem, some_ranks};
use crate::answers::records::RecordsReport;
use crate::answers::records::links::LinkRow;
use crate::document::findings::{Finding, FindingKind};
use crate::document::format::{percent, visible};
use crate::records::Records;
use crate::statistics::median;
use crate::time::Ns;

/// A channel that takes this many times the mean of its operation's channels, in the median and beyond its error, is slow.
const SLOW_CHANNEL: f64 = 1.5;

/// Channels that take less on average are not judged: where each has next to nothing to move, their times are those of starting. In recordings of healthy jobs
/// without any work (0.1 µs a channel) one takes up to 1.8 times the mean.
const LEAST_CHANNEL: Ns = Ns(20_000);

/// A link with less than this share of its communicator's median bandwidth, in the median over its operations and beyond its error, is slow.
const SLOW_LINK: f64 = 0.5;

/// Links that move less in an operation are not judged: what that takes is latency, not bandwidth (at 25 GB/s 64 KiB take 2.6 µs). In recordings of healthy jobs
/// with 3 KB an operation, links are up to 2.4 times slower than others.
const LEAST_BYTES: u64 = 64 << 10;

/// The fewest links with a meaningful median.
const LEAST_LINKS: usize = 3;

/// A phase with this share of the steps' time is clearly the bottleneck.
const CLEAR_BOUND: f64 = 0.5;

/// What to do about a slow channel or link.
const LOOK_AT_NETWORK: &str = "look at the NIC and the switch port that carry it, and at what else uses them.";

pub(super) fn find(records: &Records, report: &RecordsReport) -> Vec<Finding> {
    let network = (!is_without_network(records)).then(|| slow_channels(report).into_iter().chain(slow_links(report)));
    network.into_iter().flatten().chain(bounds(report)).collect()
}

/// Whether all of a job is on one host, and no transfer over InfiniBand or by a plugin is recorded: then no network card is slow.
fn is_without_network(records: &Records) -> bool {
    let hosts: BTreeSet<&str> = records.rank_status.iter().filter_map(|status| status.host.as_deref()).collect();
    let has_network = records.profiler_events.iter().any(|event| matches!(event.kind, "net-ib" | "net-plugin"));
    hosts.len() == 1 && !has_network
}

/// `rank 3 of tp [0, 1]`
fn rank_of(communicator: Option<&str>, rank: Option<u32>) -> String {
    let rank = rank.map_or("an unknown rank".to_owned(), |rank| format!("rank {rank}"));
    communicator.map_or(rank.clone(), |name| format!("{rank} of {}", visible(name)))
}

fn slow_channels(report: &RecordsReport) -> Vec<Finding> {
    let slow = report.channels.iter().filter(|row| row.mean >= LEAST_CHANNEL).filter_map(|row| {
        let (channel, time) = row.longest.filter(|(_, time)| time.is_above(SLOW_CHANNEL))?;
        let (rank, channels) = (rank_of(row.communicator.as_deref(), row.rank), row.channels);
        let what = format!(
            "Channel {channel} of {rank} takes {:.2} times the mean of its {channels} channels, in the median over operations.",
            time.median
        );
        Some(problem(FindingKind::SlowChannel, "Slow channel", what, row.rank, Some(LOOK_AT_NETWORK)))
    });
    slow.collect()
}

fn slow_links(report: &RecordsReport) -> Vec<Finding> {
    let mut bandwidths: BTreeMap<(Option<&str>, &str), Vec<f64>> = BTreeMap::new();
    let is_judged = |link: &&LinkRow| link.mean_bytes >= LEAST_BYTES;
    for link in report.links.iter().filter(is_judged) {
        let of = bandwidths.entry((link.communicator.as_deref(), link.direction)).or_default();
        of.extend(link.each.map(|each| each.median));
    }
    bandwidths.retain(|_, of| of.len() >= LEAST_LINKS);
    let medians: BTreeMap<_, f64> = bandwidths.into_iter().map(|(key, of)| (key, median(of))).collect();
    let slow = report.links.iter().filter(is_judged).filter_map(|link| {
        let median = *medians.get(&(link.communicator.as_deref(), link.direction))?;
        let gb_per_s = link.each.filter(|each| each.is_below(median * SLOW_LINK))?.median;
        let (verb, to) = if link.direction == "send" { ("sends", "to") } else { ("receives", "from") };
        let (rank, peer, channel) = (rank_of(link.communicator.as_deref(), link.rank), link.peer, link.channel);
        let what = format!(
            "{rank} {verb} {gb_per_s:.2} GB/s {to} rank {peer} on channel {channel}, in the median over operations, where that of all links is {median:.2} GB/s."
        );
        Some(problem(FindingKind::SlowLink, "Slow link", what, link.rank, Some(LOOK_AT_NETWORK)))
    });
    slow.collect()
}

/// Proxies that spend most of their time in one phase, with its largest share on any of the ranks.
fn bounds(report: &RecordsReport) -> Vec<Finding> {
    let mut found: BTreeMap<(&str, &str), (f64, BTreeSet<u32>)> = BTreeMap::new();
    for row in &report.proxies {
        let (Some(bound), Some(share)) = (row.bound, row.bound_share) else { continue };
        if share >= CLEAR_BOUND {
            let (largest, ranks) = found.entry((row.direction, bound)).or_default();
            *largest = largest.max(share);
            ranks.extend(row.rank);
        }
    }
    let finding = |((direction, bound), (share, ranks)): ((&str, &str), (f64, BTreeSet<u32>))| {
        let what = match direction {
            "send" => "Sends",
            "receive" => "Receives",
            _ => "The proxies",
        };
        let (phase, advice) = phase(bound);
        let what = format!(
            "{what} of {} are bound by {phase}: up to {} of their steps' time.",
            some_ranks(&ranks),
            percent(share)
        );
        problem(FindingKind::ProxyBound, "Bound by the proxy", what, ranks, Some(advice))
    };
    found.into_iter().map(finding).collect()
}

/// What a phase waits for, and what to do about it.
fn phase(bound: &str) -> (&'static str, &'static str) {
    const NETWORK: &str = "compare the bandwidth of the links with that of the NICs.";
    match bound {
        "gpu" => (
            "the GPU",
            "the network has time left: look at the kernels beside the collectives, and at the number of channels.",
        ),
        "receiver-late" => (
            "receivers that have no room yet",
            "look at the peers that receive: they arrive late, or are slow to empty their buffers.",
        ),
        "flush" => ("flushing what arrived to the GPU", "look at PCIe and GPUDirect RDMA between NIC and GPU."),
        "network" => ("the network", NETWORK),
        _ => ("the network or a late peer", NETWORK),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;
    use crate::records::{KernelChannel, ProfilerEvent, ProxyOp, RankStatus};

    /// Four links of `count` operations of `bytes` each, of which the last takes `slow` times as long as the others; ranks are on `hosts`.
    fn of_links(count: i64, bytes: u64, slow: i64, hosts: &[&str]) -> Records {
        let mut records = Records::default();
        for (link, at) in (0..4_u32).flat_map(|link| (0..count).map(move |at| (link, at))) {
            // Every other operation takes a tenth longer.
            let took = (50_000 + 5_000 * (at % 2)) * if link == 3 { slow } else { 1 };
            let start = Ns(at * 1_000_000);
            let (start, end) = (Some(start), Some(start + Ns(took)));
            let (place, peer, is_send) = (Some(link), i64::from(link + 1) % 4, true);
            records.proxy_ops.push(ProxyOp {
                place,
                peer,
                is_send,
                bytes: Some(bytes),
                start,
                end,
                ..ProxyOp::default()
            });
        }
        for host in hosts {
            records.rank_status.push(RankStatus { host: Some((*host).to_owned()), ..RankStatus::default() });
        }
        records
    }

    fn slow_links_of(records: &Records) -> Vec<String> {
        let report = crate::answers::records::report(records);
        let slow = report.diagnoses.into_iter().filter(|of| of.kind == FindingKind::SlowLink);
        slow.map(|of| of.what).collect()
    }

    #[test]
    fn a_link_is_slow_in_the_median_of_enough_large_transfers_over_a_network() {
        const MB: u64 = 1 << 20;
        // 1 MiB in 50 or 55 µs, three times that on the slow link: halves of 20.97 and 19.07 GB/s, and of 6.99 and 6.36.
        let slow = "rank 3 sends 6.67 GB/s to rank 0 on channel 0, in the median over operations, where that of all links is 20.02 GB/s.";
        assert_eq!(slow_links_of(&of_links(40, MB, 3, &["a", "b"])), [slow]);
        assert!(slow_links_of(&of_links(40, MB, 1, &["a", "b"])).is_empty(), "none is slower");
        assert!(slow_links_of(&of_links(10, MB, 3, &["a", "b"])).is_empty(), "too few operations");
        assert!(slow_links_of(&of_links(40, 3_000, 3, &["a", "b"])).is_empty(), "too few bytes");
        let mut on_one_host = of_links(40, MB, 3, &["a", "a"]);
        assert!(slow_links_of(&on_one_host).is_empty(), "there is no network");
        on_one_host.profiler_events.push(ProfilerEvent { kind: "net-ib", ..ProfilerEvent::default() });
        assert_eq!(slow_links_of(&on_one_host), [slow]);
        // One operation that takes long is no slow link.
        let mut once = of_links(40, MB, 1, &["a", "b"]);
        once.proxy_ops[0].end = Some(Ns(900_000_000));
        assert!(slow_links_of(&once).is_empty());
    }

    #[test]
    fn a_channel_is_slow_if_it_is_so_in_most_operations() {
        let of_channels = |count: i64, took: i64, slow: i64| {
            let mut records = Records::default();
            for at in 0..count {
                let operation = records.push(Operation { place: Some(0), ..Operation::default() });
                for channel in 0..4 {
                    let took = if channel == 2 { took * slow } else { took };
                    let (start, end) = (Some(Ns(at * 1_000_000)), Some(Ns(at * 1_000_000 + took)));
                    let mut row = KernelChannel::default();
                    (row.operation, row.channel, row.start, row.end) = (Some(operation), channel, start, end);
                    records.channels.push(row);
                }
            }
            let report = crate::answers::records::report(&records);
            let slow =
                "Channel 2 of rank 0 takes 2.00 times the mean of its 4 channels, in the median over operations.";
            report.diagnoses.iter().any(|of| of.kind == FindingKind::SlowChannel && of.what == slow)
        };
        // Three times as long as the others is twice the mean of all four.
        assert!(of_channels(20, 30_000, 3));
        assert!(!of_channels(20, 30_000, 1) && !of_channels(10, 30_000, 3) && !of_channels(20, 100, 3));
    }
}
