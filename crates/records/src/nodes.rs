//! A document of lists and dictionaries, as pickles and JSON files hold them, in one block of nodes.
//!
//! Nodes refer to each other by position, not by ownership. A value that a pickle names several times is held once, a list may even contain
//! itself, and neither building nor dropping recurses. Readers take known keys at known depths, so they terminate. What is in lists and texts is in two
//! more blocks: a dump has millions of small ones, and memory for each would take longer than the rest.

use std::borrow::Cow;
use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// More nodes than this are refused: 256 MB of memory. A dump with 20,000 entries has about a million.
pub(super) const MAX_NODES: usize = 16 << 20;

/// Room for more items than this is refused: 512 MB of memory. That dump has two million.
const MAX_ITEMS: usize = 128 << 20;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// A whole number beyond 64 bits.
    Huge,
    Float(f64),
    /// A part of the texts.
    Text(Part),
    /// Bytes, whose values no reader needs.
    Bytes,
    /// A part of the items.
    List(Part),
    /// The same; each key has its value after it.
    Dict(Part),
}

/// A part of a block. Items have room for more, up to the next power of two.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Part {
    first: u32,
    len: u32,
}

impl Part {
    fn range(self) -> std::ops::Range<usize> {
        self.first as usize..self.first as usize + self.len as usize
    }

    pub(super) fn is_empty(self) -> bool {
        self.len == 0
    }

    /// How many items there is room for.
    fn room(self) -> usize {
        if self.len == 0 { 0 } else { (self.len as usize).next_power_of_two() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
    items: Vec<u32>,
    texts: String,
    /// The keys of JSON, each once as in a pickle.
    keys: HashMap<Box<str>, u32, RandomState>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    document: &'a Document,
    at: u32,
}

impl Document {
    /// Adds a node; `None` if there are too many.
    pub(super) fn add(&mut self, node: Node) -> Option<u32> {
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        self.nodes.push(node);
        Some((self.nodes.len() - 1) as u32)
    }

    /// Adds a text; `None` if there are too many nodes.
    pub(super) fn add_text(&mut self, text: &str) -> Option<u32> {
        let part = Part { first: u32::try_from(self.texts.len()).ok()?, len: u32::try_from(text.len()).ok()? };
        let at = self.add(Node::Text(part))?;
        self.texts.push_str(text);
        Some(at)
    }

    /// The text of a key, which is added once; `None` if there are too many nodes.
    fn key(&mut self, text: &str) -> Option<u32> {
        if let Some(known) = self.keys.get(text) {
            return Some(*known);
        }
        let at = self.add_text(text)?;
        self.keys.insert(text.into(), at);
        Some(at)
    }

    /// Adds a list of these items; `None` if there are too many nodes.
    pub(super) fn add_list(&mut self, items: &[u32]) -> Option<u32> {
        let list = self.add(Node::List(Part::default()))?;
        self.extend(list, items)?;
        Some(list)
    }

    /// Adds items to a list, or keys and values to a dictionary; `None` if there are too many. What is elsewhere in the block is moved to its end, where it
    /// has room for as much again: so each item is moved a few times at most, in whatever order lists grow.
    pub(super) fn extend(&mut self, container: u32, more: &[u32]) -> Option<()> {
        let Some(Node::List(part) | Node::Dict(part)) = self.nodes.get_mut(container as usize) else { return Some(()) };
        let (old, len) = (*part, part.len as usize + more.len());
        let grown = Part { len: u32::try_from(len).ok()?, ..old };
        if old.room() < len {
            let first = self.items.len();
            if first + grown.room() > MAX_ITEMS {
                return None;
            }
            *part = Part { first: first as u32, ..grown };
            self.items.extend_from_within(old.range());
            self.items.extend(more);
            self.items.resize(first + grown.room(), 0);
        } else {
            *part = grown;
            let end = old.range().end;
            self.items[end..end + more.len()].copy_from_slice(more);
        }
        Some(())
    }

    /// Whether a node is this text.
    fn is_text(&self, at: u32, text: &str) -> bool {
        // Nearly all have other lengths, so that the texts are not looked at.
        let Some(Node::Text(part)) = self.nodes.get(at as usize) else { return false };
        part.len as usize == text.len() && self.texts.as_bytes()[part.range()] == *text.as_bytes()
    }

    /// The items of a list, or the keys and values of a dictionary.
    pub(super) fn items(&self, part: Part) -> &[u32] {
        &self.items[part.range()]
    }

    pub(super) fn value(&self, at: u32) -> Value<'_> {
        Value { document: self, at }
    }

    /// How many values a reader visits that follows a value down to a depth. A value that is named several times counts as often, and a long
    /// text as several values: a pickle of a few kilobytes can name a list of lists so often that reading takes hours.
    pub(super) fn unfolded(&self, root: u32, depth: u32) -> u64 {
        self.unfolded_once(root, depth, &mut vec![(0, 0); self.nodes.len()])
    }

    /// The same. `known` has by node at which depth it was counted last, and the count: values seldom are at several.
    fn unfolded_once(&self, at: u32, depth: u32, known: &mut [(u32, u64)]) -> u64 {
        match self.nodes.get(at as usize) {
            Some(Node::Text(text)) => 1 + u64::from(text.len) / 64,
            Some(Node::List(part) | Node::Dict(part)) if depth > 0 && !part.is_empty() => {
                if known[at as usize].0 == depth {
                    return known[at as usize].1;
                }
                let items = self.items(*part).iter();
                let count =
                    items.fold(1, |sum: u64, item| sum.saturating_add(self.unfolded_once(*item, depth - 1, known)));
                known[at as usize] = (depth, count);
                count
            }
            _ => 1,
        }
    }

    /// Reads the JSON document that begins here, without what follows it. One that breaks off, with an error, has the complete pairs of the outermost
    /// dictionary, and the complete elements of a list or dictionary without an end.
    pub(super) fn parse_json(text: &[u8]) -> (Document, u32, Option<serde_json::Error>) {
        let mut document = Document::default();
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let error = Builder(&mut document).deserialize(&mut deserializer).err();
        // A number at the end may lack digits, and any other value may be missing.
        let is_number = matches!(document.nodes.last(), Some(Node::Int(_) | Node::Huge | Node::Float(_)));
        let whole = document.nodes.len() - usize::from(is_number);
        if error.is_some()
            && let Some(Node::Dict(part)) = document.nodes.first_mut()
        {
            // Values come one after the other.
            let (pairs, _) = document.items[part.range()].as_chunks::<2>();
            part.len = 2 * pairs.iter().take_while(|[_, value]| (*value as usize) < whole).count() as u32;
        }
        // Containers come before what is in them.
        (document, 0, error)
    }
}

impl<'a> Value<'a> {
    fn node(self) -> Node {
        // Positions come from `add` of the same document.
        self.document.nodes.get(self.at as usize).copied().unwrap_or(Node::None)
    }

