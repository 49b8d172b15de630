//! The SQL tables against SQLite's own.
//!
//! The virtual tables choose among scans, indexes and ranges, and report to SQLite when their rows are in order already. Every
//! such shortcut can lose or double rows without any error. So each table is copied into a plain one whose columns have the same
//! types, and many queries are put to both: SQLite's b-trees are the oracle. What the copies would inherit, the
//! rows themselves, is checked by hand on a trace small enough for that.

use crate::support::random::is_long;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;

use nccl_stacks::document::results::Unit;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load, load_input};
use nccl_stacks::sql::header::Header;
use nccl_stacks::sql::queries::NamedQuery;
use nccl_stacks::sql::ranks::{Compare, RankRows};
use nccl_stacks::sql::{Database, queries};
use nccl_stacks::store::Store;
use rusqlite::types::Value;
use rusqlite::{Connection, StatementStatus, ToSql, params_from_iter};

/// Every kind of value and every hard case: times that are equal, slices that overlap, enclose each other or
/// never end; names that are missing, shared, or look like numbers and patterns; ids at the limits of their types.
const MIXED: &str = r#"{
"schemaVersion": 3, "ratio": 5.5, "five": 5.0, "huge": 1e300, "text five": "5", "empty": "", "letters": "abc",
"least": -9223372036854775808, "greatest": 9223372036854775807, "flag": true, "off": false, "none": null,
"distributedInfo": {"rank": 5, "world_size": 2, "backend": "nccl"}, "deviceProperties": [{"id": 7, "name": "aten::add"}],
"metadata": {"a": 1, "b": "abc", "c": 2.5, "d": true, "e": "5", "f": "", "g": -7},
"traceEvents": [
{"ph":"M","name":"process_name","pid":10,"args":{"name":"python"}},
{"ph":"M","name":"process_name","pid":20,"args":{"name":"python"}},
{"ph":"M","name":"process_sort_index","pid":20,"args":{"sort_index":5}},
{"ph":"M","name":"thread_name","pid":10,"tid":11,"args":{"name":"worker"}},
{"ph":"M","name":"thread_name","pid":20,"tid":21,"args":{"name":"worker"}},
{"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{"name":"stream 7 "}},
{"ph":"M","name":"thread_sort_index","pid":0,"tid":7,"args":{"sort_index":-7}},
{"ph":"X","name":"outer","cat":"python_function","pid":10,"tid":10,"ts":0,"dur":100,"args":{"Python id":1}},
{"ph":"X","name":"aten::add","cat":"cpu_op","pid":10,"tid":10,"ts":1,"dur":49,"args":{"Input Dims":[[2,3],[]],"Scale":5.0}},
{"ph":"X","name":"aten::add","cat":"cpu_op","pid":10,"tid":10,"ts":1,"dur":49,"args":{"Input Dims":[[2,3],[]],"Scale":5.0}},
{"ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":10,"tid":10,"ts":10,"dur":5,"args":{"correlation":5,"grid":[512,1]}},
{"ph":"X","name":"cudaLaunchKernel","cat":"cuda_runtime","pid":10,"tid":10,"ts":20,"dur":5,"args":{"correlation":6}},
{"ph":"X","name":"cuLaunchKernel","cat":"cuda_driver","pid":10,"tid":10,"ts":26,"dur":1,"args":{"correlation":5}},
{"ph":"X","name":"5","cat":"5","pid":10,"tid":10,"ts":50,"dur":0,"args":{"value":"5"}},
{"ph":"X","name":"overlap","cat":"user_annotation","pid":10,"tid":10,"ts":60,"dur":60},
{"ph":"X","name":"overlap","cat":"user_annotation","pid":10,"tid":10,"ts":70,"dur":60},
{"ph":"X","name":"overlap","cat":"USER_ANNOTATION","pid":10,"tid":10,"ts":80,"dur":20},
{"ph":"X","pid":10,"tid":11,"ts":5,"dur":10},
{"ph":"X","name":"","cat":"","pid":10,"tid":11,"ts":6,"dur":2},
{"ph":"X","name":5,"cat":null,"pid":10,"tid":11,"ts":9,"dur":1,"args":{}},
{"ph":"B","name":"abc","cat":"abc","pid":10,"tid":11,"ts":20,"args":{"begun":true}},
{"ph":"B","name":"ABC","pid":10,"tid":11,"ts":21},
{"ph":"E","name":"abc","pid":10,"tid":11,"ts":30,"args":{"ended":false}},
{"ph":"i","name":"abc","pid":10,"tid":11,"ts":31,"s":"t"},
{"ph":"i","cat":"cpu_op","pid":10,"tid":11,"ts":31,"s":"p"},
{"ph":"i","pid":10,"tid":11,"ts":31,"s":"g"},
{"ph":"i","name":"moment","pid":20,"tid":21,"ts":31,"s":"p","args":{"why":"5.0"}},
{"ph":"b","name":"request","cat":"async","id":"0x1","pid":10,"tid":11,"ts":2},
{"ph":"n","cat":"async","id":"0x1","pid":10,"tid":11,"ts":3},
{"ph":"e","name":"request","cat":"async","id":"0x1","pid":20,"tid":21,"ts":40},
{"ph":"b","name":"local","cat":"async","id2":{"local":"0x1"},"pid":20,"tid":21,"ts":2},
{"ph":"X","name":"a'b\"c","cat":"cpu_op","pid":10,"tid":12,"ts":1,"dur":10},
{"ph":"X","name":"naïve ☃ 名前","cat":"cpu_op","pid":10,"tid":12,"ts":12,"dur":10,"args":{"名":"☃"}},
{"ph":"X","name":"100%_[x]*?","cat":"cpu_op","pid":10,"tid":12,"ts":13,"dur":1},
{"ph":"X","name":" 5","cat":"cpu_op ","pid":10,"tid":12,"ts":30,"dur":10},
{"ph":"X","name":"5.0","cat":"cpu_op","pid":10,"tid":12,"ts":40,"dur":10},
{"ph":"X","name":"abc ","cat":"cpu_op","pid":10,"tid":12,"ts":50,"dur":10},
{"ph":"X","name":"line\n\ttab","cat":"cpu_op","pid":10,"tid":12,"ts":60.0005,"dur":0.001},
{"ph":"X","name":"outer","cat":"python_function","pid":20,"tid":20,"ts":0,"dur":100,"tts":3,"tdur":7},
{"ph":"X","name":"aten::add","cat":"cpu_op","pid":20,"tid":20,"ts":1,"dur":49,"tts":4,"tdur":0},
{"ph":"X","name":"aten::add","cat":"cpu_op","pid":20,"tid":21,"ts":1,"dur":49,"tts":5},
{"ph":"X","name":"big","cat":"cpu_op","pid":20,"tid":21,"ts":60,"dur":9,"args":{"least":-9223372036854775808,"huge":1e300,
 "greatest":9223372036854775807,"beyond":18446744073709551615,"empty":"","none":null,"letters":"abc","minus zero":-0.0,
 "deep":{"er":[{"a":1},{"a":"aten::add"},[true,false]]},"same":1,"same":2}},
{"ph":"X","name":"ncclDevKernel_AllReduce","cat":"kernel","pid":0,"tid":7,"ts":30,"dur":10,"args":{"correlation":5,"stream":7}},
{"ph":"X","name":"ncclDevKernel_AllReduce","cat":"Kernel","pid":0,"tid":7,"ts":40,"dur":10,"args":{"correlation":6,"stream":7}},
{"ph":"X","name":"ncclDevKernel_AllGather","cat":"kernel","pid":0,"tid":7,"ts":45,"dur":10,"args":{"correlation":7}},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":7,"ts":60,"dur":1},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":7,"ts":61,"dur":1,"args":{"correlation":"5"}},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":7,"ts":62,"dur":1,"args":{"correlation":0}},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":7,"ts":63,"dur":1,"args":{"correlation":5.0}},
{"ph":"X","name":"gemm","cat":"kernel","pid":0,"tid":7,"ts":64,"dur":1,"args":{"correlation":9223372036854775807}},
{"ph":"X","name":"Memcpy DtoD","cat":"gpu_memcpy","pid":0,"tid":7,"ts":65,"dur":1,"args":{"correlation":6}},
{"ph":"s","name":"ac2g","cat":"ac2g","id":5,"pid":10,"tid":10,"ts":10},
{"ph":"f","name":"ac2g","cat":"ac2g","id":5,"pid":0,"tid":7,"ts":30,"bp":"e"},
{"ph":"s","name":"ac2g","cat":"ac2g","id":6,"pid":10,"tid":10,"ts":20},
{"ph":"f","name":"ac2g","cat":"ac2g","id":6,"pid":0,"tid":7,"ts":40,"bp":"e"},
{"ph":"f","name":"ac2g","cat":"ac2g","id":6,"pid":0,"tid":7,"ts":65,"bp":"e"},
{"ph":"f","name":"ac2g","cat":"ac2g","id":99,"pid":0,"tid":7,"ts":66,"bp":"e"},
{"ph":"s","name":"fwdbwd","cat":"fwdbwd","id":"0x10","pid":10,"tid":10,"ts":1},
{"ph":"t","name":"fwdbwd","cat":"fwdbwd","id":"0x10","pid":10,"tid":12,"ts":12},
{"ph":"f","name":"fwdbwd","cat":"fwdbwd","id":"0x10","pid":20,"tid":21,"ts":55},
{"ph":"s","name":"bare","id":1,"pid":20,"tid":20,"ts":1},
{"ph":"f","name":"bare","id":1,"pid":20,"tid":21,"ts":1,"bp":"e"},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":60,"dur":1,"bind_id":"0xffffffffffffffff","flow_out":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":62,"dur":1,"bind_id":"0xffffffffffffffff","flow_in":true,"flow_out":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":64,"dur":1,"bind_id":"0xffffffffffffffff","flow_in":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":66,"dur":1,"bind_id":"0x8000000000000000","flow_out":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":68,"dur":1,"bind_id":"0x8000000000000000","flow_in":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":70,"dur":1,"bind_id":"0x7fffffffffffffff","flow_out":true},
{"ph":"X","name":"bound","pid":20,"tid":20,"ts":72,"dur":1,"bind_id":"0x7fffffffffffffff","flow_in":true},
{"ph":"X","name":"PyTorch Profiler (0)","cat":"Trace","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":90},
{"ph":"X","name":"late","pid":10,"tid":10,"ts":-1,"dur":5},
{"ph":"X","name":"no length","pid":10,"tid":10,"ts":5}
]}"#;

