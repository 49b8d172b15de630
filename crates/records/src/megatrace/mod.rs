//! Megatrace logs: a line for each call of NCCL, written by a patched library or by an interceptor.
//!
//! A line has the time at which NCCL was entered, and neither an end nor a type of elements. The writer keeps the last 10,000 calls in
//! memory and writes them once the rank is silent for some seconds: numbers of calls show what was overwritten. Several threads write
//! without a lock, so that lines may be mixed up. Rotated files are files like others: who asks sorts by time.

mod line;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use self::line::{Call, Line};
use super::file::RecordFile;
use super::lines;
use super::reader::{Keep, Reader, Reading, last_of_each};
use super::tables::RankStatus;
use crate::operation::{Communicator, Counts, Operation, Source};
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values;
use nccl_stacks_trace::time::Ns;

pub(super) const READER: Reader = Reader { source: Source::MEGATRACE, sniff, read, leaves_holes: false };

/// A head whose first entry comes after this many lines is of another log, into which Megatrace wrote.
const LINES_BEFORE: usize = 200;

/// Threads write their entries a little out of order.
const DISORDER: i64 = 1_000_000_000;

/// A hash with fewer digits than this may be the beginning of many.
const DIGITS: usize = 6;

/// A log of more hosts is a damaged one.
const MOST_HOSTS: usize = 6000;

fn sniff(head: &[u8]) -> bool {
    let lines = head.split(|byte| *byte == b'\n').take(LINES_BEFORE);
    let mut lines = lines.map(|text| line::parse(text.strip_suffix(b"\r").unwrap_or(text)));
    lines.any(|line| matches!(line, Line::Call(..)))
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let Reading { bytes, file, records, keep, .. } = reading;
    let mut log = Log::default();
    let too_long = lines::for_each(*bytes, |text, offset| log.line(text, offset, file));
    file.records = log.calls;
    log.leave_out_earlier_runs();
    if log.ranks.values().any(|of_rank| of_rank.is_disordered) {
        file.note("its times go back: parts of the log are not in the order in which they were written. The calls are sorted by time");
        log.operations.sort_by_key(|call| call.operation.enqueued);
    }
    if log.kernels > 0 {
        file.note(format!("it has {} CUDA kernels, which are not used", log.kernels));
    }
    for (rank, host) in &log.hosts {
        let rank = rank.map(RankId);
        records.rank_status.push(RankStatus {
            source: Source::MEGATRACE,
            rank,
            host: Some(host.clone()),
            ..RankStatus::default()
        });
    }
    // Of each rank, and its group or stream.
    let stream = |of: &Called| {
        let handle = of.operation.stream_handle.filter(|_| of.hash.is_none());
        (of.operation.rank, of.hash, handle)
    };
    let kept = last_of_each(keep.of_logs(), log.operations.iter().map(stream));
    let mut counts: BTreeMap<_, (Operation, u64)> = BTreeMap::new();
    for (Called { mut operation, hash, .. }, is_kept) in log.operations.into_iter().zip(kept) {
        let hash = hash.map(Some);
        operation.communicator =
            hash.map(|hash| records.communicator(Communicator { hash, ..Communicator::default() }));
        if *keep != Keep::All {
            let Operation { communicator, rank, bytes, .. } = operation;
            let alike = (communicator, rank, operation.collective.clone(), operation.dtype.clone(), bytes);
            counts.entry(alike).or_insert_with(|| (operation.clone(), 0)).1 += 1;
        }
        if is_kept {
            records.push(operation);
        }
    }
    records.calls.extend(counts.into_values());
    file.skip_several("ends of lines that are too long", too_long?, None);
    Ok(())
}

struct Called {
    operation: Operation,
    hash: Option<u64>,
    run: u32,
}

/// What a rank's calls were so far. A log may be of several ranks, each with its own counts.
#[derive(Default)]
struct OfRank {
    save_count: Option<u64>,
    last_time: Option<i64>,
    is_disordered: bool,
    /// How many runs came before, and how many calls this one has.
    run: u32,
    calls: u64,
}

