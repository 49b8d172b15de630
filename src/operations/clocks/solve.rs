//! The joint estimate of all clocks: a robust least-squares fit over ranks and collectives.
//!
//! A collective has one moment at which all its members end, and each clock an offset and a slope. Groups share ranks, so a clock is
//! compared with the reference along many ways through the groups, and all unknowns have to be estimated together: one clock after
//! the other, drift that a whole group has in common would move by one rank a round. Ends that disagree count less (Huber's weights, by
//! iteratively reweighted least squares), which is convex, so the first estimate decides how long it takes and not what is found.
//! The moments are eliminated from the normal equations, and what is left, two unknowns a rank, is solved by conjugate gradients,
//! because the matrix of a group of a thousand ranks would be full.

use std::ops::Range;

use crate::statistics::{Deviation, median};

/// The weights are estimated anew at most this often. Half of all ends wrong by milliseconds takes 30 rounds.
const ROUNDS: usize = 60;

/// The estimate is done once no time changes by more, in ns.
const CLOSE: f64 = 5.0;

/// The least deviation of ends, as a share of their sharpness. Ends of a trace that was made up may not disagree at all.
const LEAST_DEVIATION: f64 = 0.05;

/// The residual of the normal equations is reduced by this factor.
const EXACT: f64 = 1e-7;

/// A clock against the reference: its offset in the middle of the time that the collectives cover, and what it gains from there to the end,
/// both in ns.
pub(super) type Unknowns = [f64; 2];

/// A collective by which clocks are compared: the positions of ranks, and their ends since the start of their traces.
pub(super) struct Anchor {
    /// The positions of its group, and of the collective in it.
    pub(super) of: (usize, usize),
    /// How far apart ends may be that mean the same moment, in ns.
    pub(super) sharpness: f64,
    pub(super) ends: Vec<(usize, f64)>,
}

/// The collectives that the clocks are estimated from.
pub(super) struct Problem {
    /// By collective: which ends are its, and how sharp they are in ns.
    collectives: Vec<(Range<usize>, f64)>,
    ends: Vec<End>,
    middle: f64,
    half: f64,
}

struct End {
    rank: usize,
    /// In ns from the middle, and as a share of half the time covered.
    time: f64,
    share: f64,
    residual: f64,
    weight: f64,
}

