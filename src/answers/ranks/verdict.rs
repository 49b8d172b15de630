//! What to say first about many ranks: how much of their time is waiting, for whom, and why. Only what was measured is in it.

use crate::answers::bound::{Bound, Bounded};
use crate::answers::stacks::verdict::PACE;
pub use crate::answers::stacks::verdict::WORTH;

use super::data::{RankReport, RankWaits, StepWaits};
use crate::replay::findings::Reruns;
use crate::time::Ns;

/// Which shares of the time CPUs, GPUs, and both would save, were they twice as fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    pub cpus: f64,
    pub gpus: f64,
    pub both: f64,
}

impl Pace {
    fn new(reruns: &Reruns) -> Option<Self> {
        let share = |saved: i64| Ns(saved).share_of(Ns(reruns.length_ns)).unwrap_or(0.0);
        let pace = Pace {
            cpus: share(reruns.cpus_twice_as_fast_saves_ns),
            gpus: share(reruns.gpus_twice_as_fast_saves_ns),
            both: share(reruns.both_twice_as_fast_saves_ns),
        };
        (pace.both >= PACE || pace.is_of_one()).then_some(pace)
    }

    /// The most that it would save beyond what is known of late ranks: shares of the CPUs and GPUs that are theirs.
    pub(super) fn without(&self, cpus: f64, gpus: f64) -> f64 {
        if self.is_of_one() { (self.cpus - cpus).max(self.gpus - gpus) } else { self.both - cpus - gpus }
    }

    /// Whether the CPUs or the GPUs set it alone. Otherwise each waits for the other, or has hardly less to do.
    pub fn is_of_one(&self) -> bool {
        self.cpus.max(self.gpus) >= PACE && self.cpus != self.gpus
    }
}

/// A rank for which others wait for half of the time or more is named, even where nothing shows why. Where as much is not measured, nobody is.
pub const HALF: f64 = 0.5;

impl RankReport {
    /// Whether for most of collectives' time it is unknown who waits for whom.
    pub fn is_mostly_unmeasured(&self) -> bool {
        let unmeasured: Ns = self.unmeasured_ns.values().copied().sum();
        unmeasured.share_of(self.gpu_ns).is_some_and(|share| share >= HALF)
    }

    /// What sets the pace, if the CPUs or the GPUs do, or both.
    pub fn pace(&self) -> Option<Pace> {
        self.reruns.as_ref().filter(|of| !of.are_useless()).and_then(Pace::new)
    }

    /// What is bounded, in ns or as a count.
    pub fn bounded(&self, bound: &Bound) -> f64 {
        let ranks = self.ranks.iter().filter(|rank| bound.rank.is_none_or(|wanted| rank.rank == wanted));
        let time = |get: fn(&RankWaits) -> Ns| ranks.clone().map(get).sum::<Ns>().as_f64();
        match bound.of {
            Bounded::Waited => time(|rank| rank.waited_ns),
            Bounded::Caused => time(|rank| rank.caused_ns),
            Bounded::Late => ranks.map(|rank| rank.late_count).sum::<u64>() as f64,
            Bounded::Step => self.mean_of_steps(bound.rank, |step, rank| step.length_ns[rank].unwrap_or_default()),
            Bounded::Idle => self.mean_of_steps(bound.rank, |step, rank| {
                step.length_ns[rank].map_or(Ns::ZERO, |length| (length - step.busy_ns[rank]).max(Ns::ZERO))
            }),
            Bounded::Cost(_) => 0.0,
        }
    }

    /// A time of all steps, in ns: of one rank, or the mean over all.
    fn mean_of_steps(&self, rank: Option<u32>, get: impl Fn(&StepWaits, usize) -> Ns) -> f64 {
        let ranks: Vec<usize> =
            (0..self.ranks.len()).filter(|at| rank.is_none_or(|wanted| self.ranks[*at].rank == wanted)).collect();
        let of_rank = |rank: usize| self.steps.iter().map(|step| get(step, rank)).sum::<Ns>();
        ranks.iter().map(|rank| of_rank(*rank)).sum::<Ns>().as_f64() / ranks.len().max(1) as f64
    }

    /// Why nothing here can be beyond a bound, whatever the ranks do; `None` if something can.
    pub fn why_void(&self, bound: &Bound) -> Option<String> {
        let is_absent = |rank: &u32| !self.ranks.iter().any(|of| of.rank == *rank);
        match bound.rank.filter(is_absent) {
            Some(rank) => Some(format!("there is no rank {rank}")),
            None if bound.is_of_waiting() && self.measured_ns == Ns::ZERO => {
                Some("no collective of several ranks was measured".to_owned())
            }
            None => None,
        }
    }

    /// Whether it is beyond a bound; a share is of the time of measured collectives.
    pub fn exceeds(&self, bound: &Bound) -> bool {
        bound.is_exceeded(self.bounded(bound), self.measured_ns.as_f64())
    }
}
