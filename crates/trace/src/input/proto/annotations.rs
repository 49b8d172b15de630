//! The arguments of a track event, as rows and as the ids that link events: debug annotations, and fields of their own.
//!
//! The keys of the rows are Perfetto's: for an annotation `debug.` and its name.

use std::fmt::Write;

use super::messages::{ARRAY, Content, DICT, DebugAnnotation, NestedValue, SourceLocation, TrackEvent};
use super::state::{Lookup, Table};
use super::wire::Malformed;
use crate::event::ids::{IdArg, IdValue};
use crate::event::{ArgList, ArgValue, ArgsWanted, EventIds, Keep};
use crate::input::json::flatten_value_of;
use crate::names::category::CategoryKind;

/// Annotations nested deeper than this are dropped; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// How many bytes the keys and texts of one event's arguments may take: the file has numbers for them, so a small file could fill memory.
const MAX_TEXT: usize = 64 << 20;

/// The longest key: its parts may be interned texts.
const MAX_KEY: usize = 64 << 10;

/// Real keys are hardly ever longer. The longer keys of all events take so many bytes at most.
const LONG_KEY: usize = 256;
const MAX_LONG_KEYS: usize = 256 << 20;

/// Longer JSON stays text: each of its values gets a key, which may be nearly as long as the whole.
const MAX_JSON: usize = 32 << 10;

/// Reads the annotations of one event after the other, into the same buffers.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    wanted: ArgsWanted,
    pub(super) list: ArgList,
    key: String,
    flat_key: String,
    /// The bytes of the event's keys and texts, and whether some were dropped.
    text: usize,
    pub(super) is_full: bool,
    /// The bytes of the long keys of all events.
    long_keys: usize,
}

