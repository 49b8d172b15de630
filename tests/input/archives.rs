//! Archives: zip and tar around traces, made here from the traces of `testdata/`. The answer for two copies of a trace is known
//! from that for one.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::num::NonZero;
use std::process::{Command, Output, Stdio};

use crate::support::facts::facts;
use crate::support::pack::{gunzip, gzip, tar_of, zip_of};
use crate::support::program::{ended, has, program, refused, run, scratch, stderr, stderr_of, stdout, testdata};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::Value;
use tar::{Builder, EntryType, Header};

use nccl_stacks::damage::Damage;
use nccl_stacks::id::SliceId;
use nccl_stacks::input::from_reader;
use nccl_stacks::input::limit::Limits;
use nccl_stacks::load::{LoadOptions, Loaded, load_input};
use nccl_stacks::{Error, load};

fn bytes_of(name: &str) -> Vec<u8> {
    std::fs::read(testdata(name)).unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// How a member of a hand-made zip is written.
#[derive(Clone, Copy)]
struct Made<'a> {
    name: &'a str,
    text: &'a [u8],
    /// 0: stored, 8: deflated, 93: zstd; any other value is only what the header declares.
    method: u16,
    flags: u16,
}

const LENGTH_AFTER: u16 = 8;

/// A member as any tool may write it, by PKWARE's APPNOTE 4.3.
fn made<'a>(name: &'a str, text: &'a [u8], method: u16, flags: u16) -> Made<'a> {
    Made { name, text, method, flags }
}

