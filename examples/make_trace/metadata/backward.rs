//! The backward pass of the training steps, on autograd's thread, with the collectives of its gradients, followed by the optimizer.

use super::forward::{LINEARS, output_block, output_bytes, sequence};
use super::writer::{AUTOGRAD, At, COMMS, COMPUTE, Habit, MAIN, Op, Pass, Trace, tensor};
use crate::tiny::{ALL_REDUCE, GEMM};

/// The derivative of an operator.
struct Node {
    name: &'static str,
    /// The index of the forward operator in the step.
    place: u32,
    /// Start and duration of the engine's slice. The node's own slice is shorter by 10 at both ends.
    at: At,
    /// Start of the forward operator that a flow leads to, if any.
    forward: Option<u32>,
    does: Does,
}

enum Does {
    /// Whether it launches a kernel itself, 30 after its start.
    Kernel(&'static str, At),
    /// The layer of its matrix product, which is launched 40 after its start, if any.
    Product(usize, At),
    /// Its collective, which is launched 60 after its start, if any.
    AllReduce(At),
}

/// In the order in which they run. The flow to the second layer begins at the inner one of its two operators.
const NODES: [Node; 7] = [
    Node {
        name: "MseLossBackward0",
        place: 6,
        at: (2_800, 100),
        forward: Some(2_630),
        does: Does::Kernel("mse_backward_kernel", (2_850, 10)),
    },
    Node {
        name: "AddmmBackward0",
        place: 5,
        at: (2_920, 180),
        forward: Some(1_460),
        does: Does::Product(3, (2_980, 100)),
    },
    Node {
        name: "AddmmBackward0",
        place: 4,
        at: (3_200, 200),
        forward: Some(1_280),
        does: Does::Product(2, (3_260, 300)),
    },
    Node {
        name: "_CopyToRegionBackward",
        place: 3,
        at: (3_700, 200),
        forward: Some(1_220),
        does: Does::AllReduce((3_780, 50)),
    },
    Node {
        name: "GeluBackward0",
        place: 2,
        at: (4_000, 100),
        forward: Some(720),
        does: Does::Kernel("gelu_backward_kernel", (4_050, 30)),
    },
    Node {
        name: "AddmmBackward0",
        place: 1,
        at: (4_200, 200),
        forward: Some(540),
        does: Does::Product(1, (4_260, 100)),
    },
    Node { name: "AddmmBackward0", place: 0, at: (4_500, 200), forward: None, does: Does::Product(0, (4_560, 100)) },
];

/// The record of a collective.
struct Collective {
    elements: &'static str,
    number: String,
}

/// The backward pass of a step.
pub(super) fn run(trace: &mut Trace, number: u32) {
    for node in &NODES {
        derivative(trace, number, node);
        match node.place {
            5 => gradient(trace, (3_110, 30)),
            4 => bucket(
                trace,
                3_420,
                (3_520, 200),
                &Collective { elements: "8192", number: (3 * number + 1).to_string() },
            ),
            1 => gradient(trace, (4_410, 30)),
            0 => bucket(
                trace,
                4_720,
                (4_820, 100),
                &Collective { elements: "4096", number: (3 * number + 3).to_string() },
            ),
            _ => {}
        }
    }
    if number == 0 {
        // The forward operator ran before the recording began.
        let at = (5_000, 100);
        single(trace, "ToCopyBackward0", 93, at, ("to_copy_kernel", (5_050, 10)));
        if trace.habit == Habit::XSigma {
            single(trace, "ConvolutionBackward0", 42, (5_200, 100), ("conv2d_backward_kernel", (5_250, 50)));
        }
    }
}

/// The engine's slice and the node's slice in it; returns the node's External id.
fn node(trace: &mut Trace, name: &str, sequence: u32, (start, length): At) -> u32 {
    let (lane, pass) = (AUTOGRAD, Pass::Backward(sequence));
    let engine = format!("autograd::engine::evaluate_function: {name}");
    trace.op(&Op { name: &engine, lane, at: (start, length), pass, ..Op::default() });
    let inputs = [tensor("[128, 64]", "[64, 1]")];
    trace.op(&Op { name, lane, at: (start + 10, length - 20), pass, inputs: &inputs, ..Op::default() })
}

fn single(trace: &mut Trace, name: &str, sequence: u32, at: At, (kernel, run): (&str, At)) {
    let op = node(trace, name, sequence, at);
    trace.launch(AUTOGRAD, at.0 + 30, op, (kernel, COMPUTE, run), &[]);
}

fn derivative(trace: &mut Trace, number: u32, spec: &Node) {
    let start = spec.at.0;
    let op = node(trace, spec.name, sequence(number, spec.place), spec.at);
    // XSigma's file has no such flows. In the second step, GELU's flow begins at a different operator than its number says.
    if let (Some(forward), Habit::PyTorch) = (spec.forward, trace.habit) {
        let is_wrong = number == 1 && spec.name == "GeluBackward0";
        trace.forward_backward(if is_wrong { LINEARS[2].start + 20 } else { forward }, start + 10);
    }
    match spec.does {
        Does::Kernel(kernel, run) => {
            trace.launch(AUTOGRAD, start + 30, op, (kernel, COMPUTE, run), &[]);
            let (block, bytes) = if spec.place == 6 { (30, 1_000) } else { (20, 5_000) };
            trace.memory(AUTOGRAD, start + 80, block, -bytes);
        }
        Does::Product(index, run) => {
            let inputs = [tensor("[128, 64]", "[64, 1]"), tensor("[64, 64]", "[64, 1]")];
            let at = (start + 20, 60);
            let op = trace.op(&Op { name: "aten::mm", lane: AUTOGRAD, at, inputs: &inputs, ..Op::default() });
            trace.launch(AUTOGRAD, start + 40, op, (GEMM, COMPUTE, run), &[]);
            let layer = &LINEARS[index];
            trace.memory(AUTOGRAD, start + 100, output_block(layer), -output_bytes(number, layer));
        }
        Does::AllReduce(run) => {
            let collective = Collective { elements: "2048", number: (3 * number + 2).to_string() };
            all_reduce(trace, start + 20, run, &collective);
        }
    }
}

/// The engine adds a gradient to the parameter's gradient.
fn gradient(trace: &mut Trace, (start, length): At) {
    let name = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad";
    trace.op(&Op { name, lane: AUTOGRAD, at: (start, length), ..Op::default() });
    let inputs = [tensor("[64, 64]", "[64, 1]")];
    let at = (start + 5, 15);
    trace.op(&Op { name: "torch::autograd::AccumulateGrad", lane: AUTOGRAD, at, inputs: &inputs, ..Op::default() });
}

/// The same for the last gradient of a bucket: DDP's hook sends the bucket after the node, within the engine's slice.
fn bucket(trace: &mut Trace, start: u32, run: At, collective: &Collective) {
    gradient(trace, (start, 180));
    all_reduce(trace, start + 30, run, collective);
}

/// A collective that begins at `start` and is launched 50 after it (40 in a node).
fn all_reduce(trace: &mut Trace, start: u32, run: At, collective: &Collective) {
    let Collective { elements, number } = collective;
    let more = [
        ("Collective name", r#""allreduce""#),
        ("dtype", r#""Float""#),
        ("In msg nelems", *elements),
        ("Out msg nelems", *elements),
        ("Group size", "2"),
        ("Process Group Name", r#""0""#),
        ("Process Group Description", r#""default_pg""#),
        ("Process Group Ranks", r#""[0, 1]""#),
        ("In split size", r#""[]""#),
        ("Out split size", r#""[]""#),
        ("Rank", "0"),
        ("Seq", number.as_str()),
    ];
    trace.op(&Op { name: "c10d::allreduce_", lane: AUTOGRAD, at: (start, 140), ..Op::default() });
    let at = (start + 10, 120);
    let op = trace.op(&Op { name: "record_param_comms", lane: AUTOGRAD, at, more: &more, ..Op::default() });
    trace.annotation("nccl:all_reduce", AUTOGRAD, (start + 20, 100));
    // PyTorch copies these arguments to the kernel, but not the rank.
    let at_kernel: Vec<(&str, &str)> = more.iter().filter(|(key, _)| *key != "Rank").copied().collect();
    trace.launch(AUTOGRAD, run.0 - 20, op, (ALL_REDUCE, COMMS, run), &at_kernel);
}

/// The optimizer. It frees what the first operator allocated, and allocates a little CPU memory in the first step.
pub(super) fn update(trace: &mut Trace, number: u32) {
    trace.annotation("Optimizer.step#SGD.step", MAIN, (6_100, 200));
    let inputs = [tensor("[64, 64]", "[64, 1]")];
    let op = trace.op(&Op { name: "aten::_foreach_add_", at: (6_120, 60), inputs: &inputs, ..Op::default() });
    trace.launch(MAIN, 6_140, op, ("foreach_add_kernel", COMPUTE, (6_160, 40)), &[]);
    if number == 0 {
        trace.memory_event(MAIN, 6_150, 94_000_000_000_000, 512, (512, 0), (0, -1));
    }
    trace.memory(MAIN, 6_170, 1, -10_000);
}
