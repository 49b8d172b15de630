//! Events of made traces, without braces, for `trace_of`.

use std::fmt::Display;

/// A slice, in µs.
pub(crate) fn slice(
    category: &str,
    name: impl Display,
    (pid, tid): (u32, u32),
    ts: impl Display,
    dur: impl Display,
) -> String {
    format!(r#""ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur}"#)
}

/// The same of a call that launches, or of what was launched, with the id that both have.
pub(crate) fn tied(
    category: &str,
    name: impl Display,
    place: (u32, u32),
    ts: impl Display,
    dur: impl Display,
    id: impl Display,
) -> String {
    format!(r#"{},"args":{{"correlation":{id}}}"#, slice(category, name, place, ts, dur))
}

/// A kernel on a GPU's stream, which it names.
pub(crate) fn kernel(
    name: impl Display,
    (gpu, stream): (u32, u32),
    ts: impl Display,
    dur: impl Display,
    id: impl Display,
) -> String {
    let args = format!(r#""correlation":{id},"device":{gpu},"stream":{stream}"#);
    format!(r#"{},"args":{{{args}}}"#, slice("kernel", name, (gpu, stream), ts, dur))
}