/// Five events whose rows in every table can be worked out by hand.
const TINY: &str = r#"{"distributedInfo": {"rank": 3}, "metadata": {"note": "x"}, "traceEvents": [
{"ph":"X","name":"outer","cat":"cpu_op","pid":1,"tid":2,"ts":1,"dur":10,"args":{"n":7,"deep":{"list":[true,2.5]},"s":"x"}},
{"ph":"X","name":"launch","cat":"cuda_runtime","pid":1,"tid":2,"ts":2,"dur":3,"args":{"correlation":9}},
{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":6,"dur":4,"args":{"correlation":9}},
{"ph":"s","name":"ac2g","cat":"ac2g","id":9,"pid":1,"tid":2,"ts":2},
{"ph":"f","name":"ac2g","cat":"ac2g","id":9,"pid":0,"tid":7,"ts":6,"bp":"e"}]}"#;

/// The visible columns of each table in their order: PerfettoSQL's, and those of our own tables.
const VISIBLE: &[&str] = &[
    "slice: id ts dur track_id category name depth parent_id arg_set_id thread_ts thread_dur thread_instruction_count \
     thread_instruction_delta cat slice_id",
    "flow: id slice_out slice_in trace_id arg_set_id",
    "args: id arg_set_id flat_key key int_value string_value real_value value_type display_value",
    "thread: utid id tid name start_ts end_ts upid is_main_thread is_idle machine_id arg_set_id",
    "process: upid id pid name start_ts end_ts parent_upid uid android_appid android_user_id cmdline arg_set_id \
     machine_id",
    "track: id name type dimension_arg_set_id parent_id source_arg_set_id machine_id track_group_id",
    "thread_track: id name type parent_id source_arg_set_id machine_id utid",
    "process_track: id name type parent_id source_arg_set_id machine_id upid",
    "stats: id name key idx severity source value description machine_id trace_id",
    "metadata: id name key_type int_value str_value machine_id trace_id",
    "trace_bounds: start_ts end_ts",
    "header: id key value",
    "slice_name: name_id name of_kernel of_cpu",
    "kernel_launch: id kernel_id launch_id evidence unattributed is_uncertain flow_disagrees path_id forward_path_id \
     capture_path_id utid helper_thread gpu_ns exposed_ns queue_delay_ns family collective_id rank gpu_upid op_id \
     node_id forward_id is_recomputed",
    "backward_node: id name sequence_number forward_id evidence unpaired is_named_alike flow_disagrees last_node_id",
    "call_path: id parent_id depth name",
    "collective: id kernel_id rank communicator group_name group_description group_size seq collective dtype \
     in_elements out_elements bytes peer enqueue_ts launch_id launch_ts ts dur state algorithm protocol path_id \
     capture_path_id gpu_upid stream_utid source file_id communicator_id place channels stream recorded_path unjoined \
     user_tag",
    "op: id ts dur name module call_stack input_dims input_types input_strides concrete_inputs is_malformed \
     sequence_number fwd_thread_id record_function_id ev_idx kwargs cycles instructions cache_misses cache_references \
     branch_misses branches pagefaults backend_stall_cycles frontend_stall_cycles ipc cache_miss_rate \
     branch_misses_per_1000_instructions",
    "memory_event: id ts device_type device_id address bytes total_allocated total_reserved utid",
    "op_call: id caller_id module input_dims input_types shape odd_tensors scalars malformed stack_id telling stack",
    "memory_call: id upid trace device is_complete malformed stack_id telling stack",
    "communicator: id key name description size ranks hash",
    "record_file: id name source version records bytes skipped repaired",
    "rank_status: id source file_id communicator_id rank place ts host pid device last_enqueued last_started \
     last_completed all_reduce all_gather reduce_scatter broadcast reduce faults",
    "nccl_group: id file_id kind rank depth ts end_ts operations",
    "nccl_group_member: id group_id collective_id",
    "nccl_process: id source host pid device rank is_unique faults",
    "kernel_channel: id collective_id channel gpu_ts gpu_end_ts gpu_offset ts end_ts",
    "proxy_op: id collective_id place channel peer is_send steps chunk_bytes bytes queued_ts ts end_ts",
    "proxy_step: id proxy_op_id step ts end_ts gpu_wait peer_wait network flush bytes",
    "profiler_event: id file_id kind rank communicator_id place collective_id proxy_step_id channel name ts end_ts \
     bytes details",
    "flow_op: id file_id op_count rank channel steps slice_bytes chunk_bytes slice_steps chunk_steps pattern protocol \
     ring_previous ring_next",
    "flow_step: id file_id op_count rank channel step is_send peer bytes pattern protocol recorded_stage stage",
    // Empty in every trace.
    "counter: id ts track_id value arg_set_id",
    "counter_track: id name parent_id type dimension_arg_set_id source_arg_set_id machine_id unit description",
    "process_counter_track: id name type parent_id source_arg_set_id machine_id unit description upid",
    "sched: id ts dur cpu utid end_state priority ucpu ts_end",
    "cpu: id ucpu cpu cluster_id processor machine_id capacity arg_set_id",
    "thread_state: id ts dur cpu utid state io_wait blocked_function waker_utid waker_id irq_context ucpu",
    "_trace_import_logs: id trace_id ts byte_offset severity name arg_set_id",
];

/// Each table and its visible columns.
fn visible() -> impl Iterator<Item = (&'static str, &'static str)> {
    VISIBLE.iter().map(|table| table.split_once(": ").unwrap())
}

/// Table functions, which are compared elsewhere.
const FUNCTIONS: &[&str] =
    &["ancestor_slice", "descendant_slice", "directly_connected_flow", "following_flow", "preceding_flow"];

fn loaded(text: &'static str) -> Store {
    let input = from_reader("test".to_owned(), None, Box::new(text.as_bytes())).unwrap();
    load_input(input, LoadOptions::default(), |_| {}).unwrap().store
}

