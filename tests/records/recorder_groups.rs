//! Which operations belong together, in SQL and in `records`; and communicators that NCCL and the recorder name differently.

use nccl_stacks::input;
use nccl_stacks::operation::State;
use nccl_stacks::records::{self, Keep};
use nccl_stacks_recorder_format::{Kind, Record};
use serde_json::{Value, json};

use crate::records::recorder::{EPOCH, Process, folder};
use crate::support::program::{has, json_of, run, stdout};

fn ask(process: &Process, query: &str) -> Vec<Value> {
    process.set_clock();

    let answer: Value = json_of(&["sql", process.path.to_str().unwrap(), query, "--quiet", "--format", "json"]);
    answer.as_array().unwrap().clone()
}

const GROUPS: &str = "SELECT g.kind, g.depth, g.ts, g.end_ts, g.operations, group_concat(m.collective_id) AS members \
                      FROM nccl_group g LEFT JOIN nccl_group_member m ON m.group_id = g.id GROUP BY g.id ORDER BY g.id";

/// Two all-reduces that are called in one group, whose kernels NCCL plans one by one; then two that are called apart, which it plans together.
#[test]
fn nccl_reports_what_it_was_called_with_and_what_it_planned() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[1]);
    let function = process.writer.text(b"AllReduce");
    let of = |kind, parent| Record { communicator: 1, parent, function, ..Record::new(kind) };
    let outer = process.put(1_000, Record { a: 2, ..of(Kind::GroupApi, 0) });
    let calls = [1_010, 1_020].map(|time| process.put(time, of(Kind::CollApi, outer)));
    let kernel = process.put(1_100, of(Kind::Group, 0));
    process.put(1_110, of(Kind::Coll, calls[0]));
    process.stop(1_120, kernel);
    process.put(1_130, of(Kind::Group, 0));
    let second = process.put(1_140, of(Kind::Coll, calls[1]));
    // It says that its group is the first.
    process.put(1_140, Record { b: kernel, ..of(Kind::More, second) });
    process.stop(1_200, outer);
    for time in [2_000, 2_100] {
        let alone = process.put(time, Record { a: 1, ..of(Kind::GroupApi, 0) });
        process.put(time + 10, of(Kind::CollApi, alone));
        process.stop(time + 50, alone);
    }
    // A group in which nothing was called is none.
    process.put(3_000, Record { a: 1, ..of(Kind::GroupApi, 0) });
    let row = |kind: &str, depth: Option<u32>, start: i64, end: Option<i64>, operations: u32, members: &str| {
        let end = end.map(|end| EPOCH + end);
        json!({"kind": kind, "depth": depth, "ts": EPOCH + start, "end_ts": end, "operations": operations, "members": members})
    };
    assert_eq!(
        ask(&process, GROUPS),
        [
            row("calls", Some(2), 1_000, Some(1_200), 2, "0,1"),
            row("kernel", None, 1_100, Some(1_120), 2, "0,1"),
            row("calls", Some(1), 2_000, Some(2_050), 1, "2"),
            row("calls", Some(1), 2_100, Some(2_150), 1, "3"),
        ]
    );
    let answer: Value =
        serde_json::from_str(&stdout(&run(&["records", process.path.to_str().unwrap(), "--json"]))).unwrap();
    let row = |kind: &str, depth: Option<u32>, operations: u32, count: u64, median: i64| json!({"kind": kind, "depth": depth, "operations": operations, "count": count, "ranks": 1, "median_ns": median});
    assert_eq!(
        answer["groups"],
        json!([row("calls", Some(1), 1, 2, 50), row("calls", Some(2), 2, 1, 200), row("kernel", None, 2, 1, 20)])
    );
    let table = stdout(&run(&["records", process.path.to_str().unwrap(), "--format", "table"]));
    has(&table, "\nGroups\n");
}

