//! Two runs of many ranks beside each other: which ranks and stacks wait more than before.
//!
//! Ranks are matched by number, stacks by their frames without line numbers, as for a diff of stacks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::report::{RankReport, StackWaits};
use super::verdict::{RankBound, RankLimit};
use crate::nccl::frames::without_line;
use crate::time::Ns;

/// Two runs.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RankChanges {
    /// The first run.
    pub before: RunWaits,
    /// The second run.
    pub after: RunWaits,
    /// By rank, ascending.
    pub ranks: Vec<RankChange>,
    /// By stack, the one whose waiting changed most first.
    pub stacks: Vec<StackChange>,
}

/// A run as a whole.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunWaits {
    /// What its traces are called.
    pub trace: String,
    /// How many ranks are here.
    pub ranks: u64,
    /// How many collectives were measured.
    pub collectives: u64,
    /// At how many one rank was late.
    pub late: u64,
    /// How long their kernels ran, over all ranks.
    #[serde(rename = "measured_ns")]
    pub measured: Ns,
    /// How much of that was waiting.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// The rest.
    #[serde(rename = "transfer_ns")]
    pub transfer: Ns,
    /// How the clocks were compared.
    pub clock: &'static str,
}

/// What one rank, or one stack, waited in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// How many kernels.
    pub kernels: u64,
    /// How long they waited.
    #[serde(rename = "waited_ns")]
    pub waited: Ns,
    /// What others waited for them.
    #[serde(rename = "caused_ns")]
    pub caused: Ns,
    /// How much later than the last but one they came, where they were late.
    #[serde(rename = "added_ns")]
    pub added: Ns,
    /// How often they were.
    pub late_count: u64,
}

/// A rank of either run, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankChange {
    /// The rank.
    pub rank: u32,
    /// In the first run; `None` if it is not there.
    pub before: Option<Waits>,
    /// In the second.
    pub after: Option<Waits>,
}

/// A stack of either run, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StackChange {
    /// The frame that shows best where it comes from.
    pub headline: Option<String>,
    /// The frames, as in the second run if it has the stack.
    pub frames: Vec<String>,
    /// In the first run; `None` if it is new.
    pub before: Option<Waits>,
    /// In the second; `None` if it is gone.
    pub after: Option<Waits>,
}

impl RankChanges {
    /// Compares two answers, each with what its traces are called.
    pub fn new((name_before, before): (&str, &RankReport), (name_after, after): (&str, &RankReport)) -> Self {
        let numbers: BTreeSet<u32> = before.ranks.iter().chain(&after.ranks).map(|rank| rank.rank).collect();
        let rank = |rank| RankChange { rank, before: of_rank(before, rank), after: of_rank(after, rank) };
        let mut stacks: BTreeMap<Vec<String>, StackChange> = BTreeMap::new();
        for stack in &before.stacks {
            add(&mut stacks, stack, |change| &mut change.before);
        }
        for stack in &after.stacks {
            add(&mut stacks, stack, |change| &mut change.after);
        }
        let mut stacks: Vec<StackChange> = stacks.into_values().collect();
        stacks.sort_by(|a, b| b.growth().0.abs().cmp(&a.growth().0.abs()).then_with(|| a.frames.cmp(&b.frames)));
        RankChanges {
            before: RunWaits::of(name_before, before),
            after: RunWaits::of(name_after, after),
            ranks: numbers.into_iter().map(rank).collect(),
            stacks,
        }
    }
}

impl RunWaits {
    fn of(trace: &str, report: &RankReport) -> Self {
        RunWaits {
            trace: trace.to_owned(),
            ranks: report.ranks.len() as u64,
            collectives: report.collectives,
            late: report.late,
            measured: report.measured,
            waited: report.waited,
            transfer: report.transfer,
            clock: report.clock.method,
        }
    }
}

impl StackChange {
    /// How much more it waits in the second run.
    pub fn growth(&self) -> Ns {
        let waited = |waits: Option<Waits>| waits.map_or(Ns::ZERO, |waits| waits.waited);
        waited(self.after) - waited(self.before)
    }
}

fn of_rank(report: &RankReport, rank: u32) -> Option<Waits> {
    let at = report.ranks.binary_search_by_key(&rank, |of| of.rank).ok()?;
    let of = &report.ranks[at];
    Some(Waits {
        kernels: of.kernels,
        waited: of.waited,
        caused: of.caused,
        added: of.added,
        late_count: of.late_count,
    })
}

