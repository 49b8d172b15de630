//! The program of each rank in a job: the steps of a training loop, or of a decoding loop that replays a graph, in pieces. A piece ends where a rank
//! has to learn when its communication ended. Launching takes the CPU longer than the GPU takes to run the work, so a rank with a late CPU is
//! late in its collectives.

use super::events::{Comm, Name, Peer, Stream};
use super::layout::Layout;
use super::machine::{Machine, Moment, Pending, Transfer};
use super::model::*;
use super::path::Moments;
use super::{How, Job, Late, When};

/// The pieces of a step, in order. Each ends with at most one communication.
#[derive(Clone, Copy)]
pub(super) enum Phase {
    Begin,
    /// From the previous pipeline stage.
    Receive,
    Forward,
    Layer(u32),
    /// The tokens of a layer go to their experts, or come back.
    Exchange,
    /// To the next pipeline stage.
    Send,
    /// A small all-reduce: the norm of the gradients.
    Small,
    /// The gradients are reduced.
    Reduce,
    /// The updated parameters are gathered.
    Gather,
    End,
    /// From another stage, in the forward pass or the backward pass.
    Take {
        stage: u32,
        is_forward: bool,
    },
    /// To another stage.
    Give {
        stage: u32,
        is_forward: bool,
    },
    /// The work of a stage for a microbatch.
    Microbatch {
        is_forward: bool,
        ns: i64,
    },
    /// A small all-reduce over all ranks: the norm of all gradients.
    Norm,
}

/// The program of one rank.
pub(super) struct Program<'a> {
    job: &'a Job,
    layout: &'a Layout,
    machine: Machine<'a>,
    extra: Extra,
    tensor_seq: u32,
    data_seq: u32,
    expert_seq: u32,
    world_seq: u32,
    has_received: bool,
}

impl<'a> Program<'a> {
    pub(super) fn new(job: &'a Job, layout: &'a Layout, rank: u32, records: bool) -> Self {
        let machine = Machine::new(job, rank, records);
        let extra = Extra::new(job, layout, rank);
        Self {
            job,
            layout,
            machine,
            extra,
            tensor_seq: 0,
            data_seq: 0,
            expert_seq: 0,
            world_seq: 0,
            has_received: false,
        }
    }

    /// The phases of a step: up to the send, and after it. A graph contains everything except sends and receives.
    pub(super) fn phases(job: &Job) -> (Vec<Phase>, Vec<Phase>) {
        let mut before = vec![Phase::Begin, Phase::Receive, Phase::Forward];
        for layer in 0..job.layers {
            before.push(Phase::Layer(layer));
            before.extend([Phase::Exchange; 2].into_iter().filter(|_| job.ep > 1));
        }
        if job.graphs {
            before.extend([Phase::Reduce, Phase::Gather, Phase::Send]);
            return (before, vec![Phase::End]);
        }
        before.push(Phase::Send);
        let small = job.small.then_some(Phase::Small);
        (before, [Phase::Reduce].into_iter().chain(small).chain([Phase::Gather, Phase::End]).collect())
    }

