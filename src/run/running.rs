//! A job that runs while its recordings are read.
//!
//! Files of the recorder are read one after the other, and the job goes on in between: a rank that was read first seems to be missing from what the others did
//! since. So a hang that they show is a hang only if nothing moves any more. If the last operation is a moment ago, the recordings are read once more after
//! that moment. Recordings of processes that are gone do not change, and nothing in them says how long the others had waited before: a job that is killed
//! while it runs ends like one that hung.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::answers::hang::{HangReport, Still};
use crate::id::RankId;
use crate::operation::Source;
use crate::records::Records;
use crate::time::Ns;

/// So long nothing may have moved before a hang is one, unless the user says otherwise.
///
/// In healthy jobs of 4, 16 and 64 processes on two processors, beside two programs that take both, of which one rank came 5 ms late to each call, the pauses
/// between two events of the whole job were 1 µs at the median, under 5.1 ms in 99 of 100, and at most 13 ms (79,380 events). Real steps are up to seconds apart,
/// and jobs that write checkpoints or evaluate are idle for longer: they are asked with `--wait`.
pub const STANDSTILL: Duration = Duration::from_secs(5);

/// Whether processes of the recordings run, as far as that can be known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alive {
    /// At least one does.
    Some,
    /// They ran on this host, and none is there any more.
    None,
    /// They ran elsewhere.
    Unknown,
}

fn alive(records: &Records) -> Alive {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let own: Vec<i64> = records
        .rank_status
        .iter()
        .filter(|status| status.source == Source::RECORDER && !host.is_empty() && status.host.as_deref() == Some(host))
        .filter_map(|status| status.pid)
        .collect();
    match own.iter().any(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        true => Alive::Some,
        false if own.is_empty() => Alive::Unknown,
        false => Alive::None,
    }
}

/// By rank of the job, or by file where that is unknown: how many operations there are, and when the last of it was.
type Moved = BTreeMap<(Option<u32>, u32), (u64, Option<Ns>)>;

/// The ranks that wait or are awaited; all, if they are not known as ranks of the job. What others do, replicas for one, says nothing of these.
fn moved(records: &Records, report: &HangReport) -> Moved {
    let groups = || report.hung.iter().chain(&report.lagging);
    let is_local = groups().any(|group| group.name.ranks_are_local);
    let ranks: BTreeSet<u32> = groups()
        .flat_map(|of| [&of.waiting_ranks, &of.missing_ranks, &of.stuck_ranks, &of.odd_ranks])
        .flatten()
        .copied()
        .collect();
    let is_of_it = |rank: Option<RankId>| is_local || rank.is_none_or(|rank| ranks.contains(&rank.0));
    let mut found = Moved::new();
    for (operation, file) in
        records.operations.iter().zip(&records.file_of).filter(|(of, _)| of.source == Source::RECORDER)
    {
        if !is_of_it(operation.rank) {
            continue;
        }
        let key = (operation.rank.map(|rank| rank.0), if operation.rank.is_some() { 0 } else { *file });
        let (count, last) = found.entry(key).or_default();
        *count += 1;
        let times = [operation.enqueued, operation.launched, operation.start, operation.end];
        *last = times.into_iter().flatten().chain(*last).max();
    }
    found
}

/// How long nothing had moved when it was `now`.
fn quiet(moved: &Moved, now: SystemTime) -> Option<Duration> {
    let last = moved.values().filter_map(|(_, last)| *last).max()?;
    let now = now.duration_since(UNIX_EPOCH).ok()?;
    Some(now.saturating_sub(Duration::from_nanos(u64::try_from(last.0).ok()?)))
}

/// The answer about recordings that were read when it was `now`, once they are known to show a standstill of `wait` or not. `again` reads them once more.
pub(super) fn settle<E>(
    (records, report): (Records, HangReport),
    now: SystemTime,
    wait: Duration,
    again: impl FnOnce() -> Result<(Records, HangReport), E>,
) -> Result<(Records, HangReport), E> {
    let is_recorded = |report: &HangReport| {
        report.hung.iter().chain(&report.lagging).any(|group| group.name.source == Source::RECORDER.name())
    };
    if !is_recorded(&report) {
        return Ok((records, report));
    }
    let before = moved(&records, &report);
    let settled = |report: HangReport, quiet: Option<Duration>| match quiet {
        Some(quiet) => report.judged(Still::Idle, Some(ns(quiet))),
        None => report.judged(Still::Unknown, None),
    };
    match alive(&records) {
        Alive::None => return Ok((records, report.judged(Still::Ended, None))),
        Alive::Unknown => return Ok((records, report)),
        Alive::Some => {}
    }
    let since = quiet(&before, now);
    let Some(left) = since.and_then(|since| wait.checked_sub(since)) else {
        return Ok((records, settled(report, since)));
    };
    std::thread::sleep(left);
    let asked = SystemTime::now();
    let (records, report) = again()?;
    let after = moved(&records, &report);
    if !is_recorded(&report) {
        return Ok((records, report));
    }
    let since = quiet(&after, asked);
    let is_still = after == before || since.is_some_and(|since| since >= wait);
    let apart = ns(asked.duration_since(now).unwrap_or_default());
    let judged = if is_still { settled(report, since) } else { report.judged(Still::Moves, Some(apart)) };
    Ok((records, judged))
}

fn ns(duration: Duration) -> Ns {
    Ns(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
}
