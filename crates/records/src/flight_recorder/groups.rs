//! The process groups of a dump, and how far this rank got in each.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use foldhash::fast::RandomState;

use super::super::nodes::{Keyed, Value};
use super::super::reader::Reading;
use super::super::tables::{RankStatus, Records};
use crate::operation::{Communicator, Source};
use nccl_stacks_trace::id::RankId;

/// The backend whose dumps are beside those of the GPU's, with groups of the same names.
pub(super) const GLOO: &str = "gloo";

/// The groups of a dump, whose outermost value and operations these are.
pub(super) struct Groups<'d> {
    pub(super) root: Value<'d>,
    pub(super) entries: &'d [Value<'d>],
    pub(super) rank: Option<RankId>,
    pub(super) all: Vec<Group>,
    pub(super) of_entries: Vec<Option<usize>>,
    /// By name. Both a dump's entries and its groups may be many.
    by_name: HashMap<String, Named, RandomState>,
    /// See [`Communicator::backend`].
    backend: Option<&'static str>,
}

/// The groups of one name.
struct Named {
    first: usize,
    /// By description, which is empty if there is none: the first of these.
    by_description: HashMap<String, usize, RandomState>,
}

pub(super) struct Group {
    pub(super) name: String,
    pub(super) ranks: Option<Vec<u32>>,
    pub(super) communicator: usize,
    /// The place of the dump's rank in its list.
    pub(super) place: Option<u32>,
}

impl<'d> Groups<'d> {
    /// The groups of a dump's `pg_config`, each of which becomes a communicator, and those that only its entries name. Gloo gives all of its groups the
    /// empty name, so that one is left of them, with ranks in the group's own numbering: it says nothing of the job's ranks.
    pub(super) fn read(root: Value<'d>, entries: &'d [Value<'d>], records: &mut Records) -> Self {
        let title = entries.first().and_then(|entry| entry.get("profiling_name")?.text());
        let is_gloo = title.and_then(|title| title.split_once(':')).is_some_and(|(backend, _)| backend == GLOO);
        let (all, of_entries, by_name) = Default::default();
        let backend = is_gloo.then_some(GLOO);
        let mut groups = Groups { root, entries, rank: None, all, of_entries, by_name, backend };
        for (key, of_group) in root.get("pg_config").into_iter().flat_map(Value::pairs) {
            let name = of_group.get("name").and_then(Value::text).map(Cow::Borrowed).or_else(|| name_of(key));
            // The oldest versions have the list in place of the dictionary.
            let ranks = list_of_ranks(of_group.get("ranks").unwrap_or(of_group));
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                groups.add(&name, description(of_group.get("desc")), ranks, records);
            }
        }
        let mut named = Keyed::new(["process_group", "pg_id"]);
        for entry in entries {
            let [group, id] = named.of(*entry);
            let mut parts = group.into_iter().flat_map(Value::items);
            let name = parts.next().or(id).and_then(name_of);
            let of_entry = name.map(|name| {
                let description = description(parts.next());
                // By its name and, if several have that, by its description.
                let named = groups.by_name.get(&*name);
                let known = named.map(|named| *named.by_description.get(description).unwrap_or(&named.first));
                known.unwrap_or_else(|| groups.add(&name, description, None, records))
            });
            groups.of_entries.push(of_entry);
        }
        groups
    }

    fn add(&mut self, name: &str, description: &str, ranks: Option<Vec<u32>>, records: &mut Records) -> usize {
        let mut sorted = ranks.clone();
        sorted.iter_mut().for_each(|ranks| ranks.sort_unstable());
        let communicator = records.communicator(Communicator {
            size: ranks.as_ref().map(|ranks| ranks.len() as u64),
            ranks: sorted,
            description: Some(description.to_owned()).filter(|text| !text.is_empty()),
            name: Some(name.to_owned()),
            backend: self.backend,
            ..Communicator::default()
        });
        let at = self.all.len();
        let new = || Named { first: at, by_description: HashMap::default() };
        let named = self.by_name.entry(name.to_owned()).or_insert_with(new);
        named.by_description.entry(description.to_owned()).or_insert(at);
        self.all.push(Group { name: name.to_owned(), ranks, communicator, place: None });
        at
    }

    pub(super) fn set_rank(&mut self, rank: Option<RankId>) {
        self.rank = rank;
        for group in &mut self.all {
            let place = rank.zip(group.ranks.as_ref());
            let place = place.and_then(|(rank, ranks)| ranks.iter().position(|member| *member == rank.0));
            group.place = place.and_then(|place| u32::try_from(place).ok());
        }
    }
}

