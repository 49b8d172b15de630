//! NCCL's own records. The first byte says which source the bytes after it are read as; they may be of several files.
//!
//! Any bytes are read without a panic. What is read refers to what is there, damage has an offset inside of the file, and what is asked
//! of it has an answer.

use nccl_stacks::analysis::hang::hang;
use nccl_stacks::analysis::recorded;
use nccl_stacks::export::flow_rank::aggregate;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{Keep, Records, read_as};
use nccl_stacks::report::hang::HangForm;
use nccl_stacks::report::recorded::{RecordsAnswer, RecordsForm};
use nccl_stacks::report::{self, Screen};

/// All sources with a reader.
pub const SOURCES: [Source; 9] = [
    Source::FlightRecorder,
    Source::Ras,
    Source::Inspector,
    Source::Comma,
    Source::PluginDump,
    Source::Megatrace,
    Source::DebugLog,
    Source::Flow,
    Source::Recorder,
];

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
    let source = SOURCES[source % SOURCES.len()];
    let keep = if how & 128 != 0 { Keep::Last(2) } else { Keep::All };
    let mut all = Records::default();
    let mut rest = Some(bytes);
    for rank in 0..4 {
        let Some(text) = rest else { break };
        let end = memchr::memmem::find(text, BETWEEN);
        let (file, after) = (&text[..end.unwrap_or(text.len())], end.map(|end| &text[end + BETWEEN.len()..]));
        let records = read_as(source, &format!("fuzz_{rank}"), Box::new(std::io::Cursor::new(file.to_vec())), keep);
        is_sound(&records, file.len());
        all.append(records);
        rest = after;
    }
    is_sound(&all, bytes.len());
    answers(&all, how & 64 != 0);
    if all.files.len() == 1 {
        is_left_out(all, bytes.is_empty());
    }
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
    let (hang, recorded) = (hang(records), recorded::of(records));
    serde_json::to_writer(std::io::sink(), &hang).unwrap();
    serde_json::to_writer(std::io::sink(), &recorded).unwrap();
    if in_all_forms {
        let (screen, mut out) = (Screen { verbose: true, width: Some(80), ..Screen::default() }, Vec::new());
        report::hang::write(&hang, HangForm::Text, "fuzz", &screen, &mut out).unwrap();
        let answer = RecordsAnswer::new(&recorded, "fuzz").shown(screen, None);
        for form in [RecordsForm::Text, RecordsForm::Table, RecordsForm::Json, RecordsForm::Csv] {
            answer.write(form, &mut out).unwrap();
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
    records.calls.iter().for_each(|calls| inside(calls.communicator, records.communicators.len()));
    records.channels.iter().for_each(|channel| inside(channel.operation, records.operations.len()));
    records.proxy_ops.iter().for_each(|of| inside(of.operation, records.operations.len()));
    records.proxy_steps.iter().for_each(|step| assert!(step.proxy_op < records.proxy_ops.len()));
    for file in &records.files {
        for remark in file.skipped.iter().chain(&file.repaired) {
            assert!(remark.count > 0 && !remark.what.is_empty());
            assert!(remark.first_offset.is_none_or(|offset| offset <= len as u64), "{remark:?} of {len} bytes");
        }
    }
}
