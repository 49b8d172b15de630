//! Values of an unexpected form: how many there are, and a few examples.

use std::collections::BTreeMap;

use serde::Serialize;

/// Values under one key that lack the form that the key promises.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Malformed {
    /// The key.
    pub key: &'static str,
    /// The number of events with such a value.
    pub count: u64,
    /// The first few distinct values, shortened.
    pub examples: Vec<String>,
}

/// How many values of a key are shown.
const EXAMPLES: usize = 3;

/// The length of an example in characters.
const EXAMPLE_LENGTH: usize = 80;

/// Cuts a stored text to what [`MalformedValues::add`] looks at: one character more than it keeps, to show that the text goes on.
pub(super) fn clipped(text: String) -> String {
    match text.char_indices().nth(EXAMPLE_LENGTH + 1) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// Counts malformed values.
#[derive(Debug, Default)]
pub(super) struct MalformedValues {
    by_key: BTreeMap<&'static str, Malformed>,
}

impl MalformedValues {
    pub(super) fn add(&mut self, key: &'static str, text: &str) {
        let of = self.by_key.entry(key).or_insert_with(|| Malformed { key, count: 0, examples: Vec::new() });
        of.count += 1;
        if of.examples.len() < EXAMPLES {
            let mut example: String = text.chars().take(EXAMPLE_LENGTH).collect();
            if example.len() < text.len() {
                example.push('…');
            }
            if !of.examples.contains(&example) {
                of.examples.push(example);
            }
        }
    }

    /// The malformed values by key.
    pub(super) fn found(self) -> Vec<Malformed> {
        self.by_key.into_values().collect()
    }
}
