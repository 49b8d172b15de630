//! Real NCCL loads and calls the plugin, without a GPU: see `real_nccl.c`.
//!
//! Only where `NCCL_STACKS_REAL_NCCL` names a `libnccl.so.2` of version 2.32.3, whose internal structures the driver knows. The library is in the
//! package nvidia-nccl-cu12 2.32.3, which is too large to be fetched for a test.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use nccl_stacks_recorder_format::{Kind, flag};

use crate::recorder::driver::{library, succeeded};
use crate::recorder::layouts::cc;
use crate::recorder::recording::Recording;

/// NCCL's functions that the driver calls, as they are called in C++.
const FUNCTIONS: &[&str] = &[
    "ncclProfilerPluginInit",
    "ncclProfilerStartGroupApiEvent",
    "ncclProfilerRecordGroupApiEventState",
    "ncclProfilerStartCollApiEvent",
    "ncclProfilerStopCollApiEvent",
    "ncclProfilerStartP2pApiEvent",
    "ncclProfilerStopP2pApiEvent",
    "ncclProfilerStartKernelLaunchEvent",
    "ncclProfilerStopKernelLaunchEvent",
    "ncclProfilerStartGroupEvent",
    "ncclProfilerStartTaskEvents",
    "ncclProfilerStopTaskEvents",
    "ncclProfilerStopGroupEvent",
    "ncclProfilerStopGroupApiEvent",
    "ncclProfilerStartProxyOpEvent",
    "ncclProfilerRecordProxyOpEventState",
    "ncclProfilerStopProxyOpEvent",
    "ncclProfilerStartSendProxyStepEvent",
    "ncclProfilerStartRecvProxyStepEvent",
    "ncclProfilerRecordProxyStepEventState",
    "ncclProfilerStopProxyStepEvent",
    "ncclProfilerCallback",
    "ncclProfilerStartKernelChEvent",
    "ncclProfilerStopKernelChEvent",
    "ncclProfilerStartCeCollEvent",
    "ncclProfilerStopCeCollEvent",
    "ncclProfilerStartCeSyncEvent",
    "ncclProfilerStopCeSyncEvent",
    "ncclProfilerStartCeBatchEvent",
    "ncclProfilerStopCeBatchEvent",
    "ncclProfilerPluginFinalize",
];

/// Writes `symbols.h`: where the functions are. `None` if one is missing: then it is another version.
fn symbols(nccl: &str, folder: &Path) -> Option<()> {
    let output = Command::new("nm").arg(nccl).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(at), Some(_), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
        found.insert(name, at);
    }
    let mut header = std::fs::File::create(folder.join("symbols.h")).unwrap();
    writeln!(header, "#define AT_pncclGetVersion 0x{}", found.get("pncclGetVersion")?).unwrap();
    for function in FUNCTIONS {
        // `_Z`, the length of the name, the name, its parameters.
        let prefix = format!("_Z{}{function}", function.len());
        let mut named = found.range(prefix.as_str()..).take_while(|(name, _)| name.starts_with(&prefix));
        let (_, at) = named.find(|(name, _)| !name.contains(".cold"))?;
        writeln!(header, "#define AT_{function} 0x{at}").unwrap();
    }
    Some(())
}

/// The compiled driver; `None` if there is no NCCL that it is for.
fn driver(folder: &Path) -> Option<(String, PathBuf)> {
    let skipped = |why: &str| {
        let _ = writeln!(std::io::stderr(), "SKIPPED: real_nccl: {why}");
    };
    let Ok(nccl) = std::env::var("NCCL_STACKS_REAL_NCCL") else {
        skipped("NCCL_STACKS_REAL_NCCL names no libnccl.so.2");
        return None;
    };
    if symbols(&nccl, folder).is_none() {
        skipped("this libnccl.so.2 has not the symbols of 2.32.3");
        return None;
    }
    let program = folder.join("driver");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorder/real_nccl.c");
    cc(&["-I", folder.to_str().unwrap(), source, "-o", program.to_str().unwrap(), "-ldl"]);
    let output = Command::new(&program).arg(&nccl).output().unwrap();
    succeeded(&output);
    if output.stdout != b"version 23203\n" {
        skipped(&format!("it is {}, not 23203", String::from_utf8_lossy(&output.stdout).trim()));
        return None;
    }
    Some((nccl, program))
}

/// Runs the driver with a plugin; what it said, and what was recorded.
fn drive((nccl, program): &(String, PathBuf), folder: &Path, settings: &[(&str, &str)]) -> (String, Recording) {
    std::fs::create_dir(folder).unwrap();
    let plugin = settings[0].1;
    let mut command = Command::new(program);
    command.args([nccl.as_str(), plugin]).env("NCCL_STACKS_DIR", folder).envs(settings.iter().copied());
    command.env("NCCL_PROFILE_EVENT_MASK", "65535").env("NCCL_STACKS_RING_RECORDS", "4096").env("RECORDER", library());
    command.env("NCCL_DEBUG", "INFO").env("NCCL_DEBUG_SUBSYS", "INIT,PROFILE");
    let output = command.output().unwrap();
    succeeded(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("done\n"), "{text}");
    (text, Recording::only(folder))
}

