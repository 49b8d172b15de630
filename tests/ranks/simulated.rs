//! Jobs that are simulated, so that it is known who is late and why.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Cursor;

use nccl_stacks::analysis::stacks::StackOptions;
use nccl_stacks::attribution::Attributor;
use nccl_stacks::attribution::capture::Captured;
use nccl_stacks::attribution::launches;
use nccl_stacks::attribution::selection::{Wanted, choose};
use nccl_stacks::event::ArgsWanted;
use nccl_stacks::input::from_reader;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::ranks::clock::ClockMode;
use nccl_stacks::ranks::part::RankPart;
use nccl_stacks::ranks::reduce::reduce;
use nccl_stacks::ranks::report::{Compared, RankReport};
use nccl_stacks::time::Window;

use crate::job::{How, Job, Late, Made, Offsets, When};

/// What a trace is reduced to.
pub(crate) fn parts(name: &str, text: Vec<u8>) -> Vec<RankPart> {
    let input = from_reader(name.to_owned(), None, Box::new(Cursor::new(text))).unwrap();
    let options = LoadOptions { args: ArgsWanted::OPERATIONS, ..LoadOptions::default() };
    let store = load_input(input, options, |_| {}).unwrap().store;
    let wanted = Wanted::collectives();
    let launches = launches::find(&store, &choose(&store, &wanted));
    let attributor = Attributor::new(&store, &wanted, Captured::default());
    reduce(name, attributor, &wanted, &launches, Window::ALL, &StackOptions::default())
}

pub(crate) fn compare(made: &Made) -> Compared {
    let parts = made.traces.iter().flat_map(|(rank, text)| parts(&format!("rank{rank}.json"), text.clone())).collect();
    Compared::of(parts, ClockMode::Align).unwrap()
}

fn show(report: &RankReport) -> String {
    let verdict = report.verdict();
    let wall: i64 = report.ranks.iter().map(|r| r.window.duration().0).sum();
    format!("waited {:.2}% of wall, {} late of {}; {:#?}", report.waited.0 as f64 / wall as f64 * 100.0, report.late, report.collectives, verdict.blamed)
}

#[test]
#[ignore]
fn explore() {
    let cpu = |function: &str| How::Cpu { function: function.to_owned() };
    let gpu = |kernel: &str| How::Gpu { kernel: kernel.to_owned() };
    let base = Job { steps: 6, layers: 8, offsets: Offsets::Random { max_ns: 1_000_000_000 }, ..Job::default() };
    let late = |how: How, extra_ns: i64, when: When| Some(Late { rank: 2, extra_ns, how, when });
    let all: Vec<(&str, Option<Late>)> = vec![
        ("none", None),
        ("cpu layer 200us", late(cpu("mlp.py(50): mlp"), 200_000, When::EveryLayer)),
        ("cpu step 500us", late(cpu("mlp.py(50): mlp"), 500_000, When::EveryStep)),
        ("cpu once 2ms", late(cpu("train.py(70): prepare_batch"), 2_000_000, When::Once { step: 3 })),
        ("gpu layer 200us", late(gpu("flash_fwd_kernel"), 200_000, When::EveryLayer)),
        ("gpu step 500us", late(gpu("ampere_bf16_s16816gemm_mlp"), 500_000, When::EveryStep)),
        ("gpu once 2ms", late(gpu("ampere_bf16_s16816gemm_mlp"), 2_000_000, When::Once { step: 3 })),
        ("slow 1.2", late(How::SlowCpu { factor: 1.2 }, 0, When::EveryStep)),
        ("slow 1.02", late(How::SlowCpu { factor: 1.02 }, 0, When::EveryStep)),
        ("lag", late(How::Lag, 500_000, When::EveryStep)),
    ];
    for (name, late) in all {
        for seed in 1..4 {
            let made = Job { late: late.clone(), seed, ..base.clone() }.make();
            let compared = compare(&made);
            let report = compared.report();
            println!("=== {name} seed {seed}: {}", show(&report));
            println!("late_ranks: {}", serde_json::to_string(&report.late_ranks).unwrap());
        }
    }
}
