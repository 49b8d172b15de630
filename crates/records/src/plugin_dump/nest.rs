//! Which event belongs to which, by their order, and the rows that follow.
//!
//! From 2.27 on a proxy operation is two events, one until it is scheduled and one while it makes progress; before that it is one. A step
//! is several events with one number, a phase each. The wait for a free buffer, before 2.27, is in none of the phases of
//! [`ProxyStep`]: it is the time between the step's start and its first phase.

use std::sync::Arc;

use serde_json::Value;

use super::clock;
use super::event::{Category, Event};
use crate::file::RecordFile;
use crate::operation::{Communicator, Counts, Operation, Source, State};
use crate::tables::{KernelChannel, ProxyOp, ProxyStep, Records};
use nccl_stacks_trace::names::values::{algorithm_of_number, protocol_of_number};
use nccl_stacks_trace::time::Ns;

/// The remark on times of zero that nothing bounds.
const LOST: &str = "times of 0 that no other event bounds, so that they stay unknown";

/// Names of proxy operations: what begins with them, and whether it sends.
const PROXIES: &[(&str, Phase, bool)] = &[
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

/// What ends with a group, and with a collective, send or receive.
const OF_GROUP: &[Category] = &[Category::Group, Category::Api, Category::Launch, Category::Copy];
const OF_OPERATION: &[Category] =
    &[Category::Operation, Category::Channel, Category::Control, Category::Proxy, Category::Step, Category::Message];

struct Open {
    id: i64,
    cat: &'static str,
    name: String,
    begin: Option<Ns>,
}

pub(super) struct Dump<'r> {
    records: &'r mut Records,
    /// By category: the event that is open.
    open: [Option<Open>; Category::ALL],
    /// How many begins have no end.
    unended: u64,
    /// The latest time that is known in this group before the next call.
    reached: Option<Ns>,
    /// The launches of the group: stream and begin.
    launches: Vec<(Option<u64>, Option<Ns>)>,
    api: Option<Api>,
    /// The collective, send or receive that is open: its position.
    operation: Option<usize>,
    /// The proxy operation that was the last to begin within it: the plugin's number, and its position.
    proxy: Option<(i64, usize)>,
    /// The step to which phases and messages belong, in the same way.
    step: Option<(i64, usize)>,
}

struct Api {
    stream: Option<u64>,
    begin: Option<Ns>,
    /// Whether the begin is where the call before ended, because it was recorded as 0.
    is_bound: bool,
    operation: Option<usize>,
}

impl<'r> Dump<'r> {
    pub(super) fn new(records: &'r mut Records) -> Self {
        Dump {
            records,
            open: Default::default(),
            unended: 0,
            reached: None,
            api: None,
            launches: Vec::new(),
            operation: None,
            proxy: None,
            step: None,
        }
    }

    /// Adds an event. An event without a place is counted.
    pub(super) fn add(&mut self, event: &Event, offset: u64, file: &mut RecordFile) {
        // Within a group of calls is the group of what they enqueue.
        let is_inner = event.cat == "GROUP" && self.open(Category::Group).is_some_and(|of| of.cat == "GROUP_API");
        let (is_placed, what) = match event.is_begin {
            true => (is_inner || self.begin(event, offset, file), "events within nothing that they belong to"),
            false => (is_inner || self.end(event, offset, file), "ends without a begin"),
        };
        if !is_placed {
            file.skip(what, Some(offset));
        }
    }

    fn open(&self, of: Category) -> Option<&Open> {
        self.open[of as usize].as_ref()
    }

    fn begin(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        let is_placed = match event.category {
            Category::Group => {
                self.close_group();
                self.reached = event.time;
                true
            }
            Category::Launch => {
                self.launches.push((event.stream(), event.time));
                if event.time.is_none() {
                    file.skip(LOST, Some(offset));
                }
                true
            }
            Category::Api => self.begin_call(event, offset, file),
            Category::Operation => self.begin_operation(event),
            Category::Channel => self.begin_channel(event, offset, file),
            Category::Control => true,
            Category::Proxy => self.begin_proxy(event),
            Category::Step => self.begin_phase(event),
            Category::Message => self.begin_message(event),
            Category::Copy => self.begin_copy(event),
            Category::CopyPart => self.open(Category::Copy).is_some(),
        };
        // What may begin before that has ended: what the proxy's thread does.
        use Category::{Control, CopyPart, Message, Proxy, Step};
        if is_placed || matches!(event.category, Message | CopyPart) {
            let new = Open { id: event.id, cat: event.cat, name: event.name.clone(), begin: event.time };
            let before = self.open[event.category as usize].replace(new);
            let is_unended = before.is_some() && !matches!(event.category, Control | Proxy | Step | Message);
            self.unended += u64::from(is_unended);
        }
        is_placed
    }

