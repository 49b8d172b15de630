//! The tables of operators' arguments and of memory: hand-made rows, and real ones against an independent walk of the JSON.

use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::sql::Database;
use nccl_stacks::sql::rusqlite::types::Value;
use nccl_stacks::{LoadOptions as Options, load};
use serde_json::Value as Json;

use crate::support::{read_text, shared};

const TRACE: &str = r#"{"traceEvents": [
{"ph":"X","cat":"python_function","name":"nn.Module: Model_0","pid":1,"tid":1,"ts":0,"dur":100,"args":{"Python id":1}},
{"ph":"X","cat":"python_function","name":"nn.Module: Linear_2","pid":1,"tid":1,"ts":1,"dur":50,"args":{"Python id":2,"Python parent id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":2,"dur":10,"args":{"Record function id":7,"Ev Idx":3,"Input Dims":[[2,3],[3,4],[]],
 "Input type":["float","float","Scalar"],"Input Strides":[[3,1],[4,1],[]],"Concrete Inputs":["","","1.5"],"Sequence number":42,"Fwd thread id":0,
 "cycles":200,"instructions":100,"cache_misses":1,"cache_references":8,"branch_misses":2,"stride":[1,1]}},
{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":60,"dur":10,"args":{"Record function id":"8","Input Dims":"[[2, 3], ...","Input type":"['Float'",
 "Module Hierarchy":"model.add","Call stack":"a.py(1): f;b.py(2): g","instructions":"1000","cycles":0,"backend":"x","n":5}},
{"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":1,"ts":80,"dur":1,"args":{"Input Dims":[[1]]}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":1,"ts":90,
 "args":{"Total Reserved":200,"Total Allocated":100,"Bytes":64,"Addr":18446744073709551615,"Device Id":0,"Device Type":1,"Ev Idx":9}},
{"ph":"i","cat":"cpu_instant_event","name":"[memory]","s":"t","pid":1,"tid":1,"ts":91,
 "args":{"Total Reserved":"200","Total Allocated":"36","Bytes":"-64","Addr":"-1","Device Id":-1,"Device Type":0}}
]}"#;

fn rows(database: &Database, sql: &str) -> Vec<Vec<String>> {
    let shown = |value: Value| match value {
        Value::Null => "NULL".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(_) => "blob".to_owned(),
    };
    let mut statement = database.connection().prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| Ok(shown(row.get(at)?))).collect()).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn rows_are_what_was_worked_out_by_hand() {
    let input = from_reader("hand".to_owned(), None, Box::new(TRACE.as_bytes())).unwrap();
    let database = Database::open(load_input(input, LoadOptions::default(), |_| {}).unwrap().store).unwrap();
    assert_eq!(
        rows(&database, "SELECT * FROM op"),
        [
            [
                "2",
                "2000",
                "10000",
                "aten::mm",
                "Model_0.Linear_2",
                "NULL",
                "[[2, 3], [3, 4], []]",
                "[float, float, Scalar]",
                "[[3, 1], [4, 1], []]",
                "[, , 1.5]",
                "0",
                "42",
                "0",
                "7",
                "3",
                r#"{"stride":"[1, 1]"}"#,
                "200",
                "100",
                "1",
                "8",
                "2",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "0.5",
                "0.125",
                "20",
            ],
            [
                "3",
                "60000",
                "10000",
                "aten::add",
                "model.add",
                "a.py(1): f;b.py(2): g",
                "[[2, 3], ...]",
                "['Float'",
                "NULL",
                "NULL",
                "1",
                "NULL",
                "NULL",
                "8",
                "NULL",
                r#"{"backend":"x","n":"5"}"#,
                "0",
                "1000",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
                "NULL",
            ],
        ]
    );
    assert_eq!(
        rows(&database, "SELECT * FROM memory_event"),
        [
            ["5", "90000", "1", "0", "18446744073709551615", "64", "100", "200", "1"],
            ["6", "91000", "0", "-1", "18446744073709551615", "-64", "36", "200", "1"],
        ]
    );
    // By the columns that have an index.
    assert_eq!(rows(&database, "SELECT id FROM op WHERE name = 'aten::add'"), [["3"]]);
    assert_eq!(rows(&database, "SELECT id FROM op WHERE id = 2 AND sequence_number = 42"), [["2"]]);
}

/// How a list of JSON is printed: as Python prints it, but without quotes, and without what is null.
fn printed(list: &Json) -> String {
    match list {
        Json::Array(all) => {
            let all: Vec<String> = all.iter().filter(|one| !one.is_null()).map(printed).collect();
            format!("[{}]", all.join(", "))
        }
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The lists of all operators of real traces, in any order.
#[test]
fn real_operators_are_those_of_the_json() {
    let Some(shared) = shared() else { return };
    for (name, key) in [
        ("TraceLens__mi300_ddp_resnet_rank0.json.gz", "Input Dims"),
        ("lora-dev-script__sglang_tp4_A_mixed_rank0.json.gz", "Input Dims"),
        ("kineto__resnet50_2021_bare_array.json.gz", "Input dims"),
    ] {
        let path = shared.join("traces").join(name);
        let json: Json = serde_json::from_str(&read_text(&path)).unwrap();
        let events = json.get("traceEvents").unwrap_or(&json).as_array().unwrap();
        let is_op = |event: &&Json| {
            event["ph"] == "X" && ["cpu_op", "Operator"].iter().any(|category| event["cat"] == *category)
        };
        let list = |event: &Json, key: &str| {
            let list = event["args"].get(key).filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
            // The rows of a list of tensors end with the last one that has a dimension.
            let known = |input: &Json| match input {
                Json::Array(all) => {
                    let end = all.iter().rposition(|one| one != &Json::Array(Vec::new())).map_or(0, |at| at + 1);
                    Json::Array(all[..end].to_vec())
                }
                other => other.clone(),
            };
            let list = list.and_then(Json::as_array).map(|list| Json::Array(list.iter().map(known).collect()));
            // Without types, nothing says how many inputs without dimensions there are at the end.
            let has_types = event["args"]["Input type"].as_array().is_some_and(|types| !types.is_empty());
            let list = if has_types { list } else { list.map(|list| known(&list)) };
            let list = list.filter(|list| list.as_array().is_some_and(|list| !list.is_empty()));
            list.as_ref().map_or("NULL".to_owned(), printed)
        };
        let mut want: Vec<Vec<String>> = events
            .iter()
            .filter(is_op)
            .map(|event| {
                let keys = [key, "Input type", "Input Strides", "Concrete Inputs"].map(|key| list(event, key));
                [vec![event["name"].as_str().unwrap().to_owned()], keys.to_vec()].concat()
            })
            .collect();
        let database = Database::open(load(&path, Options::default(), |_| {}).unwrap().store).unwrap();
        let mut got = rows(&database, "SELECT name, input_dims, input_types, input_strides, concrete_inputs FROM op");
        want.sort();
        got.sort();
        assert!(want.len() > 2_000, "{name}: {}", want.len());
        let differs = got.iter().zip(&want).find(|(got, want)| got != want);
        assert!(got.len() == want.len() && differs.is_none(), "{name}: {} {} {differs:?}", got.len(), want.len());
    }
}
