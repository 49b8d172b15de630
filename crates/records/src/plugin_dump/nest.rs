//! Which event belongs to which, by their order, and the rows that follow.

use super::clock;
use super::event::{Category, Event};
use super::steps::Proxies;
use crate::file::RecordFile;
use crate::operation::{Communicator, Counts, Operation, Source, State};
use crate::tables::{KernelChannel, Records};
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values::{algorithm_of_number, bytes, elements, protocol_of_number};
use nccl_stacks_trace::time::Ns;

/// The remark on times of zero that nothing bounds.
const LOST: &str = "times of 0 that nothing bounds, and that stay unknown";

/// An event that has begun.
struct Open {
    id: i64,
    cat: &'static str,
    name: String,
}

impl Open {
    fn from_event(event: &Event) -> Self {
        Open { id: event.id, cat: event.cat, name: event.name.clone() }
    }
}

/// A dump while it is read. What is open is one event of each level.
pub(super) struct Dump<'r> {
    records: &'r mut Records,
    group: Option<Open>,
    /// The latest time that is known in this group before the next call.
    reached: Option<Ns>,
    api: Option<(Open, Api)>,
    /// The launches of the group: stream and begin.
    launches: Vec<(Option<u64>, Option<Ns>)>,
    launch: Option<Open>,
    operation: Option<(Open, usize)>,
    channel: Option<(Open, usize)>,
    proxies: Proxies,
    copy: Option<(Open, usize)>,
    part: Option<Open>,
    /// How many begins have no end.
    unended: u64,
}

