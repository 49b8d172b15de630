//! Answers of NCCL's RAS: what each communicator's ranks have enqueued, as counts, and who does not answer.
//!
//! NCCL 2.28.7 and later answer in JSON; a file has one or several answers, one after the other. 2.28.9 leaves out the comma between missing ranks;
//! it is added. Older versions answer with a text for people, which a job's log may have, too (`debug_log`). Whoever asks the socket itself gets a line
//! `OK` before the JSON, RCCL's client writes its banner there, and kubectl a remark. Monitors (`ncclras -m`, since 2.29) write an event per process that is
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};

use super::debug_log;
use super::nodes::{Document, Value};
use super::ras_text;
use super::ras_text::{NO_SUCH_RANK, UNKNOWN};
use super::reader::{Reader, Reading};
use super::tables::RankStatus;
use super::text;
use crate::operation::{Communicator, Source};
use nccl_stacks_trace::names::values::result_of_number;
use nccl_stacks_trace::time::Ns;

pub(super) const READER: Reader = Reader { source: Source::RAS, sniff, read, leaves_holes: false };

/// The most bytes that are read. The answer of a job of 100,000 ranks has 50 MB per communicator of all ranks.
const MAX_TEXT: u64 = 2 << 30;

/// How many lines may come before an answer in JSON.
const MOST_LINES_BEFORE: usize = 16;

fn sniff(head: &[u8]) -> bool {
    let has = |key: &str| text::contains(head, key);
    let is_event = || has("\"PEER_") && has("\"event\"") && has("\"peer\"");
    match is_json(head) {
        true => {
            has("\"communicators_count\"") || (has("\"communicators\"") && has("\"collective_counts\"")) || is_event()
        }
        false => ras_text::is_text(head),
    }
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    if !is_json(reading.bytes.fill_buf()?) {
        return (debug_log::READER.read)(reading);
    }
    let mut text = Vec::new();
    // The answers before a failure count.
    let failure = (&mut *reading.bytes).take(MAX_TEXT).read_to_end(&mut text).err();
    let mut error = None;
    for Answer { text, at, commas } in answers(&text) {
        commas.iter().for_each(|comma| reading.file.repair("missing commas", Some(*comma)));
        match Document::parse_json(&text) {
            (document, root, None) => answer(document.value(root), reading),
            (.., Some(of_answer)) => {
                error = error.or(Some((at, of_answer)));
                reading.file.skip("answers that are not valid JSON", Some(at));
            }
        }
    }
    leave_out_earlier(reading);
    // One message is enough for many such answers.
    if let Some((at, error)) = error {
        reading.file.note(format!("the answer at byte {at} is not valid JSON: {error}"));
    }
    failure.map_or(Ok(()), Err)
}

/// Whether a text is JSON, after lines of the socket or of a client: `OK`, the versions, `Defaulted container …`.
fn is_json(head: &[u8]) -> bool {
    head.split(|byte| *byte == b'\n').take(MOST_LINES_BEFORE).any(|line| line.trim_ascii_start().starts_with(b"{"))
}

struct Answer {
    /// With the commas that it lacked.
    text: Vec<u8>,
    at: u64,
    commas: Vec<u64>,
}

/// Splits a text into its documents. A comma that is missing between two values of a list or dictionary is added. A document that breaks
/// off, because its client was killed, ends where the next one begins.
fn answers(text: &[u8]) -> Vec<Answer> {
    let mut found: Vec<Answer> = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    let mut after_value = false;
    while let Some(byte) = text.get(at).copied() {
        if byte == b'{' && (depth == 0 || is_beginning(&text[at + 1..])) {
            found.push(Answer { text: Vec::new(), at: at as u64, commas: Vec::new() });
            (depth, after_value) = (0, false);
        }
        let Some(answer) = found.last_mut() else {
            at += 1;
            continue;
        };
        if matches!(byte, b'{' | b'[' | b'"') && after_value && depth > 0 {
            answer.commas.push(at as u64);
            answer.text.push(b',');
        }
        let start = at;
        at += 1;
        match byte {
            b'{' | b'[' => (depth, after_value) = (depth + 1, false),
            b'}' | b']' => (depth, after_value) = (depth.saturating_sub(1), true),
            b',' | b':' => after_value = false,
            b'"' => {
                at = end_of_text(text, at);
                after_value = true;
            }
            byte if byte.is_ascii_whitespace() => {}
            _ => after_value = true,
        }
        answer.text.extend(&text[start..at]);
    }
    found
}

/// Whether an answer goes on like this, and not something in it.
fn is_beginning(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"\"nccl_version\""[..], b"\"rccl_version\"", b"\"timestamp\": \""].iter().any(|key| text.starts_with(key))
}

/// Where a text ends that begins before this.
fn end_of_text(text: &[u8], mut at: usize) -> usize {
    while let Some(byte) = text.get(at) {
        at += 1;
        match byte {
            b'\\' => at = (at + 1).min(text.len()),
            b'"' => break,
            _ => {}
        }
    }
    at
}

