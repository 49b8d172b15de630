//! What makes a job longer than its ranks' peers would, by reruns: which ranks, which part of their work, which functions or kernels.

use serde::Serialize;

use super::culprits::Culprits;
use super::late::Control;
pub(crate) use super::late_work::BEYOND_ERROR;
use super::late_work::LateSearch;
pub use super::late_work::{Extent, LateWork};
pub use super::peers::Part;
use super::question::Question;
use super::transplant::{self, RerunError};

/// Profilers that begin within a millisecond of each other began together.
const RECORDED_LATER: i64 = 1_000_000;

/// A smaller share of the job is none as it is printed.
pub(crate) const SEEN: f64 = 0.0005;

/// With a larger error reruns say nothing: on real jobs it is below 0.01, without some of the collectives, or with a trace that is cut off, 0.1 and more.
const USELESS: f64 = 0.1;

/// How many runs are asked of every job.
const ASKED: usize = 4;

/// A smaller share of the job is no reason for how long it takes.
const WORTH: f64 = 0.01;

/// If nobody is found, so many ranks are asked about one by one, as `what-if` does.
const ASKED_RANKS: usize = 20;

/// What a kernel has of what is saved, if it has most.
const MOST: f64 = 0.5;

/// What reruns of a job say. Times are in ns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reruns {
    /// From the first start to the last end.
    pub length_ns: i64,
    /// How many steps that are.
    pub steps: u32,
    /// How many steps are not judged because some rank does not have them.
    pub left_out_steps: u32,
    /// The error of reruns; `None` if no two ranks are alike, so that it cannot be measured.
    pub error: Option<RerunError>,
    /// How much earlier the job ends if all ranks do as their peers.
    pub all_like_peers_saves_ns: i64,
    /// The same of a job in which work is distributed over like ranks at random: the mean of several.
    pub chance_saves_ns: i64,
    /// How much the length of such jobs varies: a standard deviation.
    pub unsteady_ns: i64,
    /// How much earlier the job ends if all threads take half as long for what they do.
    pub cpus_twice_as_fast_saves_ns: i64,
    /// The same of all kernels, copies and fills.
    pub gpus_twice_as_fast_saves_ns: i64,
    /// The same of both.
    pub both_twice_as_fast_saves_ns: i64,
    /// What would save most, first.
    pub findings: Vec<LateWork>,
    /// Ranks that take longer than their peers by less than this would not be found; 0 if no two ranks are alike.
    #[cfg_attr(test, schemars(range(min = 0)))]
    pub hidden_ns: i64,
    /// The ranks whose profilers began to record later than the first one by more than the error of reruns, each with how much later, in ns. What is before the
    /// last one has begun is not judged.
    #[cfg_attr(test, schemars(with = "Vec<(u32, u64)>"))]
    pub recorded_later_ns: Vec<(u32, i64)>,
    /// The ranks of which nothing shows why they are late: no other rank does the same, or what their threads did was not recorded.
    pub unjudged: Vec<u32>,
    /// What else is asked of every job if nobody is found.
    #[serde(skip)]
    pub nobody: Nobody,
}

/// What a job saves by other questions than which ranks are late, in ns. What may be hidden is no less.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Nobody {
    /// If all begin together.
    pub together_saves_ns: i64,
    /// The rank that saves most by itself if it does as its peers.
    pub rank: Option<(u32, i64)>,
    /// If another rank takes longest in each step: in which kernel, where one has most of that.
    pub in_turn: Option<Option<String>>,
}

impl Reruns {
    /// Whether they are so wrong that nothing follows from them.
    pub fn are_useless(&self) -> bool {
        self.error.is_some_and(|error| error.worst() > USELESS)
    }
}

/// Asks what makes a job longer than its ranks' peers would. `numbers` are the ranks' numbers.
pub(crate) fn find(question: &Question<'_>, numbers: &[u32]) -> Reruns {
    let mut reruns = question.reruns();
    for ranks in reruns.findings.iter_mut().flat_map(|of| [&mut of.ranks, &mut of.peers, &mut of.as_slow]) {
        ranks.iter_mut().for_each(|rank| *rank = numbers[*rank as usize]);
        ranks.sort_unstable();
    }
    for of in &mut reruns.findings {
        of.after.iter_mut().for_each(|rank| *rank = numbers[*rank as usize]);
        of.each.iter_mut().for_each(|(rank, _)| *rank = numbers[*rank as usize]);
    }
    reruns.nobody.rank.iter_mut().for_each(|(rank, _)| *rank = numbers[*rank as usize]);
    let begun: Option<Vec<i64>> = question.job.profiled_from.iter().copied().collect();
    let first = begun.iter().flatten().min().copied().unwrap_or_default();
    let error = reruns.error.map_or(0.0, |error| error.of_saving(reruns.steps) * reruns.length_ns as f64) as i64;
    let later = begun.iter().flatten().zip(numbers).map(|(begun, rank)| (*rank, begun - first));
    reruns.recorded_later_ns = later.filter(|(_, later)| *later > error.max(RECORDED_LATER)).collect();
    let ranks = numbers.iter().zip(question.ranks).enumerate();
    let unjudged = ranks.filter(|(at, (_, graph))| question.peers.alike(*at) == 1 || !graph.has_threads());
    reruns.unjudged = unjudged.map(|(_, (rank, _))| *rank).collect();
    reruns
}

