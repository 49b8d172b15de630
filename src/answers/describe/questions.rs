//! The questions about a trace and about NCCL's own records, as two tables: a row has all that the answer to a question depends on.
//!
//! Settings are quoted as written in a program (`torch.profiler.profile`); for exports of Nsight Systems they are options of `nsys profile`.

use std::borrow::Cow;

use serde::Serialize;

use super::has;
use super::header::HeaderFacts;
use super::sources::SourceRow;
use crate::event::Writer;
use crate::names::values::{KERNEL_CHANNELS, OPERATIONS, PROXY_STEPS};

/// A question, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Question {
    /// Its name, which stays the same.
    pub name: &'static str,
    /// The question in a few words.
    pub question: &'static str,
    /// What it needs.
    pub key: &'static str,
    /// The command that answers it.
    pub command: Cow<'static, str>,
}

impl Question {
    /// Whether it is about several ranks, so that a job with a single rank has no use for it.
    pub fn is_about_several(&self) -> bool {
        matches!(self.name, "ranks" | "hang" | "late")
    }
}

/// What a trace must have before a question applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    Kernels,
    Operators,
    /// Nothing: either the trace has what the question asks for, or it does not.
    Trace,
    /// Kernels, but only NCCL's own records have the answer.
    Records,
}

pub(super) struct TraceQuestion {
    pub(super) question: Question,
    pub(super) basis: Basis,
    /// What is counted: its name, and the flags of all of these and of those that have what the question needs.
    pub(super) unit: &'static str,
    pub(super) all: u32,
    pub(super) have: u32,
    pub(super) setting: Setting,
}

pub(super) struct RecordQuestion {
    pub(super) question: Question,
    pub(super) unit: &'static str,
    /// How many of these in a source have what the question needs, and how many there are.
    pub(super) share: fn(&SourceRow) -> (u64, u64),
    pub(super) recorders: &'static [Recorder],
    /// The events of a recording's plugin that have it. Where they were asked for, asking again is useless.
    pub(super) events: u64,
}

/// What records something, and how to use it.
pub type Recorder = (&'static str, &'static str);

/// What to turn on to record something.
pub(super) struct Setting {
    /// In PyTorch, and in Nsight Systems if that records it.
    pub(super) torch: &'static str,
    pub(super) nsys: Option<&'static str>,
    /// The header field that shows that it was on.
    pub(super) flag: Option<&'static str>,
    /// The flags of what shows that it was on.
    pub(super) seen: u32,
    /// The flags of what could show that it was off: without any, it may have been on.
    pub(super) shown_by: u32,
}

impl Setting {
    /// The setting in the program that wrote a trace; `None` if that does not record it.
    pub(super) fn words(&self, header: &HeaderFacts) -> Option<&'static str> {
        if *header.writer == Writer::NSIGHT_SYSTEMS { self.nsys } else { Some(self.torch) }
    }
}

const NOTHING: u32 = u32::MAX;

const fn on(torch: &'static str) -> Setting {
    Setting { torch, nsys: None, flag: None, seen: NOTHING, shown_by: 0 }
}

pub(super) const KERNELS: Setting = Setting {
    nsys: Some("--trace=cuda"),
    seen: has::RUNTIME,
    ..on("activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]")
};
pub(super) const OPERATORS: Setting = Setting {
    nsys: Some("--pytorch=autograd-nvtx"),
    seen: has::OPERATOR,
    ..on("ProfilerActivity.CPU among the activities")
};
/// It records Python functions, and modules with them: `with_modules=True` records those of TorchScript only.
const STACKS: Setting = Setting { flag: Some("with_stack"), seen: has::FRAME, ..on("with_stack=True") };
const SHAPES: Setting = Setting { flag: Some("record_shapes"), seen: has::DIMS, ..on("record_shapes=True") };
const WHOLE_STEPS: Setting = on("record the forward pass of the same steps: a schedule of whole steps");
const CAPTURE: Setting = Setting {
    seen: has::CAPTURED,
    ..on("profile the capture of the CUDA graphs too, and give that trace with --capture-trace")
};
const ALL_KERNELS: Setting = Setting {
    nsys: Some("--trace=cuda, with all kernels kept"),
    ..on("keep all kernels; this file has only those of collectives")
};
const PARAMETERS: Setting = Setting {
    seen: has::SIZE,
    shown_by: has::COLLECTIVE | has::SHOWS,
    ..on("PyTorch from 2024 or newer, which records the parameters of collectives (record_param_comms)")
};
const NUMBERS: Setting = Setting {
    seen: has::NUMBER,
    shown_by: has::COLLECTIVE | has::SHOWS,
    ..on("PyTorch from March 2026 or newer, which writes Seq to kernels")
};
const RANK: Setting = Setting {
    nsys: Some("the rank, which is not in this file: --rank 3=TRACE"),
    ..on("a header with the rank: init_process_group before the profiler; or give it: --rank 3=TRACE")
};
const HANG: Setting = on("TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for dumps of the flight \
    recorder, or nccl-stacks record");
