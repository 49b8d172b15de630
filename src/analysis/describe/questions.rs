//! The questions about a trace, as data: what each needs, how much of the trace has it, and what to turn on to record it.
//!
//! Each entry of `QUESTIONS` is a question. Settings are quoted as written in a program (`torch.profiler.profile`); for exports of Nsight Systems
//! they are options of `nsys profile`.

use serde::Serialize;

use super::tally::{OfKernels, Tally};

/// How many items have what a question needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// The number of items that have it.
    pub have: u64,
    /// The number of all items.
    pub of: u64,
}

/// What a trace must have before a question applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// Kernels.
    Kernels,
    /// Operators.
    Operators,
    /// Kernels that are collectives.
    Collectives,
    /// Nothing: either the trace has what the question asks for, or it does not.
    Trace,
}

/// A question.
pub(super) struct Question {
    /// The name in JSON.
    pub(super) name: &'static str,
    /// The question in a few words.
    pub(super) question: &'static str,
    /// What it needs in the trace.
    pub(super) key: &'static str,
    /// What is counted.
    pub(super) unit: &'static str,
    /// The command or option that answers it.
    pub(super) command: &'static str,
    /// How much of the trace has what it needs. For [`Basis::Trace`], all or nothing.
    pub(super) share: fn(&Tally) -> Share,
    pub(super) basis: Basis,
    /// The header field that shows it was asked for.
    pub(super) flag: Option<&'static str>,
    /// Whether the trace shows that it was asked for, even if the header does not.
    pub(super) on: fn(&Tally) -> bool,
    /// What to turn on; `None` if nothing can be turned on.
    pub(super) turn_on: Option<&'static str>,
    /// What to turn on in Nsight Systems.
    pub(super) nsys: Option<&'static str>,
    /// Why some items lack it although it was asked for; for kernels, why those lack it that no common reason explains.
    pub(super) although: &'static str,
    /// Why no item has it; `None` if the reason is the same.
    pub(super) none: Option<fn(&Tally) -> &'static str>,
    /// How many kernels have it, and why the others do not.
    pub(super) above: Option<fn(&Tally) -> OfKernels>,
}

/// What to turn on to record kernels.
pub(super) const KERNELS_ON: &str = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";

/// What to turn on to record kernels with Nsight Systems.
pub(super) const NSYS_KERNELS_ON: &str = "--trace=cuda";

/// What to turn on to record operators.
pub(super) const OPERATORS_ON: &str = "ProfilerActivity.CPU among the activities";

/// How to record where the kernels of a graph were captured.
pub(super) const CAPTURE_ON: &str =
    "profile the capture of the CUDA graphs too, and give that trace with --capture-trace";

/// How to get the sizes of collectives that a graph replays.
pub(super) const RECORDS_ON: &str =
    "NCCL's own records of the same job (nccl-stacks record, NCCL Inspector), given with --records";

/// What PyTorch's flight recorder needs, and what else shows a hang.
pub(super) const HANG_ON: &str = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for dumps of the flight recorder, or nccl-stacks record";

/// What records the parameters of collectives.
const RECORDED_COLLECTIVES: &str =
    "PyTorch from 2024 or newer, which records the parameters of collectives (record_param_comms)";

/// Why some operators have no shapes.
const WITHOUT_INPUTS: &str = "the others have no inputs, or are the profiler's own";

/// What a trace lacks if its operators have no shapes at all.
const NO_SHAPES: &str = "no operator has Input Dims";

/// The header field for Python functions.
pub(super) const WITH_STACK: &str = "with_stack";

/// What a trace lacks that was asked for stacks but has none.
pub(super) const NO_FRAMES: &str = "no Python function was recorded";

/// PyTorch's advice if `with_stack` alone records no Python functions.
pub(super) const STACKS_ON: &str = "with_stack=True with experimental_config=_ExperimentalConfig(verbose=True)";

const PLAIN: Question = Question {
    name: "",
    question: "",
    key: "",
    unit: "kernels",
    command: "nccl-stacks TRACE",
    share: |_| Share { have: 0, of: 0 },
    basis: Basis::Kernels,
    flag: None,
    on: |_| false,
    turn_on: None,
    nsys: None,
    although: "",
    none: None,
    above: None,
};

const fn share(have: u64, of: u64) -> Share {
    Share { have, of }
}

fn all(count: u64) -> Share {
    share(count, count)
}

