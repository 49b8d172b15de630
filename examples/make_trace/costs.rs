//! A trace whose costs are round numbers: collectives of known sizes, launched at known times before they run, that compute kernels hide wholly,
//! partly or not at all. The resulting costs are in the `README.md` beside the traces.

use super::tiny::{ALL_GATHER, ALL_REDUCE, CPU, GEMM, REDUCE_SCATTER, STREAM_7, STREAM_20, Tiny};

const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// Where the collectives run.
const WORLD: &str = r#""Group size": 4, "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3]""#;
const PAIR: &str =
    r#""Group size": 2, "Process Group Name": "7", "Process Group Description": "pp", "Process Group Ranks": "[0, 1]""#;

/// The frames of a collective, down to the launching call.
struct Route {
    caller: &'static str,
    function: &'static str,
    operator: &'static str,
    annotation: &'static str,
    kernel: &'static str,
}

const ALL_REDUCES: Route = Route {
    caller: "model.py(50): backward",
    function: "torch/distributed/distributed_c10d.py(2900): all_reduce",
    operator: "c10d::allreduce_",
    annotation: "nccl:all_reduce",
    kernel: ALL_REDUCE,
};

const ALL_GATHERS: Route = Route {
    caller: "model.py(20): forward",
    function: "torch/distributed/distributed_c10d.py(3900): all_gather_into_tensor",
    operator: "c10d::_allgather_base_",
    annotation: "nccl:_all_gather_base",
    kernel: ALL_GATHER,
};

const REDUCE_SCATTERS: Route = Route {
    caller: "optimizer.py(70): step",
    function: "torch/distributed/distributed_c10d.py(4300): reduce_scatter_tensor",
    operator: "c10d::_reduce_scatter_base_",
    annotation: "nccl:_reduce_scatter_base",
    kernel: REDUCE_SCATTER,
};

const SENDS: Route = Route {
    caller: "pipeline.py(40): exchange",
    function: "torch/distributed/distributed_c10d.py(2400): send",
    operator: "c10d::send",
    annotation: "nccl:send 0->1",
    kernel: SEND_RECV,
};

const ALL_TO_ALLS: Route = Route {
    caller: "moe.py(60): dispatch",
    function: "torch/distributed/distributed_c10d.py(4600): all_to_all_single",
    operator: "c10d::alltoall_base_",
    annotation: "nccl:all_to_all",
    kernel: SEND_RECV,
};

/// PyTorch's record of a collective: the elements of this rank's input and output.
fn record(name: &str, given: u32, got: u32, group: &str) -> String {
    format!(
        r#""Collective name": "{name}", "dtype": "BFloat16", "In msg nelems": {given}, "Out msg nelems": {got}, {group}"#
    )
}

/// Which events have the record of a collective.
enum Recorded {
    /// The operator and, as in Kineto since 2024, the kernel.
    Everywhere(String),
    /// Only the operator.
    AtOperator(String),
    Nowhere,
}

struct Costs {
    trace: Tiny,
    /// The last correlation id, which is also the last External id.
    last_id: u32,
}

impl Costs {
    /// A collective whose launch begins at `launch` and takes 10, and whose kernel runs at `run`, start and duration.
    fn collective(&mut self, route: &Route, launch: u32, run: (u32, u32), recorded: &Recorded) {
        self.last_id += 1;
        let (id, trace) = (self.last_id, &mut self.trace);
        let (at_operator, at_kernel) = match recorded {
            Recorded::Everywhere(record) => (record.as_str(), record.as_str()),
            Recorded::AtOperator(record) => (record.as_str(), ""),
            Recorded::Nowhere => ("", ""),
        };
        let joined = |args: &str| if args.is_empty() { String::new() } else { format!(", {args}") };
        trace.python(route.caller, (launch - 20, 40));
        trace.python(route.function, (launch - 15, 30));
        trace.op(route.operator, (launch - 10, 22));
        let operator = format!("\"External id\": {id}{}", joined(at_operator));
        trace.slice("cpu_op", "record_param_comms", CPU, (launch - 8, 20), &operator);
        trace.slice("user_annotation", route.annotation, CPU, (launch - 5, 16), "");
        trace.launch("cudaLaunchKernelExC", (launch, 10), id);
        let kernel =
            format!("\"External id\": {id}, \"device\": 0, \"stream\": 20, \"correlation\": {id}{}", joined(at_kernel));
        trace.slice("kernel", route.kernel, STREAM_20, run, &kernel);
        trace.flow('f', STREAM_20, run.0, id);
    }

