//! Which ranks are late, or faster than the others: by what a job saves without that, against the same job with its work shuffled.
//!
//! A set of ranks is cured if it does its work as the median of the ranks outside of it does. Curing any set saves something, since it also takes away chance. So the
//! best set of each size is compared with the best of that size in jobs whose work is permuted over the ranks, place by place.

use std::collections::BTreeMap;

use super::job::{KeptTimes, Times};
use super::peers::Part;
use super::question::{Question, as_many, each};
use super::sets::{Gap, Layout, Sets, Span, far, farthest};
use crate::operations::random::Random;
use crate::statistics::std_dev;

/// A set is found if it saves so many standard deviations more than in shuffled jobs; this many if it is most ranks, which are compared with few. With these, and what
/// follows for few places, somebody is named in 6 of 640 small simulated jobs in which nobody is late, and in 15 with 3.5 and 4. With 4.5 and 5, 2 of 16 causes in
/// real traces are not found that are with these.
const BEYOND: f64 = 4.25;
const BEYOND_OF_FEW: f64 = 5.0;

/// A smaller share of the job is nothing to name anybody for.
pub(crate) const LEAST_SHARE: f64 = 0.003;

/// Of the sizes that are found the smallest with this share of the most that any saves.
const NEARLY_ALL: f64 = 0.8;

/// That most ranks are slower than a few is said beside a late set only if it is so much more.
const MORE: f64 = 1.5;

/// It happened once, or a few times, if no more pieces of work than this have it, each with a good share of the largest, or all that have it are at one place of some
/// steps. What that saves is at least this share of the job. What is at the same place of most steps is no accident.
const PIECES: usize = 3;
const LEAST_ONCE: f64 = 0.005;

/// What takes longer at a few places saves so many times as much as the same in shuffled jobs, on top of that.
const FAR_BEYOND: i64 = 2;

/// And each piece so many times as much as the farthest from its peers in these, or all pieces that are at one place of the steps so many times as much as the farthest
/// such sum; of most ranks, which are compared with few, this many times as much as that. Of 167 such pieces and sums in 640 simulated jobs in which nobody is late 9 are
/// that far; of 144 in jobs with a late rank and without, 117, and 107 more than 10 times as far.
const PIECE_BEYOND: f64 = 4.0;
const STEPS_BEYOND: f64 = 3.0;
const FEW_BEYOND: f64 = 2.0;

/// So many sets that take far longer somewhere are asked about; of a large job one.
const FAR: usize = 3;

/// So many jobs are shuffled; fewer if they are large.
const JOBS: usize = 24;
const LEAST_JOBS: usize = 4;

/// So many nodes are rerun, in all sets and in all shuffled jobs: about half a second of one processor.
const BUDGET: usize = 24_000_000;

/// At least, and at most, so many sets of each size; and of many ranks so many sizes. With fewer sets than `MANY` only sizes are shuffled that may be named.
const SETS: usize = 2;
const MOST_SETS: usize = 64;
const MANY: usize = 8;
const SIZES: usize = 6;

/// Of a job with more nodes only sets are rerun that would be named by the model, one of each size.
pub(super) const LARGE_JOB: usize = 200_000;

/// Jobs whose work is shuffled.
pub(super) struct Control {
    jobs: Vec<KeptTimes>,
    ends: Vec<i64>,
    /// How much their lengths vary: a standard deviation in ns.
    pub(super) unsteady: f64,
}

/// How a set of ranks stands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes longer than the others.
    Late,
    /// The others are faster than it.
    Slower,
    /// It took longer once, or a few times.
    Once,
}

/// A set that stands out. Times are in ns.
#[derive(Debug, Clone)]
pub(super) struct Standout {
    pub(super) standing: Standing,
    pub(super) set: Vec<usize>,
    /// How much earlier the job ends without that.
    pub(super) saves: i64,
    /// What would be saved in a shuffled job.
    pub(super) by_chance: i64,
    /// How much that varies: a standard deviation; 0 where it does not count.
    pub(super) varies: i64,
    /// The places where it happens, if these are few.
    pub(super) places: Vec<usize>,
}

