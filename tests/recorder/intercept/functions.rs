//! Every function is forwarded with its arguments, and recorded once.

use std::fs;
use std::process::Command;

use nccl_stacks_recorder_format::{Kind, flag};

use crate::recorder::jobs::{Job, RECORDER, built};

/// Name, elements, stream, root or peer, type, reduction, depth, communicator: what `all` of the driver calls.
type Want = (&'static str, u64, u64, u64, u8, u8, u64, u16);

/// The same of a record.
type Got = (String, u64, u64, u64, u8, u8, u64, u16);

const ALL: [Want; 43] = [
    ("ncclGetUniqueId", 0, 0, 0, 0, 0, 0, 0),
    ("ncclCommInitRank", 8, 0, 5, 0, 0, 0, 1),
    ("ncclCommInitRankConfig", 4, 0, 2, 0, 0, 0, 2),
    ("ncclCommInitRankScalable", 16, 0, 9, 0, 0, 0, 3),
    ("ncclCommInitAll", 2, 0, 0, 0, 0, 0, 0),
    ("ncclCommSplit", 3, 0, 1, 0, 0, 0, 1),
    ("ncclCommShrink", 1, 0, 0, 0, 0, 0, 1),
    ("ncclCommGrow", 12, 0, u64::MAX, 0, 0, 0, 1),
    ("ncclCommGetUniqueId", 0, 0, 0, 0, 0, 0, 1),
    ("ncclAllReduce", 101, 0x51, 0, 8, 1, 0, 1),
    ("ncclReduceScatter", 102, 0x52, 0, 9, 2, 0, 1),
    ("ncclReduce", 103, 0x53, 6, 10, 3, 0, 1),
    ("ncclAllGather", 104, 0x54, 0, 1, 0, 0, 1),
    ("ncclBroadcast", 105, 0x55, 7, 2, 0, 0, 1),
    // NCCL makes an `ncclBroadcast` of it, which is no call of the program.
    ("ncclBcast", 106, 0x56, 4, 3, 0, 0, 1),
    ("ncclAlltoAll", 107, 0x57, 0, 4, 0, 0, 1),
    ("ncclGather", 108, 0x58, 3, 5, 0, 0, 1),
    ("ncclScatter", 109, 0x59, 2, 6, 0, 0, 1),
    ("ncclAllReduceConfig", 111, 0x61, 0, 8, 4, 0, 1),
    ("ncclReduceScatterConfig", 112, 0x62, 0, 9, 5, 0, 1),
    // A reduction of the program's own.
    ("ncclReduceConfig", 113, 0x63, 1, 10, 255, 0, 1),
    ("ncclAllGatherConfig", 114, 0x64, 0, 1, 0, 0, 1),
    ("ncclBroadcastConfig", 115, 0x65, 5, 2, 0, 0, 1),
    ("ncclAlltoAllConfig", 117, 0x67, 0, 4, 0, 0, 1),
    ("ncclGatherConfig", 118, 0x68, 6, 5, 0, 0, 1),
    ("ncclScatterConfig", 119, 0x69, 7, 6, 0, 0, 1),
    ("ncclGroupStart", 0, 0, 0, 0, 0, 0, 0),
    ("ncclSend", 1 << 40, 0x71, 1, 7, 0, 1, 1),
    ("ncclRecv", 122, 0, 2, 11, 0, 1, 1),
    ("ncclGroupEnd", 0, 0, 0, 0, 0, 0, 0),
    ("ncclPutSignal", 123, 0x73, 3, 12, 0, 0, 1),
    ("ncclSignal", 0, 0x74, 4, 0, 0, 0, 1),
    ("ncclWaitSignal", 0, 0x75, 0, 0, 0, 0, 1),
    ("ncclGroupStart", 0, 0, 0, 0, 0, 0, 0),
    ("ncclGroupSimulateEnd", 0, 0, 0, 0, 0, 0, 0),
    ("ncclRedOpCreatePreMulSum", 0, 0, 0, 8, 0, 0, 1),
    ("ncclRedOpDestroy", 0, 0, 0, 0, 255, 0, 1),
    ("ncclCommRevoke", 0, 0, 0, 0, 0, 0, 1),
    ("ncclCommSuspend", 0, 0, 0, 0, 0, 0, 1),
    ("ncclCommResume", 0, 0, 0, 0, 0, 0, 1),
    ("ncclCommFinalize", 0, 0, 0, 0, 0, 0, 1),
    ("ncclCommDestroy", 0, 0, 0, 0, 0, 0, 1),
    ("ncclCommAbort", 0, 0, 0, 0, 0, 0, 2),
];

/// The names of all functions.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|want| want.0)
}

