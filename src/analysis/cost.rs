//! What kernels cost: how long they ran, how much of that no computation hid, how long they waited to start.

use serde::Serialize;

use crate::attribution::KernelLaunch;
use crate::time::Ns;

/// By what stacks, kernels and changes are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum Order {
    /// How many kernels.
    #[default]
    Count,
    /// How long they ran in all.
    GpuTime,
    /// How long no compute kernel ran beside them.
    Exposed,
    /// How long one kernel ran on average.
    Mean,
}

/// The distribution of durations. Mean, median and deviation are in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Distribution {
    /// The sum.
    #[serde(rename = "total_ns")]
    pub total: Ns,
    /// The mean.
    #[serde(rename = "mean_ns")]
    pub mean: f64,
    /// The median: the mean of the middle two if there is an even number.
    #[serde(rename = "median_ns")]
    pub median: f64,
    /// The smallest duration that 95 % do not exceed.
    #[serde(rename = "p95_ns")]
    pub p95: Ns,
    /// The smallest.
    #[serde(rename = "min_ns")]
    pub min: Ns,
    /// The largest.
    #[serde(rename = "max_ns")]
    pub max: Ns,
    /// The standard deviation of a sample, as in `nsys stats`; 0 for one value.
    #[serde(rename = "std_dev_ns")]
    pub std_dev: f64,
}

impl Distribution {
    /// The distribution of some durations; `None` if there are none.
    pub fn of(mut times: Vec<Ns>) -> Option<Self> {
        let n = times.len();
        let (min, max) = (*times.iter().min()?, *times.iter().max()?);
        let total: Ns = times.iter().copied().sum();
        let mean = total.as_f64() / n as f64;
        let squares: f64 = times.iter().map(|time| (time.as_f64() - mean).powi(2)).sum();
        let std_dev = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        // Selecting is faster than sorting.
        let (below, p95, _) = times.select_nth_unstable((n * 95).div_ceil(100) - 1);
        let p95 = *p95;
        let median = if n < 3 {
            mean
        } else {
            let (lower, middle, _) = below.select_nth_unstable(n / 2);
            let before = if n % 2 == 1 { *middle } else { lower.iter().copied().max()? };
            f64::midpoint(before.as_f64(), middle.as_f64())
        };
        Some(Distribution { total, mean, median, p95, min, max, std_dev })
    }
}

/// The totals of some kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// How many.
    pub count: u64,
    /// How long they ran.
    #[serde(rename = "gpu_time_ns")]
    pub gpu_time: Ns,
    /// How long no compute kernel ran beside them on their GPU.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
}

impl Totals {
    /// Those of one kernel.
    pub fn of(kernel: &KernelLaunch) -> Self {
        Totals { count: 1, gpu_time: kernel.gpu_time, exposed: kernel.exposed }
    }

    /// Adds others.
    pub fn add(&mut self, other: Totals) {
        self.count += other.count;
        self.gpu_time += other.gpu_time;
        self.exposed += other.exposed;
    }

    /// The mean duration, in ns; 0 without kernels.
    pub fn mean(&self) -> f64 {
        if self.count > 0 { self.gpu_time.as_f64() / self.count as f64 } else { 0.0 }
    }

    /// The total by which an order sorts.
    pub fn by(&self, order: Order) -> f64 {
        match order {
            Order::Count => self.count as f64,
            Order::GpuTime => self.gpu_time.as_f64(),
            Order::Exposed => self.exposed.as_f64(),
            Order::Mean => self.mean(),
        }
    }
}

/// What a stack's kernels cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Cost {
    /// How long they ran.
    pub gpu_time: Distribution,
    /// Their share of the window's length times the number of GPUs; `None` for a window without a length.
    #[serde(rename = "share_of_window")]
    pub share: Option<f64>,
    /// How long no compute kernel ran beside them on their GPU.
    #[serde(rename = "exposed_ns")]
    pub exposed: Ns,
    /// The rest.
    #[serde(rename = "overlapped_ns")]
    pub overlapped: Ns,
    /// From the end of the launching call to the kernel's start, see [`KernelLaunch::queue_delay`].
    pub queue_delay: Option<Distribution>,
}

/// What one kernel cost. Times in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelCost {
    gpu_time: Ns,
    exposed: Ns,
    queue_delay: Option<Ns>,
}

impl KernelCost {
    pub(super) fn of(kernel: &KernelLaunch) -> Self {
        let KernelLaunch { gpu_time, exposed, queue_delay, .. } = *kernel;
        KernelCost { gpu_time, exposed, queue_delay }
    }
}

impl Cost {
    /// Of some kernels. `wall` is the window's length times the number of GPUs.
    pub(super) fn of(kernels: &[KernelCost], wall: Ns) -> Self {
        let gpu_time = Distribution::of(kernels.iter().map(|kernel| kernel.gpu_time).collect()).unwrap_or_default();
        let exposed = kernels.iter().map(|kernel| kernel.exposed).sum();
        Cost {
            gpu_time,
            share: gpu_time.total.share_of(wall),
            exposed,
            overlapped: gpu_time.total - exposed,
            queue_delay: Distribution::of(kernels.iter().filter_map(|kernel| kernel.queue_delay).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[i64]) -> Option<Distribution> {
        Distribution::of(times.iter().copied().map(Ns).collect())
    }

    /// The deviation is that of two calls in a report of `nsys stats`.
    #[test]
    fn durations_are_distributed() {
        let two = of(&[333_015_608, 2_971_823]).unwrap();
        assert_eq!((two.mean, two.median, two.p95), (167_993_715.5, 167_993_715.5, Ns(333_015_608)));
        assert_eq!(format!("{:.1}", two.std_dev), "233376198.5");
        let one_to_hundred = Distribution::of((1..=100).rev().map(Ns).collect()).unwrap();
        assert_eq!((one_to_hundred.total, one_to_hundred.median, one_to_hundred.p95), (Ns(5_050), 50.5, Ns(95)));
        assert_eq!((one_to_hundred.min, one_to_hundred.max), (Ns(1), Ns(100)));
        let three = of(&[5, 1, 3]).unwrap();
        assert_eq!((three.median, three.p95, three.std_dev), (3.0, Ns(5), 2.0));
        assert_eq!(of(&[7]).unwrap().std_dev, 0.0);
        assert_eq!(of(&[]), None);
    }
}