fn parse(text: &'static str) -> Database {
    Database::open(loaded(text)).unwrap()
}

fn sglang_decode() -> Database {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sglang_decode.json.gz");
    Database::open(load(&path, LoadOptions::default(), |_| {}).unwrap().store).unwrap()
}

/// All rows of a query. Values are compared with their types: SQLite's `5` and `5.0` are different answers.
fn rows(connection: &Connection, sql: &str, params: &[Value]) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare_cached(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let columns = statement.column_count();
    let params = &params[..statement.parameter_count()];
    statement
        .query_map(params_from_iter(params), |row| (0..columns).map(|i| row.get(i)).collect())
        .and_then(Iterator::collect)
        .unwrap_or_else(|e| panic!("{sql} {params:?}: {e}"))
}

/// A row as a person writes it: `1|abc|NULL`.
fn shown(row: &[Value]) -> String {
    let shown: Vec<String> = row
        .iter()
        .map(|value| match value {
            Value::Null => "NULL".to_owned(),
            Value::Integer(v) => v.to_string(),
            Value::Real(v) => format!("{v:?}"),
            Value::Text(v) => v.clone(),
            Value::Blob(v) => format!("{v:?}"),
        })
        .collect();
    shown.join("|")
}

/// What a query's text says about the order of its rows.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// Nothing.
    Free,
    /// All of it: no two rows are equal by it.
    Total,
    /// The first column; rows with equal values may come in any order.
    FirstColumn,
}

struct Table {
    name: String,
    /// The hidden ones, too.
    columns: Vec<String>,
}

impl Table {
    /// The list for a SELECT: the row's number, then all columns.
    fn all_columns(&self) -> String {
        let quoted: Vec<String> = self.columns.iter().map(|c| format!("\"{c}\"")).collect();
        format!("rowid, {}", quoted.join(", "))
    }
}

/// A database in which every table has a plain copy. In a query's text `{slice}` means the table, or its copy.
struct Both<'a> {
    connection: &'a Connection,
    tables: Vec<Table>,
    compared: Cell<usize>,
    differences: RefCell<Vec<String>>,
}

impl<'a> Both<'a> {
    fn copy(database: &'a Database) -> Self {
        let connection = database.connection();
        connection.set_prepared_statement_cache_capacity(64);
        let tables = visible().map(|(name, _)| copy_table(connection, name)).collect();
        // The copies have indexes only so that joins of thousands of rows end; which plan is taken must not matter.
        for (table, column) in [
            ("slice", "id"),
            ("slice", "parent_id"),
            ("slice", "correlation"),
            ("slice", "track_id"),
            ("slice", "name"),
            ("slice", "ts"),
            ("flow", "slice_in"),
            ("flow", "slice_out"),
            ("args", "arg_set_id"),
        ] {
            connection
                .execute_batch(&format!("CREATE INDEX {table}_by_{column} ON plain_{table}(\"{column}\")"))
                .unwrap();
        }
        Both { connection, tables, compared: Cell::new(0), differences: RefCell::default() }
    }

    /// A query's text with the names of tables for their markers.
    fn named(&self, template: &str, prefix: &str) -> String {
        let mut pieces = template.split('{');
        let mut text = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match piece.split_once('}') {
                Some((name, rest)) if self.tables.iter().any(|table| table.name == name) => {
                    text.extend([prefix, name, rest]);
                }
                _ => text.extend(["{", piece]),
            }
        }
        text
    }

    /// Puts a query to the tables and to their copies. Returns how many rows the answer has.
    fn same(&self, order: Order, template: &str, params: &[Value]) -> usize {
        let (ours, plain) = (self.named(template, ""), self.named(template, "plain_"));
        let mut got = rows(self.connection, &ours, params);
        let mut want = rows(self.connection, &plain, params);
        self.compared.set(self.compared.get() + 1);
        // Most answers have the same rows in the same order, whatever order is wanted.
        if got == want {
            return want.len();
        }
        let first = |rows: &[Vec<Value>]| rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>();
        let ordered = match order {
            Order::Free => true,
            Order::Total => false,
            Order::FirstColumn => first(&got) == first(&want),
        };
        for rows in [&mut got, &mut want] {
            rows.sort_by_cached_key(|row| format!("{row:?}"));
        }
        if got != want || !ordered {
            self.differences.borrow_mut().push(difference(&ours, params, &got, &want));
        }
        want.len()
    }

    /// All differences at once: one mistake shows in many queries, and together they show which it is.
    fn end(&self, fewest: usize) {
        let (compared, differences) = (self.compared.get(), self.differences.borrow());
        println!("{compared} queries compared");
        let shown = &differences[..differences.len().min(20)];
        assert!(differences.is_empty(), "{} of {compared} differ:\n{}", differences.len(), shown.join("\n"));
        assert!(compared >= fewest, "only {compared} queries compared");
    }
}

/// Describes how two sorted answers differ.
fn difference(sql: &str, params: &[Value], got: &[Vec<Value>], want: &[Vec<Value>]) -> String {
    let at = got.iter().zip(want).position(|(a, b)| a != b).unwrap_or(got.len().min(want.len()));
    let row = |rows: &[Vec<Value>]| rows.get(at).map_or("nothing".to_owned(), |row| shown(row));
    let what = match got == want {
        true => "the order differs".to_owned(),
        false => format!("{} rows for {}; first {} for {}", got.len(), want.len(), row(got), row(want)),
    };
    format!("{sql} {params:?}: {what}")
}

fn copy_table(connection: &Connection, name: &str) -> Table {
    let about = rows(connection, &format!("SELECT name, type FROM pragma_table_xinfo('{name}') ORDER BY cid"), &[]);
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => panic!("{name}: {other:?}"),
    };
    let table = Table { name: name.to_owned(), columns: about.iter().map(|row| text(&row[0])).collect() };
    assert!(!table.columns.is_empty(), "no table {name}");
    let declared: Vec<String> = about.iter().map(|row| format!("\"{}\" {}", text(&row[0]), text(&row[1]))).collect();
    let columns = table.all_columns();
    connection
        .execute_batch(&format!(
            "CREATE TABLE plain_{name}({}); INSERT INTO plain_{name}({columns}) SELECT {columns} FROM {name}",
            declared.join(", ")
        ))
        .unwrap();
    table
}

/// Conditions on a column `{c}`. Of the values given the second differs from the first.
const CONDITIONS: &[&str] = &[
    "{c} = ?1",
    "{c} <> ?1",
    "{c} < ?1",
    "{c} <= ?1",
    "{c} > ?1",
    "{c} >= ?1",
    "{c} IS ?1",
    "{c} IS NOT ?1",
    "{c} LIKE ?1",
    "{c} GLOB ?1",
    "{c} IN (?1)",
    "{c} IN (?1, ?2, NULL)",
    "{c} NOT IN (?1, ?2)",
    "{c} IN (SELECT ?1 UNION ALL SELECT ?2)",
    "{c} BETWEEN ?1 AND ?2",
    "{c} NOT BETWEEN ?2 AND ?1",
    "?1 = {c}",
    "?1 < {c}",
    "+{c} = ?1",
    "NOT {c} = ?1",
    "{c} > ?1 AND {c} <= ?2",
    "{c} >= ?1 AND {c} >= ?2",
    "{c} = ?1 AND {c} = ?2",
    "{c} = ?1 OR {c} = ?2",
    "{c} = ?1 OR {c} IS NULL",
    "{c} = ?1 COLLATE NOCASE",
    "{c} COLLATE RTRIM IN (?1, ?2)",
    "{c} = CAST(?1 AS INTEGER)",
    "{c} = CAST(?1 AS TEXT)",
    "{c} >= CAST(?1 AS REAL)",
    "{c} < CAST(?1 AS NUMERIC)",
    "rowid > ?1 AND {c} = ?2",
    "rowid = ?1 OR {c} = ?1",
];

/// Conditions on a column that take no value.
const CONDITIONS_ALONE: &[&str] = &[
    "{c} IS NULL",
    "{c} IS NOT NULL",
    "{c}",
    "NOT {c}",
    "{c} = {c}",
    "{c} = rowid",
    "{c} IN (SELECT value FROM {header})",
    "{c} IN (SELECT display_value FROM {args})",
    "{c} IN (SELECT int_value FROM {args})",
    "{c} NOT IN (SELECT int_value FROM {args} WHERE int_value NOT NULL)",
    "{c} IN (SELECT real_value FROM {args})",
    "{c} IN (SELECT name FROM {slice})",
    "{c} = (SELECT max(parent_id) FROM {slice})",
    "{c} IN (5, '5', 5.0, x'35', 'abc', NULL)",
];

