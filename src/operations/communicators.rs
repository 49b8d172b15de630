//! The communicators of some records, each once.
//!
//! Sources name one communicator differently well: Inspector gives its size, a plugin dump only NCCL's hash. Those with the same hash are one
//! here, with what any source knows of it. All groups of records are made of these: those that a report counts, those in which ranks wait,
//! and those whose collectives are matched over ranks.

use std::collections::BTreeMap;

use crate::operation::{Communicator, Operation};
use crate::records::Records;

/// Which rows of [`Records::communicators`] are one communicator.
#[derive(Debug, Default)]
pub(crate) struct Communicators {
    /// By position among the communicators of the records: the position here.
    positions: Vec<usize>,
    known: Vec<Communicator>,
}

impl Communicators {
    pub(crate) fn find(records: &Records) -> Self {
        let mut by_hash: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        let mut found = Communicators::default();
        for communicator in &records.communicators {
            let next = found.known.len();
            // Two may have one hash, and then differ by the second one, where a source has that.
            let is_same = |at: &usize| {
                let known = found.known[*at].second_hash.as_ref().zip(communicator.second_hash.as_ref());
                known.is_none_or(|(known, other)| known == other)
            };
            let at = communicator.hash.map_or(next, |hash| {
                let of_hash = by_hash.entry(hash).or_default();
                let same = of_hash.iter().copied().find(is_same);
                same.unwrap_or_else(|| {
                    of_hash.push(next);
                    next
                })
            });
            match found.known.get_mut(at) {
                Some(first) => merge(first, communicator),
                None => found.known.push(communicator.clone()),
            }
            found.positions.push(at);
        }
        found
    }

    pub(crate) fn all(&self) -> &[Communicator] {
        &self.known
    }

    /// The position here of a communicator of the records; `None` if the source does not say which it is.
    pub(crate) fn position(&self, communicator: Option<usize>) -> Option<usize> {
        self.positions.get(communicator?).copied()
    }

    pub(crate) fn of_operation(&self, operation: &Operation) -> Option<usize> {
        self.position(operation.communicator)
    }

    /// The position of the communicator of an operation of the records.
    pub(crate) fn of_row(&self, records: &Records, operation: Option<usize>) -> Option<usize> {
        self.of_operation(records.operations.get(operation?)?)
    }

    pub(crate) fn get(&self, position: Option<usize>) -> Option<&Communicator> {
        self.known.get(position?)
    }

    pub(crate) fn size(&self, position: Option<usize>) -> Option<u64> {
        self.get(position)?.rank_count()
    }

    /// What it is called: its description and ranks, or NCCL's hash.
    pub(crate) fn title(&self, position: Option<usize>) -> Option<String> {
        let known = self.get(position)?;
        let number = || format!("communicator {}", position.unwrap_or_default());
        Some(known.key().or_else(|| known.name.clone()).unwrap_or_else(number))
    }
}

fn merge(into: &mut Communicator, other: &Communicator) {
    into.size = into.size.or(other.size);
    into.ranks = into.ranks.take().or_else(|| other.ranks.clone());
    into.name = into.name.take().or_else(|| other.name.clone());
    into.description = into.description.take().or_else(|| other.description.clone());
    into.second_hash = into.second_hash.take().or_else(|| other.second_hash.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_hash_is_one_communicator() {
        let mut records = Records::default();
        let known =
            |hash, size, name: &str| Communicator { hash, size, name: Some(name.to_owned()), ..Default::default() };
        records.communicators =
            vec![known(Some(7), None, "a"), known(None, Some(2), "b"), known(Some(7), Some(4), "c")];
        let found = Communicators::find(&records);
        assert_eq!((found.all().len(), found.position(Some(2)), found.position(Some(9))), (2, Some(0), None));
        assert_eq!((found.size(Some(0)), found.title(Some(0)).as_deref()), (Some(4), Some("0x7")));
        assert_eq!((found.size(Some(1)), found.title(Some(1)).as_deref()), (Some(2), Some("b")));
    }

    #[test]
    fn two_communicators_of_one_hash_differ_by_the_second() {
        let known = |second: Option<&str>| Communicator {
            hash: Some(7),
            second_hash: second.map(str::to_owned),
            ..Communicator::default()
        };
        let mut records = Records::default();
        records.communicators = vec![known(Some("1:2")), known(Some("1:3")), known(Some("1:2")), known(None)];
        let found = Communicators::find(&records);
        let positions: Vec<Option<usize>> = (0..4).map(|at| found.position(Some(at))).collect();
        assert_eq!(positions, [Some(0), Some(1), Some(0), Some(0)]);
    }
}
