//! Records as a Chrome JSON trace, which ui.perfetto.dev opens.
//!
//! A process is a rank, or a rank within its communicator if the source has no global rank. It has threads for its calls, for the kernels of each
//! stream, for their work on each channel, for each direction, peer and channel of its proxies, and for their steps, divided into phases.
//! Overlapping slices are on separate threads. A slice without an end was still running when the recording ended, and viewers show it as such.
//!
//! Each operation that ran has one kernel, although NCCL may carry out several operations with one kernel: so this program also counts operations
//! in such a trace. Calls and kernels are written like Kineto's (`kineto`).
//!
//! Flows lead from a call to its kernel and to the kernel's work on a channel, and where proxies work on that channel to their operations and the
//! first step of these, in order of their times: a proxy may begin before the kernel. There is no flow if the clocks place the call last.
//!
//! Times are relative to the first one, `baseTimeNanoseconds`: as microseconds since the epoch they would lose their last digits.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::{Coverage, kineto};
use crate::chrome::{TraceWriter, Track};
use crate::operation::{Operation, Source};
use crate::records::{ProxyStep, Records};
use crate::time::Ns;

/// Writes the trace. Operations without any time are left out.
pub fn write(records: &Records, out: &mut dyn Write) -> io::Result<Coverage> {
    let mut tracks = Tracks { records, slices: Vec::new(), chains: BTreeMap::new(), coverage: Coverage::default() };
    tracks.operations();
    tracks.channels();
    tracks.proxies();
    let Tracks { mut slices, chains, coverage, .. } = tracks;
    // Leave out chains that a longer one contains: a kernel's is a prefix of its channels', a channel's of its proxies'.
    let goes_on = |(at, channel, proxy): &(usize, Option<u32>, Option<usize>)| {
        let last = (*at, channel.or(Some(u32::MAX)), Some(usize::MAX));
        proxy.is_none() && chains.range((*at, *channel, Some(0))..=last).next().is_some()
    };
    let chains = chains.iter().filter(|(key, _)| !goes_on(key)).map(|(_, chain)| chain);
    let base = slices.iter().map(|slice| slice.start).min().unwrap_or_default();
    for slice in &mut slices {
        slice.start = slice.start - base;
        slice.end = slice.end.map(|end| end - base);
    }
    let mut trace = TraceWriter::new(out);
    trace.field(b"\"baseTimeNanoseconds\"", base.0.to_string().as_bytes())?;
    let other = json!({"program": concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"))});
    trace.field(b"\"otherData\"", other.to_string().as_bytes())?;
    let places = write_threads(&mut trace, &slices, |process| name(records, process))?;
    let mut order: Vec<usize> = (0..slices.len()).collect();
    // Longer slices first, because they enclose the others.
    order.sort_by_key(|at| (slices[*at].start, std::cmp::Reverse(slices[*at].end)));
    order.iter().try_for_each(|at| write_slice(&mut trace, &slices[*at], places[*at]))?;
    for (id, chain) in (1..).zip(chains) {
        write_flow(&mut trace, id, chain, &slices, &places)?;
    }
    trace.finish()?;
    Ok(coverage)
}

/// A process: its source, its communicator if the rank is relative to that, and its rank. Each source has its own clock.
type Process = (Option<Source>, Option<usize>, Option<u32>);

fn name(records: &Records, (source, communicator, rank): Process) -> String {
    let rank = rank.map_or("unknown rank".to_owned(), |rank| format!("rank {rank}"));
    let known = communicator.and_then(|at| records.communicators.get(at));
    let group = known.and_then(|known| known.key().or_else(|| known.name.clone())).map(|key| format!(" of {key}"));
    let source = source.map_or(String::new(), |source| format!(" ({})", source.name()));
    format!("{rank}{}{source}", group.unwrap_or_default())
}

/// The kinds of threads in a process, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Thread {
    Calls,
    /// The kernels of a stream, by its handle.
    Kernels(Option<u64>),
    Channel(u32),
    /// Of a channel: whether it sends, and the peer.
    Proxy(u32, bool, i64),
    Steps(u32, bool, i64),
}

impl Thread {
    fn name(self) -> String {
        let whom = |is_send, peer| if is_send { format!("send to {peer}") } else { format!("receive from {peer}") };
        match self {
            Thread::Calls => "calls".to_owned(),
            Thread::Kernels(None) => "kernels".to_owned(),
            Thread::Kernels(Some(stream)) => format!("kernels, stream {stream:#x}"),
            Thread::Channel(channel) => format!("channel {channel}"),
            Thread::Proxy(channel, is_send, peer) => format!("proxy, channel {channel}: {}", whom(is_send, peer)),
            Thread::Steps(channel, is_send, peer) => format!("steps, channel {channel}: {}", whom(is_send, peer)),
        }
    }
}

/// A slice, and the phases in it.
struct Slice {
    process: Process,
    thread: Thread,
    start: Ns,
    end: Option<Ns>,
    cat: &'static str,
    name: String,
    args: Value,
    /// Names and durations of consecutive phases, from its start.
    phases: Vec<(&'static str, Ns)>,
}

/// Slices, and the chains of slices for flows, by operation, channel and proxy operation.
struct Tracks<'a> {
    records: &'a Records,
    slices: Vec<Slice>,
    chains: BTreeMap<(usize, Option<u32>, Option<usize>), Vec<usize>>,
    coverage: Coverage,
}

impl Tracks<'_> {
    fn process(&self, operation: &Operation) -> Process {
        let communicator = operation.communicator.filter(|_| operation.rank.is_none());
        (Some(operation.source), communicator, operation.rank_or_place())
    }

    fn add(&mut self, slice: Slice) -> usize {
        self.slices.push(slice);
        self.slices.len() - 1
    }

    fn operations(&mut self) {
        let records = self.records;
        for (at, operation) in records.operations.iter().enumerate() {
            let (process, args) = (self.process(operation), kineto::args(records, at, operation));
            let slice = |thread, (cat, name), start, end| {
                let args = args.clone();
                Slice { process, thread, start, end, cat, name, args, phases: Vec::new() }
            };
            let mut is_written = false;
            if let Some(start) = operation.enqueued {
                // No table has the end of a call; it lasts at least until its kernel was launched.
                let end = operation.launched.filter(|launched| *launched > start).unwrap_or(start);
                let call = self.add(slice(Thread::Calls, (kineto::CALL, kineto::call(operation)), start, Some(end)));
                self.chains.insert((at, None, None), vec![call]);
                is_written = true;
            }
            if let Some(start) = operation.start {
                let end = operation.end.or_else(|| Some(start + operation.duration?));
                let thread = Thread::Kernels(operation.stream_handle);
                let kernel = self.add(slice(thread, (kineto::KERNEL, kineto::kernel(operation)), start, end));
                self.chains.entry((at, None, None)).or_default().push(kernel);
                is_written = true;
            }
            self.coverage.count(is_written);
        }
    }

    /// The slices that precede others of an operation on a channel: its call, and its kernel there.
    fn before(&self, operation: usize, channel: Option<u32>) -> Vec<usize> {
        let own = self.chains.get(&(operation, channel, None)).or_else(|| self.chains.get(&(operation, None, None)));
        own.cloned().unwrap_or_default()
    }

    fn channels(&mut self) {
        for row in &self.records.channels {
            let (start, end) = row.on_host();
            let Some((at, start)) = row.operation.zip(start) else { continue };
            let Some(operation) = self.records.operations.get(at) else { continue };
            let slice = Slice {
                process: self.process(operation),
                thread: Thread::Channel(row.channel),
                start,
                end,
                cat: "channel",
                name: operation.collective.as_deref().unwrap_or("operation").to_owned(),
                args: json!({"channel": row.channel}),
                phases: Vec::new(),
            };
            let mut chain = self.before(at, None);
            chain.push(self.add(slice));
            self.chains.insert((at, Some(row.channel), None), chain);
        }
    }

    fn proxies(&mut self) {
        let mut steps: HashMap<usize, Vec<&ProxyStep>> = HashMap::new();
        for step in &self.records.proxy_steps {
            steps.entry(step.proxy_op).or_default().push(step);
        }
        for (number, row) in self.records.proxy_ops.iter().enumerate() {
            let operation = row.operation.and_then(|at| self.records.operations.get(at));
            let process = operation.map_or((None, None, row.place), |operation| self.process(operation));
            let mut chain = row.operation.map_or_else(Vec::new, |at| self.before(at, Some(row.channel)));
            let (channel, is_send, peer) = (row.channel, row.is_send, row.peer);
            if let Some(start) = row.queued.or(row.start) {
                let queue = row.queued.zip(row.start).map(|(queued, start)| ("queued", start - queued));
                chain.push(self.add(Slice {
                    process,
                    thread: Thread::Proxy(channel, is_send, peer),
                    start,
                    end: row.end,
                    cat: "proxy",
                    name: operation.and_then(|of| of.collective.as_deref()).unwrap_or("proxy operation").to_owned(),
                    args: json!({"peer": peer, "steps": row.steps, "chunk_bytes": row.chunk_bytes, "bytes": row.bytes}),
                    phases: queue.into_iter().collect(),
                }));
            }
            for (at, step) in steps.get(&number).into_iter().flatten().enumerate() {
                let Some(start) = step.start else { continue };
                let slice = Slice {
                    process,
                    thread: Thread::Steps(channel, is_send, peer),
                    start,
                    end: step.end,
                    cat: "step",
                    name: format!("step {}", step.step),
                    args: json!({"step": step.step, "bytes": step.bytes}),
                    phases: phases(step, is_send),
                };
                let slice = self.add(slice);
                if at == 0 {
                    chain.push(slice);
                }
            }
            if let Some(at) = row.operation {
                self.chains.insert((at, Some(channel), Some(number)), chain);
            }
        }
    }
}

