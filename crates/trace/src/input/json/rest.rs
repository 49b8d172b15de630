//! Whether the text after an object is the rest of it: then a stray bracket has ended the object too early.

use super::keys::{EVENT_KEYS, begins_with_key};
use super::repair::Recoverer;
use super::value::is_space;

/// No more of the text is read.
const MAX_REST: usize = 512;

/// Whether the text after an object is the rest of it. The object is the one that the recoverer read last. `None`: the text ends
/// too early to know.
pub(super) fn is_rest(recoverer: &Recoverer, text: &[u8], end: usize, is_last: bool) -> Option<bool> {
    let after = &text[end..text.len().min(end + MAX_REST)];
    // Up to where something else may begin.
    let length = after.iter().position(|byte| matches!(byte, b'{' | b']'));
    if length.is_none() && after.len() < MAX_REST && !is_last {
        return None;
    }
    let rest = &after[..length.unwrap_or(after.len())];
    let first = rest.iter().copied().find(|byte| !is_space(*byte));
    if first == Some(b'}') {
        return Some(recoverer.has_strange_member);
    }
    let key = rest.iter().position(|byte| !is_space(*byte) && *byte != b',').unwrap_or(rest.len());
    let goes_on = rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(byte));
    if goes_on {
        let has_key = memchr::memchr_iter(b'"', rest).any(|at| begins_with_key(&rest[at..], EVENT_KEYS) == Some(true));
        return Some(has_key || rest.contains(&b'}'));
    }
    let next = EVENT_KEYS.iter().find(|known| begins_with_key(&rest[key..], &[known]) == Some(true));
    Some(next.is_some_and(|next| recoverer.lacks(next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::repair::Outcome;

    /// Whether the rest of the object that a text begins with comes after it.
    fn found(text: &str, is_last: bool) -> Option<bool> {
        let mut recoverer = Recoverer::default();
        let Outcome::Whole { end } = recoverer.object(text.as_bytes(), 0, is_last) else { panic!("{text}") };
        is_rest(&recoverer, text.as_bytes(), end, is_last)
    }

    #[test]
    fn what_goes_on_is_the_rest() {
        for text in [
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2,"args":{"a":1},"b":2}},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2},"args":{"a":1}},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":12}4,"dur":2},{"#,
            r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":1}2},{"#,
            "{\"ph\":\"X\",\"name\":\"n\"},\n \"pid\":1,\"tid\":1,\"ts\":1,\"dur\":12}\n,{",
            r#"{"ph":"s","name":"n","pid":1,"tid":1},"ts":1}]"#,
        ] {
            assert_eq!(found(text, false), Some(true), "{text}");
            assert_eq!(found(&text[..text.len() - 1], true), Some(true), "{text}");
            // However much of what follows is known, the answer is never another.
            let end =
                (1..text.len()).find(|end| serde_json::from_str::<serde_json::Value>(&text[..*end]).is_ok()).unwrap();
            assert!((end + 1..text.len()).all(|end| found(&text[..end], false) != Some(false)), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_something_else_is_not() {
        const WHOLE: &str = r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2,"args":{"a":1}}"#;
        for after in [
            "},{",
            ",\u{1}gar}bage,{",
            "\n4,\"dur\":2},{",
            r#","ts":5,"dur":2},{"#,
            r#","bp":"e"},{"#,
            r#","text",{"#,
            "\nINFO: \"loss\": 0.5\n,{",
            "]",
        ] {
            assert_eq!(found(&format!("{WHOLE}{after}"), false), Some(false), "{after}");
        }
        assert_eq!(found(r#"{"ph":"M","name":"thread_name","pid":1},"ts":1},{"#, false), Some(false));
    }
}
