//! Debug annotations: the arguments of a track event, as rows and as the ids that link events (`ties`).
//!
//! The keys of the rows are Perfetto's: `debug.` and the annotation's name.

use std::fmt::Write;

use super::annotation::{ARRAY_VALUE, Annotation, Content, DICT_ENTRY};
use super::state::Lookup;
use super::ties::{Owner, Ties};
use super::wire::{Field, Fields, Malformed, Value};
use crate::event::{ArgList, ArgValue, ArgsWanted, EventIds, Keep};
use crate::input::json::flatten_value_of;
use crate::names::category::CategoryKind;

/// The fields of `NestedValue`, the older form of a value with parts, and its types.
const NESTED_TYPE: u32 = 1;
const NESTED_KEY: u32 = 2;
const NESTED_MEMBER: u32 = 3;
const NESTED_ELEMENT: u32 = 4;
const NESTED_INT: u32 = 5;
const NESTED_DOUBLE: u32 = 6;
const NESTED_BOOL: u32 = 7;
const NESTED_STRING: u32 = 8;
const DICT: u64 = 1;
const ARRAY: u64 = 2;

/// Annotations nested deeper than this are dropped; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// How many bytes the keys and texts of one event's arguments may take: the file has numbers for them, so a small file could fill
/// all memory.
const MAX_TEXT: usize = 64 << 20;

/// The longest key: its parts may be interned texts.
const MAX_KEY: usize = 64 << 10;

/// Real keys are hardly ever longer. The longer keys of all events take this many bytes at most.
const LONG_KEY: usize = 256;
const MAX_LONG_KEYS: usize = 256 << 20;

/// Longer JSON stays text: each of its values gets a key, which may be nearly as long as the whole.
const MAX_JSON: usize = 32 << 10;

/// Reads the annotations of one event after the other, into the same buffers.
#[derive(Debug)]
pub(super) struct Annotations {
    wanted: ArgsWanted,
    pub(super) list: ArgList,
    key: String,
    flat_key: String,
    /// The bytes of the event's keys and texts, and whether some were dropped.
    text: usize,
    is_full: bool,
    /// The bytes of the long keys of all events.
    long_keys: usize,
}