/// What the best set of a size saves.
#[derive(Default)]
struct Best {
    size: usize,
    saves: i64,
    set: Vec<usize>,
    /// In shuffled jobs: the mean, not below 0, and how much more is needed.
    by_chance: i64,
    threshold: i64,
}

impl Best {
    fn beyond(&self) -> i64 {
        self.saves - self.by_chance
    }
}

impl Control {
    pub(super) fn new(question: &Question<'_>, base: &Times, seed: usize) -> Self {
        let jobs = Control::shuffled(question, base, seed);
        let ends = question.ends(jobs.len(), |at| jobs[at].times());
        Control::of(jobs, ends)
    }

    pub(super) fn shuffled(question: &Question<'_>, base: &Times, seed: usize) -> Vec<KeptTimes> {
        each(as_many(question.job, JOBS, LEAST_JOBS), |at| {
            let mut random = seeded(seed + at);
            KeptTimes::of(question.peers.shuffled(question.job, base, &mut |below| random.below(below)))
        })
    }

    pub(super) fn of(jobs: Vec<KeptTimes>, ends: Vec<i64>) -> Self {
        let unsteady = std_dev(ends.iter().map(|end| *end as f64).collect::<Vec<f64>>().iter().copied());
        Control { jobs, ends, unsteady }
    }

    /// Forgets the jobs, of which only how much they vary is asked from now on.
    pub(super) fn forget_jobs(&mut self) {
        self.jobs = Vec::new();
    }

    /// When the shuffled jobs end: the mean.
    pub(super) fn mean_end(&self) -> i64 {
        mean(self.ends.iter().map(|end| *end as f64)) as i64
    }

    pub(super) fn first(&self) -> Times {
        self.jobs[0].times()
    }
}

/// What is saved without what a set takes longer at a few places, the set, and the places.
type Few = (i64, Vec<usize>, Vec<usize>);

pub(super) struct Search<'a, 'q> {
    pub(super) question: &'a Question<'q>,
    pub(super) part: Part,
    /// The ranks that may stand out.
    pub(super) ranks: Vec<usize>,
    /// The job, when it ends, and its shuffled ones.
    pub(super) base: &'a Times,
    pub(super) end: i64,
    pub(super) control: &'a Control,
    /// What is saved if the part takes half as long, and the error of reruns, in ns.
    pub(super) half: i64,
    pub(super) of_graph: i64,
}

