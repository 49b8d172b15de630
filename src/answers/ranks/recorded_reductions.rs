//! Parts from records that know when kernels ran, so that they are compared as those of traces are.
//!
//! Such records have neither compute kernels nor launches: why a rank was late stays open, who waited for whom does not.

use std::collections::{BTreeMap, BTreeSet};

use super::reduction::{Kind, RankReduction, RankSource, ReducedStack, Row};
use crate::numbers::Numbers;
use crate::operation::{Communicator, Counts, Operation, Source};
use crate::operations::communicators::Communicators;
use crate::operations::recorded_ranks::RecordedRanks;
use crate::records::Records;
use crate::time::{Ns, Window};

/// How many frames of a recorded call path are shown first, from the innermost.
const TELLING: usize = 4;

#[derive(Debug, Clone, Default)]
pub struct RecordedReductions {
    pub reductions: Vec<RankReduction>,
    /// How many operations were left out because their times are unknown.
    pub without_times: u64,
    /// How many were left out because their rank is unknown.
    pub without_rank: u64,
    pub source: Source,
    pub of_other_sources: u64,
}

/// Operations by their starts: how long they took, and their positions.
type Timed = Vec<(Ns, Ns, usize)>;

impl RecordedReductions {
    /// The parts of the operations owners start and end are known. Where several sources recorded the job, those of the source with the most such
    /// operations: their communicators have different names, so that one collective would be two.
    pub fn from_records(records: &Records) -> Self {
        let mut found = RecordedReductions::default();
        let owners = RecordedRanks::find(records);
        let mut by_source: BTreeMap<Source, BTreeMap<u32, Timed>> = BTreeMap::new();
        for (at, operation) in records.operations.iter().enumerate() {
            let Some((start, dur)) = times(operation) else {
                found.without_times += 1;
                continue;
            };
            let Some(rank) = owners.rank(records, at) else {
                found.without_rank += 1;
                continue;
            };
            by_source.entry(operation.source).or_default().entry(rank).or_default().push((start, dur, at));
        }
        let operations = |ranks: &BTreeMap<u32, Timed>| ranks.values().map(Vec::len).sum::<usize>() as u64;
        let all: u64 = by_source.values().map(operations).sum();
        let best = by_source.into_iter().max_by_key(|(source, ranks)| (operations(ranks), std::cmp::Reverse(*source)));
        let Some((source, by_rank)) = best else { return found };
        found.source = source;
        found.of_other_sources = all - operations(&by_rank);
        let communicators = &owners.communicators;
        let (members, functions) = (owners.members(records), functions(records, communicators));
        let facts = Facts { records, communicators, members, functions };
        for (rank, mut rows) in by_rank {
            rows.sort_unstable();
            found.reductions.push(reduction(&facts, rank, &rows));
        }
        found
    }
}

/// When an operation started, and how long it took.
fn times(operation: &Operation) -> Option<(Ns, Ns)> {
    let took = operation.took()?;
    let start = operation.start.or_else(|| Some(operation.end? - took))?;
    Some((start, took))
}

/// By communicator: how many functions are called in it. Numbers of each function order the rows only where there is one.
fn functions(records: &Records, communicators: &Communicators) -> Vec<usize> {
    let mut seen: Vec<BTreeSet<Option<&str>>> = vec![BTreeSet::new(); communicators.all().len()];
    for operation in &records.operations {
        if let Some(communicator) = communicators.of_operation(operation) {
            seen[communicator].insert(operation.collective.as_deref());
        }
    }
    seen.iter().map(BTreeSet::len).collect()
}

/// What the parts of all ranks are made from.
struct Facts<'r> {
    records: &'r Records,
    communicators: &'r Communicators,
    /// By communicator: its ranks.
    members: Vec<Vec<u32>>,
    /// By communicator: how many functions are called in it.
    functions: Vec<usize>,
}

fn reduction(facts: &Facts<'_>, rank: u32, rows: &[(Ns, Ns, usize)]) -> RankReduction {
    let records = facts.records;
    let (mut texts, mut kinds) = (Numbers::default(), Numbers::default());
    let (mut groups, mut streams, mut paths) = (Numbers::default(), Numbers::default(), Numbers::default());
    let files: BTreeSet<u32> = rows.iter().filter_map(|(_, _, at)| records.file_of.get(*at)).copied().collect();
    let row = |(number, (start, dur, at)): (usize, &(Ns, Ns, usize))| {
        let operation = &records.operations[*at];
        let communicator = facts.communicators.of_operation(operation);
        let peer = facts.peer(operation, communicator);
        let collective = operation.collective.as_deref();
        let name = texts.number(collective.unwrap_or_else(|| operation.source.title()).to_owned());
        let kind = Kind { peer, ..Kind::of(operation, name, true) };
        Row {
            kernel: number as u32,
            start: *start,
            dur: *dur,
            exposed: *dur,
            kind: kinds.number(kind),
            group: communicator.map(|communicator| groups.number(communicator)),
            seq: facts.sequence(operation, communicator),
            stack: operation.recorded_path.map(|path| paths.number(path)),
            stream: streams.number((operation.stream_handle, communicator)),
            ..Row::default()
        }
    };
    let rows: Vec<Row> = rows.iter().enumerate().map(row).collect();
    let group = |communicator: &usize| facts.group(*communicator);
    let stack = |path: &u32| stack_of(records.paths.get(*path as usize).map_or(&[], Vec::as_slice));
    let names = files.iter().filter_map(|file| records.files.get(*file as usize)).map(|file| file.name.as_str());
    RankReduction {
        trace: names.collect::<Vec<_>>().join(", "),
        said: vec![(RankSource::Records, rank)],
        window: Window {
            start: rows.first().map_or(Ns::ZERO, |row| row.start),
            end: rows.iter().map(Row::end).max().unwrap_or_default(),
        },
        texts: texts.list,
        groups: groups.list.iter().map(group).collect(),
        kinds: kinds.list,
        stacks: paths.list.iter().map(stack).collect(),
        rows,
        ..RankReduction::default()
    }
}