#[derive(Default)]
struct Log {
    operations: Vec<Called>,
    calls: u64,
    rank: Option<u32>,
    functions: Vec<(Vec<u8>, Arc<str>, Option<Collective>)>,
    chains: HashMap<Option<u32>, Chains>,
    hosts: Vec<(Option<u32>, String)>,
    ranks: HashMap<Option<u32>, OfRank>,
    kernels: u64,
    /// Hashes as they are written, whole.
    hashes: Vec<(String, u64)>,
}

impl Log {
    fn line(&mut self, text: &[u8], offset: u64, file: &mut RecordFile) {
        let (mut text, mut offset) = (text, offset);
        loop {
            match line::parse(text) {
                Line::Call(call, rest) => {
                    self.call(&call, offset, file);
                    if rest.is_empty() {
                        return;
                    }
                    file.repair("entries in one line", Some(offset));
                    offset += (text.len() - rest.len()) as u64;
                    text = rest;
                }
                Line::Rank(rank) => return self.rank = Some(rank),
                Line::Kernel => return self.kernels += 1,
                Line::Console => return,
                Line::Garbled => return file.skip("lines that are garbled", Some(offset)),
            }
        }
    }

    fn call(&mut self, call: &Call<'_>, offset: u64, file: &mut RecordFile) {
        let rank = call.rank.or(self.rank);
        let run = self.run(call, rank, offset, file);
        let (name, collective) = self.function(call.function);
        let hash = self.hash(call, offset, file).filter(|hash| *hash != 0);
        let counts = if call.is_intercepted { Counts::Stream } else { Counts::Communicator };
        if call.is_cut {
            file.repair("lines that are cut off at the end of the writer's buffer", Some(offset));
        }
        if let (Some(number), Some(stream)) = (call.op_count, call.stream) {
            let (key, first) = match (call.is_intercepted, hash) {
                (true, _) => (stream, 1),
                (false, hash) => (hash.unwrap_or(stream), 0),
            };
            let is_group = !call.is_intercepted && hash.is_some();
            let missing = self.chains.entry(rank).or_default().missing_before(key, is_group, number, first);
            let what = "calls that were overwritten in memory before they were written";
            file.skip_several(what, missing, Some(offset));
        }
        if let Some(host) = call.host {
            let host = String::from_utf8_lossy(host);
            if !self.hosts.iter().any(|(of, known)| *of == rank && *known == host) && self.hosts.len() < MOST_HOSTS {
                self.hosts.push((rank, host.into_owned()));
            }
        }
        let mut operation = Operation {
            source: Source::MEGATRACE,
            rank: rank.map(RankId),
            sequence: call.op_count,
            counts,
            collective: Some(name),
            dtype: call.dtype.and_then(values::dtype_of_number).map(Arc::from),
            enqueued: Some(Ns(call.time)),
            stream_handle: call.stream,
            ..Operation::default()
        };
        operation.set_size(collective, call.count, None);
        self.operations.push(Called { operation, hash, run });
        self.calls += 1;
    }

    /// The run that a call is of. Times that go back are pieces in another order, counts of writing that go back with later times are another run.
    fn run(&mut self, call: &Call<'_>, rank: Option<u32>, offset: u64, file: &mut RecordFile) -> u32 {
        let of_rank = self.ranks.entry(rank).or_default();
        let is_earlier = of_rank.last_time.is_some_and(|last| call.time < last - DISORDER);
        let is_restart = call.save_count.zip(of_rank.save_count).is_some_and(|(now, last)| now < last);
        of_rank.is_disordered |= is_earlier;
        if is_restart && !is_earlier && !of_rank.is_disordered {
            let earlier = std::mem::take(&mut of_rank.calls);
            file.skip_several("calls of an earlier run in the same file", earlier, Some(offset));
            self.calls -= earlier;
            self.chains.remove(&rank);
            of_rank.run += 1;
        }
        of_rank.save_count = call.save_count.or(of_rank.save_count);
        of_rank.last_time = Some(call.time);
        of_rank.calls += 1;
        of_rank.run
    }

