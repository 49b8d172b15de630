//! Values of operators' arguments, from any text.
//!
//! A value that is read, written with quotes, is read as the same value. Read from an event, a text under a key of lists is a list if it
//! parses as one, and else its own text. Whatever the arguments of an event are, all readers end, and all named queries have an answer.
//! The first byte chooses: 255 the text of an argument, 254 the inside of `args`, else the text alone. Allowed: anything may be malformed.

use std::fmt::Write;
use std::sync::LazyLock;

use nccl_stacks::attribution::launches::WindowOn;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::names::args;
use nccl_stacks::recorded_args::{List, Operators, Recorded, Value};
use nccl_stacks::sql::Database;
use nccl_stacks::store::Store;
use nccl_stacks::time::Window;

use super::queries::ask_queries;

pub fn check(bytes: &[u8]) {
    let Some((how, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    // Kept to one of the three: reading a text takes a hundredth of the others' time.
    static ONLY: LazyLock<Option<u8>> =
        LazyLock::new(|| std::env::var("NCCL_FUZZ_SOURCE").ok().and_then(|how| how.parse().ok()));
    match ONLY.as_ref().unwrap_or(how) {
        255 => as_argument(&text),
        254 => as_arguments(&text),
        _ => as_text(&text),
    }
}

fn as_text(text: &str) {
    let Some(value) = Value::parse(text) else { return };
    let mut quoted = String::new();
    write_quoted(&value, &mut quoted);
    // Texts of more than a megabyte are not read.
    if quoted.len() <= 1 << 20 {
        assert!(Value::parse(&quoted).as_ref() == Some(&value), "{:.200?} as {quoted:.200?}", text);
    }
    let (shown, _) = (value.to_string(), value.is_cut());
    // Separators are written with a blank, and what was left out may be three dots for one letter.
    assert!(shown.len() <= 3 * text.len() + 400, "{text:.200?} as {shown:.200?}");
}

/// In JSON, but with an ellipsis for what was left out.
fn write_quoted(value: &Value, out: &mut String) {
    match value {
        Value::List(elements) => {
            out.push('[');
            for element in elements {
                write_quoted(element, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Text(text) => {
            out.push('"');
            for c in text.chars() {
                if matches!(c, '"' | '\\') {
                    out.push('\\');
                }
                out.push(c);
            }
            out.push('"');
        }
        // In the digits by which it was taken for a number: `-0`, and not `-0.0`.
        Value::Real(number) => write!(out, "{number}").unwrap(),
        Value::Int(number) => write!(out, "{number}").unwrap(),
        Value::Cut => out.push_str("..."),
    }
}

fn store(args: &str, options: LoadOptions) -> Option<Store> {
    let events =
        [("cpu_op", "op", 1), ("cpu_instant_event", "[memory]", 2), ("cpu_op", "op", 3)].map(|(category, name, ts)| {
            format!(
                r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":0,"args":{{{args}}}}}"#
            )
        });
    let text = format!("[{}]", events.join(",")).into_bytes();
    let input = from_reader("values".to_owned(), None, Box::new(std::io::Cursor::new(text))).ok()?;
    Some(load_input(input, options, |_| {}).ok()?.store)
}

fn as_argument(text: &str) {
    // Names with such bytes are cut at them.
    if text.contains('\0') {
        return;
    }
    let quoted = serde_json::to_string(text).unwrap();
    let Some(store) = store(&format!("\"Input Strides\":{quoted}"), LoadOptions::default()) else { return };
    let operators = Operators::new(&store);
    for slice in store.slices.ids().filter(|slice| operators.is_operator(*slice)) {
        let want = match Value::parse(text) {
            Some(value @ Value::List(_)) => Recorded::Known(value),
            _ => Recorded::Malformed(text.to_owned()),
        };
        assert_eq!(operators.list_of(slice, List::Strides), want, "{text:?}");
    }
}

fn as_arguments(text: &str) {
    for args in [nccl_stacks::event::ArgsWanted::All, nccl_stacks::event::ArgsWanted::OPERATORS] {
        let Some(store) = store(text, LoadOptions { args, ..LoadOptions::default() }) else { return };
        let operators = Operators::new(&store);
        for slice in store.slices.ids() {
            for list in List::ALL {
                let _ = (operators.list_of(slice, list), operators.has(slice, list));
            }
            for key in args::COUNTERS {
                let _ = (operators.counter(slice, key), operators.number(slice, key));
            }
            let _ = (operators.counters(slice), operators.keyword_arguments(slice));
        }
        ask_queries(&Database::open(store).unwrap(), Window::ALL, WindowOn::Launch);
    }
}
