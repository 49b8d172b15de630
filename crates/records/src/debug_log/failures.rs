//! What a job's log says of ranks that failed: what Python raises (`[rank2]: torch.OutOfMemoryError: …`), errors of CUDA that end PyTorch's watchdog, a watchdog that
//! is stuck, and torchrun's first failure. The others wait for such a rank.
//!
//! A rank that timed out ends, too, and so do those whose peers have ended: what follows from that is left out.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::super::tables::{RankStatus, Records};
use super::watchdog::{LastRun, number_after, time, whose};
use crate::operation::Source;
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::time::Ns;

/// The longest text of a failure.
const LONGEST: usize = 160;

/// A damaged log may name any rank.
const MOST: usize = 1 << 12;

/// So many lines after its heading torchrun says which rank failed first.
const BLOCK: usize = 12;

/// Words of errors that follow from what others do: they have ended, or do not answer.
const FOLLOWS: [&str; 11] = [
    "closed by peer",
    "reset by peer",
    "Broken pipe",
    "DistBackendError",
    "DistNetworkError",
    "DistStoreError",
    "SignalException",
    "Watchdog caught",
    "gloo",
    "monitoredBarrier",
    "mismatch between collectives",
];

/// What torchrun's block begins with, and what a line of a failure has.
static WORDS: LazyLock<[Finder<'static>; 6]> = LazyLock::new(|| {
    let words = [
        "Root Cause (first observed failure):",
        "Error: ",
        "Cuda failure ",
        "CUDA error: ",
        "watchdog got stuck for ",
        "Heartbeat monitor timed out",
    ];
    words.map(Finder::new)
});

#[derive(Debug, PartialEq, Eq)]
struct Failure {
    rank: u32,
    what: String,
    time: Option<Ns>,
    /// Whether processes end like that once another one has ended, or by their own watchdog.
    may_follow: bool,
}

/// What torchrun's block has said so far.
#[derive(Default)]
struct Block {
    lines: usize,
    rank: Option<u32>,
    time: Option<Ns>,
    exit_code: Option<i64>,
}

#[derive(Default)]
pub(super) struct Failures {
    all: Vec<Failure>,
    block: Option<Block>,
}

impl Failures {
    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    pub(super) fn line(&mut self, line: &[u8]) {
        if let Some(mut block) = self.block.take() {
            let is_over = self.all.len() >= MOST || block.lines == BLOCK;
            match block.line(&String::from_utf8_lossy(line)) {
                Some(failure) => self.add(failure),
                None => self.block = Some(block).filter(|_| !is_over),
            }
        }
        let [cause, may_fail @ ..] = WORDS.each_ref().map(|word| word.find(line).is_some());
        if cause {
            self.block = Some(Block::default());
        }
        if self.all.len() < MOST && may_fail.contains(&true) {
            failure(&String::from_utf8_lossy(line)).into_iter().for_each(|failure| self.add(failure));
        }
    }

    /// Adds the first failure of a rank.
    fn add(&mut self, failure: Failure) {
        if !self.all.iter().any(|known| known.rank == failure.rank) {
            self.all.push(failure);
        }
    }

    /// Adds the failures of ranks of this run that did not time out themselves. Where nothing says of which run or job one is, it is left out.
    pub(super) fn finish(self, run: &LastRun, records: &mut Records) {
        let is_first = |of: &Failure| of.time.zip(run.first).is_some_and(|(time, first)| time < first);
        let is_own = |of: &Failure| is_first(of) || !run.timed_out.contains(&of.rank) && !of.may_follow;
        let is_later = |of: &Failure| run.is_first || of.time.zip(run.ended).is_some_and(|(time, ended)| time > ended);
        let of_run = self.all.into_iter().filter(|of| run.is_alone && is_later(of) && is_own(of));
        records.rank_status.extend(of_run.map(|of| RankStatus {
            source: Source::WATCHDOG,
            rank: Some(RankId(of.rank)),
            failure: Some(of.what),
            ..RankStatus::default()
        }));
    }
}

impl Block {
    /// Takes a line: the failure, once all is known.
    fn line(&mut self, line: &str) -> Option<Failure> {
        self.lines += 1;
        let value = |key: &str| Some(line.split_once(key)?.1.trim_start().strip_prefix(": ")?.trim());
        if let Some((rank, _)) = value("rank").and_then(|rest| number_after(rest, "")) {
            self.rank = u32::try_from(rank).ok();
        }
        self.time = self.time.or_else(|| value("time").and_then(time_of_block));
        self.exit_code = self.exit_code.or_else(|| value("exitcode").and_then(|rest| Some(number_after(rest, "")?.0)));
        let (rank, code, said) = (self.rank?, self.exit_code?, value("traceback")?);
        let what = match said.split_once(" received by") {
            Some((signal, _)) => signal.to_owned(),
            None => format!("exit code {code}"),
        };
        Some(Failure { rank, what, time: self.time, may_follow: matches!(code, -6 | -15) })
    }
}

