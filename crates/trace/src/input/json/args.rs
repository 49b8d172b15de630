//! An event's arguments: its ids, and the rows that a load keeps, which are all of them or those of some keys of some events.
//!
//! Most events that have arguments are searched for a few keys, without reading anything else, so this must cost next to nothing.
//! Kineto writes the keys that are wanted one after the other: where a value ends the next key is compared first, and only if it is not
//! there is the rest searched for it. Rows are flattened the way Perfetto does.

use std::ops::Range;

use memchr::memmem::Finder;

use super::marks::Marks;
use super::repair::{Outcome, Recoverer};
use super::value::{SyntaxError, Token, Walker, is_space, unescape, value_after_key};
use crate::damage::Damage;
use crate::event::ids::{IdArg, IdValue};
use crate::event::{ArgList, ArgValue, ArgsWanted, EventIds, Keep, KeySet};
use crate::names::args::{self as keys, in_table};
use crate::names::category::CategoryKind;

/// Fills a list with the arguments of one event.
pub(super) struct KeptArgs {
    /// `None`: all of them.
    keys: Option<KeptKeys>,
    recoverer: Recoverer,
}

struct KeptKeys {
    set: KeySet,
    /// Each with its key in the table of arguments.
    keys: Vec<(Key, String)>,
    /// Keys of which only their presence in an operator is kept.
    present: Vec<(Key, String)>,
    /// Find the keys of [`Keep::IfRecorded`], of [`Keep::IfAnnotated`], and of kernels without a category.
    record: Key,
    annotation: Key,
    without_category: Key,
}

#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: CategoryKind,
    pub(super) has_category: bool,
    /// Whether a graph launched it is among these. Only such kernels have annotations.
    pub(super) ids: &'a EventIds,
    /// Empty if it has none.
    pub(super) name: &'a [u8],
    /// Whether its arguments are known to be nothing but numbers and nulls.
    pub(super) is_flat: bool,
}

impl KeptArgs {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let found = |keys: &[&str]| keys.iter().map(|key| (Key::new(key), in_table(key))).collect();
        let keys = wanted.keys().map(|(set, present)| KeptKeys {
            set,
            keys: found(set.keys),
            present: found(present),
            record: Key::new(keys::COLLECTIVE),
            annotation: Key::new(keys::ANNOTATION),
            without_category: Key::new(KeySet::MARKER_WITHOUT_CATEGORY),
        });
        KeptArgs { keys, recoverer: Recoverer::default() }
    }

    /// Adds the rows of the `args` object in a range of a marked text, and what was wrong with them.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        owner: Owner<'_>,
        text: &[u8],
        object: Range<usize>,
        marks: &mut Marks,
        list: &mut ArgList,
        faults: &mut Vec<Damage>,
    ) {
        match &self.keys {
            None => flatten_all(&mut self.recoverer, &text[object], list, faults),
            Some(kept) => {
                let are_wanted = kept.are_wanted(owner, &text[object.clone()]);
                let from = object.start + 1;
                if are_wanted {
                    kept.read(Search::new(text, object.clone(), from, marks), list, faults);
                }
                if !kept.present.is_empty() && owner.kind == CategoryKind::Cpu {
                    kept.see(Search::new(text, object, from, marks), list);
                }
            }
        }
    }
}

impl KeptKeys {
    #[inline(always)]
    fn are_wanted(&self, owner: Owner<'_>, object: &[u8]) -> bool {
        if owner.is_flat && !self.set.may_be_numbers() {
            return false;
        }
        let is_of_graph = || matches!(owner.ids, EventIds::Gpu { graph_node_id: 1.., .. });
        let is_annotated = || is_of_graph() && self.annotation.0.find(object).is_some();
        match self.set.keep(owner.kind, owner.name) {
            Keep::Nothing => !owner.has_category && self.without_category.0.find(object).is_some(),
            Keep::IfAnnotated => is_annotated(),
            Keep::IfRecorded => self.record.0.find(object).is_some() || is_annotated(),
            Keep::Keys => true,
        }
    }

    #[inline(never)]
    fn read(&self, mut search: Search<'_, '_>, list: &mut ArgList, faults: &mut Vec<Damage>) {
        for (key, in_table) in &self.keys {
            match search.value(key).map(|value| flatten_member(in_table, value, list)) {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => faults.push(Damage::ArgsTooDeep),
                Some(Err(SyntaxError)) => faults.push(Damage::ArgsSyntax),
            }
        }
    }