/// What an event of a monitor says of a process: it manages one or several GPUs. Only those who are lost are of interest.
fn event(root: Value<'_>, name: &str, reading: &mut Reading<'_>) {
    reading.file.records += 1;
    let Some(fault) = ras_text::fault_of_event(name) else { return };
    let at = root.get("timestamp").and_then(Value::text).and_then(epoch);
    let Some(peer) = root.get("peer") else { return };
    let devices: Vec<Option<i64>> = peer.get("cuda_devs").into_iter().flat_map(Value::items).map(Value::int).collect();
    for device in if devices.is_empty() { vec![None] } else { devices } {
        reading.records.rank_status.push(RankStatus {
            source: Source::RAS,
            at,
            host: peer.get("host").or_else(|| peer.get("addr")).and_then(Value::text).map(str::to_owned),
            pid: peer.get("pid").and_then(Value::int),
            device,
            faults: vec![fault.clone()],
            ..RankStatus::default()
        });
    }
}

/// Leaves out the answers of earlier runs of the job: those with other communicators and other processes than all later ones.
fn leave_out_earlier(reading: &mut Reading<'_>) {
    type Process = (Option<String>, Option<i64>);
    let process = |of: &RankStatus| (of.host.clone(), of.pid);
    let mut by_time: BTreeMap<Ns, Vec<&RankStatus>> = BTreeMap::new();
    for status in reading.records.rank_status.iter().filter(|of| of.communicator.is_some() && of.pid.is_some()) {
        if let Some(at) = status.at {
            by_time.entry(at).or_default().push(status);
        }
    }
    let (mut communicators, mut processes) = (BTreeSet::new(), BTreeSet::<Process>::new());
    let mut begin = None;
    for (at, answer) in by_time.iter().rev() {
        let is_of_run =
            |of: &&&RankStatus| communicators.contains(&of.communicator) || processes.contains(&process(of));
        if begin.is_some() && !answer.iter().any(|of| is_of_run(&of)) {
            break;
        }
        begin = Some(*at);
        communicators.extend(answer.iter().map(|of| of.communicator));
        processes.extend(answer.iter().map(|of| process(of)));
    }
    let earlier = by_time.keys().filter(|at| Some(**at) < begin).count();
    if earlier > 0 {
        reading.records.rank_status.retain(|of| of.communicator.is_none() || of.at.is_none() || of.at >= begin);
        reading.file.note(format!("{earlier} answers are of an earlier run of the job, and are left out"));
    }
}

fn answer(root: Value<'_>, reading: &mut Reading<'_>) {
    if let Some(name) = root.get("event").and_then(Value::text) {
        return event(root, name, reading);
    }
    let version = root.get("nccl_version").or_else(|| root.get("rccl_version")).and_then(Value::text);
    reading.file.version = version.map(str::to_owned).or(reading.file.version.take());
    let at = root.get("timestamp").and_then(Value::text).and_then(epoch);
    let communicators = root.get("communicators").into_iter().flat_map(Value::items);
    for of_communicator in communicators {
        let known = Communicator {
            size: of_communicator.get("size").and_then(Value::int).and_then(|size| u64::try_from(size).ok()),
            hash: of_communicator.get("hash").and_then(Value::text).and_then(text::hash),
            second_hash: of_communicator.get("secondary_hash").and_then(Value::text).map(str::to_owned),
            ..Communicator::default()
        };
        let communicator = reading.records.communicator(known.clone());
        let list = |key: &str| of_communicator.get(key).into_iter().flat_map(Value::items);
        let finalized = odd_state(list("ranks"));
        for (rank, is_missing) in
            list("ranks").map(|rank| (rank, false)).chain(list("missing_ranks").map(|rank| (rank, true)))
        {
            reading.file.records += 1;
            let mut status = status(rank, is_missing);
            if status.place.zip(known.size).is_some_and(|(place, size)| u64::from(place) >= size) {
                reading.file.skip(NO_SUCH_RANK, None);
                continue;
            }
            let state = flag(rank, "finalize_called");
            status
                .faults
                .extend(finalized.filter(|(of, _)| !is_missing && *of == state).map(|(_, fault)| fault.to_owned()));
            reading.records.rank_status.push(RankStatus { communicator: Some(communicator), at, ..status });
        }
    }
}

/// Which of two states fewer ranks have, those that have called `ncclCommFinalize` and those that run, and RAS's word for it; `None` if all have one.
fn odd_state<'v>(ranks: impl Iterator<Item = Value<'v>>) -> Option<(bool, &'static str)> {
    let (finalized, running): (Vec<bool>, Vec<bool>) =
        ranks.map(|rank| flag(rank, "finalize_called")).partition(|called| *called);
    let is_finalized = finalized.len() <= running.len();
    let word = if is_finalized { "status finalize" } else { "status running" };
    (!finalized.is_empty() && !running.is_empty()).then_some((is_finalized, word))
}

