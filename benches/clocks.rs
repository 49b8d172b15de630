//! What it costs to match the collectives of many ranks and to compare their clocks, and how that grows.
//!
//! The ranks are made here, as what parts hold, because a thousand traces of ten thousand collectives are 30 GB of text. Each rank belongs to a tensor
//! group of 8 and to a data group; clocks are apart by up to a second and drift by up to 20 ppm, 0.1 % of the kernels are lost.
//! `cargo bench -p nccl-stacks-benches --bench clocks` prints a table: the time of each stage, and the errors against what was made.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot go on stops; it prints a table")]

use std::path::Path;
use std::time::Instant;

use nccl_stacks::answers::ranks::reduce::collectives;
use nccl_stacks::answers::ranks::reduction::RankReduction;
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::operations::clocks::{ClockMode, Clocks, ComparedClocks};
use nccl_stacks::operations::matching::Matches;
use nccl_stacks::operations::rows::Row;
use nccl_stacks::time::Ns;

/// The size of a tensor group.
const TENSOR: usize = 8;

/// Collectives of tensor groups for each one of the data groups.
const PER_STEP: usize = 8;

/// A xorshift generator.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }
}

/// A rank without rows, from a small trace.
fn empty() -> RankReduction {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/ranks/rank0.json.gz");
    let file = std::fs::File::open(path).unwrap();
    let input = from_reader("rank0.json.gz".to_owned(), None, Box::new(file)).unwrap();
    let options = LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() };
    let store = load_input(input, options, |_| {}).unwrap().store;
    let reductions = collectives("rank0.json.gz", &store);
    let mut rank = reductions.into_iter().next().unwrap();
    rank.kinds.truncate(1);
    rank.groups = vec![rank.groups[0].clone(); 2];
    rank.rows.clear();
    rank
}

/// A clock: how far it is ahead of true time, and how much faster it is.
#[derive(Clone, Copy)]
struct Clock {
    offset: f64,
    drift: f64,
}

impl Clock {
    fn shows(self, time: f64) -> Ns {
        Ns((time + self.offset + self.drift * time) as i64)
    }
}

fn make(ranks: usize, collectives: usize) -> (Vec<RankReduction>, Vec<Clock>) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let template = empty();
    let mut reductions = vec![template; ranks];
    let data = |rank: usize| (0..ranks / TENSOR).map(move |at| at * TENSOR + rank % TENSOR).collect::<Vec<_>>();
    let tensor = |rank: usize| (rank / TENSOR * TENSOR..rank / TENSOR * TENSOR + TENSOR).collect::<Vec<_>>();
    for (rank, reduction) in reductions.iter_mut().enumerate() {
        for (group, (members, name)) in [(tensor(rank), "tp"), (data(rank), "dp")].into_iter().enumerate() {
            let of = &mut reduction.groups[group];
            of.name = Some(format!("{name}{}", members[0]));
            of.size = Some(members.len() as u64);
            of.ranks = Some(members.into_iter().map(|rank| rank as u32).collect());
        }
        reduction.rows.reserve(collectives);
    }
    let clocks: Vec<Clock> =
        (0..ranks).map(|_| Clock { offset: random.between(0.0, 1e9), drift: random.between(-20e-6, 20e-6) }).collect();
    let mut now = vec![0.0_f64; ranks];
    for at in 0..collectives {
        let (of_data, seq) = (at % (PER_STEP + 1) == PER_STEP, at / (PER_STEP + 1));
        let groups: Vec<Vec<usize>> = match of_data {
            true => (0..TENSOR).map(data).collect(),
            false => (0..ranks).step_by(TENSOR).map(tensor).collect(),
        };
        for members in groups {
            let starts: Vec<f64> = members.iter().map(|rank| now[*rank] + random.between(20e3, 40e3)).collect();
            let end = starts.iter().fold(0.0_f64, |last, start| last.max(*start)) + random.between(50e3, 60e3);
            for (rank, start) in members.into_iter().zip(starts) {
                now[rank] = end + random.between(0.0, 500.0);
                if random.unit() < 0.001 {
                    continue;
                }
                let mut row = Row::default();
                row.start = clocks[rank].shows(start);
                row.dur = clocks[rank].shows(now[rank]) - row.start;
                row.group = Some(u32::from(of_data));
                row.seq = Some(if of_data { seq } else { at - seq } as u32);
                reductions[rank].rows.push(row);
            }
        }
    }
    (reductions, clocks)
}

/// How far the clock of a rank is found to be from the truth, in the middle of its trace, against the lowest rank's.
fn errors(reductions: &[RankReduction], found: &Clocks, truth: &[Clock]) -> (f64, f64) {
    let wrong = |(rank, reduction): (usize, &RankReduction)| {
        let last = reduction.rows.last().unwrap().start.as_f64();
        let middle = (last - truth[rank].offset) / 2.0;
        let aligned = found.ranks[rank].aligned(truth[rank].shows(middle)).as_f64();
        let error = (aligned - truth[0].shows(middle).as_f64()).abs();
        (error, error <= found.ranks[rank].uncertainty.as_f64())
    };
    let all: Vec<(f64, bool)> = reductions.iter().enumerate().skip(1).map(wrong).collect();
    let worst = all.iter().map(|(error, _)| *error).fold(0.0, f64::max);
    (worst, all.iter().filter(|(_, is_within)| *is_within).count() as f64 / all.len() as f64)
}

fn main() {
    println!("ranks  collectives  of all  matching (s)  clocks (s)  worst error (us)  within the stated one");
    for (ranks, collectives) in [(256, 2_500), (1_000, 2_500), (1_000, 10_000)] {
        let (reductions, truth) = make(ranks, collectives);
        let rows: Vec<_> =
            reductions.iter().enumerate().map(|(rank, reduction)| reduction.rank_rows(rank as u32)).collect();
        let begin = Instant::now();
        let mut matches = Matches::find(&rows);
        let matching = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let compared = Clocks::compare(&rows, &mut matches, ClockMode::Align).unwrap();
        let fit = begin.elapsed().as_secs_f64();
        let ComparedClocks::Possible(clocks) = compared else { panic!("a rank does not fit") };
        let (worst, within) = errors(&reductions, &clocks, &truth);
        let all: usize = reductions.iter().map(|reduction| reduction.rows.len()).sum();
        println!(
            "{ranks:>5}  {collectives:>11}  {all:>8}  {matching:>10.2}  {fit:>10.2}  {:>16.2}  {:>20.1} %",
            worst / 1e3,
            within * 100.0
        );
    }
}
