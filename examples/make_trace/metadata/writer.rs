//! Writes events with every key of the profiler's metadata, in the notation of one of two profilers: PyTorch writes numbers and lists as JSON, and
//! XSigma, with the same format, writes each value as a text.

use std::fmt::Write;

use crate::kineto::Lane;

/// The thread that runs the program, and autograd's own.
pub(super) const MAIN: Lane = Lane { pid: 4100, tid: 4100 };
pub(super) const AUTOGRAD: Lane = Lane { pid: 4100, tid: 4117 };
/// The streams for computation and for collectives.
pub(super) const COMPUTE: Lane = Lane { pid: 0, tid: 7 };
pub(super) const COMMS: Lane = Lane { pid: 0, tid: 20 };

/// PyTorch's forward thread of a backward operator: a number that PyTorch counts itself, not the system's thread id.
const PYTORCH_THREAD: &str = "1";
/// XSigma's value for it.
const XSIGMA_THREAD: &str = "140735268359168";

/// The profiler whose notation is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    PyTorch,
    XSigma,
}

/// When a slice runs: start within the step and duration, in microseconds.
pub(super) type At = (u32, u32);

/// The inputs of an operator, each in PyTorch's notation.
#[derive(Clone, Copy)]
pub(super) struct Input {
    /// A list of sizes.
    pub(super) dims: &'static str,
    /// A list of strides.
    pub(super) strides: &'static str,
    /// The type, with XSigma's name for it.
    pub(super) kind: (&'static str, &'static str),
    /// The value of an input that is not a tensor.
    pub(super) concrete: &'static str,
}

const FLOAT: (&str, &str) = ("float", "Float");

/// A tensor of floats.
pub(super) const fn tensor(dims: &'static str, strides: &'static str) -> Input {
    Input { dims, strides, kind: FLOAT, concrete: "" }
}

/// A number.
pub(super) const fn scalar(value: &'static str) -> Input {
    Input { dims: "[]", strides: "[]", kind: ("Scalar", "Scalar"), concrete: value }
}

/// A list of numbers.
pub(super) const fn scalars(list: &'static str) -> Input {
    Input { dims: "[]", strides: "[]", kind: ("ScalarList", "ScalarList"), concrete: list }
}

/// The relation of an operator to the forward pass.
#[derive(Clone, Copy)]
pub(super) enum Pass {
    /// Unknown to autograd.
    None,
    /// A forward operator with this sequence number.
    Forward(u32),
    /// The derivative of the operator with this number.
    Backward(u32),
}

/// An operator.
pub(super) struct Op<'a> {
    pub(super) name: &'a str,
    pub(super) lane: Lane,
    pub(super) at: At,
    pub(super) pass: Pass,
    pub(super) inputs: &'a [Input],
    /// The module and the calls down to the operator, which XSigma writes at each operator that has them.
    pub(super) place: Option<(&'a str, &'a str)>,
    /// Other arguments: key and JSON.
    pub(super) more: &'a [(&'a str, &'a str)],
}

impl Default for Op<'_> {
    fn default() -> Self {
        Op { name: "", lane: MAIN, at: (0, 0), pass: Pass::None, inputs: &[], place: None, more: &[] }
    }
}

/// A trace under construction.
pub(super) struct Trace {
    pub(super) habit: Habit,
    /// The start of the step.
    pub(super) start: u32,
    events: Vec<String>,
    operators: u32,
    pythons: u32,
    indexes: u32,
    correlations: u32,
    flows: u32,
    allocated: i64,
    /// Reserved memory in bytes.
    pub(super) reserved: i64,
}

impl Trace {
    pub(super) fn new(habit: Habit) -> Self {
        Trace {
            habit,
            start: 0,
            events: Vec::new(),
            operators: 0,
            pythons: 0,
            indexes: 0,
            correlations: 0,
            flows: 0,
            allocated: 1_000_000,
            reserved: 2_000_000,
        }
    }

    /// One argument in the profiler's notation; `json` is the value as PyTorch writes it.
    fn arg(&self, key: &str, json: &str) -> String {
        match self.habit {
            Habit::XSigma if !json.starts_with('"') => format!("\"{key}\": \"{}\"", json.replace('"', "'")),
            _ => format!("\"{key}\": {json}"),
        }
    }

    fn args(&self, members: &[(&str, String)]) -> String {
        let members: Vec<String> = members.iter().map(|(key, json)| self.arg(key, json)).collect();
        members.join(", ")
    }