/// The members, and the directory after them.
fn zip_by_hand(members: &[Made<'_>]) -> (Vec<u8>, Vec<u8>) {
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    for Made { name, text, method, flags } in members {
        let start = files.len() as u32;
        let mut crc = flate2::Crc::new();
        crc.update(text);
        let data = match method {
            8 => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            93 => zstd(text),
            _ => text.to_vec(),
        };
        let sizes: Vec<u8> =
            [crc.sum(), data.len() as u32, text.len() as u32].iter().flat_map(|n| n.to_le_bytes()).collect();
        let is_after = flags & LENGTH_AFTER != 0;
        let common = |sizes: &[u8]| {
            let mut fields: Vec<u8> = [20, *flags, *method, 0, 0].iter().flat_map(|n: &u16| n.to_le_bytes()).collect();
            fields.extend(sizes);
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend(0_u16.to_le_bytes());
            fields
        };
        files.extend(b"PK\x03\x04");
        files.extend(common(if is_after { &[0; 12] } else { &sizes }));
        files.extend(name.as_bytes());
        files.extend(&data);
        if is_after {
            files.extend(b"PK\x07\x08");
            files.extend(&sizes);
        }
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(common(&sizes));
        directory.extend([0; 10]);
        directory.extend(start.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let (length, offset, count) = (directory.len() as u32, files.len() as u32, members.len() as u16);
    directory.extend(b"PK\x05\x06\0\0\0\0");
    directory.extend([count.to_le_bytes(), count.to_le_bytes()].concat());
    directory.extend([length.to_le_bytes(), offset.to_le_bytes()].concat());
    directory.extend([0, 0]);
    (files, directory)
}

/// The same as a file.
fn zip_made(members: &[Made<'_>]) -> Vec<u8> {
    let (files, directory) = zip_by_hand(members);
    [files, directory].concat()
}

/// A zip whose numbers are in the fields for large ones, as of more than 4 GiB: the members, and what is after them.
fn zip64(members: &[(&str, &[u8])]) -> [Vec<u8>; 2] {
    let (mut files, mut directory) = (Vec::new(), Vec::new());
    for (name, text) in members {
        let (start, length) = (files.len() as u64, text.len() as u64);
        let mut crc = flate2::Crc::new();
        crc.update(text);
        let common = |field: u16| {
            let mut fields: Vec<u8> = [45_u16, 0, 0, 0, 0].iter().flat_map(|n| n.to_le_bytes()).collect();
            fields.extend(crc.sum().to_le_bytes());
            fields.extend([0xff; 8]);
            fields.extend((name.len() as u16).to_le_bytes());
            fields.extend((field + 4).to_le_bytes());
            fields
        };
        let field = |numbers: &[u64]| {
            let mut field = [1_u16.to_le_bytes(), (8 * numbers.len() as u16).to_le_bytes()].concat();
            field.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
            field
        };
        files.extend([b"PK\x03\x04", &common(16)[..], name.as_bytes(), &field(&[length, length]), text].concat());
        directory.extend([b"PK\x01\x02\x2d\0", &common(24)[..], &[0; 10], &[0xff; 4]].concat());
        directory.extend([name.as_bytes(), &field(&[length, length, start])].concat());
    }
    let (length, offset, count) = (directory.len() as u64, files.len() as u64, members.len() as u64);
    directory.extend(b"PK\x06\x06\x2c\0\0\0\0\0\0\0\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    directory.extend([count, count, length, offset].iter().flat_map(|n| n.to_le_bytes()));
    directory.extend([b"PK\x06\x07\0\0\0\0", &(offset + length).to_le_bytes()[..], &[1, 0, 0, 0]].concat());
    directory.extend([&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0, 0]].concat());
    [files, directory]
}

fn load_file(name: &str, bytes: &[u8]) -> Result<Loaded, Error> {
    let (_folder, path) = scratch(name, bytes);
    load(path, LoadOptions::default(), |_| {})
}

fn load_stream(bytes: &[u8]) -> Result<Loaded, Error> {
    let input = from_reader("stream".to_owned(), None, Box::new(Cursor::new(bytes.to_vec())))?;
    load_input(input, LoadOptions::default(), |_| {})
}

/// From a file and from a stream: the same, except the order of a tar's traces.
fn load_both(bytes: &[u8]) -> [Loaded; 2] {
    [load_file("archive", bytes).unwrap(), load_stream(bytes).unwrap()]
}

/// The message of what is no trace.
#[track_caller]
fn error_of(name: &str, bytes: &[u8]) -> String {
    load_file(name, bytes).unwrap_err().to_string()
}

/// Whichever way they are read, these are the traces, and these the faults.
#[track_caller]
fn has_traces(what: &str, bytes: &[u8], traces: &[&str], wrong: &[(Damage, u64, Option<u64>)]) {
    for loaded in load_both(bytes) {
        assert_eq!((names(&loaded), &faults(&loaded)[..]), (traces.to_vec(), wrong), "{what}");
    }
}

/// The faults of the archive: kind, count and first offset.
fn faults(loaded: &Loaded) -> Vec<(Damage, u64, Option<u64>)> {
    loaded.store.damage.faults().map(|(d, tally)| (d.kind, tally.count, tally.first_offset)).collect()
}

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.store.traces.iter().map(|trace| trace.name.as_deref().unwrap()).collect()
}

fn answer(args: &[&str]) -> (String, String) {
    let output = run(args);
    // 6: a trace is cut off or corrupt.
    assert!(matches!(output.status.code(), Some(0 | 6)), "{}", stderr(&output));
    (stdout(&output), stderr(&output))
}

fn piped(args: &[&str], bytes: &[u8]) -> Output {
    let mut child =
        program().args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap();
    output
}

/// The JSON of an answer, without the name of the trace.
fn json(path: &str) -> Value {
    let mut answer: Value = serde_json::from_str(&answer(&[path, "--format", "json"]).0).unwrap();
    answer.as_object_mut().unwrap().remove("trace");
    for trace in answer["traces"].as_array_mut().unwrap() {
        trace.as_object_mut().unwrap().remove("name");
    }
    answer
}

const TRACES: &[&str] = &[
    "sglang_decode.json.gz",
    "ddp_backward.json.gz",
    "costs.json",
    "evidence.json",
    "forward_backward.json",
    "overlap_pdl.json",
    "begin_end_async.json",
    "bare_array_unclosed.json",
    "flow_only.json",
];

/// The only trace of an archive loads exactly as the trace itself.
#[test]
fn one_trace_in_an_archive_is_that_trace() {
    for name in TRACES {
        let bytes = bytes_of(name);
        let want = facts(&load_file(name, &bytes).unwrap().store);
        let by_hand = |method, flags| zip_made(&[made("a/trace", &bytes, method, flags)]);
        let tar = tar_of(&[(name, &bytes)]);
        let archives = [
            ("zip, stored", zip_of(&[(name, &bytes)])),
            ("zip, deflated", by_hand(8, 0)),
            ("zip, zstd", by_hand(93, 0)),
            ("zip, zstd, lengths after it", by_hand(93, LENGTH_AFTER)),
            ("zip, stored, lengths after it", by_hand(0, LENGTH_AFTER)),
            ("zip64", zip64(&[(name, &bytes)]).concat()),
            ("tar", tar.clone()),
            ("tar.gz", gzip(&tar)),
            ("tar.zst", zstd(&tar)),
            ("zip in gzip", gzip(&zip_of(&[(name, &bytes)]))),
            ("zip in tar", tar_of(&[("inner.zip", &zip_of(&[(name, &bytes)]))])),
            ("zip in tar.gz", gzip(&tar_of(&[("inner.zip", &zip_of(&[(name, &bytes)]))]))),
            ("tar in zip", zip_of(&[("inner", &tar)])),
            ("tar.gz in zip", zip_of(&[("inner", &gzip(&tar))])),
            ("gzip in zstd in gzip", gzip(&zstd(&gzip(&bytes)))),
            ("zstd in zstd", zstd(&zstd(&bytes))),
        ];
        for (what, archive) in archives {
            for loaded in load_both(&archive) {
                assert!(facts(&loaded.store) == want, "{name}: {what}");
            }
        }
    }
}

#[test]
fn the_answer_for_one_trace_is_that_for_the_trace() {
    let bytes = bytes_of("sglang_decode.json.gz");
    let (_folder, zip) = scratch("t.zip", &zip_of(&[("logdir/host_1.pt.trace.json.gz", &bytes)]));
    let bare = testdata("sglang_decode.json.gz");
    for form in ["text", "table", "csv", "folded"] {
        let (got, notes) = answer(&[&zip, "--format", form]);
        assert_eq!(got, answer(&[&bare, "--format", form]).0, "{form}");
        has(&notes, "Traces loaded: 1 (logdir/host_1.pt.trace.json.gz), ");
    }
    assert_eq!(json(&zip), json(&bare));
    let query = "SELECT * FROM slice ORDER BY id; SELECT * FROM thread; SELECT * FROM stats; SELECT * FROM header";
    assert_eq!(answer(&["sql", &zip, query]).0, answer(&["sql", &bare, query]).0);
}

/// The number of kernels of each stack of an answer.
fn counts(answer: &Value) -> Vec<(Value, u64)> {
    let stack = |stack: &Value| (stack["frames"].clone(), stack["count"].as_u64().unwrap());
    let mut counts: Vec<(Value, u64)> = answer["stacks"].as_array().unwrap().iter().map(stack).collect();
    counts.sort_by_key(|(frames, _)| frames.to_string());
    counts
}

/// A trace that is there again counts once, and nothing of it becomes ambiguous, though all pids, tids, streams, correlation ids and External ids
/// are there twice.
#[test]
fn two_copies_count_once_and_nothing_is_ambiguous() {
    for name in TRACES {
        let bytes = bytes_of(name);
        let (_folder, bare) = scratch(name, &bytes);
        let (_other, twice) = scratch("t.zip", &zip_of(&[("one.json", &bytes), ("two.json", &bytes)]));
        // Exit code 3 is that of a trace without collectives.
        if run(&[&bare]).status.code() != Some(0) {
            continue;
        }
        let (one, two) = (json(&bare), json(&twice));
        assert_eq!(counts(&two), counts(&one), "{name}");
        for answer in ["coverage", "summary"] {
            assert_eq!(two[answer]["kernels"], one[answer]["kernels"], "{name}: {answer}");
        }
        assert_eq!(two["summary"]["wall_ns"], one["summary"]["wall_ns"], "{name}");
        assert_eq!(two["coverage"]["attributed_by"], one["coverage"]["attributed_by"], "{name}");
        let said = stderr(&run(&[&twice]));
        assert!(said.contains("There twice, and counted once: "), "{name}: {said}");
    }
}

/// A process, its thread and its GPU; the other trace has the same numbers 5 ms later.
fn rank(number: u64, name: &str, shift: u64) -> String {
    let [begin, launch, kernel, mark, opened, closed] = [0, 10, 30, 40, 50, 60].map(|at| at + shift);
    format!(
        r#"{{"distributedInfo": {{"rank": {number}}}, "metadata": {{"host": "n{number}"}}, "traceEvents": [
{{"ph":"X","name":"step of {name}","cat":"user_annotation","pid":10,"tid":10,"ts":{begin},"dur":100}},
{{"ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":10,"tid":10,"ts":{launch},"dur":5,"args":{{"correlation":7}}}},
{{"ph":"s","name":"ac2g","cat":"ac2g","id":7,"pid":10,"tid":10,"ts":{launch}}},
{{"ph":"X","name":"ncclDevKernel_AllReduce","cat":"kernel","pid":0,"tid":7,"ts":{kernel},"dur":9,"args":{{"correlation":7}}}},
{{"ph":"f","name":"ac2g","cat":"ac2g","id":7,"pid":0,"tid":7,"ts":{kernel},"bp":"e"}},
{{"ph":"i","name":"mark","pid":10,"tid":10,"ts":{mark},"s":"g"}},
{{"ph":"b","name":"async","cat":"a","id":3,"pid":10,"tid":10,"ts":{opened}}},
{{"ph":"e","name":"async","cat":"a","id":3,"pid":10,"tid":10,"ts":{closed}}}
]}}"#
    )
}

/// The kernels run at times at which the other trace's call would be the nearer one.
#[test]
fn what_has_equal_numbers_in_two_traces_stays_apart() {
    // Shifted by 15 µs the second trace's call, at 25, is between the first one's and its kernel, at 30.
    let (zero, one) = (rank(0, "zero", 0), rank(1, "one", 15));
    let zip = zip_of(&[("a.json", zero.as_bytes()), ("b.json", one.as_bytes())]);
    let (_folder, path) = scratch("t.zip", &zip);
    let (text, notes) = answer(&[&path, "--format", "script"]);
    for name in ["zero", "one"] {
        let stack = format!("step of {name}\n ->\ncudaLaunchKernel\nAppeared 1 times");
        has(&text, &stack);
    }
    assert!(!notes.contains("Uncertain") && !notes.contains("Flows disagree"), "{notes}");
    for (query, rows) in [
        // The first trace has the idle process 0 before its own.
        (
            "SELECT machine_id, group_concat(pid) AS pids FROM process GROUP BY 1",
            "\"machine_id\",\"pids\"\n0,\"0,10,0\"\n1,\"10,0\"\n",
        ),
        (
            "SELECT track.machine_id AS machine, track.type, count(*) AS n FROM slice JOIN track ON track.id = track_id \
             GROUP BY 1, 2",
            "\"machine\",\"type\",\"n\"\n\
             0,\"legacy_async_global_slice\",1\n0,\"legacy_chrome_global_instants\",1\n0,\"thread_execution\",3\n\
             1,\"legacy_async_global_slice\",1\n1,\"legacy_chrome_global_instants\",1\n1,\"thread_execution\",3\n",
        ),
        // A flow leads from each call to its own kernel, and both are number 0 in their trace.
        (
            "SELECT a.ts AS call, b.ts AS kernel, flow.trace_id FROM flow JOIN slice a ON a.id = slice_out \
             JOIN slice b ON b.id = slice_in ORDER BY 1",
            "\"call\",\"kernel\",\"trace_id\"\n10000,30000,0\n25000,45000,0\n",
        ),
        (
            "SELECT machine_id, key, value FROM header WHERE key LIKE 'distributed%'",
            "\"machine_id\",\"key\",\"value\"\n0,\"distributedInfo.rank\",0\n1,\"distributedInfo.rank\",1\n",
        ),
        (
            "SELECT name, str_value, machine_id, trace_id FROM metadata",
            "\"name\",\"str_value\",\"machine_id\",\"trace_id\"\n\
             \"json_metadata.host\",\"n0\",0,0\n\"json_metadata.host\",\"n1\",1,1\n",
        ),
    ] {
        assert_eq!(answer(&["sql", &path, query]).0, rows, "{query}");
    }
}