const SCHEDULE: Setting = Setting {
    nsys: Some("a range for each step: torch.cuda.nvtx.range_push(\"train_step\")"),
    seen: has::STEP,
    ..on("schedule=torch.profiler.schedule(…), with profiler.step() after each step")
};
const RANGES: Setting = Setting {
    nsys: Some("--trace=cuda,nvtx, and torch.cuda.nvtx.range_push(\"…\")"),
    ..on("torch.profiler.record_function(\"…\") around what matters")
};
const MEMORY: Setting = Setting { flag: Some("profile_memory"), ..on("profile_memory=True") };
const COUNTERS: Setting =
    on("experimental_config=_ExperimentalConfig(performance_events=[\"cycles\", \"instructions\"])");

/// How to get the parameters of collectives that a graph replays.
pub(super) const RECORDS_ON: &str =
    "NCCL's own records of the same job (nccl-stacks record, NCCL Inspector), given with --records";

/// What records all that an export of Nsight Systems lacks.
pub(super) const OTHER_PROFILER: &str = "torch.profiler, which records what Nsight Systems does not";

/// Rows of a table of questions: name, question, what it needs, command, then what is counted and what records it.
macro_rules! questions {
    ($table:ident: $of:ident; $($name:literal $question:literal needs $key:literal by $command:literal: $($field:ident = $value:expr),+;)+) => {
        pub(super) const $table: &[$of] = &[$($of {
            question: Question { name: $name, question: $question, key: $key, command: Cow::Borrowed($command) },
            $($field: $value),+
        }),+];
    };
}

use Basis::{Kernels, Operators, Records, Trace};

