//! The steps of a trace: CPU slices whose names mark one round of training or serving.
//!
//! `--step`, `--group-by step`, the answers on ranks and the drawings share this notion of a step.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::str::FromStr;

use crate::id::{ProcessId, SliceId};
use crate::names::category::CategoryKind;
use crate::names::steps::{number, priority};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// Annotations whose names do not mark steps have this priority or a higher number.
const NO_STEP: u8 = 2;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number in its name (`ProfilerStep#12`), if the names of all steps of the process have distinct numbers; else the number of earlier steps
    /// in the process.
    pub number: u64,
    /// Its name, with an index if several steps share it: `step[DECODE bs=1] [2]`.
    pub label: String,
    pub slice: SliceId,
    pub window: Window,
}

/// The steps of each process on the CPU, in order: the outermost slices of the best priority that the process has. Names of profilers take precedence
/// over functions of frameworks. Merged ranks have steps of their own.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    by_process: BTreeMap<ProcessId, Vec<Step>>,
}

impl Steps {
    pub fn find(store: &Store) -> Self {
        let named = store.names.iter().filter(|name| name.of_cpu);
        let likely: HashMap<StringId, u8> = named
            .filter_map(|name| Some((name.id, priority(store.strings.get(name.id)?, true)?)))
            .filter(|(_, priority)| *priority < NO_STEP)
            .collect();
        if likely.is_empty() {
            return Steps::default();
        }
        let mut slices: BTreeMap<ProcessId, (u8, Vec<SliceId>)> = BTreeMap::new();
        for slice in store.slices.ids() {
            let Some(priority) = likely.get(&store.slices.name(slice)).copied() else { continue };
            // GPUs have annotations of the same names.
            if !matches!(store.category_kind(slice), CategoryKind::Cpu | CategoryKind::Frame) {
                continue;
            }
            let Some(process) = store.process_of(slice) else { continue };
            let (best, found) = slices.entry(process).or_insert((priority, Vec::new()));
            if priority < *best {
                *best = priority;
                found.clear();
            }
            if priority == *best {
                found.push(slice);
            }
        }
        Steps {
            by_process: slices.into_iter().map(|(process, (_, found))| (process, outermost(store, found))).collect(),
        }
    }

    pub fn of_process(&self, process: ProcessId) -> &[Step] {
        self.by_process.get(&process).map_or(&[], Vec::as_slice)
    }

    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &[Step])> {
        self.by_process.iter().map(|(process, steps)| (*process, steps.as_slice()))
    }

    /// The step in which a process was at a time.
    pub fn at(&self, process: ProcessId, time: Ns) -> Option<&Step> {
        let steps = self.of_process(process);
        let before = steps.partition_point(|step| step.window.start <= time).checked_sub(1)?;
        Some(&steps[before]).filter(|step| step.window.contains(time))
    }

    pub fn of_call(&self, store: &Store, call: SliceId) -> Option<&Step> {
        self.at(store.process_of(call)?, store.slices.ts(call))
    }

    /// The numbers of all steps, in order.
    pub fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.by_process.values().flatten().map(|step| step.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// The steps in a range, process by process.
    pub fn chosen(&self, range: StepRange) -> Vec<&Step> {
        self.by_process.values().flatten().filter(|step| range.contains(step.number)).collect()
    }
}

/// Profilers round the start and the duration of a slice, the coarsest to whole microseconds: a step may begin so long before the end of the one before it.
const ROUNDING: Ns = Ns(1_000);

/// The slices outside all earlier ones, as steps.
fn outermost(store: &Store, slices: Vec<SliceId>) -> Vec<Step> {
    let mut found: Vec<(SliceId, Window)> = Vec::new();
    for slice in slices {
        let (start, dur) = (store.slices.ts(slice), store.slices.dur(slice));
        let end = if dur == UNFINISHED { store.span.end } else { start + dur };
        let is_outside = |last: &Window| start >= last.end || start + ROUNDING >= last.end && end > last.end;
        if found.last().is_none_or(|(_, last)| is_outside(last)) {
            // A time is in one step.
            found.last_mut().into_iter().for_each(|(_, last)| last.end = last.end.min(start));
            found.push((slice, Window { start, end }));
        }
    }
    let numbers: Option<Vec<u64>> = found.iter().map(|(slice, _)| number(store.slice_name(*slice))).collect();
    let numbers = numbers.filter(|numbers| numbers.iter().collect::<HashSet<_>>().len() == numbers.len());
    let mut count: HashMap<&str, u32> = HashMap::new();
    found.iter().for_each(|(slice, _)| *count.entry(store.slice_name(*slice)).or_default() += 1);
    let mut seen: HashMap<&str, u32> = HashMap::new();
    let step = |(at, (slice, window)): (usize, (SliceId, Window))| {
        let name = store.slice_name(slice);
        let place = seen.entry(name).or_default();
        let label = if count[name] > 1 { format!("{name} [{place}]") } else { name.to_owned() };
        *place += 1;
        Step { number: numbers.as_ref().map_or(at as u64, |numbers| numbers[at]), label, slice, window }
    };
    found.into_iter().enumerate().map(step).collect()
}

/// A range of step numbers: `3`, `3..5` for 3, 4 and 5, `3..` for all from 3 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRange {
    first: u64,
    last: Option<u64>,
}

impl StepRange {
    pub fn one(number: u64) -> Self {
        StepRange { first: number, last: Some(number) }
    }

    pub fn contains(self, number: u64) -> bool {
        self.first <= number && self.last.is_none_or(|last| number <= last)
    }
}

impl FromStr for StepRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let range = match text.split_once("..") {
            None => number(text).map(StepRange::one),
            Some((first, "")) => number(first).map(|first| StepRange { first, last: None }),
            Some((first, last)) => {
                number(first).zip(number(last)).map(|(first, last)| StepRange { first, last: Some(last) })
            }
        };
        let is_empty = |range: &StepRange| range.last.is_some_and(|last| last < range.first);
        range.filter(|range| !is_empty(range)).ok_or_else(|| {
            "expected the number of a step, as --group-by step lists them, or a range of numbers: 3, 3..5 or 3.."
                .to_owned()
        })
    }
}

impl fmt::Display for StepRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) if last == self.first => write!(f, "{last}"),
            Some(last) => write!(f, "{}..{last}", self.first),
            None => write!(f, "{}..", self.first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_both_ends() {
        let has = |text: &str| (0..9).filter(|at| text.parse::<StepRange>().unwrap().contains(*at)).collect::<Vec<_>>();
        assert_eq!((has("3"), has("3..5"), has("6.."), has("0..0")), (vec![3], vec![3, 4, 5], vec![6, 7, 8], vec![0]));
        for wrong in ["", "x", "5..3", "..3", "-1", "1...2", "1.5"] {
            assert!(wrong.parse::<StepRange>().is_err(), "{wrong}");
        }
        for text in ["3", "3..5", "6.."] {
            assert_eq!(text.parse::<StepRange>().unwrap().to_string(), text);
        }
    }
}