fn got(job: &Job) -> Vec<Got> {
    let recording = job.recording();
    let calls = recording.calls().into_iter();
    calls.map(|(name, r)| (name.to_owned(), r.a, r.b, r.c, r.dtype, r.algorithm, r.parent, r.communicator)).collect()
}

/// Whether all ranks of a communicator call it; all of these are of one communicator here.
fn is_collective(name: &str) -> bool {
    let name = name.strip_prefix("nccl").unwrap();
    let ends = ["Reduce", "ReduceScatter", "AllGather", "Broadcast", "Bcast", "AlltoAll", "Gather", "Scatter"];
    ends.iter().any(|end| name.strip_suffix("Config").unwrap_or(name).ends_with(end))
}

fn want(of: impl Fn(&Want) -> bool) -> Vec<Got> {
    let wanted = ALL.iter().filter(|want| of(want));
    let (mut collectives, mut transfers) = (0, 0);
    let got = wanted.map(|w| {
        // The number of the collective, or of the send or receive, is in the high half.
        let number = match w.0 {
            "ncclSend" | "ncclRecv" => {
                transfers += 1;
                transfers
            }
            name if is_collective(name) => {
                collectives += 1;
                collectives
            }
            _ => 0,
        };
        (w.0.to_owned(), w.1, w.2, w.3 & 0xffff_ffff | number << 32, w.4, w.5, w.6, w.7)
    });
    got.collect()
}

/// What the driver printed is what NCCL got.
fn is_forwarded(job: &mut Job) {
    let printed = job.lines();
    let (comments, calls): (Vec<String>, Vec<String>) = printed.into_iter().partition(|line| line.starts_with('#'));
    assert_eq!(comments, ["# end"]);
    assert_eq!((job.log(), calls.len()), (calls, ALL.len() + 1));
}

#[test]
fn every_function_is_forwarded_and_recorded_on_every_way() {
    for (program, via) in [("linked", "link"), ("alone", "handle"), ("alone", "default"), ("linked", "handle")] {
        let mut job = Job::assemble(&built().path(program), &["all"]).env("VIA", via);
        is_forwarded(&mut job);
        assert_eq!(got(&job), want(|_| true), "{program} {via}");
        assert_eq!(job.recording().header().nccl, 23203);
        assert!(job.recording().header().is_closed);
    }
}

#[test]
fn calls_that_may_wait_say_when_they_returned() {
    let mut job = Job::new(&["all"]);
    job.run();
    let recording = job.recording();
    let waiting: Vec<(&str, u64)> = ALL
        .iter()
        .filter(|want| {
            let makes = want.0.starts_with("ncclCommInit");
            let others = ["Split", "Shrink", "Grow", "Finalize", "Destroy", "Abort", "GroupEnd", "GroupSimulateEnd"];
            (makes || others.iter().any(|end| want.0.ends_with(end))) && want.0 != "ncclRedOpDestroy"
        })
        .map(|want| (want.0, 0))
        .collect();
    assert_eq!((recording.results(), waiting.len()), (waiting, 12));
    let times: Vec<i64> = recording.records.iter().map(|(_, record)| record.time).collect();
    assert!(times.is_sorted() && times[0] >= recording.header().start.monotonic);
}

