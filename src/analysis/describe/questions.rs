//! The questions about a trace and about NCCL's own records, as two tables: what each counts, what it needs, and what to turn on to record that.
//!
//! A question is a row; everything that its answer says is in the row. Settings are quoted as written in a program (`torch.profiler.profile`);
//! for exports of Nsight Systems they are options of `nsys profile`.

use serde::Serialize;

use super::sources::SourceRow;
use super::tally::{Having, Tally};
use crate::names::values::{KERNEL_CHANNELS, OPERATIONS, PROXY_STEPS};

/// A question, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Question {
    /// Its name, which stays the same.
    pub name: &'static str,
    /// The question in a few words.
    pub question: &'static str,
    /// What it needs.
    pub key: &'static str,
    /// The command that answers it.
    pub command: &'static str,
    /// Whether it is about several ranks, so that a job with a single rank has no use for it.
    #[serde(skip)]
    pub of_several: bool,
}

/// What a trace must have before a question applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Kernels.
    Kernels,
    /// Operators.
    Operators,
    /// Nothing: either the trace has what the question asks for, or it does not.
    Trace,
    /// Kernels, but only NCCL's own records have the answer.
    Records,
}

/// A question about a trace.
#[derive(Clone, Copy)]
pub(super) struct TraceQuestion {
    pub(super) question: Question,
    pub(super) basis: Basis,
    /// What is counted, and how many there are.
    pub(super) unit: &'static str,
    pub(super) count: fn(&Tally) -> u64,
    /// How many of these have what the question needs.
    pub(super) having: fn(&Tally) -> Having,
    /// What to turn on to record it, in PyTorch and in Nsight Systems.
    pub(super) turn_on: &'static str,
    pub(super) nsys: Option<&'static str>,
    /// What has it where a graph replays a kernel.
    pub(super) replayed: Option<&'static str>,
    /// The header field that shows that it was asked for.
    pub(super) flag: Option<&'static str>,
    /// Whether the trace shows that it was asked for, even if the header does not.
    pub(super) is_seen: fn(&Tally, &Having) -> bool,
    /// Advice of its own if nothing has it, by whether the flag was on.
    pub(super) without: fn(&Tally, bool) -> Option<Advice>,
    /// Why some lack it although it was asked for; for kernels, why those lack it that no common reason explains.
    pub(super) although: fn(&Tally) -> &'static str,
}

/// A question about records.
#[derive(Clone, Copy)]
pub(super) struct RecordQuestion {
    pub(super) question: Question,
    /// What is counted, how many of these in a source have what the question needs, and how many there are.
    pub(super) unit: &'static str,
    pub(super) share: fn(&SourceRow) -> (u64, u64),
    /// What records it.
    pub(super) recorders: &'static [Recorder],
    /// The events of a recording's plugin that have it. Where they were asked for, asking again is useless.
    pub(super) events: u64,
}

/// Why something is not recorded, and what to turn on.
pub(super) type Advice = (&'static str, Option<&'static str>);

/// What records something, and how to use it.
pub type Recorder = (&'static str, &'static str);

/// What to turn on to record kernels, and how to do so with Nsight Systems.
pub(super) const KERNELS_ON: &str = "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]";
pub(super) const NSYS_KERNELS_ON: &str = "--trace=cuda";

/// What to turn on to record operators, and how to do so with Nsight Systems.
pub(super) const OPERATORS_ON: &str = "ProfilerActivity.CPU among the activities";
pub(super) const NSYS_OPERATORS_ON: &str = "--pytorch=autograd-nvtx";

/// What to turn on to record Python functions, and modules with them: `with_modules=True` records those of TorchScript only.
const STACKS_ON: &str = "with_stack=True";

/// How to get the sizes of collectives that a graph replays.
pub(super) const RECORDS_ON: &str =
    "NCCL's own records of the same job (nccl-stacks record, NCCL Inspector), given with --records";

/// What records a hang.
const HANG_ON: &str = "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1 for dumps of the flight recorder, \
                       or nccl-stacks record";

/// Why collectives have no parameters where others have.
const NO_RECORD: &str = "without a record of PyTorch (another library's kernels, a size that is not recorded)";

/// The recorders that several questions name.
const RECORD: &str = "nccl-stacks record";
const INSPECTOR: &str = "NCCL Inspector";
const FLIGHT_RECORDER: &str = "the flight recorder";