/// All questions in display order.
pub(super) const QUESTIONS: &[Question] = &[
    Question {
        name: "launch",
        question: "Which call launched a kernel",
        key: "correlation, flows or External id",
        share: |t| share(t.call.have, t.kernels),
        on: |t| t.runtime_calls > 0,
        turn_on: Some(KERNELS_ON),
        nsys: Some(NSYS_KERNELS_ON),
        above: Some(|t| t.call),
        ..PLAIN
    },
    Question {
        name: "python-stack",
        question: "From which Python code",
        key: "python_function slices above the launch",
        share: |t| share(t.python.have, t.kernels),
        flag: Some(WITH_STACK),
        on: |t| t.frames > 0,
        turn_on: Some("with_stack=True"),
        nsys: Some("ranges of your own: torch.cuda.nvtx.range_push(\"…\")"),
        although: "on threads without Python",
        above: Some(|t| t.python),
        ..PLAIN
    },
    Question {
        name: "operator",
        question: "By which operator",
        key: "cpu_op slices above the launch",
        share: |t| share(t.operator.have, t.kernels),
        on: |t| t.operators > 0,
        turn_on: Some(OPERATORS_ON),
        nsys: Some("--pytorch=autograd-nvtx"),
        although: "by no operator (compiled code and C++ call the runtime directly)",
        above: Some(|t| t.operator),
        command: "nccl-stacks TRACE --group-by op",
        ..PLAIN
    },
    Question {
        name: "module",
        question: "By which module",
        key: "nn.Module frames above the launch, or Module Hierarchy",
        share: |t| share(t.module.have, t.kernels),
        flag: Some(WITH_STACK),
        on: |t| t.frames > 0,
        turn_on: Some("with_stack=True (nn.Module frames come with it; with_modules=True works for TorchScript only)"),
        although: "outside of any nn.Module",
        above: Some(|t| t.module),
        command: "nccl-stacks TRACE --group-by module",
        ..PLAIN
    },
    Question {
        name: "shape",
        question: "By input shape",
        key: "Input Dims",
        unit: "operators",
        share: |t| share(t.dims, t.operators),
        basis: Basis::Operators,
        flag: Some("record_shapes"),
        on: |t| t.dims > 0,
        turn_on: Some("record_shapes=True"),
        although: WITHOUT_INPUTS,
        none: Some(|_| NO_SHAPES),
        command: "nccl-stacks TRACE --group-by op,shape",
        ..PLAIN
    },
    Question {
        name: "layout",
        question: "By memory layout",
        key: "Input Strides",
        unit: "operators",
        share: |t| share(t.strides, t.operators),
        basis: Basis::Operators,
        flag: Some("record_shapes"),
        on: |t| t.dims > 0,
        turn_on: Some("record_shapes=True"),
        although: WITHOUT_INPUTS,
        none: Some(|t| if t.dims == 0 { NO_SHAPES } else { "this version writes no strides; a newer PyTorch does" }),
        command: "nccl-stacks operators TRACE",
        ..PLAIN
    },
    Question {
        name: "concrete-inputs",
        question: "By values of scalar inputs",
        key: "Concrete Inputs",
        unit: "operators",
        share: |t| share(t.concrete, t.operators),
        basis: Basis::Operators,
        flag: Some("record_shapes"),
        on: |t| t.dims > 0,
        turn_on: Some("record_shapes=True"),
        although: WITHOUT_INPUTS,
        none: Some(|t| if t.dims == 0 { NO_SHAPES } else { "this version writes no values; a newer PyTorch does" }),
        command: "nccl-stacks operators TRACE",
        ..PLAIN
    },
    Question {
        name: "forward-backward",
        question: "Pairs of forward and backward",
        key: "Sequence number and Fwd thread id, or fwdbwd flows",
        unit: "operators of the backward pass",
        command: "nccl-stacks pairs TRACE",
        share: |t| share(t.paired, t.backward_operators),
        basis: Basis::Operators,
        turn_on: Some("record the forward pass of the same steps: a schedule of whole steps"),
        ..PLAIN
    },
    Question {
        name: "backward-stack",
        question: "Forward code of the backward pass",
        key: "Python functions above the operator of the forward pass",
        unit: "kernels of the backward pass",
        command: "nccl-stacks TRACE --group-by forward",
        share: |t| share(t.backward_python, t.backward),
        flag: Some(WITH_STACK),
        on: |t| t.frames > 0,
        turn_on: Some("with_stack=True"),
        although: "their forward operators are not in the trace, or no Python function is above them",
        ..PLAIN
    },
    Question {
        name: "graph-capture",
        question: "Who put a kernel into its graph",
        key: "a trace of the capture",
        unit: "kernels that graphs replay",
        command: "nccl-stacks TRACE --capture-trace CAPTURE",
        share: |t| share(t.captured, t.replayed),
        on: |t| t.captured > 0,
        turn_on: Some(CAPTURE_ON),
        although: "the others have no capture here, or captures that disagree",
        ..PLAIN
    },
    Question {
        name: "exposed",
        question: "Exposed time, and what overlaps",
        key: "kernels of collectives and other kernels on their GPU",
        unit: "collectives",
        share: |t| if t.kernels > t.collectives { all(t.collectives) } else { share(0, t.collectives) },
        basis: Basis::Collectives,
        turn_on: Some("keep all kernels; this file has only those of collectives"),
        nsys: Some("--trace=cuda, with all kernels kept"),
        ..PLAIN
    },
    Question {
        name: "size",
        question: "Sizes and bandwidths of collectives",
        key: "In msg nelems, Out msg nelems, dtype, Group size",
        unit: "collectives",
        share: |t| share(t.sized.have, t.collectives),
        basis: Basis::Collectives,
        on: |t| t.sized.is_recorded(),
        turn_on: Some(RECORDED_COLLECTIVES),
        although: "without a record of PyTorch (another library's kernels, a size that is not recorded)",
        above: Some(|t| t.sized),
        command: "nccl-stacks TRACE --group-by collective,size",
        ..PLAIN
    },
    Question {
        name: "group",
        question: "Which process group",
        key: "Process Group Name, Process Group Ranks, Group size",
        unit: "collectives",
        share: |t| share(t.grouped.have, t.collectives),
        basis: Basis::Collectives,
        on: |t| t.grouped.is_recorded(),
        turn_on: Some(RECORDED_COLLECTIVES),
        although: "without a record of PyTorch (another library's kernels, a size that is not recorded)",
        above: Some(|t| t.grouped),
        command: "nccl-stacks TRACE --group-by group",
        ..PLAIN
    },
    Question {
        name: "sequence",
        question: "The number of a collective in its group",
        key: "Seq",
        unit: "collectives",
        command: "nccl-stacks sql TRACE 'SELECT * FROM collective'",
        share: |t| share(t.numbered.have, t.collectives),
        basis: Basis::Collectives,
        // Only kernels replayed by a graph have no Seq in any version.
        on: |t| t.numbered.have > 0 || t.replayed_collectives == t.collectives,
        turn_on: Some("PyTorch from March 2026 or newer, which writes Seq to kernels"),
        although: "without a record of PyTorch",
        above: Some(|t| t.numbered),
        ..PLAIN
    },
    Question {
        name: "ranks",
        question: "Who waits for whom",
        key: "the rank of the trace, and the traces of the other ranks",
        unit: "collectives",
        command: "nccl-stacks ranks TRACES",
        share: |t| if t.rank.is_some() || t.ranks.len() > 1 { all(t.collectives) } else { share(0, t.collectives) },
        basis: Basis::Collectives,
        turn_on: Some("a header with the rank: init_process_group before the profiler; or give it: --rank 3=TRACE"),
        nsys: Some("the rank, which is not in this file: --rank 3=TRACE"),
        ..PLAIN
    },
    Question {
        name: "hang",
        question: "On which ranks a job hangs",
        key: "NCCL's own records; a trace is written when the profiler stops",
        unit: "collectives",
        command: "nccl-stacks hang DUMPS",
        share: |t| share(0, t.collectives),
        basis: Basis::Collectives,
        turn_on: Some(HANG_ON),
        nsys: Some(HANG_ON),
        ..PLAIN
    },
    Question {
        name: "steps",
        question: "A window for each step",
        key: "ProfilerStep#N, or a function that runs a step",
        share: |t| share(t.in_steps, t.kernels),
        command: "nccl-stacks TRACE --group-by step",
        on: |t| !t.steps.of.is_empty(),
        turn_on: Some("schedule=torch.profiler.schedule(…), with profiler.step() after each step"),
        nsys: Some("a range for each step: torch.cuda.nvtx.range_push(\"train_step\")"),
        although: "the others are launched outside of steps",
        ..PLAIN
    },
    Question {
        name: "annotations",
        question: "Ranges of your own",
        key: "user_annotation or NVTX slices",
        unit: "annotations",
        command: "nccl-stacks TRACE --group-by annotation",
        share: |t| all(t.annotations),
        basis: Basis::Trace,
        turn_on: Some("torch.profiler.record_function(\"…\") around what matters"),
        nsys: Some("--trace=cuda,nvtx, and torch.cuda.nvtx.range_push(\"…\")"),
        ..PLAIN
    },
    Question {
        name: "memory",
        question: "Memory over time",
        key: "[memory] events",
        unit: "memory events",
        command: "nccl-stacks memory TRACE",
        share: |t| all(t.memory_events),
        basis: Basis::Trace,
        flag: Some("profile_memory"),
        turn_on: Some("profile_memory=True"),
        although: "nothing was allocated or freed while it was recorded",
        ..PLAIN
    },
    Question {
        name: "counters",
        question: "Counters of the processor",
        key: "performance_events",
        unit: "operators with counters",
        command: "nccl-stacks operators TRACE",
        share: |t| all(t.counters),
        basis: Basis::Trace,
        turn_on: Some("experimental_config=_ExperimentalConfig(performance_events=[\"cycles\", \"instructions\"])"),
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::names::described::FLAGS;

    /// A question that a trace cannot answer gives a hint, whatever was on.
    #[test]
    fn every_question_has_a_name_and_a_hint() {
        let names: BTreeSet<&str> = QUESTIONS.iter().map(|question| question.name).collect();
        assert_eq!(names.len(), QUESTIONS.len());
        for question in QUESTIONS {
            let Question { name, question, key, flag, turn_on, although, .. } = *question;
            assert!(!name.is_empty() && !question.is_empty() && !key.is_empty(), "{name}");
            assert!(turn_on.is_some_and(|hint| !hint.is_empty()), "{name}");
            assert!(flag.is_none_or(|flag| FLAGS.contains(&flag) && !although.is_empty()), "{name}");
        }
    }
}