impl Problem {
    pub(super) fn new<'a>(anchors: impl Iterator<Item = &'a Anchor>, middle: f64, half: f64) -> Self {
        let mut problem = Problem { collectives: Vec::new(), ends: Vec::new(), middle, half: half.max(1.0) };
        for anchor in anchors {
            let start = problem.ends.len();
            problem.collectives.push((start..start + anchor.ends.len(), anchor.sharpness));
            for (rank, end) in &anchor.ends {
                let time = end - problem.middle;
                let share = time / problem.half;
                problem.ends.push(End { rank: *rank, time, share, residual: 0.0, weight: 1.0 });
            }
        }
        problem
    }

    /// Improves the clocks. `free` says which unknowns are estimated; the others stay.
    pub(super) fn solve(&mut self, clocks: &mut [Unknowns], free: &[[bool; 2]]) {
        self.ends.iter_mut().for_each(|end| end.weight = 1.0);
        for _ in 0..ROUNDS {
            self.weigh(clocks);
            let step = self.step(clocks.len(), free);
            let mut change: f64 = 0.0;
            for (clock, step) in clocks.iter_mut().zip(step) {
                (clock[0], clock[1]) = (clock[0] + step[0], clock[1] + step[1]);
                change = change.max(step[0].abs() + step[1].abs());
            }
            if change < CLOSE {
                break;
            }
        }
    }

    /// The standard deviations of each rank's ends, and of its slope as what it gains to the end, in ns.
    pub(super) fn deviations(&self, ranks: usize) -> Vec<Unknowns> {
        let mut of_rank: Vec<Vec<(f64, f64)>> = vec![Vec::new(); ranks];
        self.ends.iter().for_each(|end| of_rank[end.rank].push((end.share, end.residual)));
        let deviation = |ends: Vec<(f64, f64)>| {
            let middle = ends.iter().map(|(share, _)| share).sum::<f64>() / ends.len() as f64;
            let squares: f64 = ends.iter().map(|(share, _)| (share - middle).powi(2)).sum();
            let of_ends = Deviation::SCALE * median(ends.iter().map(|(_, residual)| residual.abs()));
            [of_ends, of_ends / squares.max(1e-12).sqrt()]
        };
        of_rank.into_iter().map(deviation).collect()
    }

    /// Computes the residuals, and from these the weights.
    fn weigh(&mut self, clocks: &[Unknowns]) {
        let Problem { collectives, ends, .. } = self;
        for (range, _) in &*collectives {
            let ends = &mut ends[range.clone()];
            ends.iter_mut().for_each(|end| end.residual = end.time - gained(clocks[end.rank], end.share));
            let mean = mean(ends, |end| end.residual);
            ends.iter_mut().for_each(|end| end.residual -= mean);
        }
        let scaled = |(range, sharpness): &(Range<usize>, f64)| {
            let sharpness = *sharpness;
            ends[range.clone()].iter().map(move |end| end.residual.abs() / sharpness)
        };
        let deviation = (Deviation::SCALE * median(collectives.iter().flat_map(scaled))).max(LEAST_DEVIATION);
        for (range, sharpness) in collectives {
            for end in &mut ends[range.clone()] {
                let far = end.residual.abs() / (*sharpness * deviation);
                end.weight = 1.0 / (*sharpness * *sharpness * far.max(1.0));
            }
        }
    }

    /// The step to the least squares with these weights.
    fn step(&self, ranks: usize, free: &[[bool; 2]]) -> Vec<Unknowns> {
        let (right, blocks) = (self.normal(ranks, free, |end| end.residual), self.blocks(ranks));
        let conditioned = |of: &[Unknowns]| -> Vec<Unknowns> {
            let solve = |(at, value): (usize, &Unknowns)| solved(blocks[at], free[at], *value);
            of.iter().enumerate().map(solve).collect()
        };
        let mut step = vec![[0.0; 2]; ranks];
        let mut rest = right;
        let mut towards = conditioned(&rest);
        let mut direction = towards.clone();
        let first = dot(&rest, &towards);
        let mut length = first;
        for _ in 0..4 * ranks {
            if length <= first * EXACT * EXACT || length <= 0.0 {
                break;
            }
            let image = self.normal(ranks, free, |end| gained(direction[end.rank], end.share));
            let along = dot(&direction, &image);
            if along <= 0.0 {
                break;
            }
            add(&mut step, length / along, &direction);
            add(&mut rest, -length / along, &image);
            towards = conditioned(&rest);
            let next = dot(&rest, &towards);
            let mut turned = towards.clone();
            add(&mut turned, next / length, &direction);
            (direction, length) = (turned, next);
        }
        step
    }

    /// The normal matrix times what `value` gives for each end.
    fn normal(&self, ranks: usize, free: &[[bool; 2]], value: impl Fn(&End) -> f64) -> Vec<Unknowns> {
        let mut sums = vec![[0.0; 2]; ranks];
        for (range, _) in &self.collectives {
            let ends = &self.ends[range.clone()];
            let mean = mean(ends, &value);
            for end in ends {
                let part = end.weight * (value(end) - mean);
                let sum = &mut sums[end.rank];
                (sum[0], sum[1]) = (sum[0] + part, sum[1] + part * end.share);
            }
        }
        let fix = |(sum, free): (&mut Unknowns, &[bool; 2])| {
            (0..2).filter(|at| !free[*at]).for_each(|at| sum[at] = 0.0);
        };
        sums.iter_mut().zip(free).for_each(fix);
        sums
    }

    /// By rank: its block of the normal matrix, as its three different elements.
    fn blocks(&self, ranks: usize) -> Vec<[f64; 3]> {
        let mut blocks = vec![[0.0; 3]; ranks];
        for (range, _) in &self.collectives {
            let ends = &self.ends[range.clone()];
            let sum: f64 = ends.iter().map(|end| end.weight).sum();
            for end in ends {
                let part = end.weight * (1.0 - end.weight / sum);
                let block = &mut blocks[end.rank];
                block[0] += part;
                block[1] += part * end.share;
                block[2] += part * end.share * end.share;
            }
        }
        blocks
    }
}

fn gained(clock: Unknowns, share: f64) -> f64 {
    clock[0] + clock[1] * share
}

fn mean(ends: &[End], value: impl Fn(&End) -> f64) -> f64 {
    let (sum, weight) =
        ends.iter().fold((0.0, 0.0), |(sum, weight), end| (sum + end.weight * value(end), weight + end.weight));
    if weight > 0.0 { sum / weight } else { 0.0 }
}

/// Solves one rank's block for its free unknowns.
fn solved([a, b, c]: [f64; 3], free: [bool; 2], [x, y]: Unknowns) -> Unknowns {
    let alone = |value: f64, by: f64| if by > 0.0 { value / by } else { 0.0 };
    let determinant = a * c - b * b;
    match free {
        [true, true] if determinant > 1e-12 * a * c => [(c * x - b * y) / determinant, (a * y - b * x) / determinant],
        [is_offset, is_slope] => [if is_offset { alone(x, a) } else { 0.0 }, if is_slope { alone(y, c) } else { 0.0 }],
    }
}

fn dot(a: &[Unknowns], b: &[Unknowns]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a[0] * b[0] + a[1] * b[1]).sum()
}

fn add(to: &mut [Unknowns], factor: f64, of: &[Unknowns]) {
    for (to, of) in to.iter_mut().zip(of) {
        (to[0], to[1]) = (to[0] + factor * of[0], to[1] + factor * of[1]);
    }
}