/// Values that no table may hold, or hold as another type, or hold at the ends of a range.
fn strange_values() -> Vec<Value> {
    let mut values: Vec<Value> = [5, 0, -1, 1_000_000_007, i64::MIN, i64::MAX].map(Value::Integer).into();
    values.extend([5.0, 5.5, -0.5, 1e300, -1e300].map(Value::Real));
    values.extend(["5", "5.0", "abc", "ABC", "", "%a%", "[a-c]*"].map(|text| Value::Text(text.to_owned())));
    values.extend([Value::Blob(b"5".to_vec()), Value::Null]);
    values
}

/// The least, the middle and the greatest value of a column, and values that are near or equal but of another type.
fn values_of(both: &Both<'_>, table: &Table, column: &str) -> Vec<Value> {
    let distinct =
        format!("SELECT DISTINCT \"{column}\" FROM plain_{} WHERE \"{column}\" NOT NULL ORDER BY 1", table.name);
    let known = rows(both.connection, &distinct, &[]);
    let mut values = Vec::new();
    for at in BTreeSet::from([0, known.len() / 2, known.len().saturating_sub(1)]) {
        let Some(value) = known.get(at).map(|row| row[0].clone()) else { continue };
        match &value {
            Value::Integer(v) => {
                values.extend([
                    Value::Integer(v.saturating_add(1)),
                    Value::Real(*v as f64),
                    Value::Text(v.to_string()),
                ]);
            }
            Value::Real(v) => values.push(Value::Text(v.to_string())),
            Value::Text(v) => values.extend([Value::Text(v.to_uppercase()), Value::Blob(v.clone().into_bytes())]),
            _ => {}
        }
        values.push(value);
    }
    values
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(v) => v.to_string(),
        Value::Real(v) => format!("{v:?}"),
        Value::Text(v) => format!("'{}'", v.replace('\'', "''")),
        Value::Blob(v) => format!("x'{}'", v.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
    }
}

/// Each table, each column, each condition, each value, or of these pairs of conditions and values every so many; as parameters, whose values SQLite does not know when it plans.
fn compare_conditions(
    both: &Both<'_>,
    tables: &[&str],
    wanted: &str,
    every: usize,
    with: impl Fn(&Both<'_>, &Table, &str) -> Vec<Value>,
) {
    for table in both.tables.iter().filter(|table| tables.contains(&&*table.name)) {
        let selected = if wanted.is_empty() { table.all_columns() } else { wanted.to_owned() };
        for (number, column) in table.columns.iter().enumerate() {
            let values = with(both, table, column);
            let query = |condition: &str| {
                let condition = condition.replace("{c}", &format!("\"{column}\""));
                format!("SELECT {selected} FROM {{{}}} WHERE {condition}", table.name)
            };
            for (condition_number, condition) in CONDITIONS_ALONE.iter().enumerate() {
                if (number + condition_number).is_multiple_of(every) {
                    both.same(Order::Free, &query(condition), &[]);
                }
            }
            for (condition_number, condition) in CONDITIONS.iter().enumerate() {
                let sql = query(condition);
                for (at, value) in values.iter().enumerate() {
                    if !(number + condition_number + at).is_multiple_of(every) {
                        continue;
                    }
                    let other = values[(at + values.len() / 2) % values.len()].clone();
                    both.same(Order::Free, &sql, &[value.clone(), other]);
                }
            }
        }
    }
}

fn names_of_tables() -> Vec<&'static str> {
    visible().map(|(name, _)| name).collect()
}

/// By day, each condition has a fifth of the values on each column.
#[test]
fn every_condition_on_every_column_is_answered_as_by_plain_tables() {
    let database = parse(MIXED);
    let both = Both::copy(&database);
    let every = if is_long() { 1 } else { 5 };
    compare_conditions(&both, &names_of_tables(), "", every, |both, table, column| {
        let mut values = strange_values();
        values.extend(values_of(both, table, column));
        values
    });
    both.end(250_000 / every);
}

/// Constants in the text take other paths through SQLite's planner than parameters: it converts them to the column's type. By day, a third of the conditions on
/// each column.
#[test]
fn constants_are_compared_as_by_plain_tables() {
    let database = parse(MIXED);
    let both = Both::copy(&database);
    let every = if is_long() { 1 } else { 3 };
    for table in &both.tables {
        let columns = table.all_columns();
        for (number, column) in table.columns.iter().enumerate() {
            let mut values = strange_values();
            values.extend(values_of(&both, table, column));
            for (at, value) in values.iter().enumerate() {
                let other = literal(&values[(at * 5 + 3) % values.len()]);
                let value = literal(value);
                let conditions = [
                    format!("\"{column}\" = {value}"),
                    format!("\"{column}\" > {value} AND \"{column}\" < {other}"),
                    format!("\"{column}\" IN ({value}, {other})"),
                    format!("\"{column}\" LIKE {value} OR \"{column}\" GLOB {other}"),
                ];
                for (kind, condition) in conditions.iter().enumerate() {
                    if (number + at + kind).is_multiple_of(every) {
                        let sql = format!("SELECT {columns} FROM {{{}}} WHERE {condition}", table.name);
                        both.same(Order::Free, &sql, &[]);
                    }
                }
            }
        }
    }
    both.end(10_000 / every);
}

/// Thousands of rows, where indexes and ranges leave most of them out. Fewer columns, and by day a seventh of the conditions, to save time: the test before has all on all kinds of values.
#[test]
fn conditions_on_a_larger_trace_are_answered_as_by_plain_tables() {
    let database = sglang_decode();
    let both = Both::copy(&database);
    let all = ["thread", "process", "track", "thread_track", "process_track", "metadata", "header", "slice_name"];
    let every = if is_long() { 1 } else { 7 };
    compare_conditions(&both, &all, "", every, values_of);
    compare_conditions(
        &both,
        &["slice", "flow", "args", "kernel_launch", "call_path", "collective"],
        "rowid",
        every,
        |both, table, column| {
            let mut values = values_of(both, table, column);
            // There are so many arguments that all values of all types would take longer than all other tests.
            if table.name == "args" {
                values.truncate(3);
            }
            values.push(Value::Null);
            values
        },
    );
    both.end(15_000 / every);
}

/// A column of one table against one of another: the value to find comes with the type that it has there.
#[test]
fn columns_of_other_types_are_compared_as_by_plain_tables() {
    // By day, each operator with one of the two joins, which differs from column to column.
    let every = if is_long() { 1 } else { 2 };
    let database = parse(MIXED);
    let both = Both::copy(&database);
    for (source, value) in [
        ("header", "value"),
        ("args", "display_value"),
        ("args", "real_value"),
        ("metadata", "str_value"),
        ("slice_name", "name"),
        ("flow", "trace_id"),
    ] {
        for table in &both.tables {
            for (number, column) in table.columns.iter().enumerate() {
                for (at, operator) in ["=", "<", ">=", "IS"].into_iter().enumerate() {
                    for (join_number, join) in ["CROSS JOIN", "LEFT JOIN"].into_iter().enumerate() {
                        if !(number + at + join_number).is_multiple_of(every) {
                            continue;
                        }
                        let sql = format!(
                            "SELECT f.rowid, t.rowid FROM {{{source}}} f {join} {{{}}} t ON t.\"{column}\" {operator} f.\"{value}\"",
                            table.name
                        );
                        both.same(Order::Free, &sql, &[]);
                    }
                }
            }
        }
    }
    both.end(4_000 / every);
}

/// Which rows the queries on a column are about.
const SELECTIONS: [&str; 4] = ["", "WHERE rowid > 5", "WHERE rowid <= 20 AND rowid > 2", "WHERE rowid IN (9, 3, 3, 7)"];

