//! Proxy operations, the phases of their steps, and messages on the network.
//!
//! From 2.27 on a proxy operation is two events, one until it is scheduled and one while it makes progress; before that it is one. A step
//! is several events with one number, a phase each. The wait for a free buffer, before 2.27, is in none of the phases of
//! [`ProxyStep`]: it is the time between the step's start and its first phase.

use super::event::{Category, Event};
use crate::file::RecordFile;
use crate::tables::{ProxyOp, ProxyStep, Records};
use nccl_stacks_trace::time::Ns;

/// What the proxy's thread does as such.
const CONTROL: &[&str] = &["Idle", "Active", "Sleep", "Wakeup", "Append"];

/// Names of proxy operations: what begins with them, and whether it sends.
const OPERATIONS: &[(&str, Phase, bool)] = &[
    ("ScheduleSend", Phase::Queued, true),
    ("ScheduleRecv", Phase::Queued, false),
    ("ProgressSend", Phase::Running, true),
    ("ProgressRecv", Phase::Running, false),
    ("Send", Phase::Running, true),
    ("Recv", Phase::Running, false),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Queued,
    Running,
}

/// An event that has begun.
struct Open {
    id: i64,
    name: String,
    begin: Option<Ns>,
}

impl Open {
    fn from_event(event: &Event) -> Self {
        Open { id: event.id, name: event.name.clone(), begin: event.time }
    }
}

/// The proxy operation that is being read.
struct Current {
    id: i64,
    is_send: bool,
    at: usize,
    open: Option<Open>,
}

/// What is open of the proxies.
#[derive(Default)]
pub(super) struct Proxies {
    operation: Option<Current>,
    /// The step: the number of its events, and its row.
    step: Option<(i64, usize)>,
    phase: Option<Open>,
    message: Option<Open>,
    control: Option<Open>,
}

impl Proxies {
    /// Begins an event; whether it has a place.
    pub(super) fn begin(&mut self, event: &Event, operation: Option<usize>, records: &mut Records) -> bool {
        match event.category {
            Category::Proxy if CONTROL.contains(&event.name.as_str()) => self.control = Some(Open::from_event(event)),
            Category::Proxy => return self.begin_operation(event, operation, records),
            Category::Step => return self.begin_phase(event, records),
            _ => return self.begin_message(event, records),
        }
        true
    }

    fn begin_operation(&mut self, event: &Event, operation: Option<usize>, records: &mut Records) -> bool {
        let Some((_, phase, is_send)) = OPERATIONS.iter().find(|(name, _, _)| *name == event.name) else {
            return false;
        };
        let (Some(channel), Some(peer)) =
            (event.small("Channel"), event.args.get("Peer").and_then(serde_json::Value::as_i64))
        else {
            return false;
        };
        // Its progress follows its schedule.
        let is_same = |current: &Current| {
            let row = &records.proxy_ops[current.at];
            current.id == event.id
                && current.is_send == *is_send
                && (row.channel, row.peer) == (channel, peer)
                && row.operation == operation
                && row.start.is_none()
        };
        let at = match &self.operation {
            Some(current) if *phase == Phase::Running && current.open.is_none() && is_same(current) => current.at,
            _ => {
                records.proxy_ops.push(ProxyOp {
                    operation,
                    place: operation.and_then(|at| records.operations.get(at)?.place),
                    channel,
                    peer,
                    is_send: *is_send,
                    steps: event.small("Steps").unwrap_or(0),
                    chunk_bytes: event.number("ChunkSize"),
                    bytes: event.number("transSize"),
                    ..ProxyOp::default()
                });
                records.proxy_ops.len() - 1
            }
        };
        let row = &mut records.proxy_ops[at];
        match phase {
            Phase::Queued => row.queued = event.time,
            Phase::Running => row.start = event.time,
        }
        self.operation = Some(Current { id: event.id, is_send: *is_send, at, open: Some(Open::from_event(event)) });
        self.step = None;
        true
    }

    fn begin_phase(&mut self, event: &Event, records: &mut Records) -> bool {
        let Some(current) = &self.operation else { return false };
        let number = event.small("Step").unwrap_or(0);
        let is_same = |(id, at): &(i64, usize)| *id == event.id && records.proxy_steps[*at].step == number;
        if !self.step.as_ref().is_some_and(is_same) {
            self.step = Some((event.id, records.proxy_steps.len()));
            let proxy_op = current.at;
            records.proxy_steps.push(ProxyStep { proxy_op, step: number, start: event.time, ..ProxyStep::default() });
        }
        self.phase = Some(Open::from_event(event));
        true
    }

    /// A message of a step: a work request of InfiniBand, or a call of a socket.
    fn begin_message(&mut self, event: &Event, records: &mut Records) -> bool {
        self.message = Some(Open::from_event(event));
        let Some((_, at)) = self.step else { return false };
        let row = &mut records.proxy_steps[at];
        if let Some(size) = event.number("size") {
            row.bytes = Some(row.bytes.unwrap_or(0).saturating_add(size));
        }
        true
    }

    /// Ends an event; whether it had begun.
    pub(super) fn end(&mut self, event: &Event, offset: u64, records: &mut Records, file: &mut RecordFile) -> bool {
        let slot = match event.category {
            Category::Proxy if CONTROL.contains(&event.name.as_str()) => &mut self.control,
            Category::Proxy => match &mut self.operation {
                Some(current) => &mut current.open,
                None => return false,
            },
            Category::Step => &mut self.phase,
            _ => &mut self.message,
        };
        let Some(open) = slot.take_if(|open| open.name == event.name) else { return false };
        if open.id != event.id {
            file.repair("ends with another number than their begin", Some(offset));
        }
        match event.category {
            Category::Step => self.end_phase(&open, event.time, records),
            Category::Proxy => self.end_operation(&open, event.time, records),
            _ => {}
        }
        true
    }

    fn end_operation(&mut self, open: &Open, end: Option<Ns>, records: &mut Records) {
        let is_running = OPERATIONS.iter().any(|(name, phase, _)| *name == open.name && *phase == Phase::Running);
        if let Some(current) = &self.operation
            && is_running
        {
            records.proxy_ops[current.at].end = end.filter(|end| Some(*end) >= open.begin);
        }
    }

    fn end_phase(&mut self, open: &Open, end: Option<Ns>, records: &mut Records) {
        let Some((_, at)) = self.step else { return };
        let row = &mut records.proxy_steps[at];
        let took = end.zip(open.begin).filter(|(end, begin)| end >= begin).map(|(end, begin)| end - begin);
        let (phase, is_last) = match open.name.as_str() {
            "SendGpuWait" => (&mut row.gpu_wait, false),
            "RecvGpuWait" => (&mut row.gpu_wait, true),
            "SendPeerWait" => (&mut row.peer_wait, false),
            "SendWait" => (&mut row.network, true),
            "RecvWait" => (&mut row.network, false),
            "RecvFlushWait" => (&mut row.flush, false),
            _ => return,
        };
        *phase = took;
        // A step without its last phase is not done.
        if is_last {
            row.end = end.filter(|end| Some(*end) >= row.start);
        }
    }

    /// Ends whatever is open, and returns how much that was.
    pub(super) fn close(&mut self) -> u64 {
        let operation = self.operation.take().and_then(|current| current.open);
        self.step = None;
        let open = [operation, self.phase.take(), self.message.take(), self.control.take()];
        open.into_iter().flatten().count() as u64
    }
}
