//! Kernels that may be communication: no family has their names, but the code that launches them, or their own names, indicate it.
//!
//! They are a third kind besides collectives and computation, which could hide collectives. A kernel name is one of them if the innermost
//! operator, annotation or C function around a launch of it indicates communication ([`says_communication`]), if no known collective was launched
//! within that (then the communication is known, and the other kernels prepare it), and if nothing else launches kernels of that name. Replays of
//! graphs indicate nothing about a kernel; its eager launches decide.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use foldhash::fast::FixedState;

use super::busy::Busy;
use super::callers::{Callers, TOLERANCE};
use super::launches::{self, Evidence, Launched};
use super::selection::{Wanted, choose, collectives, family_in};
use crate::id::{SliceId, ThreadId};
use crate::names::category::CategoryKind;
use crate::names::communication::{computes, own_name_says_collective, says_communication};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::Ns;

/// A kernel name that may be communication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Possible {
    pub(crate) kernel: StringId,
    /// The name of the code that launches them; `None` if their own name indicates it.
    pub(crate) caller: Option<StringId>,
}

/// The kernel names that may be communication, in order of their ids. `is_collective` marks the known names.
pub(crate) fn find(store: &Store, is_collective: &[bool]) -> Vec<Possible> {
    let text = |name: StringId| store.strings.get(name).unwrap_or_default();
    let mut says = vec![false; store.strings.len()];
    for name in store.names.iter().filter(|name| name.of_cpu) {
        says[name.id.0 as usize] = says_communication(text(name.id));
    }
    let has_callers = says.contains(&true);
    let (mut is_unknown, mut found) = (vec![false; store.strings.len()], BTreeMap::new());
    for name in store.names.iter().filter(|name| name.of_kernel && !is_collective[name.id.0 as usize]) {
        let kernel = text(name.id);
        let says_it = own_name_says_collective(kernel);
        if !says_it && (!has_callers || computes(kernel)) || family_in(store, name).is_some() {
            continue;
        }
        is_unknown[name.id.0 as usize] = !says_it;
        if says_it {
            found.insert(name.id, None);
        }
    }
    if is_unknown.contains(&true) {
        let near = near(store, &is_unknown, &says);
        let mut below = launched_below(store, &launches::for_work(store, near).kernels, &says);
        if !below.is_empty() {
            let is_below: Vec<StringId> = below.keys().copied().collect();
            below = launched_below(store, &launches::find(store, &is_below).kernels, &says);
            let known: Vec<StringId> =
                store.names.iter().map(|name| name.id).filter(|id| is_collective[id.0 as usize]).collect();
            let known = launches::find(store, &known).kernels;
            let known = Calls::collect(store, known.iter().filter_map(|launched| launched.call));
            for (name, callers) in &mut below {
                callers.retain(|caller| !known.any_in(store, *caller));
                found.extend(callers.first().map(|caller| (*name, Some(store.slices.name(*caller)))));
            }
        }
    }
    found.into_iter().map(|(kernel, caller)| Possible { kernel, caller }).collect()
}

/// The kernels asked for. If that is all collectives and no family has any kernel of the trace, the kernels that may be communication.
pub fn choose_or_possible(store: &Store, wanted: &Wanted) -> Vec<StringId> {
    let chosen = choose(store, wanted);
    if !chosen.is_empty() || !wanted.is_all() {
        return chosen;
    }
    find(store, &collectives(store, wanted)).into_iter().map(|possible| possible.kernel).collect()
}