/// The queries on one column: its order, its groups, its extremes.
fn compare_column(both: &Both<'_>, table: &Table, column: &str, selections: &[&str]) {
    let (all, name) = (table.all_columns(), &table.name);
    for condition in selections {
        let from = format!("FROM {{{name}}} {condition}");
        for direction in ["", "DESC", "NULLS LAST", "COLLATE NOCASE"] {
            let order = format!("ORDER BY \"{column}\" {direction}");
            both.same(Order::FirstColumn, &format!("SELECT \"{column}\", {all} {from} {order}"), &[]);
            both.same(Order::Total, &format!("SELECT {all} {from} {order}, rowid"), &[]);
            both.same(Order::Total, &format!("SELECT {all} {from} {order}, rowid DESC LIMIT 7 OFFSET 2"), &[]);
            both.same(Order::Total, &format!("SELECT \"{column}\" {from} {order} LIMIT 5"), &[]);
        }
        for query in [
            format!("SELECT DISTINCT \"{column}\" {from}"),
            format!("SELECT \"{column}\", count(*), min(rowid), max(rowid) {from} GROUP BY \"{column}\""),
            format!(
                "SELECT \"{column}\", count(*) {from} GROUP BY \"{column}\" HAVING count(*) > 1 ORDER BY 2 DESC, 1"
            ),
            format!("SELECT min(\"{column}\") {from}"),
            format!("SELECT max(\"{column}\") {from}"),
            format!("SELECT count(*), count(\"{column}\"), count(DISTINCT \"{column}\"), total(\"{column}\") {from}"),
            format!("SELECT rowid, rank() OVER (ORDER BY \"{column}\") {from}"),
            format!("SELECT rowid, lag(rowid) OVER (PARTITION BY \"{column}\" ORDER BY rowid) {from}"),
        ] {
            both.same(Order::Free, &query, &[]);
        }
    }
    for (first, second) in [("=", "rowid"), ("<>", "rowid DESC")] {
        let sql = format!(
            "SELECT rowid FROM {{{name}}} WHERE \"{column}\" {first} (SELECT max(\"{column}\") FROM {{{name}}}) ORDER BY {second}"
        );
        both.same(Order::Total, &sql, &[]);
    }
}

#[test]
fn orders_groups_and_ends_are_those_of_plain_tables() {
    let database = parse(MIXED);
    let both = Both::copy(&database);
    for table in &both.tables {
        for column in &table.columns {
            compare_column(&both, table, column, &SELECTIONS);
        }
    }
    both.end(9_000);
}

/// The same on thousands of rows; by day, each column has one of the selections.
#[test]
fn orders_on_a_larger_trace_are_those_of_plain_tables() {
    let database = sglang_decode();
    let both = Both::copy(&database);
    // Sorting all columns of the arguments adds time, not paths through the code.
    for table in both.tables.iter().filter(|table| table.name != "args") {
        for (number, column) in table.columns.iter().enumerate() {
            let one = &SELECTIONS[number % SELECTIONS.len()..][..1];
            compare_column(&both, table, column, if is_long() { &SELECTIONS } else { one });
        }
    }
    both.end(if is_long() { 20_000 } else { 5_000 });
}

/// Queries as people write them, over several tables.
const SHAPES: [(Order, &[&str]); 3] =
    [(Order::Free, FREE), (Order::Total, TOTAL), (Order::FirstColumn, BY_FIRST_COLUMN)];

/// Those whose rows come in any order.
const FREE: &[&str] = &[
    "SELECT * FROM {flow}",
    "SELECT * FROM {args}",
    "SELECT * FROM {thread} t JOIN {process} p USING (upid)",
    "SELECT count(*) FROM {slice}",
    "SELECT count(*) FROM {slice} WHERE 0",
    "SELECT s.id, p.id, p.name FROM {slice} s JOIN {slice} p ON p.id = s.parent_id",
    "SELECT s.id, p.id FROM {slice} s JOIN {slice} p ON s.parent_id = p.slice_id WHERE p.depth = 1",
    "SELECT s.id, p.name FROM {slice} s LEFT JOIN {slice} p ON p.id = s.parent_id",
    "SELECT s.id, p.id FROM {slice} s LEFT JOIN {slice} p ON p.id = s.parent_id WHERE p.id IS NULL",
    "SELECT p.id, c.id FROM {slice} p LEFT JOIN {slice} c ON c.parent_id = p.id AND c.dur > 1000",
    "SELECT s.id, f.id FROM {flow} f RIGHT JOIN {slice} s ON f.slice_in = s.id",
    "SELECT a.rowid, b.rowid FROM {thread_track} a FULL JOIN {track} b ON a.id = b.id",
    "SELECT a.id, b.id FROM {thread_track} a FULL JOIN {process_track} b ON a.utid = b.upid",
    "SELECT id FROM {slice} WHERE id = 3 OR name = 'abc' OR track_id = 2 OR parent_id = 1",
    "SELECT id FROM {slice} WHERE (id = 3 OR name = 'gemm') AND (ts > 5000 OR depth = 0)",
    "SELECT id FROM {slice} WHERE ts > 10000 OR ts < 2000 OR ts = 5000",
    "SELECT id FROM {slice} WHERE ts >= 1000 AND ts < 31000 AND id > 3 AND id <= 30",
    "SELECT id FROM {slice} WHERE ts > 1000 AND ts > 5000 AND ts < 60000 AND ts <= 50000",
    "SELECT id FROM {slice} WHERE ts > 60000 AND ts < 1000",
    "SELECT id FROM {slice} WHERE ts BETWEEN 1000 AND 31000 AND name = 'aten::add'",
    "SELECT id FROM {slice} WHERE rowid >= 3 AND rowid < 9",
    "SELECT rowid, id FROM {thread_track} WHERE rowid = 1 OR rowid > 3",
    "SELECT rowid, name_id FROM {slice_name} WHERE oid BETWEEN 2 AND 5",
    "SELECT l.id, k.id FROM {flow} f JOIN {slice} l ON l.id = f.slice_out JOIN {slice} k ON k.id = f.slice_in",
    "SELECT s.name, f.id FROM {slice} s LEFT JOIN {flow} f ON f.slice_out = s.id WHERE s.depth > 0",
    "SELECT s.id, t.name, p.name FROM {slice} s JOIN {thread_track} tt ON s.track_id = tt.id JOIN {thread} t USING \
     (utid) JOIN {process} p USING (upid)",
    "SELECT p.name, t.tid, count(*), sum(s.dur) FROM {process} p JOIN {thread} t ON t.upid = p.upid JOIN \
     {thread_track} tt ON tt.utid = t.utid JOIN {slice} s ON s.track_id = tt.id GROUP BY p.name, t.tid",
    "SELECT s.id, pt.upid FROM {slice} s JOIN {process_track} pt ON pt.id = s.track_id",
    "SELECT t.id, t.type, count(s.id) FROM {track} t LEFT JOIN {slice} s ON s.track_id = t.id GROUP BY t.id",
    "SELECT k.id, l.id FROM {slice} k JOIN {slice} l ON l.correlation = k.correlation WHERE k.kind = 'kernel' AND \
     l.kind = 'runtime'",
    "SELECT k.id, l.id FROM {slice} k LEFT JOIN {slice} l ON l.correlation = k.correlation AND l.kind = 'runtime' \
     WHERE k.kind = 'kernel'",
    "SELECT s.id, a.key, a.display_value FROM {slice} s JOIN {args} a USING (arg_set_id)",
    "SELECT s.id FROM {slice} s JOIN {args} a ON a.arg_set_id = s.arg_set_id WHERE a.key = 'args.correlation'",
    "SELECT f.id, a.string_value FROM {flow} f JOIN {args} a ON a.arg_set_id = f.arg_set_id",
    "SELECT id, EXTRACT_ARG(arg_set_id, 'args.correlation') FROM {slice}",
    "SELECT id FROM {slice} WHERE EXTRACT_ARG(arg_set_id, 'args.correlation') = 5",
    "SELECT id, (SELECT p.name FROM {slice} p WHERE p.id = s.parent_id) FROM {slice} s",
    "SELECT id, (SELECT count(*) FROM {slice} c WHERE c.parent_id = s.id) FROM {slice} s",
    "SELECT id, (SELECT max(b.id) FROM {slice} b WHERE b.track_id = s.track_id AND b.id < s.id) FROM {slice} s WHERE \
     s.id < 100",
    "SELECT id FROM {slice} s WHERE EXISTS (SELECT 1 FROM {flow} f WHERE f.slice_in = s.id)",
    "SELECT id FROM {slice} s WHERE NOT EXISTS (SELECT 1 FROM {slice} c WHERE c.parent_id = s.id)",
    "SELECT id FROM {slice} WHERE id IN (SELECT slice_in FROM {flow})",
    "SELECT id FROM {slice} WHERE id NOT IN (SELECT slice_out FROM {flow})",
    "SELECT id FROM {slice} WHERE (name, depth) IN (SELECT name, max(depth) FROM {slice} GROUP BY name)",
    "SELECT id FROM {slice} WHERE (ts, id) > (5000, 3) AND (ts, id) < (31000, 1)",
    "SELECT DISTINCT s.name, p.name FROM {slice} s LEFT JOIN {slice} p ON p.id = s.parent_id",
    "SELECT DISTINCT ts FROM {slice} WHERE ts > 1000",
    "SELECT ts, count(*) FROM {slice} GROUP BY ts",
    "SELECT track_id, depth, min(ts), max(ts + dur) FROM {slice} GROUP BY track_id, depth",
    "SELECT min(ts), max(ts) FROM {slice}",
    "SELECT min(ts) FROM {slice} WHERE kind = 'kernel'",
    "SELECT max(ts) FROM {slice} WHERE ts < 50000",
    "SELECT min(id) FROM {slice} WHERE name IN ('gemm', 'aten::add')",
    "SELECT n.name FROM {slice_name} n WHERE EXISTS (SELECT 1 FROM {slice} s WHERE s.name_id = n.name_id)",
    "SELECT s.id, n.name FROM {slice} s JOIN {slice_name} n USING (name_id)",
    "SELECT s.id, n.name_id FROM {slice_name} n JOIN {slice} s ON s.name = n.name",
    "SELECT a.id, b.id FROM {slice} a JOIN {slice} b ON a.ts = b.ts AND a.id < b.id",
    "SELECT a.id, count(b.id) FROM {slice} a JOIN {slice} b ON b.ts BETWEEN a.ts AND a.ts + 2000 GROUP BY a.id",
    "SELECT name, severity, value FROM {stats} WHERE value > 0",
    "SELECT m.name, h.key FROM {metadata} m JOIN {header} h ON h.value = coalesce(m.int_value, m.str_value)",
    "WITH RECURSIVE up(start, id, parent_id) AS (SELECT id, id, parent_id FROM {slice} UNION ALL SELECT up.start, \
     s.id, s.parent_id FROM up JOIN {slice} s ON s.id = up.parent_id) SELECT start, id FROM up",
    "WITH RECURSIVE down(root, id) AS (SELECT id, id FROM {slice} WHERE parent_id IS NULL UNION ALL SELECT down.root, \
     s.id FROM down JOIN {slice} s ON s.parent_id = down.id) SELECT root, id FROM down",
];