/// All questions about a trace in display order.
pub(super) const OF_TRACES: &[TraceQuestion] = &[
    ask("launch", "Which call launched a kernel", "correlation, flows or External id")
        .kernels(|t| t.call.clone())
        .turn_on(KERNELS_ON)
        .seen(|t, _| t.runtime_calls > 0)
        .nsys(NSYS_KERNELS_ON),
    ask("python-stack", "From which Python code", "python_function slices above the launch")
        .kernels(|t| t.python.clone())
        .stacks()
        .nsys("ranges of your own: torch.cuda.nvtx.range_push(\"…\")")
        .although(|_| "on threads without Python"),
    ask("operator", "By which operator", "cpu_op slices above the launch")
        .by("nccl-stacks TRACE --group-by op")
        .kernels(|t| t.operator.clone())
        .turn_on(OPERATORS_ON)
        .seen(|t, _| t.operators > 0)
        .nsys(NSYS_OPERATORS_ON)
        .although(|_| "by no operator (compiled code and C++ call the runtime directly)"),
    ask("module", "By which module", "nn.Module frames above the launch, or Module Hierarchy")
        .by("nccl-stacks TRACE --group-by module")
        .kernels(|t| t.module.clone())
        .stacks()
        .although(|_| "outside of any nn.Module"),
    ask("shape", "By input shape", "Input Dims")
        .by("nccl-stacks TRACE --group-by op,shape")
        .operators(|t| t.dims.into())
        .shapes(|t| without_inputs(t, t.dims, "")),
    ask("layout", "By memory layout", "Input Strides")
        .by("nccl-stacks sql TRACE --query operator_layouts")
        .operators(|t| t.strides.into())
        .shapes(|t| without_inputs(t, t.strides, "this version writes no strides; a newer PyTorch does")),
    ask("concrete-inputs", "By values of scalar inputs", "Concrete Inputs")
        .by("nccl-stacks sql TRACE --query operator_values")
        .operators(|t| t.concrete.into())
        .shapes(|t| without_inputs(t, t.concrete, "this version writes no values; a newer PyTorch does")),
    ask("forward-backward", "Pairs of forward and backward", "Sequence number and Fwd thread id, or fwdbwd flows")
        .by("nccl-stacks sql TRACE --query pairs")
        .operators(|t| t.paired.into())
        .among("operators of the backward pass", |t| t.backward_operators)
        .turn_on("record the forward pass of the same steps: a schedule of whole steps"),
    ask(
        "backward-stack",
        "Forward code of the backward pass",
        "Python functions above the operator of the forward pass",
    )
    .by("nccl-stacks TRACE --group-by forward")
    .kernels(|t| t.backward_python.into())
    .among("kernels of the backward pass", |t| t.backward)
    .stacks()
    .although(|_| "their forward operators are not in the trace, or no Python function is above them"),
    ask("graph-capture", "Who put a kernel into its graph", "a trace of the capture")
        .by("nccl-stacks TRACE --capture-trace CAPTURE")
        .kernels(|t| t.captured.into())
        .among("kernels that graphs replay", |t| t.replayed)
        .turn_on("profile the capture of the CUDA graphs too, and give that trace with --capture-trace")
        .seen(|t, _| t.captured > 0)
        .although(|_| "the others have no capture here, or captures that disagree"),
    ask("exposed", "Exposed time, and what overlaps", "kernels of collectives and other kernels on their GPU")
        .collectives(|t| if t.kernels > t.collectives { t.collectives.into() } else { 0.into() })
        .turn_on("keep all kernels; this file has only those of collectives")
        .nsys("--trace=cuda, with all kernels kept"),
    ask("size", "Sizes and bandwidths of collectives", "In msg nelems, Out msg nelems, dtype, Group size")
        .by("nccl-stacks TRACE --group-by collective,size")
        .collectives(|t| t.sized.clone())
        .parameters()
        .although(|_| NO_RECORD),
    ask("group", "Which process group", "Process Group Name, Process Group Ranks, Group size")
        .by("nccl-stacks TRACE --group-by group")
        .collectives(|t| t.grouped.clone())
        .parameters()
        .although(|_| NO_RECORD),
    ask("sequence", "The number of a collective in its group", "Seq")
        .by("nccl-stacks sql TRACE 'SELECT * FROM collective'")
        .collectives(|t| t.numbered.clone())
        .parameters()
        .turn_on("PyTorch from March 2026 or newer, which writes Seq to kernels")
        // Only kernels replayed by a graph have no Seq in any version.
        .seen(|t, having| having.have > 0 || t.replayed_collectives == t.collectives)
        .although(|_| "without a record of PyTorch"),
    ask("ranks", "Who waits for whom", "the rank of the trace, and the traces of the other ranks")
        .by("nccl-stacks ranks TRACES")
        .of_several()
        .collectives(|t| if t.rank.is_some() || t.ranks.len() > 1 { t.collectives.into() } else { 0.into() })
        .turn_on("a header with the rank: init_process_group before the profiler; or give it: --rank 3=TRACE")
        .nsys("the rank, which is not in this file: --rank 3=TRACE"),
    ask("hang", "On which ranks a job hangs", "NCCL's own records; a trace is written when the profiler stops")
        .by("nccl-stacks hang DUMPS")
        .of_several()
        .counts(Basis::Records, "collectives", |t| t.collectives)
        .turn_on(HANG_ON),
    ask("steps", "A window for each step", "ProfilerStep#N, or a function that runs a step")
        .by("nccl-stacks TRACE --group-by step")
        .kernels(|t| t.in_steps.into())
        .turn_on("schedule=torch.profiler.schedule(…), with profiler.step() after each step")
        .seen(|t, _| !t.steps.of.is_empty())
        .nsys("a range for each step: torch.cuda.nvtx.range_push(\"train_step\")")
        .although(|_| "the others are launched outside of steps"),
    ask("annotations", "Ranges of your own", "user_annotation or NVTX slices")
        .by("nccl-stacks TRACE --group-by annotation")
        .counts(Basis::Trace, "annotations", |t| t.annotations)
        .turn_on("torch.profiler.record_function(\"…\") around what matters")
        .nsys("--trace=cuda,nvtx, and torch.cuda.nvtx.range_push(\"…\")"),
    ask("memory", "Memory over time", "[memory] events")
        .by("nccl-stacks sql TRACE --query memory")
        .counts(Basis::Trace, "memory events", |t| t.memory_events)
        .turn_on("profile_memory=True")
        .flag("profile_memory")
        .although(|_| "nothing was allocated or freed while it was recorded"),
    ask("counters", "Counters of the processor", "performance_events")
        .by("nccl-stacks sql TRACE --query operator_counters")
        .counts(Basis::Trace, "operators with counters", |t| t.counters)
        .turn_on("experimental_config=_ExperimentalConfig(performance_events=[\"cycles\", \"instructions\"])"),
];

