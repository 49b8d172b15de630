//! Inputs found by fuzzing, and some random ones, through the checks that the fuzz targets run (`fuzz/README.md`).
//!
//! An input that once failed stays here under a name that says what was wrong with it: inline, or as a file in
//! `tests/regressions/<check>/` if it is not text.

use crate::checks;
use crate::support::random::rounds;

use proptest::prelude::*;

/// Events in which meaningful letters are written as escapes, as any JSON writer may.
#[test]
fn escaped_letters_are_letters() {
    for event in [
        r#""ph":"\u0058","ts":1,"dur":2"#,
        r#""ph":"f","bp":"\u0065","ts":1,"id":1"#,
        r#""ph":"M","name":"\u0074hread_name","args":{"name":"x"}"#,
        r#""ph":"M","name":"thread_name","args":{"n\u0061me":"x"}"#,
        r#""ph":"i","ts":1,"tid":1,"s":"\u0067""#,
        r#""ph":"s","ts":1,"id":"\u0031""#,
        r#""ph":"b","ts":1,"pid":1,"id2":{"l\u006fcal":1}"#,
        r#""ph":"B","ts":"1\u0030""#,
    ] {
        checks::event::check(event.as_bytes());
    }
}

/// More digits than any integer holds, of which only the first few count.
#[test]
fn times_may_have_any_number_of_digits() {
    for time in [
        "0.12345678901234567890123456789012345678901234567890",
        "12345678901234567890123456789012345678901234567890e-40",
        "0.00000000000000000000000000000000000000000000000001e50",
        "0e99999999999",
        "0.0004999999999999999999999999999999999999999999999999",
        "0.0005000000000000000000000000000000000000000000000000",
        "-0.0015000000000000000000000000000000000000000000000001",
        "9223372036854775.8074999999999999999999999999999999999",
        "9223372036854775.8075",
    ] {
        checks::event::check(format!(r#""ph":"B","ts":{time}"#).as_bytes());
        checks::event::check(format!(r#""ph":"B","ts":"{time}""#).as_bytes());
    }
}

/// A sort index that is no whole number is none, as in Perfetto.
#[test]
fn sort_indices_are_whole_numbers() {
    for index in ["1.5", "1e3", "7", "-7", "9223372036854775807", "9223372036854775808"] {
        let event = format!(r#""ph":"M","name":"thread_sort_index","args":{{"sort_index":{index}}}"#);
        checks::event::check(event.as_bytes());
    }
}

/// Ids, times and arguments at the edges of what they may be, and events that lack something.
#[test]
fn odd_values_are_what_the_rules_say() {
    for id in ["4294967295", "4294967296", "-1", "7.9", "\"stream 7\"", "null"] {
        checks::event::check(format!(r#""ph":"X","ts":1,"dur":1,"pid":{id},"tid":{id}"#).as_bytes());
    }
    for id in ["16", "\"10\"", "\"0x402\"", "\"402\"", "-1", "1.5", "\"\"", "\"12 x\"", "null"] {
        checks::event::check(format!(r#""ph":"s","ts":1,"id":{id}"#).as_bytes());
    }
    for event in [
        r#""ph":"X","ts":"5.1","dur":"2","name":"a""#,
        r#""ph":"X","ts":"100a","dur":1"#,
        r#""ph":"X","ts":null,"dur":1"#,
        r#""ph":"X","dur":1"#,
        r#""ts":1,"dur":1"#,
        r#""ph":"","ts":1"#,
        r#""ph":"X","ts":1"#,
        r#""ph":"X","ts":1,"dur":null"#,
        r#""ph":"b","ts":1,"pid":1"#,
        r#""ph":"i","ts":1,"pid":1,"s":"t""#,
        r#""ph":"i","ts":1,"tid":1,"s":"p""#,
        r#""ph":"M","name":"thread_name","args":{"name":""}"#,
        r#""ph":"M","name":"process_labels","args":{"labels":"GPU 0"}"#,
        r#""ph":"X","ts":1,"dur":1,"name":"a","n\u0061me":"b""#,
        r#" "#,
        r#""ph":"B","ts":1,"args":{"grid":[512,1],"a":{"b":"REGS"},"Input Dims":[[],[2,null,3]],"ok":true,"none":null}"#,
        r#""ph":"B","ts":1,"args":{"a":1.5e3,"b":-0,"c\"" : [1, "x\"}",{"d":false}, []] , "e":"]"}"#,
    ] {
        checks::event::check(event.as_bytes());
    }
}

/// A slice within an open one that ends before it: when the outer one is over, the inner one leaves the stack, though
/// it is not over. All such entries were once removed at the same time, and the next slice got another parent.
#[test]
fn slices_that_outlast_their_parent() {
    let of = |phase: u8, names: u8, ts: u8, dur: u8| [phase, names, 0, ts, dur];
    let events = [
        of(4, 10, 1, 0),
        of(0, 5, 2, 14),
        of(6, 10, 6, 0),
        of(4, 9, 7, 0),
        of(0, 8, 8, 15),
        of(0, 5, 20, 1),
        of(8, 5, 21, 0),
    ];
    for count in 1..=events.len() {
        checks::nesting::check(&[&[0][..], &events[..count].concat()].concat());
    }
}

/// The name of a check, and the check.
type Check = (&'static str, fn(&[u8]));

/// Every file in a folder of inputs.
fn kept(check: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions").join(check);
    std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

#[test]
fn kept_inputs() {
    let all: [Check; 9] = [
        ("cutter", checks::cutter::check),
        ("event", checks::event::check),
        ("nesting", checks::nesting::check),
        ("packed", checks::packed::check),
        ("packets", checks::packets::check),
        ("parts", checks::parts::check),
        ("records", checks::records::check),
        ("tables", checks::tables::check),
        ("values", checks::values::check),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name();
        let (name, check) =
            all.iter().find(|(check, _)| name == *check).unwrap_or_else(|| panic!("{name:?} is no check"));
        let inputs = kept(name);
        assert!(!inputs.is_empty(), "{name}");
        inputs.iter().for_each(|input| check(input));
    }
}

/// Arguments of operators and of memory that are not what their keys promise, and such as would take the square of their length.
#[test]
fn values_of_any_kind_are_read() {
    let keys: String = (0..20_000).map(|key| format!(r#""k{key}":1,"#)).collect();
    let brackets = "[".repeat(100_000);
    for args in [
        r#""Input Dims":[[1,"a"],{"b":[2]},null,7],"Input type":"['a'","Input Strides":[[1]],"cycles":"x""#.to_owned(),
        r#""Addr":"x","Bytes":[1],"Total Allocated":9223372036854775807,"Total Reserved":-1,"Device Id":1e30"#
            .to_owned(),
        r#""Addr":1,"Bytes":-9223372036854775808,"Total Allocated":-9223372036854775808"#.to_owned(),
        format!(r#"{keys}"Input Dims":[[9223372036854775807,9223372036854775807]],"Input Strides":[[-1,0]]"#),
        format!(r#""Input Dims":"{brackets}","Concrete Inputs":"{}""#, "(a,".repeat(100_000)),
    ] {
        checks::values::check(&[&[254][..], args.as_bytes()].concat());
    }
    for text in ["'a' ".repeat(250_000), "a(".repeat(500_000), "[...,".repeat(200_000), "\\\"".repeat(500_000)] {
        checks::values::check(&[&[0][..], text.as_bytes()].concat());
    }
}

/// Any bytes; the checks of structured inputs make traces of them.
fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(rounds(600) as u32) })]

    #[test]
    fn nesting_follows_the_plain_rules(bytes in bytes(161)) {
        checks::nesting::check(&bytes);
    }

    #[test]
    fn any_text_is_a_value_or_malformed(text in r#"[\[\](){},.…"'\\ 0-9a-z-]{0,60}"#) {
        for how in [0, 255] {
            checks::values::check(&[&[how][..], text.as_bytes()].concat());
        }
    }

    #[test]
    fn any_packets_load_soundly(bytes in bytes(121)) {
        checks::packets::check(&bytes);
    }

    #[test]
    fn compressed_text_comes_back(bytes in bytes(300)) {
        checks::packed::check(&bytes);
    }

    #[test]
    fn fields_equal_another_parsers(
        members in prop::collection::vec(
            (
                prop::sample::select(vec![
                    "ph", "ts", "dur", "pid", "tid", "name", "cat", "id", "bp", "s", "tts", "args", "bind_id", "flow_in", "id2",
                ]),
                prop::sample::select(vec![
                    "1", "-1.5", "0.25e2", "\"X\"", "\"B\"", "\"e\"", "\"\\u0066\"", "\"10\"", "true", "null", "{\"local\":1}",
                    "{\"a\":[1,{\"b\":null}],\"c\":2.5}", "[]",
                ]),
            ),
            0..8,
        )
    ) {
        let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        checks::event::check(members.join(",").as_bytes());
    }

    #[test]
    fn chunks_change_nothing(size in any::<u8>(), pieces in prop::collection::vec(
        prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "1", "\"a\"", "\"traceEvents\":[", "{\"ph\":\"X\",", "\"ts\":1,\"dur\":2",
            "},{", "null", "{\"ph\":\"B\",\"ts\":1,\"name\":\"a\"}", "\"args\":{\"a\":[1,2]}", "\n",
        ]),
        0..40,
    )) {
        checks::cutter::check(&[&[size][..], pieces.concat().as_bytes()].concat());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(rounds(200) as u32) })]

    #[test]
    fn any_bytes_are_read_as_records(bytes in bytes(200)) {
        checks::records::check(&bytes);
    }

    #[test]
    fn nesting_is_the_same_in_threads(bytes in bytes(161)) {
        checks::nesting::check_in_threads(&bytes);
    }

    #[test]
    fn conditions_select_the_right_rows(bytes in bytes(65)) {
        checks::tables::check(&bytes);
    }
}

proptest! {
    // Each is a job with all its answers.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(rounds(40) as u32) })]

    #[test]
    fn changed_parts_have_an_answer_or_a_reason(changes in prop::collection::vec(any::<[u8; 4]>(), 1..4)) {
        checks::parts::check(&changes.concat());
    }
}
