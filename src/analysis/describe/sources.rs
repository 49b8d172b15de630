//! What NCCL's own records contain, and what they can answer: by source, the number of files, ranks and operations, and the times and other facts
//! recorded for the operations.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::answers::Possible;
use super::questions::{HANG_ON, Share};
use crate::names::values::{KERNEL_CHANNELS, OPERATIONS, PROXY_STEPS};
use crate::operation::{Operation, Source, State};
use crate::records::{Records, Remark};

/// What a source recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SourceRow {
    /// Its name.
    pub source: &'static str,
    /// Its name in sentences.
    #[serde(skip)]
    pub title: &'static str,
    /// The events that the plugins of the recordings were asked for, over all files.
    #[serde(skip)]
    pub events: u64,
    /// The format versions named in the files.
    pub versions: Vec<String>,
    /// The number of files.
    pub files: u64,
    /// The size of their decompressed text in bytes.
    pub bytes: u64,
    /// The number of recorded operations.
    pub operations: u64,
    /// The number of operations examined: of logs with a line per call, the last call of each rank and communicator.
    pub looked_at: u64,
    /// The ranks it recorded: of the job, or within their communicator if only that is known.
    pub ranks: Vec<u32>,
    /// The number of examined operations with an enqueue time.
    pub enqueued: u64,
    /// The number of collectives, excluding sends and receives, which have no common start.
    pub collectives: u64,
    /// The number of collectives with an enqueue time.
    pub comparable: u64,
    /// The number with a start.
    pub started: u64,
    /// The number with an end.
    pub ended: u64,
    /// The number with a duration.
    pub timed: u64,
    /// The number with a size.
    pub sized: u64,
    /// The number with a sequence number in their group.
    pub numbered: u64,
    /// The number with a state.
    pub stated: u64,
    /// The number with a call path.
    pub call_paths: u64,
    /// The number that name their algorithm or protocol.
    pub algorithms: u64,
    /// The number of operations of proxy threads.
    pub proxy_operations: u64,
    /// The number of steps of these operations.
    pub proxy_steps: u64,
    /// The number of steps planned by a flow extractor.
    pub flow_steps: u64,
    /// The number of ranks for which RAS or a log gives counts.
    pub counted_ranks: u64,
    /// How much of the files was skipped.
    pub skipped: u64,
    /// How much of them was repaired.
    pub repaired: u64,
}

/// An answer from records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordAnswer {
    /// The name of the question.
    pub name: &'static str,
    /// The question, in a few words.
    pub question: &'static str,
    /// Whether the records can answer it.
    pub possible: Possible,
    /// What it needs.
    pub key: &'static str,
    /// How many of `unit` have that, in the source that has most: several sources may have recorded the same operations.
    pub have: u64,
    /// How many of `unit` that source has.
    pub of: u64,
    /// What is counted: operations, steps, counts of ranks.
    pub unit: &'static str,
    /// The name of that source; `None` if no source has it.
    pub by: Option<&'static str>,
    /// All sources that have it.
    pub sources: Vec<&'static str>,
    /// What to record for it.
    pub turn_on: Option<&'static str>,
    /// The command that answers it.
    pub command: &'static str,
}

/// NCCL's own records, and which questions they can answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RecordsDescription {
    /// One row per source.
    pub sources: Vec<SourceRow>,
    /// The number of communicators named in the records.
    pub communicators: u64,
    /// The number of files that are not records.
    pub other_files: u64,
    /// What is wrong with the files, and other remarks for the reader: one line each, without duplicates.
    pub remarks: Vec<String>,
    /// The answers to all questions.
    pub answers: Vec<RecordAnswer>,
}

/// A question about records.
struct Question {
    name: &'static str,
    question: &'static str,
    key: &'static str,
    unit: &'static str,
    command: &'static str,
    share: fn(&SourceRow) -> Share,
    /// Whether it needs the records of several ranks.
    of_several: bool,
    turn_on: &'static str,
}