/// All questions about records in display order.
pub(super) const OF_RECORDS: &[RecordQuestion] = &[
    ask("hang", "Whether the job hangs, and on which ranks", "how far operations got, or counts of each rank")
        .by("nccl-stacks hang FILES")
        .of_several()
        .in_records("operations", |row| match row.source {
            // A flow extractor only plans.
            "flow" => (0, 0),
            "ras" => (row.counted_ranks, row.counted_ranks),
            _ if row.operations == 0 => (row.counted_ranks, row.counted_ranks),
            _ => (row.stated.max(row.numbered).max(row.enqueued), row.looked_at),
        })
        .recorders(&[
            (RECORD, ""),
            (FLIGHT_RECORDER, "with TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1"),
        ]),
    ask("late", "Who enters NCCL late", "when collectives were enqueued, of several ranks")
        .by("nccl-stacks ranks FILES")
        .of_several()
        .in_records("collectives", |row| (row.comparable, row.collectives))
        .recorders(&[(RECORD, ""), ("Megatrace", "")]),
    ask("time", "How long operations took", "start and end, or a time of execution")
        .by("nccl-stacks records FILES")
        .in_records("operations", |row| (row.timed, row.looked_at))
        .events(KERNEL_CHANNELS)
        .recorders(&[
            (RECORD, "with its kernel channels"),
            (INSPECTOR, ""),
            ("a profiler plugin", ""),
            (FLIGHT_RECORDER, "with TORCH_NCCL_ENABLE_TIMING=1"),
        ]),
    ask("size", "Sizes and bandwidths", "the size of operations")
        .by("nccl-stacks records FILES")
        .in_records("operations", |row| (row.sized, row.looked_at))
        .recorders(&[(RECORD, ""), (INSPECTOR, "")]),
    ask("algorithm", "Which algorithm and protocol", "algorithm and protocol of operations")
        .by("nccl-stacks records FILES --format table")
        .in_records("operations", |row| (row.algorithms, row.looked_at))
        .events(OPERATIONS)
        .recorders(&[
            (RECORD, "with the plugin's events"),
            (INSPECTOR, "(verbose)"),
            ("NCCL's log", "with NCCL_DEBUG_SUBSYS=TUNING"),
        ]),
    ask("proxies", "What the proxy threads waited for", "steps of proxy operations")
        .by("nccl-stacks records FILES --format table")
        .in_records("steps", |row| (row.proxy_steps, row.proxy_steps))
        .events(PROXY_STEPS)
        .recorders(&[(RECORD, "--events coll,p2p,proxy-ops,proxy-steps"), ("NCCL's example profiler plugin", "")]),
    ask("call-path", "From which code", "a call path of operations")
        .by("nccl-stacks hang FILES, or beside a trace: nccl-stacks TRACE --records FILES")
        .in_records("operations", |row| (row.call_paths, row.looked_at))
        .recorders(&[(FLIGHT_RECORDER, "with stack traces"), ("a trace of the same job", "given with --records")]),
    ask("join", "Which kernel of a trace it was", "numbers or times of operations")
        .by("nccl-stacks TRACE --records FILES")
        .in_records("operations", |row| match row.source {
            "flow" | "ras" => (0, 0),
            _ => (row.numbered.max(row.enqueued).max(row.started), row.looked_at),
        })
        .recorders(&[(RECORD, "beside torch.profiler")]),
    ask("plan", "Which data goes where, as planned", "the flow extractor's steps")
        .by("nccl-stacks records FILES")
        .in_records("planned steps", |row| (row.flow_steps, row.flow_steps))
        .recorders(&[("the flow extractor", "")]),
];

