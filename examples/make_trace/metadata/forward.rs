//! The forward pass of the training steps: a network of two blocks of two layers, each with its shapes, counters and memory.

use super::writer::{At, COMPUTE, Habit, Input, MAIN, Op, Pass, Trace, scalar, scalars, tensor};
use crate::tiny::GEMM;

/// The number of steps, and the number of the first step.
pub(super) const STEPS: u32 = 2;
pub(super) const FIRST_STEP: u32 = 3;

/// The sequence number of an operator: its index in the step, plus 100 in the first step and 110 in the second.
pub(super) fn sequence(step: u32, place: u32) -> u32 {
    100 + 10 * step + place
}

/// A linear layer, with the index of its number in the step.
pub(super) struct Linear {
    pub(super) module: u32,
    pub(super) place: u32,
    /// Start of the module's frame.
    pub(super) start: u32,
    run: At,
    counters: &'static [(&'static str, &'static str)],
    /// Whether its input is the transpose of a matrix.
    is_transposed: bool,
}

/// Another operator with the same sequence number precedes the second layer, so its module's frame is longer by 40.
pub(super) const LINEARS: [Linear; 4] = [
    Linear { module: 0, place: 0, start: 320, run: (420, 100), counters: &FAST, is_transposed: false },
    Linear { module: 1, place: 1, start: 500, run: (620, 100), counters: &TWO, is_transposed: false },
    Linear { module: 2, place: 4, start: 1_260, run: (1_360, 400), counters: &SLOW, is_transposed: true },
    Linear { module: 3, place: 5, start: 1_440, run: (1_760, 100), counters: &[], is_transposed: false },
];

/// Instructions, cycles and misses: of a layer that computes, of one that waits for memory, of one with only two counters, and of an operator
/// whose counters did not advance.
const FAST: [(&str, &str); 5] = [
    ("instructions", "2000000"),
    ("cycles", "1000000"),
    ("cache_references", "10000"),
    ("cache_misses", "500"),
    ("branch_misses", "4000"),
];
const SLOW: [(&str, &str); 5] = [
    ("instructions", "1000000"),
    ("cycles", "2000000"),
    ("cache_references", "40000"),
    ("cache_misses", "20000"),
    ("branch_misses", "1000"),
];
const TWO: [(&str, &str); 2] = [("instructions", "3000000"), ("cycles", "1500000")];
const ZERO: [(&str, &str); 4] =
    [("instructions", "0"), ("cycles", "0"), ("cache_references", "0"), ("cache_misses", "0")];

const ACTIVATION: Input = tensor("[128, 64]", "[64, 1]");
const TRANSPOSED: Input = tensor("[128, 64]", "[1, 128]");
const WEIGHT: Input = tensor("[64, 64]", "[64, 1]");

/// The forward pass of a step, below the Python function `step`.
pub(super) fn run(trace: &mut Trace, number: u32, step: u32) {
    if trace.habit == Habit::XSigma && number == 0 {
        convolution(trace);
    }
    let net = trace.python("nn.Module: Net_0", (100, 2_500), step, Some(0));
    let forward = trace.python("model.py(40): forward", (110, 2_480), net, None);
    pads(trace, number);
    let factor = if number == 0 { "0.125" } else { "1024." };
    let inputs = [ACTIVATION, scalar(factor)];
    let place = Some(("net", "main;train_step;net_forward"));
    let op = trace.op(&Op { name: "aten::mul", at: (220, 40), inputs: &inputs, place, ..Op::default() });
    trace.launch(MAIN, 230, op, ("mul_kernel", COMPUTE, (250, 5)), &[]);
    let block = trace.python("nn.Module: Block_0", (300, 900), forward, Some(0));
    let frame = trace.python("model.py(20): forward", (310, 880), block, None);
    linear(trace, number, &LINEARS[0], frame);
    linear(trace, number, &LINEARS[1], frame);
    gelu(trace, number);
    let block = trace.python("nn.Module: Block_1", (1_200, 1_200), forward, Some(1));
    let frame = trace.python("model.py(20): forward", (1_210, 1_180), block, None);
    copy(trace, number);
    linear(trace, number, &LINEARS[2], frame);
    linear(trace, number, &LINEARS[3], frame);
    triton(trace);
    trace.python("train.py(30): loss", (2_620, 80), step, None);
    loss(trace, number);
}