    fn end(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        let is_it = |open: &mut Open| open.name == event.name && open.cat == event.cat;
        let Some(open) = self.open[event.category as usize].take_if(is_it) else { return false };
        if open.id != event.id {
            file.repair("ends with another number than their begin", Some(offset));
        }
        match event.category {
            Category::Group => self.close_group(),
            Category::Api => self.end_call(event.time, offset, file),
            Category::Operation => self.close_operation(),
            Category::Channel => self.end_channel(event.time),
            Category::Proxy => self.end_proxy(&open, event.time),
            Category::Step => self.end_phase(&open, event.time),
            _ => {}
        }
        true
    }

    fn close(&mut self, of: &[Category]) {
        for category in of {
            self.unended += u64::from(self.open[*category as usize].take().is_some());
        }
    }

    fn close_group(&mut self) {
        self.close(OF_GROUP);
        (self.api, self.reached) = (None, None);
        self.launches.clear();
        self.close_operation();
    }

    fn close_operation(&mut self) {
        self.close(OF_OPERATION);
        (self.operation, self.proxy, self.step) = (None, None, None);
    }

    /// A call whose begin was never set began after its group did, and after the calls before it in the group returned: one thread makes them.
    fn begin_call(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        self.close_operation();
        let bound = self.reached.filter(|_| event.time.is_none());
        match (event.time, bound) {
            (None, Some(_)) => {
                file.repair("begins of calls that are 0, by the end of what was before them", Some(offset));
            }
            (None, None) => file.skip(LOST, Some(offset)),
            _ => {}
        }
        let (stream, begin) = (event.stream(), event.time.or(bound));
        self.api = Some(Api { stream, begin, is_bound: bound.is_some(), operation: None });
        true
    }

    fn end_call(&mut self, end: Option<Ns>, offset: u64, file: &mut RecordFile) {
        let Some(api) = self.api.take() else { return };
        self.close_operation();
        // If the call ended before that time, the order in the file is not that of the calls.
        let is_wrong = api.is_bound && end.is_some_and(|end| api.begin.is_some_and(|begin| begin > end));
        if let Some(row) = api.operation.and_then(|at| self.records.operations.get_mut(at))
            && is_wrong
        {
            row.enqueued = None;
            file.skip(LOST, Some(offset));
        }
        if !is_wrong {
            self.reached = end.or(self.reached);
        }
    }

    fn begin_operation(&mut self, event: &Event) -> bool {
        self.close_operation();
        let hash = event.number("CommHash").map(Some);
        let communicator = hash.map(|hash| self.records.communicator(Communicator { hash, ..Communicator::default() }));
        let stream = self.api.as_ref().and_then(|api| api.stream);
        let same_stream = |(of, _): &&(Option<u64>, Option<Ns>)| of.is_some() && *of == stream;
        let row = Operation {
            place: event.small("Rank"),
            communicator,
            sequence: event.number("SeqNum").and_then(|number| i64::try_from(number).ok()),
            peer: event.args.get("Peer").or(event.args.get("Root")).and_then(Value::as_i64),
            launched: self.launches.iter().find(same_stream).and_then(|(_, begin)| *begin),
            channels: event.small("nChannels").or(event.small("nMaxChannels")),
            stream_handle: stream,
            state: State::Scheduled,
            algorithm: self.method(event, "Algorithm", algorithm_of_number),
            protocol: self.method(event, "Protocol", protocol_of_number),
            ..self.row(event, "Count", "Datatype")
        };
        self.operation = Some(self.records.push(row));
        if let Some(api) = &mut self.api {
            api.operation = self.operation;
        }
        true
    }

    /// What collectives by kernels and by copy engines have alike.
    fn row(&mut self, event: &Event, count: &str, dtype: &str) -> Operation {
        let (name, collective) = self.records.collective(&event.name);
        let mut row = Operation {
            source: Source::PLUGIN_DUMP,
            counts: Counts::Function,
            collective: Some(name),
            dtype: event.dtype(dtype).map(|dtype| self.records.text(dtype)),
            enqueued: self.api.as_ref().and_then(|api| api.begin).or(event.time),
            ..Operation::default()
        };
        row.set_size(collective, event.number(count), None);
        row
    }

