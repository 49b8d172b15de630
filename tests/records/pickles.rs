//! Pickles as dumps: those that Python writes, and those that want to do something, or lie.

use nccl_stacks::input;
use nccl_stacks::operation::{Source, State};
use nccl_stacks::records::{Keep, Records, read};

fn records(bytes: &[u8]) -> Records {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump_7");
    std::fs::write(&path, bytes).unwrap();
    read(input::open(&path).unwrap(), Keep::All).unwrap()
}

/// The notes of a file that is refused: it counts as damaged, and nothing is read from it.
fn refused(bytes: &[u8]) -> String {
    let records = records(bytes);
    let file = &records.files[0];
    assert_eq!(file.source, Some(Source::FLIGHT_RECORDER), "{bytes:?}");
    assert_eq!(file.skipped.len(), 1, "{bytes:?}: {file:?}");
    assert!(records.operations.is_empty() && records.rank_status.is_empty());
    file.notes.join(" ")
}

fn proto(rest: &[u8]) -> Vec<u8> {
    [b"\x80\x04", rest].concat()
}

#[test]
fn whatever_would_be_executed_is_named_with_its_place() {
    for (pickle, what, at) in [
        // What `pickle.dumps` makes of an object whose `__reduce__` returns (os.system, ("true",)).
        (
            &b"\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03."[..],
            "import and call posix.system",
            2,
        ),
        (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.", "import and call posix.system", 17),
        (b"\x80\x02NNR.", "call a function", 4),
        (b"\x80\x02NNb.", "set the state of an object", 4),
        (b"\x80\x02N)\x81.", "make an object of a class", 4),
        (b"\x80\x04N)}\x92.", "make an object of a class", 5),
        (b"\x80\x02NQ.", "load an object by a persistent id", 3),
        (b"\x80\x02\x82\x01.", "import what an extension's number means", 2),
        (b"\x80\x02\x83\x01\x00.", "import what an extension's number means", 2),
        (b"\x80\x02\x84\x01\x00\x00\x00.", "import what an extension's number means", 2),
        (b"\x80\x05\x97.", "take a buffer from outside of the file", 2),
    ] {
        let note = refused(pickle);
        assert!(note.contains(&format!("asks to {what} at byte {at};")), "{note}");
        assert!(note.contains("nothing was executed"), "{note}");
    }
}

#[test]
fn what_is_damaged_is_named_with_its_place() {
    for (pickle, what) in [
        (proto(b"h\x05."), "damaged at byte 2: it names a value that was not numbered before"),
        (proto(b"j\xff\xff\xff\xff."), "damaged at byte 2: it names a value"),
        (proto(b"Nr\xff\xff\xff\xff."), "damaged at byte 3: it numbers a value beyond all others"),
        (proto(b"."), "damaged at byte 2: it takes more values than there are"),
        (proto(b"\x85."), "damaged at byte 2: it takes more values"),
        (proto(b"t."), "damaged at byte 2: it takes values up to a mark that is not there"),
        (proto(b"}(Nu."), "damaged at byte 5: a key without a value"),
        (proto(b"NNa."), "damaged at byte 4: it appends to something that is not a list"),
        (proto(b"NNNs."), "damaged at byte 5: it sets an item of something that is not a dictionary"),
        (b"\x80\x04}\x80\x06.".to_vec(), "damaged at byte 3: its protocol is newer than 5"),
        (proto(b"}\xff"), "unknown instruction 0xff at byte 3"),
        (proto(b"}I7\n."), "unknown instruction 0x49 at byte 3"),
        (proto(b"}"), "ends early, at byte 3"),
        // Lengths beyond the file: only what is there is read.
        (proto(b"X\xff\xff\xff\x7fab"), "ends early, at byte 9"),
        (proto(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7fab"), "ends early, at byte 13"),
        (proto(b"\x8b\xff\xff\xff\x7f\x01"), "ends early, at byte 8"),
        (proto(b"}."), "not a dump of the flight recorder"),
        (proto(b"N."), "not a dump of the flight recorder"),
    ] {
        let note = refused(&pickle);
        assert!(note.contains(what), "{note}\n{what}");
    }
}

#[test]
fn depth_and_sharing_cost_no_more_than_their_text() {
    // A million lists in each other, and one that contains itself.
    let deep = [b"\x80\x02".to_vec(), vec![b']'; 1_000_000], vec![b'a'; 999_999], b".".to_vec()].concat();
    assert!(refused(&deep).contains("not a dump"));
    assert!(refused(b"\x80\x02]q\x00h\x00a.").contains("not a dump"));
    // Each list has the one before it ten times: 10^40 in all, if they were copied.
    let mut shared = b"\x80\x02]q\x00".to_vec();
    for at in 0..40_u8 {
        shared.extend([b']', b'q', at + 1, b'(']);
        (0..10).for_each(|_| shared.extend([b'h', at]));
        shared.push(b'e');
    }
    shared.push(b'.');
    assert!(refused(&shared).contains("not a dump"));
}

/// Up to the end of its first entry nothing is read of a dump that breaks off, and after that the entries that are whole.
#[test]
fn any_beginning_of_a_dump_is_read_as_far_as_it_is_whole() {
    let one = dump_of_protocol_2();
    let entry = one.windows(9).position(|bytes| bytes == b"record_id").unwrap() - 7;
    // What ends the entries, the dictionary and the pickle.
    let (head, tail) = (&one[..entry], &one[one.len() - 3..]);
    let entry = &one[entry..one.len() - 3];
    for count in [1, 3] {
        let dump = [head, &entry.repeat(count), tail].concat();
        // Dumps begin alike: those that end in the first entry were seen with the first count.
        for end in if count == 1 { 3 } else { head.len() + entry.len() }..dump.len() {
            let whole = end.saturating_sub(head.len()) / entry.len();
            if whole == 0 {
                assert!(refused(&dump[..end]).contains("ends early"), "{end}");
                continue;
            }
            let records = records(&dump[..end]);
            let file = &records.files[0];
            assert_eq!((records.operations.len(), file.records), (whole.min(count), whole.min(count) as u64), "{end}");
            assert_eq!((file.skipped[0].what, file.skipped[0].count), ("ends of dumps that are cut off", 1));
            // Of a number of eight bytes at the end some may be there.
            assert!((end as u64 - 7..=end as u64).contains(&file.skipped[0].first_offset.unwrap()));
            assert!(file.notes[0].contains("the last ones are lost"), "{:?}", file.notes);
            assert!(records.operations.iter().all(|of| of.state == State::Started && of.bytes == Some(128)), "{end}");
            // What comes before the entries is whole.
            assert_eq!(records.rank_status[0].rank.map(|rank| rank.0), Some(7));
            assert!(records.communicators[0].ranks.is_some());
        }
    }
}

/// `e = [{'profiling_name': 'nccl:all_reduce', 'collective_seq_id': 7} for _ in range(2)]`, and what of that is there of any beginning of
/// `pickle.dumps({'version': '2.9', 'rank': 5, 'entries': e, 'pg_config': {}}, protocol)`.
#[test]
fn what_python_writes_is_read_as_far_as_it_is_whole() {
    let second = b"\x80\x02}q\x00(X\x07\x00\x00\x00versionq\x01X\x03\x00\x00\x002.9q\x02X\x04\x00\x00\x00rankq\x03K\x05\
        X\x07\x00\x00\x00entriesq\x04]q\x05(}q\x06(X\x0e\x00\x00\x00profiling_nameq\x07X\x0f\x00\x00\x00nccl:all_reduceq\x08\
        X\x11\x00\x00\x00collective_seq_idq\tK\x07u}q\n(h\x07h\x08h\tK\x07ueX\t\x00\x00\x00pg_configq\x0b}q\x0cu.";
    let fourth = b"\x80\x04\x95\x83\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x07version\x94\x8c\x032.9\x94\x8c\x04rank\x94K\x05\
        \x8c\x07entries\x94]\x94(}\x94(\x8c\x0eprofiling_name\x94\x8c\x0fnccl:all_reduce\x94\x8c\x11collective_seq_id\x94K\x07u\
        }\x94(h\x07h\x08h\tK\x07ue\x8c\tpg_config\x94}\x94u.";
    for pickle in [&second[..], fourth] {
        let ends: Vec<usize> = memchr::memmem::find_iter(pickle, b"K\x07u").map(|at| at + 3).collect();
        assert_eq!(ends.len(), 2);
        for end in ends[0]..pickle.len() {
            let records = records(&pickle[..end]);
            let whole = ends.iter().filter(|of| **of <= end).count();
            assert_eq!(records.operations.len(), whole, "{}", pickle[..end].escape_ascii());
            let of = |of: &nccl_stacks::operation::Operation| (of.rank.map(|rank| rank.0), of.sequence);
            assert!(records.operations.iter().all(|operation| of(operation) == (Some(5), Some(7))));
        }
    }
}

/// The same where the compression breaks off, and of two groups of one name.
#[test]
fn a_compressed_dump_that_breaks_off_is_read_as_far_as_it_is_whole() {
    let entry =
        |desc: &str| format!("{{\"process_group\": [\"0\", \"{desc}\"], \"profiling_name\": \"nccl:all_reduce\"}}");
    let group =
        |desc: &str, rank: u32| format!("{{\"name\": \"0\", \"desc\": \"{desc}\", \"ranks\": \"[{rank}, 9]\"}}");
    let dump = format!(
        "{{\"pg_config\": {{\"a\": {}, \"b\": {}}}, \"rank\": 9, \"entries\": [{}, {}, {}]}}",
        group("x", 1),
        group("undefined", 2),
        entry("undefined"),
        entry("x"),
        entry("x")
    );
    // Without compression, so that what is lost is known: the checksum and the length at the end, and some of the last entry.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut packed, dump.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let records = records(&packed[..packed.len() - 8 - 20]);
    assert_eq!((records.operations.len(), records.files[0].records), (2, 2), "{:?}", records.files);
    let skipped: Vec<_> = records.files[0].skipped.iter().map(|of| of.what).collect();
    assert_eq!(skipped, ["ends of files that cannot be read"]);
    assert!(
        records.files[0].notes.iter().any(|note| note.contains("its first 2 operations are whole")),
        "{:?}",
        records.files
    );
    let first = |at: usize| records.communicator_of(&records.operations[at]).unwrap().ranks.as_ref().unwrap()[0];
    assert_eq!((first(0), first(1)), (2, 1));
}

fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn dict(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = pairs.iter().flat_map(|(key, value)| [text(key), value.clone()].concat());
    [b"}(".to_vec(), pairs.collect(), b"u".to_vec()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [b"](".to_vec(), items.concat(), b"e".to_vec()].concat()
}

fn int(number: i32) -> Vec<u8> {
    [&b"J"[..], &number.to_le_bytes()].concat()
}

fn dump_of_protocol_2() -> Vec<u8> {
    let frame =
        |name: &str, line: i32| dict(&[("name", text(name)), ("filename", text("train.py")), ("line", int(line))]);
    let entry = dict(&[
        ("record_id", int(3)),
        ("process_group", [b"(".to_vec(), text("0"), text("default_pg"), b"t".to_vec()].concat()),
        ("collective_seq_id", int(4)),
        ("profiling_name", text("nccl:_all_gather_base")),
        // 2^40, in six bytes
        ("time_created_ns", b"\x8a\x06\x00\x00\x00\x00\x00\x01".to_vec()),
        ("duration_ms", [&b"G"[..], &1.5_f64.to_be_bytes()].concat()),
        ("input_sizes", list(&[list(&[int(16), int(2)])])),
        ("input_dtypes", list(&[text("BFloat16")])),
        ("output_sizes", list(&[list(&[int(64)])])),
        ("output_dtypes", list(&[text("BFloat16")])),
        ("state", text("started")),
        ("time_discovered_started_ns", b"N".to_vec()),
        ("is_p2p", b"\x89".to_vec()),
        ("an unknown key", b"\x88".to_vec()),
        ("frames", list(&[frame("step", 12), frame("<module>", 80)])),
    ]);
    let group = dict(&[("name", text("0")), ("desc", text("default_pg")), ("ranks", text("[6, 7]"))]);
    let root = dict(&[("version", text("2.9")), ("pg_config", dict(&[("0", group)])), ("entries", list(&[entry]))]);
    [b"\x80\x02".to_vec(), root, b".".to_vec()].concat()
}

#[test]
fn a_dump_becomes_operations() {
    let records = records(&dump_of_protocol_2());
    let file = &records.files[0];
    assert_eq!((file.version.as_deref(), file.records, file.skipped.len()), (Some("2.9"), 1, 0));
    let [operation] = &records.operations[..] else { panic!("{}", records.operations.len()) };
    // Both ranks are in all groups, and the name ends with 7.
    assert_eq!((operation.rank.map(|rank| rank.0), operation.place), (Some(7), Some(1)));
    assert_eq!((operation.sequence, operation.state), (Some(4), State::Started));
    assert_eq!(operation.collective.as_deref(), Some("all_gather"));
    assert_eq!(operation.dtype.as_deref(), Some("BFloat16"));
    assert_eq!((operation.in_elements, operation.out_elements, operation.bytes), (Some(32), Some(64), Some(128)));
    assert_eq!(operation.enqueued.map(|time| time.0), Some(1 << 40));
    assert_eq!(operation.duration.map(|time| time.0), Some(1_500_000));
    assert_eq!(records.communicator_of(operation).unwrap().key().as_deref(), Some("default_pg [6,7]"));
    // Outermost first.
    let path = &records.paths[operation.recorded_path.unwrap() as usize];
    let path: Vec<&str> = path.iter().map(|frame| &**frame).collect();
    assert_eq!(path, ["train.py(80): <module>", "train.py(12): step"]);
    assert_eq!(records.rank_status.len(), 1);
}

#[test]
fn protocols_from_2_on_are_read() {
    // `pickle.dumps({'version': '2.9', 'entries': [], 'pg_config': {}, 'rank': 5}, protocol=0)`
    let old = b"(dp0\nVversion\np1\nV2.9\np2\nsVentries\np3\n(lp4\nsVpg_config\np5\n(dp6\nsVrank\np7\nI5\ns.";
    // The beginning of the same with protocol 1.
    for old in [&old[..], b"}q\x00(X\x07\x00\x00\x00versionq\x01"] {
        let note = refused(old);
        assert!(note.contains("of protocol 0 or 1, which is not read. Load it and write it again"), "{note}");
    }
    // The same with protocol 4.
    let framed = b"\x80\x04\x953\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x07version\x94\x8c\x032.9\x94\x8c\x07entries\x94]\x94\x8c\tpg_config\x94}\x94\x8c\x04rank\x94K\x05u.";
    let records = records(framed);
    assert_eq!(records.files[0].version.as_deref(), Some("2.9"), "{:?}", records.files);
    assert!(records.files[0].skipped.is_empty());
    assert_eq!(records.rank_status[0].rank.map(|rank| rank.0), Some(5));
}

/// Two processes that did nothing write the same text, and only the names say that these are two ranks. The same name twice is one.
#[test]
fn dumps_of_equal_text_are_of_two_ranks_if_their_names_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let dump =
        r#"{"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "d", "ranks": "[0, 1]"}}, "entries": []}"#;
    let mut paths = Vec::new();
    for name in ["dump_0", "dump_1", "again/dump_1"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, dump).unwrap();
        paths.push(path);
    }
    let records = nccl_stacks::records::read_all(&paths, Keep::All, 1);
    let ranks: Vec<_> = records.rank_status.iter().filter_map(|status| status.rank).map(|rank| rank.0).collect();
    assert_eq!(ranks, [0, 1]);
    assert!(records.files[2].notes[0].contains("the same text"));
}

/// Only the root has all tensors of a gather. The size is known on the others, too.
#[test]
fn the_size_of_a_gather_does_not_need_the_root() {
    let dump = r#"{"version": "2.9", "rank": 1, "pg_config": {"0": {"name": "0", "desc": "undefined", "ranks": "[0, 1]"}}, "entries": [
        {"process_group": ["0", "undefined"], "profiling_name": "nccl:gather", "input_sizes": [[8]], "output_sizes": [], "input_dtypes": ["Float"]},
        {"process_group": ["0", "undefined"], "profiling_name": "nccl:scatter", "input_sizes": [], "output_sizes": [[8]], "output_dtypes": ["Float"]},
        {"process_group": ["9", "undefined"], "profiling_name": "nccl:all_gather", "input_sizes": [[8]], "output_sizes": []}]}"#;
    let records = records(dump.as_bytes());
    let sizes: Vec<_> = records.operations.iter().map(|of| of.bytes).collect();
    assert_eq!(sizes, [Some(64), Some(64), None]);
    // Of a group that is not in the configuration, too, PyTorch's word for none is no description.
    assert!(records.communicators.iter().all(|of| of.description.is_none()), "{:?}", records.communicators);
}