/// Those that say all of it.
const TOTAL: &[&str] = &[
    "SELECT p.id, c.id FROM {slice} p JOIN {slice} c ON c.parent_id = p.id ORDER BY p.id, c.id",
    "SELECT p.id, c.id FROM {slice} p JOIN {slice} c ON c.parent_id = p.id ORDER BY c.id",
    "SELECT id, ts, name, kind, correlation FROM {slice} ORDER BY ts, id",
    "SELECT id FROM {slice} ORDER BY ts DESC, id DESC",
    "SELECT id FROM {slice} ORDER BY id LIMIT 3 OFFSET 4",
    "SELECT id FROM {slice} WHERE ts >= 20000 ORDER BY id LIMIT 3",
    "SELECT id FROM {slice} WHERE ts >= 20000 ORDER BY slice_id DESC LIMIT 3",
    "SELECT id FROM {slice} WHERE name IN ('gemm', 'aten::add', 'abc') ORDER BY id",
    "SELECT id FROM {slice} WHERE name IN ('gemm', 'aten::add', 'abc') ORDER BY id DESC",
    "SELECT id FROM {slice} WHERE id IN (40, 3, 5, 3, NULL, '7', 9.0) ORDER BY id",
    "SELECT id FROM {slice} WHERE id IN (40, 3, 5) OR depth = 2 ORDER BY id",
    "SELECT rowid, id FROM {process_track} ORDER BY rowid DESC",
    "SELECT rowid, id FROM {thread_track} WHERE utid > 1 ORDER BY id",
    "SELECT s.id, t.tid, p.pid FROM {slice} s LEFT JOIN {thread_track} tt ON tt.id = s.track_id LEFT JOIN {thread} t \
     ON t.utid = tt.utid LEFT JOIN {process} p ON p.upid = t.upid ORDER BY s.id",
    "SELECT id FROM {slice} EXCEPT SELECT slice_in FROM {flow} ORDER BY 1",
    "SELECT id FROM {slice} UNION SELECT slice_out FROM {flow} ORDER BY 1 DESC",
    "SELECT ts FROM {slice} INTERSECT SELECT dur FROM {slice} ORDER BY 1",
    "SELECT id AS i FROM {slice} UNION ALL SELECT id FROM {flow} ORDER BY i",
    "SELECT ts, count(*) FROM {slice} GROUP BY ts ORDER BY ts DESC",
    "SELECT name, kind, count(*) FROM {slice} GROUP BY name, kind ORDER BY name, kind",
    "WITH k AS MATERIALIZED (SELECT id, ts, dur FROM {slice} WHERE kind = 'kernel' ORDER BY id) SELECT k.id, \
     f.slice_out FROM k JOIN {flow} f ON f.slice_in = k.id ORDER BY k.id, f.slice_out",
    "SELECT s.id FROM (SELECT 3 AS wanted UNION ALL SELECT 1) w CROSS JOIN {slice} s ON s.id >= w.wanted AND s.id < 9 \
     ORDER BY s.id, w.wanted",
    "SELECT s.id FROM (VALUES (5), (2)) w CROSS JOIN {slice} s ON s.depth = w.column1 ORDER BY s.id",
];

/// Those that are ordered by their first column.
const BY_FIRST_COLUMN: &[&str] = &[
    "SELECT p.ts, c.id FROM {slice} p JOIN {slice} c ON c.parent_id = p.id ORDER BY p.ts",
    "SELECT c.ts, p.id FROM {slice} p JOIN {slice} c ON c.parent_id = p.id ORDER BY c.ts DESC",
];

/// The one query above that is empty on every trace.
const NEVER: &str = "ts > 60000 AND ts < 1000";

#[test]
fn queries_over_several_tables_are_answered_as_by_plain_tables() {
    let mut answered = BTreeSet::new();
    let shapes = || SHAPES.iter().flat_map(|(order, queries)| queries.iter().map(|sql| (*order, *sql)));
    for database in [parse(MIXED), sglang_decode()] {
        let both = Both::copy(&database);
        for (order, sql) in shapes() {
            if both.same(order, sql, &[]) > 0 {
                answered.insert(sql);
            }
        }
        both.end(shapes().count());
    }
    // Two empty answers are equal whatever the tables do.
    let never: Vec<&str> = shapes().map(|(_, sql)| sql).filter(|sql| !answered.contains(sql)).collect();
    assert!(never.len() == 1 && never[0].contains(NEVER), "no rows from {never:#?}");
}

/// The rows of a query as a person writes them.
fn lines(connection: &Connection, sql: &str) -> Vec<String> {
    rows(connection, sql, &[]).iter().map(|row| shown(row)).collect()
}

