//! What kernels cost: how long they ran, how much of that time no computation hid, how long they waited to start.

use std::iter::Sum;
use std::ops::AddAssign;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::time_sums::TimeSums;
use crate::attribution::KernelLaunch;
use crate::statistics::{Middle, middle, std_dev};
use crate::store::Store;
use crate::time::Ns;

/// How stacks, kernels and changes are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum Order {
    /// The number of kernels.
    #[default]
    Count,
    /// Their total time.
    GpuTime,
    /// The time in which no compute kernel ran beside them.
    Exposed,
    /// The mean time of a kernel.
    Mean,
    /// The time on the critical path of each rank alone.
    Critical,
}

/// The distribution of durations. Mean, median and deviation are in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Distribution {
    /// The sum.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub total_ns: Ns,
    /// The mean.
    pub mean_ns: f64,
    /// The median; for an even number, the mean of the middle two.
    pub median_ns: f64,
    /// The smallest duration that at least 95 % do not exceed.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub p95_ns: Ns,
    /// The smallest.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub min_ns: Ns,
    /// The largest.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub max_ns: Ns,
    /// The sample standard deviation, as in `nsys stats`; 0 for a single value.
    pub std_dev_ns: f64,
}

impl Distribution {
    /// The distribution of durations; `None` if there are none.
    pub fn from_times(mut times: Vec<Ns>) -> Option<Self> {
        let n = times.len();
        let (min_ns, max_ns) = (*times.iter().min()?, *times.iter().max()?);
        let total_ns: Ns = times.iter().copied().sum();
        let mean_ns = total_ns.as_f64() / n as f64;
        let std_dev_ns = std_dev(times.iter().map(|time| time.as_f64()));
        let Middle { lower, upper, above } = middle(&mut times, Ns::cmp)?;
        let median_ns = f64::midpoint(lower.as_f64(), upper.as_f64());
        // With one or two values, the upper middle value is the last.
        let after = ((n * 95).div_ceil(100) - 1).checked_sub(n / 2 + 1);
        let p95_ns = after.map_or(upper, |after| *above.select_nth_unstable(after).1);
        Some(Distribution { total_ns, mean_ns, median_ns, p95_ns, min_ns, max_ns, std_dev_ns })
    }

    /// The distribution of summed durations; `None` if there are none. Median and 95th percentile are within 0.8 %, the rest is exact.
    pub fn of_sums(sums: &TimeSums) -> Option<Self> {
        let TimeSums { count, total_ns, min_ns, max_ns, .. } = *sums;
        (count > 0).then(|| Distribution {
            total_ns,
            mean_ns: total_ns.as_f64() / count as f64,
            median_ns: sums.median(),
            p95_ns: sums.p95(),
            min_ns,
            max_ns,
            std_dev_ns: sums.std_dev(),
        })
    }
}

/// The totals of kernels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Totals {
    /// The number of kernels.
    pub count: u64,
    /// How long they ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
    /// How long no compute kernel ran beside them on their GPU.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// How long they are on the critical path of their rank alone; `None` unless that was asked for.
    #[serde(skip)]
    pub critical: Option<Ns>,
}

impl Totals {
    pub fn from_kernel(kernel: &KernelLaunch) -> Self {
        Totals { count: 1, gpu_time_ns: kernel.gpu_time, exposed_ns: kernel.exposed, critical: kernel.critical }
    }

    /// The mean duration, in ns; 0 without kernels.
    pub fn mean(&self) -> f64 {
        if self.count > 0 { self.gpu_time_ns.as_f64() / self.count as f64 } else { 0.0 }
    }

    /// The value that an order sorts by.
    pub fn by(&self, order: Order) -> f64 {
        match order {
            Order::Count => self.count as f64,
            Order::GpuTime => self.gpu_time_ns.as_f64(),
            Order::Exposed => self.exposed_ns.as_f64(),
            Order::Mean => self.mean(),
            Order::Critical => self.critical.unwrap_or_default().as_f64(),
        }
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.count += other.count;
        self.gpu_time_ns += other.gpu_time_ns;
        self.exposed_ns += other.exposed_ns;
        self.critical = added(self.critical, other.critical);
    }
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(all: I) -> Self {
        let mut sum = Totals::default();
        all.for_each(|totals| sum += totals);
        sum
    }
}

