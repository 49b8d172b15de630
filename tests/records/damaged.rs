//! Records with bytes that are changed, gone or there twice: no reader may panic, and rows keep naming rows that exist.

use std::io::Read;

use crate::support::pack::{gzip, tar_of_files};
use crate::support::program::{ended, has, run, stderr_of, stdout, stdout_of, testdata};
use crate::support::random::{Random, rounds};
use nccl_stacks::answers::records as recorded;
use nccl_stacks::operation::Source;
use nccl_stacks::records::{self, Keep, Records};

fn assert_sound(records: &Records) {
    let operations = records.operations.len();
    assert_eq!(records.file_of.len(), operations);
    assert!(records.channels.iter().all(|row| row.operation.is_none_or(|at| at < operations)));
    assert!(records.proxy_ops.iter().all(|row| row.operation.is_none_or(|at| at < operations)));
    assert!(records.proxy_steps.iter().all(|row| row.proxy_op < records.proxy_ops.len()));
    assert!(records.measures.iter().all(|row| row.operation < operations));
    for operation in &records.operations {
        assert!(operation.start.zip(operation.end).is_none_or(|(start, end)| start <= end), "{operation:?}");
    }
}

/// A file of less than the head by which sources are recognised has what is before its damage, as a larger one has.
#[test]
fn what_comes_before_a_cut_in_a_compressed_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.gz");
    for (name, least) in [("pair/plugin_dump.txt", 1), ("pair/inspector/rank0.log", 1)] {
        let whole = std::fs::read(testdata(&format!("records/{name}"))).unwrap();
        let packed = gzip(&whole);
        std::fs::write(&path, &packed[..packed.len() * 4 / 5]).unwrap();
        let records = crate::records::read(&path);
        let file = &records.files[0];
        assert!(file.bytes > 0 && file.bytes < whole.len() as u64, "{name}: {file:?}");
        assert!(records.operations.len() >= least, "{name}: {file:?}");
        assert!(file.skipped.iter().any(|of| of.what == "ends of files that cannot be read"), "{name}: {file:?}");
        assert_sound(&records);
        // The clock of a dump follows from all of it: times since the epoch, and not since the process began.
        assert!(records.channels.iter().all(|row| row.start.is_none_or(|start| start.0 > 1_000_000_000_000_000_000)));
    }
}

/// A reader that is interrupted every other time, and fails at last.
struct Interrupted {
    text: Vec<u8>,
    at: usize,
    is_next: bool,
    fails: bool,
}

