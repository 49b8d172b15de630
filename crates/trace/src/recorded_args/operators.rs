//! The arguments of operators under their documented keys, typed.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use super::value::Value;
use crate::event::ArgValue;
use crate::id::SliceId;
use crate::names::args;
use crate::names::category::{self, CategoryKind};
use crate::store::Store;
use crate::store::args::{Arg, ArgSetId};
use crate::store::strings::StringId;

/// A value, as far as it is recorded.
#[derive(Debug, Clone, PartialEq)]
pub enum Recorded<T> {
    /// The event lacks the key, or its list is empty: an empty JSON array has no rows.
    Missing,
    Known(T),
    /// A value that does not fit the key, as text.
    Malformed(String),
}

impl<T> Recorded<T> {
    pub fn known(self) -> Option<T> {
        if let Recorded::Known(value) = self { Some(value) } else { None }
    }

    pub fn malformed(self) -> Option<String> {
        if let Recorded::Malformed(text) = self { Some(text) } else { None }
    }

    pub fn is_malformed(&self) -> bool {
        matches!(self, Recorded::Malformed(_))
    }
}

impl Recorded<Value> {
    /// Its text, whether or not it fits its key.
    fn into_text(self) -> Option<String> {
        match self {
            Recorded::Known(value) => Some(value.to_string()),
            Recorded::Malformed(text) => Some(text),
            Recorded::Missing => None,
        }
    }
}

/// Reads the recorded arguments of a trace's operators. The trace must have been loaded with the keys that are read.
#[derive(Debug, Clone)]
pub struct Operators<'a> {
    store: &'a Store,
    keys: Arc<Keys>,
}

/// The ids of a trace's operator keys: looked up once, because a table reads one cell at a time.
#[derive(Debug)]
pub struct Keys {
    /// By [`List`].
    lists: [Option<StringId>; 4],
    module: Option<StringId>,
    call_stack: Option<StringId>,
    /// The categories whose slices are operators.
    operators: Vec<StringId>,
    /// All keys except those of keyword arguments.
    documented: Vec<StringId>,
    counters: Vec<(&'static str, StringId)>,
}

impl Keys {
    pub fn new(store: &Store) -> Self {
        let first = |keys: &[&str]| keys.iter().find_map(|key| store.arg_key(key));
        let lists = List::ALL.map(List::keys);
        let plain = args::OF_OPERATORS.iter().chain(args::OF_OPERATIONS).chain(args::COUNTERS);
        let documented = lists.into_iter().flatten().chain(plain).filter_map(|key| store.arg_key(key));
        Keys {
            lists: lists.map(first),
            module: store.arg_key(args::MODULE_HIERARCHY),
            call_stack: store.arg_key(args::CALL_STACK),
            operators: category::OPERATORS.iter().filter_map(|category| store.strings.find(category)).collect(),
            documented: documented.collect(),
            counters: args::COUNTERS.iter().filter_map(|key| Some((*key, store.arg_key(key)?))).collect(),
        }
    }
}

impl Deref for Operators<'_> {
    type Target = Keys;

    fn deref(&self) -> &Keys {
        &self.keys
    }
}

/// The lists under the documented keys, each with one element per input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    /// Sizes, one list each, padded to the number of types: a JSON array has no rows for inputs after the last tensor.
    Dims,
    Types,
    /// As the sizes.
    Strides,
    /// The values of inputs that are not tensors.
    Concrete,
}

impl List {
    pub const ALL: [List; 4] = [List::Dims, List::Types, List::Strides, List::Concrete];

    /// The key that current PyTorch writes.
    pub fn key(self) -> &'static str {
        self.keys().first().copied().unwrap_or_default()
    }

    fn keys(self) -> &'static [&'static str] {
        match self {
            List::Dims => args::INPUT_DIMS,
            List::Types => args::INPUT_TYPES,
            List::Strides => args::INPUT_STRIDES,
            List::Concrete => args::CONCRETE_INPUTS,
        }
    }
}

impl<'a> Operators<'a> {
    pub fn new(store: &'a Store) -> Self {
        Operators::with(store, Arc::new(Keys::new(store)))
    }

    /// The same with keys already looked up.
    pub fn with(store: &'a Store, keys: Arc<Keys>) -> Self {
        Operators { store, keys }
    }

