//! Small traces of launches and kernels: every table gives the same rows by a condition as by reading all rows, and the main
//! question can be asked.

use std::cell::RefCell;
use std::fmt::Write;

use nccl_stacks::sql::rusqlite::types::Value;
use nccl_stacks::sql::source::Source;
use nccl_stacks::sql::{Cell, Column, TABLES, Table};
use nccl_stacks::{Database, StackOptions, Wanted, Window, stacks};

use super::plain;

/// The bytes of an event, and of a question.
const WIDTH: usize = 4;

const MAX_EVENTS: usize = 16;

const OPERATORS: [&str; 6] = ["=", "<", "<=", ">", ">=", "IS"];

/// The first byte says how many questions there are before the events.
pub fn check(bytes: &[u8]) {
    let [count, rest @ ..] = bytes else { return };
    let mut parts = rest.chunks_exact(WIDTH).map(|bytes| <[u8; WIDTH]>::try_from(bytes).unwrap());
    let questions: Vec<_> = parts.by_ref().take(usize::from(count % 4)).collect();
    let text = trace(parts.take(MAX_EVENTS));
    let store = plain::load(&text);
    let database = Database::of_tables(store).unwrap();
    for question in questions {
        ask(&database, question, &text);
    }
    thread_local! {
        // Compiling patterns takes longer than all the rest.
        static WANTED: RefCell<Wanted> = RefCell::new(Wanted::patterns(&["nccl"]).unwrap());
    }
    WANTED.with_borrow(|wanted| {
        let report = stacks(database.store(), wanted, Window::ALL, StackOptions::default());
        let kernels = database.store().kernels.iter();
        let nccl = kernels.filter(|kernel| database.store().slice_name(**kernel).contains("nccl")).count();
        assert_eq!(report.coverage.kernels, nccl as u64, "{text}");
    });
}

fn trace(events: impl Iterator<Item = [u8; WIDTH]>) -> String {
    let mut text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[{}".to_owned();
    for [kind, ts, dur, id] in events {
        let (ts, dur, id, tid) = (ts % 64, dur % 32, id % 4, 1 + (id >> 2) % 2);
        let _ = match kind % 8 {
            0 => write!(
                text,
                r#",{{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_{id}","pid":0,"tid":7,"ts":{ts},"dur":{dur},"args":{{"correlation":{id},"External id":{id}}}}}"#
            ),
            1 => write!(
                text,
                r#",{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"correlation":{id}}}}}"#
            ),
            2 => write!(
                text,
                r#",{{"ph":"X","cat":"cpu_op","name":"op{id}","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"External id":{id},"Sequence number":{id},"Fwd thread id":{tid}}}}}"#
            ),
            3 => write!(
                text,
                r#",{{"ph":"X","cat":"python_function","name":"a.py({id}): f","pid":1,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"Python id":{dur},"Python parent id":{id}}}}}"#
            ),
            4 => write!(text, r#",{{"ph":"s","cat":"ac2g","name":"ac2g","id":{id},"pid":1,"tid":{tid},"ts":{ts}}}"#),
            5 => {
                write!(text, r#",{{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":{id},"pid":0,"tid":7,"ts":{ts}}}"#)
            }
            6 => {
                write!(text, r#",{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":{tid},"ts":{ts},"dur":{dur}}}"#)
            }
            _ => write!(
                text,
                r#",{{"ph":"M","name":"thread_name","pid":1,"tid":{tid},"ts":0,"args":{{"name":"t{id}"}}}},{{"ph":"B","pid":1,"tid":{tid},"ts":{ts}}}"#
            ),
        };
    }
    text.push_str("],\"schemaVersion\":1}");
    text
}

/// A value that a column may have: one of its own, or a number nearby.
fn value_of(table: &Table, column: &Column, source: &Source, choice: u8) -> Value {
    let rows = (table.rows)(source);
    if rows == 0 || choice % 8 == 7 {
        return [Value::Null, Value::Integer(-1), Value::Integer(i64::MAX), Value::Text("x".to_owned())]
            [usize::from(choice >> 3) % 4]
            .clone();
    }
    match (column.cell)(source, usize::from(choice) % rows) {
        Cell::Int(value) => Value::Integer(value + i64::from(choice % 3) - 1),
        cell => owned(cell),
    }
}

fn owned(cell: Cell<'_>) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Int(value) => Value::Integer(value),
        Cell::Real(value) => Value::Real(value),
        Cell::Text(text) => Value::Text(text.to_owned()),
        Cell::Owned(text) => Value::Text(text),
    }
}

/// Whether SQLite's comparison of two values of one type holds; `None`: mixed types follow SQLite's own rules.
fn holds(value: &Value, operator: &str, wanted: &Value) -> Option<bool> {
    let order = match (value, wanted) {
        (Value::Null, Value::Null) => return Some(operator == "IS"),
        (Value::Null, _) | (_, Value::Null) => return Some(false),
        (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        _ => return None,
    };
    Some(match operator {
        "=" | "IS" => order.is_eq(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

/// Two conditions on one table, and the same by reading all rows.
fn ask(database: &Database, [table, columns, operators, choice]: [u8; WIDTH], text: &str) {
    let source = database.source();
    let table = TABLES[usize::from(table) % TABLES.len()];
    let column = |number: u8| &table.columns[usize::from(number) % table.columns.len()];
    let operator = |number: u8| OPERATORS[usize::from(number) % OPERATORS.len()];
    let (one, two) = (column(columns & 31), column(columns >> 3));
    let (first, second) = (operator(operators & 15), operator(operators >> 4));
    let values = [value_of(table, one, source, choice), value_of(table, two, source, choice.rotate_left(3))];
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let sql = format!(
        "SELECT {} FROM {} WHERE {} {first} ? AND {} {second} ?",
        names.join(", "),
        table.name(),
        one.name,
        two.name
    );
    let mut wanted = Vec::new();
    for i in 0..(table.rows)(source) {
        let fits = |column: &Column, operator, value| holds(&owned((column.cell)(source, i)), operator, value);
        match (fits(one, first, &values[0]), fits(two, second, &values[1])) {
            (Some(true), Some(true)) => wanted.push(table.columns.iter().map(|c| owned((c.cell)(source, i))).collect()),
            (None, _) | (_, None) => return,
            _ => {}
        }
    }
    let mut statement = database.connection().prepare(&sql).unwrap();
    let rows = statement.query_map(values.clone(), |row| (0..names.len()).map(|i| row.get(i)).collect()).unwrap();
    let got: Vec<Vec<Value>> = rows.map(|row| row.unwrap()).collect();
    let sorted = |mut rows: Vec<Vec<Value>>| {
        rows.sort_by_cached_key(|row| format!("{row:?}"));
        rows
    };
    assert_eq!(sorted(got), sorted(wanted), "{sql} {values:?} of {text}");
}
