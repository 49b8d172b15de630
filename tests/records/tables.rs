//! Records in SQL: what is in the tables, and which kernels the rows are joined to, by the truth of a made job.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::program::{has, refused, run, stderr, stderr_of, stdout, stdout_of, testdata};

fn ask(inputs: &[&str], query: &str) -> Vec<Vec<String>> {
    let text = stdout_of(&[&["sql"], inputs, &[query, "--quiet", "--format", "csv"]].concat());
    text.lines().skip(1).map(|line| line.split(',').map(|cell| cell.trim_matches('"').to_owned()).collect()).collect()
}

/// Every record of the job is at the kernel that the generator wrote it for, with the algorithm that it wrote.
#[test]
fn records_are_at_their_kernels() {
    let job = testdata("records/job");
    let query = "SELECT r.source, r.rank, k.ts, r.algorithm, r.channels FROM collective AS r JOIN slice AS k ON k.id = r.kernel_id \
                 WHERE r.source <> 'trace' ORDER BY r.id";
    let mut found: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for row in ask(&[&job], query) {
        *found.entry((row[0].clone(), row[2].parse().unwrap())).or_default() += 1;
        if row[0] == "plugin-dump" {
            assert!(["RING", "TREE"].contains(&row[3].as_str()) && ["1", "2"].contains(&row[4].as_str()), "{row:?}");
        }
    }
    let mut truth: BTreeMap<(String, i64), u64> = BTreeMap::new();
    for line in std::fs::read_to_string(testdata("records/job/records_truth.txt")).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let key = (record["source"].as_str().unwrap().to_owned(), record["kernel_ts_ns"].as_i64().unwrap());
        *truth.entry(key).or_default() += 1;
    }
    assert_eq!(found, truth);
    assert_eq!(found.values().sum::<u64>(), 28);
}

/// An archive of records is what its folder is, for every command that takes both traces and records: 4 dumps with 4, 4, 3 and 4 entries.
#[test]
fn an_archive_of_records_is_records() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("job.tar");
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("hang", testdata("records/hang")).unwrap();
    tar.into_inner().unwrap();
    let database = folder.path().join("job.sqlite");
    for input in [&testdata("records/hang")[..], archive.to_str().unwrap()] {
        assert_eq!(ask(&[input], "SELECT count(*) FROM collective"), [["15"]], "{input}");
        stderr_of(&["export", input, "--sqlite", database.to_str().unwrap()], 0);
        let copy = rusqlite::Connection::open(&database).unwrap();
        assert_eq!(copy.query_row("SELECT count(*) FROM collective", [], |row| row.get::<_, i64>(0)).unwrap(), 15);
        drop(copy);
        std::fs::remove_file(&database).unwrap();
        let described = stdout(&run(&["describe", input]));
        assert!(described.starts_with("These are NCCL's own records"), "{input}: {described}");
    }
    // With a trace after them it is an archive of traces.
    let mut tar = tar::Builder::new(std::fs::File::create(&archive).unwrap());
    tar.append_dir_all("hang", testdata("records/hang")).unwrap();
    tar.append_path_with_name(testdata("ranks/rank0.json.gz"), "rank0.json.gz").unwrap();
    tar.into_inner().unwrap();
    let found = ask(
        &[archive.to_str().unwrap()],
        "SELECT (SELECT count(*) > 0 FROM slice), (SELECT count(*) FROM rank_status)",
    );
    assert_eq!(found, [["1", "0"]]);
}

#[test]
fn records_alone_are_tables_and_exports() {
    let dumps = testdata("records/hang");
    let states = ask(&[&dumps], "SELECT rank, count(*) FROM collective WHERE source = 'flight-recorder' GROUP BY rank");
    assert_eq!(states.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let paths = ask(&[&dumps], "SELECT count(recorded_path) > 0, count(kernel_id) FROM collective");
    assert_eq!(paths, [["1", "0"]]);
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("records.sqlite");
    stderr_of(&["export", &dumps, "--sqlite", database.to_str().unwrap()], 0);
    let copy = rusqlite::Connection::open(&database).unwrap();
    let count = |table: &str| -> i64 {
        copy.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let asked = ask(&[&dumps], "SELECT (SELECT count(*) FROM collective), (SELECT count(*) FROM rank_status)");
    assert_eq!(asked, [[count("collective").to_string(), count("rank_status").to_string()]]);
    assert!(count("rank_status") > 0 && count("communicator") > 0);
}

/// The steps of the proxies in the dumps, counted in their text.
#[test]
fn steps_are_rows() {
    let job = testdata("records/job");
    let mut begins = 0;
    for entry in std::fs::read_dir(testdata("records/job/records")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("nccl_profile") {
            let text = std::fs::read_to_string(path).unwrap();
            // The first phases of a step that sends and of one that receives.
            begins += text.matches("\"SendGpuWait\", \"cat\": \"NET\", \"ph\": \"b\"").count();
            begins += text.matches("\"RecvWait\", \"cat\": \"NET\", \"ph\": \"b\"").count();
        }
    }
    assert!(begins > 0);
    let steps = "SELECT count(*), count(DISTINCT o.collective_id) > 0 FROM proxy_step AS s JOIN proxy_op AS o ON o.id = s.proxy_op_id";
    assert_eq!(ask(&[&job], steps), [[begins.to_string(), "1".to_owned()]]);
}

#[test]
fn what_is_neither_a_trace_nor_a_record_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "nothing").unwrap();
    let path = folder.path().to_str().unwrap();
    has(&stderr(&run(&["sql", path, "SELECT 1"])), "neither traces nor records");
    let known = "Known sources are: PyTorch flight recorder, NCCL RAS, NCCL Inspector, NCCL's example";
    has(&stderr(&run(&["hang", path])), known);
    let dumps = testdata("records/hang");
    let code = if std::path::Path::new(&dumps).is_dir() { 2 } else { 1 };
    refused(&[&dumps], code, "NCCL's own records, without a trace");
}
