//! Whether an object ended too early: what stands behind it is the rest of it.
//!
//! A closing bracket that is stray ends an event, or its arguments, before all of its members have come; the object up to there is
//! perfect JSON. Taken for a whole one it would be an event without its duration, or a launch without its correlation.
//! What follows tells, and no single sign does: behind a whole event may stand what is left of another whose head is lost. So what
//! follows is the rest of an object if it goes on in the middle of a value, or with members which that object still lacks.

use super::mend::{EVENT_KEYS, Mender, begins_with_key};
use super::scan::is_space;

/// Nobody looks further than this.
const MAX_REST: usize = 512;

/// Whether the rest of the object that a mender has read last stands behind its end. `None`: the text is too short to tell.
pub(super) fn is_rest(mender: &Mender, text: &[u8], end: usize, is_last: bool) -> Option<bool> {
    let behind = &text[end..text.len().min(end + MAX_REST)];
    // Up to where something else may begin.
    let length = behind.iter().position(|byte| matches!(byte, b'{' | b']'));
    if length.is_none() && behind.len() < MAX_REST && !is_last {
        return None;
    }
    let rest = &behind[..length.unwrap_or(behind.len())];
    let first = rest.iter().copied().find(|byte| !is_space(*byte));
    if first == Some(b'}') {
        return Some(mender.has_strange_member);
    }
    let key = rest.iter().position(|byte| !is_space(*byte) && *byte != b',').unwrap_or(rest.len());
    let goes_on = rest.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || b".+-".contains(byte));
    if goes_on {
        let has_key = memchr::memchr_iter(b'"', rest).any(|at| begins_with_key(&rest[at..], EVENT_KEYS) == Some(true));
        return Some(has_key || rest.contains(&b'}'));
    }
    let next = EVENT_KEYS.iter().find(|known| begins_with_key(&rest[key..], &[known]) == Some(true));
    Some(next.is_some_and(|next| mender.lacks(next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::json::mend::Mending;

    /// Whether the rest of the object that a text begins with stands behind it.
    fn told(text: &str, is_last: bool) -> Option<bool> {
        let mut mender = Mender::default();
        let Mending::Whole { end } = mender.object(text.as_bytes(), 0, is_last) else { panic!("{text}") };
        is_rest(&mender, text.as_bytes(), end, is_last)
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
            assert_eq!(told(text, false), Some(true), "{text}");
            assert_eq!(told(&text[..text.len() - 1], true), Some(true), "{text}");
            // Whatever is known of what follows, nothing else is said.
            let end =
                (1..text.len()).find(|end| serde_json::from_str::<serde_json::Value>(&text[..*end]).is_ok()).unwrap();
            assert!((end + 1..text.len()).all(|end| told(&text[..end], false) != Some(false)), "{text}");
        }
    }

    #[test]
    fn what_belongs_to_something_else_is_not() {
        const WHOLE: &str = r#"{"ph":"X","name":"n","pid":1,"tid":1,"ts":1,"dur":2,"args":{"a":1}}"#;
        for behind in [
            "},{",
            ",\u{1}gar}bage,{",
            "\n4,\"dur\":2},{",
            r#","ts":5,"dur":2},{"#,
            r#","bp":"e"},{"#,
            r#","text",{"#,
            "\nINFO: \"loss\": 0.5\n,{",
            "]",
        ] {
            assert_eq!(told(&format!("{WHOLE}{behind}"), false), Some(false), "{behind}");
        }
        assert_eq!(told(r#"{"ph":"M","name":"thread_name","pid":1},"ts":1},{"#, false), Some(false));
    }
}
