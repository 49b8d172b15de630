//! The sentences about gaps in recordings, and about NCCL calls that failed in them.

use super::{Covered, FailedCalls, Loss};
use crate::document::format::{count, duration, ranks, visible};

/// This many kinds of failed calls are named; the others are counted.
const FAILED: usize = 3;

/// What recordings lack: `The recording lacks 88 communicators for which there was no room.`, and `2 processes could not record: the disk is full.`,
/// each with what helps.
pub fn lacks(losses: &[Loss]) -> Vec<String> {
    let (processes, lost): (Vec<&Loss>, Vec<&Loss>) = losses.iter().partition(|loss| loss.why.is_some());
    let lost: Vec<String> = lost.iter().map(|Loss { what, count: n, .. }| format!("{} {what}", count(*n))).collect();
    let lost = (!lost.is_empty()).then(|| format!("The recording lacks {}.", lost.join(", and ")));
    let processes = processes.into_iter().map(|loss| not_recorded(loss.why.as_deref().unwrap_or_default(), loss.count));
    let mut advice: Vec<&str> = losses.iter().filter_map(|loss| loss.advice).collect();
    advice.dedup();
    lost.into_iter().chain(processes).chain(advice.into_iter().map(str::to_owned)).collect()
}

/// `2 processes could not record: the disk is full.`
pub(crate) fn not_recorded(why: &str, processes: u64) -> String {
    let several = if processes == 1 { "process" } else { "processes" };
    format!("{} {several} could not record: {}.", count(processes), visible(why))
}

/// `Covered: calls of the last 528.7 ms and NCCL's events of the last 3.69 ms, of 774.6 ms, 81,920 of 640,000 records; …`
pub fn covered(of: &Covered) -> String {
    let whole = duration(of.whole);
    let what = match (of.calls.map(duration), of.events.map(duration)) {
        (Some(calls), Some(events)) if calls == events => format!("the last {calls} of {whole}"),
        (Some(calls), Some(events)) => {
            format!("calls of the last {calls} and NCCL's events of the last {events}, of {whole}")
        }
        (Some(calls), None) => format!("calls of the last {calls} of {whole}"),
        (None, events) => {
            format!("all calls, and NCCL's events of the last {} of {whole}", events.unwrap_or_default())
        }
    };
    let (kept, all) = (count(of.kept), count(of.all));
    format!("Covered: {what}, {kept} of {all} records; what came before was overwritten and is in no answer")
}

/// `ncclAllReduce failed on rank 2 with error 4 (ncclInvalidArgument).`
pub(crate) fn failed(of: &FailedCalls) -> String {
    let FailedCalls { function, error, name, ranks: on, count: n, .. } = of;
    let often = if *n == 1 { String::new() } else { format!(" {} times", count(*n)) };
    let on = if on.is_empty() { "on an unknown rank".to_owned() } else { format!("on {}", ranks(on)) };
    let name = name.map_or(String::new(), |name| format!(" ({name})"));
    format!("{} failed{often} {on} with error {error}{name}.", visible(function))
}

/// A sentence for each function and error, up to [`FAILED`], then the number of the others.
pub(crate) fn all_failed(calls: &[FailedCalls]) -> Vec<String> {
    let more = calls.len().saturating_sub(FAILED);
    let more =
        (more > 0).then(|| format!("Calls failed in {} more combinations of function and error.", count(more as u64)));
    calls.iter().take(FAILED).map(failed).chain(more).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    #[test]
    fn full_rings_cover_calls_and_events() {
        let said = |calls: Option<i64>, events: Option<i64>| {
            let of = |seconds: i64| Ns(seconds * 1_000_000_000);
            covered(&Covered { calls: calls.map(of), events: events.map(of), whole: of(90), kept: 1_000, all: 2_000 })
        };
        let rest = "1,000 of 2,000 records; what came before was overwritten and is in no answer";
        for (calls, events, what) in [
            (Some(60), Some(60), "the last 60.0 s of 90.0 s"),
            (Some(60), Some(1), "calls of the last 60.0 s and NCCL's events of the last 1.00 s, of 90.0 s"),
            (Some(60), None, "calls of the last 60.0 s of 90.0 s"),
            (None, Some(1), "all calls, and NCCL's events of the last 1.00 s of 90.0 s"),
        ] {
            assert_eq!(said(calls, events), format!("Covered: {what}, {rest}"));
        }
    }

    #[test]
    fn calls_that_failed_have_function_rank_and_error() {
        let call = |error, name, ranks: &[u32], count| FailedCalls {
            function: "ncclGroupEnd".to_owned(),
            error,
            name,
            ranks: ranks.to_vec(),
            count,
        };
        assert_eq!(
            failed(&call(4, Some("ncclInvalidArgument"), &[2], 1)),
            "ncclGroupEnd failed on rank 2 with error 4 (ncclInvalidArgument)."
        );
        assert_eq!(
            failed(&call(11, None, &[0, 1], 1200)),
            "ncclGroupEnd failed 1,200 times on ranks 0 and 1 with error 11."
        );
        assert_eq!(failed(&call(11, None, &[], 1)), "ncclGroupEnd failed on an unknown rank with error 11.");
        let all = all_failed(&vec![call(1, None, &[0], 1); 5]);
        assert_eq!((all.len(), &*all[3]), (4, "Calls failed in 2 more combinations of function and error."));
    }
}
