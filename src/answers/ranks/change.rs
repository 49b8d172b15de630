//! Two runs of many ranks beside each other: which ranks and stacks wait more than before.
//!
//! Ranks are matched by number, stacks by their frames without line numbers, and all is divided by the number of steps or collectives, as for a
//! diff of stacks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::data::{RankReport, RankWaits, StackWaits};
use crate::answers::bound::{Bound, Bounded};
use crate::answers::diff::delta::{Delta, NotPerStep, Per};
use crate::answers::stacks::launching_steps::LaunchingSteps;
use crate::names::frames::without_line;
use crate::time::Ns;

/// Two runs.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankChanges {
    /// The first run.
    pub before: RunWaits,
    /// The second run.
    pub after: RunWaits,
    /// What both are divided by; a call is a measured collective, counted once for all ranks.
    pub per: Per,
    /// Why that is not the step; `None` if it is, or if steps were not asked for.
    pub not_per_step: Option<NotPerStep>,
    /// The ranks of either run, ascending.
    pub ranks: Vec<RankChange>,
    /// By stack, the one whose waiting changed most first. Stacks that differ only in line numbers are one.
    pub stacks: Vec<StackChange>,
}

/// A run as a whole.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RunWaits {
    /// Its inputs, as they were named.
    pub trace: String,
    /// The steps of the job in which collectives were measured.
    pub steps: LaunchingSteps,
    /// The number of units that its numbers are divided by: its steps or collectives according to `per`, or 1.
    #[cfg_attr(test, schemars(range(min = 1)))]
    pub divided_by: u64,
    /// The number of ranks compared.
    pub ranks: u64,
    /// Ranks of its groups that are not here: waiting for them counts as transfer.
    pub missing_ranks: Vec<u32>,
    /// The number of measured collectives, each counted once.
    pub collectives: u64,
    /// The number of these at which one rank was late.
    pub late: u64,
    /// How long their kernels ran, over all ranks.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub measured_ns: Ns,
    /// How much of that was waiting for another rank.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// The rest of the measured time.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub transfer_ns: Ns,
    /// How the clocks were compared, as in `ranks`.
    #[cfg_attr(test, schemars(extend("enum" = ["align", "trust", "none", "refused"])))]
    pub clock: &'static str,
}

/// What one rank, or one stack, waited in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Waits {
    /// The number of collective kernels.
    pub kernels: u64,
    /// How long they waited for other ranks.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub waited_ns: Ns,
    /// How long others waited for them.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub caused_ns: Ns,
    /// How often they were late.
    pub late_count: u64,
    /// These numbers, divided.
    pub each: EachWaits,
}

/// Waits, divided by a number of steps or collectives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EachWaits {
    /// The number of collective kernels.
    pub kernels: f64,
    /// How long they waited for other ranks.
    pub waited_ns: f64,
    /// How long others waited for them.
    pub caused_ns: f64,
    /// How often they were late.
    pub late_count: f64,
}

impl Waits {
    fn divided(self, units: u64) -> Self {
        let by = |number: f64| number / units as f64;
        let each = EachWaits {
            kernels: by(self.kernels as f64),
            waited_ns: by(self.waited_ns.as_f64()),
            caused_ns: by(self.caused_ns.as_f64()),
            late_count: by(self.late_count as f64),
        };
        Waits { each, ..self }
    }
}

/// A rank of either run, or both.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RankChange {
    /// The rank.
    pub rank: u32,
    /// In the first run; `None` if it is not there.
    pub before: Option<Waits>,
    /// In the second run; `None` if it is not there.
    pub after: Option<Waits>,
}

/// A stack of either run, or both.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StackChange {
    /// The frame that best shows where it comes from; `None` if none does.
    pub headline: Option<String>,
    /// The frames from the outermost caller to the launch, as in the second run if it has the stack; empty if the launches are not in the traces.
    pub frames: Vec<String>,
    /// In the first run; `None` if it is new.
    pub before: Option<Waits>,
    /// In the second; `None` if it is gone.
    pub after: Option<Waits>,
}