    /// A matrix product that runs at `run`, start and duration.
    fn compute(&mut self, launch: u32, run: (u32, u32)) {
        self.last_id += 1;
        self.trace.op("aten::mm", (launch - 2, 9));
        self.trace.launch("cudaLaunchKernel", (launch, 5), self.last_id);
        self.trace.kernel(GEMM, STREAM_7, run, self.last_id);
    }

    /// One launch of a graph with two all-reduces, which have no record, and a matrix product beside the second.
    fn replay(&mut self) {
        self.last_id += 1;
        let (id, trace) = (self.last_id, &mut self.trace);
        trace.python("decode.py(30): replay", (1690, 25));
        trace.launch("cudaGraphLaunch", (1700, 10), id);
        trace.kernel(ALL_REDUCE, STREAM_20, (1720, 20), id);
        trace.kernel(ALL_REDUCE, STREAM_20, (1750, 10), id);
        trace.kernel(GEMM, STREAM_7, (1750, 10), id);
    }
}

/// The trace: 2000 µs of one rank of four.
pub(crate) fn trace() -> Vec<u8> {
    run(false)
}

/// The same for a later version of the program: lines moved, a collective takes longer, one is gone and one is new.
pub(crate) fn later() -> Vec<u8> {
    run(true)
}

fn run(later: bool) -> Vec<u8> {
    let all_reduces =
        Route { caller: if later { "model.py(57): backward" } else { ALL_REDUCES.caller }, ..ALL_REDUCES };
    let mut costs = Costs { trace: Tiny::default(), last_id: 100 };
    costs.trace.python("train.py(10): main", (0, 2000));
    // Launched before the recording began.
    costs.trace.unlinked_kernel(ALL_REDUCE, STREAM_20, (10, 10), 3);
    let all_reduce = |elements| Recorded::Everywhere(record("allreduce", elements, elements, WORLD));
    costs.collective(&all_reduces, 70, (100, 100), &all_reduce(5_000_000));
    costs.compute(180, (200, 200));
    costs.collective(&all_reduces, 220, (250, if later { 180 } else { 100 }), &all_reduce(10_000_000));
    costs.collective(&all_reduces, 470, (500, 200), &all_reduce(10_000_000));
    costs.compute(580, (600, 200));
    costs.compute(980, (1000, 100));
    costs.compute(990, (1100, 100));
    // Begins before its launching call has returned, and is hidden by two kernels, one after the other.
    costs.collective(&all_reduces, 1045, (1050, 100), &all_reduce(5_000_000));
    let all_gather = Recorded::AtOperator(record("_allgather_base", 2_000_000, 8_000_000, WORLD));
    costs.collective(&ALL_GATHERS, 1280, (1300, 100), &all_gather);
    costs.collective(&ALL_GATHERS, 1480, (1500, 60), &all_gather);
    if later {
        let save = Route { caller: "checkpoint.py(5): save", ..ALL_GATHERS };
        costs.collective(&save, 1560, (1600, 50), &all_gather);
    } else {
        let reduce_scatter = Recorded::Everywhere(record("_reduce_scatter_base", 16_000_000, 4_000_000, WORLD));
        costs.collective(&REDUCE_SCATTERS, 1560, (1600, 80), &reduce_scatter);
    }
    costs.compute(1640, (1660, 40));
    costs.replay();
    costs.collective(&SENDS, 1785, (1800, 40), &Recorded::Everywhere(record("send", 4_000_000, 4_000_000, PAIR)));
    costs.collective(&SENDS, 1835, (1850, 10), &Recorded::Nowhere);
    let all_to_all = Recorded::Everywhere(record("all_to_allv", 3_000_000, 5_000_000, WORLD));
    costs.collective(&ALL_TO_ALLS, 1885, (1900, 30), &all_to_all);
    costs.trace.finish()
}
