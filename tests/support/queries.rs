//! Asks a database every named query, whatever is in it.

use nccl_stacks::attribution::launches::WindowOn;
use nccl_stacks::sql::Database;
use nccl_stacks::sql::queries::named;
use nccl_stacks::sql::rusqlite::types::Value;
use nccl_stacks::time::Window;

/// Reads all rows of each query about a window, with the defaults of its parameters. Only sums beyond 64 bits are errors.
pub(crate) fn ask_queries(database: &Database, window: Window, on: WindowOn) {
    let on = if on == WindowOn::Kernel { "kernel" } else { "launch" };
    // These databases compare no ranks.
    for query in named().filter(|query| query.name != "critical_path") {
        let mut values = query.values(&[]).unwrap();
        values.push(("start".to_owned(), Value::Integer(window.start.0)));
        values.push(("end".to_owned(), Value::Integer(window.end.0)));
        values.push(("window_on".to_owned(), Value::Text(on.to_owned())));
        let mut statement = database.connection().prepare(&query.sql).unwrap();
        for at in 1..=statement.parameter_count() {
            let name = statement.parameter_name(at).unwrap()[1..].to_owned();
            let (_, value) = values.iter().find(|(known, _)| *known == name).unwrap();
            statement.raw_bind_parameter(at, value).unwrap();
        }
        let mut rows = statement.raw_query();
        loop {
            match rows.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    assert!(error.to_string().contains("integer overflow"), "{}: {error}", query.name);
                    break;
                }
            }
        }
    }
}