/// What a group is for. PyTorch writes a word where nothing says that.
fn description(value: Option<Value<'_>>) -> &str {
    value.and_then(Value::text).filter(|text| *text != "undefined").unwrap_or_default()
}

/// A name, which some writers put as a number.
fn name_of(value: Value<'_>) -> Option<Cow<'_, str>> {
    value.text().map(Cow::Borrowed).or_else(|| Some(value.int()?.to_string().into()))
}

/// The ranks of a group in the group's order: a list, or one as text, `[0, 1]`. `None` for lists that are empty or cut off.
fn list_of_ranks(value: Value<'_>) -> Option<Vec<u32>> {
    let rank = |number: i64| u32::try_from(number).ok();
    let ranks: Option<Vec<u32>> = match value.text() {
        Some(text) => {
            let inner = text.trim().strip_prefix('[')?.strip_suffix(']')?;
            inner.split(',').map(|part| part.trim().parse().ok()).collect()
        }
        None => value.items().map(|item| item.int().and_then(rank)).collect(),
    };
    ranks.filter(|ranks| !ranks.is_empty())
}

/// What the dump says of each group beside its operations: that this rank is in it, and the numbers of `pg_status`.
pub(super) fn statuses(groups: &Groups<'_>, reading: &mut Reading<'_>) {
    let Groups { root, entries, rank, .. } = *groups;
    let status = root.get("pg_status");
    let ids = ids(status, groups);
    let mut by_id: HashMap<i64, Value<'_>> = HashMap::new();
    for (key, of) in status.into_iter().flat_map(Value::pairs) {
        if let Some(id) = key.int() {
            by_id.entry(id).or_insert(of);
        }
    }
    let host = root.get("host_name").or_else(|| root.get("hostname")).and_then(Value::text).map(str::to_owned);
    // A dump that holds nothing says of its rank only that it wrote one, and so of a group of which a full ring may have lost everything.
    let has_lost = reading.file.has_overwritten || entries.is_empty();
    let with_entries: HashSet<usize> = groups.of_entries.iter().flatten().copied().collect();
    let numbers = |at: usize| by_id.get(ids.get(&at)?);
    let says = |(at, _): &(usize, &Group)| !has_lost || with_entries.contains(at) || numbers(*at).is_some();
    let known: Vec<(usize, &Group)> = groups.all.iter().enumerate().filter(says).collect();
    let lone = known.is_empty().then_some(None);
    for group in known.into_iter().map(Some).chain(lone) {
        let numbers = group.and_then(|(at, _)| numbers(at));
        let number = |key: &str| numbers.and_then(|of| of.get(key)?.int()).filter(|number| *number >= 0);
        reading.records.rank_status.push(RankStatus {
            source: Source::FLIGHT_RECORDER,
            communicator: group.map(|(_, group)| group.communicator),
            rank,
            place: group.and_then(|(_, group)| group.place),
            host: host.clone(),
            last_enqueued: number("last_enqueued_collective"),
            last_started: number("last_started_collective"),
            last_completed: number("last_completed_collective"),
            ..RankStatus::default()
        });
    }
}

/// The number by which `pg_status` knows each group. Entries name both; a dump without entries does not. But process groups get their
/// names and their numbers from two counters as they are made, so if there are as many of both, their orders are the same. That is
/// believed only if no entry contradicts it.
fn ids(status: Option<Value<'_>>, groups: &Groups<'_>) -> HashMap<usize, i64> {
    let mut named: HashMap<usize, i64> = HashMap::new();
    for (entry, at) in groups.entries.iter().zip(&groups.of_entries) {
        named.extend(at.zip(entry.get("pg_id").and_then(Value::int)));
    }
    let mut known: Vec<i64> = status.into_iter().flat_map(Value::pairs).filter_map(|(key, _)| key.int()).collect();
    let numbers: Option<Vec<(i64, usize)>> =
        groups.all.iter().enumerate().map(|(at, group)| Some((group.name.parse().ok()?, at))).collect();
    let Some(mut numbers) = numbers.filter(|numbers| numbers.len() == known.len()) else { return named };
    known.sort_unstable();
    numbers.sort_unstable();
    let ordered: HashMap<usize, i64> = numbers.into_iter().map(|(_, at)| at).zip(known).collect();
    let agrees = named.iter().all(|(at, id)| ordered.get(at) == Some(id));
    if agrees { ordered } else { named }
}