const fn ask(name: &'static str, question: &'static str, key: &'static str) -> Question {
    Question { name, question, key, command: "nccl-stacks TRACE", of_several: false }
}

/// Commands of the main answer, and what they are in a trace without collectives: they ask for these unless an option says otherwise.
macro_rules! with_all_kernels {
    ($($options:literal)*) => {
        &[$((
            concat!("nccl-stacks TRACE", $options),
            concat!("nccl-stacks TRACE", $options, " --kernel-name '*'"),
        )),*]
    };
}
const WITH_ALL_KERNELS: &[(&str, &str)] = with_all_kernels![
    "" " --group-by op" " --group-by module" " --group-by op,shape" " --group-by forward" " --group-by step" " --group-by annotation"
    " --capture-trace CAPTURE"
];

/// The command for annotations in a trace without kernels.
const ANNOTATIONS_ALONE: &str = "nccl-stacks sql TRACE \"SELECT name, count(*), sum(dur) FROM slice WHERE category = 'user_annotation' GROUP BY name\"";

impl Question {
    /// The question with the command that answers it for a trace with or without kernels and collectives.
    pub(super) fn of_trace(self, has_kernels: bool, has_collectives: bool) -> Self {
        let known = WITH_ALL_KERNELS.iter().find(|(command, _)| *command == self.command && !has_collectives);
        match known {
            Some(_) if self.name == "annotations" && !has_kernels => Question { command: ANNOTATIONS_ALONE, ..self },
            Some((_, with_all)) => Question { command: with_all, ..self },
            None => self,
        }
    }

    const fn by(self, command: &'static str) -> Self {
        Question { command, ..self }
    }

    const fn of_several(self) -> Self {
        Question { of_several: true, ..self }
    }

    const fn counts(self, basis: Basis, unit: &'static str, count: fn(&Tally) -> u64) -> TraceQuestion {
        TraceQuestion {
            question: self,
            basis,
            unit,
            count,
            having: |_| Having::from(0),
            turn_on: "",
            nsys: None,
            replayed: None,
            flag: None,
            is_seen: |_, _| false,
            without: |_, _| None,
            although: |_| "",
        }
    }

    const fn kernels(self, having: fn(&Tally) -> Having) -> TraceQuestion {
        TraceQuestion { having, ..self.counts(Basis::Kernels, "kernels", |t| t.kernels) }
    }

    const fn operators(self, having: fn(&Tally) -> Having) -> TraceQuestion {
        TraceQuestion { having, ..self.counts(Basis::Operators, "operators", |t| t.operators) }
    }

    const fn collectives(self, having: fn(&Tally) -> Having) -> TraceQuestion {
        TraceQuestion { having, ..self.counts(Basis::Kernels, "collectives", |t| t.collectives) }
    }

    const fn in_records(self, unit: &'static str, share: fn(&SourceRow) -> (u64, u64)) -> RecordQuestion {
        RecordQuestion { question: self, unit, share, recorders: &[], events: 0 }
    }
}

