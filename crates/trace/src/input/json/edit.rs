//! Adds to the text of an event, and leaves the rest as it is.

use super::fields::{Field, Fields};
use super::marks::Marks;
use super::scan::{Token, Walker, is_space};

/// An event's text with one more argument, whose key and value need no escapes. One that has the key already stays as it is.
pub(super) fn with_argument(event: &[u8], key: &str, value: &str) -> Vec<u8> {
    let fields = fields_of(event);
    let member = format!("\"{key}\": \"{value}\"");
    let (before, inserted, after) = match (fields.get(event, Field::Args), value_range(event, &fields, Field::Args)) {
        (Some(Token::Object(object)), Some(range)) => {
            let mut members = Walker::new(object);
            while let Ok(Some((known, _))) = members.member() {
                if known == key.as_bytes() {
                    return event.to_vec();
                }
            }
            let is_empty = object[1..object.len() - 1].iter().all(|byte| is_space(*byte));
            (range.end - 1, format!("{}{member}", if is_empty { "" } else { ", " }), range.end - 1)
        }
        (_, Some(range)) => (range.start, format!("{{{member}}}"), range.end),
        (_, None) => (event.len() - 1, format!(", \"args\": {{{member}}}"), event.len() - 1),
    };
    [&event[..before], inserted.as_bytes(), &event[after..]].concat()
}

/// The text of an event's arguments.
pub(super) fn arguments(event: &[u8]) -> Option<&[u8]> {
    match fields_of(event).get(event, Field::Args)? {
        Token::Object(object) => Some(object),
        _ => None,
    }
}

/// An event's text with other arguments.
pub(super) fn with_arguments(event: &[u8], args: &[u8]) -> Vec<u8> {
    let range = fields_of(event).range(Field::Args);
    [&event[..range.start], args, &event[range.end..]].concat()
}

/// A slice of the same process and time as that of an event, on another thread, with another category and a name that begins with
/// `match: `. `None` if the event does not hold its length.
pub(super) fn on_thread(event: &[u8], tid: u32, category: &str) -> Option<Vec<u8>> {
    let fields = fields_of(event);
    value_range(event, &fields, Field::Dur)?;
    let mut text = format!("{{\"ph\": \"X\", \"cat\": \"{category}\", \"tid\": {tid}").into_bytes();
    if let Some(range) = value_range(event, &fields, Field::Name) {
        // So queries that select kernels by the beginning of their names do not find them twice.
        let name = event[range.clone()].strip_prefix(b"\"").unwrap_or(b"\"");
        text.extend_from_slice(b", \"name\": \"match: ");
        text.extend_from_slice(name);
    }
    for (key, field) in [("pid", Field::Pid), ("ts", Field::Ts), ("dur", Field::Dur)] {
        add_member(&mut text, event, &fields, key, field);
    }
    text.push(b'}');
    Some(text)
}

/// An event's text with another number for its thread.
pub(super) fn with_tid(event: &[u8], tid: u32) -> Vec<u8> {
    let fields = fields_of(event);
    let tid = tid.to_string();
    match value_range(event, &fields, Field::Tid) {
        Some(range) => [&event[..range.start], tid.as_bytes(), &event[range.end..]].concat(),
        None => [&event[..event.len() - 1], b", \"tid\": ", tid.as_bytes(), b"}"].concat(),
    }
}

/// The event that names this thread of the event's process. The name needs no escapes.
pub(super) fn thread_name(event: &[u8], tid: u32, category: &str, name: &str) -> Vec<u8> {
    let mut text =
        format!("{{\"ph\": \"M\", \"cat\": \"{category}\", \"name\": \"thread_name\", \"tid\": {tid}").into_bytes();
    add_member(&mut text, event, &fields_of(event), "pid", Field::Pid);
    text.extend_from_slice(format!(", \"args\": {{\"name\": \"{name}\"}}}}").as_bytes());
    text
}

/// The fields of an event that was read before, so that there is nothing wrong with it.
fn fields_of(event: &[u8]) -> Fields {
    let mut fields = Fields::default();
    let _ = fields.read(event, 0, &mut Marks::default());
    fields
}

fn add_member(text: &mut Vec<u8>, event: &[u8], fields: &Fields, key: &str, field: Field) {
    if let Some(range) = value_range(event, fields, field) {
        text.extend_from_slice(format!(", \"{key}\": ").as_bytes());
        text.extend_from_slice(&event[range]);
    }
}

/// Where a field's value is, with its quotes.
fn value_range(event: &[u8], fields: &Fields, field: Field) -> Option<std::ops::Range<usize>> {
    let range = fields.range(field);
    Some(match fields.get(event, field)? {
        Token::Text(_) => range.start - 1..range.end + 1,
        _ => range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_added_to_whatever_is_there() {
        for (event, want) in [
            (r#"{"ph":"X","args":{"a":[1,{}]} ,"b":2}"#, r#"{"ph":"X","args":{"a":[1,{}], "k": "v"} ,"b":2}"#),
            (r#"{"args":{ }}"#, r#"{"args":{ "k": "v"}}"#),
            (r#"{"args":null,"b":"}"}"#, r#"{"args":{"k": "v"},"b":"}"}"#),
            (r#"{"args":"x","b":1}"#, r#"{"args":{"k": "v"},"b":1}"#),
            (r#"{"b":"args"}"#, r#"{"b":"args", "args": {"k": "v"}}"#),
            (r#"{"args":{"k":"v"}}"#, r#"{"args":{"k":"v"}}"#),
            // Of equal keys the last counts.
            (r#"{"args":{},"args":{"a":1}}"#, r#"{"args":{},"args":{"a":1, "k": "v"}}"#),
        ] {
            assert_eq!(String::from_utf8(with_argument(event.as_bytes(), "k", "v")).unwrap(), want);
        }
    }

    #[test]
    fn threads_are_changed_alone() {
        for (event, want) in [
            (&br#"{"ph":"X","tid": 7,"ts":1}"#[..], r#"{"ph":"X","tid": 99,"ts":1}"#),
            (br#"{"ph":"X","tid":"stream 7"}"#, r#"{"ph":"X","tid":99}"#),
            (br#"{"ph":"X"}"#, r#"{"ph":"X", "tid": 99}"#),
        ] {
            assert_eq!(String::from_utf8(with_tid(event, 99)).unwrap(), want);
        }
    }

    #[test]
    fn copies_keep_the_text_of_their_values() {
        let event = br#"{"ph":"X","name":"a\"b","pid":"GPU 0","ts":1.250,"dur":0.5e1,"args":{}}"#;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        assert_eq!(
            on_thread(event, 9, "c").map(text).as_deref(),
            Some(
                r#"{"ph": "X", "cat": "c", "tid": 9, "name": "match: a\"b", "pid": "GPU 0", "ts": 1.250, "dur": 0.5e1}"#
            )
        );
        assert_eq!(
            text(thread_name(event, 9, "c", "n")),
            r#"{"ph": "M", "cat": "c", "name": "thread_name", "tid": 9, "pid": "GPU 0", "args": {"name": "n"}}"#
        );
        assert_eq!(on_thread(br#"{"ph":"B","name":"a","ts":1}"#, 9, "c"), None);
    }
}