    /// Adds a row for each key that is there, whatever its value is.
    #[inline(never)]
    fn see(&self, mut search: Search<'_, '_>, list: &mut ArgList) {
        for (key, in_table) in &self.present {
            if search.value(key).is_some() {
                list.push(in_table, None, ArgValue::Bool(true));
            }
        }
    }
}

/// Flattens an `args` object, also if it is not quite JSON.
#[inline(never)]
fn flatten_all(recoverer: &mut Recoverer, object: &[u8], list: &mut ArgList, faults: &mut Vec<Damage>) {
    match flatten(object, list) {
        Ok(false) => {}
        Ok(true) => faults.push(Damage::ArgsTooDeep),
        Err(_) => flatten_recovered(recoverer, object, list, faults),
    }
}

#[cold]
fn flatten_recovered(recoverer: &mut Recoverer, object: &[u8], list: &mut ArgList, faults: &mut Vec<Damage>) {
    if recoverer.object(object, 0, true) != (Outcome::Whole { end: object.len() }) {
        return faults.push(Damage::ArgsSyntax);
    }
    faults.extend(recoverer.faults.iter().map(|(kind, _)| *kind));
    list.clear();
    match flatten(&recoverer.json, list) {
        Ok(is_too_deep) => faults.extend(is_too_deep.then_some(Damage::ArgsTooDeep)),
        Err(_) => faults.push(Damage::ArgsSyntax),
    }
}

/// What is known of an event's ids before its arguments are searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownIds {
    /// By [`IdArg`].
    pub(super) values: [IdValue; IdArg::COUNT],
    /// The byte after the arguments that were read; 0: none were.
    pub(super) end: u32,
    /// Whether that is all of them, so that an event has no other arguments than whole numbers and nulls.
    pub(super) are_all: bool,
}

impl KnownIds {
    pub(super) const NONE: KnownIds = KnownIds { values: [IdValue::Missing; IdArg::COUNT], end: 0, are_all: false };
}

pub(super) struct IdFinder {
    /// By [`IdArg`].
    keys: [Key; IdArg::COUNT],
}

impl IdFinder {
    pub(super) fn new() -> Self {
        IdFinder { keys: IdArg::KEYS.map(|(_, key)| Key::new(key)) }
    }

    /// The ids in an `args` object within a marked text, by what its event is.
    #[inline]
    pub(super) fn find(
        &self,
        kind: CategoryKind,
        text: &[u8],
        object: Range<usize>,
        known: &KnownIds,
        marks: &mut Marks,
    ) -> EventIds {
        let from = (object.start + 1).max(known.end as usize);
        let mut search = Search::new(text, object, from, marks);
        EventIds::read(kind, |arg| match known.values[arg as usize] {
            IdValue::Missing if !known.are_all => search.id(&self.keys[arg as usize]),
            value => value,
        })
    }
}

