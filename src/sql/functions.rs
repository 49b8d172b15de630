//! SQL functions over the store.

use std::sync::Arc;

use rusqlite::functions::FunctionFlags;
use rusqlite::types::Value;
use rusqlite::{Connection, Result};

use crate::event::ArgValue;
use crate::store::Store;

/// Adds the functions to a connection.
pub(super) fn register(connection: &Connection, store: &Arc<Store>) -> Result<()> {
    let store = Arc::clone(store);
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    // EXTRACT_ARG(arg_set_id, key): the value of exactly this key, NULL if there is none, as in Perfetto.
    connection.create_scalar_function("EXTRACT_ARG", 2, flags, move |context| {
        let (Some(row), Some(key)) = (context.get::<Option<i64>>(0)?, context.get::<Option<String>>(1)?) else {
            return Ok(Value::Null);
        };
        let value = u32::try_from(row)
            .ok()
            .zip(store.strings.find(&key))
            .and_then(|(row, key)| store.args.get(store.args.set_at_row(row), key));
        Ok(match value {
            None => Value::Null,
            Some(ArgValue::Int(value)) => Value::Integer(value),
            Some(ArgValue::Bool(value)) => Value::Integer(value.into()),
            Some(ArgValue::Real(value)) => Value::Real(value),
            Some(ArgValue::Text(id)) => store.strings.get(id).map_or(Value::Null, |text| Value::Text(text.to_owned())),
        })
    })
}