/// The sum of what is known.
fn added(a: Option<Ns>, b: Option<Ns>) -> Option<Ns> {
    a.map_or(b, |a| Some(a + b.unwrap_or_default()))
}

/// What kernels cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// How long they ran.
    pub gpu_time: Distribution,
    /// The share of the summary's `wall_ns` in which any of them ran; `None` for an empty window.
    pub share_of_window: Option<f64>,
    /// How long no compute kernel ran beside them on their GPU.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub exposed_ns: Ns,
    /// The rest of `gpu_time.total_ns`: a compute kernel ran beside them.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub overlapped_ns: Ns,
    /// How long they are on the critical path of their rank alone; `None` unless that was asked for.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub critical_ns: Option<Ns>,
    /// From the end of the launching call to the kernel's start, 0 for a kernel that starts earlier. Only for kernels attributed by correlation or
    /// flow; `None` if there are none.
    pub queue_delay: Option<Distribution>,
    /// The few kernels that make most of the time, if there are such. `None` also for several traces, or parts.
    pub outliers: Option<Outliers>,
}

/// A few kernels that take longer than all others together: the mean says nothing of the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Outliers {
    /// The number of these kernels.
    pub count: u64,
    /// How long they ran.
    #[cfg_attr(test, schemars(with = "u64"))]
    pub gpu_time_ns: Ns,
    /// The median of the others, in ns.
    pub others_median_ns: f64,
    /// The start of the first of them.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub first_start_ns: Ns,
    /// When the last of them ends.
    #[cfg_attr(test, schemars(with = "i64"))]
    pub last_end_ns: Ns,
    /// Whether they are the first kernels of the stack.
    pub are_first: bool,
}

/// At most one kernel in so many is an outlier.
const ONE_IN: usize = 20;

/// Outliers take so many times the median of the others.
const FAR_LONGER: f64 = 10.0;

impl Outliers {
    /// The fewest kernels that make more than half of the time, if these are few and far longer than the others, with all that are half as long as these or longer. Each
    /// is its start and its time.
    pub(super) fn find(kernels: &[(Ns, Ns)]) -> Option<Self> {
        let total: Ns = kernels.iter().map(|(_, time)| *time).sum();
        let most = (kernels.len() / ONE_IN).max(usize::from(kernels.len() > 2));
        let mut longest: Vec<(Ns, usize)> = kernels.iter().zip(0..).map(|((_, time), at)| (*time, at)).collect();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        let mut gpu_time = Ns::ZERO;
        let is_most = |(time, _): &(Ns, usize)| {
            gpu_time += *time;
            gpu_time.0 > total.0 / 2
        };
        let shortest = longest[longest.iter().take(most).position(is_most)?].0;
        let count = longest.partition_point(|(time, _)| time.0 >= shortest.0 / 2);
        let others = longest[count..].iter().map(|(time, _)| *time).collect();
        let others_median = Distribution::from_times(others)?.median_ns;
        let found = &longest[..count];
        if found.iter().any(|(time, _)| time.as_f64() < FAR_LONGER * others_median) {
            return None;
        }
        let of = |at: &(Ns, usize)| kernels[at.1];
        Some(Outliers {
            count: count as u64,
            gpu_time_ns: found.iter().map(|(time, _)| *time).sum(),
            others_median_ns: others_median,
            first_start_ns: found.iter().map(|at| of(at).0).min()?,
            last_end_ns: found.iter().map(|at| of(at).0 + of(at).1).max()?,
            are_first: found.iter().all(|(_, at)| *at < count),
        })
    }
}

/// What one kernel cost. Times in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct KernelCost {
    start: Ns,
    gpu_time: Ns,
    exposed: Ns,
    critical: Option<Ns>,
    queue_delay: Option<Ns>,
}

impl KernelCost {
    pub(super) fn from_kernel(store: &Store, kernel: &KernelLaunch) -> Self {
        let KernelLaunch { launched, gpu_time, exposed, critical, queue_delay, .. } = *kernel;
        KernelCost { start: store.slices.ts(launched.kernel), gpu_time, exposed, critical, queue_delay }
    }
}

/// Start and time of each kernel.
fn spans(kernels: &[KernelCost]) -> Vec<(Ns, Ns)> {
    kernels.iter().map(|kernel| (kernel.start, kernel.gpu_time)).collect()
}

