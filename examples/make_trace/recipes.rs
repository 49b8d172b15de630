//! The small traces of the tests, each for one thing that a reader can get wrong. Their contents, and the answers worked out by hand from the
//! recipes, are in the `README.md` beside the traces.

use std::io::{self, Write};

use flate2::Compression;

use super::compiled;
use super::costs;
use super::ddp::Training;
use super::gradients;
use super::hard;
use super::job::{How, Job, Late, Offsets, When};
use super::metadata;
use super::oddities;
use super::profile::{Workload, write_trace};
use super::sglang::{Serving, Step};
use super::tiny::{ALL_GATHER, ALL_REDUCE, CPU, GEMM, REDUCE_SCATTER, RMS_NORM, STREAM_7, STREAM_20, STREAM_21, Tiny};

/// All small traces: file name and contents.
pub(crate) fn all() -> io::Result<Vec<(&'static str, Vec<u8>)>> {
    let mut traces = vec![
        ("sglang_decode.json.gz", zip(&[&simulate(&sglang_decode(), 4)?])?),
        ("ddp_backward.json.gz", zip(&[&simulate(&Training, 3)?])?),
        ("two_matches.json", two_matches()),
        ("no_launch_link.json", no_launch_link()),
        ("overlap_pdl.json", overlap_pdl()),
        ("flow_only.json", flow_only()),
        ("bare_array_unclosed.json", oddities::BARE_ARRAY_UNCLOSED.into()),
        ("merged_two_members.json.gz", merged_two_members()?),
        ("damaged.json", oddities::DAMAGED.into()),
        ("begin_end_async.json", oddities::BEGIN_END_ASYNC.into()),
        ("strangers.json", hard::STRANGERS.into()),
        ("evidence.json", hard::EVIDENCE.into()),
        ("forward_backward.json", hard::FORWARD_BACKWARD.into()),
        ("costs.json", costs::trace()),
        ("costs_later.json", costs::later()),
        ("gradients_ddp.json", gradients::ddp(true)),
        ("gradients_ddp_no_stacks.json", gradients::ddp(false)),
        ("gradients_fsdp1.json", gradients::fsdp1()),
        ("gradients_fsdp2.json", gradients::fsdp2()),
        ("gradients_zero3.json", gradients::zero3()),
        ("metadata_pytorch.json", metadata::pytorch()),
        ("metadata_xsigma.json", metadata::xsigma()),
        ("metadata_xplane.json", metadata::xplane()),
        ("metadata_hostile.json", metadata::hostile()),
        ("replay/trace.json", hard::REPLAY.into()),
        ("replay/capture_traces/capture.json", hard::CAPTURE.into()),
        ("pieces.json", compiled::pieces()),
        ("pieces/two_models.json", compiled::two_models()),
        ("pieces/capture_traces/whole_model.json", compiled::whole_model()),
    ];
    for (name, (_, trace)) in RANKS.into_iter().zip(late_rank().make().traces) {
        traces.push((name, zip(&[&trace])?));
    }
    Ok(traces)
}

const RANKS: [&str; 4] = ["ranks/rank0.json.gz", "ranks/rank1.json.gz", "ranks/rank2.json.gz", "ranks/rank3.json.gz"];

/// A job whose rank 2 takes longer in one function, in every layer. Each rank has its own clock.
fn late_rank() -> Job {
    let how = How::Cpu { function: "mlp.py(50): mlp".to_owned() };
    let late = Late { rank: 2, extra_ns: 150_000, how, when: When::EveryLayer };
    Job { steps: 3, layers: 3, offsets: Offsets::Random { max_ns: 500_000 }, late: Some(late), ..Job::default() }
}

fn simulate(program: &impl Workload, steps: u32) -> io::Result<Vec<u8>> {
    let mut trace = Vec::new();
    write_trace(&mut trace, program, steps)?;
    Ok(trace)
}

/// Compresses each part into its own gzip member, one after another.
pub(crate) fn zip(parts: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut zipped = Vec::new();
    for part in parts {
        let mut zip = super::gzip(&mut zipped, Compression::best());
        zip.write_all(part)?;
        zip.finish()?;
    }
    Ok(zipped)
}

fn sglang_decode() -> Serving {
    Serving {
        layers: 4,
        rank: 0,
        seed: 4,
        cycle: &[Step::Prefill, Step::Decode, Step::Replay, Step::Replay],
        chatter: 2,
        early_kernels: false,
    }
}

