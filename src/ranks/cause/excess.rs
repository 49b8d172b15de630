//! Which functions and kernels take longer on a rank than on other ranks.

use std::collections::{BTreeMap, BTreeSet};

use super::compare::{ClassKey, Compared};
use super::{Causes, Excess, ExcessPart, LateAt, MOST, OUT_OF_PROPORTION, WORTH};
use crate::names::calls::waits_for_gpu;
use crate::ranks::reduction::{Class, Outlier, RankReduction};
use crate::statistics::median;
use crate::time::Ns;

/// A function or kernel with this share of the excess is named whatever its share of the time.
const NEARLY_ALL: f64 = 0.9;

/// How many functions or kernels are named.
const NAMED: usize = 3;

impl<'a> Causes<'a> {
    /// What takes longer on a rank than on the median of the other ranks with the same classes.
    pub(super) fn excess(
        &self,
        rank: usize,
        classes: impl Fn(&'a RankReduction) -> &'a Vec<Class>,
        is_asked: impl Fn(ClassKey) -> bool,
    ) -> Excess {
        let of_rank = |rank: usize| {
            let classes = classes(&self.job.reductions[rank]).iter();
            classes.map(|class| (self.class_key(rank, class), class)).collect::<BTreeMap<ClassKey, &Class>>()
        };
        let own = of_rank(rank);
        let others: Vec<(usize, BTreeMap<ClassKey, &Class>)> =
            self.neighbours(rank).into_iter().map(|other| (other, of_rank(other))).collect();
        let (mut total, mut of_others) = (0.0, 0.0);
        let mut parts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (key, class) in own.into_iter().filter(|(key, _)| is_asked(*key) && key.0.is_some()) {
            let theirs: Vec<(usize, &Class)> =
                others.iter().filter_map(|(other, classes)| Some((*other, *classes.get(&key)?))).collect();
            if theirs.is_empty() {
                continue;
            }
            let count = f64::from(class.count);
            let median_mean = |of: &dyn Fn(usize, &Class) -> Ns| {
                median(theirs.iter().map(|(other, class)| of(*other, class).as_f64() / f64::from(class.count.max(1))))
            };
            let expected = median_mean(&|_, class| class.total) * count;
            total += class.total.as_f64() - expected;
            of_others += expected;
            let names = class.parts.iter().map(|(text, time)| (self.job.reductions[rank].text(*text), *time));
            for (name, time) in names.filter(|(name, _)| !waits_for_gpu(name)) {
                let expected = count * median_mean(&|other, class| self.time_of(other, &class.parts, name));
                let (excess, of_time) = parts.entry(name).or_default();
                *excess += time.as_f64() - expected;
                *of_time += expected;
            }
        }
        named(total, of_others, parts)
    }

    fn time_of(&self, rank: usize, parts: &[(u32, Ns)], name: &str) -> Ns {
        parts.iter().find(|(text, _)| self.job.reductions[rank].text(*text) == name).map_or(Ns::ZERO, |(_, time)| *time)
    }

    /// The other ranks of its groups.
    fn neighbours(&self, rank: usize) -> Vec<usize> {
        let of_groups = self.matches.groups.iter().filter(|group| group.members.contains(&rank));
        let all: BTreeSet<usize> = of_groups.flat_map(|group| group.members.iter().copied()).collect();
        all.into_iter().filter(|other| *other != rank).collect()
    }

    /// The excess of a single segment of the rank over the median of the other ranks' means.
    pub(super) fn excess_of_one(&self, rank: usize, segment: u32, compared: &Compared) -> Excess {
        let part = &self.job.reductions[rank];
        let Some(outlier) = part.cpu_outliers.iter().find(|outlier| outlier.at == segment) else {
            // The segment is not an outlier of its class, for example because it is the only one.
            let is_only = part.cpu[part.segments[segment as usize].class as usize].count == 1;
            return self.excess(rank, |part| &part.cpu, |key| key == compared.class && is_only);
        };
        let outlier = Some(outlier);
        let total = (compared.own - compared.others).as_f64();
        self.excess_of(rank, outlier, total, compared.others.as_f64(), compared.class, |part| &part.cpu)
    }

    fn excess_of(
        &self,
        rank: usize,
        outlier: Option<&Outlier>,
        total: f64,
        of_others: f64,
        key: ClassKey,
        classes: impl Fn(&'a RankReduction) -> &'a Vec<Class>,
    ) -> Excess {
        let parts = outlier.map_or(&[][..], |outlier| &outlier.parts);
        let neighbours = self.neighbours(rank);
        let class_of = |other: usize| {
            classes(&self.job.reductions[other]).iter().find(|class| self.class_key(other, class) == key)
        };
        let mut found: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (text, time) in parts {
            let name = self.job.reductions[rank].text(*text);
            let means = neighbours.iter().filter_map(|other| {
                let class = class_of(*other)?;
                Some(self.time_of(*other, &class.parts, name).as_f64() / f64::from(class.count.max(1)))
            });
            let expected = median(means);
            found.insert(name, (time.as_f64() - expected, expected));
        }
        named(total, of_others, found)
    }

    /// Which kernels took longer before the collectives that the rank's GPU reached late.
    pub(super) fn gpu(&self, rank: usize, late: &[LateAt]) -> Excess {
        let part = &self.job.reductions[rank];
        let is_late = |key: ClassKey| {
            late.iter().any(|at| {
                let class = part.rows[at.row as usize].gpu_class;
                class.is_some_and(|class| self.class_key(rank, &part.gpu[class as usize]) == key)
            })
        };
        let everywhere = self.excess(rank, |part| &part.gpu, is_late);
        if !everywhere.parts.is_empty() || late.len() > 3 {
            return everywhere;
        }
        // If there are only a few, look at what ran before the worst one.
        let Some(worst) = late.iter().max_by_key(|at| at.added) else { return everywhere };
        let Some(outlier) = part.gpu_outliers.iter().find(|outlier| outlier.at == worst.row) else { return everywhere };
        let Some(class) = part.rows[worst.row as usize].gpu_class else { return everywhere };
        let key = self.class_key(rank, &part.gpu[class as usize]);
        self.excess_of(rank, Some(outlier), worst.added.as_f64(), 0.0, key, |part| &part.gpu)
    }
}

/// The parts with most of an excess, if their share of it exceeds their share of the time. `parts` are excess and expected time by name.
fn named(total: f64, of_others: f64, parts: BTreeMap<&str, (f64, f64)>) -> Excess {
    let mut sorted: Vec<(&str, (f64, f64))> = parts.into_iter().filter(|(_, (excess, _))| *excess > 0.0).collect();
    sorted.sort_by(|a, b| b.1.0.total_cmp(&a.1.0).then_with(|| a.0.cmp(b.0)));
    sorted.truncate(NAMED);
    let is_named = |(_, (excess, expected)): &(&str, (f64, f64))| {
        let share = excess / total.max(1.0);
        let of_time = if of_others > 0.0 { expected / of_others } else { 0.0 };
        (share > 0.1 && share > OUT_OF_PROPORTION * of_time) || share > NEARLY_ALL
    };
    sorted.retain(is_named);
    let sum: f64 = sorted.iter().map(|(_, (excess, _))| excess).sum();
    if total < WORTH.as_f64() || sum < MOST * total {
        sorted.clear();
    }
    let part =
        |(name, (excess, _)): (&str, (f64, f64))| ExcessPart { name: name.to_owned(), excess: Ns::rounded(excess) };
    Excess { total: Ns::rounded(total), parts: sorted.into_iter().map(part).collect() }
}