/// Events of another trace in between change nothing, and each trace has its own rule for equal times.
#[test]
fn each_trace_has_its_own_order_at_equal_times() {
    // In order of time and without `X`: file order holds, B before E, so that the slice is open when its end comes.
    let in_order = r#"[{"ph":"B","name":"b","pid":1,"tid":1,"ts":5},{"ph":"E","pid":1,"tid":1,"ts":5}]"#;
    // An `X` comes first: ends go before, so that this end matches nothing.
    let with_x = r#"[{"ph":"X","name":"x","pid":1,"tid":1,"ts":1,"dur":1},{"ph":"B","name":"b","pid":1,"tid":1,"ts":5},
        {"ph":"E","pid":1,"tid":1,"ts":5}]"#;
    for (files, want) in
        [([("a", in_order), ("b", with_x)], "1,-1\n0,0\n"), ([("a", with_x), ("b", in_order)], "0,-1\n1,0\n")]
    {
        let files = files.map(|(name, text)| (name, text.as_bytes()));
        let (_folder, path) = scratch("t.zip", &zip_of(&files));
        let query = "SELECT track.machine_id AS m, dur FROM slice JOIN track ON track.id = track_id \
                     WHERE slice.name = 'b' ORDER BY dur";
        assert_eq!(answer(&["sql", &path, query]).0, format!("\"m\",\"dur\"\n{want}"));
    }
}

/// The trace of `two_matches.json` in the format of Perfetto.
fn packets() -> Vec<u8> {
    let json = std::fs::read_to_string(testdata("two_matches.json")).unwrap();
    crate::support::packets::file(&crate::support::packets::from_json(&json, crate::support::packets::Style::Plain))
}

#[test]
fn traces_are_read_by_kind_and_name() {
    let (json, proto) = (bytes_of("two_matches.json"), packets());
    let packed = gzip(&json);
    let files: &[(&str, &[u8])] = &[
        ("b.json", &json),
        (".runs/a.json", &json),
        ("notes.txt", b"rank 0 was slow\n"),
        ("z.gz", &packed),
        ("y.pftrace", &proto),
        (".hidden.json", &json),
        ("x/.ipynb_checkpoints/a.json", &json),
        ("__MACOSX/a.json", &json),
        ("empty.json", b""),
        ("other.json", br#"{"a": [1, 2]}"#),
    ];
    // Traces in a hidden folder are read.
    let in_order = ["y.pftrace", "z.gz", ".runs/a.json", "b.json"];
    for archive in [zip_of(files), tar_of(files)] {
        let loaded = load_file("archive", &archive).unwrap();
        assert_eq!(names(&loaded), in_order);
        let mut no_traces = loaded.findings.no_traces.clone();
        no_traces.sort();
        assert_eq!(no_traces, ["empty.json", "notes.txt", "other.json"]);
        assert_eq!(loaded.store.damage.get(Damage::NoTraceInFile).count, 3);
        assert_eq!(loaded.store.damage.faults().count(), 0);
    }
    assert_eq!(names(&load_stream(&zip_of(files)).unwrap()), in_order);
    // A stream cannot be rewound.
    for stream in [tar_of(files), gzip(&tar_of(files))] {
        assert_eq!(names(&load_stream(&stream).unwrap()), ["b.json", ".runs/a.json", "z.gz", "y.pftrace"]);
    }
    let (_folder, path) = scratch("t.zip", &zip_of(files));
    let notes = stderr(&run(&[&path]));
    has(&notes, "Traces loaded: 4 (y.pftrace, z.gz, .runs/a.json, b.json), ");
    has(&notes, &format!("Note: 1 file of {path} is not a trace: notes.txt\n"));
    // In a folder they would be left out, too.
    has(&notes, "Left out: named like traces, but not traces: empty.json, other.json\n");
}

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(size);
    header
}

/// `pax` records, as Python writes them, GNU's long names, directories, links, and names of two parts.
#[test]
fn all_headers_of_tar_are_understood() {
    let json = bytes_of("two_matches.json");
    let long = format!("{}/trace.json", ["d".repeat(60), "e".repeat(60), "f".repeat(60)].join("/"));
    let mut tar = Builder::new(Vec::new());
    let of_trace = || header(EntryType::Regular, json.len() as u64);
    tar.append_data(&mut header(EntryType::Directory, 0), "logdir", &b""[..]).unwrap();
    tar.append_link(&mut header(EntryType::Symlink, 0), "latest.json", "a.json").unwrap();
    tar.append_pax_extensions([("path", "från pax.json".as_bytes()), ("mtime", b"1.5")]).unwrap();
    tar.append_data(&mut of_trace(), "short.json", &json[..]).unwrap();
    tar.append_data(&mut of_trace(), &long, &json[..]).unwrap();
    let prefixed = format!("{}/{}", "p".repeat(90), "q".repeat(60));
    let mut split = of_trace();
    split.set_path(&prefixed).unwrap();
    split.set_cksum();
    tar.append(&split, &json[..]).unwrap();
    let tar = tar.into_inner().unwrap();
    for loaded in load_both(&tar) {
        let mut found = names(&loaded);
        found.sort_unstable();
        assert_eq!(found, [&long[..], "från pax.json", &prefixed]);
        assert_eq!(loaded.store.events, 3 * 32);
        assert_eq!((loaded.store.damage.faults().count(), loaded.findings.no_traces.len()), (0, 0));
    }
}

/// They are named, and do not stop the others from being read; if there are no others, the message says what to do.
#[test]
fn sparse_encrypted_and_strangely_packed_files_are_left_out_by_name() {
    let json = bytes_of("two_matches.json");
    let (good, mut sparse) = (made("good.json", &json, 0, 0), Builder::new(Vec::new()));
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_size(json.len() as u64);
    sparse.append_data(&mut header, "x/bad.json", &json[..]).unwrap();
    let sparse = sparse.into_inner().unwrap();
    let tar = [&sparse[..sparse.len() - 1024], &tar_of(&[("good.json", &json)])].concat();
    let mut cases = vec![(sparse, tar, "stored with holes (a sparse file), and the map of these is damaged")];
    for (method, flags, what) in [
        (8, 1, "encrypted"),
        (12, 0, "compressed with bzip2"),
        (14, LENGTH_AFTER, "compressed with LZMA"),
        (77, 0, "compressed with an unsupported method"),
    ] {
        let bad = made("x/bad.json", &json, method, flags);
        cases.push((zip_made(&[bad]), zip_made(&[good, bad]), what));
    }
    for (alone, both, what) in cases {
        has_traces(what, &both, &["good.json"], &[(Damage::FileUnreadable, 1, None)]);
        for loaded in load_both(&both) {
            assert_eq!(loaded.findings.unreadable, [format!("x/bad.json (this is {what})")]);
        }
        for loaded in [load_file("t.zip", &alone), load_stream(&alone)] {
            let error = loaded.unwrap_err().to_string();
            has(&error, &format!("/x/bad.json: this is {what}, which nccl-stacks cannot read"));
            has(&error, "Unpack the archive");
        }
    }
}

