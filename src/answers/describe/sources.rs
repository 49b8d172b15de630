//! What NCCL's own records contain: by source, the number of files, ranks and operations, and the times and other facts recorded for the
//! operations.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::operation::{Operation, Source, State};
use crate::records::{Records, Remark};

/// What a source recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// How often it says itself what is wrong with a rank or process, or what others wait for.
    #[serde(skip)]
    pub reports: u64,
    /// How much of the files was skipped.
    pub skipped: u64,
    /// How much of them was repaired.
    pub repaired: u64,
}

/// What each source recorded. Of logs with a line per call, only some calls may have been kept; the counts cover all.
pub(super) fn rows(records: &Records) -> Vec<SourceRow> {
    let mut rows: BTreeMap<Source, (SourceRow, BTreeSet<u32>)> = BTreeMap::new();
    for (source, file) in records.files.iter().filter_map(|file| Some((file.source?, file))) {
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
    for (call, count) in &records.calls {
        let (row, ranks) = rows.entry(call.source).or_default();
        row.operations += count;
        ranks.extend(call.rank.map(|rank| rank.0).or(call.place));
    }
    for status in &records.rank_status {
        let (row, ranks) = rows.entry(status.source).or_default();
        row.counted_ranks += u64::from(!status.counts.is_empty() || status.last_enqueued.is_some());
        row.reports += u64::from(status.is_end() || !status.faults.is_empty());
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
    rows.into_iter().map(|(source, (row, ranks))| row.finished(source, ranks)).collect()
}

impl SourceRow {
    /// Whether all that shows how far ranks got is what the source says of some of them.
    pub(super) fn is_reported(&self) -> bool {
        self.operations == 0 && self.counted_ranks == 0 && self.reports > 0
    }

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
