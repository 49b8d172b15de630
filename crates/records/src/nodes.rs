//! A document of lists and dictionaries, as pickles and JSON files hold them, in one block of nodes.
//!
//! Nodes refer to each other by position, not by ownership. A value that a pickle names several times is held once, a list may even contain
//! itself, and neither building nor dropping recurses. Readers take known keys at known depths, so they terminate.

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};

/// More nodes than this are refused: about 600 MB of memory. A dump with 20,000 entries has about a million.
pub(super) const MAX_NODES: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    None,
    Bool(bool),
    Int(i64),
    /// A whole number beyond 64 bits.
    Huge,
    Float(f64),
    Text(Box<str>),
    /// Bytes, whose values no reader needs.
    Bytes,
    List(Vec<u32>),
    Dict(Vec<(u32, u32)>),
}

#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
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

    pub(super) fn value(&self, at: u32) -> Value<'_> {
        Value { document: self, at }
    }

    /// How many values a reader visits that follows a value down to a depth. A value that is named several times counts as often, and a long
    /// text as several values: a pickle of a few kilobytes can name a list of lists so often that reading takes hours.
    pub(super) fn unfolded(&self, root: u32, depth: u32) -> u64 {
        let own = |node: &Node| if let Node::Text(text) = node { 1 + text.len() as u64 / 64 } else { 1 };
        let mut sizes: Vec<u64> = self.nodes.iter().map(own).collect();
        for _ in 0..depth {
            let of = |at: &u32| sizes.get(*at as usize).copied().unwrap_or(1);
            let sum = |parts: &mut dyn Iterator<Item = u64>| parts.fold(1_u64, u64::saturating_add);
            let next = self.nodes.iter().map(|node| match node {
                Node::List(items) => sum(&mut items.iter().map(of)),
                Node::Dict(pairs) => sum(&mut pairs.iter().map(|(key, value)| of(key).saturating_add(of(value)))),
                other => own(other),
            });
            sizes = next.collect();
        }
        sizes.get(root as usize).copied().unwrap_or(1)
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
            && let Some(Node::Dict(pairs)) = document.nodes.first_mut()
        {
            pairs.retain(|(_, value)| (*value as usize) < whole);
        }
        // Containers come before what is in them.
        (document, 0, error)
    }

    fn add_item(&mut self, list: u32, item: u32) {
        if let Some(Node::List(items)) = self.nodes.get_mut(list as usize) {
            items.push(item);
        }
    }

    fn add_pair(&mut self, dict: u32, key: u32, value: u32) {
        if let Some(Node::Dict(pairs)) = self.nodes.get_mut(dict as usize) {
            pairs.push((key, value));
        }
    }
}

impl<'a> Value<'a> {
    fn node(self) -> &'a Node {
        // Positions come from `add` of the same document.
        self.document.nodes.get(self.at as usize).unwrap_or(&Node::None)
    }

    /// The value of a key; `None` if this is no dictionary, or has no such key. The last of two equal keys counts, as in Python.
    pub(super) fn get(self, key: &str) -> Option<Value<'a>> {
        let Node::Dict(pairs) = self.node() else { return None };
        let found = pairs.iter().rev().find(|(at, _)| self.document.value(*at).text() == Some(key));
        found.map(|(_, value)| self.document.value(*value)).filter(|value| *value.node() != Node::None)
    }

    /// The pairs of a dictionary, in their order; none of another value.
    pub(super) fn pairs(self) -> impl Iterator<Item = (Value<'a>, Value<'a>)> {
        let pairs: &[(u32, u32)] = if let Node::Dict(pairs) = self.node() { pairs } else { &[] };
        pairs.iter().map(move |(key, value)| (self.document.value(*key), self.document.value(*value)))
    }

    /// The items of a list; none of another value.
    pub(super) fn items(self) -> impl ExactSizeIterator<Item = Value<'a>> + DoubleEndedIterator {
        let items: &[u32] = if let Node::List(items) = self.node() { items } else { &[] };
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
        if let Node::Text(text) = self.node() { Some(text) } else { None }
    }

    /// Some writers put numbers into quotes.
    pub(super) fn int(self) -> Option<i64> {
        match self.node() {
            Node::Int(number) => Some(*number),
            Node::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(super) fn float(self) -> Option<f64> {
        match self.node() {
            Node::Int(number) => Some(*number as f64),
            Node::Float(number) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn is_true(self) -> bool {
        matches!(self.node(), Node::Bool(true)) || self.int().is_some_and(|number| number != 0)
    }
}

/// Puts a JSON value into a document. The depth is bounded by the parser.
struct Builder<'d>(&'d mut Document);

impl Builder<'_> {
    fn add<E: Error>(self, node: Node) -> Result<u32, E> {
        self.0.add(node).ok_or_else(|| E::custom("there are too many values"))
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
        self.add(Node::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<u32, A::Error> {
        let list = Builder(self.0).add(Node::List(Vec::new()))?;
        while let Some(item) = seq.next_element_seed(Builder(self.0))? {
            self.0.add_item(list, item);
        }
        Ok(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<u32, A::Error> {
        let dict = Builder(self.0).add(Node::Dict(Vec::new()))?;
        while let Some(key) = map.next_key_seed(Builder(self.0))? {
            if dict == 0 {
                // The value becomes the next node, whether it has an end or not.
                self.0.add_pair(dict, key, self.0.nodes.len() as u32);
                map.next_value_seed(Builder(self.0))?;
            } else {
                let value = map.next_value_seed(Builder(self.0))?;
                self.0.add_pair(dict, key, value);
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
        let nodes = vec![Node::Int(7), Node::List(vec![0]), Node::Dict(vec![(0, 1)]), Node::List(vec![2, 2])];
        let document = Document { nodes };
        assert_eq!([0, 1, 2, 3, 9].map(|depth| document.unfolded(3, depth)), [1, 3, 7, 9, 9]);
        // A list of itself, twice.
        let endless = Document { nodes: vec![Node::List(vec![0, 0])] };
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
        let nodes = vec![Node::Text("x".repeat(6400).into()), Node::List(vec![0; 10])];
        assert_eq!(Document { nodes }.unfolded(1, 1), 1 + 10 * 101);
    }
}
