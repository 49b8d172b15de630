//! Dumps of NCCL's example profiler plugin as of NCCL 2.28: a file for each communicator, in Chrome's format for nested events, including its
//! faults: names and pointers without quotes, and times that were never set.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::rng::Rng;
use super::calls::{Call, comm_hash, handle};
use super::{Writing, Written};

/// The minimum time between loading the plugin and the start of the job. The plugin's times count from its loading.
const LOADED: i64 = 5_000_000_000;
/// The number of steps of a proxy operation.
const STEPS: u32 = 2;

pub(super) fn write<'a>(writing: &Writing<'a>) -> Vec<Written<'a>> {
    let mut groups: BTreeMap<usize, Vec<&Call<'a>>> = BTreeMap::new();
    for call in &writing.calls {
        groups.entry(call.comm.group).or_default().push(call);
    }
    groups.into_iter().map(|(group, calls)| file(writing, group, calls)).collect()
}

fn file<'a>(writing: &Writing<'a>, group: usize, calls: Vec<&'a Call<'a>>) -> Written<'a> {
    let place = writing.layout.place(group, writing.rank);
    let mut dump = Dump::new(writing);
    for call in &calls {
        dump.call(writing, place, call);
    }
    dump.text.push_str("{}]\n");
    let name = format!("nccl_profile_{}_{place}.json", comm_hash(group));
    Written { name, bytes: dump.text.into_bytes(), calls }
}

struct Dump {
    text: String,
    pid: u32,
    origin: i64,
    /// By category: how many ids were given.
    ids: BTreeMap<&'static str, u64>,
}

impl Dump {
    fn new(writing: &Writing<'_>) -> Self {
        let loaded = Rng::new(u64::from(writing.rank), 6_000_000_000).up_to(1_000_000_000) + LOADED;
        let origin = writing.clock.at(0) - loaded;
        Self { text: "[\n".to_owned(), pid: 40_000 + writing.rank, origin, ids: BTreeMap::new() }
    }

    fn id(&mut self, category: &'static str) -> u64 {
        let id = self.ids.entry(category).or_default();
        *id += 1;
        *id - 1
    }

    /// An event: `b` begins, `e` ends. The time is on the source's clock; `None` was never set.
    fn put(&mut self, name: &str, category: &str, is_begin: bool, id: u64, at: Option<i64>, args: &str) {
        let phase = if is_begin { 'b' } else { 'e' };
        let at = at.map_or(0.0, |at| (at - self.origin) as f64 / 1e3);
        let args = if args.is_empty() { String::new() } else { format!(", \"args\": {{{args}}}") };
        let pid = self.pid;
        // Writing to a String never fails.
        let _ = writeln!(
            self.text,
            "{{\"name\": \"{name}\", \"cat\": \"{category}\", \"ph\": \"{phase}\", \"id\": {id}, \"pid\": {pid}, \"tid\": 1, \
             \"ts\": {at:.6}{args}}},"
        );
    }

    /// A call as a group of its own.
    fn call(&mut self, writing: &Writing<'_>, place: u32, call: &Call<'_>) {
        let at = |ns: i64| Some(writing.clock.at(ns));
        let (name, count) = (call.function, call.count);
        let stream = handle(call.stream);
        let group = self.id("GROUP_API");
        let args = format!("\"groupApiId\": {group}, \"groupDepth\":1");
        self.put("Group API", "GROUP_API", true, group, at(call.called), &args);
        let launch = self.id("KERNEL_LAUNCH");
        let args = format!("\"groupId\": {group}, \"Stream\": {stream:#x}");
        self.put("KernelLaunch", "KERNEL_LAUNCH", true, launch, None, &args);
        self.put("KernelLaunch", "KERNEL_LAUNCH", false, launch, at(call.returned - 500), "");
        let root = if call.is_collective() { "\"root\": 0, " } else { "" };
        let of_api = format!(
            "\"count\": {count}, \"datatype\": ncclBfloat16, {root}\"GraphCaptured\":0, \"Stream\": {stream:#x}"
        );
        let hash = comm_hash(call.comm.group);
        let channels = call.plan.channels;
        let (api, of, args) = match (call.peer, call.plan.algorithm, call.plan.protocol) {
            (Some(peer), ..) => (
                "P2P_API",
                "P2P",
                format!(
                    "\"CommHash\": {hash}, \"Rank\": {place}, \"Peer\": {peer}, \"Count\": {count}, \"Datatype\": \"ncclBfloat16\", \
                     \"nChannels\": {channels}"
                ),
            ),
            (None, algorithm, protocol) => (
                "COLL_API",
                "COLL",
                format!(
                    "\"SeqNum\": {}, \"CommHash\": {hash}, \"Rank\": {place}, \"Count\": {count}, \"Datatype\": \"ncclBfloat16\", \
                     \"Algorithm\": \"{}\", \"Protocol\": \"{}\", \"nChannels\": {channels}",
                    call.sequence,
                    algorithm.unwrap_or_default(),
                    protocol.unwrap_or_default()
                ),
            ),
        };
        let (api_id, id) = (self.id(api), self.id(of));
        self.put(name, api, true, api_id, None, &of_api);
        self.put(name, of, true, id, at(call.called + 1_000), &args);
        self.kernel(writing, call);
        self.put(name, of, false, id, at(call.returned - 1_000), "");
        self.put(name, api, false, api_id, at(call.called + 900), "");
        self.put("Group API", "GROUP_API", false, group, at(call.returned), "");
    }

