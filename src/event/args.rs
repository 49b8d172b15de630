//! The arguments of an event: rows of key and value, and which of them a load keeps.

use std::ops::Range;

/// The value of one flattened argument.
#[derive(Debug, Clone, PartialEq)]
pub enum ArgValue<T> {
    /// An integer within `i64`.
    Int(i64),
    /// Any other number.
    Real(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text.
    Text(T),
}

/// The flattened arguments of one event, in a buffer that is used again for the next one.
///
/// `{"grid":[512,1]}` is two rows with the keys `args.grid[0]` and `args.grid[1]`, both with the flat key `args.grid`,
/// as in Perfetto's `args` table.
#[derive(Debug, Default)]
pub struct ArgList {
    text: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    key: Range<usize>,
    flat_key: Option<Range<usize>>,
    value: ArgValue<Range<usize>>,
}

impl ArgList {
    /// Removes all rows, keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.rows.clear();
    }

    /// Adds a row. `flat_key` is `None` where it equals `key`.
    pub fn push(&mut self, key: &str, flat_key: Option<&str>, value: ArgValue<&str>) {
        let key = self.keep(key);
        let flat_key = flat_key.map(|k| self.keep(k));
        let value = match value {
            ArgValue::Int(v) => ArgValue::Int(v),
            ArgValue::Real(v) => ArgValue::Real(v),
            ArgValue::Bool(v) => ArgValue::Bool(v),
            ArgValue::Text(v) => ArgValue::Text(self.keep(v)),
        };
        self.rows.push(Row { key, flat_key, value });
    }

    fn keep(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many bytes their keys and texts have.
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows: key, flat key, value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, ArgValue<&str>)> {
        self.rows.iter().map(|row| {
            let key = &self.text[row.key.clone()];
            let flat_key = row.flat_key.as_ref().map_or(key, |range| &self.text[range.clone()]);
            let value = match &row.value {
                ArgValue::Int(v) => ArgValue::Int(*v),
                ArgValue::Real(v) => ArgValue::Real(*v),
                ArgValue::Bool(v) => ArgValue::Bool(*v),
                ArgValue::Text(range) => ArgValue::Text(&self.text[range.clone()]),
            };
            (key, flat_key, value)
        })
    }
}

/// Which arguments a load keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArgsWanted {
    /// Every argument of every event: for SQL and export.
    #[default]
    All,
    /// Only those that describe collectives (`OF_COLLECTIVES` of the module `nccl`): for the main job.
    Collectives,
}
