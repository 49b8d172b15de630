//! Hardware counters, summed by operator and by module.
//!
//! The counter of an operator includes everything its thread did until the operator ended, also in nested operators. So an operator nested in one of
//! the same name, or of the same module, is not counted again.

use std::collections::BTreeMap;

use serde::Serialize;

use super::calls::Calls;
use crate::analysis::malformed::MalformedValues;
use crate::attribution::callers::Callers;
use crate::attribution::module_frames::ModuleFrames;
use crate::id::SliceId;
use crate::names::args;
use crate::recorded_args::Recorded;

/// How many callers are searched for one with the same name.
const MAX_CALLERS: usize = 256;

/// The counters of the operators with one name, or in one module.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CounterRow {
    /// The operator's name, or the module's path.
    pub name: String,
    /// The number of calls with counters.
    pub calls: u64,
    /// The sums of the recorded counters.
    pub sums: Vec<CounterSum>,
    /// Instructions per cycle, over calls with both counters.
    pub ipc: Option<f64>,
    /// Cache misses per reference, 0 to 1, over calls with both counters.
    pub cache_miss_rate: Option<f64>,
    /// Branch misses per 1,000 instructions, over calls with both counters.
    pub branch_misses_per_1000_instructions: Option<f64>,
}

/// The sum of a counter.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CounterSum {
    /// Its name.
    pub counter: &'static str,
    /// The sum over the calls.
    pub sum: f64,
}

/// All counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Counters {
    /// By operator name, most cycles first; without cycles, by the first counter.
    pub operators: Vec<CounterRow>,
    /// By module.
    pub modules: Vec<CounterRow>,
}

/// A pair of counters, summed over the calls that have both.
#[derive(Default, Clone, Copy)]
struct Pair {
    of: f64,
    by: f64,
}

#[derive(Default)]
struct Sums {
    calls: u64,
    sums: BTreeMap<&'static str, f64>,
    pairs: [Pair; 3],
}

/// Numerator and denominator of the three ratios.
const PAIRS: [(&str, &str); 3] =
    [("instructions", "cycles"), ("cache_misses", "cache_references"), ("branch_misses", "instructions")];

impl Sums {
    fn add(&mut self, counters: &[(&'static str, f64)]) {
        self.calls += 1;
        for (name, number) in counters {
            *self.sums.entry(name).or_default() += number;
        }
        let get = |wanted: &str| counters.iter().find(|(name, _)| *name == wanted).map(|(_, number)| *number);
        for (pair, (of, by)) in self.pairs.iter_mut().zip(PAIRS) {
            if let (Some(of), Some(by)) = (get(of), get(by)) {
                *pair = Pair { of: pair.of + of, by: pair.by + by };
            }
        }
    }

    fn row(self, name: String) -> CounterRow {
        let [ipc, miss_rate, branches] = self.pairs.map(|Pair { of, by }| (by != 0.0).then(|| of / by));
        let finite = |ratio: Option<f64>| ratio.filter(|ratio| ratio.is_finite());
        CounterRow {
            name,
            calls: self.calls,
            sums: self.sums.into_iter().map(|(counter, sum)| CounterSum { counter, sum }).collect(),
            ipc: finite(ipc),
            cache_miss_rate: finite(miss_rate),
            branch_misses_per_1000_instructions: finite(branches.map(|ratio| ratio * 1_000.0)),
        }
    }
}

/// Sums the counters of all calls, and counts the calls that have one. Counters that are not numbers go straight into `malformed`, because every call
/// may have a long text.
pub(super) fn sums(calls: &Calls<'_>, malformed: &mut MalformedValues) -> (Counters, u64) {
    let mut counted: Vec<(SliceId, Vec<(&'static str, f64)>)> = Vec::new();
    for call in &calls.all {
        if calls.operators.has_counters() {
            for name in args::COUNTERS {
                if let Recorded::Malformed(text) = calls.operators.counter(call.slice, name) {
                    malformed.add(name, &text);
                }
            }
        }
        let counters = calls.operators.counters(call.slice);
        if !counters.is_empty() {
            counted.push((call.slice, counters));
        }
    }
    if counted.is_empty() {
        return (Counters::default(), 0);
    }
    let slices: Vec<SliceId> = counted.iter().map(|(slice, _)| *slice).collect();
    let mut callers = Callers::new(calls.store);
    let frames = ModuleFrames::find(calls.store, &mut callers, &slices);
    let module = |at: usize| {
        let recorded = || calls.operators.module(slices[at]).map(str::to_owned);
        frames.path(calls.store, at).or_else(recorded)
    };
    let modules: Vec<Option<String>> = (0..slices.len()).map(module).collect();
    let (mut by_name, mut by_module): (BTreeMap<&str, Sums>, BTreeMap<&str, Sums>) = Default::default();
    for (at, (slice, counters)) in counted.iter().enumerate() {
        let name = calls.store.slice_name(*slice);
        let (mut in_name, mut in_module) = (false, false);
        let mut next = callers.caller(*slice);
        for _ in 0..MAX_CALLERS {
            let Some(caller) = next else { break };
            if let Ok(around) = slices.binary_search(&caller) {
                in_name |= calls.store.slice_name(caller) == name;
                in_module |= modules[around] == modules[at];
            }
            next = callers.caller(caller);
        }
        if !in_name {
            by_name.entry(name).or_default().add(counters);
        }
        if let Some(module) = modules[at].as_deref().filter(|_| !in_module) {
            by_module.entry(module).or_default().add(counters);
        }
    }
    let counters = Counters { operators: sorted(by_name), modules: sorted(by_module) };
    (counters, slices.len() as u64)
}

fn sorted(by: BTreeMap<&str, Sums>) -> Vec<CounterRow> {
    let mut rows: Vec<CounterRow> = by.into_iter().map(|(name, sums)| sums.row(name.to_owned())).collect();
    let sum = |row: &CounterRow, name: &str| row.sums.iter().find(|of| of.counter == name).map(|of| of.sum);
    let weight = |row: &CounterRow| args::COUNTERS.iter().find_map(|name| sum(row, name)).unwrap_or(0.0);
    rows.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    rows
}
