//! Values that are not what their keys promise: how many, and a few of them.

use std::collections::BTreeMap;

use serde::Serialize;

/// Values under one key that are not what it promises.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Malformed {
    /// The key.
    pub key: &'static str,
    /// How many events have such a value.
    pub count: u64,
    /// The first few different ones, shortened.
    pub examples: Vec<String>,
}

/// How many values of a key are shown.
const EXAMPLES: usize = 3;

/// How many letters of each.
const EXAMPLE_LENGTH: usize = 80;

/// As much of a text as [`MalformedValues::add`] looks at: one letter more than it keeps says that the text goes on. For those who have to keep it.
pub(super) fn clipped(text: String) -> String {
    match text.char_indices().nth(EXAMPLE_LENGTH + 1) {
        Some((end, _)) => text[..end].to_owned(),
        None => text,
    }
}

/// Counts such values.
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

    /// By key.
    pub(super) fn found(self) -> Vec<Malformed> {
        self.by_key.into_values().collect()
    }
}