impl RankChanges {
    /// Compares two answers, each with what its traces are called, by this, or by collective where steps are asked for and cannot be had.
    pub fn new(before: (&str, &RankReport), after: (&str, &RankReport), per: Per) -> Self {
        let [of_before, of_after] = [before, after].map(|(_, report)| steps(report));
        let calls = [before, after].map(|(_, report)| report.collectives);
        let (per, not_per_step) = per.fitting([(&of_before, calls[0]), (&of_after, calls[1])]);
        let (run_before, run_after) = (RunWaits::new(before, of_before, per), RunWaits::new(after, of_after, per));
        let (units_before, units_after) = (run_before.divided_by, run_after.divided_by);
        let ((_, before), (_, after)) = (before, after);
        let divided = |before: Option<Waits>, after: Option<Waits>| {
            (before.map(|waits| waits.divided(units_before)), after.map(|waits| waits.divided(units_after)))
        };
        let numbers: BTreeSet<u32> = before.ranks.iter().chain(&after.ranks).map(|rank| rank.rank).collect();
        let rank = |rank| {
            let (before, after) = divided(waits_of_rank(before, rank), waits_of_rank(after, rank));
            RankChange { rank, before, after }
        };
        let mut stacks: BTreeMap<Vec<String>, StackChange> = BTreeMap::new();
        before.stacks.iter().for_each(|stack| add(&mut stacks, stack, |change| &mut change.before));
        after.stacks.iter().for_each(|stack| add(&mut stacks, stack, |change| &mut change.after));
        let mut stacks: Vec<StackChange> = stacks.into_values().collect();
        for stack in &mut stacks {
            (stack.before, stack.after) = divided(stack.before, stack.after);
        }
        let by = |stack: &StackChange| stack.growth().abs();
        stacks.sort_by(|a, b| by(b).total_cmp(&by(a)).then_with(|| a.frames.cmp(&b.frames)));
        let ranks = numbers.into_iter().map(rank).collect();
        RankChanges { before: run_before, after: run_after, per, not_per_step, ranks, stacks }
    }

    /// Whether a bound is on steps that are not marked.
    pub fn is_void(&self, bound: &Bound) -> bool {
        let is_unmarked = [&self.before, &self.after].iter().any(|run| run.steps.count == 0);
        is_unmarked && matches!(bound.of, Bounded::Step | Bounded::Idle)
    }

    /// What is bounded, in each run and divided.
    pub fn bounded(&self, bound: &Bound, before: &RankReport, after: &RankReport) -> Delta {
        let each = |run: &RunWaits, report: &RankReport| report.bounded(bound) / run.divided_by as f64;
        Delta { before: each(&self.before, before), after: each(&self.after, after) }
    }

    /// Whether the second run is beyond a bound, in all or by its growth.
    pub fn exceed(&self, bound: &Bound, before: &RankReport, after: &RankReport) -> bool {
        if !bound.is_growth {
            return after.exceeds(bound);
        }
        let units = [&self.before, &self.after].map(|run| run.divided_by);
        bound.is_growth_exceeded([before, after].map(|run| run.bounded(bound)), units)
    }
}

/// The steps in which collectives were measured; none if the answer is by spans of time instead.
fn steps(report: &RankReport) -> LaunchingSteps {
    let named = report.steps.iter().filter(|_| !report.has_spans);
    LaunchingSteps::of_names(named.map(|step| step.name.as_str()))
}

impl RunWaits {
    fn new((trace, report): (&str, &RankReport), steps: LaunchingSteps, per: Per) -> Self {
        RunWaits {
            trace: trace.to_owned(),
            divided_by: per.units(steps.count, report.collectives),
            steps,
            ranks: report.ranks.len() as u64,
            missing_ranks: report.absent.iter().flat_map(|absent| absent.ranks.iter().copied()).collect(),
            collectives: report.collectives,
            late: report.late,
            measured_ns: report.measured_ns,
            waited_ns: report.waited_ns,
            transfer_ns: report.transfer_ns,
            clock: report.clock.method,
        }
    }

    /// A time of all its ranks, divided; in ns.
    pub fn each(&self, time: Ns) -> f64 {
        time.as_f64() / self.divided_by as f64
    }
}

impl StackChange {
    /// How much more it waits in the second run, divided; in ns.
    pub fn growth(&self) -> f64 {
        let waited = |waits: Option<Waits>| waits.map_or(0.0, |waits| waits.each.waited_ns);
        waited(self.after) - waited(self.before)
    }
}