const fn share(have: u64, of: u64) -> Share {
    Share { have, of }
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "hang",
        question: "Whether the job hangs, and on which ranks",
        key: "how far operations got, or counts of each rank",
        unit: "operations",
        command: "nccl-stacks hang FILES",
        share: |row| match row.source {
            // A flow extractor only plans.
            "flow" => share(0, 0),
            "ras" => share(row.counted_ranks, row.counted_ranks),
            _ if row.operations == 0 => share(row.counted_ranks, row.counted_ranks),
            _ => share(row.stated.max(row.numbered).max(row.enqueued), row.looked_at),
        },
        of_several: true,
        turn_on: HANG_ON,
    },
    Question {
        name: "late",
        question: "Who enters NCCL late",
        key: "when collectives were enqueued, of several ranks",
        unit: "collectives",
        command: "nccl-stacks ranks FILES",
        share: |row| share(row.comparable, row.collectives),
        of_several: true,
        turn_on: "Megatrace, or nccl-stacks record",
    },
    Question {
        name: "time",
        question: "How long operations took",
        key: "start and end, or a time of execution",
        unit: "operations",
        command: "nccl-stacks records FILES",
        share: |row| share(row.timed, row.looked_at),
        of_several: false,
        turn_on: "NCCL Inspector, a profiler plugin, or nccl-stacks record with its kernel channels; TORCH_NCCL_ENABLE_TIMING=1 for the flight recorder",
    },
    Question {
        name: "size",
        question: "Sizes and bandwidths",
        key: "the size of operations",
        unit: "operations",
        command: "nccl-stacks records FILES",
        share: |row| share(row.sized, row.looked_at),
        of_several: false,
        turn_on: "nccl-stacks record, or NCCL Inspector",
    },
    Question {
        name: "algorithm",
        question: "Which algorithm and protocol",
        key: "algorithm and protocol of operations",
        unit: "operations",
        command: "nccl-stacks records FILES --format table",
        share: |row| share(row.algorithms, row.looked_at),
        of_several: false,
        turn_on: "nccl-stacks record with the plugin's events, NCCL Inspector (verbose), or NCCL_DEBUG_SUBSYS=TUNING",
    },
    Question {
        name: "proxies",
        question: "What the proxy threads waited for",
        key: "steps of proxy operations",
        unit: "steps",
        command: "nccl-stacks records FILES --format table",
        share: |row| share(row.proxy_steps, row.proxy_steps),
        of_several: false,
        turn_on: "nccl-stacks record --events coll,p2p,proxy-ops,proxy-steps, or NCCL's example profiler plugin",
    },
    Question {
        name: "call-path",
        question: "From which code",
        key: "a call path of operations",
        unit: "operations",
        command: "nccl-stacks hang FILES, or beside a trace: nccl-stacks TRACE --records FILES",
        share: |row| share(row.call_paths, row.looked_at),
        of_several: false,
        turn_on: "the flight recorder, or a trace of the same job: --records joins them",
    },
    Question {
        name: "join",
        question: "Which kernel of a trace it was",
        key: "numbers or times of operations",
        unit: "operations",
        command: "nccl-stacks TRACE --records FILES",
        share: |row| match row.source {
            "flow" | "ras" => share(0, 0),
            _ => share(row.numbered.max(row.enqueued).max(row.started), row.looked_at),
        },
        of_several: false,
        turn_on: "nccl-stacks record, beside torch.profiler",
    },
    Question {
        name: "plan",
        question: "Which data goes where, as planned",
        key: "the flow extractor's steps",
        unit: "planned steps",
        command: "nccl-stacks records FILES",
        share: |row| share(row.flow_steps, row.flow_steps),
        of_several: false,
        turn_on: "the flow extractor",
    },
];

/// Describes records. Of logs with a line per call, only some calls may have been kept; the counts cover all.
pub fn describe(records: &Records) -> RecordsDescription {
    let mut rows: BTreeMap<Source, (SourceRow, BTreeSet<u32>)> = BTreeMap::new();
    let mut description =
        RecordsDescription { communicators: records.communicators.len() as u64, ..RecordsDescription::default() };
    for file in &records.files {
        description.remarks.extend(file.damage_lines().chain(file.notes.iter().cloned()));
        let Some(source) = file.source else {
            description.other_files += 1;
            continue;
        };
        let (row, _) = rows.entry(source).or_default();
        row.files += 1;
        row.bytes += file.bytes;
        row.events |= file.events.unwrap_or(0);
        row.versions.extend(file.version.clone());
        row.skipped = row.skipped.saturating_add(Remark::sum(&file.skipped));
        row.repaired = row.repaired.saturating_add(Remark::sum(&file.repaired));
    }
    let of_files = |position: u32| records.files.get(position as usize).and_then(|file| file.source);
    for operation in records.operations.iter().filter(|operation| !operation.did_not_run) {
        let (row, ranks) = rows.entry(operation.source).or_default();
        row.add(operation);
        ranks.extend(operation.rank.map(|rank| rank.0).or(operation.place));
    }
    for call in &records.calls {
        let (row, ranks) = rows.entry(call.source).or_default();
        row.operations += call.count;
        ranks.extend(call.rank.map(|rank| rank.0).or(call.place));
    }
    for status in &records.rank_status {
        let (row, ranks) = rows.entry(status.source).or_default();
        row.counted_ranks += u64::from(!status.counts.is_empty() || status.last_enqueued.is_some());
        ranks.extend(status.rank.map(|rank| rank.0).or(status.place));
    }
    // A proxy thread that works for another process has no operation here.
    let only = rows.keys().next().copied().filter(|_| rows.len() == 1);
    let of_proxy = |at: usize| {
        let operation = records.proxy_ops.get(at)?.operation;
        operation.and_then(|at| records.operations.get(at)).map(|of| of.source).or(only)
    };
    for source in (0..records.proxy_ops.len()).filter_map(of_proxy) {
        rows.entry(source).or_default().0.proxy_operations += 1;
    }
    for source in records.proxy_steps.iter().filter_map(|step| of_proxy(step.proxy_op)) {
        rows.entry(source).or_default().0.proxy_steps += 1;
    }
    for step in &records.flow_steps {
        if let Some((row, ranks)) = of_files(step.file).and_then(|source| rows.get_mut(&source)) {
            row.flow_steps += u64::from(!step.is_aggregate);
            ranks.insert(step.rank);
        }
    }
    description.sources = rows.into_iter().map(|(source, (row, ranks))| row.finished(source, ranks)).collect();
    description.answers = QUESTIONS.iter().map(|question| question.answer(&description.sources)).collect();
    description.remarks.sort();
    description.remarks.dedup();
    description
}