questions! { OF_TRACES: TraceQuestion;
    "launch" "Which call launched a kernel" needs "correlation, flows or External id" by "nccl-stacks TRACE":
        basis = Kernels, unit = "kernels", all = has::KERNEL, have = has::CALL, setting = KERNELS;
    "python-stack" "From which Python code" needs "python_function slices above the launch" by "nccl-stacks TRACE":
        basis = Kernels, unit = "kernels", all = has::KERNEL, have = has::PYTHON, setting = STACKS;
    "operator" "By which operator" needs "cpu_op slices above the launch" by "nccl-stacks TRACE --group-by op":
        basis = Kernels, unit = "kernels", all = has::KERNEL, have = has::BY_OPERATOR, setting = OPERATORS;
    "module" "By which module" needs "nn.Module frames above the launch, or Module Hierarchy" by "nccl-stacks TRACE --group-by module":
        basis = Kernels, unit = "kernels", all = has::KERNEL, have = has::MODULE, setting = STACKS;
    "shape" "By input shape" needs "Input Dims" by "nccl-stacks TRACE --group-by op,shape":
        basis = Operators, unit = "operators", all = has::OPERATOR, have = has::DIMS, setting = SHAPES;
    "layout" "By memory layout" needs "Input Strides" by "nccl-stacks sql TRACE --query operator_layouts":
        basis = Operators, unit = "operators", all = has::OPERATOR, have = has::STRIDES, setting = SHAPES;
    "concrete-inputs" "By values of scalar inputs" needs "Concrete Inputs" by "nccl-stacks sql TRACE --query operator_values":
        basis = Operators, unit = "operators", all = has::OPERATOR, have = has::CONCRETE, setting = SHAPES;
    "forward-backward" "Pairs of forward and backward" needs "Sequence number and Fwd thread id, or fwdbwd flows" by "nccl-stacks sql TRACE --query pairs":
        basis = Operators, unit = "operators of the backward pass", all = has::BACKWARD_OPERATOR, have = has::FORWARD, setting = WHOLE_STEPS;
    "backward-stack" "Forward code of the backward pass" needs "Python functions above the operator of the forward pass"
        by "nccl-stacks TRACE --group-by forward":
        basis = Kernels, unit = "kernels of the backward pass", all = has::KERNEL | has::BACKWARD, have = has::FORWARD_PYTHON, setting = STACKS;
    "graph-capture" "Who put a kernel into its graph" needs "a trace of the capture" by "nccl-stacks TRACE --capture-trace CAPTURE":
        basis = Kernels, unit = "kernels that graphs replay", all = has::KERNEL | has::REPLAYED, have = has::CAPTURED, setting = CAPTURE;
    "exposed" "Exposed time, and what overlaps" needs "kernels of collectives and other kernels on their GPU" by "nccl-stacks TRACE":
        basis = Kernels, unit = "collectives", all = has::COLLECTIVE, have = has::OTHERS, setting = ALL_KERNELS;
    "size" "Sizes and bandwidths of collectives" needs "In msg nelems, Out msg nelems, dtype, Group size"
        by "nccl-stacks TRACE --group-by collective,size":
        basis = Kernels, unit = "collectives", all = has::COLLECTIVE, have = has::SIZE, setting = PARAMETERS;
    "group" "Which process group" needs "Process Group Name, Process Group Ranks, Group size" by "nccl-stacks TRACE --group-by group":
        basis = Kernels, unit = "collectives", all = has::COLLECTIVE, have = has::GROUP, setting = PARAMETERS;
    "sequence" "The number of a collective in its group" needs "Seq" by "nccl-stacks sql TRACE 'SELECT * FROM collective'":
        basis = Kernels, unit = "collectives", all = has::COLLECTIVE, have = has::NUMBER, setting = NUMBERS;
    "ranks" "Who waits for whom" needs "the rank of the trace, and the traces of the other ranks" by "nccl-stacks ranks TRACES":
        basis = Kernels, unit = "collectives", all = has::COLLECTIVE, have = has::RANK, setting = RANK;
    "hang" "On which ranks a job hangs" needs "NCCL's own records; a trace is written when the profiler stops" by "nccl-stacks hang DUMPS":
        basis = Records, unit = "collectives", all = has::COLLECTIVE, have = NOTHING, setting = HANG;
    "steps" "A window for each step" needs "ProfilerStep#N, or a function that runs a step" by "nccl-stacks TRACE --group-by step":
        basis = Kernels, unit = "kernels", all = has::KERNEL, have = has::STEP, setting = SCHEDULE;
    "annotations" "Ranges of your own" needs "user_annotation or NVTX slices" by "nccl-stacks TRACE --group-by annotation":
        basis = Trace, unit = "annotations", all = has::ANNOTATION, have = has::ANNOTATION, setting = RANGES;
    "memory" "Memory over time" needs "[memory] events" by "nccl-stacks sql TRACE --query memory":
        basis = Trace, unit = "memory events", all = has::MEMORY, have = has::MEMORY, setting = MEMORY;
    "counters" "Counters of the processor" needs "performance_events" by "nccl-stacks sql TRACE --query operator_counters":
        basis = Trace, unit = "operators with counters", all = has::COUNTERS, have = has::COUNTERS, setting = COUNTERS;
}

/// The recorders that several questions name.
const RECORD: &str = "nccl-stacks record";
const INSPECTOR: &str = "NCCL Inspector";
const FLIGHT_RECORDER: &str = "the flight recorder";