impl Annotations {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let (list, key, flat_key) = (ArgList::default(), String::new(), String::new());
        Annotations { wanted, list, key, flat_key, text: 0, is_full: false, long_keys: 0 }
    }

    /// Forgets the annotations of the event before.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        (self.text, self.is_full) = (0, false);
    }

    /// Whether all arguments are wanted.
    pub(super) fn wants_all(&self) -> bool {
        self.wanted == ArgsWanted::All
    }

    /// Whether some were dropped.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Reads the annotations of an event, a repeated field of it. Returns the ids that link it to other events.
    pub(super) fn read(
        &mut self,
        event: &[u8],
        field: u32,
        owner: Owner<'_>,
        names: &Lookup<'_>,
    ) -> Result<EventIds, Malformed> {
        let mut found = Ties::default();
        let keys = self.wanted.keys();
        let keep = keys.map_or(Keep::Nothing, |(set, _)| set.keep(owner.kind, owner.name));
        let markers = keep.markers();
        let mut is_marked = false;
        let annotations = || Fields::new(event).filter(|f| !f.is_ok_and(|f| f.number != field));
        for annotation in annotations() {
            let annotation = Annotation::new(annotation?.value.bytes().ok_or(Malformed)?, names)?;
            if let (Some(name), Some(value)) = (annotation.name, annotation.value) {
                found.see(name, value);
                is_marked |= markers.iter().any(|marker| marker.as_bytes() == name);
            }
            if self.wants_all() {
                self.top(&annotation, names)?;
            }
        }
        let Some((set, present)) = keys else { return Ok(EventIds::read(owner.kind, &mut found)) };
        // Here a key that only has to be there comes with its value, which is bounded as all annotations are.
        let values = if keep == Keep::Keys || is_marked { set.keys } else { &[] };
        let present = if owner.kind == CategoryKind::Cpu { present } else { &[] };
        if !values.is_empty() || !present.is_empty() {
            for annotation in annotations() {
                let annotation = Annotation::new(annotation?.value.bytes().ok_or(Malformed)?, names)?;
                let is_it = |name| values.iter().chain(present).any(|key| key.as_bytes() == name);
                if annotation.name.is_some_and(is_it) {
                    self.top(&annotation, names)?;
                }
            }
        }
        Ok(EventIds::read(owner.kind, &mut found))
    }

    /// Adds a row that is not an annotation.
    pub(super) fn push(&mut self, key: &'static str, value: ArgValue<&[u8]>) {
        let of_text = if let ArgValue::Text(text) = value { text.len() } else { 0 };
        self.text = self.text.saturating_add(key.len() + of_text);
        if self.text > MAX_TEXT {
            self.is_full = true;
            return;
        }
        match value {
            ArgValue::Text(text) => self.list.push(key, None, ArgValue::Text(&String::from_utf8_lossy(text))),
            ArgValue::Int(value) => self.list.push(key, None, ArgValue::Int(value)),
            ArgValue::Real(value) => self.list.push(key, None, ArgValue::Real(value)),
            ArgValue::Bool(value) => self.list.push(key, None, ArgValue::Bool(value)),
        }
    }

    fn top(&mut self, annotation: &Annotation<'_>, names: &Lookup<'_>) -> Result<(), Malformed> {
        self.start("debug");
        self.member(annotation, names, 0).map(drop)
    }

    /// Starts new keys.
    fn start(&mut self, prefix: &str) {
        for key in [&mut self.key, &mut self.flat_key] {
            key.clear();
            key.push_str(prefix);
        }
    }

    /// Adds the rows of an annotation that has a name. Returns whether there are any.
    fn member(&mut self, annotation: &Annotation<'_>, names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        let Some(name) = annotation.name else { return Ok(false) };
        self.within(name, |this| this.value(annotation, names, depth))
    }

    /// Adds rows with the keys of a member. Returns whether there are any.
    fn within(
        &mut self,
        name: &[u8],
        rows: impl FnOnce(&mut Self) -> Result<bool, Malformed>,
    ) -> Result<bool, Malformed> {
        let (before, flat_before) = (self.key.len(), self.flat_key.len());
        // The name counts as text, too: a long name with few rows costs as much as they do.
        self.text = self.text.saturating_add(name.len());
        if self.text > MAX_TEXT || before + name.len() >= MAX_KEY {
            self.is_full = true;
            return Ok(false);
        }
        let mut name = String::from_utf8_lossy(name);
        if name.contains(['.', '[', ']']) {
            name = name.replace(['.', '[', ']'], "_").into();
        }
        for key in [&mut self.key, &mut self.flat_key] {
            key.push('.');
            key.push_str(&name);
        }
        let result = rows(self);
        self.key.truncate(before);
        self.flat_key.truncate(flat_before);
        result
    }

    /// Runs `work` with the keys of an element.
    fn at<T>(&mut self, index: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.key.len();
        write!(self.key, "[{index}]").expect("writing to a String does not fail");
        let result = work(self);
        self.key.truncate(before);
        result
    }

    fn value(&mut self, annotation: &Annotation<'_>, names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        match annotation.value {
            None => Ok(false),
            Some(Content::Parts | Content::Nested(_)) if depth >= MAX_DEPTH => Ok(false),
            Some(Content::Parts) => self.parts(annotation.message, names, depth),
            Some(Content::Nested(value)) => self.nested(value, depth),
            Some(value) => Ok(self.row(value)),
        }
    }

    /// An element without rows has no index, as in Perfetto.
    fn parts(&mut self, message: &[u8], names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        let (mut index, mut has_rows) = (0, false);
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (DICT_ENTRY, Value::Bytes(entry)) => {
                    has_rows |= self.member(&Annotation::new(entry, names)?, names, depth + 1)?;
                }
                (ARRAY_VALUE, Value::Bytes(element)) => {
                    let element = Annotation::new(element, names)?;
                    index += usize::from(self.at(index, |this| this.value(&element, names, depth + 1))?);
                }
                _ => {}
            }
        }
        Ok(has_rows || index > 0)
    }

    /// Adds the rows of a `NestedValue`. Returns whether it counts as an element.
    fn nested(&mut self, message: &[u8], depth: usize) -> Result<bool, Malformed> {
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        let (mut kind, mut scalar) = (0, None);
        for field in Fields::new(message) {
            let Field { number, value } = field?;
            match (number, value) {
                (NESTED_TYPE, Value::Varint(value)) => kind = value,
                (NESTED_INT, Value::Varint(value)) => scalar = Some(Content::Int(value as i64)),
                (NESTED_DOUBLE, Value::Fixed64(bits)) => scalar = Some(Content::Real(f64::from_bits(bits))),
                (NESTED_BOOL, Value::Varint(value)) => scalar = Some(Content::Bool(value != 0)),
                (NESTED_STRING, Value::Bytes(text)) => scalar = Some(Content::Text(text)),
                _ => {}
            }
        }
        let texts = |wanted| Fields::new(message).flatten().filter(move |field| field.number == wanted);
        match (kind, scalar) {
            (0, Some(scalar)) => Ok(self.row(scalar)),
            (DICT, _) => {
                for (key, member) in texts(NESTED_KEY).zip(texts(NESTED_MEMBER)) {
                    if let (Value::Bytes(key), Value::Bytes(member)) = (key.value, member.value) {
                        self.within(key, |this| this.nested(member, depth + 1))?;
                    }
                }
                Ok(true)
            }
            (ARRAY, _) => {
                let mut index = 0;
                for element in texts(NESTED_ELEMENT).filter_map(|field| field.value.bytes()) {
                    index += usize::from(self.at(index, |this| this.nested(element, depth + 1))?);
                }
                Ok(index > 0)
            }
            _ => Ok(false),
        }
    }

    /// Adds a row with the current keys, or several if the value is JSON. Returns whether there is one.
    fn row(&mut self, value: Content<'_>) -> bool {
        let of_text = if let Content::Json(text) | Content::Text(text) = value { text.len() } else { 0 };
        self.text = self.text.saturating_add(self.key.len() + self.flat_key.len() + of_text);
        if self.key.len() > LONG_KEY {
            self.long_keys = self.long_keys.saturating_add(self.key.len() + self.flat_key.len());
        }
        if self.text > MAX_TEXT || self.key.len() > LONG_KEY && self.long_keys > MAX_LONG_KEYS {
            self.is_full = true;
            return false;
        }
        let flat_key = (self.key != self.flat_key).then_some(&*self.flat_key);
        let wide = match value {
            // A number beyond `i64` would wrap, and different ids could look equal: it stays text, as in JSON.
            Content::Uint(value) if i64::try_from(value).is_err() => value.to_string(),
            // As Perfetto shows addresses.
            Content::Pointer(value) if i64::try_from(value).is_err() => format!("{value:#x}"),
            _ => String::new(),
        };
        let value = match value {
            Content::Json(text) if text.len() <= MAX_JSON => {
                let before = self.list.text_len();
                let has_rows = flatten_value_of(text, &self.key, &self.flat_key, &mut self.list);
                self.text += self.list.text_len() - before;
                return has_rows;
            }
            Content::Json(text) | Content::Text(text) => {
                self.list.push(&self.key, flat_key, ArgValue::Text(&String::from_utf8_lossy(text)));
                return true;
            }
            Content::Uint(_) | Content::Pointer(_) if !wide.is_empty() => ArgValue::Text(&*wide),
            Content::Uint(value) | Content::Pointer(value) => ArgValue::Int(value as i64),
            Content::Int(value) => ArgValue::Int(value),
            Content::Real(value) => ArgValue::Real(value),
            Content::Bool(value) => ArgValue::Bool(value),
            Content::Nested(_) | Content::Parts => return false,
        };
        self.list.push(&self.key, flat_key, value);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_of_all_events_have_so_much_room() {
        let mut annotations = Annotations::new(ArgsWanted::All);
        annotations.long_keys = MAX_LONG_KEYS - 2 * (LONG_KEY + 1);
        let mut has_row = |length| {
            annotations.clear();
            annotations.start(&"k".repeat(length));
            (annotations.row(Content::Int(1)), annotations.is_full())
        };
        assert_eq!(has_row(LONG_KEY + 1), (true, false));
        assert_eq!(has_row(LONG_KEY + 1), (false, true));
        assert_eq!(has_row(LONG_KEY), (true, false));
    }
}