/// Files that `tar -S` stores without holes are read as they were, by the map in the header, or by one before the bytes (`pax`, version 1.0).
#[test]
fn files_stored_without_their_holes_are_read() {
    let json = bytes_of("two_matches.json");
    let events = load_file("t", &json).unwrap().store.events;
    let octal = |field: &mut [u8], number: usize| field.copy_from_slice(format!("{number:011o}\0").as_bytes());
    // Five parts of the text, of which the header has four and a block after it one.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNUSparse);
    header.set_path("by_header.json").unwrap();
    header.set_size(json.len() as u64);
    let parts: Vec<(usize, usize)> = (0..5).map(|at| (json.len() * at / 5, json.len() * (at + 1) / 5)).collect();
    let gnu = header.as_gnu_mut().unwrap();
    for (field, (from, to)) in gnu.sparse.iter_mut().zip(&parts) {
        octal(&mut field.offset, *from);
        octal(&mut field.numbytes, to - from);
    }
    gnu.isextended[0] = 1;
    octal(&mut gnu.realsize, json.len());
    header.set_cksum();
    let mut block = [0_u8; 512];
    octal(&mut block[..12], parts[4].0);
    octal(&mut block[12..24], parts[4].1 - parts[4].0);
    let padding = vec![0_u8; json.len().next_multiple_of(512) - json.len()];
    let by_header = [header.as_bytes(), &block[..], &json, &padding].concat();
    // A map of one part.
    let mut stored = format!("1\n0\n{}\n", json.len()).into_bytes();
    stored.resize(512, 0);
    stored.extend(&json);
    let mut pax = Builder::new(Vec::new());
    let size = json.len().to_string();
    let [major, minor, name, real] = ["major", "minor", "name", "realsize"].map(|key| format!("GNU.sparse.{key}"));
    let records = [(&*major, "1"), (&minor, "0"), (&name, "by_pax.json"), (&real, &size)];
    pax.append_pax_extensions(records.map(|(key, value)| (key, value.as_bytes()))).unwrap();
    let mut whole = self::header(EntryType::Regular, stored.len() as u64);
    pax.append_data(&mut whole, "GNUSparseFile.0/by_pax.json", &stored[..]).unwrap();
    let both = [&by_header[..], &pax.into_inner().unwrap()].concat();
    for loaded in load_both(&both) {
        assert_eq!((names(&loaded), loaded.store.events), (vec!["by_header.json", "by_pax.json"], 2 * events));
        assert!(loaded.findings.unreadable.is_empty());
    }
}

/// As of a download that was cut off: what is whole of each file counts, and the missing part is reported under the file's name.
#[test]
fn a_cut_off_tar_gives_what_was_whole() {
    let trace = gunzip(&bytes_of("sglang_decode.json.gz"));
    let events = load_file("t", &trace).unwrap().store.events;
    let tar = tar_of(&[("a.json", &trace), ("b.json", &trace)]);
    let (end, second) = (tar.len() - 1024, 512 + trace.len().next_multiple_of(512));
    // The end mark is cut off, then some of the second trace, then all of it but its header. Of `traces` traces, `cut` are not whole.
    for (length, at, traces, cut) in
        [(end, end, 2, 0), (end - 20_000, end - 20_000, 2, 1), (second + 100, second, 1, 0)]
    {
        for Loaded { store, .. } in load_both(&tar[..length]) {
            assert_eq!(store.traces.len(), traces);
            assert_eq!(store.damage.get(Damage::ArchiveBroken).first_offset, Some(at as u64));
            for (number, trace) in store.traces.iter().enumerate() {
                let is_cut = number >= traces - cut;
                assert_eq!(trace.damage.get(Damage::PackedCutOff).count, u64::from(is_cut), "{:?}", trace.name);
                assert!(if is_cut { (1..events).contains(&trace.events) } else { trace.events == events });
            }
        }
    }
}

#[test]
fn damage_is_reported_under_the_files_name() {
    let (whole, damaged) = (bytes_of("two_matches.json"), bytes_of("damaged.json"));
    let alone = stderr(&run(&[&testdata("damaged.json")]));
    let (_folder, path) = scratch("t.zip", &zip_of(&[("a.json", &whole), ("r/b.json", &damaged)]));
    let output = run(&[&path]);
    let notes = stderr(&output);
    let mut found = 0;
    for line in alone.lines().filter_map(|line| line.strip_prefix("Left out: ")) {
        assert!(notes.contains(&format!("Left out: {path}/r/b.json: {line}\n")), "{line}\n{notes}");
        found += 1;
    }
    assert!(found > 3 && !notes.contains("a.json: "), "{notes}");
    refused(&[&path, "--strict"], 1, &format!("\n  {path}/r/b.json: "));
    // One sum for each trace.
    let query =
        "SELECT machine_id, sum(value) > 0 AS damaged FROM stats WHERE severity IN ('error', 'data_loss') GROUP BY 1";
    assert_eq!(answer(&["sql", &path, query]).0, "\"machine_id\",\"damaged\"\n\"[NULL]\",0\n0,0\n1,1\n");
}

#[test]
fn files_of_which_nothing_is_whole_are_left_out() {
    let (json, packed) = (bytes_of("two_matches.json"), bytes_of("sglang_decode.json.gz"));
    let mut wrong = json.clone();
    wrong.reverse();
    let zip = zip_of(&[("a.json", &json), ("b.json.gz", &packed[..40]), ("c.json", &json)]);
    for loaded in load_both(&zip) {
        assert_eq!(names(&loaded), ["a.json", "c.json"]);
        assert_eq!(loaded.findings.unreadable, ["b.json.gz"]);
        assert_eq!(loaded.store.damage.faults().map(|(d, _)| d.kind).collect::<Vec<_>>(), [Damage::FileUnreadable]);
    }
    let (_folder, path) = scratch("t.zip", &zip);
    let notes = stderr(&run(&[&path]));
    has(&notes, &format!("Left out: nothing could be read of 1 file of {path}: b.json.gz\n"));
    let cut = zip_of(&[("b.json.gz", &packed[..40])]);
    let zip = zip_of(&[("a.txt", b"text"), ("b/c.json", b"{\"x\":1}"), (".d.json", &json)]);
    for (archive, why) in [
        (cut, "t/b.json.gz: the file is cut off at byte 40"),
        (zip, "t: there is no trace in this archive, which holds 2 files: a.txt, b/c.json"),
        // A file of zeros is no tar.
        (tar_of(&[]), "this is not JSON"),
        (zip_of(&[]), "which holds no files"),
    ] {
        has(&error_of("t", &archive), why);
    }
}

