//! NCCL's own records. The first byte says which source the bytes after it are read as; they may be of several files.
//!
//! Any bytes are read without a panic. What is read refers to what is there, damage has an offset inside of the file, and what is asked
//! of it has an answer.

use nccl_stacks::answers::hang::document::HangAnswer;
use nccl_stacks::answers::hang::hang;
use nccl_stacks::answers::records::document::RecordsAnswer;
use nccl_stacks::answers::{OnPage, records as recorded};
use nccl_stacks::document::{Answer, Screen};
use nccl_stacks::export::flow_rank::aggregate;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_as, sources};
use nccl_stacks_recorder_format::layout::{self, communicator, header};

/// Between the files of one input.
pub const BETWEEN: &[u8] = b"\n\xff\xfe\n";

/// Larger communicators make long lists of ranks, in which no input of a few bytes finds anything new.
const LARGEST: u64 = 4096;

pub fn check(bytes: &[u8]) {
    if let Some((first, rest)) = bytes.split_first() {
        check_as(usize::from(*first), *first, rest);
    }
}

/// The same of the bytes after the first: the number of a source, and two bits that say whether only the last operations are kept, and
/// whether the answers are written in all forms.
pub fn check_as(source: usize, how: u8, bytes: &[u8]) {
    let sources = sources();
    let source = sources[source % sources.len()];
    let keep = if how & 128 != 0 { Keep::Last(2) } else { Keep::All };
    let mut all = Records::default();
    let (mut rest, mut longest) = (Some(bytes), bytes.len());
    for rank in 0..4 {
        let Some(text) = rest else { break };
        let end = memchr::memmem::find(text, BETWEEN);
        let (file, after) = (&text[..end.unwrap_or(text.len())], end.map(|end| &text[end + BETWEEN.len()..]));
        let file = if source == Source::RECORDER { recording(file) } else { file.to_vec() };
        let length = file.len();
        longest = longest.max(length);
        let records = read_as(source, &format!("fuzz_{rank}"), Box::new(std::io::Cursor::new(file)), keep);
        is_sound(&records, length);
        all.append(records);
        rest = after;
    }
    is_sound(&all, longest);
    answers(&all, how & 64 != 0);
    if all.files.len() == 1 {
        is_left_out(all, bytes.is_empty());
    }
}

/// A file of the recorder as it is, or one that is made of a few bytes: of each nine a record, complete, whose parent is one of the 63 before it.
/// Real ones are too long for what a fuzzer tries, and hardly any change leaves a record complete.
fn recording(bytes: &[u8]) -> Vec<u8> {
    if bytes.starts_with(&layout::MAGIC) {
        return bytes.to_vec();
    }
    let mut file = vec![0; layout::RingSizes { calls: 64, events: 64 }.at(2) as usize];
    let mut put = |at: usize, value: &[u8]| file[at..at + value.len()].copy_from_slice(value);
    put(0, &layout::MAGIC);
    for (at, value) in [(header::VERSION, layout::VERSION), (header::PLUGIN, 4), (header::PID, 7), (header::RANK, 1)] {
        put(at, &value.to_le_bytes());
    }
    put(header::RING_RECORDS, &64u64.to_le_bytes());
    put(header::CALL_RECORDS, &64u64.to_le_bytes());
    put(header::EVENTS, &64u64.to_le_bytes());
    put(header::KNOWN_COMMUNICATORS, &2u64.to_le_bytes());
    (0..2).for_each(|ring| put(header::RINGS + ring * header::RING + header::RING_CLAIMED, &64u64.to_le_bytes()));
    for number in 0..2 {
        let at = layout::COMMUNICATORS_AT + number * layout::COMMUNICATOR;
        put(at + communicator::HASH, &[0xab]);
        for (offset, value) in [(communicator::STATE, 2), (communicator::BY, 1 + number as u8), (communicator::SIZE, 2)]
        {
            put(at + offset, &[value]);
        }
    }
    for (number, text) in ["AllReduce", "ncclSend", "ncclFloat32", "RING"].into_iter().enumerate() {
        let at = layout::TEXTS_AT + number * layout::TEXT;
        put(at, &[text.len() as u8 + 1]);
        put(at + 1, text.as_bytes());
    }
    for (at, bytes) in bytes.chunks_exact(9).take(64).enumerate() {
        let &[kind, time, parent, a, b, small, thread, c, channel] = bytes else { continue };
        // Most parents are of ring 0, where all records are.
        let parent = u64::from(parent >> 2) << 8 | u64::from(parent & 1);
        let texts = u64::from(small & 3) << 16 | 3 << 24 | 4 << 32 | 4 << 40 | u64::from(channel) << 48;
        let mut words = [
            at as u64 + 1,
            u64::from(time) << (channel & 31),
            u64::from(kind) | u64::from(small & 0x0c) << 6 | u64::from(thread) << 32,
            parent,
            a.into(),
            u64::from(b) * 0x1_0000_0001,
            u64::from(small >> 4 & 3) | texts,
            u64::from(c) << (a & 32),
        ];
        let sum = (0u32..).zip(&words).fold(0, |sum, (at, word)| sum ^ word.rotate_left(7 * at));
        words[2] |= sum.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48 << 16;
        let begin = layout::RINGS_AT + at * layout::RECORD;
        (0..).zip(words).for_each(|(index, word)| put(begin + 8 * index, &word.to_le_bytes()));
    }
    file
}