    pub fn keys(&self) -> Arc<Keys> {
        self.keys.clone()
    }

    /// Whether a slice is an operator. In a trace without this category, any CPU slice without a category may be one.
    pub fn is_operator(&self, slice: SliceId) -> bool {
        let category = self.store.slices.category(slice);
        self.operators.contains(&category)
            || (self.operators.is_empty()
                && category == StringId::NULL
                && self.store.category_kind(slice) == CategoryKind::Cpu)
    }

    pub fn list_of(&self, slice: SliceId, list: List) -> Recorded<Value> {
        let key = self.lists[list as usize];
        match list {
            List::Dims => self.padded(slice, key, true),
            List::Strides => self.padded(slice, key, key.is_some()),
            List::Types | List::Concrete => self.list(slice, key),
        }
    }

    /// Whether an event has a list. The empty list of an operator without inputs has no row; an operator with types has inputs.
    pub fn has(&self, slice: SliceId, list: List) -> bool {
        let has = |list: List| {
            self.lists[list as usize].is_some_and(|key| self.set(slice).iter().any(|arg| arg.flat_key == key))
        };
        // The sizes of scalars are empty lists: `[[], []]` has no rows.
        let is_implied = match list {
            // PyTorch writes sizes and types together; a trace with only empty sizes lacks even the key.
            List::Dims => true,
            List::Strides => self.lists[list as usize].is_some(),
            List::Types | List::Concrete => false,
        };
        has(list) || (is_implied && has(List::Types))
    }