    pub(super) fn machine(&mut self) -> &mut Machine<'a> {
        &mut self.machine
    }

    pub(super) fn moments(&self) -> Option<&Moments> {
        self.machine.moments()
    }

    pub(super) fn into_machine(self) -> Machine<'a> {
        self.machine
    }

    /// Runs a piece of a step, up to the communication at its end.
    pub(super) fn run(&mut self, phase: Phase, step: u32) -> Option<Pending> {
        let moment = Moment { step, layer: None };
        match phase {
            Phase::Begin => self.begin(moment),
            Phase::Receive => return self.receive(moment),
            Phase::Forward => self.forward(moment),
            Phase::Layer(layer) if self.job.graphs => return self.replayed_layer(Moment { step, layer: Some(layer) }),
            Phase::Layer(layer) => return self.layer(Moment { step, layer: Some(layer) }),
            Phase::Exchange => return self.exchange(),
            Phase::Send => return self.send(moment),
            Phase::Reduce => return self.reduce(moment),
            Phase::Small => return self.small_all_reduce(),
            Phase::Gather => return self.gather(moment),
            Phase::End => self.end(step),
            Phase::Take { stage, is_forward } => return Some(self.message(stage, is_forward, false, moment)),
            Phase::Give { stage, is_forward } => return Some(self.message(stage, is_forward, true, moment)),
            Phase::Microbatch { is_forward, ns } => self.microbatch(is_forward, ns, moment),
            Phase::Norm => return Some(self.norm()),
        }
        None
    }

    fn begin(&mut self, moment: Moment) {
        let machine = &mut self.machine;
        if moment.step == 0 {
            machine.lag();
        }
        machine.note(Name::Step(moment.step));
        machine.work(3_000);
        machine.enter(TRAIN_STEP, moment);
        machine.work(20_000);
        if self.extra == Extra::InStep {
            machine.call_late(moment);
        }
    }

    /// Waits on the CPU for the activations, as Megatron does by default.
    fn receive(&mut self, moment: Moment) -> Option<Pending> {
        let peer = self.layout.previous(self.machine.rank)?;
        self.machine.enter(RECEIVE, moment);
        self.machine.work(5_000);
        self.has_received = true;
        Some(self.point_to_point(peer, false, Stream::Pipeline))
    }

    fn forward(&mut self, moment: Moment) {
        if std::mem::take(&mut self.has_received) {
            self.machine.synchronize("cudaDeviceSynchronize");
            self.machine.leave();
        }
        self.machine.enter(FORWARD, moment);
        self.machine.work(12_000);
        if self.job.graphs {
            self.machine.operator("aten::copy_", None);
            self.machine.work(20_000);
            self.machine.close();
            self.machine.work(4_000);
            self.machine.launch_graph(45_000);
        }
    }

    fn layer(&mut self, moment: Moment) -> Option<Pending> {
        let machine = &mut self.machine;
        machine.enter(LAYER, moment);
        machine.work(6_000);
        machine.synchronize_late();
        if self.extra == Extra::InLayer {
            machine.call_late(moment);
        }
        machine.enter(ATTENTION, moment);
        machine.work(5_000);
        launch(machine, "aten::linear", 20_000, (GEMM_ATTENTION, 12_000), moment);
        machine.operator("aten::view", None);
        machine.work(2_000);
        machine.close();
        launch(machine, "aten::_flash_attention_forward", 24_000, (FLASH, 10_000), moment);
        machine.leave();
        machine.work(2_000);
        machine.enter(MLP, moment);
        machine.work(5_000);
        if self.job.pieces {
            machine.launch_graph(20_000);
            machine.compute(GEMM_MLP, 15_000, moment);
        } else {
            launch(machine, "aten::linear", 22_000, (GEMM_MLP, 15_000), moment);
        }
        machine.leave();
        let pending = self.tensor_all_reduce();
        self.machine.end_graph();
        self.machine.work(4_000);
        self.machine.leave();
        pending
    }

    fn replayed_layer(&mut self, moment: Moment) -> Option<Pending> {
        for (kernel, ns) in [(GEMM_ATTENTION, 12_000), (FLASH, 10_000), (GEMM_MLP, 15_000)] {
            self.machine.compute(kernel, ns, moment);
        }
        self.tensor_all_reduce()
    }

    fn tensor_all_reduce(&mut self) -> Option<Pending> {
        let group = self.layout.tensor_group(self.machine.rank)?;
        self.tensor_seq += 1;
        let sizes = (ACTIVATIONS, ACTIVATIONS);
        let comm = self.collective("allreduce", sizes, group, self.tensor_seq);
        let names = ("c10d::allreduce_", Name::Text("nccl:all_reduce"), ALL_REDUCE);
        Some(self.communicate(names, Stream::Tensor, comm, true))
    }

    fn small_all_reduce(&mut self) -> Option<Pending> {
        let group = self.layout.tensor_group(self.machine.rank)?;
        self.tensor_seq += 1;
        let comm = self.collective("allreduce", (SMALL, SMALL), group, self.tensor_seq);
        let names = ("c10d::allreduce_", Name::Text("nccl:all_reduce"), ALL_REDUCE);
        Some(self.communicate(names, Stream::Tensor, comm, true))
    }

    fn exchange(&mut self) -> Option<Pending> {
        let group = self.layout.expert_group(self.machine.rank)?;
        self.expert_seq += 1;
        let comm = self.collective("all_to_all", (ACTIVATIONS, ACTIVATIONS), group, self.expert_seq);
        let names = ("c10d::alltoall_base_", Name::Text("nccl:all_to_all"), SEND_RECV);
        Some(self.communicate(names, Stream::Expert, comm, true))
    }

    fn send(&mut self, moment: Moment) -> Option<Pending> {
        self.machine.work(3_000);
        self.machine.leave();
        self.machine.end_graph();
        let peer = self.layout.next(self.machine.rank)?;
        self.machine.enter(SEND, moment);
        self.machine.work(5_000);
        let pending = self.point_to_point(peer, true, Stream::Pipeline);
        self.machine.leave();
        Some(pending)
    }

    fn message(&mut self, stage: u32, is_forward: bool, sends: bool, moment: Moment) -> Pending {
        let (function, stream) = match (sends, is_forward) {
            (false, true) => (RECEIVE, Stream::Pipeline),
            (false, false) => (RECEIVE_BACK, Stream::FromNext),
            (true, true) => (SEND, Stream::ToNext),
            (true, false) => (SEND_BACK, Stream::ToPrevious),
        };
        self.machine.enter(function, moment);
        self.machine.work(3_000);
        let pending = self.point_to_point(self.layout.in_stage(self.machine.rank, stage), sends, stream);
        self.machine.leave();
        pending
    }

    fn microbatch(&mut self, is_forward: bool, ns: i64, moment: Moment) {
        self.machine.enter(if is_forward { FORWARD } else { BACKWARD }, moment);
        self.machine.work(5_000);
        self.machine.on_thread(u32::from(!is_forward));
        launch(&mut self.machine, "aten::linear", 8_000, (GEMM_MLP, ns), moment);
        self.machine.on_thread(0);
        self.machine.leave();
    }

    fn norm(&mut self) -> Pending {
        self.world_seq += 1;
        let comm = self.collective("allreduce", (SMALL, SMALL), 0, self.world_seq);
        let names = ("c10d::allreduce_", Name::Text("nccl:all_reduce"), ALL_REDUCE);
        self.communicate(names, Stream::Tensor, comm, true)
    }

    fn point_to_point(&mut self, other: u32, sends: bool, stream: Stream) -> Pending {
        let group = self.layout.pipeline_group(self.machine.rank).unwrap_or_default();
        let (own, peer) = (self.layout.place(group, self.machine.rank), self.layout.place(group, other));
        let (collective, operator, note, who) = if sends {
            ("send", "c10d::send", Name::Send { from: own, to: peer }, Peer::To(other))
        } else {
            ("recv", "c10d::recv_", Name::Recv { to: own, from: peer }, Peer::From(other))
        };
        // PyTorch passes the number of the group's next collective; here there is none.
        let comm =
            Comm { place: peer, peer: Some(who), ..self.collective(collective, (ACTIVATIONS, ACTIVATIONS), group, 1) };
        self.communicate((operator, note, SEND_RECV), stream, comm, !sends)
    }

    /// Waits for the GPU right after the last collective of the layers. Only then do the ranks of a group continue together; a rank that only waited
    /// for its own optimizer would stay late.
    fn read_loss(&mut self) {
        self.machine.operator("aten::item", None);
        self.machine.synchronize("cudaStreamSynchronize");
        self.machine.work(2_000);
        self.machine.close();
    }

    fn reduce(&mut self, moment: Moment) -> Option<Pending> {
        if !self.job.graphs {
            if self.job.sync.is_none() {
                self.read_loss();
            }
            self.machine.enter(OPTIMIZER, moment);
            self.machine.work(8_000);
        }
        let group = self.layout.data_group(self.machine.rank)?;
        self.data_seq += 1;
        let (whole, part) = self.parameters();
        let comm = self.collective("_reduce_scatter_base", (whole, part), group, self.data_seq);
        let names = ("c10d::_reduce_scatter_base_", Name::Text("nccl:_reduce_scatter_base"), REDUCE_SCATTER);
        Some(self.communicate(names, Stream::Data, comm, true))
    }

    fn gather(&mut self, moment: Moment) -> Option<Pending> {
        if self.job.graphs {
            self.machine.compute(ADAM, 30_000, moment);
        } else {
            launch(&mut self.machine, "aten::_fused_adamw_", 30_000, (ADAM, 30_000), moment);
        }
        let group = self.layout.data_group(self.machine.rank)?;
        self.data_seq += 1;
        let (whole, part) = self.parameters();
        let comm = self.collective("_allgather_base", (part, whole), group, self.data_seq);
        let names = ("c10d::_allgather_base_", Name::Text("nccl:_all_gather_base"), ALL_GATHER);
        Some(self.communicate(names, Stream::Data, comm, true))
    }

    fn end(&mut self, step: u32) {
        let machine = &mut self.machine;
        machine.record_event(self.job.sync);
        if !self.job.graphs {
            machine.work(4_000);
            machine.leave();
        }
        if let Some(sync) = self.job.sync {
            machine.enter(SCHEDULER, Moment { step, layer: None });
            machine.work(4_000);
            machine.leave();
            machine.work(3_000);
            machine.end_step(sync);
        } else {
            machine.work(3_000);
            machine.synchronize("cudaStreamSynchronize");
        }
        machine.operator("aten::detach", None);
        machine.work(20_000);
        machine.close();
        machine.leave();
        machine.work(2_000);
        machine.close();
        if step + 1 < self.job.steps {
            machine.idle(gap(self.job));
        }
        machine.work(5_000);
    }

    /// The number of parameters in a stage, and in one rank's part.
    fn parameters(&self) -> (u64, u64) {
        let part = (PARAMETERS * u64::from(self.job.layers)).div_ceil(u64::from(self.job.dp));
        (part * u64::from(self.job.dp), part)
    }

    fn collective(
        &self,
        collective: &'static str,
        (elements_in, elements_out): (u64, u64),
        group: usize,
        seq: u32,
    ) -> Comm {
        let place = self.layout.place(group, self.machine.rank);
        Comm { collective, elements_in, elements_out, group, seq, place, peer: None }
    }

    /// Launches a communication with everything that PyTorch records around it; in a graph there is nothing around it.
    fn communicate(
        &mut self,
        (operator, note, kernel): (&'static str, Name<'a>, &'static str),
        stream: Stream,
        comm: Comm,
        blocks: bool,
    ) -> Pending {
        let bytes = ELEMENT_BYTES * comm.elements_in.max(comm.elements_out);
        // 400 GB/s.
        let transfer = Transfer { kernel, stream, comm, transfer: 6_000 + (bytes / 400) as i64, blocks };
        let machine = &mut self.machine;
        if machine.is_replaying() {
            return machine.communicate(transfer);
        }
        machine.operator(operator, None);
        machine.work(5_000);
        machine.operator("record_param_comms", Some(comm));
        machine.work(6_000);
        machine.note(note);
        machine.work(5_000);
        let pending = machine.communicate(transfer);
        for _ in 0..3 {
            machine.work(3_000);
            machine.close();
        }
        pending
    }
}