/// Finds a key with its quotes.
struct Key(Finder<'static>);

impl Key {
    pub(super) fn new(key: &str) -> Self {
        Key(Finder::new(format!("\"{key}\"").as_bytes()).into_owned())
    }

    fn text(&self) -> &[u8] {
        self.0.needle()
    }
}

/// A search through the members of one object. No key must be searched for twice.
struct Search<'a, 'm> {
    text: &'a [u8],
    object: Range<usize>,
    /// After the value that was found last.
    at: usize,
    /// Whether members before it were skipped, which may have keys that are searched for later.
    skipped: bool,
    marks: &'m mut Marks,
}

impl<'a, 'm> Search<'a, 'm> {
    /// A search through an object within a marked text. Before `from` there is none of the keys.
    #[inline]
    pub(super) fn new(text: &'a [u8], object: Range<usize>, from: usize, marks: &'m mut Marks) -> Self {
        Search { text, at: from, object, skipped: false, marks }
    }

    #[inline(never)]
    pub(super) fn id(&mut self, key: &Key) -> IdValue {
        match self.value(key) {
            Some(Token::Null) => IdValue::Null,
            Some(token) => as_number(token).map_or(IdValue::Missing, IdValue::Number),
            None => IdValue::Missing,
        }
    }

    /// The value of a key: the next member's if that has it, otherwise that of the first with this key.
    pub(super) fn value(&mut self, key: &Key) -> Option<Token<'a>> {
        let text: &'a [u8] = &self.text[..self.object.end];
        let next = self.colon_of_next(key);
        let colon = next.or_else(|| self.find(key))?;
        let (value, end) = value_after_key(text, colon, self.marks).ok()?;
        self.at = end;
        self.skipped |= next.is_none();
        Some(value)
    }

    /// Where the colon after a key is, if this key comes next.
    fn colon_of_next(&self, key: &Key) -> Option<usize> {
        let text = self.text;
        let mut at = self.at;
        while is_space(*text.get(at)?) || text[at] == b',' {
            at += 1;
        }
        at += text.get(at..)?.starts_with(key.text()).then_some(key.text().len())?;
        (*text.get(at)? == b':').then_some(at)
    }

    /// The byte after a key, wherever it is: the search begins here and goes on from the start.
    fn find(&mut self, key: &Key) -> Option<usize> {
        if let Some(found) = self.find_between(key, self.at..self.object.end) {
            return Some(found);
        }
        if !self.skipped {
            return None;
        }
        let end = (self.at + key.text().len()).min(self.object.end);
        self.find_between(key, self.object.start..end)
    }

    fn find_between(&mut self, key: &Key, within: Range<usize>) -> Option<usize> {
        let text = self.text.get(..within.end)?;
        let start = self.object.start;
        let mut depth = Depth { searched: start + 1, object: None, bracket: Some(start), depth: 0 };
        let mut from = within.start;
        loop {
            let at = from + key.0.find(text.get(from..)?)?;
            let after = at + key.text().len();
            // What looks like the key may be part of a longer text, or be nested deeper.
            let is_string = self.marks.quote(text, at) == Some(at) && self.marks.quote(text, at + 1) == Some(after - 1);
            if is_string && is_key(self.text, after) && depth.is_one(text, at, self.marks) {
                return Some(after);
            }
            from = at + 1;
        }
    }
}

/// How deep keys of an object are nested, asked from left to right, so that nothing is counted twice.
struct Depth {
    /// Up to here there is no other object.
    searched: usize,
    object: Option<usize>,
    /// Brackets before this one are counted.
    bracket: Option<usize>,
    depth: i64,
}

impl Depth {
    /// Whether a key is one of the object itself: if no other object begins before it, it must be.
    fn is_one(&mut self, text: &[u8], key: usize, marks: &mut Marks) -> bool {
        if self.object.is_none() {
            self.object = memchr::memchr(b'{', &text[self.searched..key]);
            self.searched = key;
        }
        if self.object.is_none() {
            return true;
        }
        while let Some(bracket) = self.bracket.filter(|bracket| *bracket < key) {
            self.depth += if matches!(text.get(bracket), Some(b'{' | b'[')) { 1 } else { -1 };
            self.bracket = marks.bracket(text, bracket + 1);
        }
        self.depth == 1
    }
}

/// Whether a colon is the next visible byte.
fn is_key(text: &[u8], from: usize) -> bool {
    text[from..].iter().find(|byte| !is_space(**byte)) == Some(&b':')
}

/// The number that a value is, by the rule for all arguments.
fn as_number(token: Token<'_>) -> Option<i64> {
    match token {
        // What is too large for an integer is kept as text, and fits no better then.
        Token::Number(digits) => number(digits)?.whole(|_| None),
        Token::Text(raw) => ArgValue::Text(unescape(raw)).whole(|text| Some(text)),
        _ => None,
    }
}

/// Arguments nested deeper than this are left out; real ones have four levels.
const MAX_DEPTH: usize = 64;

/// Keys, with all that they are within, that are longer are left out; real ones have up to a hundred bytes.
const MAX_KEY: usize = 1024;

/// The keys of one event's arguments are written out up to so many times the text that they come from, and a little more: a long key
/// around a list of a million numbers would come a million times.
const MAX_KEYS: usize = 64;
const MAX_KEYS_MORE: usize = 64 << 10;

/// Fills `list` with all of an `args` object. Returns whether anything was left out: nested too deep, or with keys too long.
/// Rows before a syntax error are kept, as in Perfetto.
pub(super) fn flatten(object: &[u8], list: &mut ArgList) -> Result<bool, SyntaxError> {
    let key = "args".to_owned();
    let mut path = Path { flat_key: key.clone(), key, indexed: false, left_out: false, room: room(object) };
    flatten_object(object, &mut path, list, 0)?;
    Ok(path.left_out)
}

