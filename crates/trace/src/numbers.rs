//! Things by numbers: equal ones have the same, in the order in which they come.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// Things, each once.
#[derive(Debug, Clone)]
pub struct Numbers<T> {
    pub list: Vec<T>,
    known: HashMap<T, u32, FixedState>,
}

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers { list: Vec::new(), known: HashMap::default() }
    }
}

impl<T: Clone + Eq + Hash> Numbers<T> {
    /// The number of a thing: its position in the list.
    pub fn number(&mut self, thing: T) -> u32 {
        let next = self.list.len() as u32;
        *self.known.entry(thing).or_insert_with_key(|thing| {
            self.list.push(thing.clone());
            next
        })
    }

    /// The same, of one that is copied only if it is new.
    pub fn number_of<Q: ?Sized + Eq + Hash + ToOwned<Owned = T>>(&mut self, thing: &Q) -> u32
    where
        T: Borrow<Q>,
    {
        self.known(thing).unwrap_or_else(|| self.number(thing.to_owned()))
    }

    /// The number of a thing that has one.
    pub fn known<Q: ?Sized + Eq + Hash>(&self, thing: &Q) -> Option<u32>
    where
        T: Borrow<Q>,
    {
        self.known.get(thing).copied()
    }
}
