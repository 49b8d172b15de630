//! How the ranks' clocks differ, and how well that is known.
//!
//! Each rank's times are its host's clock, converted for its GPU. The ends of matched all-reduces agree within microseconds, so a
//! robust fit to them all gives one offset per rank (`solve`), and where the ends drift apart, a slope. `bounds`
//! says within which limits an offset can be at all. Ranks that only send to each other are compared
//! by that (`messages`). Where the ends do not agree, the estimate is refused, and waiting is known from the lengths of kernels alone.

mod bounds;
mod fit;
mod messages;
mod solve;

use serde::Serialize;

use self::bounds::{Constraint, Impossible, possible};
use self::fit::Fit;
use self::solve::Anchor;
use super::alignment::{FASTEST, sharpness};
use super::matching::{Fault, MatchedGroup, Matches};
use super::rows::{RankRows, Row, Tie};
use crate::time::Ns;

/// How the clocks of different ranks are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClockMode {
    /// By the ends of collectives.
    #[default]
    Align,
    Trust,
    None,
}

#[derive(Debug, Clone, Default)]
pub struct Clocks {
    pub mode: ClockMode,
    pub ranks: Vec<RankClock>,
    /// How many collectives the estimate is from.
    pub anchors: u64,
    /// How far their ends are from the moment at which all should end.
    pub residual: Residual,
    pub refused: Vec<String>,
}

/// What comparing the clocks of a job's ranks finds.
#[derive(Debug)]
pub enum ComparedClocks {
    /// All times are possible, some of them without what was taken out of the matches.
    Possible(Clocks),
    /// They are possible only without a rank: without it the rest has to be matched and compared again.
    Misfit {
        rank: usize,
        /// Why it does not fit, as a sentence says it.
        why: String,
    },
}

/// A rank's clock fits those of others so many times worse than they fit each other, and by at least this: then its collectives are of another run. In complete sets of
/// real traces the worst rank is 1.5 times as far off as the median.
const WORSE: i64 = 20;
const WORSE_BY: Ns = Ns(25_000);

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RankClock {
    /// The lowest rank whose clock it is compared with; `None` if it is not aligned with any.
    pub component: Option<usize>,
    /// How far it is ahead of that one's, in the middle of its trace.
    pub offset: Ns,
    /// How much faster it is, in ns per ns; 0 unless that is clear.
    pub slope: f64,
    /// Where the slope is 0 on the rank's clock.
    middle: Ns,
    /// How far the offset may be wrong, by how much the ends disagree on the way from the lowest rank.
    pub uncertainty: Ns,
    /// How far the offset could be lower and higher, by what is possible at all.
    pub possible: (Option<Ns>, Option<Ns>),
    /// Whether the offset changes over the trace by more than a slope explains.
    pub is_unsteady: bool,
}

/// How far the ends of one collective are apart once the clocks are aligned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Residual {
    /// How far apart the ends of a collective are after alignment: the median. `None` without clocks.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub residual_median_ns: Option<Ns>,
    /// The same for 95 of 100 ends; `None` without clocks.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub residual_p95_ns: Option<Ns>,
    /// The same for the worst; `None` without clocks.
    #[cfg_attr(test, schemars(with = "Option<u64>"))]
    pub residual_max_ns: Option<Ns>,
}

impl RankClock {
    /// The moment of one of its times on the clock of the lowest rank.
    pub fn aligned(&self, time: Ns) -> Ns {
        let drift = if self.slope == 0.0 { Ns::ZERO } else { Ns::rounded(self.slope * (time - self.middle).as_f64()) };
        time - self.offset - drift
    }
}

impl Clocks {
    /// With these offsets, to check what follows from them.
    pub fn given(offsets: &[Ns]) -> Self {
        let clock = |offset: &Ns| RankClock { component: Some(0), offset: *offset, ..RankClock::default() };
        Clocks { ranks: offsets.iter().map(clock).collect(), ..Clocks::default() }
    }

    pub fn are_comparable(&self, a: usize, b: usize) -> bool {
        let component = |rank: usize| self.ranks.get(rank).and_then(|clock| clock.component);
        component(a).is_some() && component(a) == component(b)
    }

    /// Whether all ranks of a group can be compared.
    pub fn cover(&self, group: &MatchedGroup) -> bool {
        group.members.windows(2).all(|pair| self.are_comparable(pair[0], pair[1]))
    }

    /// How far the times of two ranks may be apart without meaning anything.
    pub fn uncertainty(&self, a: usize, b: usize) -> Ns {
        let variance = |rank: usize| self.ranks.get(rank).map_or(0.0, |clock| clock.uncertainty.as_f64().powi(2));
        Ns::rounded((variance(a) + variance(b)).sqrt())
    }

