//! Computes the values of all keys for each kernel, and groups kernels with equal values.
//!
//! Strings are compared only once: each distinct value has a number, and whatever determines a value (a call path, an operator, a name) is looked up
//! before the value is built.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;

use super::by_call::ByCall;
use super::by_kernel::ByKernel;
use super::value::{GroupValue, Values};
use super::{GroupBy, Grouping, Naming};
use crate::attribution::{Attribution, KernelLaunch};
use crate::store::Store;

/// The value of each key, in the order of the keys.
pub(crate) type GroupKey = Vec<GroupValue>;

pub(crate) struct Keys<'a> {
    by: &'a [GroupBy],
    values: Values,
    by_call: ByCall<'a>,
    by_kernel: ByKernel<'a>,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(
        store: &'a Store,
        attribution: &'a Attribution,
        grouping: &'a Grouping,
        naming: Naming<'a>,
    ) -> Self {
        Keys {
            by: &grouping.by,
            values: Values::default(),
            by_call: ByCall::new(store, attribution, grouping.depth, naming),
            by_kernel: ByKernel::new(store, attribution, &grouping.by, naming),
        }
    }

    /// Groups kernels with equal values of all keys, each group in the order of the rows.
    pub(crate) fn groups<'k>(
        mut self,
        rows: impl Iterator<Item = &'k KernelLaunch>,
    ) -> BTreeMap<GroupKey, Vec<&'k KernelLaunch>> {
        let mut groups: HashMap<Vec<u32>, Vec<&KernelLaunch>, FixedState> = HashMap::default();
        let mut numbers = Vec::with_capacity(self.by.len());
        for row in rows {
            numbers.clear();
            self.numbers(row, &mut numbers);
            match groups.get_mut(numbers.as_slice()) {
                Some(group) => group.push(row),
                None => drop(groups.insert(numbers.clone(), vec![row])),
            }
        }
        groups.into_iter().map(|(key, rows)| (self.values_of(key), rows)).collect()
    }

    pub(crate) fn key(&mut self, row: &KernelLaunch) -> GroupKey {
        let mut numbers = Vec::with_capacity(self.by.len());
        self.numbers(row, &mut numbers);
        self.values_of(numbers)
    }

    fn values_of(&self, numbers: Vec<u32>) -> GroupKey {
        numbers.into_iter().map(|number| self.values.list[number as usize].clone()).collect()
    }

    fn numbers(&mut self, row: &KernelLaunch, numbers: &mut Vec<u32>) {
        let Keys { by, values, by_call, by_kernel } = self;
        for (at, key) in by.iter().enumerate() {
            let number = by_kernel.number(values, at, key, row).unwrap_or_else(|| by_call.number(values, at, key, row));
            numbers.push(number);
        }
    }
}
