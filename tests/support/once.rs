//! What several tests need is worked out once: by the one that asks first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

pub(crate) struct Once<K, V>(Mutex<BTreeMap<K, Arc<OnceLock<V>>>>);

impl<K: Ord, V: Clone> Once<K, V> {
    pub(crate) const fn new() -> Self {
        Once(Mutex::new(BTreeMap::new()))
    }

    /// While one test works a value out, those that need the same wait for it, and others do not.
    pub(crate) fn get(&self, key: K, make: impl FnOnce() -> V) -> V {
        let of = Arc::clone(self.0.lock().unwrap().entry(key).or_default());
        of.get_or_init(make).clone()
    }
}