impl Search<'_, '_> {
    /// What stands out, and what is saved at most by anything that is hidden.
    pub(super) fn find(&self) -> (Vec<Standout>, i64) {
        let count = self.ranks.len();
        if count < 2 {
            return (Vec::new(), 0);
        }
        let least = LEAST_SHARE * self.question.length() as f64;
        // What all of the part takes is the most that any of it can save.
        let all = || self.end - self.question.end_of(self.question.without_work(self.base, self.part));
        if (self.half as f64) < least && (all() as f64) < least {
            return (Vec::new(), least as i64);
        }
        let layout = Layout::new(self.question, self.part, &self.ranks);
        let runs = self.question.job.nodes.len() * (1 + self.control.jobs.len()) * (count - 1).min(SIZES + 2);
        let most = (BUDGET / runs.max(1)).clamp(SETS, MOST_SETS);
        let (is_small, is_large) = (most >= MANY, self.question.job.nodes.len() > LARGE_JOB);
        let most = if is_large { 1 } else { most };
        let find_at_few = || [Span::Steps, Span::Piece].into_iter().find_map(|span| self.at_few_places(&layout, span));
        // Its own shuffled jobs are the most of the cost of a large job, where what stands out at all is asked first.
        let at_few = if is_large { None } else { find_at_few() };
        if let Some((of, true)) = at_few {
            return (vec![of], 0);
        }
        let sets = layout.best(self.question, self.base, most);
        let asked = self.sizes(&sets, is_large);
        let mut best: Vec<Best> = self.saved(&[(self.end, sets)], &|_| self.base.clone(), &asked).swap_remove(0);
        let is_possible = |of: &Best| of.saves > self.of_graph && of.saves as f64 >= least;
        // Where nothing is possible, what may be hidden shows in the size that saves most.
        let chosen: Vec<usize> = match best.iter().any(is_possible) {
            _ if is_small => asked,
            true => best.iter().filter(|of| is_possible(of)).map(|of| of.size).collect(),
            false => best.iter().max_by_key(|of| of.saves).map(|of| of.size).into_iter().collect(),
        };
        let chosen = if is_small { chosen } else { self.contested(&best, &chosen, is_large) };
        self.compare(&layout, &mut best, &chosen, most);
        best.retain(|of| chosen.contains(&of.size));
        let hidden = best.iter().map(|of| of.by_chance + of.threshold).max().unwrap_or_default();
        let found: Vec<&Best> =
            best.iter().filter(|of| of.beyond() > of.threshold && of.saves as f64 >= least).collect();
        let (few, many): (Vec<&Best>, Vec<&Best>) = found.into_iter().partition(|of| of.size * 2 <= count);
        let (late, slower) = (smallest(&few), smallest(&many));
        let slower = slower.filter(|of| late.is_none_or(|late| of.beyond() as f64 >= MORE * late.beyond() as f64));
        let standout = |(standing, of): (Standing, &Best)| Standout {
            standing,
            set: of.set.clone(),
            saves: of.saves,
            by_chance: of.by_chance,
            varies: 0,
            places: Vec::new(),
        };
        let found = late.map(|of| (Standing::Late, of)).into_iter().chain(slower.map(|of| (Standing::Slower, of)));
        let mut found: Vec<Standout> = found.map(standout).collect();
        if found.is_empty() {
            let at_few = if is_large { find_at_few() } else { at_few };
            found.extend(at_few.map(|(of, _)| of));
        } else if is_large {
            found.iter_mut().for_each(|of| self.narrow(&layout, of));
        }
        (found, hidden.max(least as i64))
    }