/// The kernels of a stack, in one trace or several.
#[derive(Debug)]
pub(super) enum Kernels {
    /// Each kernel's cost, so that medians and percentiles are exact.
    Each(Vec<KernelCost>),
    /// Sums, as part files have them.
    Summed(Box<KernelSums>),
}

/// Kernels, added up.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct KernelSums {
    gpu_time: TimeSums,
    exposed_ns: Ns,
    #[serde(skip)]
    critical: Option<Ns>,
    queue_delay: TimeSums,
    /// Those of the kernels as long as they are of one trace.
    #[serde(default)]
    outliers: Option<Outliers>,
}

impl Default for Kernels {
    fn default() -> Self {
        Kernels::Each(Vec::new())
    }
}

impl Kernels {
    pub(super) fn count(&self) -> u64 {
        match self {
            Kernels::Each(kernels) => kernels.len() as u64,
            Kernels::Summed(sums) => sums.gpu_time.count,
        }
    }

    pub(super) fn totals(&self) -> Totals {
        match self {
            Kernels::Each(kernels) => Totals {
                count: kernels.len() as u64,
                gpu_time_ns: kernels.iter().map(|kernel| kernel.gpu_time).sum(),
                exposed_ns: kernels.iter().map(|kernel| kernel.exposed).sum(),
                critical: kernels.iter().map(|kernel| kernel.critical).reduce(added).flatten(),
            },
            Kernels::Summed(sums) => {
                let KernelSums { gpu_time, exposed_ns, critical, .. } = &**sums;
                let TimeSums { count, total_ns: gpu_time_ns, .. } = *gpu_time;
                Totals { count, gpu_time_ns, exposed_ns: *exposed_ns, critical: *critical }
            }
        }
    }

    pub(super) fn add(&mut self, other: Kernels) {
        match (&mut *self, other) {
            (Kernels::Each(own), Kernels::Each(others)) => own.extend(others),
            (Kernels::Summed(own), other) => own.add(&other.sums()),
            (Kernels::Each(_), other @ Kernels::Summed(_)) => {
                let mut sums = self.sums();
                sums.add(&other.sums());
                *self = Kernels::Summed(Box::new(sums));
            }
        }
    }

    fn sums(&self) -> KernelSums {
        match self {
            Kernels::Each(kernels) => KernelSums {
                gpu_time: TimeSums::from_times(kernels.iter().map(|kernel| kernel.gpu_time)),
                exposed_ns: kernels.iter().map(|kernel| kernel.exposed).sum(),
                critical: self.totals().critical,
                queue_delay: TimeSums::from_times(kernels.iter().filter_map(|kernel| kernel.queue_delay)),
                outliers: Outliers::find(&spans(kernels)),
            },
            Kernels::Summed(sums) => KernelSums::clone(sums),
        }
    }
}

impl KernelSums {
    fn add(&mut self, other: &KernelSums) {
        self.gpu_time.merge(&other.gpu_time);
        self.exposed_ns += other.exposed_ns;
        self.critical = added(self.critical, other.critical);
        self.queue_delay.merge(&other.queue_delay);
        self.outliers = None;
    }
}

/// Kernels are serialised as their sums.
impl Serialize for Kernels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.sums().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Kernels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        KernelSums::deserialize(deserializer).map(|sums| Kernels::Summed(Box::new(sums)))
    }
}

impl Cost {
    /// The exposed time as a share of the GPU time; `None` if the kernels have no duration.
    pub fn exposed_share(&self) -> Option<f64> {
        self.exposed_ns.share_of(self.gpu_time.total_ns)
    }

    /// The totals of the kernels, of which there are `count`.
    pub(super) fn totals(&self, count: u64) -> Totals {
        let Cost { gpu_time, exposed_ns, critical_ns: critical, .. } = *self;
        Totals { count, gpu_time_ns: gpu_time.total_ns, exposed_ns, critical }
    }

