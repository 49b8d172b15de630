//! How the launches of a rank are late.

use super::compare::Compared;
use super::pattern::{Lagging, pattern};
use super::{Causes, Excess, LateAt, LaunchLate, Pattern, Place};
use crate::ranks::reduction::Segment;
use crate::statistics::median;
use crate::time::Ns;

impl Causes<'_> {
    /// How the launches of a rank were late, judged by what its thread did; if that shows nothing, by how long it was blocked until its GPU was done;
    /// finally by both. The other ranks are blocked until the late one arrives, so their segments are long because its segments are.
    pub(super) fn launch(&self, rank: usize, late: &[LateAt]) -> Option<LaunchLate> {
        let active = self.launch_by(rank, late, Segment::active)?;
        if matches!(active.pattern, Pattern::OneEvent | Pattern::SamePlace | Pattern::SlowerEverywhere) {
            return Some(active);
        }
        let blocked = self.launch_by(rank, late, |segment| segment.blocked)?;
        if matches!(blocked.pattern, Pattern::OneEvent | Pattern::SamePlace | Pattern::SlowerEverywhere) {
            let excess = self.excess(rank, |reduction| &reduction.gpu, |_| true);
            if !excess.parts.is_empty() {
                return Some(LaunchLate { pattern: Pattern::BlockedByGpu, excess, ..blocked });
            }
        }
        if active.pattern != Pattern::Unsteady {
            return Some(active);
        }
        let whole = self.launch_by(rank, late, |segment| segment.end - segment.start)?;
        Some(if whole.pattern == Pattern::Unsteady { active } else { whole })
    }

    fn launch_by(&self, rank: usize, late: &[LateAt], length: fn(&Segment) -> Ns) -> Option<LaunchLate> {
        let compared = self.compared(rank, length);
        let excess: Vec<Ns> = compared.iter().map(Compared::excess).collect();
        let lags: Vec<f64> = late.iter().filter_map(|at| self.lag(at)).map(Ns::as_f64).collect();
        let lag = (!lags.is_empty()).then(|| Ns::rounded(median(lags.iter().copied())));
        let (largest, at_largest) = excess.iter().zip(0..).map(|(excess, at)| (*excess, at)).max()?;
        let (pattern, place) =
            pattern(&compared, &excess, &Lagging::classify(&lags, lag, largest, excess.iter().copied().sum()));
        let class = if pattern == Pattern::OneEvent { Some(compared[at_largest].class) } else { place };
        let parts = match pattern {
            Pattern::OneEvent => self.excess_of_one(rank, compared[at_largest].segment, &compared[at_largest]),
            Pattern::SamePlace => self.excess(rank, |reduction| &reduction.cpu, |key| Some(key) == place),
            Pattern::SlowerEverywhere => self.excess(rank, |reduction| &reduction.cpu, |_| true),
            _ => Excess::default(),
        };
        Some(LaunchLate {
            pattern,
            segments: excess.len() as u64,
            longer: excess.iter().filter(|excess| **excess > Ns::ZERO).count() as u64,
            median_excess: Ns::rounded(median(excess.iter().map(|excess| excess.as_f64()))),
            total_excess: excess.iter().copied().sum(),
            others: compared.iter().map(|segment| segment.others).sum(),
            largest_excess: largest,
            lag,
            largest_lag: lag.map(|_| Ns::rounded(lags.iter().copied().fold(0.0, f64::max))),
            place: class.map(|(from, to, is_new_step)| Place {
                from: self.headline(rank, from),
                to: self.headline(rank, to),
                is_new_step,
            }),
            excess: parts,
        })
    }

    /// The frame that best shows where a stack comes from.
    fn headline(&self, rank: usize, stack: Option<u32>) -> Option<String> {
        let at = self.stacks[rank].iter().position(|known| Some(*known) == stack)?;
        self.job.reductions[rank].stacks[at].telling.first().cloned()
    }

    /// How long after the median of the other ranks the late rank's launch ended.
    fn lag(&self, at: &LateAt) -> Option<Ns> {
        let group = &self.matches.groups[at.group];
        if !self.clocks.cover(group) {
            return None;
        }
        let launched = |member: usize| {
            let rank = group.members[member];
            let row = self.job.row(group, &group.collectives[at.collective], member)?;
            Some(self.clocks.ranks[rank].aligned(self.job.reductions[rank].segments[row.segment? as usize].end))
        };
        let own = group.members.iter().position(|rank| *rank == at.rank)?;
        let base = launched(own)?;
        let others = (0..group.members.len()).filter(|member| *member != own).filter_map(launched);
        let lags: Vec<f64> = others.map(|other| (base - other).as_f64()).collect();
        (!lags.is_empty()).then(|| Ns::rounded(median(lags)))
    }
}