fn waits_of_rank(report: &RankReport, rank: u32) -> Option<Waits> {
    let at = report.ranks.binary_search_by_key(&rank, |of| of.rank).ok()?;
    let RankWaits { kernels, waited_ns, caused_ns, late_count, .. } = report.ranks[at];
    Some(Waits { kernels, waited_ns, caused_ns, late_count, ..Waits::default() })
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
    waits.waited_ns += stack.waited_ns;
    waits.caused_ns += stack.caused_ns;
    waits.late_count += stack.late_count;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::ranks::data::StepWaits;

    fn report(waited: &[i64]) -> RankReport {
        let ranks = waited.iter().zip(0..).map(|(waited, rank)| RankWaits {
            rank,
            waited_ns: Ns(*waited),
            ..RankWaits::default()
        });
        RankReport {
            ranks: ranks.collect(),
            waited_ns: Ns(waited.iter().sum()),
            measured_ns: Ns(1_000),
            ..RankReport::default()
        }
    }

    /// 300 of 1,000 ns become 330: 10 % more.
    #[test]
    fn bounds_are_on_the_second_run_or_on_the_growth() {
        let (before, after) = (report(&[100, 200]), report(&[100, 230]));
        let changes = RankChanges::new(("a", &before), ("b", &after), Per::Total);
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
            let found = changes.exceed(&Bound::on_changes(bound).unwrap(), &before, &after);
            assert_eq!(found, is_exceeded, "{bound}");
        }
        for wrong in ["waited", "waited>", "waited>x%", "exposed>5%", "waited(3)>1ms", "waited(rank=x)>1ms"] {
            assert!(Bound::on_changes(wrong).is_err(), "{wrong}");
        }
    }

    /// Two steps with 300 ns of waiting, then three with 450 ns: 150 ns a step.
    #[test]
    fn runs_are_compared_by_step() {
        let of = |waited: &[i64], names: &[&str]| {
            let steps = names.iter().map(|name| StepWaits { name: (*name).to_owned(), ..StepWaits::default() });
            RankReport { steps: steps.collect(), collectives: 10, ..report(waited) }
        };
        let before = of(&[100, 200], &["ProfilerStep#1", "ProfilerStep#2"]);
        let after = of(&[150, 300], &["ProfilerStep#1", "ProfilerStep#2", "ProfilerStep#3"]);
        let exceeds =
            |changes: &RankChanges, bound: &str| changes.exceed(&Bound::on_changes(bound).unwrap(), &before, &after);
        let changes = RankChanges::new(("a", &before), ("b", &after), Per::Step);
        assert_eq!((changes.per, changes.before.divided_by, changes.after.divided_by), (Per::Step, 2, 3));
        let waited = |waits: Option<Waits>| waits.unwrap().each.waited_ns;
        assert_eq!(changes.ranks.iter().map(|rank| waited(rank.before)).collect::<Vec<_>>(), [50.0, 100.0]);
        assert_eq!(changes.ranks.iter().map(|rank| waited(rank.after)).collect::<Vec<_>>(), [50.0, 100.0]);
        assert!(!exceeds(&changes, "waited>+0%") && !exceeds(&changes, "waited>+0ns"));
        // Without the plus sign the bound is on the second run alone, in all.
        assert!(exceeds(&changes, "waited(rank=1)>299ns"));
        let changes = RankChanges::new(("a", &before), ("b", &after), Per::Total);
        assert!(exceeds(&changes, "waited>+49%") && exceeds(&changes, "waited>+149ns"));
        let spans = RankReport { has_spans: true, ..of(&[100], &["0.0-2.5 ms"]) };
        let changes = RankChanges::new(("a", &spans), ("b", &after), Per::Step);
        assert_eq!((changes.per, changes.before.divided_by), (Per::Call, 10));
    }

    #[test]
    fn ranks_and_stacks_of_both_runs_are_beside_each_other() {
        let stack = |line: u32, waited| StackWaits {
            frames: vec![format!("a.py({line}): f")],
            waited_ns: Ns(waited),
            count: 2,
            ..StackWaits::default()
        };
        let mut before = report(&[5]);
        before.stacks = vec![stack(1, 5), StackWaits { frames: vec!["gone".to_owned()], ..StackWaits::default() }];
        let mut after = report(&[7, 9]);
        after.stacks = vec![stack(2, 16)];
        let changes = RankChanges::new(("a", &before), ("b", &after), Per::Total);
        assert_eq!(changes.ranks.iter().map(|rank| rank.before.is_some()).collect::<Vec<_>>(), [true, false]);
        assert_eq!((changes.stacks[0].growth(), changes.stacks[0].frames[0].as_str()), (11.0, "a.py(2): f"));
        assert_eq!((changes.stacks.len(), changes.stacks[1].after), (2, None));
    }
}