    /// The cost of kernels that have this share of the window. Outliers are those of one trace: several have no common order.
    pub(super) fn sum(kernels: &Kernels, share_of_window: Option<f64>, is_one_trace: bool) -> Self {
        let Totals { exposed_ns, critical: critical_ns, .. } = kernels.totals();
        let (gpu_time, queue_delay) = match kernels {
            Kernels::Each(kernels) => (
                Distribution::from_times(kernels.iter().map(|kernel| kernel.gpu_time).collect()),
                Distribution::from_times(kernels.iter().filter_map(|kernel| kernel.queue_delay).collect()),
            ),
            Kernels::Summed(sums) => (Distribution::of_sums(&sums.gpu_time), Distribution::of_sums(&sums.queue_delay)),
        };
        let gpu_time = gpu_time.unwrap_or_default();
        let outliers = match kernels {
            _ if !is_one_trace => None,
            Kernels::Each(kernels) => Outliers::find(&spans(kernels)),
            Kernels::Summed(sums) => sums.outliers,
        };
        let overlapped_ns = gpu_time.total_ns - exposed_ns;
        Cost { gpu_time, share_of_window, exposed_ns, overlapped_ns, critical_ns, queue_delay, outliers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Six of 96 kernels take 18 of 18.9 µs: four of them are more than half of that, and the two others are like these. Half of all are no few.
    #[test]
    fn kernels_that_are_alike_are_outliers_together() {
        let found = |long: i64| {
            let kernels: Vec<(Ns, Ns)> = (0..96)
                .map(|at| (Ns(at * 10_000), Ns(if at % 16 == 0 && at < 16 * long { 3_000 } else { 10 })))
                .collect();
            Outliers::find(&kernels).map(|of| (of.count, of.gpu_time_ns, of.others_median_ns))
        };
        assert_eq!(found(6), Some((6, Ns(18_000), 10.0)));
        assert_eq!(found(1), Some((1, Ns(3_000), 10.0)));
        let half: Vec<(Ns, Ns)> = (0..96).map(|at| (Ns(at), Ns(if at % 2 == 0 { 3_000 } else { 10 }))).collect();
        assert!(Outliers::find(&half).is_none());
    }

    fn distribution(times: &[i64]) -> Option<Distribution> {
        Distribution::from_times(times.iter().copied().map(Ns).collect())
    }

    /// The deviation that a report of `nsys stats` has for these two calls.
    #[test]
    fn durations_are_distributed() {
        let two = distribution(&[333_015_608, 2_971_823]).unwrap();
        assert_eq!((two.mean_ns, two.median_ns, two.p95_ns), (167_993_715.5, 167_993_715.5, Ns(333_015_608)));
        assert_eq!(format!("{:.1}", two.std_dev_ns), "233376198.5");
        let one_to_hundred = Distribution::from_times((1..=100).rev().map(Ns).collect()).unwrap();
        assert_eq!(
            (one_to_hundred.total_ns, one_to_hundred.median_ns, one_to_hundred.p95_ns),
            (Ns(5_050), 50.5, Ns(95))
        );
        assert_eq!((one_to_hundred.min_ns, one_to_hundred.max_ns), (Ns(1), Ns(100)));
        let three = distribution(&[5, 1, 3]).unwrap();
        assert_eq!((three.median_ns, three.p95_ns, three.std_dev_ns), (3.0, Ns(5), 2.0));
        assert_eq!(distribution(&[7]).unwrap().std_dev_ns, 0.0);
        assert_eq!(distribution(&[]), None);
    }

    /// Compares the summed distribution with the exact one.
    #[test]
    fn sums_have_the_distribution_of_the_times() {
        let times: Vec<Ns> = (0..1000).map(|at: i64| Ns(1_000_000_000_000 + at * at * 977 % 4_999_999)).collect();
        let (exact, summed) = (
            Distribution::from_times(times.clone()).unwrap(),
            Distribution::of_sums(&TimeSums::from_times(times)).unwrap(),
        );
        assert_eq!(
            (exact.total_ns, exact.mean_ns, exact.min_ns, exact.max_ns),
            (summed.total_ns, summed.mean_ns, summed.min_ns, summed.max_ns)
        );
        assert!(
            (exact.std_dev_ns / summed.std_dev_ns - 1.0).abs() < 1e-9,
            "{} {}",
            exact.std_dev_ns,
            summed.std_dev_ns
        );
        assert!((exact.median_ns / summed.median_ns - 1.0).abs() < 0.008);
        assert!((exact.p95_ns.as_f64() / summed.p95_ns.as_f64() - 1.0).abs() < 0.008);
        let small = Distribution::of_sums(&TimeSums::from_times([5, 1, 3].map(Ns))).unwrap();
        assert_eq!((small.median_ns, small.p95_ns, small.std_dev_ns), (3.0, Ns(5), 2.0));
        assert_eq!(Distribution::of_sums(&TimeSums::default()), None);
    }
}
