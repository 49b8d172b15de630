//! The registry of formats: files in formats that are known and not read are refused by name, with what to do instead.

use std::collections::BTreeSet;
use std::io::Cursor;

use crate::support::pack::{gzip, zip_of};
use crate::support::program::{has, scratch, stderr_of, testdata};
use rusqlite::Connection;

use nccl_stacks::Error;
use nccl_stacks::damage::Damage;
use nccl_stacks::event::Support;
use nccl_stacks::input::{formats, from_reader};
use nccl_stacks::load::{LoadOptions, Loaded, load_input};

fn loaded(name: &str, bytes: Vec<u8>) -> Result<Loaded, Error> {
    load_input(from_reader(name.to_owned(), None, Box::new(Cursor::new(bytes)))?, LoadOptions::default(), |_| {})
}

/// A field of a protobuf message: a text or a message of less than 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

fn database(tables: &[&str]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let connection = Connection::open(file.path()).unwrap();
    for table in tables {
        connection.execute(&format!("CREATE TABLE \"{table}\" (id INTEGER)"), []).unwrap();
    }
    connection.close().unwrap();
    std::fs::read(file.path()).unwrap()
}

/// A small file of each format that is not read: the name of the format, that of a file, its bytes, and what the message says.
fn samples() -> Vec<(&'static str, &'static str, Vec<u8>, [&'static str; 2])> {
    // An XSpace of two planes, the second with an id, an event's name, and a line without events; and the name of a host.
    let plane = [
        [&[0x08, 0x01][..], &field(2, b"/device:GPU:0"), &field(3, &field(2, b"Stream #7"))].concat(),
        field(4, &[&[0x08, 0x05][..], &field(2, &field(2, b"ncclDevKernel_AllReduce_Sum"))].concat()),
    ];
    let xspace = [field(1, &field(2, b"/host:CPU")), field(1, &plane.concat()), field(4, b"host")].concat();
    // As encodeMessage writes them: each message after its length.
    let metadata = field(1, b"0.0.4");
    let node = [&[0x08, 0x01][..], &field(2, b"ALL_REDUCE"), &[0x18, 0x07]].concat();
    let chakra: Vec<u8> =
        [metadata, node].iter().flat_map(|message| [&[message.len() as u8][..], message].concat()).collect();
    let et = b"{\n  \"schema\": \"1.1.1-chakra.0.0.4\", \"pid\": 7, \"time\": \"2026-11-24 10:00:00\", \"start_ts\": 5,\n  \"nodes\": [\n    {\n      \"id\": 1, \"name\": \"[pytorch|profiler|execution_trace|process]\", \"ctrl_deps\": 1}\n  ],\n  \"finish_ts\": 6\n}";
    vec![
        ("XPlane", "host.xplane.pb", xspace, ["an XPlane profile", "create_perfetto_trace=True"]),
        ("PyTorch execution trace", "et.json", et.to_vec(), ["an execution trace of PyTorch", "export_chrome_trace"]),
        (
            "Chakra",
            "chakra.0.et",
            chakra,
            ["a Chakra execution trace", "PyTorch profiler's trace that it was made from"],
        ),
        (
            "rocprofv3 JSON",
            "1_results.json",
            br#"{"rocprofiler-sdk-tool":[{"metadata":{}}]}"#.to_vec(),
            ["rocprofv3's own JSON", "--output-format pftrace"],
        ),
        (
            "rocpd",
            "1_results.db",
            database(&["rocpd_string_00af", "rocpd_kernel_dispatch_00af"]),
            ["a rocpd database", "rocpd convert -i FILE --output-format pftrace"],
        ),
        (
            "Parquet",
            "CUPTI_ACTIVITY_KIND_KERNEL.parquet",
            b"PAR1\x15\x04\x15\x10PAR1".to_vec(),
            ["a Parquet file", "nsys export --type sqlite"],
        ),
        (
            "part of a rank",
            "rank0.json",
            br#"{"nccl_stacks_part":5,"ranks":[]}"#.to_vec(),
            ["a part of a rank", "The main command and `nccl-stacks ranks` answer from parts"],
        ),
        (
            "exported database",
            "trace.db",
            database(&["kernel_launch", "call_path", "slice"]),
            ["an SQLite database that nccl-stacks exported", "Any SQLite opens it"],
        ),
        (
            "JSON lines",
            "trace.jsonl",
            b"{\"ph\": \"X\", \"ts\": 1}\n{\"ph\": \"X\", \"ts\": 2}\n".to_vec(),
            ["Chrome's JSON with an event in each line", "jq -s"],
        ),
        ("UTF-16", "utf16.json", b"\xff\xfe{\0\"\0".to_vec(), ["text in UTF-16", "iconv -f UTF-16 -t UTF-8"]),
        ("xz", "trace.json.xz", b"\xfd7zXZ\0\0\x04\xe6".to_vec(), ["compressed with xz", "xz -dk FILE"]),
        ("bzip2", "trace.json.bz2", b"BZh91AY&SY".to_vec(), ["compressed with bzip2", "bzip2 -dk FILE"]),
        ("LZ4", "trace.json.lz4", b"\x04\x22\x4d\x18\x64\x40".to_vec(), ["compressed with LZ4", "lz4 -dk FILE"]),
        ("picture", "timeline.png", b"\x89PNG\r\n\x1a\n".to_vec(), ["a picture (PNG)", "A picture has no events"]),
    ]
}

#[test]
fn known_formats_are_refused_by_name_with_what_to_do_instead() {
    for (_, name, bytes, [what, instead]) in samples() {
        for (name, bytes) in [(name.to_owned(), bytes.clone()), (format!("{name}.gz"), gzip(&bytes))] {
            let error = loaded(&name, bytes).unwrap_err();
            assert!(matches!(error, Error::OtherFormat { .. }), "{error}");
            let message = error.to_string();
            assert!(message.starts_with(&format!("{name}: this is {what}")) && message.contains(instead), "{message}");
            assert!(!message.contains("Expected "), "{message}");
        }
    }
}

#[test]
fn every_format_that_is_not_read_has_a_sample() {
    let known = formats().filter(|format| matches!(format.support, Support::Instead(_))).map(|format| format.name);
    let tested: BTreeSet<&str> = samples().into_iter().map(|(format, ..)| format).collect();
    assert_eq!(known.collect::<BTreeSet<_>>(), tested);
}

#[test]
fn the_program_says_it_too() {
    let (_, name, bytes, _) = samples().remove(0);
    let (_folder, path) = scratch(name, &bytes);
    let said = stderr_of(&[&path], 1);
    let wanted = format!(
        "error: {path}: this is an XPlane profile (protobuf `XSpace`), which nccl-stacks does not read as a trace. JAX writes Chrome's JSON of the \
         same run, which can be read: `jax.profiler.trace(DIR, create_perfetto_trace=True)`"
    );
    assert_eq!(said.trim_end(), wanted);
}

/// Beside a trace they are files of the archive that are no traces, and no loss.
#[test]
fn known_formats_in_an_archive_are_no_traces() {
    let trace = std::fs::read(testdata("two_matches.json")).unwrap();
    for (_, name, bytes, [what, _]) in samples() {
        let found = loaded("a.zip", zip_of(&[("trace.json", &trace), (name, &bytes)])).unwrap();
        assert_eq!(found.store.traces.len(), 1, "{name}");
        let [only] = &found.findings.no_traces[..] else { panic!("{name}: {:?}", found.findings) };
        assert!(only.starts_with(&format!("{name} ({what}")), "{only}");
        assert_eq!(found.findings.damage.get(Damage::NoTraceInFile).count, 1, "{name}");
        assert_eq!(found.findings.damage.get(Damage::FileUnreadable).count, 0, "{name}");
        // Alone it is what the archive is refused for.
        let error = loaded("b.zip", zip_of(&[(name, &bytes)])).unwrap_err();
        assert!(matches!(error, Error::OtherFormat { .. }), "{error}");
        assert!(error.to_string().starts_with(&format!("b.zip/{name}: this is {what}")), "{error}");
    }
}

#[test]
fn what_is_expected_is_what_the_lists_have() {
    let message = loaded("text", b"hello".to_vec()).unwrap_err().to_string();
    for format in formats() {
        if let Support::Read { expected, .. } = format.support {
            has(&message, expected);
        }
    }
    let wanted = "text: this is not JSON. Expected a Chrome trace as the PyTorch profiler writes it (JSON with `traceEvents`, or a list of \
                  events), Perfetto's protobuf with track events, or an SQLite export of Nsight Systems (`nsys export --type sqlite`); \
                  plain, compressed with gzip or zstd, or in a zip or tar archive";
    assert_eq!(message, wanted);
}