impl Read for Interrupted {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.is_next = !self.is_next;
        if self.is_next {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let n = (self.text.len() - self.at).min(buf.len()).min(100);
        if n == 0 && self.fails && !buf.is_empty() {
            return Err(std::io::Error::other("the disk is gone"));
        }
        buf[..n].copy_from_slice(&self.text[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

#[test]
fn an_interruption_is_no_failure() {
    for (source, name) in [
        (Source::INSPECTOR, "pair/inspector/rank0.log"),
        (Source::PLUGIN_DUMP, "pair/plugin_dump.txt"),
        (Source::FLIGHT_RECORDER, "hang/nccl_trace_rank_0.json"),
        (Source::MEGATRACE, "megatrace/rank_0.log"),
    ] {
        let text = std::fs::read(testdata(&format!("records/{name}"))).unwrap();
        // More than the head by which sources are recognised, too.
        let text = if name.ends_with(".log") { text.repeat(100) } else { text };
        let read = |bytes: Box<dyn Read + Send>| records::read_as(source, name, bytes, Keep::All);
        let whole = read(Box::new(std::io::Cursor::new(text.clone())));
        let interrupted = read(Box::new(Interrupted { text: text.clone(), at: 0, is_next: false, fails: false }));
        assert_eq!(
            (interrupted.files[0].bytes, &interrupted.files[0].skipped),
            (text.len() as u64, &whole.files[0].skipped)
        );
        assert!(!whole.operations.is_empty() && interrupted.operations.len() == whole.operations.len(), "{name}");
        // Nor is anything lost of what is before a failure.
        let failed = read(Box::new(Interrupted { text, at: 0, is_next: false, fails: true }));
        assert_eq!(failed.operations.len(), whole.operations.len(), "{name}");
        assert!(failed.files[0].skipped.iter().any(|of| of.what == "ends of files that cannot be read"), "{name}");
    }
    let answer = r#"{"nccl_version": "2.28.9", "communicators_count": 1, "communicators": [{"hash": "0x1", "size": 1, "ranks": [{"rank": 0}]}]}"#;
    let text = format!("{answer}\n{}", &answer[..60]).into_bytes();
    let failed = Interrupted { text, at: 0, is_next: false, fails: true };
    assert_eq!(records::read_as(Source::RAS, "ras", Box::new(failed), Keep::All).rank_status.len(), 1);
}

/// A file counts once, whether it is in an archive or not.
#[test]
fn a_file_that_is_also_in_an_archive_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("a.tar");
    let logs = ["rank0.log", "rank1.log"].map(|rank| testdata(&format!("records/pair/inspector/{rank}")));
    std::fs::write(&archive, tar_of_files(logs)).unwrap();
    let loose = std::path::PathBuf::from(testdata("records/pair/inspector/rank0.log"));
    for paths in [[archive.clone(), loose.clone()], [loose, archive]] {
        let records = records::read_all(&paths, Keep::All, 1);
        assert_eq!((records.files.len(), records.operations.len()), (3, 7), "{paths:?}");
        let left_out = records.files.iter().filter(|file| file.notes.iter().any(|note| note.contains("same text")));
        assert_eq!(left_out.count(), 1);
    }
}

/// What cannot be read of an archive is with a file whose notes are shown.
#[test]
fn parts_of_an_archive_that_cannot_be_read_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tar");
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_path_with_name(testdata("records/pair/inspector/rank0.log"), "rank0.log").unwrap();
    tar.append_path_with_name(testdata("README.md"), "z.txt").unwrap();
    let mut bytes = tar.into_inner().unwrap();
    // No header and no end.
    bytes.truncate(bytes.len() - 1024);
    bytes.extend([7; 700]);
    std::fs::write(&path, &bytes).unwrap();
    let records = records::read_all(&[path], Keep::All, 1);
    let file = records.files.iter().find(|file| file.source.is_some()).unwrap();
    assert!(file.skipped.iter().any(|of| of.what == "parts of an archive that cannot be read"), "{:?}", records.files);
}

#[test]
fn changed_bytes_are_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut read, mut recognised) = (0, 0);
    for (name, count) in [
        ("pair/plugin_dump.txt", 50),
        ("pair/inspector/rank0.log", 50),
        ("pair/inspector/rank1.log", 50),
        ("hang/nccl_trace_rank_0.json", 25),
        ("megatrace/rank_0.log", 25),
    ] {
        let whole = std::fs::read(testdata(&format!("records/{name}"))).unwrap();
        for _ in 0..rounds(count) {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len());
                match random.below(4) {
                    0 => bytes[at] = random.below(256) as u8,
                    1 => bytes[at] = b"{}[]\",:0-9e\n"[random.below(12)],
                    2 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
                    _ => {
                        let copy = bytes[at..(at + random.below(200)).min(bytes.len())].to_vec();
                        bytes.splice(at..at, copy);
                    }
                }
            }
            let path = folder.path().join("records");
            std::fs::write(&path, &bytes).unwrap();
            let records = crate::records::read(&path);
            assert_sound(&records);
            recorded::report(&records);
            read += 1;
            recognised += usize::from(records.files[0].source.is_some());
        }
    }
    assert!(recognised * 10 > read * 9, "{recognised} of {read}");
}

/// Of a dump that asks to execute something, and of one whose operations are no list, nothing is read: that is no success.
#[test]
fn a_dump_of_which_nothing_is_read_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let dump = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let hostile = dump("dump_0", b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.");
    let no_list =
        dump("dump_1", br#"{"version": "2.5", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": {"0": {}}}"#);
    let empty = dump("dump_2", br#"{"version": "2.5", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": []}"#);
    for (path, code, note) in [
        (&hostile, 6, "asks to import and call os.system at byte 2; nothing was executed"),
        (&no_list, 6, "its `entries` is not a list, so none of its operations is read"),
    ] {
        stderr_of(&["records", path], code);
        let json = ended(&["records", path, "--json"], code);
        has(&stdout(&json), note);
        let strict = run(&["records", path, "--strict"]);
        assert_eq!((strict.status.code(), stdout(&strict).as_str()), (Some(1), ""));
    }
    let text = stdout_of(&["records", &empty]);
    assert!(!text.contains("not a list"), "{text}");
}