    /// A name, or its number in 2.23.
    fn method(&mut self, event: &Event, key: &str, of_number: fn(u64) -> Option<&'static str>) -> Option<Arc<str>> {
        let name = event.text(key).or_else(|| of_number(event.number(key)?))?;
        Some(self.records.text(&name.to_uppercase()))
    }

    fn begin_channel(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        let (Some(_), Some(channel)) = (self.operation, event.small("Channel")) else { return false };
        if event.number("StopGpuClk") == Some(0) {
            file.skip("stops of channels that are 0, and stay unknown", Some(offset));
        }
        let mut row = KernelChannel {
            operation: self.operation,
            channel,
            gpu_start: event.gpu_time("StartGpuClk"),
            start: event.time,
            ..KernelChannel::default()
        };
        if !row.set_gpu_stop(event.gpu_time("StopGpuClk")) {
            file.skip("stops of channels that no kernel can have", Some(offset));
        }
        self.records.channels.push(row);
        true
    }

    fn end_channel(&mut self, end: Option<Ns>) {
        if let Some(row) = self.records.channels.last_mut() {
            row.end = end.filter(|end| row.start.is_some_and(|start| start <= *end));
        }
    }

    fn begin_copy(&mut self, event: &Event) -> bool {
        let micros = |key: &str| event.args.get(key).and_then(Value::as_f64).filter(|of| *of > 0.0);
        let duration = micros("duration_gpu_us").or(micros("duration_cpu_us"));
        let duration = duration.map(|micros| Ns::rounded(micros * 1000.0));
        let row = Operation { duration, ..self.row(event, "count", "datatype") };
        self.records.push(row);
        true
    }

    fn begin_proxy(&mut self, event: &Event) -> bool {
        let Some((_, phase, is_send)) = PROXIES.iter().find(|(name, ..)| *name == event.name) else { return false };
        let peer = event.args.get("Peer").and_then(Value::as_i64);
        let Some((channel, peer)) = event.small("Channel").zip(peer) else { return false };
        let (records, operation) = (&mut *self.records, self.operation);
        // Its progress follows its schedule.
        let is_same = |(id, at): &(i64, usize)| {
            let row = &records.proxy_ops[*at];
            *id == event.id
                && (row.is_send, row.channel, row.peer, row.operation) == (*is_send, channel, peer, operation)
                && row.start.is_none()
        };
        let may_follow = *phase == Phase::Running && self.open[Category::Proxy as usize].is_none();
        let at = match self.proxy.filter(|before| may_follow && is_same(before)) {
            Some((_, at)) => at,
            None => {
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
        (self.proxy, self.step) = (Some((event.id, at)), None);
        true
    }

    fn end_proxy(&mut self, open: &Open, end: Option<Ns>) {
        let is_running = PROXIES.iter().any(|(name, phase, _)| *name == open.name && *phase == Phase::Running);
        if let Some((_, at)) = self.proxy.filter(|_| is_running) {
            self.records.proxy_ops[at].end = end.filter(|end| Some(*end) >= open.begin);
        }
    }

    fn begin_phase(&mut self, event: &Event) -> bool {
        let Some((_, proxy_op)) = self.proxy else { return false };
        let (steps, step) = (&mut self.records.proxy_steps, event.small("Step").unwrap_or(0));
        if !self.step.is_some_and(|(id, at)| id == event.id && steps[at].step == step) {
            self.step = Some((event.id, steps.len()));
            steps.push(ProxyStep { proxy_op, step, start: event.time, ..ProxyStep::default() });
        }
        true
    }

    fn end_phase(&mut self, open: &Open, end: Option<Ns>) {
        let Some((_, at)) = self.step else { return };
        let row = &mut self.records.proxy_steps[at];
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

    /// A message of a step: a work request of InfiniBand, or a call of a socket.
    fn begin_message(&mut self, event: &Event) -> bool {
        let Some((_, at)) = self.step else { return false };
        let row = &mut self.records.proxy_steps[at];
        if let Some(size) = event.number("size") {
            row.bytes = Some(row.bytes.unwrap_or(0).saturating_add(size));
        }
        true
    }

    pub(super) fn finish(mut self, file: &mut RecordFile) {
        self.close_group();
        if self.unended > 0 {
            file.note(format!("{} of its events have no end.", self.unended));
        }
        clock::anchor(self.records, file);
    }
}