/// What the copies are made from: rows worked out by hand.
#[test]
fn the_rows_of_a_tiny_trace() {
    let database = parse(TINY);
    for (sql, want) in [
        (
            "SELECT * FROM slice",
            &[
                "0|1000|10000|0|cpu_op|outer|0|NULL|0|NULL|NULL|NULL|NULL|cpu_op|0",
                "1|2000|3000|0|cuda_runtime|launch|1|0|4|NULL|NULL|NULL|NULL|cuda_runtime|1",
                "2|6000|4000|1|kernel|k|0|NULL|4|NULL|NULL|NULL|NULL|kernel|2",
            ][..],
        ),
        ("SELECT id, kind, correlation FROM slice", &["0|cpu|NULL", "1|runtime|9", "2|kernel|9"]),
        ("SELECT s.id, n.name FROM slice s JOIN slice_name n USING (name_id)", &["0|outer", "1|launch", "2|k"]),
        ("SELECT name, of_kernel, of_cpu FROM slice_name ORDER BY name", &["k|1|0", "launch|0|1", "outer|0|1"]),
        ("SELECT * FROM flow", &["0|1|2|0|5"]),
        (
            "SELECT * FROM args",
            &[
                "0|0|args.n|args.n|7|NULL|NULL|int|7",
                "1|0|args.deep.list|args.deep.list[0]|1|NULL|NULL|bool|true",
                "2|0|args.deep.list|args.deep.list[1]|NULL|NULL|2.5|real|2.5",
                "3|0|args.s|args.s|NULL|x|NULL|string|x",
                "4|4|args.correlation|args.correlation|9|NULL|NULL|int|9",
                "5|5|name|name|NULL|ac2g|NULL|string|ac2g",
                "6|5|cat|cat|NULL|ac2g|NULL|string|ac2g",
            ],
        ),
        // 0 is the idle process with its thread; each process brings its main thread.
        ("SELECT upid, pid FROM process", &["0|0", "1|1", "2|0"]),
        (
            "SELECT utid, tid, upid, is_main_thread, is_idle FROM thread",
            &["0|0|0|1|1", "1|1|1|1|0", "2|2|1|0|0", "3|0|2|1|0", "4|7|2|0|0"],
        ),
        (
            "SELECT * FROM thread_track",
            &["0|NULL|thread_execution|NULL|NULL|0|2", "1|NULL|thread_execution|NULL|NULL|0|4"],
        ),
        ("SELECT id, type FROM track", &["0|thread_execution", "1|thread_execution"]),
        ("SELECT * FROM process_track", &[]),
        ("SELECT name FROM stats WHERE value <> 0", &[]),
        ("SELECT * FROM trace_bounds", &["1000|11000"]),
        ("SELECT * FROM metadata", &["0|json_metadata.note|single|NULL|x|0|0"]),
        ("SELECT * FROM header", &["0|distributedInfo.rank|3", "1|metadata.note|x"]),
    ] {
        assert_eq!(lines(database.connection(), sql), want, "{sql}");
    }
}

/// The tables that a connection has without having created them.
fn modules(connection: &Connection) -> BTreeSet<String> {
    lines(connection, "SELECT name FROM pragma_module_list WHERE name NOT LIKE 'pragma%'").into_iter().collect()
}

#[test]
fn columns_are_those_of_perfettosql_in_its_order() {
    let database = parse(TINY);
    for (table, want) in visible() {
        let statement = database.connection().prepare(&format!("SELECT * FROM {table} LIMIT 0")).unwrap();
        assert_eq!(statement.column_names().collect::<Vec<_>>().join(" "), want, "{table}");
    }
    // No table is left out above, so none is missing from the comparisons.
    let plain = Connection::open_in_memory().unwrap();
    let ours = &modules(database.connection()) - &modules(&plain);
    let known = visible().map(|(name, _)| name).chain(FUNCTIONS.iter().copied());
    assert_eq!(ours, known.map(str::to_owned).collect());
}

#[test]
fn extract_arg_gives_the_value_of_exactly_one_key() {
    let database = parse(TINY);
    let connection = database.connection();
    for (arguments, want) in [
        ("0, 'args.n'", "integer|7"),
        ("0, 'args.deep.list[0]'", "integer|1"),
        ("0, 'args.deep.list[1]'", "real|2.5"),
        ("0, 'args.s'", "text|x"),
        ("4, 'args.correlation'", "integer|9"),
        ("5, 'cat'", "text|ac2g"),
        // Keys of other sets, of no set, and keys above several values.
        ("0, 'args.correlation'", "null|NULL"),
        ("0, 'args.none'", "null|NULL"),
        ("0, 'args.deep.list'", "null|NULL"),
        ("0, 'ARGS.N'", "null|NULL"),
        ("0, ''", "null|NULL"),
        ("0, NULL", "null|NULL"),
        ("NULL, 'args.n'", "null|NULL"),
        ("NULL, NULL", "null|NULL"),
        // Rows within a set are no sets; 7 is one past the last row.
        ("1, 'args.deep.list[0]'", "null|NULL"),
        ("6, 'cat'", "null|NULL"),
        ("7, 'cat'", "null|NULL"),
        ("-1, 'args.n'", "null|NULL"),
        ("4294967296, 'args.n'", "null|NULL"),
        ("9223372036854775807, 'args.n'", "null|NULL"),
        ("-9223372036854775808, 'args.n'", "null|NULL"),
    ] {
        let sql = format!("SELECT typeof(EXTRACT_ARG({arguments})), EXTRACT_ARG({arguments})");
        assert_eq!(lines(connection, &sql), [want], "{arguments}");
    }
    let by_slice = "SELECT id, EXTRACT_ARG(arg_set_id, 'args.correlation') FROM slice";
    assert_eq!(lines(connection, by_slice), ["0|NULL", "1|9", "2|9"]);
    for wrong in ["EXTRACT_ARG('x', 'args.n')", "EXTRACT_ARG(0, x'ff')", "EXTRACT_ARG(0)"] {
        let answer = connection.query_row(&format!("SELECT {wrong}"), [], |row| row.get::<_, Value>(0));
        assert!(answer.is_err(), "{wrong}: {answer:?}");
    }
    let without_args = parse(r#"[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}]"#);
    assert_eq!(lines(without_args.connection(), "SELECT EXTRACT_ARG(0, 'args.n')"), ["NULL"]);
}

#[test]
fn tables_cannot_be_written() {
    let database = parse(TINY);
    let connection = database.connection();
    for (table, columns) in visible() {
        let column = columns.split(' ').next().unwrap();
        let before = lines(connection, &format!("SELECT * FROM {table}"));
        for sql in [
            format!("INSERT INTO {table} DEFAULT VALUES"),
            format!("INSERT INTO {table}({column}) VALUES (1)"),
            format!("INSERT OR REPLACE INTO {table}({column}) SELECT {column} FROM {table}"),
            format!("UPDATE {table} SET {column} = 5"),
            format!("UPDATE {table} SET {column} = 5 WHERE {column} = 0"),
            format!("DELETE FROM {table}"),
            format!("DELETE FROM {table} WHERE {column} = 0"),
            format!("ALTER TABLE {table} ADD COLUMN more"),
            format!("CREATE INDEX made ON {table}({column})"),
            format!("CREATE TRIGGER made AFTER INSERT ON {table} BEGIN SELECT 1; END"),
            format!("DROP TABLE {table}"),
        ] {
            assert!(connection.execute_batch(&sql).is_err(), "{sql}");
        }
        assert_eq!(lines(connection, &format!("SELECT * FROM {table}")), before, "{table}");
    }
}

/// The parameters that a query's header comment describes, and the rest of that comment.
fn described(sql: &str) -> (BTreeSet<String>, String) {
    let header: Vec<&str> = sql.lines().map_while(|line| line.strip_prefix("--")).collect();
    let header = header.join("\n");
    let parameter = regex::Regex::new(r":[A-Za-z_]\w*").unwrap();
    (parameter.find_iter(&header).map(|found| found.as_str().to_owned()).collect(), header)
}

#[test]
fn each_query_is_listed_and_describes_its_parameters() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
    let files: BTreeSet<String> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let listed: BTreeSet<String> = queries::ALL.iter().map(|query| format!("{}.sql", query.name)).collect();
    assert_eq!(files, listed);
    assert_eq!(listed.len(), queries::ALL.len(), "a query is listed twice");
    let compare = Compare::new(|_| Ok(RankRows::default()));
    let database = Database::open_with_ranks(loaded(TINY), None, compare).unwrap();
    for query in queries::ALL {
        let name = query.name;
        assert_eq!(query.sql, std::fs::read_to_string(folder.join(format!("{name}.sql"))).unwrap(), "{name}");
        let statement = database.connection().prepare(query.sql).unwrap_or_else(|e| panic!("{name}: {e}"));
        let parameters: Option<BTreeSet<String>> =
            (1..=statement.parameter_count()).map(|i| statement.parameter_name(i).map(str::to_owned)).collect();
        let parameters = parameters.unwrap_or_else(|| panic!("{name}: a parameter without a name"));
        let (described, header) = described(query.sql);
        assert_eq!(described, parameters, "{name}");
        assert_eq!(header.contains("No parameters."), parameters.is_empty(), "{name}");
        for part in ["Row: ", "Order: "] {
            assert!(header.contains(part), "{name}: no `{part}`");
        }
        assert!(header.lines().next().is_some_and(|line| line.len() > 10), "{name}: what is it for?");
        assert!(statement.readonly(), "{name}");
        if header.contains("column ") {
            let query = NamedQuery::new(name.to_owned(), query.sql.into()).unwrap();
            let columns: Vec<&str> = query.header.columns.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(columns, statement.column_names().collect::<Vec<_>>(), "{name}");
            for column in &query.header.columns {
                assert!(Unit::parse(&column.unit).is_some(), "{name}: {}", column.unit);
            }
            let typed: BTreeSet<String> = query.header.params.iter().map(|param| format!(":{}", param.name)).collect();
            assert_eq!(typed, parameters, "{name}");
            let Header { about, nothing, .. } = &query.header;
            assert!([about, nothing].iter().all(|text| text.ends_with('.')), "{name}: {about} {nothing}");
        }
    }
    let titled = queries::ALL.iter().filter(|query| query.sql.contains("\n-- column "));
    assert_eq!(queries::named().count(), titled.count());
}

