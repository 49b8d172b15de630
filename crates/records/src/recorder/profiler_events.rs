//! What NCCL's profiler interface reports besides operations, their channels, proxies and steps: transfers of network plugins, what the proxy's thread
//! does, phases of kernels, synchronisations and batches of copy engines. Each is a row of its own, with what it belongs to as far as that is here.

use nccl_stacks_recorder_format::{Kind, Record};

use super::facts::{Facts, gpu_time};
use crate::tables::{KernelChannel, ProfilerEvent};
use nccl_stacks_trace::time::Ns;

/// States of the proxy's thread by their numbers: what it begins to do, and the number by which that is over.
const CONTROL: [(u64, u64, &str); 3] = [(13, 14, "idle"), (15, 16, "sleep"), (17, 18, "append")];

const KERNEL_PHASE: &str = "kernel-phase";

const PHASE_STOP: u64 = 31;

pub(super) struct Profiled {
    pub(super) row: ProfilerEvent,
    pub(super) operation: Option<u32>,
    /// Of a phase: the channel, which has the clock.
    pub(super) channel: Option<u32>,
    pub(super) step: Option<u32>,
    /// By which state it is over.
    last: Option<u64>,
}

impl Profiled {
    /// The event that a record begins; `None` if its kind has no rows here.
    pub(super) fn new(record: &Record, facts: &Facts<'_>) -> Option<Self> {
        let (low, high) = (|word: u64| word & u64::from(u32::MAX), |word: u64| word >> 32);
        let (small, bytes) = (u64::from(record.small), Some(record.b));
        let (kind, bytes, details) = match record.kind {
            Kind::NetIb => {
                let (device, pair) = (("device", high(record.a)), ("queue_pair", low(record.a)));
                ("net-ib", bytes, vec![device, pair, ("work_request", record.c), ("opcode", small)])
            }
            Kind::NetSocket => ("net-socket", bytes, vec![("descriptor", low(record.a)), ("operation", low(record.c))]),
            Kind::NetPlugin => ("net-plugin", None, vec![("plugin", record.a)]),
            Kind::ProxyControl => ("proxy-control", None, Vec::new()),
            Kind::KernelPhase => (KERNEL_PHASE, None, vec![("phase", small)]),
            Kind::CeSync => ("ce-sync", None, vec![("is_complete", record.a), ("ranks", low(record.b))]),
            Kind::CeBatch => ("ce-batch", bytes, vec![("operations", low(record.a)), ("is_synchronised", small)]),
            Kind::UnknownEvent => ("unknown", None, vec![("type", record.a)]),
            _ => return None,
        };
        let is_phase = kind == KERNEL_PHASE;
        let known = facts.communicator(record).and_then(|at| facts.communicators.get(at as usize));
        let row = ProfilerEvent {
            kind,
            rank: facts.rank,
            communicator: known.and_then(|known| known.row),
            place: known.and_then(|known| known.place),
            channel: is_phase.then_some(record.channel.into()),
            name: facts.word(record.function).filter(|_| is_phase).map(|word| word.name.clone()),
            start: if is_phase { gpu_time(record.a) } else { facts.time(record.time) },
            bytes,
            details,
            ..ProfilerEvent::default()
        };
        Some(Profiled { row, operation: None, channel: None, step: None, last: None })
    }

    pub(super) fn change(&mut self, record: &Record, time: Option<Ns>) {
        let Profiled { row, last, .. } = self;
        let is_over = match record.kind {
            Kind::Stop => true,
            _ if row.kind == KERNEL_PHASE => {
                if record.a == PHASE_STOP {
                    row.end = gpu_time(record.b).filter(|stop| row.start.is_none_or(|start| start <= *stop));
                }
                return;
            }
            _ => *last == Some(record.a),
        };
        if let (None, Some((_, over, name))) = (&last, CONTROL.iter().find(|(begin, ..)| *begin == record.a)) {
            (*last, row.name) = (Some(*over), Some((*name).into()));
        }
        if record.kind == Kind::State && record.b > 0 {
            row.details = vec![("operations", record.b)];
        }
        if is_over && row.end.is_none() {
            row.end = time;
        }
    }

    /// The row, with the positions that operations and steps have in the end. The GPU's times are put onto the host's clock, which is ahead of it by
    /// the channel's offset.
    pub(super) fn into_row(
        self,
        place: &[Option<usize>],
        steps: usize,
        channels: &[(u32, KernelChannel)],
    ) -> ProfilerEvent {
        let channel = self.channel.and_then(|at| channels.get(at as usize));
        let offset = channel.map_or(Ns::ZERO, |(_, channel)| channel.gpu_offset);
        ProfilerEvent {
            operation: self.operation.and_then(|row| place[row as usize]),
            proxy_step: self.step.map(|step| steps + step as usize),
            start: self.row.start.map(|time| time + offset),
            end: self.row.end.map(|time| time + offset),
            ..self.row
        }
    }
}