impl Facts<'_> {
    /// The other side: records have its rank within the communicator, parts its global rank. Roots are places in both.
    fn peer(&self, operation: &Operation, communicator: Option<usize>) -> Option<i64> {
        let peer = operation.peer?;
        if !matches!(operation.collective.as_deref(), Some("send" | "recv" | "sendrecv")) {
            return Some(peer);
        }
        let (ranks, size) = (self.members.get(communicator?)?, self.communicators.get(communicator)?.size?);
        let is_whole = ranks.len() as u64 == size;
        ranks.get(usize::try_from(peer).ok()?).filter(|_| is_whole).map(|rank| i64::from(*rank))
    }

    /// Its number, if it counts all operations of the group.
    fn sequence(&self, operation: &Operation, communicator: Option<usize>) -> Option<u32> {
        let is_of_group = match operation.counts {
            Counts::Group | Counts::Collectives => true,
            Counts::Function => communicator.and_then(|of| self.functions.get(of)) == Some(&1),
            Counts::Communicator | Counts::Stream => false,
        };
        operation.sequence.filter(|_| is_of_group).and_then(|number| u32::try_from(number).ok())
    }

    fn group(&self, communicator: usize) -> Communicator {
        let known = &self.communicators.all()[communicator];
        // Communicators of the same ranks are distinguished by what names them on all ranks.
        let description = known.description.clone().or_else(|| known.hash.map(|hash| format!("{hash:#x}")));
        let ranks = self.members.get(communicator).filter(|ranks| !ranks.is_empty()).cloned();
        Communicator { ranks, description, name: known.name.clone(), size: known.size, ..Communicator::default() }
    }
}

fn stack_of(frames: &[std::sync::Arc<str>]) -> ReducedStack {
    let frames: Vec<String> = frames.iter().map(|frame| frame.to_string()).collect();
    ReducedStack { telling: frames.iter().rev().take(TELLING).cloned().collect(), frames, ..ReducedStack::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::ranks::data::Compared;
    use crate::id::RankId;
    use crate::operation::Source;
    use crate::operations::clocks::ClockMode;
    use crate::records::RecordFile;

    /// Two ranks with the same all-reduces: the second starts `late` later each time, both end together.
    fn job(late: i64, counts: Counts, with_rank: bool) -> Records {
        let mut records = Records::default();
        records.communicators.push(Communicator { hash: Some(7), size: Some(2), ..Communicator::default() });
        for rank in 0..2_u32 {
            records.files.push(RecordFile::new(format!("rank{rank}.log")));
            for number in 0..20_i64 {
                let begin = Ns(1_000_000_000 + number * 1_000_000);
                records.operations.push(Operation {
                    source: Source::INSPECTOR,
                    rank: with_rank.then_some(RankId(rank)),
                    place: Some(rank),
                    communicator: Some(0),
                    sequence: Some(number),
                    counts,
                    collective: Some("all_reduce".into()),
                    dtype: Some("Float".into()),
                    in_elements: Some(1024),
                    out_elements: Some(1024),
                    bytes: Some(4096),
                    start: Some(begin + Ns(late * i64::from(rank))),
                    end: Some(begin + Ns(300_000)),
                    ..Operation::default()
                });
                records.file_of.push(rank);
            }
        }
        records
    }

    #[test]
    fn waiting_is_found_as_in_traces() {
        for (counts, with_rank) in [(Counts::Group, true), (Counts::Function, true), (Counts::Function, false)] {
            let found = RecordedReductions::from_records(&job(200_000, counts, with_rank));
            assert_eq!((found.reductions.len(), found.without_times, found.without_rank), (2, 0, 0));
            let report = Compared::from_reductions(found.reductions, ClockMode::Align).unwrap().report();
            // 20 times, rank 0 waits 200 µs for rank 1, owners kernels take the 100 µs of the transfer.
            assert_eq!((report.collectives, report.waited_ns), (20, Ns(20 * 200_000)), "{counts:?}");
            assert_eq!((report.ranks[0].waited_ns, report.ranks[1].caused_ns), (Ns(4_000_000), Ns(4_000_000)));
        }
    }

    #[test]
    fn what_has_no_time_is_counted() {
        let mut records = job(0, Counts::Group, true);
        records.operations[3].end = None;
        records.operations[4].duration = Some(Ns(5));
        records.operations[4].end = None;
        records.operations[5].rank = None;
        records.operations[5].communicator = None;
        let found = RecordedReductions::from_records(&records);
        assert_eq!((found.without_times, found.without_rank), (1, 0));
        records.file_of[5] = 9;
        assert_eq!(RecordedReductions::from_records(&records).without_rank, 1);
    }
}
