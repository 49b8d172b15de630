//! What to say first about many ranks: how much of their time is waiting, for whom, and why. Only what was measured is in it.

use serde::Serialize;

use super::cause::{ExcessPart, LateRank, Pattern, Why};
use super::report::{RankReport, RankWaits};
use crate::time::Ns;

/// The verdict.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RanksVerdict<'a> {
    /// The share of waiting in the time of the measured collectives.
    pub waiting: f64,
    /// For which share of the window nothing was queued, on the GPU where that is least and where it is most; if the job is launch-bound.
    pub launch_bound: Option<(f64, f64)>,
    /// The ranks for which others wait, and why, the one with most waiting first.
    pub blamed: Vec<Blame<'a>>,
    /// Whether all that is known comes from the lengths of kernels.
    pub is_by_lengths: bool,
}

/// A rank for which others wait.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Blame<'a> {
    /// The rank.
    pub rank: u32,
    /// The share of all waiting that is for it, also by way of ranks that waited for it.
    pub share: f64,
    /// The part of that by way of other ranks.
    pub by_way_of_others: f64,
    /// Why.
    pub reason: Reason<'a>,
}

/// Why others wait for a rank.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Reason<'a> {
    /// Its launches are late.
    Launch(&'a super::cause::LaunchLate),
    /// Its GPU is late, because of these kernels.
    Gpu {
        /// How much longer they took, in all.
        total: Ns,
        /// The kernels.
        kernels: &'a [ExcessPart],
        /// Whether it launches late, too, although its CPU does nothing longer than others do.
        is_launch_late: bool,
    },
}

/// If nothing is queued for more of the window than this, on every GPU, then the CPUs set the pace.
pub const LAUNCH_BOUND: f64 = 0.3;

/// With less of all waiting a rank is not named.
const NOTABLE: f64 = 0.1;

/// No rank is named if waiting is a smaller share of the time in which GPUs have work.
const NEGLIGIBLE: f64 = 0.005;

/// A lag of this length is more than chance.
const LONG_LAG: Ns = Ns(50_000);

/// How many ranks are named.
const NAMED: usize = 3;

/// Most of what a late rank has caused.
const MOST: f64 = 0.5;

impl RankReport {
    /// The verdict.
    pub fn verdict(&self) -> RanksVerdict<'_> {
        // Of the time in which GPUs had something to do: traces may be idle for seconds between their steps.
        let used = |rank: &RankWaits| {
            let all = if rank.wall > Ns::ZERO { rank.wall } else { rank.window.duration() };
            all.as_f64() * (1.0 - rank.queue_empty_share.unwrap_or(0.0)).clamp(0.0, 1.0)
        };
        let all: f64 = self.ranks.iter().map(used).sum();
        let is_little = self.waited.as_f64() < NEGLIGIBLE * all;
        let mut blamed: Vec<Blame<'_>> = Vec::new();
        for late in self.late_ranks.iter().filter(|_| !is_little) {
            let share = late.root_caused.share_of(self.waited).unwrap_or(0.0);
            let Some(reason) = reason(late, share).filter(|_| share >= NOTABLE) else { continue };
            let own: Ns =
                late.by.iter().filter(|(why, _)| **why != Why::WaitingElsewhere).map(|(_, caused)| *caused).sum();
            let by_way_of_others = (late.root_caused - own).share_of(self.waited).unwrap_or(0.0);
            blamed.push(Blame { rank: late.rank, share, by_way_of_others, reason });
        }
        blamed.truncate(NAMED);
        let empty: Vec<f64> = self.ranks.iter().filter_map(|rank| rank.queue_empty_share).collect();
        let least = empty.iter().copied().fold(1.0, f64::min);
        let most = empty.iter().copied().fold(0.0, f64::max);
        RanksVerdict {
            waiting: self.waited.share_of(self.measured).unwrap_or(0.0),
            launch_bound: (!empty.is_empty() && least >= LAUNCH_BOUND).then_some((least, most)),
            blamed,
            is_by_lengths: !matches!(self.clock.method, "align" | "trust"),
        }
    }
}