/// A step counts the collectives that it launched, not those that ran during it.
fn two_matches() -> Vec<u8> {
    let mut trace = Tiny::default();
    trace.python("train.py(12): main", (900, 2500));
    trace.python("train.py(40): train_step", (1000, 300));
    trace.op("c10d::allreduce_", (1040, 30));
    trace.launch("cudaLaunchKernelExC", (1050, 10), 11);
    trace.launch("cudaLaunchKernel", (1200, 10), 12);
    trace.python("train.py(40): train_step", (2000, 400));
    trace.op("c10d::_allgather_base_", (2040, 30));
    trace.launch("cudaLaunchKernelExC", (2050, 10), 21);
    trace.op("c10d::allreduce_", (2290, 30));
    trace.launch("cudaLaunchKernelExC", (2300, 10), 22);
    trace.op("c10d::allreduce_", (2690, 30));
    trace.launch("cudaLaunchKernelExC", (2700, 10), 23);
    trace.python("train.py(40): train_step", (3000, 200));
    trace.launch("cudaLaunchKernel", (3050, 10), 31);
    trace.kernel(ALL_REDUCE, STREAM_20, (1100, 50), 11);
    trace.kernel(GEMM, STREAM_7, (1210, 20), 12);
    trace.kernel(ALL_GATHER, STREAM_20, (2100, 50), 21);
    // Runs after the step that launched it has returned.
    trace.kernel(ALL_REDUCE, STREAM_20, (2500, 100), 22);
    // Runs during the third step, but was launched between the second and the third.
    trace.kernel(ALL_REDUCE, STREAM_20, (3040, 60), 23);
    trace.kernel(GEMM, STREAM_7, (3070, 20), 31);
    trace.finish()
}

/// Collectives whose correlation ids occur nowhere else in the file, and a graph launch that looks as if it could be theirs.
fn no_launch_link() -> Vec<u8> {
    let mut trace = Tiny::default();
    trace.python("serve.py(30): decode_step", (950, 350));
    trace.launch("cudaGraphLaunch", (1000, 40), 50);
    trace.kernel(GEMM, STREAM_7, (1050, 5), 50);
    trace.unlinked_kernel(ALL_REDUCE, STREAM_7, (1060, 40), 41);
    trace.unlinked_kernel(REDUCE_SCATTER, STREAM_7, (1120, 30), 42);
    trace.finish()
}

/// Kernels that begin before the previous kernel on their stream has ended, so that nesting puts the end of their flow on the wrong slice. One
/// such kernel is a collective, the other is not.
fn overlap_pdl() -> Vec<u8> {
    let mut trace = Tiny::default();
    trace.python("model.py(80): forward", (90, 300));
    trace.python("model.py(21): attention", (95, 20));
    trace.launch("cudaLaunchKernelExC", (100, 10), 1);
    trace.python("layernorm.py(14): norm_after_attention", (125, 20));
    trace.launch("cudaLaunchKernelExC", (130, 10), 2);
    trace.python("layernorm.py(33): norm_before_mlp", (155, 20));
    trace.launch("cudaLaunchKernelExC", (160, 10), 3);
    trace.python("model.py(57): mlp", (185, 20));
    trace.launch("cudaLaunchKernelExC", (190, 10), 4);
    trace.kernel(ALL_REDUCE, STREAM_7, (200, 60), 1);
    trace.kernel(RMS_NORM, STREAM_7, (250, 30), 2);
    trace.kernel(RMS_NORM, STREAM_7, (400, 40), 3);
    trace.kernel(ALL_REDUCE, STREAM_7, (430, 50), 4);
    trace.finish()
}

/// Launches and kernels without correlation ids. The last launched kernel runs first, so the order does not help either.
fn flow_only() -> Vec<u8> {
    let mut trace = Tiny::default();
    trace.python("worker.py(5): first", (80, 60));
    trace.slice("cuda_runtime", "cudaEventRecord", CPU, (90, 2), "");
    // Kineto writes a flow end for every call that launches nothing.
    trace.flow('f', CPU, 90, 9);
    trace.slice("cuda_runtime", "cudaLaunchKernelExC", CPU, (100, 10), "");
    trace.flow('s', CPU, 100, 7);
    trace.python("worker.py(19): second", (180, 60));
    trace.slice("cuda_runtime", "cudaLaunchKernelExC", CPU, (200, 10), "");
    trace.flow('s', CPU, 200, 8);
    trace.slice("kernel", ALL_GATHER, STREAM_21, (300, 30), r#""device": 0, "stream": 21"#);
    trace.flow('f', STREAM_21, 300, 8);
    trace.slice("kernel", ALL_REDUCE, STREAM_20, (500, 40), r#""device": 0, "stream": 20"#);
    trace.flow('f', STREAM_20, 500, 7);
    trace.finish()
}

/// One JSON text in two gzip members, split in the middle of a kernel's name.
fn merged_two_members() -> io::Result<Vec<u8>> {
    let text = oddities::EVENTS_FIRST;
    let cut = text.find("AllReduce").map_or(text.len() / 2, |at| at + "AllRe".len());
    let (first, second) = text.as_bytes().split_at(cut);
    zip(&[first, second])
}