    fn slice(&mut self, category: &str, name: &str, lane: Lane, at: At, members: &[(&str, String)]) {
        let (Lane { pid, tid }, (ts, dur)) = (lane, at);
        let (ts, args) = (ts + self.start, self.args(members));
        self.events.push(format!(
            r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{{args}}}}}"#
        ));
    }

    fn flow(&mut self, phase: char, category: &str, id: u32, lane: Lane, ts: u32) {
        let (Lane { pid, tid }, ts) = (lane, ts + self.start);
        let bind = if phase == 'f' { r#", "bp": "e""# } else { "" };
        self.events.push(format!(
            r#"{{"ph": "{phase}", "id": {id}, "pid": {pid}, "tid": {tid}, "ts": {ts}, "cat": "{category}", "name": "{category}"{bind}}}"#
        ));
    }

    fn index(&mut self) -> (&'static str, String) {
        self.indexes += 1;
        ("Ev Idx", (self.indexes - 1).to_string())
    }

    /// A call of a Python function, if the profiler records them; `module` is the index of a module in its class.
    pub(super) fn python(&mut self, name: &str, at: At, parent: u32, module: Option<u32>) -> u32 {
        self.pythons += 1;
        let id = self.pythons;
        if self.habit == Habit::PyTorch {
            let parent = if parent == 0 { "null".to_owned() } else { parent.to_string() };
            let mut members = vec![("Python parent id", parent), ("Python id", id.to_string())];
            members.extend(module.map(|module| ("Python module id", module.to_string())));
            members.push(self.index());
            self.slice("python_function", name, MAIN, at, &members);
        }
        id
    }

    /// A mark from the program, the profiler or NCCL's binding.
    pub(super) fn annotation(&mut self, name: &str, lane: Lane, at: At) {
        self.operators += 1;
        let members =
            vec![("External id", self.operators.to_string()), ("Record function id", "0".into()), self.index()];
        self.slice("user_annotation", name, lane, at, &members);
    }

    /// An operator; returns its External id.
    pub(super) fn op(&mut self, op: &Op<'_>) -> u32 {
        self.operators += 1;
        // PyTorch writes function id 0, unless an observer asked for an id.
        let function = match self.habit {
            Habit::PyTorch => "0".to_owned(),
            Habit::XSigma => (12_344 + self.operators).to_string(),
        };
        let mut members = vec![("External id", self.operators.to_string()), ("Record function id", function)];
        let thread = if self.habit == Habit::PyTorch { PYTORCH_THREAD } else { XSIGMA_THREAD };
        match op.pass {
            Pass::None => {}
            Pass::Forward(number) => {
                members.extend([("Sequence number", number.to_string()), ("Fwd thread id", "0".into())]);
            }
            Pass::Backward(number) => {
                members.extend([("Sequence number", number.to_string()), ("Fwd thread id", thread.into())]);
            }
        }
        if !op.inputs.is_empty() {
            members.extend(self.inputs(op.inputs));
        }
        if let (Habit::XSigma, Some((module, stack))) = (self.habit, op.place) {
            members.extend([("Module Hierarchy", quoted(module)), ("Call stack", quoted(stack))]);
        }
        for (key, json) in op.more {
            members.retain(|(there, _)| there != key);
            members.push((key, (*json).to_owned()));
        }
        members.push(self.index());
        self.slice("cpu_op", op.name, op.lane, op.at, &members);
        self.operators
    }

    fn inputs(&self, inputs: &[Input]) -> [(&'static str, String); 4] {
        let list = |part: &dyn Fn(&Input) -> String| {
            let parts: Vec<String> = inputs.iter().map(part).collect();
            format!("[{}]", parts.join(", "))
        };
        let is_pytorch = self.habit == Habit::PyTorch;
        let concrete = |input: &Input| match (is_pytorch, input.concrete) {
            (true, concrete) => quoted(concrete),
            (false, "") => "tensor([[...]])".to_owned(),
            (false, concrete) => concrete.to_owned(),
        };
        [
            ("Concrete Inputs", list(&concrete)),
            ("Input type", list(&|input| quoted(if is_pytorch { input.kind.0 } else { input.kind.1 }))),
            ("Input Strides", list(&|input| input.strides.to_owned())),
            ("Input Dims", list(&|input| input.dims.to_owned())),
        ]
    }

    /// A CUDA runtime call at `ts` that launches a kernel, which runs at `run`, with additional arguments.
    pub(super) fn launch(&mut self, lane: Lane, ts: u32, op: u32, kernel: (&str, Lane, At), more: &[(&str, &str)]) {
        self.correlations += 1;
        let (id, (name, stream, run)) = (self.correlations, kernel);
        let (category, api, cbid) = match name {
            triton if triton.starts_with("triton") => ("cuda_driver", "cuLaunchKernel", "307"),
            _ => ("cuda_runtime", "cudaLaunchKernel", "211"),
        };
        let link = [("External id", op.to_string()), ("correlation", id.to_string())];
        let mut members = link.to_vec();
        members.push(("cbid", cbid.to_owned()));
        self.slice(category, api, lane, (ts, 5), &members);
        self.flow('s', "ac2g", id, lane, ts);
        let mut members = link.to_vec();
        members.extend([("device", "0".to_owned()), ("stream", stream.tid.to_string())]);
        members.extend(more.iter().map(|(key, json)| (*key, (*json).to_owned())));
        self.slice("kernel", name, stream, run, &members);
        self.flow('f', "ac2g", id, stream, run.0);
    }

    /// The flow from a forward operator to its derivative, given by their starts.
    pub(super) fn forward_backward(&mut self, forward: u32, backward: u32) {
        self.flows += 1;
        self.flow('s', "fwdbwd", self.flows, MAIN, forward);
        self.flow('f', "fwdbwd", self.flows, AUTOGRAD, backward);
    }

    /// GPU memory that was allocated or, with a negative size, freed. `block` is the number of the block.
    pub(super) fn memory(&mut self, lane: Lane, ts: u32, block: u64, bytes: i64) {
        self.allocated += bytes;
        let (allocated, reserved) = (self.allocated, self.reserved);
        let address = 136_000_000_000_000 + block * 1_048_576;
        self.memory_event(lane, ts, address, bytes, (allocated, reserved), (1, 0));
    }

    /// The totals are allocated and reserved bytes; the device is its type and index.
    pub(super) fn memory_event(
        &mut self,
        lane: Lane,
        ts: u32,
        address: u64,
        bytes: i64,
        totals: (i64, i64),
        device: (i64, i64),
    ) {
        let index = self.index();
        let members = [
            ("Total Reserved", totals.1.to_string()),
            ("Total Allocated", totals.0.to_string()),
            ("Bytes", bytes.to_string()),
            ("Addr", address.to_string()),
            ("Device Id", device.1.to_string()),
            ("Device Type", device.0.to_string()),
            index,
        ];
        let (Lane { pid, tid }, ts, args) = (lane, ts + self.start, self.args(&members));
        self.events.push(format!(
            r#"{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": {pid}, "tid": {tid}, "ts": {ts}, "args": {{{args}}}}}"#
        ));
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let with_stack = i32::from(self.habit == Habit::PyTorch);
        let mut text = format!(
            "{{\"schemaVersion\": 1,\n\"deviceProperties\": [{{\"id\": 0, \"name\": \"NVIDIA H100 80GB HBM3\", \
             \"totalGlobalMem\": 84942979072, \"computeMajor\": 9, \"computeMinor\": 0, \"numSms\": 132}}],\n\
             \"record_shapes\": 1, \"with_stack\": {with_stack}, \"with_modules\": {with_stack}, \"profile_memory\": 1,\n\
             \"cuda_driver_version\": 13000, \"cuda_runtime_version\": 12090,\n\
             \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 2, \"pg_count\": 1, \"pg_config\": \
             [{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"backend_config\": \"cuda:nccl\", \"pg_size\": 2, \
             \"ranks\": [0, 1]}}], \"nccl_version\": \"2.28.9\"}},\n\"displayTimeUnit\": \"ms\",\n\"traceEvents\": [\n"
        );
        for (lane, name) in [(MAIN, "thread 4100 (python)"), (AUTOGRAD, "thread 4117 (pt_autograd_0)")] {
            let Lane { pid, tid } = lane;
            let _ = writeln!(
                text,
                r#"{{"name": "thread_name", "ph": "M", "ts": 0, "pid": {pid}, "tid": {tid}, "args": {{"name": "{name}"}}}},"#
            );
        }
        let _ = write!(text, "{}\n]}}\n", self.events.join(",\n"));
        text.into_bytes()
    }
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
