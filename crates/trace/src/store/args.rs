//! Arguments of events, as sets of rows. Equal sets are stored once, because many events share the same arguments.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::HashTable;

use super::strings::StringId;
use crate::event::ArgValue;

/// The number of an argument set. 0 means no arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ArgSetId(pub u32);

impl ArgSetId {
    /// No arguments.
    pub const NONE: ArgSetId = ArgSetId(0);
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arg {
    /// Its argument key: `args.grid[0]`
    pub key: StringId,
    /// The key without indexes: `args.grid`
    pub flat_key: StringId,
    pub value: ArgValue<StringId>,
}

impl Copy for ArgValue<StringId> {}

impl Arg {
    /// The bits of the value: type and content. Equal bits mean equal values.
    fn bits(&self) -> (u8, u64) {
        match self.value {
            ArgValue::Int(v) => (0, v as u64),
            ArgValue::Real(v) => (1, v.to_bits()),
            ArgValue::Bool(v) => (2, u64::from(v)),
            ArgValue::Text(v) => (3, u64::from(v.0)),
        }
    }
}

#[derive(Default)]
pub struct Args {
    rows: Vec<Arg>,
    /// Set `i` is `rows[ends[i - 1]..ends[i]]`.
    ends: Vec<u32>,
    index: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Args").field("rows", &self.rows.len()).field("sets", &self.ends.len()).finish()
    }
}

impl Args {
    /// Stores rows as one set. If a key occurs twice, the last value wins and takes the position of the first.
    pub(super) fn add_set(&mut self, set: &mut Vec<Arg>) -> ArgSetId {
        keep_last_of_each_key(set);
        let hash = hash(&self.hasher, set);
        let (rows, ends) = (&self.rows, &self.ends);
        if let Some(id) = self.index.find(hash, |id| same(set_of(rows, ends, *id), set)) {
            return ArgSetId(*id);
        }
        self.rows.extend_from_slice(set);
        self.ends.push(self.rows.len() as u32);
        let id = self.ends.len() as u32;
        let (rows, ends, hasher) = (&self.rows, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id, |id| self::hash(hasher, set_of(rows, ends, *id)));
        ArgSetId(id)
    }

    /// Merges `more` into `base`: an end event adds its arguments to those of its slice.
    pub(super) fn merge(&mut self, base: ArgSetId, more: ArgSetId) -> ArgSetId {
        if base == ArgSetId::NONE || more == ArgSetId::NONE {
            return if base == ArgSetId::NONE { more } else { base };
        }
        let mut set = [self.set(base), self.set(more)].concat();
        self.add_set(&mut set)
    }

    pub fn set(&self, id: ArgSetId) -> &[Arg] {
        if id == ArgSetId::NONE { &[] } else { set_of(&self.rows, &self.ends, id.0) }
    }

    /// All rows of all sets, in order.
    pub fn rows(&self) -> &[Arg] {
        &self.rows
    }

    /// The value of an argument key in a set; `None` if the set does not have it.
    pub fn get(&self, id: ArgSetId, key: StringId) -> Option<ArgValue<StringId>> {
        self.set(id).iter().find(|arg| arg.key == key).map(|arg| arg.value)
    }

    /// The number of a set in SQL (`arg_set_id`), which is its first row. `None` for no arguments.
    pub fn first_row(&self, id: ArgSetId) -> Option<u32> {
        match id.0 {
            0 => None,
            1 => Some(0),
            n => self.ends.get(n as usize - 2).copied(),
        }
    }

    /// The argument set with this number in SQL; [`ArgSetId::NONE`] if there is none.
    pub fn set_at_row(&self, row: u32) -> ArgSetId {
        if row == 0 && !self.ends.is_empty() {
            return ArgSetId(1);
        }
        self.ends
            .binary_search(&row)
            .map_or(ArgSetId::NONE, |i| if i + 1 < self.ends.len() { ArgSetId(i as u32 + 2) } else { ArgSetId::NONE })
    }

    pub fn set_of_row(&self, row: u32) -> ArgSetId {
        ArgSetId(self.ends.partition_point(|end| *end <= row) as u32 + 1)
    }
}

fn set_of<'a>(rows: &'a [Arg], ends: &[u32], id: u32) -> &'a [Arg] {
    let i = id as usize - 1;
    let start = if i == 0 { 0 } else { ends[i - 1] };
    &rows[start as usize..ends[i] as usize]
}

fn same(a: &[Arg], b: &[Arg]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && a.bits() == b.bits())
}

fn hash(hasher: &foldhash::fast::FixedState, set: &[Arg]) -> u64 {
    let mut state = hasher.build_hasher();
    for arg in set {
        (arg.key.0, arg.bits()).hash(&mut state);
    }
    state.finish()
}

fn keep_last_of_each_key(set: &mut Vec<Arg>) {
    // Small sets, which are almost all, are faster to search than to hash.
    if set.len() <= 64 {
        let mut at = 1;
        while at < set.len() {
            match set[..at].iter().position(|arg| arg.key == set[at].key) {
                Some(first) => {
                    set[first].value = set[at].value;
                    set.remove(at);
                }
                None => at += 1,
            }
        }
        return;
    }
    let mut last: HashMap<StringId, ArgValue<StringId>> = set.iter().map(|arg| (arg.key, arg.value)).collect();
    set.retain_mut(|arg| last.remove(&arg.key).map(|value| arg.value = value).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys_and_values: impl IntoIterator<Item = (u32, i64)>) -> Vec<Arg> {
        let arg = |(key, value)| Arg { key: StringId(key), flat_key: StringId(key), value: ArgValue::Int(value) };
        keys_and_values.into_iter().map(arg).collect()
    }

    #[test]
    fn sets_are_stored_once_and_found_by_their_first_row() {
        let mut args = Args::default();
        let a = args.add_set(&mut rows([(1, 1), (2, 2)]));
        let b = args.add_set(&mut rows([(1, 3)]));
        let c = args.add_set(&mut rows([(1, 4), (2, 5), (1, 6)]));
        assert_eq!(args.add_set(&mut rows([(1, 1), (2, 2)])), a);
        assert_eq!([a, b, c].map(|id| args.first_row(id)), [Some(0), Some(2), Some(3)]);
        assert_eq!([0, 2, 3, 1, 4, 5, 9].map(|row| args.set_at_row(row).0), [1, 2, 3, 0, 0, 0, 0]);
        assert_eq!([0, 1, 2, 3, 4].map(|row| args.set_of_row(row).0), [1, 1, 2, 3, 3]);
        assert_eq!(args.get(c, StringId(1)), Some(ArgValue::Int(6)));
        assert_eq!(args.set(c).len(), 2);
        let long = args.add_set(&mut rows((0..100).map(|i| (i % 80, i.into()))));
        assert_eq!(args.set(long).len(), 80);
        assert_eq!(args.get(long, StringId(5)), Some(ArgValue::Int(85)));
        assert_eq!(args.get(long, StringId(20)), Some(ArgValue::Int(20)));
        let merged = args.merge(b, a);
        assert_eq!(args.get(merged, StringId(1)), Some(ArgValue::Int(1)));
        assert_eq!(args.set(merged).len(), 2);
    }
}