/// The number that the driver printed after a word.
fn said(text: &str, word: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(" 0x")).unwrap();
    u64::from_str_radix(line, 16).unwrap()
}

#[test]
fn real_nccl_drives_each_version() {
    let folder = tempfile::tempdir().unwrap();
    let Some(driver) = driver(folder.path()) else { return };
    for version in 4..=7 {
        let shim = folder.path().join(format!("libshim{version}.so"));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorder/shim.c");
        let define = format!("-DVERSION={version}");
        cc(&["-shared", "-fPIC", &define, source, "-o", shim.to_str().unwrap(), "-ldl"]);
        let output = folder.path().join(format!("v{version}"));
        let (text, recording) = drive(&driver, &output, &[("NCCL_PROFILER_PLUGIN", shim.to_str().unwrap())]);
        assert!(text.contains(&format!("Loaded nccl-stacks (v{version})")), "{text}");
        assert!(text.contains("\nunloaded\n"), "{text}");
        check_communicator(version, &recording);
        check_api(version, &recording);
        check_tasks(version, &text, &recording);
        check_proxy(&text, &recording);
        check_copies(version, &text, &recording);
    }
}

#[test]
fn real_nccl_loads_the_library_itself() {
    let folder = tempfile::tempdir().unwrap();
    let Some(driver) = driver(folder.path()) else { return };
    let ways: [&[(&str, &str)]; 2] = [
        &[("NCCL_PROFILER_PLUGIN", library())],
        &[("NCCL_PROFILER_PLUGIN", "STATIC_PLUGIN"), ("LD_PRELOAD", library())],
    ];
    for (number, settings) in ways.into_iter().enumerate() {
        let (text, recording) = drive(&driver, &folder.path().join(number.to_string()), settings);
        assert!(text.contains("Loaded nccl-stacks (v7)"), "{text}");
        check_communicator(7, &recording);
        check_proxy(&text, &recording);
        let coll = recording.get(said(&text, "coll")).unwrap();
        // Nobody gave the collective its call.
        assert_eq!((coll.kind, coll.parent), (Kind::Coll, 0));
    }
}

fn check_communicator(version: u32, recording: &Recording) {
    let header = recording.header();
    let mask = [255, 4095, 32767, 65535][version as usize - 4];
    assert_eq!((header.plugin, header.events, header.lost), (version, mask, 0));
    let comm = recording.communicator(1).unwrap();
    assert_eq!((comm.name, comm.hash), (&b"tp_group"[..], 0xfedc_ba98_7654_3210));
    assert_eq!((comm.nodes, comm.size, comm.rank), (2, 8, 3));
    assert!(comm.ended > 0 && recording.communicator(2).is_none());
    assert_eq!((recording.incomplete, recording.all(Kind::UnknownEvent)), (0, vec![]));
}

/// A group with two calls, which version 4 has not.
fn check_api(version: u32, recording: &Recording) {
    let groups = recording.all(Kind::GroupApi);
    let (colls, sends) = (recording.all(Kind::CollApi), recording.all(Kind::P2pApi));
    let launches = recording.all(Kind::KernelLaunch);
    if version == 4 {
        assert_eq!((groups.len(), colls.len(), sends.len(), launches.len()), (0, 0, 0, 0));
        return;
    }
    assert_eq!((groups.len(), colls.len(), sends.len(), launches.len()), (1, 1, 1, 1));
    let group = groups[0].0;
    assert_eq!((recording.states(group), recording.stops(group)), (vec![(23, 0), (24, 0)], 1));
    let (call, record) = colls[0];
    assert_eq!((record.parent, record.flags, record.communicator), (group, flag::CAPTURED, 1));
    assert_eq!((record.a, record.b, record.c), (1 << 20, 0x7f00_dead_beef, 0));
    assert_eq!(recording.texts(&record), ["AllReduce", "ncclBfloat16", "", ""]);
    let tags: Vec<u64> = recording.of(call, Kind::More).iter().map(|more| more.a).collect();
    assert_eq!(tags, if version == 7 { vec![0x51] } else { vec![] });
    let (send, record) = sends[0];
    assert_eq!((record.parent, record.flags, record.a), (group, 0, 1 << 20));
    assert_eq!(recording.texts(&record), ["Send", "ncclBfloat16", "", ""]);
    assert_eq!([call, send].map(|handle| recording.stops(handle)), [1, 1]);
    let (launch, record) = launches[0];
    assert_eq!((record.parent, record.b, recording.stops(launch)), (group, 0x7f00_dead_beef, 1));
}

