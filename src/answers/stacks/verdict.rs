//! The verdict on a window: how long collectives ran, how much of that nothing hid, and which stack accounts for most of it.

use super::data::{Stack, StackReport};
use super::origin::Names;
use crate::answers::cost::{Distribution, Outliers};
use crate::time::Ns;

/// The CPUs or the GPUs set the pace if the job is shorter by this share with these twice as fast: half of what it would be if there were nothing else.
pub const PACE: f64 = 0.25;

/// What costs or saves less than this share of the time is not said.
pub const WORTH: f64 = 0.01;

/// The verdict on a window. Times are summed over the GPUs; shares are fractions.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'a> {
    /// The collectives that ran in the window, if any.
    pub collectives: Option<CollectiveTime>,
    /// Whether any chosen kernel has a stack.
    pub has_stacks: bool,
    /// The stack with the most exposed time, if there is exposed time and no tie.
    pub costliest: Option<Costliest<'a>>,
}

/// How long the collectives of a window ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CollectiveTime {
    /// Their time as a share of the window.
    pub share_of_window: f64,
    /// How long they ran without any compute kernel beside them.
    pub exposed: Ns,
    /// The exposed time as a share of their time.
    pub exposed_share: f64,
    /// The exposed time as a share of the window.
    pub exposed_share_of_window: f64,
}

/// The stack with the most exposed time.
#[derive(Debug, Clone, PartialEq)]
pub struct Costliest<'a> {
    /// Its exposed time as a share of the exposed time of all chosen kernels in the window.
    pub share: f64,
    /// The exposed time of all chosen kernels in the window.
    pub of: Ns,
    /// The rank, if ranks are distinguished.
    pub rank: Option<&'a str>,
    /// The frame that best shows where the stack comes from.
    pub from: Option<&'a str>,
    /// If other stacks share that frame: the frames by which this stack differs from them, innermost first.
    pub within: Vec<&'a str>,
    /// Whether its kernels waited, judged by the kernels alone.
    pub waiting: Option<Waiting>,
    /// The few of its kernels that make most of its time, and the number of all.
    pub outliers: Option<(Outliers, u64)>,
}

/// Kernels of one size whose fastest took a fraction of the mean: the rest is waiting for other ranks, or contention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waiting {
    /// The mean time of a kernel, in ns.
    pub mean: f64,
    /// The time of the fastest kernel in all traces, in ns: [`fastest`](crate::answers::stacks::collective_info::CollectiveInfo::fastest_ns).
    pub best: Ns,
}

/// The multiple of the fastest time above which the mean indicates waiting.
const FAR_ABOVE: f64 = 2.0;

/// How many kernels of one size are needed for a reliable fastest time.
const ENOUGH: u64 = 3;

impl Waiting {
    /// Checks a stack whose kernels all carry out the same collective.
    pub fn find(stack: &Stack) -> Option<Self> {
        let (best, Distribution { mean_ns: mean, .. }) = (stack.messages.fastest_ns?, stack.cost.gpu_time);
        (stack.count >= ENOUGH && mean > FAR_ABOVE * best.as_f64()).then_some(Waiting { mean, best })
    }
}

impl StackReport {
    pub fn verdict(&self) -> Verdict<'_> {
        let summary = &self.summary;
        let share = |time: Ns, of: Ns| time.share_of(of).unwrap_or(0.0);
        let has_stacks = !self.stacks.is_empty();
        if summary.collectives_ns == Ns::ZERO {
            return Verdict { collectives: None, has_stacks, costliest: None };
        }
        let collectives = CollectiveTime {
            share_of_window: share(summary.collectives_ns, summary.wall_ns),
            exposed: summary.exposed_ns,
            exposed_share: share(summary.exposed_ns, summary.collectives_ns),
            exposed_share_of_window: share(summary.exposed_ns, summary.wall_ns),
        };
        // All stacks of the chosen kernels, shown or left out.
        let stacks: Vec<&Stack> = self.stacks.iter().chain(&self.hidden).collect();
        let without_launch = self.coverage.without_launch().exposed_ns;
        let all: Ns = stacks.iter().map(|stack| stack.cost.exposed_ns).chain([without_launch]).sum();
        let most = stacks.iter().enumerate().max_by_key(|(at, stack)| (stack.cost.exposed_ns, std::cmp::Reverse(*at)));
        // If several stacks tie, none is the costliest.
        let is_alone =
            |most: &Stack| stacks.iter().filter(|stack| stack.cost.exposed_ns >= most.cost.exposed_ns).count() == 1;
        let most = most.filter(|(_, stack)| stack.cost.exposed_ns > Ns::ZERO && is_alone(stack));
        let costliest = most.map(|(at, stack)| {
            let names = Names::new(stacks.iter().map(|stack| stack.naming()));
            let mut name = names.name(at).into_iter();
            let (from, within) = (name.next(), name.collect());
            Costliest {
                share: share(stack.cost.exposed_ns, all),
                of: all,
                rank: stack.rank.as_deref(),
                from,
                within,
                waiting: Waiting::find(stack),
                outliers: stack.cost.outliers.map(|outliers| (outliers, stack.count)),
            }
        });
        Verdict { collectives: Some(collectives), has_stacks, costliest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three kernels took 90 ns each; the fastest of their kind took 45 or 44 ns, and only 44 is less than half of 90.
    #[test]
    fn kernels_wait_if_they_take_far_longer_than_the_fastest() {
        let mut slow = Stack::default();
        slow.cost.gpu_time = Distribution { mean_ns: 90.0, ..Distribution::default() };
        for (count, fastest, best) in
            [(3, Some(44), Some(44)), (3, Some(45), None), (2, Some(44), None), (3, None, None)]
        {
            (slow.count, slow.messages.fastest_ns) = (count, fastest.map(Ns));
            assert_eq!(Waiting::find(&slow).map(|waiting| waiting.best), best.map(Ns), "{count} {fastest:?}");
        }
    }
}