/// Without the plugin the calls that begin and end groups say it.
#[test]
fn calls_show_their_groups_without_the_plugin() {
    let folder = folder();
    let process = Process::new(folder.path(), 0, 2, &[2]);
    let text = |text: &str| process.writer.text(text.as_bytes());
    let (start, end, function) = (text("ncclGroupStart"), text("ncclGroupEnd"), text("ncclAllReduce"));
    let call = |time, function, depth| {
        process.put(time, Record { communicator: 1, function, parent: depth, dtype: 8, ..Record::new(Kind::Call) })
    };
    // Within each other: the inner end waits for nothing.
    call(1_000, start, 0);
    call(1_010, function, 1);
    call(1_020, start, 1);
    call(1_030, function, 2);
    let inner = call(1_040, end, 1);
    process.stop(1_045, inner);
    call(1_050, function, 1);
    let outer = call(1_060, end, 0);
    process.stop(1_500, outer);
    // A call alone is in no group, and one that is open has no end.
    call(2_000, function, 0);
    call(3_000, start, 0);
    call(3_010, function, 1);
    let row = |depth: u32, start: i64, end: Option<i64>, operations: u32, members: &str| {
        let end = end.map(|end| EPOCH + end);
        json!({"kind": "calls", "depth": depth, "ts": EPOCH + start, "end_ts": end, "operations": operations, "members": members})
    };
    assert_eq!(ask(&process, GROUPS), [row(2, 1_000, Some(1_500), 3, "0,1,2"), row(1, 3_000, None, 1, "4")]);
}

/// An NCCL that computes hashes in another way than the recorder: what was called and what NCCL reports within the call is one operation.
#[test]
fn a_hash_that_is_not_nccls_own_doubles_nothing() {
    for (own, ncclss) in [(0xabc, 0xabc), (0xabc, 0xdef)] {
        let folder = folder();
        let process = Process::bare(folder.path(), [0, 2, -1], 40, 1024);
        process.communicator(2, own, 0, 2);
        process.communicator(1, ncclss, 0, 2);
        for number in 0..5 {
            let function = process.writer.text(b"ncclAllReduce");
            let c = (number as u64 + 1) << 32;
            let called = Record { communicator: 1, function, a: 1024, dtype: 8, c, ..Record::new(Kind::Call) };
            let called = process.put(number * 1_000, called);
            process.planned(number * 1_000 + 10, 2, 0, 2);
            process.stop(number * 1_000 + 90, called);
        }
        let records = process.read();
        let rows = records.operations.iter().map(|of| (of.sequence, of.state, of.communicator));
        let want = (1..=5).map(|number| (Some(number), State::Completed, Some(0)));
        assert_eq!(rows.collect::<Vec<_>>(), want.collect::<Vec<_>>());
        assert_eq!(records.communicators.iter().map(|of| of.hash).collect::<Vec<_>>(), [Some(ncclss)]);
        let said =
            records.files[0].notes.iter().filter(|note| note.contains("by another hash than the recorder")).count();
        assert_eq!(said, usize::from(own != ncclss), "{:?}", records.files[0].notes);
        let groups: Vec<Option<usize>> = records.rank_status.iter().map(|status| status.communicator).collect();
        assert_eq!(groups, [None, Some(0)]);
    }
    // Nothing shows that these are one: no call of the one is open when NCCL names the other.
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, -1], 40, 1024);
    process.communicator(2, 0xabc, 0, 2);
    process.communicator(1, 0xdef, 0, 2);
    process.call(1_000, 1, "ncclAllReduce", 1024);
    process.planned(2_000, 2, 0, 2);
    let records = process.read();
    assert_eq!((records.operations.len(), records.communicators.len()), (2, 2));
}

/// For a hang the last calls of each communicator are enough, and what they make beside them.
#[test]
fn of_ends_the_last_of_each_communicator_are_kept() {
    let folder = folder();
    let process = Process::bare(folder.path(), [0, 2, -1], 40, 1024);
    process.communicator(1, 0xabc, 0, 2);
    process.communicator(1, 0xdef, 0, 2);
    process.planned(1_000, 2, 0, 2);
    // The last never ends.
    for number in 0..10u8 {
        process.planned(10_000 + i64::from(number) * 1_000, 1, 0, if number == 9 { 1 } else { 2 });
    }
    process.set_clock();
    let read = |keep| records::read(input::open(&process.path).unwrap(), keep).unwrap();
    let (all, ends) = (read(Keep::All), read(Keep::Ends(3)));
    assert_eq!((all.operations.len(), all.channels.len(), all.left_out), (11, 22, 0));
    assert_eq!((ends.operations.len(), ends.channels.len(), ends.left_out), (4, 8, 7));
    let last = |records: &records::Records| {
        records.rank_status.iter().map(|status| (status.last_enqueued, status.last_completed)).collect::<Vec<_>>()
    };
    assert_eq!(last(&all), last(&ends));
    let times = |records: &records::Records| records.operations.iter().map(|of| of.enqueued).collect::<Vec<_>>();
    assert_eq!(times(&ends), [&times(&all)[..1], &times(&all)[8..]].concat());
    let channel = |at: usize| ends.channels[at].operation;
    assert_eq!([0, 1, 2, 6, 7].map(channel), [0, 0, 1, 3, 3].map(Some));
}