    /// The value of a key; `None` if this is no dictionary, or has no such key. The last of two equal keys counts, as in Python.
    pub(super) fn get(self, key: &str) -> Option<Value<'a>> {
        let found = self.chunks().iter().rev().find(|[at, _]| self.document.is_text(*at, key));
        found.map(|[_, value]| self.document.value(*value)).filter(|value| value.node() != Node::None)
    }

    fn chunks(self) -> &'a [[u32; 2]] {
        let Node::Dict(part) = self.node() else { return &[] };
        self.document.items(part).as_chunks().0
    }

    /// The pairs of a dictionary, in their order; none of another value.
    pub(super) fn pairs(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        self.chunks().iter().map(move |[key, value]| (self.document.value(*key), self.document.value(*value)))
    }

    /// The items of a list; none of another value.
    pub(super) fn items(self) -> impl ExactSizeIterator<Item = Value<'a>> + DoubleEndedIterator {
        let items = if let Node::List(part) = self.node() { self.document.items(part) } else { &[] };
        items.iter().map(move |at| self.document.value(*at))
    }

    /// Its number in the document: a value that is named several times has one.
    pub(super) fn position(self) -> u32 {
        self.at
    }

    pub(super) fn is_list(self) -> bool {
        matches!(self.node(), Node::List(_))
    }

    pub(super) fn is_dict(self) -> bool {
        matches!(self.node(), Node::Dict(_))
    }

    pub(super) fn text(self) -> Option<&'a str> {
        if let Node::Text(part) = self.node() { self.document.texts.get(part.range()) } else { None }
    }

    /// Some writers put numbers into quotes.
    pub(super) fn int(self) -> Option<i64> {
        match self.node() {
            Node::Int(number) => Some(number),
            Node::Text(_) => self.text()?.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn float(self) -> Option<f64> {
        match self.node() {
            Node::Int(number) => Some(number as f64),
            Node::Float(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn is_true(self) -> bool {
        matches!(self.node(), Node::Bool(true)) || self.int().is_some_and(|number| number != 0)
    }
}

/// The values of some keys in one dictionary after the other. Most have the keys of the one before, at the same places, so that these are not searched for again.
pub(super) struct Keyed<const N: usize> {
    names: [&'static str; N],
    /// The keys of the last dictionary, as positions in the document.
    keys: Vec<u32>,
    /// By name: its place among those keys.
    places: [Option<usize>; N],
}

impl<const N: usize> Keyed<N> {
    pub(super) fn new(names: [&'static str; N]) -> Self {
        Keyed { names, keys: Vec::new(), places: [None; N] }
    }

    /// By name: what [`Value::get`] gives.
    pub(super) fn of<'a>(&mut self, value: Value<'a>) -> [Option<Value<'a>>; N] {
        let pairs = value.chunks();
        if !pairs.iter().map(|[key, _]| key).eq(&self.keys) {
            self.keys = pairs.iter().map(|[key, _]| *key).collect();
            self.places = self.names.map(|name| self.keys.iter().rposition(|at| value.document.is_text(*at, name)));
        }
        let found = |place: Option<usize>| Some(value.document.value(pairs.get(place?)?[1]));
        self.places.map(|place| found(place).filter(|value| value.node() != Node::None))
    }
}

/// Puts a JSON value into a document. The depth is bounded by the parser.
struct Builder<'d>(&'d mut Document);

fn added<T, E: Error>(added: Option<T>) -> Result<T, E> {
    added.ok_or_else(|| E::custom("there are too many values"))
}

impl Builder<'_> {
    fn add<E: Error>(self, node: Node) -> Result<u32, E> {
        added(self.0.add(node))
    }
}

impl<'de> DeserializeSeed<'de> for Builder<'_> {
    type Value = u32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u32, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Builder<'_> {
    type Value = u32;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<u32, E> {
        self.add(Node::None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<u32, E> {
        self.add(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<u32, E> {
        self.add(Node::Int(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<u32, E> {
        self.add(i64::try_from(value).map_or(Node::Huge, Node::Int))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<u32, E> {
        self.add(Node::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<u32, E> {
        added(self.0.add_text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u32, A::Error> {
        let list = Builder(self.0).add(Node::List(Part::default()))?;
        while let Some(item) = seq.next_element_seed(Builder(self.0))? {
            added(self.0.extend(list, &[item]))?;
        }
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let dict = Builder(self.0).add(Node::Dict(Part::default()))?;
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            let key = added(self.0.key(&key))?;
            if dict == 0 {
                // The value becomes the next node, whether it has an end or not.
                added(self.0.extend(dict, &[key, self.0.nodes.len() as u32]))?;
                map.next_value_seed(Builder(self.0))?;
            } else {
                let value = map.next_value_seed(Builder(self.0))?;
                added(self.0.extend(dict, &[key, value]))?;
            }
        }
        Ok(dict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_twice_counts_twice() {
        // A list of two dictionaries, which are one, with a list of a number: 1 + 2 * (1 + 1 + (1 + 1)); without the number 1 + 2 * 3.
        let mut document = Document::default();
        let number = document.add(Node::Int(7)).unwrap();
        let list = document.add_list(&[number]).unwrap();
        let dict = document.add(Node::Dict(Part::default())).unwrap();
        document.extend(dict, &[number, list]).unwrap();
        let root = document.add_list(&[dict, dict]).unwrap();
        assert_eq!([0, 1, 2, 3, 9].map(|depth| document.unfolded(root, depth)), [1, 3, 7, 9, 9]);
        // A list of itself, twice.
        let mut endless = Document::default();
        endless.add_list(&[0, 0]).unwrap();
        assert_eq!((endless.unfolded(0, 3), endless.unfolded(0, 100)), (15, u64::MAX));
    }

    #[test]
    fn json_becomes_a_document() {
        let (document, root, _) = Document::parse_json(br#"{"a": [1, -2, "3", null, true, 1.5], "a": {"b": 7}}"#);
        let root = document.value(root);
        assert_eq!(root.get("a").unwrap().get("b").unwrap().int(), Some(7));
        let (_, list) = root.pairs().next().unwrap();
        assert_eq!(list.items().map(Value::int).collect::<Vec<_>>(), [Some(1), Some(-2), Some(3), None, None, None]);
        assert!(list.items().nth(4).unwrap().is_true() && list.items().nth(5).unwrap().float() == Some(1.5));
        assert!(root.get("c").is_none() && Document::parse_json(b"{\"a\": ").2.is_some());
    }

    #[test]
    fn the_values_of_keys_are_those_of_each_dictionary() {
        let text = br#"[{"a": 1, "b": 2}, {"a": 3, "b": null}, {"b": 4, "a": 5}, {"a": 6, "a": 7}, 8, {"c": 9}]"#;
        let (document, root, _) = Document::parse_json(text);
        let mut keyed = Keyed::new(["b", "a"]);
        let all = document.value(root).items().map(|item| (keyed.of(item).map(|value| value?.int()), item));
        let all: Vec<_> = all.map(|(found, item)| (found, ["b", "a"].map(|key| item.get(key)?.int()))).collect();
        assert!(all.iter().all(|(found, got)| found == got), "{all:?}");
        let a: Vec<_> = all.iter().map(|(found, _)| found[1]).collect();
        assert_eq!(a, [Some(1), Some(3), Some(5), Some(7), None, None]);
    }

    #[test]
    fn of_json_that_breaks_off_what_is_whole_is_kept() {
        let text = br#"{"v": "2", "e": [{"n": 1}, {"n": 23}], "rank": 12}"#;
        // By where it ends: the items of the list, how many keys the last of them has, and whether the other values are there.
        for (end, items, rank) in [(10, None, None), (18, Some(0), None), (24, Some(0), None), (25, Some(1), None)]
            .into_iter()
            .chain([(35, Some(1), None), (37, Some(2), None), (48, Some(2), None), (49, Some(2), None)])
        {
            let (document, root, error) = Document::parse_json(&text[..end]);
            let root = document.value(root);
            assert!(error.is_some(), "{end}");
            assert_eq!(root.get("v").and_then(Value::text), Some("2"), "{end}");
            assert_eq!(root.get("e").map(|list| list.items().len()), items, "{end}");
            assert_eq!(root.get("rank").and_then(Value::int), rank, "{end}");
        }
        let (document, root, error) = Document::parse_json(text);
        assert!(error.is_none() && document.value(root).get("rank").and_then(Value::int) == Some(12));
        assert!(Document::parse_json(b"").2.is_some() && Document::parse_json(b"12").2.is_none());
    }

    #[test]
    fn a_long_text_that_is_named_often_counts_as_often() {
        let mut document = Document::default();
        let text = document.add_text(&"x".repeat(6400)).unwrap();
        let list = document.add_list(&[text; 10]).unwrap();
        assert_eq!(document.unfolded(list, 1), 1 + 10 * 101);
    }

    /// Two lists that grow in turn have their own items, and take a few times their room.
    #[test]
    fn lists_that_grow_in_turn_are_apart() {
        let mut document = Document::default();
        let lists = [document.add_list(&[]).unwrap(), document.add_list(&[7]).unwrap()];
        for number in 0..1000 {
            lists.iter().for_each(|list| document.extend(*list, &[number, list + 1]).unwrap());
        }
        for (list, first) in lists.into_iter().zip([vec![], vec![7]]) {
            let items: Vec<u32> = document.value(list).items().map(Value::position).collect();
            let more = (0..1000).flat_map(|number| [number, list + 1]);
            assert_eq!(items, first.into_iter().chain(more).collect::<Vec<u32>>());
        }
        assert!(document.items.len() <= 4 * 4001, "{}", document.items.len());
    }
}