    /// Of each rank its last run is what is asked about.
    fn leave_out_earlier_runs(&mut self) {
        let ranks = &self.ranks;
        let last = |rank: Option<RankId>| ranks.get(&rank.map(|rank| rank.0)).map(|of_rank| of_rank.run);
        if ranks.values().any(|of_rank| of_rank.run > 0) {
            self.operations.retain(|call| last(call.operation.rank) == Some(call.run));
        }
    }

    /// The hash of a call's group: where its digits are cut off, that of another line, if only one begins like it.
    fn hash(&mut self, call: &Call<'_>, offset: u64, file: &mut RecordFile) -> Option<u64> {
        if let Some(hash) = call.hash {
            let is_known = self.hashes.iter().any(|(_, known)| *known == hash);
            if !is_known && self.hashes.len() < 1000 {
                self.hashes.push(((hash as i64).to_string(), hash));
            }
            return Some(hash);
        }
        let digits = call.cut_hash.filter(|digits| digits.len() >= DIGITS)?;
        let mut fitting = self.hashes.iter().filter(|(text, _)| text.as_bytes().starts_with(digits));
        let (Some((_, hash)), None) = (fitting.next(), fitting.next()) else { return None };
        file.repair("hashes of groups that are cut off, and whole in other lines", Some(offset));
        Some(*hash)
    }

    fn function(&mut self, name: &[u8]) -> (Arc<str>, Option<Collective>) {
        if let Some((_, text, collective)) = self.functions.iter().find(|(known, ..)| known == name) {
            return (Arc::clone(text), *collective);
        }
        let text = String::from_utf8_lossy(name);
        let plain = text.strip_prefix("nccl").unwrap_or(&text);
        let collective = Collective::of_record(plain);
        let shared: Arc<str> = Arc::from(collective.map_or(plain, |collective| collective.name()));
        if self.functions.len() < 100 {
            self.functions.push((name.to_owned(), Arc::clone(&shared), collective));
        }
        (shared, collective)
    }
}

/// No stream is used by more communicators than this.
const MOST_CHAINS: usize = 64;

/// The counts that are under way, by stream or group. Megatrace keeps the last 10,000 calls in memory; numbers show which ones were overwritten. The
/// patched library counts per communicator, and several of these may use one stream: each number continues one of the counts, or begins another.
#[derive(Default)]
struct Chains {
    last: HashMap<(u64, bool), Vec<i64>>,
}

impl Chains {
    /// How many calls are missing before the one with this number. `key` is the stream, or the group if `is_group`. The operations of
    /// one NCCL group have the same number.
    fn missing_before(&mut self, key: u64, is_group: bool, number: i64, first: i64) -> u64 {
        let chains = self.last.entry((key, is_group)).or_default();
        if let Some(last) = chains.iter_mut().find(|last| (0..=1).contains(&(number - **last))) {
            *last = number;
            return 0;
        }
        let before = chains.iter_mut().filter(|last| **last < number).max_by_key(|last| **last);
        match before {
            Some(last) => {
                let missing = number - *last - 1;
                *last = number;
                missing.unsigned_abs()
            }
            None => {
                let missing = if chains.is_empty() { (number - first).max(0) } else { 0 };
                if chains.len() < MOST_CHAINS {
                    chains.push(number);
                }
                missing.unsigned_abs()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(numbers: &[i64]) -> u64 {
        let mut chains = Chains::default();
        numbers.iter().map(|number| chains.missing_before(1, false, *number, 0)).sum()
    }

    #[test]
    fn jumps_are_what_is_missing() {
        assert_eq!(missing(&[0, 1, 2, 3]), 0);
        // 2 to 9 were overwritten.
        assert_eq!(missing(&[0, 1, 10, 11]), 8);
        // All before the first.
        assert_eq!(missing(&[54, 55]), 54);
        // Grouped sends and receives have one number.
        assert_eq!(missing(&[0, 1, 1, 2, 2]), 0);
        // Two communicators on one stream.
        assert_eq!(missing(&[0, 1, 2, 0, 3, 1, 2, 4]), 0);
        // Numbers at the end of what they can be do not overflow.
        assert_eq!(missing(&[0, i64::MAX]), i64::MAX as u64 - 1);
    }
}
