//! The header of a trace: every field beside the events, flattened to path and value.

use serde_json::Value;

use crate::event::{ArgValue, HeaderField};

/// Flattens one top-level field. `false` if its text is not JSON; it is then kept as text.
pub(super) fn read(key: &str, text: &[u8], fields: &mut Vec<HeaderField>) -> bool {
    match serde_json::from_slice(text) {
        Ok(value) => {
            flatten(key.to_owned(), value, fields);
            true
        }
        Err(_) => {
            let value = ArgValue::Text(String::from_utf8_lossy(text).into_owned());
            fields.push(HeaderField { key: key.to_owned(), value });
            false
        }
    }
}

fn flatten(key: String, value: Value, fields: &mut Vec<HeaderField>) {
    let value = match value {
        Value::Null => return,
        Value::Bool(value) => ArgValue::Bool(value),
        Value::String(value) => ArgValue::Text(value),
        Value::Number(number) => match number.as_i64() {
            Some(value) => ArgValue::Int(value),
            None if number.is_u64() => ArgValue::Text(number.to_string()),
            None => ArgValue::Real(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::Array(values) => {
            for (i, value) in values.into_iter().enumerate() {
                flatten(format!("{key}[{i}]"), value, fields);
            }
            return;
        }
        Value::Object(members) => {
            for (name, value) in members {
                flatten(format!("{key}.{name}"), value, fields);
            }
            return;
        }
    };
    fields.push(HeaderField { key, value });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_flattened_to_paths() {
        let mut fields = Vec::new();
        assert!(read("distributedInfo", br#"{"rank": 3, "pg_config": [{"pg_name": "0"}], "none": null}"#, &mut fields));
        assert!(!read("INFO", b"[NaN]", &mut fields));
        let shown: Vec<_> = fields.iter().map(|f| format!("{} {:?}", f.key, f.value)).collect();
        assert_eq!(
            shown,
            [
                r#"distributedInfo.pg_config[0].pg_name Text("0")"#,
                "distributedInfo.rank Int(3)",
                r#"INFO Text("[NaN]")"#,
            ]
        );
    }
}