/// The operator in XSigma's guide, value by value.
fn convolution(trace: &mut Trace) {
    let op = trace.op(&Op {
        name: "aten::conv2d",
        at: (40, 50),
        pass: Pass::Forward(42),
        place: Some(("model.encoder.layer1.conv1", "forward;encode;conv_block")),
        more: &[
            ("Record function id", "12345"),
            ("Input Dims", "[[128, 256, 14, 14], [256, 256, 3, 3]]"),
            ("Input type", r#"["Float", "Float"]"#),
            ("Input Strides", "[[50176, 196, 14, 1], ...]"),
            ("Concrete Inputs", "[tensor([[...]]), ...]"),
            ("stride", "[1, 1]"),
            ("padding", "[1, 1]"),
            ("groups", "1"),
            ("cache_misses", "12345"),
        ],
        ..Op::default()
    });
    trace.launch(MAIN, 60, op, ("conv2d_kernel", COMPUTE, (70, 25)), &[]);
}

/// Inputs of three lengths, padded to the same length: two in the first step, one in the second.
fn pads(trace: &mut Trace, number: u32) {
    let calls: &[(&str, &str, &str, At, At)] = match number {
        0 => &[
            ("[4, 100]", "[100, 1]", "[0, 28]", (120, 40), (150, 10)),
            ("[4, 117]", "[117, 1]", "[0, 11]", (170, 40), (200, 12)),
        ],
        _ => &[("[4, 90]", "[90, 1]", "[0, 38]", (120, 40), (150, 8))],
    };
    for (index, &(dims, strides, widths, at, run)) in calls.iter().enumerate() {
        let inputs = [tensor(dims, strides), scalars(widths), scalar("0.")];
        let place = Some(("net", "main;train_step;net_forward"));
        let op = trace.op(&Op { name: "aten::constant_pad_nd", at, inputs: &inputs, place, ..Op::default() });
        if index == 0 {
            trace.memory(MAIN, 125, 1, 10_000);
        }
        trace.launch(MAIN, at.0 + 10, op, ("pad_kernel", COMPUTE, run), &[]);
    }
}

/// The size of a layer's output in bytes.
pub(super) fn output_bytes(number: u32, linear: &Linear) -> i64 {
    match (linear.module, number) {
        (2, 0) => 40_000,
        (2, _) => 60_000,
        _ => 20_000,
    }
}

/// The number of the memory block with a layer's output.
pub(super) fn output_block(linear: &Linear) -> u64 {
    u64::from(10 + linear.module)
}

fn linear(trace: &mut Trace, number: u32, linear: &Linear, parent: u32) {
    let (index, start) = (linear.module, linear.start);
    let longer = if index == 1 { 40 } else { 0 };
    let module = trace.python(&format!("nn.Module: Linear_{index}"), (start, 160 + longer), parent, Some(index));
    trace.python("torch/nn/modules/linear.py(125): forward", (start + 10, 140 + longer), module, None);
    let activation = if linear.is_transposed { TRANSPOSED } else { ACTIVATION };
    let name = format!("net.block{}.linear{index}", index / 2);
    let stack = "main;train_step;net_forward;block_forward;linear_forward";
    let (pass, place) = (Pass::Forward(sequence(number, linear.place)), Some((name.as_str(), stack)));
    if longer > 0 {
        let inputs = [activation, WEIGHT, tensor("[64]", "[1]")];
        trace.op(&Op { name: "aten::linear", at: (520, 160), pass, inputs: &inputs, place, ..Op::default() });
    }
    let inputs = [tensor("[64]", "[1]"), activation, WEIGHT, scalar("1"), scalar("1")];
    let at = (start + 20 + longer / 2, 120);
    let op =
        trace.op(&Op { name: "aten::addmm", at, pass, inputs: &inputs, place, more: linear.counters, ..Op::default() });
    if linear.is_transposed && number > 0 {
        trace.reserved = 4_000_000;
    }
    trace.memory(MAIN, at.0 + 10, output_block(linear), output_bytes(number, linear));
    trace.launch(MAIN, at.0 + 60, op, (GEMM, COMPUTE, linear.run), &[]);
}

/// PyTorch itself only writes a module and a call stack at TorchScript operators: innermost call first.
fn gelu(trace: &mut Trace, number: u32) {
    let mut more = ZERO.to_vec();
    if trace.habit == Habit::PyTorch {
        more.push(("Module Hierarchy", r#""net.blocks.0""#));
        more.push(("Call stack", r#""activation.py(700): forward;model.py(20): forward""#));
    }
    let op = trace.op(&Op {
        name: "aten::gelu",
        at: (720, 80),
        pass: Pass::Forward(sequence(number, 2)),
        inputs: &[ACTIVATION],
        place: Some(("net.block0", "main;train_step;net_forward;block_forward")),
        more: &more,
        ..Op::default()
    });
    trace.memory(MAIN, 730, 20, 5_000);
    trace.launch(MAIN, 750, op, ("gelu_kernel", COMPUTE, (770, 20)), &[]);
}

/// Tensor parallelism: nothing in the forward pass, an all-reduce in the backward pass. It has an argument of each type.
fn copy(trace: &mut Trace, number: u32) {
    trace.op(&Op {
        name: "_CopyToRegion",
        at: (1_220, 30),
        pass: Pass::Forward(sequence(number, 3)),
        inputs: &[ACTIVATION],
        place: Some(("net.block1", "main;train_step;net_forward;block_forward")),
        more: &[("group_size", "2"), ("scale", "0.5"), ("async_op", "false"), ("axes", r#"["tp", "sp"]"#)],
        ..Op::default()
    });
}

fn triton(trace: &mut Trace) {
    let op = trace.op(&Op {
        name: "triton_poi_fused_gelu_0",
        at: (1_620, 80),
        inputs: &[ACTIVATION, ACTIVATION, scalar("8192")],
        place: Some(("net.block1", "main;train_step;net_forward;block_forward")),
        more: &[
            ("num_warps", "4"),
            ("num_stages", "1"),
            ("stream", "7"),
            ("kernel_backend", r#""triton""#),
            ("kernel_file", r#""/tmp/torchinductor/ab/cab.py""#),
            ("kernel_hash", r#""cab""#),
            ("kernel_kwargs", r#""XBLOCK=1024""#),
        ],
        ..Op::default()
    });
    trace.launch(MAIN, 1_650, op, ("triton_poi_fused_gelu_0", COMPUTE, (1_860, 30)), &[]);
}

fn loss(trace: &mut Trace, number: u32) {
    let more: &[(&str, &str)] = match trace.habit {
        Habit::PyTorch => &[
            ("Module Hierarchy", r#""criterion""#),
            ("Call stack", r#""functional.py(3300): mse_loss;train.py(30): loss""#),
        ],
        Habit::XSigma => &[],
    };
    let op = trace.op(&Op {
        name: "aten::mse_loss",
        at: (2_630, 60),
        pass: Pass::Forward(sequence(number, 6)),
        inputs: &[ACTIVATION, ACTIVATION, scalar("1")],
        place: Some(("criterion", "main;train_step;loss")),
        more,
        ..Op::default()
    });
    trace.memory(MAIN, 2_640, 30, 1_000);
    trace.launch(MAIN, 2_650, op, ("mse_kernel", COMPUTE, (2_670, 5)), &[]);
}