    /// The sizes that are asked: all, or of many ranks those by which the model gains most over the next smaller one, besides one rank and all but one. Of a large job
    /// those that would be named by the model.
    fn sizes(&self, sets: &Sets, is_large: bool) -> Vec<usize> {
        if is_large {
            let best = |size: usize| Some(Best { size, saves: sets.gain(size)?, ..Best::default() });
            let best: Vec<Best> = (1..=sets.sizes()).filter_map(best).collect();
            return self.contested(&best, &(1..=sets.sizes()).collect::<Vec<_>>(), false);
        }
        if sets.sizes() <= SIZES + 2 {
            return (1..=sets.sizes()).collect();
        }
        let gain = |size: usize| sets.gain(size).unwrap_or_default();
        let mut by_gain: Vec<usize> = (2..sets.sizes()).collect();
        by_gain.sort_by_key(|size| (std::cmp::Reverse(gain(*size) - gain(*size - 1)), *size));
        let mut sizes: Vec<usize> = by_gain.into_iter().take(SIZES).chain([1, sets.sizes()]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Of the sizes that may be found, ascending, those that would be named: the smallest with nearly all of the most, of few ranks and of many, and the ones with the most. If only
    /// the likeliest are asked, then the smallest of few ranks, and of many if it would be said beside that.
    fn contested(&self, best: &[Best], sizes: &[usize], is_likeliest: bool) -> Vec<usize> {
        let (few, many): (Vec<&Best>, Vec<&Best>) = best
            .iter()
            .filter(|of| sizes.binary_search(&of.size).is_ok())
            .partition(|of| of.size * 2 <= self.ranks.len());
        let [least, most] = [&few, &many].map(|of| smallest(of));
        let is_more = |of: &&Best| least.is_none_or(|least| of.saves as f64 >= MORE * least.saves as f64);
        let most = if is_likeliest { most.filter(is_more) } else { most };
        let mut found: Vec<usize> = least.into_iter().chain(most).map(|of| of.size).collect();
        if !is_likeliest {
            found.extend([few, many].iter().filter_map(|of| of.iter().max_by_key(|of| of.saves)).map(|of| of.size));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// What the best set of each of these sizes saves, of each of some runs. Each is with when it ends and its sets; `times` has its times.
    fn saved(&self, runs: &[(i64, Sets)], times: &(dyn Fn(usize) -> Times + Sync), sizes: &[usize]) -> Vec<Vec<Best>> {
        let mut asked: Vec<(usize, usize, Vec<usize>)> = Vec::new();
        for (run, (_, sets)) in runs.iter().enumerate() {
            asked.extend(sizes.iter().flat_map(|size| sets.of(*size).into_iter().map(move |set| (run, *size, set))));
        }
        let ends = self.question.ends(asked.len(), |at| {
            let (run, _, set) = &asked[at];
            self.question.like_peers(times(*run), set, self.part)
        });
        let mut found: Vec<Vec<Best>> = runs.iter().map(|_| Vec::new()).collect();
        for ((run, size, set), of) in asked.into_iter().zip(ends) {
            let (best, saves) = (&mut found[run], runs[run].0 - of);
            match best.last_mut() {
                Some(known) if known.size == size && known.saves >= saves => {}
                Some(known) if known.size == size => (known.saves, known.set) = (saves, set),
                _ => best.push(Best { size, saves, set, ..Best::default() }),
            }
        }
        found
    }

    /// Compares what sets of these sizes save with shuffled jobs.
    fn compare(&self, layout: &Layout, best: &mut [Best], sizes: &[usize], most: usize) {
        let Control { jobs, ends, .. } = self.control;
        let runs = each(jobs.len(), |at| (ends[at], layout.best(self.question, &jobs[at].times(), most)));
        let mut of_sizes: Vec<Vec<f64>> = vec![Vec::new(); self.ranks.len()];
        for of in self.saved(&runs, &|at| jobs[at].times(), sizes).into_iter().flatten() {
            of_sizes[of.size].push(of.saves as f64);
        }
        for of in best.iter_mut() {
            let saved = &of_sizes[of.size];
            let varies = std_dev(saved.iter().copied()).max(self.control.unsteady);
            of.by_chance = mean(saved.iter().copied()).max(0.0) as i64;
            let beyond = if of.size * 2 > self.ranks.len() { BEYOND_OF_FEW } else { BEYOND };
            of.threshold = self.of_graph + (beyond * varies) as i64;
        }
    }

    /// The set that takes far longer at a few places, and whether that is nearly all of what it takes longer. It is compared with what sets do so in shuffled jobs: without
    /// it, as these have it on another rank.
    fn at_few_places(&self, layout: &Layout, span: Span) -> Option<(Standout, bool)> {
        let question = self.question;
        let gaps = layout.gaps(question, self.base, span);
        let (saves, set, places) = self.few(layout, (self.base, self.end), (span, &gaps))?;
        let (least, pieces, beyond) = match span {
            Span::Steps => (LEAST_SHARE, 1, STEPS_BEYOND),
            Span::Piece => (LEAST_ONCE, places.len(), PIECE_BEYOND),
        };
        if saves <= self.of_graph || (saves as f64) < least * question.length() as f64 {
            return None;
        }
        let without = question.at_places(&self.without_far(&gaps), &set, &places);
        let control = Control::new(question, &without, question.job.nodes.len());
        let gaps: Vec<Vec<Gap<'_>>> =
            control.jobs.iter().map(|job| layout.gaps(question, &job.times(), span)).collect();
        let is_most = set.len() * 2 > self.ranks.len();
        let beyond = if is_most { FEW_BEYOND * beyond } else { beyond };
        if saves as f64 / pieces as f64 <= beyond * mean(gaps.iter().map(|gaps| farthest(gaps) as f64)) {
            return None;
        }
        let jobs = control.jobs.iter().zip(&control.ends).zip(&gaps);
        let by_chance = jobs.map(|((job, end), gaps)| self.few(layout, (&job.times(), *end), (span, gaps)));
        let by_chance: Vec<f64> = by_chance.map(|of| of.map_or(0.0, |(saves, ..)| saves as f64)).collect();
        let varies = std_dev(by_chance.iter().copied()).max(control.unsteady);
        let by_chance = mean(by_chance.iter().copied()).max(0.0) as i64;
        if saves - by_chance <= self.of_graph + (FAR_BEYOND * by_chance).max((BEYOND * varies) as i64) {
            return None;
        }
        let standing = match span {
            Span::Piece => Standing::Once,
            Span::Steps if is_most => Standing::Slower,
            Span::Steps => Standing::Late,
        };
        let whole = self.end - question.end_of(question.like_peers(self.base.clone(), &set, self.part));
        let is_all = saves as f64 >= NEARLY_ALL * whole as f64;
        // What is at the same place of most steps is so at more places than were asked about.
        let (saves, places) = if span == Span::Steps && !is_all { (whole, Vec::new()) } else { (saves, places) };
        Some((Standout { standing, set, saves, by_chance, varies: varies as i64, places }, is_all))
    }

    /// Of a set that stands out the few places where it does, if nearly all of that is there.
    fn narrow(&self, layout: &Layout, of: &mut Standout) {
        let places = layout.pieces(self.question, self.base, &of.set);
        if places.len() > PIECES && !layout.are_of_steps(&places) {
            return;
        }
        let saves = self.end - self.question.end_of(self.question.at_places(self.base, &of.set, &places));
        if saves as f64 >= NEARLY_ALL * of.saves as f64 {
            (of.standing, of.saves, of.places) = (Standing::Once, saves, places);
        }
    }

    /// The job without what is farthest from its peers, a few times a rank, whoever does it.
    fn without_far(&self, gaps: &[Gap<'_>]) -> Times {
        let mut of_sets: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
        for (_, places, set) in gaps.iter().take(PIECES * self.ranks.len()) {
            of_sets.entry(set).or_default().extend(*places);
        }
        let mut times = self.base.clone();
        for (set, places) in of_sets {
            times = self.question.at_places(&times, set, &places);
        }
        times
    }

    /// Of the sets that take longer than all others by most somewhere the one that saves most without what it takes longer there: its largest pieces, if they are few
    /// or at one place of some steps, or what is at one place of the steps, if it is there in most of them.
    fn few(&self, layout: &Layout, (times, end): (&Times, i64), (span, gaps): (Span, &[Gap<'_>])) -> Option<Few> {
        let question = self.question;
        let most = if question.job.nodes.len() > LARGE_JOB { 1 } else { FAR };
        let with_places = |(set, places): (Vec<usize>, &[usize])| match span {
            Span::Piece => {
                let pieces = layout.pieces(question, times, &set);
                (pieces.len() <= PIECES || layout.are_of_steps(&pieces)).then_some((set, pieces))
            }
            Span::Steps => layout.is_steady(question, times, &set, places).then(|| (set, places.to_vec())),
        };
        let (sets, places): (Vec<Vec<usize>>, Vec<Vec<usize>>) =
            far(gaps, most).into_iter().filter_map(with_places).unzip();
        let ends = question.ends(sets.len(), |at| question.at_places(times, &sets[at], &places[at]));
        let saved: Vec<i64> = ends.iter().map(|of| end - of).collect();
        let most = saved.iter().copied().max()? as f64;
        // Of those that save nearly as much the one of the fewest ranks.
        let nearly = sets.into_iter().zip(places).zip(saved).filter(|(_, saves)| *saves as f64 >= NEARLY_ALL * most);
        let fewest = nearly.min_by_key(|((set, _), saves)| (set.len(), std::cmp::Reverse(*saves)));
        fewest.map(|((set, places), saves)| (saves, set, places))
    }
}

/// Of some sizes the smallest with nearly all of the most beyond chance.
fn smallest<'b>(best: &[&'b Best]) -> Option<&'b Best> {
    let most = best.iter().map(|of| of.beyond()).max().filter(|most| *most > 0)?;
    let mut nearly = best.iter().filter(|of| of.beyond() as f64 >= NEARLY_ALL * most as f64);
    nearly.next().copied()
}

/// Random numbers that differ from one run to the next, and are the same each time.
pub(super) fn seeded(run: usize) -> Random {
    Random(0x9e37_79b9_7f4a_7c15 ^ (run as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03))
}

pub(super) fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len().max(1);
    values.sum::<f64>() / count as f64
}
