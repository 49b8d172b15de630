//! Files of the recorder: what it stored in mapped memory within a job, read later or while the job runs.
//!
//! A file has a header with tables, and rings of records in no order but that of their positions. The tables come first, then one ring
//! after the other; all records together are put in the order of their times, and joined by their handles. Rings
//! overwrite their oldest records, so that ends come without beginnings: these are counted, and nothing is made up for them. Another
//! process may be writing while this one reads: a record that is not complete is skipped, and the next reading has it.

mod bytes;
mod causes;
mod events;
mod facts;
mod finish;
mod groups;
pub(super) mod places;
mod profiler_events;
mod proxies;
mod rings;
mod row;
mod same;

use std::io;

use nccl_stacks_recorder_format::layout::{self, header};

use self::bytes::{Bytes, From};
use self::events::Events;
use self::facts::Facts;
use self::rings::Rings;
use super::file::{NotRecorded, RecordFile, RingSpan};
use super::reader::{Reader, Reading};
use crate::operation::Source;
use nccl_stacks_trace::time::Ns;

pub(super) const READER: Reader = Reader { source: Source::RECORDER, sniff, read, leaves_holes: true };

/// The clocks of host and recorder that are further apart at the end than at the beginning, in ns, were set.
const SET: u64 = 1_000_000;

/// What helps where communicators have no room.
const COMMUNICATORS: &str =
    "A recording has room for 512 communicators at a time: destroy those that are not used any more.";

/// The ending of the empty file that a process leaves whose recorder could not create its own: `HOST-PID.E28.ncclrec-failed`.
const FAILED: &str = ".ncclrec-failed";

fn sniff(head: &[u8]) -> bool {
    head.starts_with(&layout::MAGIC)
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let Reading { bytes, disk, file, records, keep } = reading;
    let mut bytes = Bytes::new(disk.map_or_else(|| From::Stream(*bytes), From::Disk));
    let head = head(&mut bytes)?;
    let mut facts = match Facts::parse(&head, records) {
        Ok(facts) => facts,
        Err(reason) => {
            file.note(format!("{}.", sentence(&reason.to_string())));
            file.lose("recordings that cannot be read", 1, Some(0), None);
            return Ok(());
        }
    };
    file.version = Some(facts.header.version.to_string());
    file.events = facts.events();
    let rings = Rings::read(&mut bytes, &facts, file);
    (file.bytes, file.checksum) = (bytes.used, bytes.checksum.sum());
    let rings = rings?;
    file.records = rings.len() as u64;
    // Before version 2 rings had calls and events.
    let (of_calls, of_events) = match facts.header.version {
        1 => (0..layout::RINGS, 0..layout::RINGS),
        _ => (0..layout::CALL_RINGS, layout::CALL_RINGS..layout::RINGS),
    };
    let spans = [of_calls, of_events].map(|of| rings.left(of, &facts));
    let order: Vec<usize> = rings.by_time().collect();
    let same = same::find(&facts, &rings, &order);
    facts.join(&same.pairs);
    facts.enter(records);
    if same.has_several_ranks {
        facts.set_several_ranks();
    }
    note_losses(&facts, file);
    let mut events = Events::new(&facts, &rings);
    order.into_iter().for_each(|at| events.add(at));
    finish::finish(events, *keep, records, file);
    if facts.overwritten() > 0 {
        let ([calls, events], kept) = (spans, file.records);
        let (began, all) = (Ns(facts.header.start.realtime), kept.saturating_add(facts.overwritten()));
        file.ring = Some(RingSpan { began, calls, events, kept, all });
    }
    Ok(())
}

/// A file says by its name alone that its process could not record, and why.
pub(super) fn read_name(name: &str) -> Option<RecordFile> {
    let (_, error) = name.strip_suffix(FAILED)?.rsplit_once(".E")?;
    let (why, advice) = causes::of_process(error.parse().ok()?);
    let not_recorded = Some(NotRecorded { why, advice });
    Some(RecordFile { source: Some(Source::RECORDER), not_recorded, ..RecordFile::new(name.to_owned()) })
}

/// Reads the header, the communicators that there are, and the texts. Entries of communicators that there are not are zeros, as in the file.
fn head(bytes: &mut Bytes<'_>) -> io::Result<Vec<u8>> {
    let mut head = bytes.part(0, layout::COMMUNICATORS_AT)?;
    let known = header::KNOWN_COMMUNICATORS..header::KNOWN_COMMUNICATORS + 8;
    let known = head.get(known).and_then(|known| Some(u64::from_le_bytes(known.try_into().ok()?))).unwrap_or(0);
    let known = usize::try_from(known).unwrap_or(usize::MAX).min(layout::COMMUNICATORS);
    for (at, length) in [
        (layout::COMMUNICATORS_AT, known * layout::COMMUNICATOR),
        (layout::TEXTS_AT, layout::RINGS_AT - layout::TEXTS_AT),
    ] {
        let part = bytes.part(at as u64, length)?;
        if !part.is_empty() {
            head.resize(at, 0);
            head.extend_from_slice(&part);
        }
    }
    Ok(head)
}

fn note_losses(facts: &Facts<'_>, file: &mut RecordFile) {
    let header = &facts.header;
    file.skip_several("records that newer ones have overwritten", facts.overwritten(), None);
    let (records, advice) = causes::of_records(header.lost_why);
    file.lose(records, header.lost, None, advice);
    file.lose("communicators for which there was no room", header.lost_communicators, None, Some(COMMUNICATORS));
    file.lose("calls and events while the program had switched recording off", header.left_out, None, None);
    match header.reused {
        0 => {}
        1 => {
            file.note("1 communicator had ended and gave its number to a newer one. Its records name no communicator.")
        }
        reused => file.note(format!(
            "{reused} communicators had ended and gave their numbers to newer ones. Their records name no communicator."
        )),
    }
    if facts.other_hashes > 0 {
        file.note(format!(
            "NCCL names {} of its communicators by another hash than the recorder computes from their ids: this NCCL is another one. Their \
             operations are counted once, with NCCL's hash; files of processes without the plugin have the recorder's.",
            facts.other_hashes
        ));
    }
    if facts.clock_set() > SET {
        let milliseconds = facts.clock_set() as f64 / 1e6;
        file.note(format!(
            "The clock of its host was set by {milliseconds:.3} ms during the recording. Times are by the nearer of two readings."
        ));
    }
    if let Some(rank) = facts.rank.filter(|_| facts.rank_is_inferred) {
        file.note(format!("Its environment sets no rank: it is rank {rank} of the communicator of all ranks."));
    }
    if facts.has_several_ranks {
        file.note("Its process has several ranks of one communicator: they are numbered within the communicator.");
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