/// Adds the rows of one member, given with its key in the table. Returns whether anything was left out.
fn flatten_member(key: &str, value: Token<'_>, list: &mut ArgList) -> Result<bool, SyntaxError> {
    let (Token::Object(text) | Token::Array(text)) = value else {
        with_scalar(value, |value| list.push(key, None, value));
        return Ok(false);
    };
    let (key, flat_key) = (key.to_owned(), key.to_owned());
    let mut path = Path { flat_key, key, indexed: false, left_out: false, room: room(text) };
    flatten_value(value, &mut path, list, 0)?;
    Ok(path.left_out)
}

/// The same for one JSON value of any sort, under keys that there are already. Whether there is a row.
pub(in crate::input) fn flatten_value_of(text: &[u8], key: &str, flat_key: &str, list: &mut ArgList) -> bool {
    let had = list.len();
    let mut path = Path {
        key: key.to_owned(),
        flat_key: flat_key.to_owned(),
        indexed: key != flat_key,
        left_out: false,
        room: room(text),
    };
    let container = [b"[", text, b"]"].concat();
    if let Ok(Some(token)) = Walker::new(&container).element() {
        let _ = flatten_value(token, &mut path, list, 0);
    }
    list.len() > had
}

/// The key under construction; steps are taken back by truncating the text.
struct Path {
    key: String,
    flat_key: String,
    indexed: bool,
    left_out: bool,
    /// How many bytes of keys may still be written.
    room: usize,
}

fn room(text: &[u8]) -> usize {
    (MAX_KEYS * text.len()).min(64 << 20) + 8 * text.len() + MAX_KEYS_MORE
}

fn flatten_object(object: &[u8], path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    let mut walker = Walker::new(object);
    while let Some((key, token)) = walker.member()? {
        let (before, flat_before) = (path.key.len(), path.flat_key.len());
        let name = unescape(key);
        path.key.push('.');
        path.key.push_str(&name);
        path.flat_key.push('.');
        path.flat_key.push_str(&name);
        let result = flatten_value(token, path, list, depth);
        path.key.truncate(before);
        path.flat_key.truncate(flat_before);
        result?;
    }
    if walker.has_wrong_commas() { Err(SyntaxError) } else { Ok(()) }
}

fn flatten_array(array: &[u8], path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    use std::fmt::Write;
    let mut walker = Walker::new(array);
    let was_indexed = std::mem::replace(&mut path.indexed, true);
    let mut index = 0;
    while let Some(token) = walker.element()? {
        // A null gives no row and uses no index; an empty array or object gives none but uses one.
        if token == Token::Null {
            continue;
        }
        let before = path.key.len();
        write!(path.key, "[{index}]").expect("writing to a String does not fail");
        let result = flatten_value(token, path, list, depth);
        path.key.truncate(before);
        result?;
        index += 1;
    }
    path.indexed = was_indexed;
    if walker.has_wrong_commas() { Err(SyntaxError) } else { Ok(()) }
}

fn flatten_value(token: Token<'_>, path: &mut Path, list: &mut ArgList, depth: usize) -> Result<(), SyntaxError> {
    match token {
        Token::Object(_) | Token::Array(_) if depth >= MAX_DEPTH => {
            path.left_out = true;
            Ok(())
        }
        Token::Object(object) => flatten_object(object, path, list, depth + 1),
        Token::Array(array) => flatten_array(array, path, list, depth + 1),
        _ => {
            let length = path.key.len() + if path.indexed { path.flat_key.len() } else { 0 };
            match path.room.checked_sub(length).filter(|_| path.key.len() <= MAX_KEY) {
                Some(room) => {
                    path.room = room;
                    with_scalar(token, |value| list.push(&path.key, path.indexed.then_some(&*path.flat_key), value));
                }
                None => path.left_out = true,
            }
            Ok(())
        }
    }
}

/// Passes on a value, if it is no object and no array.
fn with_scalar(token: Token<'_>, push: impl FnOnce(ArgValue<&str>)) {
    match token {
        Token::Text(raw) => push(ArgValue::Text(&unescape(raw))),
        Token::True => push(ArgValue::Bool(true)),
        Token::False => push(ArgValue::Bool(false)),
        Token::Number(digits) => {
            if let Some(value) = number(digits) {
                push(value);
            }
        }
        Token::Null | Token::Object(_) | Token::Array(_) => {}
    }
}