    /// The path of its modules, joined by dots; `None` if it is not recorded or empty.
    pub fn module(&self, slice: SliceId) -> Option<&'a str> {
        self.text(slice, self.module)
    }

    /// Its callers, joined by semicolons.
    pub fn call_stack(&self, slice: SliceId) -> Option<&'a str> {
        self.text(slice, self.call_stack)
    }

    pub fn has_modules(&self) -> bool {
        self.module.is_some()
    }

    /// The value of any key as text, with lists as [`Value`] prints them; `None` if it is not recorded.
    pub fn argument(&self, slice: SliceId, key: &str) -> Option<String> {
        self.list(slice, Some(self.store.arg_key(key)?)).into_text()
    }

    /// The number under any key, which may be written as text.
    pub fn number(&self, slice: SliceId, key: &str) -> Recorded<i64> {
        let Some(value) = self.store.arg_key(key).and_then(|key| self.value(slice, key)) else {
            return Recorded::Missing;
        };
        let number = match value {
            ArgValue::Int(number) => Some(number),
            ArgValue::Text(text) => self.get(text).trim().parse().ok(),
            _ => None,
        };
        number.map_or_else(|| Recorded::Malformed(self.shown(value)), Recorded::Known)
    }

    /// A counter of an operator: one of [`args::COUNTERS`].
    pub fn counter(&self, slice: SliceId, counter: &str) -> Recorded<f64> {
        let key = self.counters.iter().find(|(name, _)| *name == counter);
        let Some(value) = key.and_then(|(_, key)| self.value(slice, *key)) else { return Recorded::Missing };
        let number = match value {
            ArgValue::Int(number) => Some(number as f64),
            ArgValue::Real(number) => Some(number),
            ArgValue::Text(text) => self.get(text).trim().parse().ok().filter(|number: &f64| number.is_finite()),
            ArgValue::Bool(_) => None,
        };
        number.map_or_else(|| Recorded::Malformed(self.shown(value)), Recorded::Known)
    }

    /// The counters of an operator, in the order of [`args::COUNTERS`]. Texts that are not numbers are left out.
    pub fn counters(&self, slice: SliceId) -> Vec<(&'static str, f64)> {
        let counter = |(name, _): &(&'static str, StringId)| Some((*name, self.counter(slice, name).known()?));
        self.counters.iter().filter_map(counter).collect()
    }

    /// The keyword arguments of an operator: everything without a documented key. Lists are read like the others.
    pub fn keyword_arguments(&self, slice: SliceId) -> Vec<(&'a str, String)> {
        // Grouped by key in one pass: searching the set for each of its keys would take quadratic time.
        let mut order = Vec::new();
        let mut by_key: HashMap<StringId, Vec<&Arg>> = HashMap::new();
        for arg in self.set(slice).iter().filter(|arg| !self.documented.contains(&arg.flat_key)) {
            let rows = by_key.entry(arg.flat_key).or_insert_with(|| {
                order.push(arg.flat_key);
                Vec::new()
            });
            rows.push(arg);
        }
        let value = |key: StringId| self.list_of_rows(key, by_key.get(&key)?.iter().copied()).into_text();
        let name = |key: StringId| {
            let name = self.get(key);
            name.strip_prefix("args.").or_else(|| name.strip_prefix("debug.")).unwrap_or(name)
        };
        order.into_iter().filter_map(|key| Some((name(key), value(key)?))).collect()
    }

    fn set(&self, slice: SliceId) -> &'a [Arg] {
        match self.store.slices.args(slice) {
            ArgSetId::NONE => &[],
            set => self.store.args.set(set),
        }
    }

    fn get(&self, text: StringId) -> &'a str {
        self.store.strings.get(text).unwrap_or_default()
    }

    fn value(&self, slice: SliceId, key: StringId) -> Option<ArgValue<StringId>> {
        self.store.args.get(self.store.slices.args(slice), key)
    }

    fn text(&self, slice: SliceId, key: Option<StringId>) -> Option<&'a str> {
        match self.value(slice, key?)? {
            ArgValue::Text(text) => Some(self.get(text)).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    fn shown(&self, value: ArgValue<StringId>) -> String {
        match value {
            ArgValue::Int(number) => number.to_string(),
            ArgValue::Real(number) => number.to_string(),
            ArgValue::Bool(is) => if is { "True" } else { "False" }.to_owned(),
            ArgValue::Text(text) => self.get(text).to_owned(),
        }
    }

    /// A list under a key: the rows of a JSON array, or a text.
    fn list(&self, slice: SliceId, key: Option<StringId>) -> Recorded<Value> {
        let Some(key) = key else { return Recorded::Missing };
        self.list_of_rows(key, self.set(slice).iter().filter(|arg| arg.flat_key == key))
    }

    fn list_of_rows<'r>(&self, key: StringId, rows: impl Iterator<Item = &'r Arg>) -> Recorded<Value> {
        let mut list: Option<Value> = None;
        let mut path = Vec::new();
        for arg in rows {
            if arg.key == key {
                let text = self.shown(arg.value);
                return match (arg.value, Value::parse(&text)) {
                    (ArgValue::Text(_), Some(value @ Value::List(_))) => Recorded::Known(value),
                    _ => Recorded::Malformed(text),
                };
            }
            let indexes = self.get(arg.key).strip_prefix(self.get(key)).unwrap_or_default();
            let value = match arg.value {
                ArgValue::Int(number) => Value::Int(number),
                ArgValue::Real(number) => Value::Real(number),
                value @ (ArgValue::Text(_) | ArgValue::Bool(_)) => Value::Text(self.shown(value)),
            };
            let list = list.get_or_insert(Value::List(Vec::new()));
            if !read_path(indexes, &mut path) || !list.put(&path, value) {
                return Recorded::Malformed(format!("{}{indexes} = {}", self.get(key), self.shown(arg.value)));
            }
        }
        list.map_or(Recorded::Missing, Recorded::Known)
    }

    /// A list padded to one element per type, if the trace has such lists.
    fn padded(&self, slice: SliceId, key: Option<StringId>, has_lists: bool) -> Recorded<Value> {
        let types = match self.list_of(slice, List::Types) {
            Recorded::Known(Value::List(types)) if has_lists => types.len(),
            _ => 0,
        };
        match self.list(slice, key) {
            Recorded::Known(Value::List(mut elements)) => {
                if elements.len() < types && !elements.contains(&Value::Cut) {
                    elements.resize(types, Value::List(Vec::new()));
                }
                Recorded::Known(Value::List(elements))
            }
            Recorded::Missing if types > 0 => Recorded::Known(Value::List(vec![Value::List(Vec::new()); types])),
            other => other,
        }
    }
}