#[test]
fn an_older_library_lacks_functions_and_the_others_work() {
    let mut job = Job::new(&["all"]).env("LD_LIBRARY_PATH", built().path("old")).env("NCCL_STACKS_LOG", "1");
    let output = job.run();
    let printed = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let newer = |want: &Want| {
        want.0.ends_with("Config") && want.0 != "ncclCommInitRankConfig"
            || ["Scalable", "Shrink", "Grow", "lltoAll", "Gather", "Scatter", "Signal", "SimulateEnd"]
                .iter()
                .any(|end| want.0.ends_with(end) && !["ncclAllGather", "ncclReduceScatter"].contains(&want.0))
            || ["ncclCommGetUniqueId", "ncclCommRevoke", "ncclCommSuspend", "ncclCommResume"].contains(&want.0)
    };
    // `ncclInvalidUsage`, and a line for each.
    let failed: Vec<String> = ALL.iter().filter(|want| newer(want)).map(|want| format!("# {} 5", want.0)).collect();
    let comments: Vec<&str> = printed.lines().filter(|line| line.starts_with('#') && *line != "# end").collect();
    assert_eq!((comments.clone(), comments.len()), (failed.iter().map(String::as_str).collect(), 22));
    assert_eq!(said.matches("was called, and no NCCL that is loaded has it").count(), 22, "{said}");
    let calls: Vec<String> = printed.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    assert_eq!(job.log(), calls);
    let recording = job.recording();
    let names: Vec<&str> = recording.calls().iter().map(|call| call.0).collect();
    let wanted: Vec<&str> = ALL.iter().filter(|want| !newer(want)).map(|want| want.0).collect();
    assert_eq!((names, recording.header().nccl), (wanted, 21805));
}

#[test]
fn python_that_loads_nccl_by_ctypes_is_seen() {
    if Command::new("python3").arg("-c").arg("import ctypes").output().is_ok_and(|done| !done.status.success()) {
        println!("SKIPPED: python3 with ctypes is not there");
        return;
    }
    // As vLLM and SGLang do it: a handle, types, the id by value.
    let script = r#"
import ctypes
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]
nccl = ctypes.CDLL("libnccl.so.2")
nccl.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, Id, ctypes.c_int]
nccl.ncclAllReduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
id = Id()
ctypes.memmove(ctypes.byref(id), bytes(range(128)), 128)
comm = ctypes.c_void_p()
assert nccl.ncclCommInitRank(ctypes.byref(comm), 8, id, 3) == 0
assert nccl.ncclAllReduce(1, 2, 77, 7, 0, comm, 0x51) == 0
try:
    nccl.ncclNoSuchThing
except AttributeError as error:
    print(error)
print(ctypes.CDLL("libc.so.6").getpid() > 0)
"#;
    let folder = built().path("new");
    let mut job = Job::assemble("python3".as_ref(), &["-c", script]);
    let lines = job.lines();
    let library = folder.join("libnccl.so.2");
    assert_eq!(
        lines,
        [
            "libnccl.so.2: undefined symbol: ncclNoSuchThing".replace("libnccl.so.2", &library.display().to_string()),
            "True".to_owned()
        ]
    );
    assert_eq!(job.log().len(), 2);
    let recording = job.recording();
    let calls: Vec<(&str, u64, u16)> = recording.calls().iter().map(|(name, r)| (*name, r.a, r.communicator)).collect();
    assert_eq!(calls, [("ncclCommInitRank", 8, 1), ("ncclAllReduce", 77, 1)]);
    assert_eq!(recording.communicators()[0].hash, 0x6afe_1cc1_7717_e1f4);

    // Without the interposed dlsym these calls pass by.
    let mut job = Job::assemble("python3".as_ref(), &["-c", script]).env("NCCL_STACKS_DLSYM", "0");
    job.run();
    assert_eq!((job.log().len(), job.recordings().len()), (2, 0));
}

#[test]
fn errors_are_returned_and_recorded() {
    let mut job = Job::new(&["init 0 4 1", "reduce 0 9 0", "bcast 0 8 1"]).env("FAKE_NCCL_RESULT", "ncclAllReduce:3");
    assert_eq!(job.lines(), ["! reduce 0 9 0: 3"]);
    assert_eq!(job.recording().results(), [("ncclCommInitRank", 0), ("ncclAllReduce", 3)]);
    let stop = job.recording().records.iter().find(|(_, r)| r.kind == Kind::Stop && r.a == 3).unwrap().1;
    assert_eq!(stop.communicator, 1);
}