/// A number as an argument. An integer that fits no `i64` stays text, digit for digit: half of NCCL's communicator ids
/// are such numbers, and a double (let alone Perfetto's wrapped one) would make different ids equal.
pub(super) fn number(digits: &[u8]) -> Option<ArgValue<&str>> {
    let text = std::str::from_utf8(digits).ok()?;
    if let Ok(value) = text.parse::<i64>() {
        return Some(ArgValue::Int(value));
    }
    let value = text.parse::<f64>().ok()?;
    if text.bytes().skip(usize::from(digits[0] == b'-')).all(|b| b.is_ascii_digit()) {
        return Some(ArgValue::Text(text));
    }
    Some(ArgValue::Real(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventsOf;
    use crate::event::ids::PythonCaller;

    /// The rows that are kept of an `args` object.
    fn kept(wanted: ArgsWanted, kind: CategoryKind, name: &[u8], object: &str) -> (Vec<String>, Vec<Damage>) {
        let (mut list, mut faults) = (ArgList::default(), Vec::new());
        let owner = Owner { kind, has_category: true, ids: &EventIds::NONE, name, is_flat: false };
        let marks = &mut Marks::default();
        KeptArgs::new(wanted).read(owner, object.as_bytes(), 0..object.len(), marks, &mut list, &mut faults);
        (list.iter().map(|(key, flat_key, value)| format!("{key} {flat_key} {value:?}")).collect(), faults)
    }

    /// Whatever the category is, the rows of a key are those that it has among all.
    #[test]
    fn keys_of_any_event_are_kept() {
        let wanted = ArgsWanted::Keys(KeySet { keys: &["Input Dims", "grid", "stream", "none"], of: EventsOf::Any });
        let object = r#"{"Ev Idx":1,"stream":7,"Input Dims":[[2,3],[],[{"a":4}]],"x":{"grid":1},"grid":[512,1]}"#;
        for kind in [CategoryKind::Cpu, CategoryKind::Kernel, CategoryKind::Frame, CategoryKind::Runtime] {
            let (rows, faults) = kept(wanted, kind, b"aten::mm", object);
            assert_eq!(
                rows,
                [
                    "args.Input Dims[0][0] args.Input Dims Int(2)",
                    "args.Input Dims[0][1] args.Input Dims Int(3)",
                    "args.Input Dims[2][0].a args.Input Dims.a Int(4)",
                    "args.grid[0] args.grid Int(512)",
                    "args.grid[1] args.grid Int(1)",
                    "args.stream args.stream Int(7)",
                ]
            );
            assert_eq!(faults, []);
            let (all, _) = kept(ArgsWanted::All, kind, b"aten::mm", object);
            assert!(rows.iter().all(|row| all.contains(row)));
        }
        let deep = format!(r#"{{"grid":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"", &deep), (vec![], vec![Damage::ArgsTooDeep]));
        assert_eq!(
            kept(wanted, CategoryKind::Cpu, b"", r#"{"grid":[1,nul]}"#),
            (vec!["args.grid[0] args.grid Int(1)".to_owned()], vec![Damage::ArgsSyntax])
        );
    }

    /// An empty list, null and a long text count alike; a key within a value is none of the event's.
    #[test]
    fn of_some_keys_only_their_presence_is_kept() {
        let present = &["Input Dims", "Input Strides", "cycles", "Call stack"];
        let values = KeySet { keys: &["Collective name"], of: EventsOf::Collectives };
        let wanted = ArgsWanted::Present { values, present };
        let long = "x".repeat(1 << 20);
        let object = format!(r#"{{"cycles":7,"Input Dims":[[]],"Ev Idx":1,"Input Strides":null,"kwargs":"{long}"}}"#);
        let seen = ["Input Dims", "Input Strides", "cycles"].map(|key| format!("args.{key} args.{key} Bool(true)"));
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"aten::mm", &object), (seen.to_vec(), vec![]));
        for kind in [CategoryKind::Kernel, CategoryKind::Frame, CategoryKind::Runtime] {
            assert_eq!(kept(wanted, kind, b"aten::mm", &object), (vec![], vec![]));
        }
        let record = r#"{"Collective name":"allreduce","Input Dims":[],"Group size":2}"#;
        let rows = [
            r#"args.Collective name args.Collective name Text("allreduce")"#,
            "args.Input Dims args.Input Dims Bool(true)",
        ];
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"record_param_comms", record).0, rows);
        assert_eq!(kept(wanted, CategoryKind::Kernel, b"ncclDevKernel", record).0, &rows[..1]);
    }

    #[test]
    fn collectives_are_records_and_their_kernels() {
        let object = r#"{"Collective name":"allreduce","stream":7,"Group size":2}"#;
        let rows =
            ["args.Collective name args.Collective name Text(\"allreduce\")", "args.Group size args.Group size Int(2)"];
        for (kind, name, object, is_one) in [
            (CategoryKind::Cpu, "record_param_comms", object, true),
            (CategoryKind::Cpu, "nccl:all_reduce", object, false),
            (CategoryKind::Kernel, "ncclDevKernel_AllReduce", object, true),
            (CategoryKind::Kernel, "_ZN4rccl11AllReduce", object, true),
            (CategoryKind::Kernel, "ncclDevKernel_AllReduce", r#"{"Group size":2}"#, false),
            (CategoryKind::Kernel, "gemm", object, false),
            (CategoryKind::Runtime, "record_param_comms", object, false),
        ] {
            let (found, _) = kept(ArgsWanted::COLLECTIVES, kind, name.as_bytes(), object);
            assert_eq!(found == rows, is_one, "{kind:?} {name}");
            assert_eq!(found.is_empty(), !is_one, "{kind:?} {name}");
        }
    }

    fn ids(category: &str, object: &str) -> EventIds {
        let text = format!(r#"{{"cat":"{category}","args":{object}}}"#);
        let object = text.len() - 1 - object.len()..text.len() - 1;
        let kind = CategoryKind::from_name(category);
        IdFinder::new().find(kind, text.as_bytes(), object, &KnownIds::NONE, &mut Marks::default())
    }

    /// Among them what only looks like the key: values, parts of texts, escaped quotes, deeper places.
    #[test]
    fn the_correlation_id_is_found() {
        for (object, want) in [
            (r#"{"x":{"correlation":9},"correlation":7,"External id":1,"stream":7.5}"#, 7),
            (r#"{"a":"correlation","correlation" : 5}"#, 5),
            (r#"{"a":"\"correlation\":3","b":["correlation",{"correlation":4}]}"#, 0),
            (r#"{"correlation":1,"correlation":2}"#, 1),
            (r#"{"correlation":1,"correlation":null}"#, 1),
            (r#"{"correlation":true,"correlation":1}"#, 0),
            (r#"{"a":{},"correlation":"6"}"#, 6),
            (r#"{"a":{},"correlation":"text"}"#, 0),
            (r#"{"correlation":5.0}"#, 5),
            (r#"{"correlation":5.5}"#, 0),
            (r#"{"correlation":-5}"#, 0),
            (r#"{"correlation":9223372036854775807}"#, i64::MAX),
            (r#"{"correlation":18446744073709551615}"#, 0),
            (r#"{"correlation":[1]}"#, 0),
            (r#"{"correlation":}"#, 0),
            (r#"{"correlations":1,"correlation":null}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(ids("cuda_runtime", object), EventIds::Call { correlation: want }, "{object}");
            let EventIds::Gpu { correlation, .. } = ids("kernel", object) else { panic!("{object}") };
            assert_eq!(correlation, want, "{object}");
        }
    }

    #[test]
    fn each_category_has_its_own_ids() {
        use PythonCaller::{Frame, Nobody, Unknown};
        let python = |python_id, python_caller| EventIds::Python { python_id, python_caller };
        let operator =
            |sequence_number, forward_thread| EventIds::Operator { external_id: 3, sequence_number, forward_thread };
        let gpu_on = |stream, external_id, graph_id, graph_node_id| EventIds::Gpu {
            correlation: 4,
            external_id,
            graph_id,
            graph_node_id,
            stream,
        };
        let gpu = |external_id, graph_id, graph_node_id| gpu_on(None, external_id, graph_id, graph_node_id);
        for (category, object, want) in [
            ("python_function", r#"{"Python parent id": 4, "Python id": 5, "Ev Idx": 6}"#, python(5, Frame(4))),
            ("python_function", r#"{ "Python parent id": null, "Python id": 5 }"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5,"Ev Idx":1,"Python parent id":0}"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5}"#, python(5, Unknown)),
            ("python_function", r#"{"Ev Idx":{"Python id":5}}"#, python(0, Unknown)),
            ("python_function", r#"{"Python parent id":"7","Python id":8.0,"correlation":3}"#, python(8, Frame(7))),
            (
                "cpu_op",
                r#"{"External id": 3,"Record function id": 0, "Sequence number": 9, "Fwd thread id": 1}"#,
                operator(Some(9), 1),
            ),
            (
                "cpu_op",
                r#"{"External id": "3","Record function id": "12345", "Sequence number": "42", "Fwd thread id": "140735268359168"}"#,
                operator(Some(42), 140_735_268_359_168),
            ),
            ("cpu_op", r#"{"Sequence number":"42","Fwd thread id":"0x7f","External id":3}"#, operator(Some(42), 0)),
            ("cpu_op", r#"{"External id":"3","Sequence number":"-1"}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":"3","Sequence number":"4 2"}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Fwd thread id":2,"Sequence number":0,"x":1}"#, operator(Some(0), 2)),
            ("cpu_op", r#"{"Ev Idx":1,"External id":3,"Fwd thread id":2}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Sequence number":-1}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Call stack":"a \"Sequence number\": 4"}"#, operator(None, 0)),
            (
                "kernel",
                r#"{"External id":3,"correlation":4,"stream":7,"graph id":5,"graph node id":6}"#,
                gpu_on(Some(7), 3, 5, 6),
            ),
            ("kernel", r#"{"stream":0,"correlation":4,"x":{"stream":7}}"#, gpu_on(Some(0), 0, 0, 0)),
            ("gpu_memset", r#"{"stream":"0x7f","correlation":4}"#, gpu(0, 0, 0)),
            ("kernel", r#"{"stream":-1,"correlation":4,"x":{"stream":7}}"#, gpu(0, 0, 0)),
            ("kernel", r#"{"External id":"3","correlation":"4","graph id":"5","graph node id":"6"}"#, gpu(3, 5, 6)),
            ("kernel", r#"{"correlation":4,"graph node id":0,"graph id":5}"#, gpu(0, 0, 0)),
            ("gpu_memcpy", r#"{"graph node id":7,"correlation":4}"#, gpu(0, 0, 7)),
            ("cuda_runtime", r#"{"External id":3,"cbid":1,"correlation":4}"#, EventIds::Call { correlation: 4 }),
        ] {
            assert_eq!(ids(category, object), want, "{category} {object}");
        }
    }

    fn all_rows(object: &str) -> Vec<String> {
        let mut list = ArgList::default();
        let _ = flatten(object.as_bytes(), &mut list);
        shown(&list)
    }

    fn shown(list: &ArgList) -> Vec<String> {
        list.iter()
            .map(
                |(key, flat_key, value)| {
                    if key == flat_key { format!("{key} {value:?}") } else { format!("{key} {flat_key} {value:?}") }
                },
            )
            .collect()
    }

    #[test]
    fn rows_before_a_fault_are_kept() {
        assert_eq!(all_rows(r#"{"a":1,"b":NaN,"c":2}"#), ["args.a Int(1)"]);
        assert_eq!(all_rows(r#"{"a":1.5e3,"b":-0}"#), ["args.a Real(1500.0)", "args.b Int(0)"]);
        assert_eq!(flatten(br#"{"a":[1]}"#, &mut ArgList::default()), Ok(false));
        assert_eq!(flatten(br#"{"a":[1 2]}"#, &mut ArgList::default()), Err(SyntaxError));
        let deep = format!(r#"{{"a":{}1{},"b":2}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(all_rows(&deep), ["args.b Int(2)"]);
        assert_eq!(flatten(deep.as_bytes(), &mut ArgList::default()), Ok(true));
        let long = format!(r#"{{"{}":1,"b":2}}"#, "k".repeat(MAX_KEY));
        assert_eq!(all_rows(&long), ["args.b Int(2)"]);
        // A key of a thousand bytes around a hundred thousand numbers.
        let many = format!(r#"{{"{}":[{}1]}}"#, "k".repeat(1000), "1,".repeat(100_000));
        let mut list = ArgList::default();
        assert_eq!(flatten(many.as_bytes(), &mut list), Ok(true));
        assert!(
            list.text_len() <= room(many.as_bytes()) && list.len() > 1_000,
            "{} of {}",
            list.text_len(),
            many.len()
        );
    }
}