#[test]
fn contents_are_checked_against_the_archives_checksum() {
    let trace = gunzip(&bytes_of("sglang_decode.json.gz"));
    let mut zip = zip_made(&[made("a.json", &trace, 0, 0)]);
    // A digit of a time near the end, which is still valid JSON.
    let at = zip.windows(5).rposition(|w| w == b"\"ts\":").unwrap() + 7;
    zip[at] ^= 1;
    let loaded = load_file("t.zip", &zip).unwrap();
    assert_eq!(loaded.store.traces[0].damage.get(Damage::PackedChecksum).count, 1);
}

#[test]
fn two_files_of_one_name_are_two_traces() {
    let (json, costs) = (bytes_of("two_matches.json"), bytes_of("costs.json"));
    let zip = zip_made(&[made("a.json", &json, 8, 0), made("a.json", &costs, 8, LENGTH_AFTER)]);
    for archive in [zip, tar_of(&[("a.json", &json), ("a.json", &costs)])] {
        for loaded in load_both(&archive) {
            assert_eq!(names(&loaded), ["a.json", "a.json (2)"]);
            let events: Vec<u64> = loaded.store.traces.iter().map(|trace| trace.events).collect();
            assert_eq!(events, [32, 126]);
            assert_eq!(loaded.store.damage.faults().count(), 0);
        }
    }
}

/// A file that unpacks to itself, or to more and more of the same, comes to an end.
#[test]
fn nesting_has_an_end() {
    let json = bytes_of("two_matches.json");
    let mut nested = json.clone();
    for layers in 1..=6 {
        nested = gzip(&nested);
        let loaded = load_stream(&nested);
        if layers <= 4 {
            assert_eq!(loaded.unwrap().store.events, 32, "{layers}");
        } else {
            let error = loaded.unwrap_err().to_string();
            has(&error, "stream: this is compressed more than four times over");
        }
    }
    let zip = zip_of(&[("a.zip", &zip_of(&[("b.json", &json)]))]);
    assert_eq!(names(&load_file("t.zip", &zip).unwrap()), ["a.zip/b.json"]);
    // Beside a trace they are left out.
    for (name, inner, at, what) in [
        ("deep.gz", &nested, "deep.gz", "this is compressed more than four times over"),
        ("c.zip", &zip, "c.zip/a.zip", "this is an archive in an archive in an archive"),
    ] {
        has(&error_of("t.zip", &zip_of(&[(name, inner)])), &format!("t.zip/{at}: {what}"));
        let files: &[(&str, &[u8])] = &[("a.json", &json), (name, inner)];
        for loaded in [zip_of(files), tar_of(files)].iter().flat_map(|archive| load_both(archive)) {
            assert_eq!(
                (names(&loaded), &loaded.findings.unreadable),
                (vec!["a.json"], &vec![format!("{at} ({what})")])
            );
        }
    }
}

#[test]
fn standard_input_and_pipes_are_read() {
    let bytes = bytes_of("sglang_decode.json.gz");
    let want = answer(&[&testdata("sglang_decode.json.gz")]).0;
    let (zip, tar) = (zip_of(&[("a.json.gz", &bytes)]), tar_of(&[("a.json.gz", &bytes)]));
    let inputs = [bytes.clone(), gunzip(&bytes), zip, tar.clone(), gzip(&tar), zstd(&tar)];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    assert!(!cfg!(unix) || Command::new("mkfifo").arg(&path).status().unwrap().success());
    for input in inputs {
        let output = piped(&["-"], &input);
        assert_eq!((output.status.code(), stdout(&output)), (Some(0), want.clone()), "{}", stderr(&output));
        if cfg!(unix) {
            let to = path.clone();
            let writer = std::thread::spawn(move || std::fs::write(to, input));
            assert_eq!(answer(&[path.to_str().unwrap()]).0, want);
            writer.join().unwrap().unwrap();
        }
    }
}

#[test]
fn a_window_is_cut_out_of_one_trace_only() {
    let bytes = bytes_of("sglang_decode.json.gz");
    let (folder, one) =
        scratch("one.zip", &zip_of(&[("a.txt", b"no trace"), ("x.json", b"{\"a\":1}"), ("z.json.gz", &bytes)]));
    let [cut, whole] = ["cut.json", "whole.json"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    answer(&["export", &one, "--trace", &cut]);
    answer(&["export", &testdata("sglang_decode.json.gz"), "--trace", &whole]);
    assert_eq!(std::fs::read(&cut).unwrap(), std::fs::read(&whole).unwrap());
    for archive in [zip_of(&[("a", &bytes), ("b", &bytes)]), gzip(&tar_of(&[("a", &bytes), ("b", &bytes)]))] {
        let (_folder, two) = scratch("two", &archive);
        let message = stderr_of(&["export", &two, "--trace", &cut], 2);
        has(&message, "--trace cuts one trace, and this archive has 2: a, b. Unpack it");
        assert!(!message.contains("Trace loaded"), "{message}");
    }
}

#[test]
fn an_archive_is_exported_with_its_traces() {
    let bytes = bytes_of("costs.json");
    let (folder, path) = scratch("t.zip", &zip_of(&[("a", &bytes), ("b", &bytes)]));
    let file = folder.path().join("t.db");
    answer(&["export", &path, "--sqlite", file.to_str().unwrap()]);
    let database = rusqlite::Connection::open(&file).unwrap();
    let query = "SELECT machine_id, count(*) FROM slice JOIN thread_track t ON t.id = track_id GROUP BY 1";
    let mut statement = database.prepare(query).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))).unwrap();
    let rows: Vec<(i64, i64)> = rows.collect::<Result<_, _>>().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].1, rows[1].1);
    let twice = answer(&["sql", &path, "--query", "kernels", "--format", "csv"]).0;
    let once = answer(&["sql", &testdata("costs.json"), "--query", "kernels", "--format", "csv"]).0;
    assert_eq!(twice.lines().count(), once.lines().count());
}

#[test]
fn the_ranks_are_named_where_one_is_chosen() {
    let (zero, one, late) = (rank(0, "all", 0), rank(1, "all", 15), rank(2, "all", 5_000));
    let (_folder, path) = scratch("t.zip", &zip_of(&[("a.json", zero.as_bytes()), ("b.json", one.as_bytes())]));
    // Each trace has its own occurrence: one kernel in each.
    let (text, chosen) = answer(&[&path, "--function-name", "step of all", "--per-rank", "--format", "csv"]);
    has(&chosen, "Kernels: 2 match, 2 in the window");
    assert!(text.contains("\nrank 0,1,9000,") && text.contains("\nrank 1,1,9000,"), "{text}");
    assert!(!chosen.contains("probably of different runs"), "{chosen}");
    refused(&[&path, "--function-name", "step of all", "--index", "1"], 3, &format!("{path}/a.json: "));
    let (_folder, path) = scratch("t.zip", &zip_of(&[("a.json", zero.as_bytes()), ("b.json", late.as_bytes())]));
    let notes = answer(&[&path]).1;
    has(&notes, "Note: a.json ends 4.90 ms before b.json begins: the traces are probably of different runs");
}

#[test]
fn threads_and_chunks_change_nothing() {
    let files: Vec<(&str, Vec<u8>)> = TRACES.iter().map(|name| (*name, bytes_of(name))).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
    let zip = zip_of(&files);
    let load = |threads, chunk| {
        let input = from_reader("zip".to_owned(), None, Box::new(Cursor::new(zip.clone()))).unwrap();
        let options =
            LoadOptions { threads: NonZero::new(threads), chunk: NonZero::new(chunk), ..LoadOptions::default() };
        load_input(input, options, |_| {}).unwrap().store
    };
    let store = load(1, 1 << 20);
    assert_eq!(store.traces.len(), TRACES.len());
    crate::support::sound::check(&store);
    // Related rows are of one trace.
    let trace = |slice: &SliceId| store.trace_of(*slice);
    assert!(!store.flows.is_empty());
    assert!(store.flows.slice_out.iter().map(trace).eq(store.flows.slice_in.iter().map(trace)));
    let want = facts(&store);
    for (threads, chunk) in [(2, 1 << 20), (5, 700), (3, 64)] {
        assert!(facts(&load(threads, chunk)) == want, "{threads} threads, chunks of {chunk}");
    }
}

