//! What the verdict on a window says only from some size on, and whether kernels waited.

use super::data::Stack;
use crate::answers::cost::Distribution;
use crate::time::Ns;

/// The CPUs or the GPUs set the pace if the job is shorter by this share with these twice as fast: half of what it would be if there were nothing else.
pub const PACE: f64 = 0.25;

/// What costs or saves less than this share of the time is not said.
pub const WORTH: f64 = 0.01;

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