impl Annotations {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        Annotations { wanted, ..Annotations::default() }
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        (self.text, self.is_full) = (0, false);
    }

    /// Reads the annotations of an event of this kind. Returns the ids that link it to other events.
    pub(super) fn read(
        &mut self,
        event: &TrackEvent<'_>,
        kind: CategoryKind,
        name: &[u8],
        names: &Lookup<'_>,
    ) -> Result<EventIds, Malformed> {
        let mut found = Ids::default();
        let keys = self.wanted.keys();
        let keep = keys.map_or(Keep::Nothing, |(set, _)| set.keep(kind, name));
        let markers = keep.markers();
        let mut is_marked = false;
        for message in event.annotations() {
            let annotation = annotation(message?, names)?;
            if let (Some(name), Some(value)) = (annotation.name, annotation.value) {
                found.see(name, value);
                is_marked |= markers.iter().any(|marker| marker.as_bytes() == name);
            }
            if self.wanted == ArgsWanted::All {
                self.top(&annotation, names)?;
            }
        }
        let Some((set, present)) = keys else { return Ok(found.event_ids(kind)) };
        // Here a key that only has to be there comes with its value, which is bounded as all annotations are.
        let values = if keep == Keep::Keys || is_marked { set.keys } else { &[] };
        let present = if kind == CategoryKind::Cpu { present } else { &[] };
        if !values.is_empty() || !present.is_empty() {
            for message in event.annotations() {
                let annotation = annotation(message?, names)?;
                let is_it = |name| values.iter().chain(present).any(|key| key.as_bytes() == name);
                if annotation.name.is_some_and(is_it) {
                    self.top(&annotation, names)?;
                }
            }
        }
        Ok(found.event_ids(kind))
    }

    /// Adds the source location and the correlation id, if all arguments are wanted. Perfetto's fields for Chrome's events are skipped.
    pub(super) fn fields(&mut self, event: &TrackEvent<'_>, names: &Lookup<'_>) -> Result<(), Malformed> {
        if self.wanted != ArgsWanted::All {
            return Ok(());
        }
        let interned = event.source_iid.and_then(|iid| names.text(Table::SourceLocations, iid));
        let of_interned = ["source.file_name", "source.function_name", "source.line_number"];
        let of_own = ["source_location.file_name", "source_location.function_name", "source_location.line_number"];
        for (keys, location) in [(of_interned, interned), (of_own, event.source)] {
            let Some(location) = location else { continue };
            let SourceLocation { file, function, line, .. } = SourceLocation::read(location)?;
            self.text(keys[0], file);
            self.text(keys[1], function);
            line.into_iter().for_each(|line| self.list.push(keys[2], None, ArgValue::Int(line)));
        }
        let interned = event.correlation_iid.and_then(|iid| names.text(Table::CorrelationIds, iid));
        let id = event.correlation.map(|id| format!("tp:#{id}"));
        self.text("correlation_id", event.correlation_text.or(interned).or(id.as_ref().map(|id| id.as_bytes())));
        Ok(())
    }

    /// Adds a row with a key of its own.
    fn text(&mut self, key: &str, text: Option<&[u8]>) {
        let Some(text) = text else { return };
        self.text = self.text.saturating_add(key.len() + text.len());
        self.is_full |= self.text > MAX_TEXT;
        if !self.is_full {
            self.list.push(key, None, ArgValue::Text(&String::from_utf8_lossy(text)));
        }
    }

    fn top(&mut self, annotation: &DebugAnnotation<'_>, names: &Lookup<'_>) -> Result<(), Malformed> {
        self.start("debug");
        self.member(annotation, names, 0).map(drop)
    }

    fn start(&mut self, prefix: &str) {
        for key in [&mut self.key, &mut self.flat_key] {
            key.clear();
            key.push_str(prefix);
        }
    }

    /// Adds the rows of an annotation that has a name. Returns whether there are any.
    fn member(&mut self, of: &DebugAnnotation<'_>, names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        let Some(name) = of.name else { return Ok(false) };
        self.within(name, |this| this.value(of, names, depth))
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

    fn value(&mut self, annotation: &DebugAnnotation<'_>, names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        match annotation.value {
            None => Ok(false),
            Some(Content::Parts | Content::Nested(_)) if depth >= MAX_DEPTH => Ok(false),
            Some(Content::Parts) => self.parts(annotation, names, depth),
            Some(Content::Nested(value)) => self.nested(value, depth),
            Some(value) => Ok(self.row(value)),
        }
    }

    /// An element without rows has no index, as in Perfetto.
    fn parts(&mut self, of: &DebugAnnotation<'_>, names: &Lookup<'_>, depth: usize) -> Result<bool, Malformed> {
        let (mut index, mut has_rows) = (0, false);
        for entry in of.entries().flatten() {
            has_rows |= self.member(&annotation(entry, names)?, names, depth + 1)?;
        }
        for element in of.elements().flatten() {
            let element = annotation(element, names)?;
            index += usize::from(self.at(index, |this| this.value(&element, names, depth + 1))?);
        }
        Ok(has_rows || index > 0)
    }

    /// Adds the rows of a `NestedValue`. Returns whether it counts as an element.
    fn nested(&mut self, message: &[u8], depth: usize) -> Result<bool, Malformed> {
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        let nested = NestedValue::read(message)?;
        match nested.kind {
            0 => {
                let number = nested.int.map(Content::Int).or(nested.double.map(Content::Real));
                let scalar = number.or(nested.flag.map(Content::Bool)).or(nested.text.map(Content::Text));
                Ok(scalar.is_some_and(|scalar| self.row(scalar)))
            }
            DICT => {
                for (key, member) in nested.keys().flatten().zip(nested.members().flatten()) {
                    self.within(key, |this| this.nested(member, depth + 1))?;
                }
                Ok(true)
            }
            ARRAY => {
                let mut index = 0;
                for element in nested.elements().flatten() {
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
            Content::Nested(_) | Content::Parts | Content::TextIid(_) => return false,
        };
        self.list.push(&self.key, flat_key, value);
        true
    }
}

/// An annotation with its interned texts.
fn annotation<'a>(message: &'a [u8], names: &Lookup<'a>) -> Result<DebugAnnotation<'a>, Malformed> {
    let mut annotation = DebugAnnotation::read(message)?;
    if let Some(Content::TextIid(iid)) = annotation.value {
        annotation.value = names.text(Table::AnnotationTexts, iid).map(Content::Text);
    }
    if annotation.name_iid != 0 {
        annotation.name = names.text(Table::AnnotationNames, annotation.name_iid);
    }
    Ok(annotation)
}

/// The ids among the annotations, by [`IdArg`], under the keys of Kineto's JSON: a tool that converts such a trace keeps them.
#[derive(Debug, Default)]
struct Ids([Option<i64>; IdArg::COUNT]);

impl Ids {
    fn event_ids(&self, kind: CategoryKind) -> EventIds {
        EventIds::read(kind, |arg| self.0[arg as usize].map_or(IdValue::Missing, IdValue::Number))
    }

    /// Takes an annotation. If there are several with one name, the first wins.
    fn see(&mut self, name: &[u8], value: Content<'_>) {
        let Some(arg) = IdArg::of_key(name) else { return };
        let number = match value {
            Content::Int(number) => Some(number),
            Content::Uint(number) => i64::try_from(number).ok(),
            Content::Real(number) if number.fract() == 0.0 && number.abs() < 9.0e15 => Some(number as i64),
            Content::Text(text) => std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()),
            _ => None,
        };
        let known = &mut self.0[arg as usize];
        *known = known.or(number);
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
            (annotations.row(Content::Int(1)), annotations.is_full)
        };
        assert_eq!(has_row(LONG_KEY + 1), (true, false));
        assert_eq!(has_row(LONG_KEY + 1), (false, true));
        assert_eq!(has_row(LONG_KEY), (true, false));
    }
}