    /// The channels of a kernel. Only channel 0 has an end, and all have the same id.
    fn kernel(&mut self, writing: &Writing<'_>, call: &Call<'_>) {
        let at = |ns: i64| writing.clock.at(ns);
        let on_gpu = |ns: i64| at(ns) / 32 * 32;
        for channel in 0..call.plan.channels {
            let seen = i64::from(channel) * 150;
            let stop = if channel == 0 { on_gpu(call.ran.1) } else { 0 };
            let args =
                format!("\"Channel\": {channel}, \"StartGpuClk\": {}, \"StopGpuClk\": {stop}", on_gpu(call.ran.0));
            self.put("KernelCh", "GPU", true, 0, Some(at(call.ran.0) + 2_000 + seen), &args);
            if channel == 0 && call.plan.algorithm == Some("RING") {
                self.proxy(writing, call);
            }
            let end = (channel == 0).then(|| at(call.ran.1) + 2_000);
            self.put("KernelCh", "GPU", false, 0, end, "");
        }
    }

    /// The proxy thread receives from the previous rank and sends to the next.
    fn proxy(&mut self, writing: &Writing<'_>, call: &Call<'_>) {
        let ranks = writing.layout.groups[call.comm.group].ranks.len() as u32;
        let place = writing.layout.place(call.comm.group, writing.rank);
        let (start, end) = call.ran;
        let step_bytes = call.bytes() / u64::from(STEPS);
        for (direction, peer, phases) in [
            ("Recv", (place + ranks - 1) % ranks, ["RecvWait", "RecvFlushWait", "RecvGpuWait"]),
            ("Send", (place + 1) % ranks, ["SendGpuWait", "SendPeerWait", "SendWait"]),
        ] {
            let at = |ns: i64| Some(writing.clock.at(ns));
            let id = self.id("PROXY");
            let bytes = step_bytes * u64::from(STEPS);
            let args = format!(
                "\"Channel\": 0, \"Peer\": {peer}, \"Steps\": {STEPS}, \"ChunkSize\": {step_bytes}, \"transSize\": {bytes}"
            );
            let (schedule, progress) = (format!("Schedule{direction}"), format!("Progress{direction}"));
            self.put(&schedule, "PROXY", true, id, at(start), &args);
            self.put(&schedule, "PROXY", false, id, at(start + 500), "");
            self.put(&progress, "PROXY", true, id, at(start + 500), &args);
            // The steps follow each other, with three phases each: a half, a quarter and a quarter of their time.
            let length = (end - start - 1_000) / i64::from(STEPS);
            for step in 0..STEPS {
                let net = self.id("NET");
                let from = start + 500 + length * i64::from(step);
                let marks = [from, from + length / 2, from + length / 4 * 3, from + length];
                let args = format!("\"Step\": {step}");
                for (phase, span) in phases.iter().zip(marks.windows(2)) {
                    self.put(phase, "NET", true, net, at(span[0]), &args);
                    self.put(phase, "NET", false, net, at(span[1]), "");
                }
            }
            self.put(&progress, "PROXY", false, id, at(end), "");
        }
    }
}