/// Whether a file that is there twice is one file, and a note.
fn is_left_out(mut records: Records, is_empty: bool) {
    let before = records.operations.len();
    records.append(records.clone());
    assert!(is_empty || records.operations.len() == before, "a file that is there twice counts twice");
    assert!(records.files.len() == 2);
}

/// What is asked of records has an answer, which has a form for people and one for programs.
fn answers(records: &Records, in_all_forms: bool) {
    if records.communicators.iter().any(|communicator| communicator.size.is_some_and(|size| size > LARGEST)) {
        return;
    }
    let (hang, recorded) = (hang(records), recorded::report(records));
    serde_json::to_writer(std::io::sink(), &hang).unwrap();
    serde_json::to_writer(std::io::sink(), &recorded).unwrap();
    if in_all_forms {
        let (screen, mut out) = (Screen { verbose: true, width: Some(80), ..Screen::default() }, Vec::new());
        for form in HangAnswer::forms() {
            HangAnswer { report: &hang, name: "fuzz", on_page: OnPage::default() }
                .write(form, &screen, &mut out)
                .unwrap();
        }
        for form in RecordsAnswer::forms() {
            RecordsAnswer::new(&recorded, "fuzz").write(form, &screen, &mut out).unwrap();
        }
        assert!(std::str::from_utf8(&out).is_ok());
        aggregate(records).iter().for_each(|file| assert!(!file.text.is_empty()));
    }
}

/// Whether all positions are those of something.
fn is_sound(records: &Records, len: usize) {
    let inside = |at: Option<usize>, of: usize| assert!(at.is_none_or(|at| at < of), "{at:?} of {of}");
    assert_eq!(records.file_of.len(), records.operations.len());
    records.file_of.iter().for_each(|file| assert!((*file as usize) < records.files.len()));
    for operation in &records.operations {
        inside(operation.communicator, records.communicators.len());
        inside(operation.recorded_path.map(|path| path as usize), records.paths.len());
    }
    records.rank_status.iter().for_each(|status| inside(status.communicator, records.communicators.len()));
    records.calls.iter().for_each(|(like, _)| inside(like.communicator, records.communicators.len()));
    records.channels.iter().for_each(|channel| inside(channel.operation, records.operations.len()));
    records.proxy_ops.iter().for_each(|of| inside(of.operation, records.operations.len()));
    records.profiler_events.iter().for_each(|event| {
        inside(event.operation, records.operations.len());
        inside(event.proxy_step, records.proxy_steps.len());
        inside(event.communicator, records.communicators.len());
    });
    records.proxy_steps.iter().for_each(|step| assert!(step.proxy_op < records.proxy_ops.len()));
    for file in &records.files {
        for remark in file.skipped.iter().chain(&file.repaired) {
            assert!(remark.count > 0 && !remark.what.is_empty());
            assert!(remark.first_offset.is_none_or(|offset| offset <= len as u64), "{remark:?} of {len} bytes");
        }
    }
}
