//! What NCCL's profiler interface reports besides operations, their channels, proxies and steps: transfers of network plugins, what the proxy's thread
//! does, phases of kernels, synchronisations and batches of copy engines. Each is a row of its own, with what it belongs to as far as that is here.

use nccl_stacks_recorder_format::{Kind, Record};

use super::events::{Entity, Events};
use super::facts::{Facts, gpu_time};
use crate::records::tables::ProfilerEvent;
use crate::time::Ns;

/// States of the proxy's thread by their numbers: what it begins to do, and the number by which that is over.
const CONTROL: [(u64, u64, &str); 3] = [(13, 14, "idle"), (15, 16, "sleep"), (17, 18, "append")];

/// The state of a phase that has stopped.
const PHASE_STOP: u64 = 31;

/// An event, and what it belongs to among the rows in the making.
pub(super) struct Profiled {
    row: ProfilerEvent,
    operation: Option<u32>,
    /// Of a phase: the channel, which has the clock.
    channel: Option<u32>,
    step: Option<u32>,
    /// By which state it is over.
    last: Option<u64>,
}

impl Profiled {
    fn of(record: &Record, kind: &'static str, facts: &Facts) -> Self {
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

impl Events<'_> {
    /// Begins an event of such a kind.
    pub(super) fn profiled(&mut self, record: &Record, kind: &'static str) -> Entity {
        let mut event = Profiled::of(record, kind, self.facts);
        match self.parent(record) {
            Some(Entity::Operation(row)) => event.operation = Some(row),
            Some(Entity::Channel(channel)) => {
                event.channel = Some(channel);
                event.operation = self.channels.get(channel as usize).map(|(row, _)| *row);
            }
            Some(Entity::Step(step)) => {
                event.step = Some(step);
                let proxy = self.proxies.of_step(step);
                event.operation = proxy.and_then(|proxy| proxy.operation);
                event.row.channel = proxy.map(|proxy| proxy.row.channel);
            }
            _ => {}
        }
        self.profiler_events.push(event);
        Entity::Profiled(self.profiler_events.len() as u32 - 1)
    }

    /// A state, or a stop, of such an event.
    pub(super) fn change_profiled(&mut self, at: u32, record: &Record, time: Option<Ns>) {
        let Profiled { row, last, .. } = &mut self.profiler_events[at as usize];
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

    /// The rows, with the positions that operations and steps have in the end. The GPU's times are put onto the host's clock.
    pub(super) fn profiler_rows(&mut self, operations: usize, steps: usize) -> Vec<ProfilerEvent> {
        let events = std::mem::take(&mut self.profiler_events);
        let row = |event: Profiled| {
            let channel = event.channel.and_then(|at| self.channels.get(at as usize));
            let offset = channel.map_or(Ns::ZERO, |(_, channel)| channel.gpu_offset);
            ProfilerEvent {
                operation: event.operation.map(|row| operations + row as usize),
                proxy_step: event.step.map(|step| steps + step as usize),
                start: event.row.start.map(|time| time + offset),
                end: event.row.end.map(|time| time + offset),
                ..event.row
            }
        };
        events.into_iter().map(row).collect()
    }
}
