//! What to say first about many ranks: how much of their time is waiting, for whom, and why. Only what was measured is in it.

use crate::answers::stacks::verdict::PACE;
use serde::Serialize;

use super::data::{RankReport, RankWaits};
use crate::replay::findings::Reruns;
use crate::time::Ns;

#[derive(Debug, Clone, PartialEq)]
pub struct RanksVerdict<'a> {
    /// The share of waiting in the time of the measured collectives.
    pub waiting: f64,
    /// What reruns say; `None` if there are none.
    pub reruns: Option<&'a Reruns>,
    /// What sets the pace, if the CPUs or the GPUs do, or both.
    pub pace: Option<Pace>,
    /// Whether all that is known comes from the lengths of kernels.
    pub is_by_lengths: bool,
}

/// Which shares of the time CPUs, GPUs, and both would save, were they twice as fast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The CPUs alone.
    pub cpus: f64,
    /// The GPUs alone.
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

    /// Whether the CPUs or the GPUs set it alone. Otherwise each waits for the other, or has hardly less to do.
    pub fn is_of_one(&self) -> bool {
        self.cpus.max(self.gpus) >= PACE && self.cpus != self.gpus
    }
}

/// What saves less than this share of the time is nothing to begin with.
pub const WORTH: f64 = 0.01;

impl RankReport {
    pub fn verdict(&self) -> RanksVerdict<'_> {
        let reruns = self.reruns.as_ref();
        RanksVerdict {
            waiting: self.waited_ns.share_of(self.measured_ns).unwrap_or(0.0),
            reruns,
            pace: reruns.filter(|of| !of.are_useless()).and_then(Pace::new),
            is_by_lengths: !matches!(self.clock.method, "align" | "trust"),
        }
    }
}

/// A bound on what ranks may wait.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankBound {
    pub of: Bounded,
    /// For one rank alone.
    pub rank: Option<u32>,
    /// The most that is allowed: ns, a count, or a share of the measured time.
    pub limit: RankLimit,
    /// As the user wrote it.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bounded {
    /// What ranks waited.
    Waited,
    /// What others waited for a rank.
    Caused,
    /// How often.
    Late,
}

/// The most that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankLimit {
    Time(Ns),
    /// A number of times.
    Count(f64),
    /// A share of the time of measured collectives.
    Share(f64),
}

impl RankBound {
    /// Parses `waited>20%`, `caused(rank=3)>2ms`, `late(rank=0)>10`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let expected = || "expected is a bound such as 'waited>20%', 'caused(rank=3)>2ms' or 'late>10'".to_owned();
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
            Bounded::Waited => time(|rank| rank.waited_ns),
            Bounded::Caused => time(|rank| rank.caused_ns),
            Bounded::Late => ranks.map(|rank| rank.late_count).sum::<u64>() as f64,
        }
    }

    /// Whether an answer is beyond it.
    pub fn is_exceeded(&self, report: &RankReport) -> bool {
        let total = self.total(report);
        match self.limit {
            RankLimit::Time(limit) => total > limit.as_f64(),
            RankLimit::Count(limit) => total > limit,
            RankLimit::Share(limit) => total > limit * report.measured_ns.as_f64(),
        }
    }
}
