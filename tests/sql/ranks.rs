//! Several traces in one database, and the tables of a comparison of ranks.

use crate::{job, support};

use job::{How, Job, Late, Offsets, When};
use serde_json::{Value, json};
use support::pack::tar_of_files;
use support::program::{has, json_of, run, scratch, stderr, stderr_of, stdout, testdata};

/// A job of four ranks with different clocks, of which rank 2 is late.
fn job() -> Job {
    let late = Late {
        rank: 2,
        extra_ns: 400_000,
        how: How::Cpu { function: "data.py(7): load".to_owned() },
        when: When::EveryStep,
    };
    Job { steps: 3, layers: 4, offsets: Offsets::Random { max_ns: 5_000_000 }, late: Some(late), ..Job::default() }
}

/// The traces of a job in a folder, `rank0.json` and so on.
fn folder(job: &Job) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (rank, trace) in job.make().traces {
        std::fs::write(folder.path().join(format!("rank{rank}.json")), trace).unwrap();
    }
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

/// The answer to one statement, as rows of objects.
fn rows(traces: &[&str], query: &str) -> Vec<Value> {
    json_of(&[&["sql"], traces, &[query, "--format", "json"]].concat())
}

fn error(args: &[&str], code: i32) -> String {
    stderr_of(&[&["sql"], args].concat(), code)
}

const COUNTS: &str = "SELECT t.machine_id AS m, COUNT(*) AS slices, SUM(s.dur) AS dur FROM slice s JOIN track t ON t.id = s.track_id \
                      GROUP BY 1 ORDER BY 1";
const COLLECTIVES: &str = "SELECT p.machine_id AS m, c.rank, COUNT(*) AS n, COUNT(DISTINCT c.communicator) AS groups, SUM(c.bytes) AS \
                           bytes FROM collective c JOIN process p ON p.upid = c.gpu_upid GROUP BY 1, 2 ORDER BY 1";

