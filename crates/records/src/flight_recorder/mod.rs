//! Dumps of PyTorch's flight recorder: a ring of the last operations of a process, written when a collective times out, or when asked for.
//!
//! They are pickles or JSON with the same keys, of versions 2.0 to 2.10; before that, in PyTorch 2.2, a list of operations alone. A dump is of one process and says of each process group which
//! ranks it has, how far it got, and of each operation that it holds whether its kernel started and ended. The numbers of collectives
//! (`collective_seq_id`) are equal on all ranks of a group, those of sends and receives (`p2p_seq_id`) count what the rank itself sent
//! and received.

mod entries;
mod groups;
mod rank;

use std::io::{self, Read};

use super::nodes::{Document, Value};
use super::pickle::{self, PickleError};
use super::reader::{Reader, Reading};
use super::text::contains;
use crate::operation::Source;

pub(super) const READER: Reader = Reader { source: Source::FLIGHT_RECORDER, sniff, read, leaves_holes: false };

/// The most bytes of a JSON dump: a ring of 20,000 entries with frames has 100 MB.
const MAX_JSON: u64 = 1 << 30;

/// The depth of the values that are read: dump, entries, entry, frames, frame, name.
const DEPTH: u32 = 6;

/// A dump with 20,000 entries has a few million values.
const MOST: u64 = 64 << 20;

fn sniff(head: &[u8]) -> bool {
    let has = |key: &str| contains(head, key);
    if pickle::is_pickle(head) {
        return true;
    }
    if head.trim_ascii_start().first() != Some(&b'{') {
        return false;
    }
    // Traces of PyTorch's profiler have a pg_config, too.
    let is_trace = ["\"traceEvents\"", "\"distributedInfo\"", "\"schemaVersion\""].iter().any(|key| has(key));
    let is_dump = has("\"pg_config\"") || has("\"pg_status\"") || (has("\"entries\"") && has("\"profiling_name\""));
    is_dump && !is_trace
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let is_pickle =
        reading.bytes.fill_buf()?.first().is_some_and(|first| *first != b'{' && !first.is_ascii_whitespace());
    let (parsed, failure) = if is_pickle { of_pickle(reading) } else { of_json(reading) };
    let rank = |(document, root): &(Document, u32)| document.value(*root).get("rank").and_then(Value::int);
    let are_several = parsed.len() > 1;
    for (at, one) in parsed.iter().enumerate() {
        let is_again = rank(one).is_some() && parsed[at + 1..].iter().any(|other| rank(other) == rank(one));
        if are_several && (is_again || rank(one).is_none()) {
            reading
                .file
                .note("of several dumps in a file those are read that say their rank, of each rank the last one");
            reading.file.skip("dumps that are beside others without a rank of their own", None);
            continue;
        }
        dump(one.0.value(one.1), reading);
    }
    failure.map_or(Ok(()), Err)
}

/// The documents and their outermost values, none of one that is refused, with the reason in the file's notes; and the error that ended the reading, if any.
type Parsed = (Vec<(Document, u32)>, Option<io::Error>);

fn of_pickle(reading: &mut Reading<'_>) -> Parsed {
    let (parsed, error) = pickle::read(&mut reading.bytes);
    if parsed.as_ref().is_some_and(|(document, root)| document.unfolded(*root, DEPTH) > MOST) {
        reading.file.note("this pickle refers to its values so often that reading it would not end");
        reading.file.skip("dumps that repeat their values without end", None);
        return (Vec::new(), None);
    }
    let Some(error) = error else { return (parsed.into_iter().collect(), None) };
    let parsed = parsed.filter(|(document, root)| has_entries(document.value(*root)));
    let (what, at) = match error {
        PickleError::Read(error) => {
            reading.file.is_cut = parsed.is_some();
            return (parsed.into_iter().collect(), Some(error));
        }
        PickleError::EndsEarly { at } if parsed.is_some() => {
            is_cut_off(reading, Some(at));
            return (parsed.into_iter().collect(), None);
        }
        PickleError::Old => ("dumps of pickle's protocols 0 and 1", 0),
        PickleError::Executes { at, .. } => ("dumps that ask to execute something", at),
        PickleError::EndsEarly { at } => ("dumps that end early", at),
        PickleError::Unknown { at, .. } | PickleError::Damaged { at, .. } | PickleError::TooLarge { at, .. } => {
            ("dumps that are not valid pickles", at)
        }
    };
    reading.file.note(error.to_string());
    reading.file.skip(what, Some(at));
    (Vec::new(), None)
}