/// Whatever is wrong, nothing panics or runs for ever, and what is loaded is sound.
#[test]
fn damaged_archives_are_read_as_far_as_they_go() {
    let (json, packed) = (bytes_of("two_matches.json"), bytes_of("ddp_backward.json.gz"));
    let files: &[(&str, &[u8])] = &[("a.json", &json), ("b.json.gz", &packed), ("c/d.json", &json)];
    let by_hand = |flags| zip_made(&[made("a.json", &json, 8, flags), made("b.gz", &packed, 0, 0)]);
    let archives = [zip_of(files), tar_of(files), by_hand(0), by_hand(LENGTH_AFTER), gzip(&tar_of(files))];
    let mut random = crate::support::random::Random(7);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..crate::support::random::rounds(60) {
        let bytes = crate::support::random::damage(&archives[round % archives.len()], &mut random);
        for result in [load_file("archive", &bytes), load_stream(&bytes)] {
            match result {
                Ok(result) => {
                    crate::support::sound::check(&result.store);
                    loaded += 1;
                }
                Err(error) => {
                    assert!(error.to_string().len() > 10);
                    refused += 1;
                }
            }
        }
    }
    assert!(
        loaded > crate::support::random::rounds(30) && refused > crate::support::random::rounds(3),
        "{loaded} loaded, {refused} refused"
    );
}

/// The checksum of the compression around a tar is after its end mark.
#[test]
fn what_an_archive_is_packed_in_is_read_to_its_end() {
    let json = bytes_of("two_matches.json");
    let files: &[(&str, &[u8])] = &[("a.json", &json), ("b.json", &json)];
    for archive in [tar_of(files), zip_of(files)] {
        let mut wrong_sum = gzip(&archive);
        let at = wrong_sum.len() - 8;
        wrong_sum[at] ^= 1;
        for bytes in [wrong_sum, [&gzip(&archive)[..], b"junk"].concat(), [&zstd(&archive)[..], b"junk"].concat()] {
            let broken = (Damage::ArchiveBroken, 1, Some(archive.len() as u64));
            has_traces("at the end", &bytes, &["a.json", "b.json"], &[broken]);
            let (_folder, path) = scratch("t", &bytes);
            ended(&[&path, "--strict"], 1);
        }
    }
}

#[test]
fn a_tar_ends_where_nothing_follows() {
    let json = bytes_of("two_matches.json");
    let (one, two) = (tar_of(&[("a.json", &json)]), tar_of(&[("b.json", &json)]));
    let end = one.len() - 1024;
    let zeros = |n| vec![0; n];
    let junk = [(Damage::ArchiveBroken, 1, Some(one.len() as u64))];
    for (what, bytes, traces, wrong) in [
        ("two tars", [&one[..], &two].concat(), &["a.json", "b.json"][..], &[][..]),
        ("a lone block of zeros", [&one[..end], &zeros(512), &two].concat(), &["a.json", "b.json"], &[]),
        ("half an end mark", one[..end + 512].to_vec(), &["a.json"], &[]),
        ("an end mark and a half", [&one[..], &zeros(700)].concat(), &["a.json"], &[]),
        ("a full block of a tape", [&one[..], &zeros(20 * 512)].concat(), &["a.json"], &[]),
        ("a little junk", [&one[..], b"junk"].concat(), &["a.json"], &junk),
        ("blocks of junk", [&one[..], &[b'x'; 3000]].concat(), &["a.json"], &junk),
    ] {
        has_traces(what, &bytes, traces, wrong);
    }
}

/// A file that is corrupt from its first byte on may have been a trace.
#[test]
fn corrupt_files_are_not_read_as_other_files() {
    let json = bytes_of("two_matches.json");
    let corrupt = |names: &[&str]| {
        let members: Vec<Made> = names.iter().map(|name| made(name, &json, 8, 0)).collect();
        let mut zip = zip_made(&members);
        // The last member's first byte: a deflate block of a kind that does not exist.
        let at = zip.windows(4).rposition(|w| w == b"PK\x03\x04").unwrap() + 30 + names[0].len();
        zip[at] = 0b111;
        zip
    };
    // Of the second file only the header is there.
    let tar = tar_of(&[("a.json", &json), ("b.json", &json)]);
    let cut = 512 + json.len().next_multiple_of(512) + 512;
    let broken = (Damage::ArchiveBroken, 1, Some(cut as u64));
    let wrong = [broken, (Damage::FileUnreadable, 1, None)];
    for (bytes, wrong) in
        [(corrupt(&["a.json", "b.json"]), &wrong[1..]), (tar[..cut].to_vec(), &wrong), (gzip(&tar[..cut]), &wrong)]
    {
        has_traces("corrupt", &bytes, &["a.json"], wrong);
        for loaded in load_both(&bytes) {
            assert_eq!(
                (&loaded.findings.unreadable[..], loaded.findings.no_traces.len()),
                (&["b.json".to_owned()][..], 0)
            );
        }
    }
    let why = "no trace in this archive, which holds nothing readable in 1 file: b.json";
    has(&error_of("t.zip", &corrupt(&["b.json"])), why);
}

/// The range of the field with a member's offset, in a directory made here.
fn offset_of(directory: &[u8], name: &str) -> std::ops::Range<usize> {
    let at = directory.windows(name.len()).position(|w| w == name.as_bytes()).unwrap();
    at - 4..at
}

fn three(json: &[u8]) -> (Vec<u8>, Vec<u8>) {
    zip_by_hand(&["a.json", "b.json", "c.json"].map(|name| made(name, json, 8, 0)))
}

/// The offset of a member made here.
fn header_of(files: &[u8], name: &str) -> usize {
    files.windows(name.len()).position(|w| w == name.as_bytes()).unwrap() - 30
}

/// The message for a zip that is refused, from a file and from a stream.
fn refusals(bytes: &[u8]) -> [String; 2] {
    [load_file("t.zip", bytes), load_stream(bytes)].map(|refused| {
        let error = refused.unwrap_err().to_string();
        has(&error, &format!("this zip of {} bytes is cut off, or ", bytes.len()));
        has(&error, "Copy it again");
        error
    })
}