/// The idle time between steps that gives the job its length.
fn gap(job: &Job) -> i64 {
    let layer = if job.graphs { REPLAYED_LAYER_NS } else { LAYER_NS };
    let busy = i64::from(job.steps) * (STEP_NS + i64::from(job.layers) * layer);
    (job.length_ns - busy).max(0) / i64::from(job.steps - 1).max(1)
}

/// An operator that launches a kernel.
fn launch(machine: &mut Machine<'_>, operator: &'static str, ns: i64, kernel: (&'static str, i64), moment: Moment) {
    machine.operator(operator, None);
    machine.work(ns);
    machine.compute(kernel.0, kernel.1, moment);
    machine.work(4_000);
    machine.close();
}

/// Where to call a late function that is not part of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extra {
    Nowhere,
    InStep,
    InLayer,
}

impl Extra {
    fn new(job: &Job, layout: &Layout, rank: u32) -> Self {
        let Some(Late { how: How::Cpu { function }, when, .. }) = job.late_of(rank) else {
            return Self::Nowhere;
        };
        let in_pipeline = [layout.previous(rank).map(|_| RECEIVE), layout.next(rank).map(|_| SEND)];
        let known = if job.graphs { REPLAYING } else { EAGER };
        let at_end = job.sync.map(|_| SCHEDULER);
        if known.iter().copied().chain(in_pipeline.into_iter().flatten()).chain(at_end).any(|known| known == function) {
            Self::Nowhere
        } else if job.graphs || !matches!(when, When::EveryLayer) {
            Self::InStep
        } else {
            Self::InLayer
        }
    }
}
