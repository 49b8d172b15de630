//! Megatrace's logs, one `rank_<R>.log` per rank, by the recorder's writer of their lines.
//!
//! The group hash is Megatrace's own if a recording or a Megatrace log has it, including 0 for split groups. Otherwise it is NCCL's: also equal on
//! all ranks, as analyses of these logs need it, but another number. Calls are numbered per stream as in Megatrace; calls from a log keep theirs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

pub use nccl_stacks_recorder_text::megatrace::Form;
use nccl_stacks_recorder_text::megatrace::{About, Line};

use super::{Converted, Coverage, function};
use crate::names::collectives::Collective;
use crate::operation::{Operation, Source};
use crate::records::Records;
use crate::time::Ns;

/// The logs of all ranks, by rank, each from one source. Leaves out operations whose call time, rank, or element count is unknown.
pub fn logs(records: &Records, form: Form) -> (Vec<Converted>, Coverage) {
    let lines: Vec<Option<(u32, Call<'_>)>> = records.operations.iter().map(|of| call(records, of)).collect();
    // Calls weigh more if their source has the global rank and the stream, so that a source with both precedes others with as many calls.
    let weight = |of: &Operation| 1 + usize::from(of.rank.is_some()) + usize::from(of.stream_handle.is_some());
    let weighted = |(rank, (of, _)): &(u32, Call<'_>)| std::iter::repeat_n((*rank, of.source), weight(of));
    let sources = sources(lines.iter().flatten().flat_map(weighted));
    let (mut coverage, mut ranks) = (Coverage::default(), BTreeMap::<u32, Vec<Call<'_>>>::new());
    for line in lines {
        match line {
            Some((rank, (of, _))) if sources.get(&rank) != Some(&of.source) => coverage.elsewhere += 1,
            line => {
                coverage.count(line.is_some());
                line.into_iter().for_each(|(rank, line)| ranks.entry(rank).or_default().push(line));
            }
        }
    }
    let file = |(rank, lines)| Converted {
        name: format!("rank_{rank}.log"),
        text: text(rank, host(records, rank), lines, form),
        ..Converted::default()
    };
    (ranks.into_iter().map(file).collect(), coverage)
}

/// The source of each rank. Several may have recorded the same calls; the one with the most is used.
fn sources(usable: impl Iterator<Item = (u32, Source)>) -> BTreeMap<u32, Source> {
    let mut counts: BTreeMap<u32, BTreeMap<Source, u64>> = BTreeMap::new();
    usable.for_each(|(rank, source)| *counts.entry(rank).or_default().entry(source).or_default() += 1);
    let most = |of: BTreeMap<Source, u64>| of.into_iter().max_by_key(|(source, count)| (*count, Reverse(*source)));
    counts.into_iter().filter_map(|(rank, of)| Some((rank, most(of)?.0))).collect()
}

/// An operation, and its line without what depends on the rank and on the lines before it.
type Call<'a> = (&'a Operation, Line<'a>);

fn call<'a>(records: &Records, operation: &'a Operation) -> Option<(u32, Call<'a>)> {
    let collective = operation.known_collective()?;
    let line = Line {
        about: About::default(),
        saves: 1,
        time: operation.enqueued.filter(|time| *time >= Ns::ZERO)?.0,
        function: function(collective),
        count: count(records, operation, collective)?,
        stream: operation.stream_handle.unwrap_or(0),
        number: 0,
        group: group_hash(records, operation),
    };
    Some((operation.rank_or_place()?, (operation, line)))
}

/// The hash of an operation's group; 0 if its source does not have it.
fn group_hash(records: &Records, operation: &Operation) -> u64 {
    let hash = records.communicator_of(operation).and_then(|of| of.hash).unwrap_or(0);
    let is_megatrace = operation.source == Source::MEGATRACE;
    records.group_hashes.get(&hash).copied().filter(|_| !is_megatrace).unwrap_or(hash)
}

/// NCCL's `count` argument: a rank's input elements, its output elements, or its elements per peer.
fn count(records: &Records, operation: &Operation, collective: Collective) -> Option<u64> {
    match collective {
        Collective::ReduceScatter | Collective::Scatter | Collective::Recv => operation.out_elements,
        Collective::AllToAll => operation.in_elements?.checked_div(super::size_of(records, operation)?),
        _ => operation.in_elements,
    }
}

/// The host of a rank; empty if no source has it.
fn host(records: &Records, rank: u32) -> &str {
    let of_rank = records.rank_status.iter().filter(|row| row.rank.is_some_and(|of| of.0 == rank));
    of_rank.filter_map(|row| row.host.as_deref()).next().unwrap_or_default()
}

fn text(rank: u32, host: &str, mut calls: Vec<Call<'_>>, form: Form) -> String {
    calls.sort_by_key(|(_, line)| line.time);
    let about = About { address: "unknown", host, rank, offset: 0 };
    let mut numbers: HashMap<u64, i64> = HashMap::new();
    let mut text = String::new();
    for (operation, line) in calls {
        let last = numbers.entry(line.stream).or_default();
        *last = operation.sequence.filter(|_| operation.source == Source::MEGATRACE).unwrap_or(*last + 1);
        // Writing to a String cannot fail.
        let _ = Line { about, number: *last, ..line }.write(form, &mut text);
    }
    text
}
