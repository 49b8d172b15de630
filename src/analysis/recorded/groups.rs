//! Communicators as a report counts them. Sources name one communicator differently well: Inspector gives its size, a plugin dump only
//! NCCL's hash. Those with the same hash are one row here.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::operation::{Communicator, Operation, Source};
use crate::records::Records;

/// A communicator, as far as all sources together know it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CommunicatorRow {
    /// What it is called in all tables: its description and ranks, or NCCL's hash.
    pub communicator: String,
    /// The name that the program gave it.
    pub name: Option<String>,
    /// How many ranks it has.
    pub size: Option<u64>,
    /// How many of its ranks have recorded something.
    pub ranks_here: u64,
    /// Ranks whose recordings are here, and have no operations of it.
    #[serde(skip)]
    pub silent_ranks: Vec<u32>,
    /// How many operations were recorded.
    pub operations: u64,
    /// What recorded it.
    pub sources: Vec<&'static str>,
}

/// Which rows of [`Records::communicators`] are one communicator.
pub(super) struct Groups {
    /// By position among the communicators of the records: the position here.
    of: Vec<usize>,
    known: Vec<Communicator>,
    keys: Vec<String>,
}

/// A communicator's position, or `None` if the source does not say which it is.
pub(super) type Group = Option<usize>;

impl Groups {
    pub(super) fn of(records: &Records) -> Self {
        let mut by_hash: BTreeMap<u64, usize> = BTreeMap::new();
        let (mut of, mut known) = (Vec::new(), Vec::<Communicator>::new());
        for communicator in &records.communicators {
            let next = known.len();
            let at = communicator.hash.map_or(next, |hash| *by_hash.entry(hash).or_insert(next));
            match known.get_mut(at) {
                Some(first) => merge(first, communicator),
                None => known.push(communicator.clone()),
            }
            of.push(at);
        }
        let nameless = |at: usize, of: &Communicator| {
            of.key().or_else(|| of.name.clone()).unwrap_or_else(|| format!("communicator {at}"))
        };
        let keys = known.iter().enumerate().map(|(at, communicator)| nameless(at, communicator)).collect();
        Groups { of, known, keys }
    }

    /// The communicator of a row.
    pub(super) fn group(&self, communicator: Option<usize>) -> Group {
        self.of.get(communicator?).copied()
    }

    /// The communicator of an operation, by its position.
    pub(super) fn of_operation(&self, records: &Records, operation: Option<usize>) -> Group {
        self.group(records.operations.get(operation?)?.communicator)
    }

    /// What it is called.
    pub(super) fn key(&self, group: Group) -> Option<String> {
        self.keys.get(group?).cloned()
    }

    /// How many ranks it has.
    pub(super) fn size(&self, group: Group) -> Option<u64> {
        let communicator = self.known.get(group?)?;
        communicator.size.or_else(|| communicator.ranks.as_ref().map(|ranks| ranks.len() as u64))
    }

    /// A row each.
    pub(super) fn rows(&self, records: &Records) -> Vec<CommunicatorRow> {
        let row = |(at, key): (usize, &String)| CommunicatorRow {
            communicator: key.clone(),
            name: self.known[at].name.clone(),
            size: self.size(Some(at)),
            ..CommunicatorRow::default()
        };
        let mut rows: Vec<CommunicatorRow> = self.keys.iter().enumerate().map(row).collect();
        let mut ranks = vec![BTreeSet::new(); rows.len()];
        let mut sources = vec![BTreeSet::new(); rows.len()];
        for operation in uncounted(records) {
            let Some(at) = self.group(operation.communicator) else { continue };
            rows[at].operations += 1;
            ranks[at].extend(rank_of(operation));
            sources[at].insert(operation.source.name());
        }
        for call in &records.calls {
            let Some(at) = self.group(call.communicator) else { continue };
            rows[at].operations += call.count;
            ranks[at].extend(call.place.or(call.rank.map(|rank| rank.0)));
            sources[at].insert(call.source.name());
        }
        for (at, rank) in self.recorded_ranks(records, &rows) {
            if !ranks[at].contains(&rank) {
                rows[at].silent_ranks.push(rank);
            }
        }
        for ((row, ranks), sources) in rows.iter_mut().zip(&ranks).zip(sources) {
            row.ranks_here = ranks.len() as u64;
            row.sources = sources.into_iter().collect();
        }
        rows
    }

    /// The ranks of each communicator that have a file of the recorder, whether it has operations or not: those that the file names, and, of a
    /// communicator with as many ranks as there are files, those of files that name no communicator.
    fn recorded_ranks(&self, records: &Records, rows: &[CommunicatorRow]) -> BTreeSet<(usize, u32)> {
        let status = || records.rank_status.iter().filter(|status| status.source == Source::RECORDER);
        let job = status().map(|status| status.file).collect::<BTreeSet<u32>>().len() as u64;
        let naming: BTreeSet<u32> = status().filter(|of| of.communicator.is_some()).map(|of| of.file).collect();
        let named = status().filter_map(|of| Some((self.group(of.communicator)?, of.place?)));
        let whole = || (0..rows.len()).filter(|at| rows[*at].size == Some(job));
        let nameless = status().filter(|of| !naming.contains(&of.file)).filter_map(|of| of.rank);
        let of_whole = nameless.flat_map(|rank| whole().map(move |at| (at, rank.0)));
        named.chain(of_whole).collect()
    }
}

/// The operations that ran, of sources that do not count their calls: the counts of the others have all operations, those included that are kept.
pub(super) fn uncounted(records: &Records) -> impl Iterator<Item = &Operation> {
    let counted: BTreeSet<Source> = records.calls.iter().map(|call| call.source).collect();
    records.operations.iter().filter(move |operation| !operation.did_not_run && !counted.contains(&operation.source))
}

/// The rank of an operation: within its communicator, or of the job where only that is known.
pub(super) fn rank_of(operation: &Operation) -> Option<u32> {
    operation.place.or(operation.rank.map(|rank| rank.0))
}

fn merge(into: &mut Communicator, other: &Communicator) {
    let fill = |into: &mut Option<String>, other: &Option<String>| {
        if into.is_none() {
            into.clone_from(other);
        }
    };
    fill(&mut into.name, &other.name);
    fill(&mut into.description, &other.description);
    into.size = into.size.or(other.size);
    if into.ranks.is_none() {
        into.ranks.clone_from(&other.ranks);
    }
}