impl TraceQuestion {
    const fn among(self, unit: &'static str, count: fn(&Tally) -> u64) -> Self {
        TraceQuestion { unit, count, ..self }
    }

    const fn turn_on(self, turn_on: &'static str) -> Self {
        TraceQuestion { turn_on, ..self }
    }

    const fn nsys(self, nsys: &'static str) -> Self {
        TraceQuestion { nsys: Some(nsys), ..self }
    }

    const fn flag(self, flag: &'static str) -> Self {
        TraceQuestion { flag: Some(flag), ..self }
    }

    const fn seen(self, is_seen: fn(&Tally, &Having) -> bool) -> Self {
        TraceQuestion { is_seen, ..self }
    }

    const fn although(self, although: fn(&Tally) -> &'static str) -> Self {
        TraceQuestion { although, ..self }
    }

    /// It needs Python functions.
    const fn stacks(self) -> Self {
        TraceQuestion {
            without: without_frames,
            ..self.turn_on(STACKS_ON).flag("with_stack").seen(|t, _| t.frames > 0)
        }
    }

    /// It needs the inputs of operators.
    const fn shapes(self, although: fn(&Tally) -> &'static str) -> Self {
        self.turn_on("record_shapes=True").flag("record_shapes").seen(|t, _| t.dims > 0).although(although)
    }

    /// It needs the parameters of collectives.
    const fn parameters(self) -> Self {
        let turn_on = "PyTorch from 2024 or newer, which records the parameters of collectives (record_param_comms)";
        TraceQuestion { turn_on, replayed: Some(RECORDS_ON), ..self.seen(|_, having| having.is_recorded()) }
    }

    /// What to turn on if the trace has nothing of its basis.
    pub(super) fn missing_basis(&self, tally: &Tally) -> Option<&'static str> {
        match self.basis {
            Basis::Kernels | Basis::Records if tally.kernels == 0 => Some(KERNELS_ON),
            Basis::Operators if tally.operators == 0 => Some(OPERATORS_ON),
            _ => None,
        }
    }
}

impl RecordQuestion {
    const fn events(self, events: u64) -> Self {
        RecordQuestion { events, ..self }
    }

    const fn recorders(self, recorders: &'static [Recorder]) -> Self {
        RecordQuestion { recorders, ..self }
    }
}

/// PyTorch follows Python only if it records the CPU, and advises verbosity if `with_stack` alone records nothing. Older writers have a text.
fn without_frames(t: &Tally, is_on: bool) -> Option<Advice> {
    const AS_TEXT: &str = "operators have a Call stack as text, which sql shows but stacks do not use";
    const NO_FRAMES: &str = "no Python function was recorded";
    const VERBOSE_ON: &str = "with_stack=True with experimental_config=_ExperimentalConfig(verbose=True)";
    match (is_on, t.call_stacks, t.operators) {
        _ if t.frames > 0 || t.kernels == 0 => None,
        (false, 0, _) => None,
        (false, ..) => Some((AS_TEXT, Some(STACKS_ON))),
        (true, 0, 0) => Some((NO_FRAMES, Some(OPERATORS_ON))),
        (true, 0, _) => Some((NO_FRAMES, Some(VERBOSE_ON))),
        (true, ..) => Some((AS_TEXT, None)),
    }
}

/// Why operators lack an argument of their inputs; `older`: why all lack it although they have shapes.
fn without_inputs(t: &Tally, have: u64, older: &'static str) -> &'static str {
    match (have, t.dims) {
        (0, 0) => "no operator has Input Dims",
        (0, _) => older,
        _ => "the others have no inputs, or are the profiler's own",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::names::described::FLAGS;

    /// A question that a trace cannot answer gives a hint, whatever was on.
    #[test]
    fn every_question_has_a_name_and_a_hint() {
        let names: BTreeSet<&str> = OF_TRACES.iter().map(|row| row.question.name).collect();
        assert_eq!(names.len(), OF_TRACES.len());
        for TraceQuestion { question: Question { name, question, key, .. }, turn_on, flag, although, .. } in OF_TRACES {
            assert!(![*name, question, key, turn_on].contains(&""), "{name}");
            let is_explained = !although(&Tally::default()).is_empty();
            assert!(flag.is_none_or(|flag| FLAGS.contains(&flag) && is_explained), "{name}");
        }
        let is_complete = |row: &&RecordQuestion| !row.question.key.is_empty() && !row.recorders.is_empty();
        assert_eq!(OF_RECORDS.iter().filter(is_complete).count(), OF_RECORDS.len());
    }
}
