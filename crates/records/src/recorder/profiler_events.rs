//! What NCCL's profiler interface reports besides operations, their channels, proxies and steps: transfers of network plugins, what the proxy's thread
//! does, phases of kernels, synchronisations and batches of copy engines. Each is a row of its own, with what it belongs to as far as that is here.

use nccl_stacks_recorder_format::{Kind, Record};

use super::facts::{Facts, gpu_time};
use crate::tables::{KernelChannel, ProfilerEvent};
use nccl_stacks_trace::time::Ns;

/// States of the proxy's thread by their numbers: what it begins to do, and the number by which that is over.
const CONTROL: [(u64, u64, &str); 3] = [(13, 14, "idle"), (15, 16, "sleep"), (17, 18, "append")];

/// The state of a phase that has stopped.
const PHASE_STOP: u64 = 31;

/// An event, and what it belongs to among the rows in the making.
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
    pub(super) fn new(record: &Record, kind: &'static str, facts: &Facts) -> Self {
        let communicator = facts.communicator(record);
        let known = communicator.and_then(|at| facts.communicators.get(at as usize));
        let start = facts.time(record.time);
        let (low, high) = (|word: u64| word & u64::from(u32::MAX), |word: u64| word >> 32);
        let row = ProfilerEvent {
            kind,
            rank: facts.rank,
            communicator: known.and_then(|known| known.row),
            place: known.and_then(|known| known.place),
            start,
            ..ProfilerEvent::default()
        };
        let row = match record.kind {
            Kind::NetIb => ProfilerEvent {
                bytes: Some(record.b),
                details: vec![
                    ("device", high(record.a)),
                    ("queue_pair", low(record.a)),
                    ("work_request", record.c),
                    ("opcode", record.small.into()),
                ],
                ..row
            },
            Kind::NetSocket => ProfilerEvent {
                bytes: Some(record.b),
                details: vec![("descriptor", low(record.a)), ("operation", low(record.c))],
                ..row
            },
            Kind::CeSync => ProfilerEvent { details: vec![("is_complete", record.a), ("ranks", low(record.b))], ..row },
            Kind::CeBatch => ProfilerEvent {
                bytes: Some(record.b),
                details: vec![("operations", low(record.a)), ("is_synchronised", record.small.into())],
                ..row
            },
            Kind::KernelPhase => ProfilerEvent {
                name: facts.word(record.function).map(|word| word.name.clone()),
                channel: Some(record.channel.into()),
                start: gpu_time(record.a),
                details: vec![("phase", record.small.into())],
                ..row
            },
            Kind::NetPlugin => ProfilerEvent { details: vec![("plugin", record.a)], ..row },
            Kind::UnknownEvent => ProfilerEvent { details: vec![("type", record.a)], ..row },
            _ => row,
        };
        Profiled { row, operation: None, channel: None, step: None, last: None }
    }
}

/// The name of a kind that has rows here.
pub(super) fn kind(of: Kind) -> Option<&'static str> {
    Some(match of {
        Kind::NetIb => "net-ib",
        Kind::NetSocket => "net-socket",
        Kind::NetPlugin => "net-plugin",
        Kind::ProxyControl => "proxy-control",
        Kind::KernelPhase => "kernel-phase",
        Kind::CeSync => "ce-sync",
        Kind::CeBatch => "ce-batch",
        Kind::UnknownEvent => "unknown",
        _ => return None,
    })
}

impl Profiled {
    /// A state, or a stop, of it.
    pub(super) fn change(&mut self, record: &Record, time: Option<Ns>) {
        let Profiled { row, last, .. } = self;
        let is_over = match record.kind {
            Kind::Stop => true,
            _ if row.kind == "kernel-phase" => {
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