fn flag(rank: Value<'_>, key: &str) -> bool {
    rank.get("status").and_then(|status| status.get(key)).is_some_and(Value::is_true)
}

fn status(rank: Value<'_>, is_missing: bool) -> RankStatus {
    let int = |key: &str| rank.get(key).and_then(Value::int);
    let code =
        |key: &str| rank.get("status").and_then(|status| status.get(key)).and_then(Value::int).filter(|n| *n != 0);
    let mut faults: Vec<String> = Vec::new();
    // While a communicator is made its state is `ncclInProgress`.
    faults.extend(code("init_state").map(|code| result("init state", code)));
    faults.extend(code("async_error").map(|code| result("async error", code)));
    let flags = [("abort_flag", "aborted"), ("unresponsive", "unresponsive"), ("considered_dead", "considered dead")];
    faults.extend(flags.iter().filter(|(key, _)| flag(rank, key)).map(|(_, fault)| (*fault).to_owned()));
    if is_missing && faults.is_empty() {
        faults.push("missing".to_owned());
    }
    let counts = rank.get("collective_counts").into_iter().flat_map(Value::pairs).filter_map(|(name, count)| {
        Some((text::collective_name(name.text()?).to_owned(), u64::try_from(count.int()?).ok()?))
    });
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in counts {
        // Several of NCCL's functions may be one collective.
        let sum = by_name.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
    RankStatus {
        source: Source::RAS,
        place: int("rank").and_then(|rank| u32::try_from(rank).ok()),
        host: rank.get("host").and_then(Value::text).filter(|host| *host != UNKNOWN).map(str::to_owned),
        pid: int("pid").filter(|pid| *pid != 0),
        device: int("cuda_dev"),
        counts: by_name,
        faults,
        ..RankStatus::default()
    }
}

/// A state or an error with NCCL's name of its number.
fn result(what: &str, code: i64) -> String {
    let name = u32::try_from(code).ok().and_then(result_of_number);
    format!("{what} {code}{}", name.map_or(String::new(), |name| format!(" ({name})")))
}

/// A time such as `2026-09-23 11:55:37`. It has no zone; all answers of a job have the same, and only their order matters.
fn epoch(text: &str) -> Option<Ns> {
    let numbers: Vec<i64> = text.split(['-', ' ', 'T', ':', '.']).map_while(|part| part.parse().ok()).collect();
    let [year, month, day, hour, minute, second, ..] = numbers[..] else { return None };
    if !(1970..10_000).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since the epoch; years begin in March, so that the leap day is the last.
    let years = if month <= 2 { year - 1 } else { year };
    let months = (month + 9) % 12;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1 - 719_468;
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    // Years after 2262 have no room.
    (days * 86_400 + hour * 3600 + minute * 60 + second).checked_mul(1_000_000_000).map(Ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_since_the_epoch() {
        // `date -u -d '2026-09-23 11:55:37' +%s`
        assert_eq!(epoch("2026-09-23 11:55:37"), Some(Ns(1_790_164_537_000_000_000)));
        assert_eq!(epoch("1970-01-01 00:00:00"), Some(Ns(0)));
        assert_eq!(epoch("2024-02-29 00:00:01"), Some(Ns(1_709_164_801_000_000_000)));
        assert_eq!(epoch("2262-04-11 23:47:16"), Some(Ns(9_223_372_036_000_000_000)));
        assert_eq!((epoch("2262-04-11 23:47:17"), epoch("9999-12-31 23:59:59")), (None, None));
        assert_eq!((epoch("soon"), epoch("2026-13-01 00:00:00")), (None, None));
    }

    #[test]
    fn commas_are_put_in_where_values_meet() {
        let text = b" {\"a\": [{\"b\": 1}\n {\"c\": \"}{\\\"\"}], \"d\": 2}\n{\"e\": []}";
        let found = answers(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].commas, [18]);
        assert!(found.iter().all(|answer| serde_json::from_slice::<serde_json::Value>(&answer.text).is_ok()));
        assert_eq!((found[0].at, found[1].at), (1, 42));
    }

    #[test]
    fn an_answer_that_breaks_off_does_not_swallow_the_next() {
        let text = b"{\"nccl_version\": \"2\", \"communicators\": [{\"hash\":\n{\n  \"nccl_version\": \"2\", \"communicators\": []\n}\n";
        let whole: Vec<bool> =
            answers(text).iter().map(|answer| Document::parse_json(&answer.text).2.is_none()).collect();
        assert_eq!(whole, [false, true]);
    }

    #[test]
    fn counts_of_functions_that_are_one_collective_are_added() {
        let text = br#"{"rank": 0, "collective_counts": {"AllGather": 3, "AllGatherV": 4, "Reduce": 1}}"#;
        let (document, root, _) = Document::parse_json(text);
        let counts = status(document.value(root), false).counts;
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("all_gather".to_owned(), 7), ("reduce".to_owned(), 1)]);
    }
}