impl SourceRow {
    fn add(&mut self, operation: &Operation) {
        self.looked_at += 1;
        self.enqueued += u64::from(operation.enqueued.is_some());
        let is_pair = matches!(operation.collective.as_deref(), Some("send" | "recv" | "sendrecv"));
        self.collectives += u64::from(!is_pair);
        self.comparable += u64::from(operation.enqueued.is_some() && !is_pair);
        self.started += u64::from(operation.start.is_some());
        self.ended += u64::from(operation.end.is_some());
        self.timed += u64::from(operation.took().is_some());
        self.sized += u64::from(operation.bytes.is_some());
        self.numbered += u64::from(operation.sequence.is_some());
        self.stated += u64::from(operation.state != State::Unknown);
        self.call_paths += u64::from(operation.recorded_path.is_some());
        self.algorithms += u64::from(operation.algorithm.is_some() || operation.protocol.is_some());
    }

    fn finished(mut self, source: Source, ranks: BTreeSet<u32>) -> Self {
        (self.source, self.title) = (source.name(), source.title());
        // If calls are not counted separately, the examined operations are all there are.
        self.operations = self.operations.max(self.looked_at);
        self.ranks = ranks.into_iter().collect();
        self.versions.sort();
        self.versions.dedup();
        self
    }
}

impl Question {
    fn answer(&self, sources: &[SourceRow]) -> RecordAnswer {
        let shares = || sources.iter().map(|row| (row, (self.share)(row)));
        let ratio = |share: &Share| share.have as f64 / share.of.max(1) as f64;
        let order = |a: &Share, b: &Share| ratio(a).total_cmp(&ratio(b)).then(a.of.cmp(&b.of));
        let best = shares().max_by(|(_, a), (_, b)| order(a, b));
        let Some((best, Share { have, of })) = best else { return self.none() };
        let is_alone = self.of_several && best.ranks.len() < 2;
        // A single answer from RAS shows who has enqueued less, but not whether that changes.
        let is_one_answer = self.name == "hang" && best.source == Source::RAS.name() && best.files < 2;
        let possible = match () {
            () if have == 0 => Possible::No,
            () if is_alone || is_one_answer || have < of => Possible::Partly,
            () => Possible::Yes,
        };
        let turn_on = match possible {
            Possible::Yes => None,
            _ if is_one_answer => Some("a second answer of RAS, a minute later"),
            // The flight recorder is in use already.
            _ if self.name == "call-path" && sources.iter().any(|row| row.source == Source::FLIGHT_RECORDER.name()) => {
                Some("dumps with stack traces, or a trace of the same job: --records joins them")
            }
            _ if sources.iter().any(|row| self.was_asked(row)) => None,
            _ if is_alone && have > 0 => Some("the records of the other ranks, too"),
            _ => Some(self.turn_on),
        };
        // RAS has no operations; it counts them by rank.
        let unit =
            if self.unit == "operations" && best.operations == 0 && of > 0 { "counts of ranks" } else { self.unit };
        let having = shares().filter(|(_, share)| share.have > 0).map(|(row, _)| row.source);
        RecordAnswer {
            possible,
            have,
            of,
            unit,
            by: Some(best.source).filter(|_| have > 0),
            sources: having.collect(),
            turn_on,
            ..self.none()
        }
    }

    /// Whether the plugin of a recording was already asked for what this question needs, so that advising it is useless.
    fn was_asked(&self, row: &SourceRow) -> bool {
        let needed = match self.name {
            "time" => KERNEL_CHANNELS,
            "proxies" => PROXY_STEPS,
            "algorithm" => OPERATIONS,
            _ => return false,
        };
        row.events & needed != 0
    }

    /// The answer if there are no records.
    fn none(&self) -> RecordAnswer {
        let Question { name, question, key, unit, command, turn_on, .. } = *self;
        let (possible, turn_on, sources) = (Possible::No, Some(turn_on), Vec::new());
        RecordAnswer { name, question, possible, key, have: 0, of: 0, unit, by: None, sources, turn_on, command }
    }
}
