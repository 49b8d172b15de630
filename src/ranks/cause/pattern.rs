//! Classifies how the launches of a rank are late, by how the times between them differ from those of other ranks.

use std::collections::BTreeMap;

use super::compare::{ClassKey, Compared};
use super::{MOST, OUT_OF_PROPORTION, Pattern, WORTH};
use crate::statistics::{Deviation, median};
use crate::time::Ns;

/// How many standard deviations above one half the share of longer segments must be.
const SIGNIFICANT: f64 = 3.0;

/// The least noise of one difference, in ns: no two CPUs take the same time to within a few µs.
const LEAST_NOISE: f64 = 3_000.0;

/// A sum beyond this many standard deviations is not chance.
const BEYOND_CHANCE: f64 = 5.0;

/// A shorter lag may be chance: a rank that has lost time stays late for a while.
const LONG_LAG: f64 = 50_000.0;

/// In which way segments are longer than those of other ranks, and at which place.
pub(super) fn pattern(compared: &[Compared], excess: &[Ns], lagging: &Lagging) -> (Pattern, Option<ClassKey>) {
    let positive: Ns = excess.iter().filter(|excess| **excess > Ns::ZERO).copied().sum();
    let (total, largest) = (excess.iter().copied().sum(), excess.iter().copied().max().unwrap_or_default());
    let noise = Noise::measure(excess);
    let top = TopPlace::find(compared, positive);
    let place = |of: fn(&TopPlace) -> bool| top.as_ref().filter(|top| of(top)).map(|top| top.class);
    let (special, certain) = (place(TopPlace::is_special), place(TopPlace::is_certain));
    // Of two similar ones, the larger has just over half.
    let is_most = largest.as_f64() > MOST * positive.as_f64();
    let is_alone = excess.iter().filter(|excess| excess.as_f64() > MOST * largest.as_f64()).count() == 1;
    if noise.is_beyond(largest, 1) && is_most && is_alone && compared.len() > 2 {
        (Pattern::OneEvent, None)
    } else if special.is_some() {
        (Pattern::SamePlace, special)
    } else if *lagging == Lagging::Steady {
        (Pattern::ConstantLag, None)
    } else if are_longer(excess) && noise.is_so_far_beyond(total, excess.len(), SIGNIFICANT) {
        (Pattern::SlowerEverywhere, None)
    } else if certain.is_some() {
        (Pattern::SamePlace, certain)
    } else if *lagging == Lagging::Earlier {
        (Pattern::EarlierLag, None)
    } else {
        (Pattern::Unsteady, None)
    }
}

/// From this number on, segments that are all clearly longer count.
const FEW: usize = 3;

/// A segment is clearly longer than those of other ranks if it exceeds them by this.
const CLEARLY: Ns = Ns(10_000);

/// Whether more differences are positive than by chance: nearly all of many, or all of a few by a clear margin.
fn are_longer(excess: &[Ns]) -> bool {
    if excess.len() >= FEW && excess.iter().all(|excess| *excess > CLEARLY) {
        return true;
    }
    let longer = excess.iter().filter(|excess| **excess > Ns::ZERO).count() as f64;
    let all = excess.len().max(1) as f64;
    (longer / all - 0.5) * 2.0 * all.sqrt() >= SIGNIFICANT
}

/// The place with the largest share of the excess.
struct TopPlace {
    class: ClassKey,
    /// Its shares of the excess and of the time.
    share: f64,
    of_time: f64,
    excess: Vec<Ns>,
    noise: Noise,
}

impl TopPlace {
    fn find(compared: &[Compared], positive: Ns) -> Option<Self> {
        let mut by: BTreeMap<ClassKey, (Ns, Ns, Vec<Ns>)> = BTreeMap::new();
        for segment in compared {
            let (longer, time, excess) = by.entry(segment.class).or_default();
            *longer += segment.excess().max(Ns::ZERO);
            *time += segment.others;
            excess.push(segment.excess());
        }
        let all: Ns = by.values().map(|(_, time, _)| *time).sum();
        let most = by.into_iter().max_by_key(|(class, (longer, ..))| (*longer, std::cmp::Reverse(*class)));
        let (class, (longer, time, excess)) = most?;
        let others = compared.iter().filter(|segment| segment.class != class).map(Compared::excess).collect::<Vec<_>>();
        let noise = Noise::measure(if others.len() < excess.len() { &excess } else { &others });
        let (share, of_time) = (longer.share_of(positive)?, time.share_of(all).unwrap_or(0.0));
        Some(TopPlace { class, share, of_time, excess, noise })
    }

    fn is_beyond_chance(&self) -> bool {
        self.share > MOST && self.noise.is_beyond(self.excess.iter().copied().sum(), self.excess.len())
    }

    /// Whether its share of the excess clearly exceeds its share of the time.
    fn is_special(&self) -> bool {
        self.is_beyond_chance() && self.share > OUT_OF_PROPORTION * self.of_time
    }

    /// Whether nearly all of its segments are longer.
    fn is_certain(&self) -> bool {
        self.is_beyond_chance() && are_longer(&self.excess)
    }
}

/// How much the segments of a rank differ from those of other ranks by chance.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// The standard deviation of one difference, estimated from the median deviation, which the excess of a few segments does not change.
    deviation: f64,
}

impl Noise {
    fn measure(excess: &[Ns]) -> Self {
        let measured = Deviation::measure(excess.iter().map(|excess| excess.as_f64()));
        Noise { deviation: measured.standard().max(LEAST_NOISE) }
    }

    /// Whether a sum of this many differences exceeds chance, and is large enough to be named.
    fn is_beyond(self, sum: Ns, count: usize) -> bool {
        self.is_so_far_beyond(sum, count, BEYOND_CHANCE)
    }

    fn is_so_far_beyond(self, sum: Ns, count: usize, deviations: f64) -> bool {
        sum > WORTH && sum.as_f64() > deviations * self.deviation * (count as f64).sqrt()
    }
}

/// By how much launches come after those of other ranks, from one collective to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lagging {
    /// By about the same time throughout, and no segment explains it.
    Steady,
    /// Most at the first collective, and less from then on.
    Earlier,
    /// Neither.
    Otherwise,
}

impl Lagging {
    pub(super) fn classify(lags: &[f64], usual: Option<Ns>, largest_excess: Ns, total_excess: Ns) -> Self {
        let Some(lag) = usual.map(Ns::as_f64) else { return Lagging::Otherwise };
        let away = median(lags.iter().map(|of| (of - lag).abs()));
        let most = lags.iter().copied().fold(0.0, f64::max);
        let is_small = |excess: Ns, beside: f64| excess.as_f64() < MOST * beside;
        if lag > LONG_LAG && away < 0.25 * lag && is_small(largest_excess, lag) && is_small(total_excess, lag) {
            Lagging::Steady
        } else if most > LONG_LAG && lags[0] > MOST * most && is_small(total_excess, most) {
            Lagging::Earlier
        } else {
            Lagging::Otherwise
        }
    }
}