/// Which files a zip has, and where, only its directory says.
#[test]
fn a_zip_whose_directory_is_missing_or_wrong_is_refused() {
    let json = bytes_of("two_matches.json");
    let (files, directory) = three(&json);
    let b = header_of(&files, "b.json");
    let mut zips = vec![(files.clone(), "Missing end of central directory".to_owned())];
    for cut in [1, 22, 30, 100] {
        zips.push(([&files[..], &directory[..directory.len() - cut]].concat(), String::new()));
    }
    let mut no_header = files.clone();
    no_header[b + 2] = 9;
    zips.push(([&no_header[..], &directory].concat(), format!("b.json is not at byte {b}")));
    // A few bytes can be declared as the contents of many files.
    let twice = "two files have byte 0".to_owned();
    let wrong = [100_000_000, u32::MAX, 5].map(|offset| (offset, format!("b.json is not at byte {offset}")));
    for (offset, why) in wrong.into_iter().chain([(0, twice)]) {
        let mut directory = directory.clone();
        let at = offset_of(&directory, "b.json");
        directory[at].copy_from_slice(&offset.to_le_bytes());
        zips.push(([&files[..], &directory].concat(), why));
    }
    // Without the record of the second file: of 46 bytes and its name.
    let mut unlisted = directory.clone();
    let at = offset_of(&directory, "b.json").end;
    unlisted.drain(at - 46..at + 6);
    let (count, length) = (unlisted.len() - 14, unlisted.len() - 10);
    unlisted[count..count + 4].copy_from_slice(&[2, 0, 2, 0]);
    unlisted[length..length + 4].copy_from_slice(&(2 * 52_u32).to_le_bytes());
    zips.push(([&files[..], &unlisted].concat(), format!("no file has byte {b}")));
    let one = zip_of(&[("a.json", &json)]);
    let other = zip_of(&[("a/b.json", b"{}")]);
    zips.push(([&one[..], &one].concat(), "Invalid signature".to_owned()));
    zips.push(([&one[..], &other].concat(), "no file has byte 0".to_owned()));
    let mut longer = directory.clone();
    longer[20..24].copy_from_slice(&(b as u32 + 1).to_le_bytes());
    zips.push(([&files[..], &longer].concat(), format!("two files have byte {b}")));
    for (zip, why) in &zips {
        for error in refusals(zip) {
            assert!(error.contains(why), "{error}\n{why}");
        }
    }
    let (_folder, path) = scratch("t.zip", &zips[0].0);
    ended(&[&path], 1);
}

/// A directory says how long members are where neither their headers nor their data do.
#[test]
fn equal_names_are_read_by_the_directory() {
    let (json, costs) = (bytes_of("two_matches.json"), bytes_of("costs.json"));
    let members = [("a.json", &json), ("b.json", &costs), ("a.json", &costs)];
    let zip = zip_made(&members.map(|(name, text)| made(name, text, 0, LENGTH_AFTER)));
    // Four bytes that belong to no file before the second.
    let (mut gap_files, mut gap_directory) = zip_by_hand(&members.map(|(name, text)| made(name, text, 0, 0)));
    let (b, last) = (header_of(&gap_files, "b.json"), gap_directory.windows(6).rposition(|w| w == b"a.json").unwrap());
    let end = gap_directory.len() - 6;
    gap_files.splice(b..b, [0; 4]);
    for at in [offset_of(&gap_directory, "b.json").start, last - 4, end] {
        let offset = u32::from_le_bytes(gap_directory[at..at + 4].try_into().unwrap()) + 4;
        gap_directory[at..at + 4].copy_from_slice(&offset.to_le_bytes());
    }
    for zip in [zip, [gap_files, gap_directory].concat()] {
        has_traces("equal names", &zip, &["a.json", "a.json (2)", "b.json"], &[]);
        for loaded in load_both(&zip) {
            let events: Vec<u64> = loaded.store.traces.iter().map(|trace| trace.events).collect();
            assert_eq!(events, [32, 126, 126]);
        }
    }
}

#[test]
fn an_archive_that_is_stored_in_a_zip_is_checked() {
    let json = bytes_of("two_matches.json");
    for inner in [tar_of(&[("a.json", &json)]), zip_of(&[("a.json", &json)])] {
        let (mut files, directory) = zip_by_hand(&[made("in", &inner, 0, 0)]);
        // A digit of a time.
        let time = files.windows(4).rposition(|w| w == b"\"ts\"").unwrap();
        let at = time + files[time..].iter().position(u8::is_ascii_digit).unwrap();
        for is_whole in [true, false] {
            if !is_whole {
                files[at] ^= 1;
            }
            for loaded in load_both(&[&files[..], &directory].concat()) {
                let broken = loaded.findings.inner.iter().map(|d| (&d.archive[..], d.kind, d.offset));
                let want = [("in", Damage::ArchiveBroken, inner.len() as u64)];
                assert_eq!(broken.collect::<Vec<_>>(), want[usize::from(is_whole)..]);
                assert_eq!(loaded.store.damage.get(Damage::ArchiveBroken).count, u64::from(!is_whole));
            }
        }
    }
}

#[test]
fn bytes_after_a_zip_are_reported() {
    let json = bytes_of("two_matches.json");
    let (one, two) = (zip_of(&[("a.json", &json)]), zip_of(&[("b.json", &json)]));
    let broken = [(Damage::ArchiveBroken, 1, Some(one.len() as u64))];
    for (what, bytes, wrong) in [
        ("junk", [&one[..], b"junk"].concat(), &broken[..]),
        ("the half of another", [&one[..], &two[..two.len() - 30]].concat(), &broken),
        ("zeros", [&one[..], &[0; 700]].concat(), &[]),
    ] {
        has_traces(what, &bytes, &["a.json"], wrong);
    }
}

/// Numbers larger than the file are those of a file that is cut off.
#[test]
fn numbers_of_64_bits_are_read() {
    let json = bytes_of("two_matches.json");
    let [files, directory] = zip64(&[("a.json", &json), ("b.json", &json)]);
    has_traces("64 bits", &[&files[..], &directory].concat(), &["a.json", "b.json"], &[]);
    for size in [1 << 63, u64::MAX, u64::MAX - 199] {
        // Lengths and offset of the second file are the last three numbers before the record at the directory's end.
        let end = directory.len() - 22 - 20 - 56;
        for at in [end - 8, end - 16] {
            let mut wrong = directory.clone();
            wrong[at..at + 8].copy_from_slice(&u64::to_le_bytes(size));
            refusals(&[&files[..], &wrong].concat());
        }
        let mut tar = Builder::new(Vec::new());
        let mut header = Header::new_gnu();
        header.set_size(size);
        tar.append_data(&mut header, "a.json", &json[..]).unwrap();
        let tar = tar.into_inner().unwrap();
        for loaded in load_both(&tar[..512 + json.len()]) {
            let trace = &loaded.store.traces[0];
            assert_eq!((trace.events, trace.damage.get(Damage::PackedCutOff).count), (32, 1), "{size}");
            let broken = loaded.store.damage.get(Damage::ArchiveBroken);
            assert_eq!((broken.count, broken.first_offset), (1, Some(512 + json.len() as u64)));
        }
    }
}

/// Links have no bytes, whatever size is declared.
#[test]
fn the_size_of_a_link_is_none() {
    let json = bytes_of("two_matches.json");
    let mut tar = Builder::new(Vec::new());
    tar.append_pax_extensions([("size", &b"1000000"[..])]).unwrap();
    tar.append_link(&mut header(EntryType::Symlink, 0), "latest.json", "a.json").unwrap();
    let tar = [tar.into_inner().unwrap(), tar_of(&[("a.json", &json)])].concat();
    has_traces("a link", &tar, &["a.json"], &[]);
}

#[test]
fn names_fill_neither_memory_nor_the_screen() {
    let json = bytes_of("two_matches.json");
    let long = "n".repeat(5000);
    let mut files: Vec<(String, &[u8])> = (0..150).map(|n| (format!("{n}{long}.txt"), &b"text"[..])).collect();
    files.push((format!("{long}.json"), &json));
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], *bytes)).collect();
    for archive in [tar_of(&files), zip_of(&files)] {
        for loaded in load_both(&archive) {
            assert_eq!(names(&loaded), [format!("{}…{}.json", "n".repeat(100), "n".repeat(295))]);
            assert_eq!(loaded.findings.no_traces.len(), 100);
            assert!(loaded.findings.no_traces.iter().all(|name| name.chars().count() == 401));
            assert_eq!(loaded.store.damage.get(Damage::NoTraceInFile).count, 150);
        }
        let (_folder, path) = scratch("t", &archive);
        let message = stderr(&run(&[&path]));
        has(&message, &format!("Note: 150 files of {path} are not traces: "));
        assert!(message.len() < 6000, "{message}");
    }
}