/// A collective and a send of one group.
fn check_tasks(version: u32, text: &str, recording: &Recording) {
    let groups = recording.all(Kind::Group);
    assert_eq!(groups.len(), 1);
    let group = groups[0].0;
    let coll = said(text, "coll");
    let record = recording.get(coll).unwrap();
    assert_eq!((record.kind, record.communicator, record.flags), (Kind::Coll, 1, 0));
    // The first collective of its communicator, of root 0.
    assert_eq!((record.a, record.b, record.c), (1 << 20, 0, 1 << 32));
    assert_eq!((record.channel, record.small), (4, 16));
    assert_eq!(recording.texts(&record), ["AllReduce", "ncclBfloat16", "RING", "SIMPLE"]);
    let call = recording.all(Kind::CollApi).first().map(|(handle, _)| *handle);
    assert_eq!(record.parent, call.unwrap_or(group));
    let more: Vec<_> = recording.of(coll, Kind::More).iter().map(|more| (more.a, more.b, more.function)).collect();
    assert_eq!(more, if version == 7 { vec![(0x51, group, 0)] } else { vec![] });
    let send = said(text, "send");
    let record = recording.get(send).unwrap();
    assert_eq!((record.kind, record.a, record.c), (Kind::P2p, 77, 5));
    // What NCCL 2.32.3 makes of it for a plugin of version 4 leaves the channels out: they are whatever was on its stack.
    assert!(version == 4 || record.channel == 2);
    assert_eq!(recording.texts(&record), ["Send", "ncclFloat32", "", ""]);
    assert_eq!(recording.of(send, Kind::More), []);
    assert_eq!([coll, send, group].map(|handle| recording.stops(handle)), [1, 1, 1]);
}

/// An operation of a proxy with two steps, a transfer, and a kernel's channel.
fn check_proxy(text: &str, recording: &Recording) {
    let (coll, op) = (said(text, "coll"), said(text, "op"));
    let record = recording.get(op).unwrap();
    assert_eq!((record.kind, record.parent, record.communicator, record.flags), (Kind::ProxyOp, coll, 1, 0));
    assert_eq!((record.a, record.channel, record.c), (u64::from(recording.header().pid), 1, 4));
    // 8 steps in slices of 2, with chunks twice as large.
    assert_eq!(record.b, 524_288 << 32 | 4);
    assert_eq!((recording.states(op), recording.stops(op)), (vec![(19, 0)], 1));
    let steps = recording.all(Kind::ProxyStep);
    assert!(steps.iter().all(|(_, step)| step.parent == op && step.communicator == 1));
    assert_eq!(steps.iter().map(|(_, step)| step.a).collect::<Vec<u64>>(), [0, 1]);
    assert_eq!(recording.states(steps[0].0), [(20, 0), (9, 4096)]);
    assert_eq!(recording.states(steps[1].0), [(10, 0), (11, 8192), (12, 0)]);
    let transfers = recording.of(steps[0].0, Kind::NetIb);
    assert_eq!((transfers.len(), recording.all(Kind::NetPlugin).len()), (1, 0));
    assert_eq!((transfers[0].a, transfers[0].b, transfers[0].c, transfers[0].small), (2 << 32 | 1234, 4096, 99, 5));
    assert!(steps.iter().all(|(step, _)| recording.stops(*step) == 1));
    let kernels = recording.of(coll, Kind::KernelChannel);
    assert_eq!((kernels.len(), kernels[0].a, kernels[0].channel), (1, 1_700_000_000_000_000_032, 3));
    let ends: Vec<(u64, u64)> = recording.all(Kind::State).iter().map(|(_, state)| (state.a, state.b)).collect();
    assert!(ends.contains(&(22, 1_700_000_000_000_000_992)), "{ends:?}");
}

/// A collective of copy engines, since version 6.
fn check_copies(version: u32, text: &str, recording: &Recording) {
    let all = [Kind::CeColl, Kind::CeSync, Kind::CeBatch].map(|kind| recording.all(kind));
    if version < 6 {
        assert!(all.iter().all(Vec::is_empty));
        return;
    }
    let [colls, syncs, batches] = all;
    assert_eq!((colls.len(), syncs.len(), batches.len()), (1, 1, 1));
    let (coll, record) = (said(text, "copies"), colls[0].1);
    assert_eq!((record.parent, record.a), (recording.all(Kind::CollApi)[0].0, 3096));
    // Its number among those of copy engines, and the root.
    assert_eq!(record.c, 6 << 32);
    assert_eq!(recording.texts(&record)[..2], ["AllGather", "ncclInt8"]);
    assert!(["MC", "UC"].contains(&recording.text(record.protocol)));
    let more = recording.of(coll, Kind::More);
    assert_eq!((more.len(), more[0].a, more[0].c), (1, if version == 7 { 0x52 } else { 0 }, 0x7f00_dead_beef));
    assert_eq!((syncs[0].1.parent, syncs[0].1.b), (coll, 8));
    assert_eq!((batches[0].1.parent, batches[0].1.a, batches[0].1.b), (coll, 2, 3096));
    assert_eq!([coll, syncs[0].0, batches[0].0].map(|handle| recording.stops(handle)), [1; 3]);
}