#[test]
fn several_traces_are_those_one_by_one() {
    let folder = folder(&job());
    let files = [0, 1, 2, 3].map(|rank| path(&folder, &format!("rank{rank}.json")));
    let files = files.each_ref().map(String::as_str);
    for query in [COUNTS, COLLECTIVES] {
        let all = rows(&files, query);
        let one_by_one: Vec<Value> = (0..)
            .zip(&files)
            .flat_map(|(number, file)| {
                let mut of_one = rows(&[*file], query);
                of_one.iter_mut().for_each(|row| row["m"] = json!(number));
                of_one
            })
            .collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all, one_by_one, "{query}");
        // A folder, a pattern, an archive, and the files in another order.
        let (_other, tar) = scratch("job.tar", &tar_of_files(files));
        for traces in [&[folder.path().to_str().unwrap()][..], &[&path(&folder, "rank?.json")], &[&tar]] {
            assert_eq!(rows(traces, query), all, "{traces:?}");
        }
        let mixed = rows(&[files[3], files[3], &tar], query);
        let number = |row: &Value| row["m"].as_i64().unwrap();
        assert_eq!(mixed.iter().map(number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((&mixed[0]["n"], &mixed[0]["slices"]), (&all[3]["n"], &all[3]["slices"]));
    }
    let names = rows(&files, "SELECT machine_id, trace, rank FROM rank ORDER BY id");
    let want: Vec<Value> =
        (0..).zip(&files).map(|(n, file)| json!({"machine_id": n, "trace": file, "rank": n})).collect();
    assert_eq!(names, want);
}

/// The tables have what `ranks` answers, and the sums over their rows are those of its ranks.
fn assert_same_as_ranks(traces: &[&str]) -> Value {
    let answer: Value = json_of(&[&["ranks"], traces, &["--json", "--quiet"]].concat());
    let ranks = answer["ranks"].as_array().unwrap();
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let path = rows(traces, "SELECT kind, SUM(dur) AS dur FROM critical_path GROUP BY 1");
    let kind = |of: &Value| match of["kind"].as_str().unwrap() {
        "cpu" => json!("CPU"),
        kind => json!(kind.replace('-', " ")),
    };
    for of in answer["critical_path"]["kinds"].as_array().into_iter().flatten() {
        let dur = path.iter().find(|row| row["kind"] == kind(of)).map_or(0, |row| number(&row["dur"]));
        assert_eq!(dur, number(&of["path_ns"]), "{of}");
    }
    let of_table = rows(traces, "SELECT * FROM rank");
    assert_eq!(of_table.len(), ranks.len());
    let sums = rows(
        traces,
        "SELECT r.rank, (SELECT SUM(waited) FROM collective_match m WHERE m.rank = r.rank) AS waited, \
         (SELECT SUM(transfer) FROM collective_match m WHERE m.rank = r.rank) AS transfer, \
         (SELECT SUM(waited) FROM collective_match m WHERE m.late_rank = r.rank) AS caused, \
         (SELECT SUM(is_late) FROM collective_match m WHERE m.rank = r.rank) AS late_count FROM rank r",
    );
    for ((table, sums), rank) in of_table.iter().zip(&sums).zip(ranks) {
        for (column, field) in [
            ("rank", "rank"),
            ("trace", "trace"),
            ("offset_ns", "offset_ns"),
            ("uncertainty_ns", "uncertainty_ns"),
            ("drift_ns_per_ms", "drift_ns_per_ms"),
            ("waited", "waited_ns"),
            ("caused", "caused_ns"),
            ("late_count", "late_count"),
            ("transfer", "transfer_ns"),
            ("queue_empty_share", "queue_empty_share"),
        ] {
            let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
            let is_same = match (table[column].as_f64(), rank[field].as_f64()) {
                (Some(a), Some(b)) => near(a, b),
                _ => table[column] == rank[field],
            };
            assert!(is_same, "{column}: {} and {}", table[column], rank[field]);
        }
        for (column, field) in [
            ("waited", "waited_ns"),
            ("transfer", "transfer_ns"),
            ("caused", "caused_ns"),
            ("late_count", "late_count"),
        ] {
            assert_eq!(number(&sums[column]), number(&rank[field]), "{column} of {}", rank["rank"]);
        }
    }
    answer
}

#[test]
fn the_tables_are_what_ranks_answers() {
    let two = Job { tp: 2, dp: 2, seed: 7, ..job() };
    for job in [job(), two, Job { lose: 3, ..job() }, Job { missing: vec![1], ..job() }, Job { graphs: true, ..job() }]
    {
        let folder = folder(&job);
        let traces = folder.path().to_str().unwrap();
        let answer = assert_same_as_ranks(&[traces]);
        let counted = rows(&[traces], "SELECT status, COUNT(*) AS n FROM collective_match GROUP BY 1 ORDER BY 1");
        let sum = |of: &Value| of.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>();
        let matches = &answer["matches"];
        let want = [
            ("matched", matches["matched"].as_u64().unwrap()),
            ("mismatched", sum(&matches["mismatched"])),
            ("partial", matches["partial"].as_u64().unwrap()),
            ("unmatched", sum(&matches["unmatched"])),
        ];
        let want: Vec<Value> =
            want.iter().filter(|(_, n)| *n > 0).map(|(status, n)| json!({"status": status, "n": n})).collect();
        assert_eq!(counted, want);
        // Rows name their kernels, and the same collectives as `collective` does.
        let [joined] = &rows(
            &[traces],
            "SELECT COUNT(*) AS n, SUM(c.kernel_id = m.slice_id) AS kernels, SUM(c.rank = m.rank) AS ranks, \
             SUM(c.communicator IS NULL OR c.communicator = m.communicator) AS groups, (SELECT COUNT(*) FROM collective) AS all_of_them, \
             (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM collective_match GROUP BY match_id, rank)) AS most \
             FROM collective_match m JOIN collective c ON c.id = m.collective_id",
        )[..] else {
            panic!("one row")
        };
        for column in ["kernels", "ranks", "groups", "all_of_them"] {
            assert_eq!(joined[column], joined["n"], "{column}: {joined}");
        }
        assert_eq!(joined["most"], 1, "a collective has one kernel of a rank");
        // On one clock, all members have started before the first ends.
        let overlap = "SELECT COUNT(*) AS wrong FROM (SELECT MAX(m.aligned_ts) AS last, MIN(m.aligned_ts + s.dur) AS ended FROM \
                       collective_match m JOIN slice s ON s.id = m.slice_id JOIN collective c ON c.id = m.collective_id WHERE m.status = \
                       'matched' AND c.collective = 'all_reduce' GROUP BY m.match_id) WHERE last > ended + 10000";
        assert_eq!(rows(&[traces], overlap), [json!({"wrong": 0})]);
    }
}

#[test]
fn one_trace_has_one_rank_and_a_trace_without_a_rank_says_so() {
    let folder = folder(&job());
    let trace = path(&folder, "rank1.json");
    let statuses = "SELECT rank, status, COUNT(*) > 0 AS some, SUM(waited) AS w, MAX(is_late) AS l FROM collective_match GROUP BY 1, 2";
    assert_eq!(rows(&[&trace], statuses), [json!({"rank": 1, "status": "unmatched", "some": 1, "w": null, "l": null})]);
    assert_eq!(rows(&[&trace], "SELECT id, rank, waited FROM rank"), [json!({"id": 0, "rank": 1, "waited": 0})]);
    // Without collectives there is nobody to compare, which is no error.
    assert_eq!(rows(&[&testdata("begin_end_async.json")], "SELECT * FROM rank"), [] as [Value; 0]);
    let nameless = testdata("costs.json");
    for query in ["SELECT * FROM rank", "SELECT COUNT(*) FROM collective_match WHERE id = 1"] {
        let message = error(&[&nameless, query], 1);
        assert!(message.contains("cannot be read: ") && message.contains("says which rank it is"), "{message}");
    }
    assert_eq!(rows(&[&nameless], "SELECT COUNT(*) AS n FROM pragma_table_info('rank')"), [json!({"n": 12})]);
    let twice = error(&[&trace, &nameless, &path(&folder, "rank0.json"), "SELECT * FROM rank"], 1);
    has(&twice, "costs.json: neither its header");
    assert!(error(&[&trace, "SELECT * FROM rnak"], 1).contains("Did you mean rank?"));
}

#[test]
fn the_query_is_distinguished_from_files() {
    let folder = folder(&Job { steps: 1, layers: 1, ..Job::default() });
    let files = [0, 1].map(|rank| path(&folder, &format!("rank{rank}.json")));
    let [one, two] = files.each_ref().map(String::as_str);
    let mistyped = path(&folder, "rank1.jsno");
    for args in [&[one, &mistyped][..], &[one, &mistyped, "SELECT 1"], &[one, two, &mistyped], &[&mistyped, "SELECT 1"]]
    {
        let message = error(args, 1);
        assert!(message.contains("rank1.jsno: there is no such file; near it: ") && message.contains(two), "{message}");
    }
    assert!(error(&[one, "slice"], 1).contains("slice: there is no such file"));
    assert!(error(&[one, two, "SELECT 1", "--file", "x.sql"], 2).contains("cannot be used with"));
    assert!(error(&[one, two, ""], 2).contains("the query is empty"));
    assert!(error(&[one, two, "-", "--file", "-"], 2).contains("the query must be"));
    let count = "select count(*) as n from(select distinct machine_id from process)";
    let (_other, file) = scratch("count.sql", count.as_bytes());
    for args in [&[one, two, count][..], &[one, two, "--file", &file], &["--format", "csv", one, two, count]] {
        let output = run(&[&["sql"], args].concat());
        assert_eq!(stdout(&output), "\"n\"\n2\n", "{args:?}: {}", stderr(&output));
    }
    let output = run(&["sql", one, "values(1)"]);
    assert_eq!(stdout(&output), "\"column1\"\n1\n", "{}", stderr(&output));
}

#[test]
fn damage_is_reported_by_file() {
    let folder = folder(&Job { tp: 2, steps: 1, layers: 1, ..Job::default() });
    let whole = std::fs::read(path(&folder, "rank1.json")).unwrap();
    std::fs::write(path(&folder, "rank1.json"), &whole[..whole.len() - 700]).unwrap();
    std::fs::write(path(&folder, "rank2.json"), "no trace").unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_path_with_name(path(&folder, "rank0.json"), "rank0.json").unwrap();
    tar.append_path_with_name(path(&folder, "rank2.json"), "notes.txt").unwrap();
    std::fs::write(path(&folder, "job.tar"), tar.into_inner().unwrap()).unwrap();
    let traces = folder.path().to_str().unwrap();
    let query = "SELECT machine_id AS m, SUM(value * (severity <> 'info' OR name = 'archive_file_no_trace')) > 0 AS damaged FROM stats \
                 GROUP BY 1 ORDER BY m IS NULL, m";
    let output = run(&["sql", traces, query]);
    assert_eq!(stdout(&output), "\"m\",\"damaged\"\n0,0\n1,0\n2,1\n\"[NULL]\",1\n", "{}", stderr(&output));
    let message = stderr(&output);
    for (start, end) in [
        ("Left out: ", "rank2.json: "),
        ("Note: 1 file of the archive is not a trace: ", "job.tar/notes.txt"),
        ("", "rank1.json: "),
    ] {
        let has = |line: &str| line.starts_with(start) && line.contains(end);
        assert!(message.lines().any(has), "{start}…{end}: {message}");
    }
    assert!(error(&[traces, query, "--strict"], 1).contains("rank2.json"));
    std::fs::remove_file(path(&folder, "rank2.json")).unwrap();
    let strict = error(&[traces, query, "--strict"], 1);
    assert!(strict.contains("--strict was given") && strict.contains("rank1.json: "), "{strict}");
    let (_other, bad) = scratch("bad.json", b"no trace");
    let (_another, worse) = scratch("worse.json", b"");
    assert!(error(&[&bad, &worse, "SELECT 1"], 1).contains("bad.json"));
}

#[test]
fn real_ranks_are_matched() {
    let Some(shared) = support::shared() else { return };
    let path = |rank: u32| shared.join(format!("traces/lora-dev-script__sglang_tp4_A_mixed_rank{rank}.json.gz"));
    let files = [0, 1, 2, 3].map(|rank| path(rank).to_str().unwrap().to_owned());
    let files = files.each_ref().map(String::as_str);
    let query = "SELECT status, COUNT(*) AS n, COUNT(DISTINCT match_id) AS matches, COUNT(DISTINCT slice_id) AS kernels, \
                 COUNT(DISTINCT rank) AS ranks FROM collective_match GROUP BY 1";
    let want = json!({"status": "matched", "n": 1568, "matches": 392, "kernels": 1568, "ranks": 4});
    assert_eq!(rows(&files, query), [want]);
    assert_same_as_ranks(&files);
}

/// The named query gives a function what it takes itself, as `ranks` does from another part of the program: the rows add up to the path, and the large lines agree.
#[test]
fn functions_on_the_path_are_those_of_ranks() {
    let job = testdata("ranks");
    let answer: Value = json_of(&["ranks", &job, "--json", "--quiet"]);
    let found: Value = json_of(&["sql", &job, "--query", "critical_path", "--json", "--quiet"]);
    let rows = found.as_array().unwrap();
    let length = answer["critical_path"]["length_ns"].as_i64().unwrap();
    assert_eq!(rows.iter().map(|row| row["path_ns"].as_i64().unwrap()).sum::<i64>(), length);
    let lines = answer["critical_path"]["lines"].as_array().unwrap().iter().filter(|line| line["kind"] == "cpu");
    let large: Vec<&Value> = lines.filter(|line| line["path_ns"].as_i64().unwrap() * 20 > length).collect();
    assert!(large.iter().any(|line| line["name"] == "mlp.py(50): mlp"), "{large:?}");
    for line in large {
        let row = rows.iter().find(|row| row["kind"] == "CPU" && row["line"] == line["name"]);
        let (of_query, of_ranks) = (row.unwrap()["path_ns"].as_i64().unwrap(), line["path_ns"].as_i64().unwrap());
        assert!((of_query - of_ranks).abs() * 100 <= length, "{line}: {of_query}");
    }
}