/// The reason for most of what a rank has caused, if it is more than chance. Chance makes any rank late now and then, and once late it
/// stays so for a while: a lag alone says little, unless most waiting is for that rank.
fn reason(late: &LateRank, share: f64) -> Option<Reason<'_>> {
    // What it caused because it waited elsewhere is its root's.
    let own = late.by.iter().filter(|(why, _)| **why != Why::WaitingElsewhere);
    let (why, caused) = own.clone().max_by_key(|(why, caused)| (**caused, std::cmp::Reverse(**why)))?;
    if caused.share_of(own.map(|(_, caused)| *caused).sum())? < MOST {
        return None;
    }
    let gpu = late.gpu.as_ref().filter(|gpu| !gpu.parts.is_empty());
    let is_launch_late = *why == Why::LaunchLate;
    let of_gpu = gpu.map(|gpu| Reason::Gpu { total: gpu.total, kernels: &gpu.parts, is_launch_late });
    match why {
        Why::LaunchLate => {
            let launch = late.launch.as_ref()?;
            match launch.pattern {
                Pattern::OneEvent | Pattern::SamePlace | Pattern::SlowerEverywhere | Pattern::BlockedByGpu => {
                    Some(Reason::Launch(launch))
                }
                // Its CPU does nothing longer than others do: where its GPU does, that is why it is late.
                _ if gpu.is_some_and(|gpu| gpu.total > launch.total_excess) => of_gpu,
                Pattern::ConstantLag | Pattern::EarlierLag => (share >= MOST).then_some(Reason::Launch(launch)),
                Pattern::Unsteady => {
                    let is_long = launch.lag.is_none_or(|lag| lag > LONG_LAG);
                    (share >= MOST && is_long).then_some(Reason::Launch(launch))
                }
            }
        }
        Why::GpuLate => of_gpu,
        Why::WaitingElsewhere | Why::Unknown => None,
    }
}

/// A bound on what ranks may wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankBound {
    /// What is bounded.
    pub of: Bounded,
    /// For one rank alone.
    pub rank: Option<u32>,
    /// The most that is allowed: ns, a count, or a share of the measured time.
    pub limit: RankLimit,
    /// As the user wrote it.
    pub text: String,
}

/// What is bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// What ranks waited.
    Waited,
    /// What others waited for a rank.
    Caused,
    /// How much later late ranks came.
    Added,
    /// How often.
    Late,
}

/// The most that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankLimit {
    /// A time.
    Time(Ns),
    /// A number of times.
    Count(f64),
    /// A share of the time of measured collectives.
    Share(f64),
}

impl RankBound {
    /// Parses `waited>20%`, `caused(rank=3)>2ms`, `added>1ms`, `late(rank=0)>10`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected =
            || "expected is a bound such as 'waited>20%', 'caused(rank=3)>2ms', 'added>1ms' or 'late>10'".to_owned();
        let (what, limit) = text.split_once('>').ok_or_else(expected)?;
        let (what, rank) = match what.trim().split_once('(') {
            Some((what, of)) => {
                let rank = of.trim().strip_suffix(')').and_then(|of| of.trim().strip_prefix("rank"));
                let rank = rank.and_then(|of| of.trim().strip_prefix('=')?.trim().parse().ok()).ok_or_else(expected)?;
                (what.trim(), Some(rank))
            }
            None => (what.trim(), None),
        };
        let of = match what {
            "waited" => Bounded::Waited,
            "caused" => Bounded::Caused,
            "added" => Bounded::Added,
            "late" => Bounded::Late,
            _ => return Err(expected()),
        };
        let limit = limit.trim();
        let limit = match (of, limit.strip_suffix('%')) {
            (Bounded::Late, _) => RankLimit::Count(limit.parse().map_err(|_| expected())?),
            (_, Some(percent)) => RankLimit::Share(percent.trim().parse::<f64>().map_err(|_| expected())? / 100.0),
            (_, None) => RankLimit::Time(crate::time::parse_nanos(limit)?),
        };
        Ok(RankBound { of, rank, limit, text: text.to_owned() })
    }

    /// What an answer has of it, in ns or as a count.
    pub fn total(&self, report: &RankReport) -> f64 {
        let ranks = report.ranks.iter().filter(|rank| self.rank.is_none_or(|wanted| rank.rank == wanted));
        let time = |get: fn(&RankWaits) -> Ns| ranks.clone().map(get).sum::<Ns>().as_f64();
        match self.of {
            Bounded::Waited => time(|rank| rank.waited),
            Bounded::Caused => time(|rank| rank.caused),
            Bounded::Added => time(|rank| rank.added),
            Bounded::Late => ranks.map(|rank| rank.late_count).sum::<u64>() as f64,
        }
    }

    /// Whether an answer is beyond it.
    pub fn is_exceeded(&self, report: &RankReport) -> bool {
        let total = self.total(report);
        match self.limit {
            RankLimit::Time(limit) => total > limit.as_f64(),
            RankLimit::Count(limit) => total > limit,
            RankLimit::Share(limit) => total > limit * report.measured.as_f64(),
        }
    }
}