#[test]
fn groups_may_be_nested() {
    let steps = ["start", "reduce 0 1 0", "start", "reduce 0 2 0", "end", "reduce 0 3 0", "end", "reduce 0 4 0", "end"];
    let mut job = Job::new(&[&["init 0 4 1"], &steps[..]].concat());
    job.run();
    let recording = job.recording();
    let calls: Vec<(&str, u64)> = recording.calls().iter().skip(1).map(|(name, r)| (*name, r.parent)).collect();
    let (start, end, reduce) = ("ncclGroupStart", "ncclGroupEnd", "ncclAllReduce");
    // The last one has no beginning.
    let want =
        [(start, 0), (reduce, 1), (start, 1), (reduce, 2), (end, 1), (reduce, 1), (end, 0), (reduce, 0), (end, 0)];
    assert_eq!(calls, want);
    assert_eq!(recording.results(), [("ncclCommInitRank", 0), (end, 0), (end, 0), (end, 5)]);
}

#[test]
fn threads_have_their_own_groups_and_lose_nothing() {
    let mut job = Job::new(&["init 0 4 1", "start", "threads 8 2000 0"]).env("NCCL_STACKS_RING_RECORDS", "65536");
    job.run();
    let recording = job.recording();
    let mut calls: Vec<(u64, u64, u64)> = recording
        .calls()
        .iter()
        .filter(|(name, _)| *name == "ncclAllReduce")
        .map(|(_, r)| (r.b, r.a, r.parent))
        .collect();
    calls.sort_unstable();
    let want: Vec<(u64, u64, u64)> = (100..108).flat_map(|thread| (1..=2000).map(move |n| (thread, n, 0))).collect();
    assert_eq!((calls.len(), recording.incomplete, recording.header().lost), (want.len(), 0, 0));
    assert!(calls == want);
    let mut threads: Vec<u32> = recording.calls().iter().map(|(_, r)| r.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 9);
}

#[test]
fn captures_are_asked_for_if_wanted() {
    let steps = ["init 0 4 1", "reduce 0 1 81", "reduce 0 2 82"];
    let captured = |job: &mut Job| -> Vec<bool> {
        job.run();
        job.recording().calls().iter().map(|(_, r)| r.flags & flag::CAPTURED != 0).collect()
    };
    assert_eq!(captured(&mut Job::new(&steps)), [false, false, false]);
    assert_eq!(captured(&mut Job::new(&steps).env("NCCL_STACKS_CAPTURE", "1")), [false, true, false]);
    let alone = Job::assemble(&built().path("alone"), &steps).env("VIA", "handle");
    assert_eq!(captured(&mut alone.env("NCCL_STACKS_CAPTURE", "1")), [false, true, false]);
}

/// All that NCCL has, the flow extractor's two functions, and no more: a function too many would take the place of somebody else's.
#[test]
fn the_library_exports_these_functions_and_needs_only_libc() {
    let said = |arguments: &[&str]| {
        let output = Command::new(arguments[0]).args(&arguments[1..]).arg(RECORDER).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let symbols = said(&["nm", "-D", "--defined-only"]);
    let mut exported: Vec<&str> = symbols.lines().filter_map(|line| line.split(' ').next_back()).collect();
    exported.retain(|name| !name.starts_with("ncclProfiler_v"));
    let mut wanted: Vec<&str> = ALL
        .iter()
        .map(|want| want.0)
        .chain(["dlsym", "ncclSetFlowExtractionEnabled", "ncclWriteAggregatedFlow"])
        .collect();
    for names in [&mut exported, &mut wanted] {
        names.sort_unstable();
        names.dedup();
    }
    assert_eq!((exported, wanted.len()), (wanted, 45));
    let needed = said(&["readelf", "-d"]);
    let needed: Vec<&str> = needed.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(needed.iter().all(|line| line.contains("[libc.so.6]") || line.contains("[ld-linux")), "{needed:?}");
    let imported = said(&["nm", "-D", "--undefined-only"]);
    assert!(!["malloc", "calloc", "pthread_mutex", "printf"].iter().any(|name| imported.contains(name)), "{imported}");
    // Each process of a job maps it.
    assert!(fs::metadata(RECORDER).unwrap().len() < 210_000);
}