questions! { OF_RECORDS: RecordQuestion;
    "hang" "Whether the job hangs, and on which ranks" needs "how far operations got, or counts of each rank" by "nccl-stacks hang FILES":
        unit = "operations", share = of_progress, events = 0, recorders =
            &[(RECORD, ""), (FLIGHT_RECORDER, "with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1")];
    "late" "Who enters NCCL late" needs "when collectives were enqueued, of several ranks" by "nccl-stacks ranks FILES":
        unit = "collectives", share = |row| (row.comparable, row.collectives), events = 0, recorders = &[(RECORD, ""), ("Megatrace", "")];
    "time" "How long operations took" needs "start and end, or a time of execution" by "nccl-stacks records FILES":
        unit = "operations", share = |row| (row.timed, row.looked_at), events = KERNEL_CHANNELS, recorders =
            &[(RECORD, "with its kernel channels"), (INSPECTOR, ""), ("a profiler plugin", ""), (FLIGHT_RECORDER, "with TORCH_NCCL_ENABLE_TIMING=1")];
    "size" "Sizes and bandwidths" needs "the size of operations" by "nccl-stacks records FILES":
        unit = "operations", share = |row| (row.sized, row.looked_at), events = 0, recorders = &[(RECORD, ""), (INSPECTOR, "")];
    "algorithm" "Which algorithm and protocol" needs "algorithm and protocol of operations" by "nccl-stacks records FILES --format table":
        unit = "operations", share = |row| (row.algorithms, row.looked_at), events = OPERATIONS, recorders =
            &[(RECORD, "with the plugin's events"), (INSPECTOR, "(verbose)"), ("NCCL's log", "with NCCL_DEBUG_SUBSYS=TUNING")];
    "proxies" "What the proxy threads waited for" needs "steps of proxy operations" by "nccl-stacks records FILES --format table":
        unit = "steps", share = |row| (row.proxy_steps, row.proxy_steps), events = PROXY_STEPS, recorders =
            &[(RECORD, "--events coll,p2p,proxy-ops,proxy-steps"), ("NCCL's example profiler plugin", "")];
    "call-path" "From which code" needs "a call path of operations" by "nccl-stacks hang FILES, or beside a trace: nccl-stacks TRACE --records FILES":
        unit = "operations", share = |row| (row.call_paths, row.looked_at), events = 0, recorders =
            &[(FLIGHT_RECORDER, "with stack traces"), ("a trace of the same job", "given with --records")];
    "join" "Which kernel of a trace it was" needs "numbers or times of operations" by "nccl-stacks TRACE --records FILES":
        unit = "operations", share = of_places, events = 0, recorders = &[(RECORD, "beside torch.profiler")];
    "plan" "Which data goes where, as planned" needs "the flow extractor's steps" by "nccl-stacks records FILES":
        unit = "planned steps", share = |row| (row.flow_steps, row.flow_steps), events = 0, recorders = &[("the flow extractor", "")];
}

/// How many operations show how far they got. A flow extractor only plans; RAS and some logs have counts of ranks, and others only what they say of some.
fn of_progress(row: &SourceRow) -> (u64, u64) {
    match row.source {
        "flow" => (0, 0),
        "ras" => (row.counted_ranks, row.counted_ranks),
        _ if row.is_reported() => (row.reports, row.reports),
        _ if row.operations == 0 => (row.counted_ranks, row.counted_ranks),
        _ => (row.stated.max(row.numbered).max(row.enqueued), row.looked_at),
    }
}

/// How many operations have a number or a time, by which they are found in a trace.
fn of_places(row: &SourceRow) -> (u64, u64) {
    match row.source {
        "flow" | "ras" => (0, 0),
        _ => (row.numbered.max(row.enqueued).max(row.started), row.looked_at),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::names::described::FLAGS;

    /// A question that cannot be answered gives a hint, whatever was on.
    #[test]
    fn every_question_has_a_name_and_a_hint() {
        let names: BTreeSet<&str> = OF_TRACES.iter().map(|row| row.question.name).collect();
        assert_eq!(names.len(), OF_TRACES.len());
        for TraceQuestion { question: Question { name, question, key, .. }, setting, .. } in OF_TRACES {
            assert!(![*name, question, key, setting.torch].contains(&""), "{name}");
            assert!(setting.flag.is_none_or(|flag| FLAGS.contains(&flag)), "{name}");
        }
        let is_complete = |row: &&RecordQuestion| !row.question.key.is_empty() && !row.recorders.is_empty();
        assert_eq!(OF_RECORDS.iter().filter(is_complete).count(), OF_RECORDS.len());
    }
}
