//! Which communicator of the interceptor is which of the plugin, where no hash says so, or where both have one of their own: the interceptor computes
//! NCCL's hash from the id, and an NCCL that computes it in another way would have each operation twice.
//!
//! The interceptor does not see the id of what `ncclCommInitAll` makes or of what has grown, and of some it knows nothing but the handle; the
//! plugin knows them by NCCL's hash. Two things show that both are one. What NCCL reports on a thread while a call is open is of that call, and
//! always names one communicator. And if nothing was called, one was made while the making call ran, with its rank and size. A communicator
//! that fits several is matched with none: nothing is guessed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::RandomState;
use nccl_stacks_recorder_format::{Kind, Record, flag};

use super::facts::{Entry, Facts};
use super::rings::Rings;
use nccl_stacks_trace::names::collectives::Collective;

const MAKING: [&str; 4] = ["ncclCommInit", "ncclCommGrow", "ncclCommSplit", "ncclCommShrink"];

const INIT_ALL: &str = "ncclCommInitAll";

#[derive(Default)]
pub(super) struct Same {
    /// Communicators without a name or with another one, and which they are: positions among those of the process.
    pub(super) pairs: Vec<(u32, u32)>,
    /// Whether the process has made several ranks of one communicator at once.
    pub(super) has_several_ranks: bool,
}

struct Making {
    /// From its beginning to its end; it need not have one.
    time: (i64, i64),
    number: u16,
    /// How many, if it made all of a process.
    all: Option<u64>,
}

struct Seen<'a> {
    facts: &'a Facts<'a>,
    rings: &'a Rings,
    /// By thread: the call that is open, of a communicator that may be another one: its place, that communicator, and the function.
    open: HashMap<u32, (usize, u32, Option<Collective>), RandomState>,
    /// By such a communicator: those of the plugin that were named while its calls were open.
    named: BTreeMap<u32, BTreeSet<u32>>,
    /// By the place of the call.
    making: HashMap<usize, Making, RandomState>,
}

/// Compares the communicators of plugin and interceptor, by all records in the order of their times.
pub(super) fn find(facts: &Facts<'_>, rings: &Rings, order: &[usize]) -> Same {
    let may_be_others: Vec<&Entry> = facts.entries.iter().filter(|entry| entry.may_be_other()).collect();
    if may_be_others.is_empty() {
        return Same::default();
    }
    let (open, making) = (HashMap::default(), HashMap::default());
    let mut seen = Seen { facts, rings, open, named: BTreeMap::new(), making };
    order.iter().for_each(|at| seen.add(*at));
    let mut free: Vec<&Entry> = facts.entries.iter().filter(|entry| entry.is_unpaired_plugin).collect();
    let by_calls = unique(may_be_others.iter().filter_map(|entry| {
        let [one] = seen.named.get(&entry.at)?.iter().copied().collect::<Vec<u32>>()[..] else { return None };
        let fits = free.iter().any(|other| other.at == one && entry.may_be(other));
        fits.then_some((entry.at, one))
    }));
    let taken: BTreeSet<u32> = by_calls.iter().flat_map(|(one, other)| [*one, *other]).collect();
    free.retain(|entry| !taken.contains(&entry.at));
    // What has a hash is only taken for another one if its calls show it.
    let silent = may_be_others.iter().filter(|entry| entry.is_nameless && !taken.contains(&entry.at));
    // What fits one that was named elsewhere is not the only one that fits.
    let fitting = silent.flat_map(|entry| {
        let time = seen.made(entry);
        let fits = move |other: &&&Entry| {
            time.is_some_and(|(from, to)| (from..=to).contains(&other.made) && entry.is_as(other))
        };
        free.iter().filter(fits).map(|other| (entry.at, other.at)).collect::<Vec<_>>()
    });
    let fitting: Vec<(u32, u32)> = fitting.collect();
    let alone = |(one, _): &(u32, u32)| fitting.iter().filter(|(other, _)| other == one).count() == 1;
    let by_time = unique(fitting.iter().copied());
    let by_time = by_time.into_iter().filter(alone).filter(|(one, _)| !seen.named.contains_key(one));
    let several = seen.making.values().any(|making| making.all.is_some_and(|count| count > 1));
    Same { pairs: by_calls.iter().copied().chain(by_time).collect(), has_several_ranks: several }
}

/// The pairs whose second one no other pair has.
fn unique(pairs: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
    let pairs: Vec<(u32, u32)> = pairs.collect();
    let is_alone = |(_, second): &(u32, u32)| pairs.iter().filter(|(_, other)| other == second).count() == 1;
    pairs.iter().copied().filter(is_alone).collect()
}

impl Seen<'_> {
    fn add(&mut self, at: usize) {
        let record = self.rings.record(at);
        match record.kind {
            Kind::Call if record.flags & flag::INSIDE_CALL == 0 => self.call(at, record),
            Kind::Stop => self.stop(record),
            Kind::CollApi | Kind::P2pApi | Kind::Coll | Kind::P2p => {
                let Some((_, communicator, function)) = self.open.get(&record.thread) else { return };
                let same = self.facts.word(record.function).is_some_and(|word| word.collective == *function);
                if let Some(named) = self.facts.communicator(record).filter(|_| same) {
                    self.named.entry(*communicator).or_default().insert(named);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, at: usize, record: &Record) {
        self.open.remove(&record.thread);
        let Some(word) = self.facts.word(record.function) else { return };
        if MAKING.iter().any(|making| word.function.starts_with(making)) {
            let all = (*word.function == *INIT_ALL).then_some(record.a);
            self.making.insert(at, Making { time: (record.time, i64::MAX), number: 0, all });
        }
        let of = self.facts.communicator(record).filter(|_| word.collective.is_some());
        let is_asked = |of: &u32| self.facts.entries.iter().any(|entry| entry.at == *of && entry.may_be_other());
        if let Some(of) = of.filter(is_asked) {
            self.open.insert(record.thread, (at, of, word.collective));
        }
    }

    fn stop(&mut self, record: &Record) {
        let Some(call) = self.rings.place(record.parent) else { return };
        if let Some(making) = self.making.get_mut(&call) {
            (making.time.1, making.number) = (record.time, record.communicator);
        }
        let thread = self.rings.record(call).thread;
        if self.open.get(&thread).is_some_and(|(open, ..)| *open == call) {
            self.open.remove(&thread);
        }
    }

    /// While which call a communicator was made; `None` if that is not known, or it may be one of several.
    fn made(&self, entry: &Entry) -> Option<(i64, i64)> {
        let made = |making: &&Making| match making.all {
            Some(count) => entry.size == Some(count) && (making.time.0..=making.time.1).contains(&entry.made),
            None => making.number == entry.number,
        };
        let mut calls = self.making.values().filter(made);
        calls.next().filter(|_| calls.next().is_none()).map(|making| making.time)
    }
}