/// `2025-06-26_06:14:03`, as the watchdog's times.
fn time_of_block(text: &str) -> Option<Ns> {
    let (day, clock) = text.split_once('_')?;
    let mut parts = day.split('-').skip(1);
    time(&format!("[E{}{} {clock}.0", parts.next()?, parts.next()?))
}

fn failure(text: &str) -> Option<Failure> {
    let is_stuck = text.find("watchdog got stuck for ").or_else(|| text.find("Heartbeat monitor timed out"));
    let (what, rank) = match (text.split_once("terminated with exception: "), is_stuck) {
        (Some((_, what)), _) if what.starts_with("CUDA error: ") => (what, whose(text)?.rank?),
        (_, Some(at)) => (text[at..].split('!').next()?.split(" without").next()?, whose(text)?.rank?),
        _ if FOLLOWS.iter().any(|word| text.contains(word)) => return None,
        _ => {
            let (rank, what) = number_after(text, "[rank")?;
            let what = what.strip_prefix("]:")?.trim_start();
            let class = what.split_once(": ").map(|(class, _)| class);
            let is_class = class.is_some_and(|class| {
                class.ends_with("Error") && class.chars().all(|of| of.is_alphanumeric() || of == '.' || of == '_')
            });
            if !(is_class || what.starts_with("Cuda failure ")) {
                return None;
            }
            (what, u32::try_from(rank).ok()?)
        }
    };
    let what = what.replace("e.g. ", "");
    let what = what.split(". ").next().unwrap_or_default().trim_end_matches('.');
    Some(Failure { rank, what: what.chars().take(LONGEST).collect(), time: time(text), may_follow: false })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The ranks that failed, with what, of some lines; rank 3 has timed out at 06:24:44.
    fn failed(text: &str) -> Vec<(u32, String)> {
        let mut failures = Failures::default();
        text.lines().for_each(|line| failures.line(line.as_bytes()));
        let mut records = Records::default();
        let (timed_out, first) = (BTreeSet::from([3]), time("[E626 06:24:44.9 x]"));
        let run = LastRun { timed_out, first, ended: None, is_alone: true, is_first: true };
        failures.finish(&run, &mut records);
        records.rank_status.into_iter().map(|of| (of.rank.unwrap().0, of.failure.unwrap())).collect()
    }

    #[test]
    fn ranks_that_failed_are_those_that_did_not_follow() {
        let block = |rank: u32, code: i64, clock: &str| {
            format!(
                "Root Cause (first observed failure):\n[0]:\n  time      : 2025-06-26_{clock}\n  host      : n1\n  rank      : {rank} (local_rank: 0)\n  \
                 exitcode  : {code} (pid: 7)\n  error_file: <N/A>\n  traceback : Signal {} (SIG) received by PID 7\n",
                -code
            )
        };
        let of_watchdog = |rank: u32, what: &str| {
            format!("[rank{rank}]:[E626 06:14:34.2 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank {rank}] {what}\n")
        };
        let ended = "Process group watchdog thread terminated with exception: ";
        for (text, wanted) in [
            (
                of_watchdog(2, &format!("{ended}CUDA error: an illegal access")),
                Some((2, "CUDA error: an illegal access")),
            ),
            (
                "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4 GiB.\n".to_owned(),
                Some((2, "torch.OutOfMemoryError: CUDA out of memory")),
            ),
            ("[rank2]: Cuda failure 2 'out of memory'\n".to_owned(), Some((2, "Cuda failure 2 'out of memory'"))),
            (
                of_watchdog(
                    2,
                    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress, and a longer timeout would help",
                ),
                Some((2, "watchdog got stuck for 480 seconds")),
            ),
            (block(2, -9, "06:14:03"), Some((2, "Signal 9 (SIG)"))),
            // An abort before any timeout is nobody else's.
            (block(2, -6, "06:14:03"), Some((2, "Signal 6 (SIG)"))),
            (block(2, -6, "06:24:50"), None),
            (block(3, -6, "06:24:50"), None),
            ("[rank3]: ValueError: x\n".to_owned(), None),
            (
                of_watchdog(2, &format!("{ended}[Rank 2] Watchdog caught collective operation timeout: CUDA error: x")),
                None,
            ),
            (
                "[rank2]: torch.distributed.DistBackendError: NCCL error in: a.cpp, remote process exited\n".to_owned(),
                None,
            ),
            ("[rank2]: RuntimeError: [../gloo/pair.cc:534] Connection closed by peer\n".to_owned(), None),
            ("[rank2]: RuntimeError: Rank 1 failed to pass monitoredBarrier in 5 ms\n".to_owned(), None),
            ("[rank2]: the Error: none\n".to_owned(), None),
            (
                "[rank2]: RuntimeError: DataLoader timed out after 300 seconds\n".to_owned(),
                Some((2, "RuntimeError: DataLoader timed out after 300 seconds")),
            ),
        ] {
            let found = failed(&text);
            assert_eq!(found.first().map(|(rank, what)| (*rank, what.as_str())), wanted, "{text}");
        }
    }
}