/// A call that is open.
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
            group: None,
            reached: None,
            api: None,
            launches: Vec::new(),
            launch: None,
            operation: None,
            channel: None,
            proxies: Proxies::default(),
            copy: None,
            part: None,
            unended: 0,
        }
    }

    /// Adds an event. An event without a place is counted.
    pub(super) fn add(&mut self, event: &Event, offset: u64, file: &mut RecordFile) {
        let is_placed = if event.is_begin { self.begin(event, offset, file) } else { self.end(event, offset, file) };
        if !is_placed {
            let what =
                if event.is_begin { "events within nothing that they belong to" } else { "ends without a begin" };
            file.skip(what, Some(offset));
        }
    }

    fn begin(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        match event.category {
            // Within a group of calls is the group of what they enqueue.
            Category::Group if event.cat == "GROUP" && self.group.as_ref().is_some_and(|of| of.cat == "GROUP_API") => {}
            Category::Group => {
                self.close_group();
                self.group = Some(Open::from_event(event));
                self.reached = event.time;
            }
            Category::Launch => {
                self.unended += u64::from(self.launch.replace(Open::from_event(event)).is_some());
                self.launches.push((event.stream(), event.time));
                if event.time.is_none() {
                    file.skip(LOST, Some(offset));
                }
            }
            Category::Api => self.begin_call(event, offset, file),
            Category::Operation => self.begin_operation(event),
            Category::Channel => return self.begin_channel(event, offset, file),
            Category::Copy => self.begin_copy(event),
            Category::CopyPart => {
                self.unended += u64::from(self.part.replace(Open::from_event(event)).is_some());
                return self.copy.is_some();
            }
            Category::Proxy | Category::Step | Category::Message => {
                let operation = self.operation.as_ref().map(|(_, at)| *at);
                return self.proxies.begin(event, operation, self.records);
            }
        }
        true
    }

    fn end(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        let closes = |open: Option<&Open>| open.is_some_and(|open| open.name == event.name && open.cat == event.cat);
        let open = match event.category {
            Category::Group if event.cat == "GROUP" && self.group.as_ref().is_some_and(|of| of.cat == "GROUP_API") => {
                return true;
            }
            Category::Group => self.group.as_ref(),
            Category::Api => self.api.as_ref().map(|(open, _)| open),
            Category::Launch => self.launch.as_ref(),
            Category::Operation => self.operation.as_ref().map(|(open, _)| open),
            Category::Channel => self.channel.as_ref().map(|(open, _)| open),
            Category::Copy => self.copy.as_ref().map(|(open, _)| open),
            Category::CopyPart => self.part.as_ref(),
            Category::Proxy | Category::Step | Category::Message => {
                return self.proxies.end(event, offset, self.records, file);
            }
        };
        if !closes(open) {
            return false;
        }
        if open.is_some_and(|open| open.id != event.id) {
            file.repair("ends with another number than their begin", Some(offset));
        }
        match event.category {
            Category::Group => {
                self.group = None;
                self.close_group();
            }
            Category::Api => self.end_call(event.time, offset, file),
            Category::Launch => self.launch = None,
            Category::Operation => {
                self.operation = None;
                self.close_operation();
            }
            Category::Channel => self.end_channel(event),
            Category::Copy => self.copy = None,
            _ => self.part = None,
        }
        true
    }

    /// Whatever is open within a group ends with it.
    fn close_group(&mut self) {
        self.unended += u64::from(self.group.take().is_some());
        self.unended += u64::from(self.api.take().is_some());
        self.unended += u64::from(self.launch.take().is_some());
        self.unended += u64::from(self.copy.take().is_some());
        self.launches.clear();
        self.reached = None;
        self.close_operation();
    }

    fn close_operation(&mut self) {
        self.unended += u64::from(self.operation.take().is_some());
        self.unended += u64::from(self.channel.take().is_some());
        self.unended += self.proxies.close();
    }

    /// A call whose begin was never set began after its group did, and after the calls before it in the group returned: one thread
    /// makes them.
    fn begin_call(&mut self, event: &Event, offset: u64, file: &mut RecordFile) {
        self.unended += u64::from(self.api.take().is_some());
        self.close_operation();
        let bound = self.reached.filter(|_| event.time.is_none());
        match (event.time, bound) {
            (None, Some(_)) => {
                file.repair("begins of calls that are 0, by the end of what was before them", Some(offset))
            }
            (None, None) => file.skip(LOST, Some(offset)),
            _ => {}
        }
        let api =
            Api { stream: event.stream(), begin: event.time.or(bound), is_bound: bound.is_some(), operation: None };
        self.api = Some((Open::from_event(event), api));
    }

    fn end_call(&mut self, end: Option<Ns>, offset: u64, file: &mut RecordFile) {
        let Some((_, api)) = self.api.take() else { return };
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

    fn begin_operation(&mut self, event: &Event) {
        self.close_operation();
        let communicator = event
            .number("CommHash")
            .map(|hash| self.records.communicator(Communicator { hash: Some(hash), ..Communicator::default() }));
        let api = self.api.as_ref().map(|(_, api)| api);
        let stream = api.and_then(|api| api.stream);
        let same_stream = |(of, _): &&(Option<u64>, Option<Ns>)| of.is_some() && *of == stream;
        let mut row = Operation {
            place: event.small("Rank"),
            communicator,
            sequence: event.number("SeqNum").and_then(|number| i64::try_from(number).ok()),
            peer: event.args.get("Peer").or(event.args.get("Root")).and_then(serde_json::Value::as_i64),
            enqueued: api.and_then(|api| api.begin).or(event.time),
            launched: self.launches.iter().find(same_stream).and_then(|(_, begin)| *begin),
            channels: event.small("nChannels").or(event.small("nMaxChannels")),
            stream_handle: stream,
            state: State::Scheduled,
            ..self.row(event, &["Count"], &["Datatype"])
        };
        row.algorithm = self.method(event, "Algorithm", algorithm_of_number);
        row.protocol = self.method(event, "Protocol", protocol_of_number);
        let at = self.records.push(row);
        if let Some((_, api)) = &mut self.api {
            api.operation = Some(at);
        }
        self.operation = Some((Open::from_event(event), at));
    }

    /// What calls, collectives, and collectives by copy engines have alike.
    fn row(&mut self, event: &Event, counts: &[&str], dtypes: &[&str]) -> Operation {
        let collective = Collective::of_record(&event.name);
        let dtype = event.dtype(dtypes);
        let count = counts.iter().find_map(|key| event.number(key));
        let of = collective.zip(count);
        let (in_elements, out_elements) = of.map_or((None, None), |(of, count)| elements(of, count, None));
        Operation {
            source: Source::PLUGIN_DUMP,
            counts: Counts::Function,
            collective: Some(self.records.text(collective.map_or(&event.name, |of| of.name()))),
            dtype: dtype.map(|dtype| self.records.text(dtype)),
            in_elements,
            out_elements,
            bytes: of.zip(dtype).and_then(|((of, count), dtype)| bytes(of, count, dtype, None)),
            ..Operation::default()
        }
    }

    /// A name, or its number in 2.23.
    fn method(
        &mut self,
        event: &Event,
        key: &str,
        of_number: fn(u64) -> Option<&'static str>,
    ) -> Option<std::sync::Arc<str>> {
        let name = event.text(key).or_else(|| of_number(event.number(key)?))?;
        Some(self.records.text(&name.to_uppercase()))
    }

    fn begin_channel(&mut self, event: &Event, offset: u64, file: &mut RecordFile) -> bool {
        let (Some((_, operation)), Some(channel)) = (&self.operation, event.small("Channel")) else { return false };
        let (start, stop) = (event.gpu_time("StartGpuClk"), event.gpu_time("StopGpuClk"));
        if event.args.get("StopGpuClk").and_then(serde_json::Value::as_u64) == Some(0) {
            file.skip("stops of channels that are 0, and stay unknown", Some(offset));
        }
        // The counters of device and host may be apart from each other; such a stop is that of another kernel.
        let is_sound = start.zip(stop).is_none_or(|(start, stop)| stop >= start && stop - start < LONGEST);
        if !is_sound {
            file.skip("stops of channels that no kernel can have", Some(offset));
        }
        let row = KernelChannel {
            operation: Some(*operation),
            channel,
            gpu_start: start,
            gpu_offset: Ns::ZERO,
            gpu_stop: stop.filter(|_| is_sound),
            start: event.time,
            end: None,
        };
        self.unended += u64::from(self.channel.is_some());
        self.channel = Some((Open::from_event(event), self.records.channels.len()));
        self.records.channels.push(row);
        true
    }

    fn end_channel(&mut self, event: &Event) {
        let Some((_, at)) = self.channel.take() else { return };
        if let Some(row) = self.records.channels.get_mut(at) {
            row.end = event.time.filter(|end| row.start.is_some_and(|start| start <= *end));
        }
    }

    fn begin_copy(&mut self, event: &Event) {
        self.unended += u64::from(self.copy.is_some());
        let micros = |key: &str| event.args.get(key).and_then(serde_json::Value::as_f64).filter(|of| *of > 0.0);
        let duration = micros("duration_gpu_us").or(micros("duration_cpu_us"));
        let enqueued = self.api.as_ref().and_then(|(_, api)| api.begin).or(event.time);
        let duration = duration.map(|micros| Ns::rounded(micros * 1000.0));
        let row = Operation { enqueued, duration, ..self.row(event, &["count"], &["datatype"]) };
        let at = self.records.push(row);
        self.copy = Some((Open::from_event(event), at));
    }

    /// Sets what follows from all events together.
    pub(super) fn finish(mut self, file: &mut RecordFile) {
        self.close_group();
        if self.unended > 0 {
            file.note(format!("{} of its events have no end.", self.unended));
        }
        clock::anchor(self.records, file);
    }
}

/// No kernel of NCCL runs for longer.
const LONGEST: Ns = Ns(24 * 3600 * 1_000_000_000);