fn of_json(reading: &mut Reading<'_>) -> Parsed {
    let mut text = Vec::new();
    let failure = (&mut *reading.bytes).take(MAX_JSON).read_to_end(&mut text).err();
    let mut found = Vec::new();
    for one in documents(&text) {
        let (document, root, error) = Document::parse_json(one);
        match error {
            Some(error) if has_entries(document.value(root)) => match failure {
                Some(_) => reading.file.is_cut = true,
                // Nothing is known after bytes that are not JSON.
                None => is_cut_off(reading, error.is_eof().then_some(text.len() as u64)),
            },
            Some(error) => {
                reading.file.note(format!("this is not valid JSON: {error}"));
                reading.file.skip("dumps that are not valid JSON", None);
                continue;
            }
            None => {}
        }
        found.push((document, root));
    }
    (found, failure)
}

/// The dumps of a file: some collect those of all ranks, one after the other.
fn documents(text: &[u8]) -> Vec<&[u8]> {
    let has = |between: &[u8]| memchr::memmem::find(text, between).is_some();
    if !has(b"\n{") && !has(b"}{") {
        return vec![text];
    }
    let mut all = serde_json::Deserializer::from_slice(text).into_iter::<serde::de::IgnoredAny>();
    let (mut found, mut from) = (Vec::new(), 0);
    while text[from..].trim_ascii_start().first() == Some(&b'{') {
        // One that breaks off is the last.
        let is_whole = matches!(all.next(), Some(Ok(_)));
        let to = if is_whole { all.byte_offset() } else { text.len() };
        found.push(&text[from..to]);
        from = to;
    }
    if found.is_empty() { vec![text] } else { found }
}

fn has_entries(root: Value<'_>) -> bool {
    entries_of(root).is_some_and(|entries| entries.items().next().is_some())
}

/// The operations of a dump: the oldest dumps are nothing else.
fn entries_of(root: Value<'_>) -> Option<Value<'_>> {
    let is_operation = |entry: Value<'_>| entry.get("profiling_name").is_some();
    if root.is_list() && root.items().next().is_some_and(is_operation) { Some(root) } else { root.get("entries") }
}

/// The process was killed while it wrote, or a disk was full. Entries are written in the order of their calls, so the last ones are lost.
fn is_cut_off(reading: &mut Reading<'_>, at: Option<u64>) {
    reading.file.is_cut = true;
    reading.file.skip("ends of dumps that are cut off", at);
}

fn dump(root: Value<'_>, reading: &mut Reading<'_>) {
    let entries = entries_of(root).filter(|entries| entries.is_list());
    if !(root.is_dict() || entries.is_some())
        || (entries.is_none() && root.get("pg_config").is_none() && root.get("pg_status").is_none())
    {
        reading.file.note(
            "this is a pickle or JSON file, but not a dump of the flight recorder: it has neither entries nor pg_config",
        );
        reading.file.skip("files that are not dumps", None);
        return;
    }
    if root.get("entries").is_some() && entries.is_none() {
        reading.file.note("its `entries` is not a list, so none of its operations is read");
        reading.file.skip("lists of operations that are not lists", None);
    }
    let has_status = root.get("pg_status").is_some_and(|status| status.pairs().next().is_some());
    if reading.file.is_cut {
        let count = entries.map_or(0, |entries| entries.items().len());
        let reached = if has_status {
            "How far its rank got is only in its pg_status"
        } else {
            "So it does not show how far its rank got"
        };
        reading.file.note(format!(
            "it is cut off: its first {count} operations are whole, and the last ones are lost. {reached}"
        ));
    }
    reading.file.version = root.get("version").and_then(Value::text).map(str::to_owned);
    let entries: Vec<Value<'_>> = entries.into_iter().flat_map(Value::items).collect();
    if entries.is_empty() && !has_status {
        reading.file.note("it has neither operations nor pg_status, so that it does not show how far its rank got");
    }
    // PyTorch numbers all operations of a process from 0 and keeps the last ones.
    let first = entries.iter().filter_map(|entry| entry.get("record_id")?.int()).min();
    reading.file.has_overwritten |= first.is_some_and(|first| first > 0);
    let mut groups = groups::Groups::read(root, &entries, reading.records);
    groups.set_rank(rank::of_dump(&groups, reading.file));
    entries::read(&groups, reading);
    groups::statuses(&groups, reading);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_are_no_traces() {
        assert!(sniff(b" {\"entries\": [{\"profiling_name\": \"nccl:all_reduce\"}]}"));
        assert!(sniff(b"{\"version\": \"2.5\", \"pg_config\": {}}"));
        assert!(!sniff(b"{\"schemaVersion\": 1, \"distributedInfo\": {\"pg_config\": []}, \"traceEvents\": []}"));
        assert!(!sniff(b"{\"communicators_count\": 1}") && !sniff(b"[1]"));
    }
}