/// A header that has not its form is an error, and no query of the list is left out for that.
#[test]
fn headers_have_one_form() {
    let parse = |sql: &str| NamedQuery::new("q".to_owned(), sql.to_owned().into());
    let query = parse(
        "-- What it is,\n-- on two lines.\n-- Row: one row,\n-- or none.\n-- Reads: memory\n-- :least  time  1.5ms  how long\n\
         -- :names  list  none  which\n-- column a b  \"A and B\"  ns\n-- A note.\nSELECT :least, :names, 1 AS \"a b\" -- :other\n",
    )
    .unwrap();
    assert_eq!(query.header.about, "What it is, on two lines.");
    assert_eq!(query.header.reads, ArgsWanted::MEMORY);
    assert_eq!((&*query.header.columns[0].name, &*query.header.columns[0].title), ("a b", "A and B"));
    let text = |text: &str| Value::Text(text.to_owned());
    let given = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let values =
        |pairs| query.values(&given(pairs)).map(|all| all.into_iter().map(|(_, value)| value).collect::<Vec<_>>());
    assert_eq!(values(&[]).unwrap(), [Value::Integer(1_500_000), Value::Null]);
    let names = [("names", "x"), ("least", "7"), ("names", "y")];
    assert_eq!(values(&names).unwrap(), [Value::Integer(7), text(r#"["x","y"]"#)]);
    assert!(values(&[("least", "long")]).unwrap_err().contains("least is a time"));
    assert!(values(&[("least", "1"), ("least", "2")]).unwrap_err().contains("more than once"));
    assert!(query.takes("least") && query.takes("other") && !query.takes("leas") && !query.takes_window());
    for (wrong, message) in [
        ("-- :a  text  none", "is not `:name  type  default  what`"),
        ("-- :a  words  none  which", "with a type of integer, number, text, list, time, window"),
        ("-- column a  \"A\"", "is not `column name  \"title\"  unit`"),
        ("-- Reads: everything.", "\"Reads: everything\" is none of"),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    // A query without a header: numbers are numbers.
    let bare = parse("SELECT :a, :b, ':c', x::d").unwrap();
    assert_eq!(
        bare.values(&given(&[("a", "5"), ("b", "0.5"), ("e", "1")])).unwrap(),
        [("a".to_owned(), Value::Integer(5)), ("b".to_owned(), Value::Real(0.5))]
    );
    let required = parse("-- :a  integer  required  how many\n-- column a  \"A\"  count\nSELECT :a AS a").unwrap();
    assert!(required.values(&[]).unwrap_err().contains("a has no value"));
}

/// How many rows a query has, and how many steps SQLite's virtual machine takes for them. Steps are the same on every
/// computer, and every row that a table returns costs some: a bad plan shows in them as surely as on a clock.
fn steps(connection: &Connection, sql: &str, params: &[(&str, &dyn ToSql)]) -> (usize, i32) {
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query(params).unwrap();
    let mut count = 0;
    while rows.next().unwrap().is_some() {
        count += 1;
    }
    drop(rows);
    (count, statement.get_status(StatementStatus::VmStep))
}

/// The calls that launched kernels, found by correlation id.
const LAUNCHED: &str = "SELECT l.id FROM slice k JOIN slice l ON l.correlation = k.correlation \
                        WHERE k.kind = 'kernel' AND l.kind = 'runtime'";

/// The trace has 1,867 slices, 228 of them kernels, each launched by one call that has at least 12 callers. With a scan for
/// each row of the other side the first join would take a million steps, the others several millions. The bounds are two to
/// three times what the queries take, so that another version of SQLite may differ a little.
#[test]
fn joins_look_up_their_rows() {
    let database = sglang_decode();
    let connection = database.connection();
    let ancestors = format!(
        "WITH RECURSIVE above(id, level) AS ({} UNION ALL SELECT s.parent_id, level + 1 FROM above \
         JOIN slice s ON s.id = above.id WHERE level < 12 AND s.parent_id NOT NULL) SELECT id, level FROM above",
        LAUNCHED.replace("l.id", "l.id, 0")
    );
    let parents = "SELECT p.name FROM slice s JOIN slice p ON p.id = s.parent_id";
    let children = "SELECT c.name FROM slice p JOIN slice c ON c.parent_id = p.id";
    let threads = "SELECT p.pid FROM slice s JOIN thread_track tt ON tt.id = s.track_id JOIN thread t USING (utid) \
                   JOIN process p USING (upid)";
    let flows = "SELECT l.id FROM flow f JOIN slice l ON l.id = f.slice_out JOIN slice k ON k.id = f.slice_in";
    let slices = &database.store().slices;
    let nested = slices.ids().filter(|slice| slices.parent(*slice).is_some()).count();
    assert_eq!(slices.len(), 1867);
    assert_eq!(lines(connection, "SELECT count(*) FROM slice WHERE kind = 'kernel'"), ["228"]);
    for (sql, want, most) in [
        (LAUNCHED, 228, 80_000),
        (&ancestors, 228 * 13, 300_000),
        (parents, nested, 60_000),
        (children, nested, 60_000),
        // Two instants belong to the whole trace and to no thread.
        (threads, 1865, 40_000),
        (flows, database.store().flows.len(), 15_000),
        ("SELECT id FROM slice WHERE name = 'cudaGraphLaunch'", 2, 100),
        ("SELECT id FROM slice WHERE id = 1000", 1, 100),
        ("SELECT id FROM slice WHERE ts >= 1 AND ts < 2", 0, 100),
        ("SELECT id FROM slice ORDER BY ts LIMIT 3", 3, 100),
    ] {
        let (got, taken) = steps(connection, sql, &[]);
        println!("{taken:>7} steps: {sql}");
        assert_eq!(got, want, "{sql}");
        assert!(taken <= most, "{taken} steps, at most {most} wanted: {sql}");
    }
}

/// The same for the project's queries that run once per trace or once per row.
#[test]
fn the_projects_queries_look_up_their_rows() {
    let database = sglang_decode();
    let connection = database.connection();
    let names = |sql: &str| {
        let ids: Vec<String> = rows(connection, sql, &[]).iter().map(|row| shown(row)).collect();
        format!("[{}]", ids.join(","))
    };
    let step = names("SELECT name_id FROM slice_name WHERE name LIKE '%: forward_batch_generation'");
    for (query, params, want, most) in [
        (queries::CPU_NAMES, &[][..], 327, 8_000),
        (queries::FUNCTION_SLICES, &[(":names", &step as &dyn ToSql)], 4, 1_000),
    ] {
        let (got, taken) = steps(connection, query.sql, params);
        println!("{taken:>7} steps: {}", query.name);
        assert_eq!(got, want, "{}", query.name);
        assert!(taken <= most, "{taken} steps, at most {most} wanted: {}", query.name);
    }
}