/// The phases of a step, in order.
fn phases(step: &ProxyStep, is_send: bool) -> Vec<(&'static str, Ns)> {
    let (gpu, peer) = (("GPU wait", step.gpu_wait), ("peer wait", step.peer_wait));
    let (network, flush) = (("network", step.network), ("flush", step.flush));
    let order = if is_send { [gpu, peer, network] } else { [network, flush, gpu] };
    order.into_iter().filter_map(|(name, took)| Some((name, took?))).collect()
}

type Trace<'t> = TraceWriter<&'t mut dyn Write>;

/// Names processes and threads. Returns the place of each slice.
fn write_threads(trace: &mut Trace<'_>, slices: &[Slice], names: impl Fn(Process) -> String) -> io::Result<Vec<Track>> {
    let mut threads: BTreeMap<(Process, Thread), Vec<usize>> = BTreeMap::new();
    for (at, slice) in slices.iter().enumerate() {
        threads.entry((slice.process, slice.thread)).or_default().push(at);
    }
    let mut processes: Vec<Process> = threads.keys().map(|(process, _)| *process).collect();
    processes.dedup();
    // No thread has the number of its process: it is no main thread.
    let mut next = processes.len() as u32 + 1;
    let mut places = vec![Track { pid: 0, tid: 0 }; slices.len()];
    let mut last = None;
    for ((process, thread), mut own) in threads {
        let pid = 1 + processes.iter().position(|of| *of == process).unwrap_or(0) as u32;
        if last.replace(process) != Some(process) {
            trace.process(pid, &names(process))?;
        }
        own.sort_by_key(|at| slices[*at].start);
        let windows: Vec<(Ns, Option<Ns>)> = own.iter().map(|at| (slices[*at].start, slices[*at].end)).collect();
        let lanes = lanes(&windows);
        let count = lanes.iter().max().map_or(0, |last| *last as u32 + 1);
        for tid in next..next + count {
            trace.thread(Track { pid, tid }, &thread.name(), tid)?;
        }
        own.iter().zip(lanes).for_each(|(at, lane)| places[*at] = Track { pid, tid: next + lane as u32 });
        next += count;
    }
    Ok(places)
}