/// Adds a stack to one side. Stacks that differ only in line numbers are one.
fn add(
    stacks: &mut BTreeMap<Vec<String>, StackChange>,
    stack: &StackWaits,
    side: fn(&mut StackChange) -> &mut Option<Waits>,
) {
    let parts = [&stack.captured, &stack.forward].into_iter().flatten().flatten();
    let key: Vec<String> = parts.chain(&stack.frames).map(|frame| without_line(frame).into_owned()).collect();
    let (headline, frames) = (stack.headline.clone(), stack.frames.clone());
    let empty = || StackChange { headline: headline.clone(), frames: frames.clone(), before: None, after: None };
    let change = stacks.entry(key).or_insert_with(empty);
    (change.headline, change.frames) = (headline.clone(), frames.clone());
    let waits = side(change).get_or_insert_default();
    waits.kernels += stack.count;
    waits.waited += stack.waited;
    waits.caused += stack.caused;
    waits.added += stack.added;
    waits.late_count += stack.late_count;
}

/// A bound on the second of two runs: on what it has, or on how much more it has than the first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankChangeBound {
    /// What is bounded, and the limit.
    pub bound: RankBound,
    /// Whether the limit is for the growth: a share is then of the first run's value.
    pub is_growth: bool,
}

impl RankChangeBound {
    /// Parses `waited>+5%`, `caused(rank=3)>2ms`, `added>+1ms`, `late>10`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let growth = text.split_once('>').and_then(|(what, limit)| Some((what, limit.trim().strip_prefix('+')?)));
        let (plain, is_growth) = match growth {
            Some((what, limit)) => (format!("{what}>{limit}"), true),
            None => (text.to_owned(), false),
        };
        let bound = RankBound { text: text.to_owned(), ..RankBound::parse(&plain)? };
        Ok(RankChangeBound { bound, is_growth })
    }

    /// Whether the second run is beyond it. What was 0 may not grow by any share.
    pub fn is_exceeded(&self, before: &RankReport, after: &RankReport) -> bool {
        if !self.is_growth {
            return self.bound.is_exceeded(after);
        }
        let (first, second) = (self.bound.total(before), self.bound.total(after));
        let most = match self.bound.limit {
            RankLimit::Time(limit) => limit.as_f64(),
            RankLimit::Count(limit) => limit,
            RankLimit::Share(share) => first * share,
        };
        second - first > most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::report::RankWaits;

    fn report(waited: &[i64]) -> RankReport {
        let ranks = waited.iter().zip(0..).map(|(waited, rank)| RankWaits {
            rank,
            waited: Ns(*waited),
            ..RankWaits::default()
        });
        RankReport {
            ranks: ranks.collect(),
            waited: Ns(waited.iter().sum()),
            measured: Ns(1_000),
            ..RankReport::default()
        }
    }

    /// 300 of 1,000 ns become 330: 10 % more.
    #[test]
    fn bounds_are_on_the_second_run_or_on_the_growth() {
        let (before, after) = (report(&[100, 200]), report(&[100, 230]));
        for (bound, is_exceeded) in [
            ("waited>+5%", true),
            ("waited>+10%", false),
            ("waited>+29ns", true),
            ("waited>+30ns", false),
            ("waited>33%", false),
            ("waited>32%", true),
            ("waited(rank=1)>229ns", true),
            ("waited(rank=0)>+0ns", false),
            ("caused>+0%", false),
            ("late>+0", false),
        ] {
            assert_eq!(RankChangeBound::parse(bound).unwrap().is_exceeded(&before, &after), is_exceeded, "{bound}");
        }
        for wrong in ["waited", "waited>", "waited>x%", "exposed>+5%", "waited(3)>1ms", "waited(rank=x)>1ms"] {
            assert!(RankChangeBound::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_and_stacks_of_both_runs_are_beside_each_other() {
        let stack = |line: u32, waited| StackWaits {
            frames: vec![format!("a.py({line}): f")],
            waited: Ns(waited),
            count: 2,
            ..StackWaits::default()
        };
        let mut before = report(&[5]);
        before.stacks = vec![stack(1, 5), StackWaits { frames: vec!["gone".to_owned()], ..StackWaits::default() }];
        let mut after = report(&[7, 9]);
        after.stacks = vec![stack(2, 16)];
        let changes = RankChanges::new(("a", &before), ("b", &after));
        assert_eq!(changes.ranks.iter().map(|rank| rank.before.is_some()).collect::<Vec<_>>(), [true, false]);
        assert_eq!((changes.stacks[0].growth(), changes.stacks[0].frames[0].as_str()), (Ns(11), "a.py(2): f"));
        assert_eq!((changes.stacks.len(), changes.stacks[1].after), (2, None));
    }
}