/// Parses the indexes of `[0][12]`. Returns whether the text has nothing else.
fn read_path(indexes: &str, path: &mut Vec<usize>) -> bool {
    path.clear();
    let mut rest = indexes;
    while let Some((index, more)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let Ok(index) = index.parse() else { return false };
        path.push(index);
        rest = more;
    }
    rest.is_empty() && !path.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::from_reader;
    use crate::load::{LoadOptions, load_input};

    /// A store whose operators have these arguments, in order.
    fn store(args: &[&str]) -> Store {
        let event = |(at, args): (usize, &&str)| {
            format!(r#"{{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":{at},"dur":1,"args":{args}}}"#)
        };
        let events: Vec<String> = args.iter().enumerate().map(event).collect();
        let text = format!("[{}]", events.join(",")).into_bytes();
        let input = from_reader("operators".to_owned(), None, Box::new(std::io::Cursor::new(text))).unwrap();
        load_input(input, LoadOptions::default(), |_| {}).unwrap().store
    }

    /// The same operator as PyTorch and as XSigma write it.
    #[test]
    fn both_forms_say_the_same() {
        let store = store(&[
            r#"{"Record function id":7,"Ev Idx":3,"Input Dims":[[2,3],[],[[4],[5,6]],[]],"Input type":["float","","TensorList","Scalar"],"Input Strides":[[3,1],[],[[1],[6,1]],[]],"Concrete Inputs":["","","","1.5"],"Module Hierarchy":"model.conv1","Call stack":"forward;conv","Sequence number":42,"stride":[1,1],"groups":1,"cache_misses":12345}"#,
            r#"{"Record function id":"7","Ev Idx":"3","Input Dims":"[[2, 3], [], [[4], [5, 6]], []]","Input type":"['float', '', 'TensorList', 'Scalar']","Input Strides":"[[3, 1], [], [[1], [6, 1]], []]","Concrete Inputs":"['', '', '', '1.5']","Module Hierarchy":"model.conv1","Call stack":"forward;conv","Sequence number":"42","stride":"[1, 1]","groups":"1","cache_misses":"12345"}"#,
        ]);
        let operators = Operators::new(&store);
        for slice in store.slices.ids() {
            assert!(operators.is_operator(slice));
            for (list, want) in [
                (List::Dims, "[[2, 3], [], [[4], [5, 6]], []]"),
                (List::Types, "[float, , TensorList, Scalar]"),
                (List::Strides, "[[3, 1], [], [[1], [6, 1]], []]"),
                (List::Concrete, "[, , , 1.5]"),
            ] {
                assert_eq!(
                    operators.list_of(slice, list).known().map(|value| value.to_string()).as_deref(),
                    Some(want)
                );
            }
            assert_eq!(
                (operators.module(slice), operators.call_stack(slice)),
                (Some("model.conv1"), Some("forward;conv"))
            );
            for (key, number) in [(args::RECORD_FUNCTION_ID, 7), (args::EVENT_INDEX, 3), (args::SEQUENCE_NUMBER, 42)] {
                assert_eq!(operators.number(slice, key), Recorded::Known(number), "{key}");
            }
            assert_eq!(operators.counters(slice), [("cache_misses", 12_345.0)]);
            let keywords = operators.keyword_arguments(slice);
            assert_eq!(keywords, [("stride", "[1, 1]".to_owned()), ("groups", "1".to_owned())]);
        }
    }

    #[test]
    fn what_is_no_list_keeps_its_text() {
        let store = store(&[
            r#"{"Input Dims":"hello","Input type":5,"Input Strides":{"a":1},"Sequence number":"many"}"#,
            r#"{"Input Dims":[],"Input type":["Scalar"]}"#,
            "{}",
        ]);
        let operators = Operators::new(&store);
        let slices: Vec<SliceId> = store.slices.ids().collect();
        assert_eq!(operators.list_of(slices[0], List::Dims), Recorded::Malformed("hello".to_owned()));
        assert_eq!(operators.list_of(slices[0], List::Types), Recorded::Malformed("5".to_owned()));
        assert!(operators.number(slices[0], args::SEQUENCE_NUMBER).is_malformed());
        assert_eq!(
            operators.list_of(slices[1], List::Dims).known().map(|value| value.to_string()).as_deref(),
            Some("[[]]")
        );
        assert_eq!(operators.list_of(slices[2], List::Dims), Recorded::Missing);
    }
}