    /// Compares the clocks of a job's ranks. A collective whose times are impossible is taken out of the matches, one for each group.
    /// Errors: the proof that the traces do not fit together.
    pub fn compare(ranks: &[RankRows<'_>], matches: &mut Matches, mode: ClockMode) -> Result<ComparedClocks, Unfit> {
        let mut excluded: Vec<usize> = Vec::new();
        let mut first_proof: Option<Unfit> = None;
        loop {
            let clocks = Clocks::estimate(ranks, matches, mode);
            if mode == ClockMode::None {
                return Ok(ComparedClocks::Possible(clocks));
            }
            let constraints = constraints(ranks, matches, &clocks);
            let first: Vec<usize> =
                clocks.ranks.iter().enumerate().map(|(at, clock)| clock.component.unwrap_or(at)).collect();
            let proof = match possible(ranks.len(), &constraints, &first) {
                Ok(found) => {
                    let clocks = clocks.within(&found);
                    return Ok(match clocks.stranger() {
                        Some((rank, why)) => ComparedClocks::Misfit { rank, why },
                        None => ComparedClocks::Possible(clocks),
                    });
                }
                Err(proof) => proof,
            };
            let unfit = first_proof.get_or_insert_with(|| Unfit::from_proof(ranks, matches, &proof)).clone();
            let again = proof.cycle.iter().filter(|(_, (group, _), _)| !excluded.contains(group));
            let worst = again.map(|(_, of, _)| *of).max_by_key(|of| clocks.disagreement(ranks, matches, *of));
            if let Some((group, collective)) = worst {
                excluded.push(group);
                matches.groups[group].collectives[collective].fault = Some(Fault::ImpossibleTimes);
                continue;
            }
            let Some(rank) = misfit(ranks.len(), &constraints, &proof) else { return Err(unfit) };
            let why = format!("its times are impossible beside those of other ranks: {unfit}");
            return Ok(ComparedClocks::Misfit { rank, why });
        }
    }

    /// A rank whose collectives have the order of the others', and not their times.
    fn stranger(&self) -> Option<(usize, String)> {
        if self.mode != ClockMode::Align {
            return None;
        }
        let aligned = self.ranks.iter().enumerate().filter(|(_, clock)| clock.component.is_some());
        let mut known: Vec<(Ns, usize)> = aligned.map(|(rank, clock)| (clock.uncertainty, rank)).collect();
        known.sort_unstable();
        let (worst, rank) = known.pop()?;
        // The one that the others are compared with has none.
        let others: Vec<Ns> = known.into_iter().map(|(of, _)| of).filter(|of| *of > Ns::ZERO).collect();
        let usual = *others.get(others.len() / 2)?;
        (others.len() > 1 && worst > WORSE_BY && worst.0 > WORSE * usual.0).then(|| {
            let [worst, usual] = [worst, usual].map(|of| of.as_f64() / 1000.0);
            let why = format!(
                "its times fit those of the others to {worst:.1} µs only, where theirs fit to {usual:.1} µs: it is of another run"
            );
            (rank, why)
        })
    }

    /// The offsets without any proof of what is possible.
    fn estimate(ranks: &[RankRows<'_>], matches: &Matches, mode: ClockMode) -> Self {
        let none = Clocks { mode, ranks: vec![RankClock::default(); ranks.len()], ..Clocks::default() };
        if mode == ClockMode::None {
            return none;
        }
        let bases = bases(ranks);
        let anchors = anchors(ranks, matches, &bases);
        let mut fit = Fit::new(ranks.len(), anchors, matches);
        if mode == ClockMode::Align {
            fit.solve();
            fit.refuse_what_disagrees();
            fit.connect_by_messages(ranks, matches, &bases);
        } else {
            fit.trust(&bases);
        }
        let refused = fit.refused(ranks);
        let clocks = fit.clocks(&bases);
        let residual = fit.residual();
        Clocks { ranks: clocks, anchors: fit.used() as u64, residual, refused, ..none }
    }

    /// With the offsets clipped to what is possible.
    fn within(mut self, intervals: &[(Option<Ns>, Option<Ns>)]) -> Self {
        for (clock, (least, most)) in self.ranks.iter_mut().zip(intervals) {
            clock.possible = (*least, *most);
            if self.mode == ClockMode::Trust || clock.component.is_none() {
                continue;
            }
            let correction = Ns::ZERO.max(least.unwrap_or(Ns::MIN)).min(most.unwrap_or(Ns::MAX));
            clock.offset = clock.offset - correction;
            clock.possible = (least.map(|least| least - correction), most.map(|most| most - correction));
        }
        self
    }

    /// How far apart the ends of a collective are.
    fn disagreement(&self, ranks: &[RankRows<'_>], matches: &Matches, (group, collective): (usize, usize)) -> Ns {
        let (group, collective) = (&matches.groups[group], &matches.groups[group].collectives[collective]);
        let ends = group.rows(ranks, collective).map(|(rank, row)| self.ranks[rank].aligned(row.end()));
        let (least, most) = ends.fold((Ns::MAX, Ns::MIN), |(least, most), end| (least.min(end), most.max(end)));
        most - least
    }
}

/// When the first collective of each rank started, on its own clock.
fn bases(ranks: &[RankRows<'_>]) -> Vec<Ns> {
    ranks.iter().map(|rank| rank.rows.first().map_or(Ns::ZERO, |row| row.start)).collect()
}

/// The collectives whose ends are compared: of several ranks, synchronising, alone on their group's ranks.
fn anchors(ranks: &[RankRows<'_>], matches: &Matches, bases: &[Ns]) -> Vec<Anchor> {
    let mut found = Vec::new();
    for (of, group, collective) in matches.of_several_ranks(Tie::ends_together) {
        if overlaps(ranks, group, of.1) {
            continue;
        }
        let rows = group.rows(ranks, collective);
        let transfer = rows.clone().map(|(_, row)| row.dur).min().unwrap_or_default();
        let end = |(rank, row): (usize, &Row)| (rank, (row.end() - bases[rank]).as_f64());
        found.push(Anchor { of, sharpness: sharpness(transfer.as_f64()), ends: rows.map(end).collect() });
    }
    found
}

/// Whether another collective of the group runs at the same time on one of its ranks.
fn overlaps(ranks: &[RankRows<'_>], group: &MatchedGroup, at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &group.collectives[before]);
    let beside = || before.into_iter().chain(group.collectives.get(at + 1));
    (0..group.members.len()).any(|member| {
        let Some((_, own)) = group.row(ranks, &group.collectives[at], member) else { return false };
        let mut others = beside().filter_map(|other| group.row(ranks, other, member));
        others.any(|(_, other)| other.start < own.end() && own.start < other.end())
    })
}

/// What the clocks must allow, whether they are aligned or not.
fn constraints(ranks: &[RankRows<'_>], matches: &Matches, clocks: &Clocks) -> Vec<Constraint> {
    let bases = bases(ranks);
    let member = |(rank, row): (usize, &Row)| {
        let (clock, base) = (&clocks.ranks[rank], clocks.ranks[rank].component.unwrap_or(rank));
        // Small numbers: sums of some times of day do not fit.
        let since = |time: Ns| (clock.aligned(time) - bases[base]).0;
        // A clock whose slope is unknown may be this much ahead or back at that time.
        let is_fitted = clocks.mode == ClockMode::Align && clock.component.is_some();
        let drift = if is_fitted { 0 } else { (FASTEST / 2.0 * (row.end() - bases[rank]).as_f64()) as i64 };
        // What never ended has no end to speak of.
        let end = if row.dur > Ns::ZERO { since(row.end()) + drift } else { i64::MAX / 8 };
        (rank, since(row.start) - drift, end)
    };
    let all = matches.of_several_ranks(Tie::synchronises);
    all.map(|(of, group, collective)| Constraint { of, members: group.rows(ranks, collective).map(member).collect() })
        .collect()
}

/// The rank without which all is possible, if there is just one such rank, or one that contradicts more of the others.
fn misfit(ranks: usize, constraints: &[Constraint], proof: &Impossible) -> Option<usize> {
    let without = |left_out: &dyn Fn(usize) -> bool| -> bool {
        let rest: Vec<Constraint> = constraints
            .iter()
            .map(|constraint| Constraint {
                members: constraint.members.iter().copied().filter(|(rank, ..)| !left_out(*rank)).collect(),
                ..*constraint
            })
            .collect();
        possible(ranks, &rest, &(0..ranks).collect::<Vec<_>>()).is_ok()
    };
    let mut candidates: Vec<usize> = proof.cycle.iter().map(|(rank, ..)| *rank).collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|candidate| without(&|rank| rank == *candidate));
    let others: Vec<usize> = (0..ranks).collect();
    let contradicted = |candidate: usize| {
        let pair = |other: &&usize| **other != candidate && !without(&|rank| rank != candidate && rank != **other);
        others.iter().filter(pair).take(3).count()
    };
    let mut counted: Vec<(usize, usize)> = candidates.into_iter().map(|rank| (contradicted(rank), rank)).collect();
    counted.sort_unstable();
    match counted[..] {
        [] => None,
        [(_, only)] => Some(only),
        [.., (second, _), (first, rank)] => (first > second).then_some(rank),
    }
}

/// Why traces do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

impl Unfit {
    fn from_proof(ranks: &[RankRows<'_>], matches: &Matches, proof: &Impossible) -> Self {
        let name = |(group, collective): (usize, usize)| {
            let group = &matches.groups[group];
            let first = group.rows(ranks, &group.collectives[collective]).next();
            let what = first.map_or("", |(rank, row)| ranks[rank].collective(row));
            format!("{what} {} of {}", collective + 1, group.collectives.len())
        };
        let step = |(before, of, after): &(usize, (usize, usize), usize)| {
            format!(
                "rank {} ended its {} before rank {} started it",
                ranks[*before].rank,
                name(*of),
                ranks[*after].rank
            )
        };
        let steps: Vec<String> = proof.cycle.iter().map(step).collect();
        let by = proof.by as f64 / 1e6;
        Unfit(format!("whatever the clocks are, {}: off by {by:.3} ms", steps.join(", or ")))
    }
}