/// The kernels of unknown names whose calls begin within a communicating slice of their thread, or are unknown. Only for these few are callers
/// searched.
fn near(store: &Store, is_unknown: &[bool], says: &[bool]) -> Vec<SliceId> {
    let slices = &store.slices;
    let mut open: HashMap<Option<ThreadId>, (Busy, usize), FixedState> = HashMap::default();
    for slice in slices.ids().filter(|slice| says[slices.name(*slice).0 as usize]) {
        let (start, dur) = (slices.ts(slice) - TOLERANCE, slices.dur(slice));
        let dur = if dur == UNFINISHED { store.bounds.end - start } else { dur + TOLERANCE };
        open.entry(store.thread_of(slice)).or_default().0.push(start, dur);
    }
    let mut is_open = |call: SliceId| {
        let (at, on_thread) = (slices.ts(call), open.get_mut(&store.thread_of(call)));
        on_thread.is_some_and(|(open, from)| open.sweep(from, at, at + Ns(1)) > Ns::ZERO)
    };
    let inside = store.runtime_calls.iter().copied().filter(|call| is_open(*call));
    let inside: HashSet<_, FixedState> = inside.filter_map(|call| store.trace_correlation(call)).collect();
    let is_near = |kernel: &SliceId| {
        let is_asked = || store.trace_correlation(*kernel).is_none_or(|id| inside.contains(&id));
        is_unknown[slices.name(*kernel).0 as usize] && (store.runtime_calls.is_empty() || is_asked())
    };
    store.kernels.iter().copied().filter(is_near).collect()
}

/// By kernel name that nothing else launches: the communicating callers.
fn launched_below(store: &Store, kernels: &[Launched], says: &[bool]) -> BTreeMap<StringId, BTreeSet<SliceId>> {
    let mut callers = Callers::new(store);
    let mut of_call: HashMap<SliceId, Option<SliceId>, FixedState> = HashMap::default();
    let mut found: BTreeMap<StringId, BTreeSet<SliceId>> = BTreeMap::new();
    let mut elsewhere: BTreeSet<StringId> = BTreeSet::new();
    for launched in kernels {
        let Some(call) = launched.call.filter(|_| launched.evidence != Evidence::GraphReplay) else { continue };
        let caller = *of_call.entry(call).or_insert_with(|| caller(store, &mut callers, call, says));
        let name = store.slices.name(launched.kernel);
        match caller {
            Some(caller) if says[store.slices.name(caller).0 as usize] => {
                found.entry(name).or_default().insert(caller);
            }
            Some(_) => drop(elsewhere.insert(name)),
            None => {}
        }
    }
    found.retain(|name, _| !elsewhere.contains(name));
    found
}

/// The innermost operator or annotation around a launch, or a communicating C function.
fn caller(store: &Store, callers: &mut Callers<'_>, call: SliceId, says: &[bool]) -> Option<SliceId> {
    let is_operator = |slice: SliceId| store.category_kind(slice) == CategoryKind::Cpu;
    let mut next = if is_operator(call) { Some(call) } else { callers.caller_of_launch(call) };
    while let Some(slice) = next.filter(|slice| !is_operator(*slice) && !says[store.slices.name(*slice).0 as usize]) {
        next = callers.caller(slice);
    }
    next
}

/// The start times of calls, by thread, in order.
struct Calls(BTreeMap<Option<ThreadId>, Vec<Ns>>);

impl Calls {
    fn collect(store: &Store, calls: impl Iterator<Item = SliceId>) -> Self {
        let mut of_threads: BTreeMap<Option<ThreadId>, Vec<Ns>> = BTreeMap::new();
        for call in calls {
            of_threads.entry(store.thread_of(call)).or_default().push(store.slices.ts(call));
        }
        of_threads.values_mut().for_each(|calls| calls.sort_unstable());
        Calls(of_threads)
    }

    /// Whether a call began while a slice of its thread was open.
    fn any_in(&self, store: &Store, slice: SliceId) -> bool {
        let (start, dur) = (store.slices.ts(slice), store.slices.dur(slice));
        let calls = self.0.get(&store.thread_of(slice)).map_or(&[][..], Vec::as_slice);
        let next = calls.get(calls.partition_point(|at| *at < start));
        next.is_some_and(|at| dur == UNFINISHED || *at < start + dur)
    }
}