impl Question<'_> {
    fn reruns(&self) -> Reruns {
        let (job, peers) = (self.job, self.peers);
        let all: Vec<usize> = peers.with_peers();
        let half = |parts: &[Part]| {
            let mut times = job.times.clone();
            parts.iter().for_each(|part| self.scale(&mut times, *part, |_| 0.5));
            times
        };
        let all_at_once = |at: usize| match at {
            0 => self.all_like_peers(job.times.clone(), &all),
            1 => half(&[Part::Cpu]),
            2 => half(&[Part::Gpu]),
            _ => half(&[Part::Cpu, Part::Gpu]),
        };
        let (error, (saved, control)) = self.both(
            || transplant::measure(self),
            || {
                let jobs = if all.is_empty() { Vec::new() } else { Control::shuffled(self, &job.times, 0) };
                let run = |at: usize| match at.checked_sub(ASKED) {
                    Some(job) => jobs[job].times(),
                    None => all_at_once(at),
                };
                let mut ends = self.ends(ASKED + jobs.len(), run);
                let of_jobs = ends.split_off(ASKED);
                (
                    ends.into_iter().map(|end| self.end - end).collect::<Vec<_>>(),
                    (!jobs.is_empty()).then(|| Control::of(jobs, of_jobs)),
                )
            },
        );
        let mut reruns = Reruns {
            length_ns: self.length(),
            steps: self.steps,
            left_out_steps: self.ranks.iter().map(|graph| graph.left_out_steps).max().unwrap_or_default(),
            error,
            all_like_peers_saves_ns: saved[0],
            cpus_twice_as_fast_saves_ns: saved[1],
            gpus_twice_as_fast_saves_ns: saved[2],
            both_twice_as_fast_saves_ns: saved[3],
            ..Reruns::default()
        };
        let (Some(error), Some(control)) = (reruns.error, control) else { return reruns };
        // If all do as their peers, what was distributed no longer matters: that job is the same each time.
        let like_peers = self.end_of(self.all_like_peers(control.first(), &all));
        (reruns.chance_saves_ns, reruns.unsteady_ns) = (control.mean_end() - like_peers, control.unsteady as i64);
        let of_graph = (reruns.length_ns as f64 * error.of_saving(reruns.steps)) as i64;
        let parts = [(Part::Cpu, reruns.cpus_twice_as_fast_saves_ns), (Part::Gpu, reruns.gpus_twice_as_fast_saves_ns)];
        let late = |(part, half): (Part, i64)| LateSearch { question: self, part, half, of_graph }.find(&control);
        let late = self.both(|| late(parts[0]), || late(parts[1]));
        for (found, hidden) in [late.0, late.1] {
            reruns.findings.extend(found);
            reruns.hidden_ns = reruns.hidden_ns.max(hidden);
        }
        // What is printed as 0.0 % of the job is nothing to look at, and what is not beyond its error may be none; then as much may be hidden.
        let least = SEEN * reruns.length_ns as f64;
        reruns.findings.retain(|of| {
            let is_sure = of.saves_ns > BEYOND_ERROR * of.error_ns;
            reruns.hidden_ns = if is_sure { reruns.hidden_ns } else { reruns.hidden_ns.max(of.saves_ns) };
            is_sure && of.saves_ns as f64 >= least
        });
        // What saves as much only without what was found before comes after that.
        let mut rank: Vec<(i64, LateWork)> = Vec::new();
        for of in std::mem::take(&mut reruns.findings) {
            let before = rank.iter().filter(|(_, known)| known.part == of.part && !of.after.is_empty());
            let most = before.map(|(saves, _)| *saves).min().unwrap_or(i64::MAX);
            rank.push((of.saves_ns.min(most), of));
        }
        rank.sort_by_key(|(saves, _)| std::cmp::Reverse(*saves));
        reruns.findings = rank.into_iter().map(|(_, of)| of).collect();
        if reruns.findings.iter().all(|of| (of.named_saving() as f64) < WORTH * reruns.length_ns as f64) {
            reruns.nobody = self.nobody(&all);
        }
        reruns
    }

    /// What is asked if nobody is found.
    fn nobody(&self, all: &[usize]) -> Nobody {
        let asked: Vec<usize> = all.iter().copied().take(ASKED_RANKS).collect();
        let mut saved = self.saved(asked.len() + 1, |at| match asked.get(at) {
            Some(rank) => self.all_like_peers(self.job.times.clone(), &[*rank]),
            None => {
                let mut times = self.job.times.clone();
                self.recorded_together(&mut times);
                times
            }
        });
        let together_saves_ns = saved.pop().unwrap_or_default();
        let ranks = asked.into_iter().map(|rank| rank as u32).zip(saved);
        let rank = ranks.max_by_key(|(rank, saves)| (*saves, std::cmp::Reverse(*rank)));
        let of_parts = self.saved(2, |at| self.like_peers(self.job.times.clone(), all, [Part::Cpu, Part::Gpu][at]));
        let part = if of_parts[0] > of_parts[1] { Part::Cpu } else { Part::Gpu };
        let in_turn = self.is_another_each_time(part).then(|| {
            let base = &self.job.times;
            let cured = self.like_peers(base.clone(), all, part);
            let most = Culprits::new(self, (all, part), [base, &cured], None).find(self.end).into_iter().next();
            let saves = of_parts[usize::from(part == Part::Gpu)];
            most.filter(|of| of.saves_ns as f64 >= MOST * saves as f64).map(|of| of.name)
        });
        Nobody { together_saves_ns, rank, in_turn }
    }
}