fn write_slice(trace: &mut Trace<'_>, slice: &Slice, place: Track) -> io::Result<()> {
    trace.slice(place, (slice.start, slice.end), (slice.cat, &slice.name), &slice.args)?;
    let mut start = slice.start;
    for (name, took) in &slice.phases {
        let end = start + *took;
        // Phases end with their step, whatever rounding gives.
        let end = slice.end.map_or(end, |last| end.min(last));
        if end > start {
            trace.slice(place, (start, Some(end)), ("phase", name), &json!({}))?;
        }
        start = end;
    }
    Ok(())
}

/// Writes a flow through the slices of a chain, in order of their starts, if the first slice of the chain starts first.
fn write_flow(trace: &mut Trace<'_>, id: u64, chain: &[usize], slices: &[Slice], places: &[Track]) -> io::Result<()> {
    let mut sorted = chain.to_vec();
    sorted.sort_by_key(|at| slices[*at].start);
    if sorted.len() < 2 || sorted.first() != chain.first() {
        return Ok(());
    }
    for (place, slice) in sorted.iter().enumerate() {
        trace.flow(places[*slice], slices[*slice].start, (id, "flow"), (place, sorted.len()))?;
    }
    Ok(())
}

/// The lane of each slice, from 0, for starts and ends in order of the starts: viewers show only nested slices on one track. A slice without an end
/// keeps its lane.
fn lanes(slices: &[(Ns, Option<Ns>)]) -> Vec<usize> {
    let mut free: Vec<Option<Ns>> = Vec::new();
    let lane = |(start, end): &(Ns, Option<Ns>)| {
        let fitting = free.iter().position(|until| until.is_some_and(|until| until <= *start));
        let lane = fitting.unwrap_or(free.len());
        match free.get_mut(lane) {
            Some(until) => *until = *end,
            None => free.push(*end),
        }
        lane
    };
    slices.iter().map(lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overlaps_has_another_lane() {
        let slice = |start, end: Option<i64>| (Ns(start), end.map(Ns));
        let slices = [(0, Some(10)), (5, Some(7)), (7, Some(9)), (10, None), (20, Some(21)), (30, Some(31))];
        let slices: Vec<_> = slices.into_iter().map(|(start, end)| slice(start, end)).collect();
        assert_eq!(lanes(&slices), [0, 1, 1, 0, 1, 1]);
    }
}