/// What must be decompressed to find the next file counts as text.
#[test]
fn limits_hold_for_what_is_decompressed_on_the_way() {
    let json = bytes_of("two_matches.json");
    // Four times the limit, and 16 MiB besides.
    let (limit, most) = (500_000, 18_777_216);
    let blanks = vec![b'#'; 18 << 20];
    let load = |bytes: &[u8], limit| {
        let (_folder, path) = scratch("t", bytes);
        load(path, LoadOptions { limits: Limits::of_text(limit), ..LoadOptions::default() }, |_| {})
    };
    let files: &[(&str, &[u8])] = &[("x", &blanks), ("a.json", &json)];
    assert_eq!(names(&load(&gzip(&zip_of(files)), 1 << 20).unwrap()), ["a.json"]);
    for bytes in [gzip(&tar_of(files)), gzip(&zip_of(files))] {
        let error = load(&bytes, limit).unwrap_err().to_string();
        assert!(error.ends_with(&format!("there are more than {most} bytes of text")), "{error}");
        assert!(!error.contains("--"), "the library knows no flags: {error}");
    }
}

/// An offset in an archive within an archive is not one in the outer archive.
#[test]
fn damage_of_an_inner_archive_has_its_name() {
    let json = bytes_of("two_matches.json");
    let inner = tar_of(&[("x.json", &json), ("y.json", &json)]);
    // The second file's header is there.
    let cut = &inner[..512 + json.len().next_multiple_of(512) + 512];
    let outer = [("a.json", &json[..]), ("b/in.tar", cut)];
    for archive in [tar_of(&outer), zip_of(&outer)] {
        for loaded in load_both(&archive) {
            assert_eq!(faults(&loaded)[0], (Damage::ArchiveBroken, 1, None));
            let inner: Vec<_> = loaded.findings.inner.iter().map(|d| (&d.archive[..], d.kind, d.offset)).collect();
            assert_eq!(inner, [("b/in.tar", Damage::ArchiveBroken, cut.len() as u64)]);
        }
        let (_folder, path) = scratch("t", &archive);
        let message = stderr(&run(&[&path]));
        let note = format!(
            "Left out: b/in.tar: the rest of an archive that is cut off or corrupt (copy it again), at byte {} of it\n",
            cut.len()
        );
        has(&message, &note);
    }
    let cut = &inner[..600];
    has(&error_of("t.tar", &tar_of(&[("pad.txt", b"text"), ("in.tar", cut)])), "t.tar/in.tar");
    // A zip that is cut off is left out.
    let cut = &zip_of(&[("x.json", &json), ("y.json", &json)])[..json.len() + 100];
    for archive in [tar_of(&[("a.json", &json), ("b/in.zip", cut)]), zip_of(&[("a.json", &json), ("b/in.zip", cut)])] {
        for loaded in load_both(&archive) {
            let what = "b/in.zip (this zip is cut off, or its directory does not describe it)";
            assert_eq!((names(&loaded), &loaded.findings.unreadable[..]), (vec!["a.json"], &[what.to_owned()][..]));
        }
    }
    let error = error_of("t.tar", &tar_of(&[("pad.txt", b"text"), ("in.zip", cut)]));
    has(&error, &format!("t.tar/in.zip: this zip of {} bytes is cut off", cut.len()));
}

/// Four real ranks of one job: together they give the sums of what they give one by one.
#[test]
fn the_ranks_of_a_job_add_up() {
    let Some(shared) = crate::support::shared() else { return };
    let path = |rank| shared.join(format!("traces/lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz"));
    let singles: Vec<Value> = (0..4).map(|rank| json(path(rank).to_str().unwrap())).collect();
    let files: Vec<(String, Vec<u8>)> =
        (0..4).map(|rank| (format!("rank{rank}.json.gz"), std::fs::read(path(rank)).unwrap())).collect();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
    let (_folder, zip) = scratch("t.zip", &zip_of(&files));
    let (_other, tar) = scratch("t.tar.gz", &gzip(&tar_of(&files)));
    let together = json(&zip);
    assert_eq!(together, json(&tar));
    // By stack: how many kernels, how long they ran, how much of that was exposed.
    type Sums = BTreeMap<String, [i64; 3]>;
    let add = |mut sums: Sums, stack: &Value| {
        let cost = &stack["cost"];
        let numbers = [&stack["count"], &cost["gpu_time"]["total_ns"], &cost["exposed_ns"]];
        let sum = sums.entry(format!("{} {}", stack["frames"], stack["thread"])).or_default();
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number.as_i64().unwrap());
        sums
    };
    let stacks = |answer: &Value| answer["stacks"].as_array().unwrap().clone();
    let sums = singles.iter().flat_map(stacks).fold(Sums::new(), |sums, stack| add(sums, &stack));
    let got = stacks(&together).iter().fold(Sums::new(), add);
    assert_eq!(got, sums);
    // Known of each rank: 392 kernels, and the number of flows that disagree.
    assert_eq!(together["coverage"]["kernels"], 4 * 392);
    assert_eq!((&together["coverage"]["uncertain"], &together["coverage"]["flow_disagrees"]), (&0.into(), &18.into()));
    let busy: i64 = singles.iter().map(|answer| answer["summary"]["busy_ns"].as_i64().unwrap()).sum();
    assert_eq!(together["summary"]["busy_ns"], busy);
    assert_eq!(together["summary"]["gpus"], 4);
}

/// Which of its files is the trace is known only after the whole archive was read, which a pipe allows only once.
#[test]
fn what_is_read_once_is_no_archive_to_repair() {
    let (folder, _) = scratch("a", b"");
    let out = folder.path().join("out.json");
    let out = out.to_str().unwrap();
    let trace = bytes_of("evidence.json");
    let archive = tar_of(&[("a.json", &trace[..]), ("b.json", &trace[..])]);
    let output = piped(&["repair", "-", "--output", out], &archive);
    assert_eq!(output.status.code(), Some(1));
    has(&stderr(&output), "this is an archive, which has to be read twice");
    assert!(!std::path::Path::new(out).exists());
    assert_eq!(piped(&["repair", "-", "--output", out], &trace).status.code(), Some(0));
}

/// A trace may be whole in an archive that is not.
#[test]
fn repair_reports_what_is_wrong_with_the_archive() {
    let trace = bytes_of("evidence.json");
    let archive = tar_of(&[("a.json", &trace[..]), ("b.json", &trace[..])]);
    // Up to the middle of the second header.
    let first = 512 + trace.len().next_multiple_of(512);
    let (folder, file) = scratch("a.tar", &archive[..first + 100]);
    let out = folder.path().join("out.json");
    let out = out.to_str().unwrap();
    let said = stderr_of(&["repair", &file, "--output", out], 0);
    let found = format!("at byte {first} of the archive");
    has(&said, &found);
    std::fs::remove_file(out).unwrap();
    refused(&["repair", &file, "--output", out, "--strict"], 1, &found);
    assert!(!std::path::Path::new(out).exists());
}

/// A name may hold terminal control sequences.
#[test]
fn names_are_shown_harmlessly() {
    let (_folder, file) =
        scratch("a.tar", &tar_of(&[("\u{1b}[31mred.json", b"{\"traceEvents\":[{\"ph\":\"X\"" as &[u8])]));
    let said = stderr_of(&["sql", &file, "--query", "kernels"], 1);
    has(&said, "[31mred.json");
    assert!(!said.contains('\u{1b}'));
}
