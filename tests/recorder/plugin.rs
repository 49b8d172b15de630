//! The profiler plugin, driven as NCCL drives it: every version's table, from an application's, a proxy's and a profiler's thread.
//!
//! Each scenario is a process of its own, this program again, for a process has one file. It drives the plugin and checks what is in the
//! file; this side checks that it ended well.

use std::path::Path;

use nccl_stacks_recorder_format::{Kind, Record, flag};

use crate::recorder::driver::{COMM, Comm, Event, Plugin, SCENARIO, files, library, process, succeeded};
use crate::recorder::plugin_cases::{ALL, CASES};
use crate::recorder::plugin_surroundings as surroundings;
use crate::recorder::recording::Recording;

/// Runs a scenario in a process and a folder of its own.
fn scenario(name: &str, settings: &[(&str, &str)]) {
    // Shown if it fails.
    println!("scenario {name}");
    let folder = tempfile::tempdir().unwrap();
    let mut process = process("recorder::plugin::a_process_of_its_own", name, folder.path());
    let said = succeeded(&process.envs(settings.iter().copied()).output().unwrap());
    // Straight to standard error: the other output of a passing test is not shown.
    let skipped: String =
        said.lines().filter(|line| line.starts_with("SKIPPED")).map(|line| format!("{line}\n")).collect();
    let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
}

/// Not a test of its own: what the processes of scenarios run.
#[test]
fn a_process_of_its_own() {
    let Ok(name) = std::env::var(SCENARIO) else { return };
    let folder = std::env::var("NCCL_STACKS_DIR").unwrap();
    let folder = Path::new(&folder);
    let case = CASES.iter().find(|(case, ..)| *case == name);
    match (name.strip_prefix("collective "), case) {
        (Some(version), _) => collective(version.parse().unwrap(), folder),
        (None, Some((.., case))) => case(folder),
        (None, None) => surroundings::run(&name, folder),
    }
}

#[test]
fn a_collective_of_each_version() {
    for version in 4..=7 {
        scenario(&format!("collective {version}"), &[ALL]);
    }
}

/// Every type of event, what is null, late, foreign or unknown, much at once, and processes that fork, unload or load twice.
#[test]
fn each_case_of_a_process() {
    CASES.iter().for_each(|(name, settings, _)| scenario(name, settings));
}

#[test]
fn the_mask_is_asked_for_and_limited() {
    let masks = [
        // Coll, P2p, ProxyOp, KernelCh.
        (None, [78, 78, 78, 78]),
        (Some("65535"), [255, 4095, 32767, 65535]),
        (Some("0xffffffff"), [255, 4095, 32767, 65535]),
        (Some("0x810"), [16, 2064, 2064, 2064]),
        (Some("0"), [0; 4]),
        (Some("lots"), [78, 78, 78, 78]),
        (Some("-1"), [78, 78, 78, 78]),
    ];
    for (asked, want) in masks {
        let want = want.map(|mask: i32| mask.to_string()).join(" ");
        let mut settings = vec![("NCCL_STACKS_TEST_WANT", want.as_str())];
        settings.extend(asked.map(|asked| ("NCCL_PROFILE_EVENT_MASK", asked)));
        scenario("masks", &settings);
    }
}

#[test]
fn without_a_file_nothing_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let impossible = [
        ("NCCL_STACKS_DIR", "/nonexistent/folder/of/mine".to_owned()),
        // Not even root may write there.
        ("NCCL_STACKS_DIR", "/proc/self".to_owned()),
        ("NCCL_STACKS_DIR", file.display().to_string()),
        ("NCCL_STACKS_RECORD", "0".to_owned()),
    ];
    for (name, value) in &impossible {
        scenario("nothing", &[(*name, value.as_str())]);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");

    // A folder in which only root may write: as root, the file is made.
    use std::os::unix::fs::PermissionsExt;
    let closed = folder.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o500)).unwrap();
    // SAFETY: has no condition.
    let name = if unsafe { libc::geteuid() } == 0 { "something" } else { "nothing" };
    scenario(name, &[("NCCL_STACKS_DIR", closed.to_str().unwrap())]);
}

#[test]
fn a_job_hears_nothing_unless_it_asks() {
    let said = |settings: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        let mut process = process("recorder::plugin::a_process_of_its_own", "something", folder.path());
        succeeded(&process.envs(settings.iter().copied()).output().unwrap())
    };
    assert_eq!(said(&[]), "");
    let lines = said(&[("NCCL_STACKS_LOG", "1")]);
    assert!(lines.lines().count() == 2 && lines.contains("profiler plugin v7: communicator 1, events 0x4e"), "{lines}");
}

#[test]
fn events_call_neither_the_system_nor_an_allocator() {
    scenario("sealed", &[]);
    let Ok(output) = std::process::Command::new("nm").args(["-D", "--undefined-only", library()]).output() else {
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"SKIPPED: imports: there is no nm\n");
        return;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let imports: Vec<&str> =
        text.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next()).collect();
    assert!(imports.contains(&"clock_gettime"), "{imports:?}");
    let allocators = ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc"];
    let found: Vec<&&str> = imports
        .iter()
        .filter(|name| {
            allocators.contains(name)
                || ["mutex", "rwlock", "cond_", "sem_", "printf"].iter().any(|lock| name.contains(lock))
        })
        .collect();
    assert_eq!(found, Vec::<&&str>::new());
}

/// A number that a double does not hold.
const HASH: u64 = (1 << 53) + 1;

/// The events that the three threads of a collective have started.
#[derive(Default)]
struct Handles {
    group_api: u64,
    coll_api: u64,
    launch: u64,
    group: u64,
    coll: u64,
    /// Send and receive of two channels.
    ops: Vec<u64>,
    /// Of each, two steps.
    steps: Vec<u64>,
    kernels: Vec<u64>,
    phases: Vec<u64>,
}

/// One `ncclAllReduce`, as NCCL reports it, and what has to be in the file then.
fn collective(version: u32, folder: &Path) {
    let plugin = Plugin::new(version);
    assert_eq!(plugin.name(), c"nccl-stacks");
    let (context, mask) = plugin.init(Comm { hash: HASH, ..COMM });
    assert!(context != 0);
    let mut handles = Handles::default();
    application_begins(plugin, context, &mut handles);
    let both = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let coll = handles.coll;
        // Both are there at the same time, so that their numbers differ.
        let both = &both;
        let proxy = scope.spawn(move || {
            both.wait();
            proxy(plugin, context, coll)
        });
        let kernels = scope.spawn(move || {
            both.wait();
            kernels(plugin, context, coll)
        });
        // Meanwhile the application's thread goes on.
        [handles.coll, handles.group, handles.group_api].into_iter().for_each(|handle| plugin.stop(handle));
        (handles.ops, handles.steps) = proxy.join().unwrap();
        (handles.kernels, handles.phases) = kernels.join().unwrap();
    });
    plugin.finalize(context);

    let recording = Recording::only(folder);
    let header = recording.header();
    assert_eq!((header.plugin, header.events, header.lost), (version, mask as u64, 0));
    assert_eq!(header.pid, std::process::id());
    let comm = recording.communicator(1).unwrap();
    assert_eq!((comm.name, comm.hash, comm.by), (&b"tp_group"[..], HASH, 1));
    assert_eq!((comm.nodes, comm.size, comm.rank), (2, 8, 3));
    assert!(comm.made > 0 && comm.ended >= comm.made);
    check_application(version, &recording, &handles);
    check_proxy(&recording, &handles);
    check_kernels(version, &recording, &handles);
    assert_eq!(recording.incomplete, 0);
    // Group and collective begin and end; four operations with a state each; eight steps with three; two kernels that begin and end.
    // Of the API: a group with two states, a call, a launch. Six phases begin and end; the call and the collective have a tag.
    let api = if version == 4 { 0 } else { 4 + 2 + 2 };
    let phases = if version == 7 { 12 } else { 0 };
    let tags = if version == 7 { 2 } else { 0 };
    assert_eq!(recording.len(), 4 + (4 * 3 + 8 * 5) + 2 * 2 + api + phases + tags);
}

/// Up to the start of the collective.
fn application_begins(plugin: Plugin, context: usize, handles: &mut Handles) {
    if plugin.version >= 5 {
        let depth = Event::new(256).u8(24, 1).i32(28, 2);
        handles.group_api = plugin.start(context, &depth);
        // Version 7 gives null, the adapter of version 5 does not.
        plugin.state(handles.group_api, 23, (plugin.version < 7).then_some(0));
        let call = Event::new(512).parent(handles.group_api).text(24, c"AllReduce").u64(32, 1 << 40);
        let call = call.text(40, c"ncclBfloat16").i32(48, -1).u64(56, 0x7f00_dead_beef).u8(64, 1).u64(72, 99);
        handles.coll_api = plugin.start(context, &call);
        plugin.stop(handles.coll_api);
        plugin.state(handles.group_api, 24, (plugin.version < 7).then_some(0));
        handles.launch = plugin.start(context, &Event::new(2048).parent(handles.group_api).u64(24, 0x7f00_dead_beef));
        plugin.stop(handles.launch);
    }
    handles.group = plugin.start(context, &Event::new(1));
    let parent = if plugin.version == 4 { handles.group } else { handles.coll_api };
    let coll =
        Event::new(2).parent(parent).rank(3).u64(24, u64::MAX).text(32, c"AllReduce").u64(56, 1 << 40).i32(64, 5);
    let coll = coll.text(72, c"ncclBfloat16").u8(80, 2).u8(81, 16).text(88, c"RING").text(96, c"SIMPLE");
    let coll = coll.u64(104, handles.group).text(112, c"AllReduce_RING").u8(120, 1).u64(128, u64::MAX);
    handles.coll = plugin.start(context, &coll);
}

/// Two channels, a send and a receive each, of two steps.
fn proxy(plugin: Plugin, context: usize, coll: u64) -> (Vec<u64>, Vec<u64>) {
    let op = |channel: u8, is_send: i32| {
        let op = Event::new(8).parent(coll).rank(3).i32(24, std::process::id() as i32).u8(28, channel);
        op.i32(32, 2 + 2 * is_send).i32(36, 2).i32(40, 524_288).i32(44, is_send)
    };
    let ops = [op(0, 1), op(0, 0), op(1, 1), op(1, 0)].map(|op| plugin.start(context, &op));
    ops.into_iter().for_each(|op| plugin.state(op, 19, Some(0)));
    let mut steps = Vec::new();
    for step in 0..2 {
        for (index, op) in ops.into_iter().enumerate() {
            let event = Event::new(16).parent(op).rank(3).i32(24, step);
            let handle = plugin.start(context, &event);
            let is_send = index % 2 == 0;
            // What is not bytes is left over from before, as in NCCL.
            let states: [(i32, u64); 3] =
                if is_send { [(8, 77), (20, 77), (9, 4096)] } else { [(10, 77), (11, 8192), (12, 77)] };
            states.into_iter().for_each(|(state, value)| plugin.state(handle, state, Some(value)));
            plugin.stop(handle);
            steps.push(handle);
        }
    }
    ops.into_iter().for_each(|op| plugin.stop(op));
    (ops.to_vec(), steps)
}

/// Two channels; with version 7, three phases each.
fn kernels(plugin: Plugin, context: usize, coll: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut kernels, mut phases) = (Vec::new(), Vec::new());
    for channel in 0..2 {
        let begin = Event::new(64).parent(coll).u8(24, channel).u64(32, 1_700_000_000_000_000_032);
        let kernel = plugin.start(context, &begin);
        if plugin.version == 7 {
            for (phase, name) in (0..).zip([c"initial_sync", c"compute", c"final_sync"]) {
                let begin = Event::new(32768).parent(kernel).u8(24, channel).u8(25, phase).text(32, name).u64(40, 640);
                phases.push(plugin.start(context, &begin));
                plugin.state(*phases.last().unwrap(), 31, Some(672));
                plugin.stop(*phases.last().unwrap());
            }
        }
        plugin.state(kernel, 22, Some(1_700_000_000_000_000_992));
        plugin.stop(kernel);
        kernels.push(kernel);
    }
    (kernels, phases)
}

fn check_application(version: u32, recording: &Recording, handles: &Handles) {
    let get = |handle| recording.get(handle).unwrap();
    let without_time = |record: Record| Record { time: 0, thread: 0, ..record };
    let group = get(handles.group);
    let bare = Record { communicator: 1, flags: flag::NO_PARENT, ..Record::new(Kind::Group) };
    assert_eq!(without_time(group), bare);
    let coll = get(handles.coll);
    // The first collective of its communicator, of root 5.
    assert_eq!((coll.a, coll.b, coll.c, coll.channel, coll.small), (1 << 40, u64::MAX, 1 << 32 | 5, 2, 16));
    assert_eq!(recording.texts(&coll), ["AllReduce", "ncclBfloat16", "RING", "SIMPLE"]);
    assert_eq!((coll.communicator, coll.thread), (1, group.thread));
    assert_eq!(coll.parent, if version == 4 { handles.group } else { handles.coll_api });
    assert_eq!(coll.flags, if version == 7 { flag::SYMMETRIC } else { 0 });
    assert_eq!([handles.coll, handles.group].map(|handle| recording.stops(handle)), [1, 1]);
    let more = recording.of(handles.coll, Kind::More);
    if version == 7 {
        assert_eq!((more.len(), more[0].a, more[0].b), (1, u64::MAX, handles.group));
        assert_eq!(recording.text(more[0].function), "AllReduce_RING");
    } else {
        assert_eq!(more, []);
    }
    if version == 4 {
        return;
    }
    let api = get(handles.group_api);
    assert_eq!((api.kind, api.a, api.flags), (Kind::GroupApi, 2, flag::NO_PARENT | flag::CAPTURED));
    assert_eq!(recording.states(handles.group_api), [(23, 0), (24, 0)]);
    let call = get(handles.coll_api);
    assert_eq!((call.kind, call.parent, call.flags), (Kind::CollApi, handles.group_api, flag::CAPTURED));
    // -1 as a number of 32 bits.
    assert_eq!((call.a, call.b, call.c), (1 << 40, 0x7f00_dead_beef, 0xffff_ffff));
    assert_eq!(recording.texts(&call), ["AllReduce", "ncclBfloat16", "", ""]);
    let tags: Vec<u64> = recording.of(handles.coll_api, Kind::More).iter().map(|more| more.a).collect();
    assert_eq!(tags, if version == 7 { vec![99] } else { vec![] });
    let launch = get(handles.launch);
    assert_eq!((launch.kind, launch.parent, launch.b), (Kind::KernelLaunch, handles.group_api, 0x7f00_dead_beef));
    for handle in [handles.group_api, handles.coll_api, handles.launch] {
        assert_eq!(recording.stops(handle), 1);
    }
    let stop = recording.of(handles.coll_api, Kind::Stop)[0];
    assert!(call.time > 0 && call.time <= stop.time && stop.time <= launch.time && launch.time <= group.time);
}

fn check_proxy(recording: &Recording, handles: &Handles) {
    let mut threads = Vec::new();
    for (index, handle) in handles.ops.iter().enumerate() {
        let op = recording.get(*handle).unwrap();
        let is_send = u8::from(index % 2 == 0);
        assert_eq!((op.kind, op.parent, op.communicator, op.flags), (Kind::ProxyOp, handles.coll, 1, 0));
        assert_eq!((op.a, op.b), (u64::from(std::process::id()), 524_288 << 32 | 2));
        assert_eq!((op.c, op.channel, op.small), (2 + 2 * u64::from(is_send), index as u8 / 2, is_send));
        assert_eq!((recording.states(*handle), recording.stops(*handle)), (vec![(19, 0)], 1));
        assert_eq!(recording.of(*handle, Kind::ProxyStep).len(), 2);
        threads.push(op.thread);
    }
    for (index, handle) in handles.steps.iter().enumerate() {
        let step = recording.get(*handle).unwrap();
        assert_eq!((step.kind, step.parent), (Kind::ProxyStep, handles.ops[index % 4]));
        assert_eq!((step.a, step.communicator), (index as u64 / 4, 1));
        let want = if index % 2 == 0 { [(8, 0), (20, 0), (9, 4096)] } else { [(10, 0), (11, 8192), (12, 0)] };
        assert_eq!((recording.states(*handle), recording.stops(*handle)), (want.to_vec(), 1));
    }
    threads.push(recording.get(handles.kernels[0]).unwrap().thread);
    threads.push(recording.get(handles.coll).unwrap().thread);
    threads.dedup();
    assert_eq!(threads.len(), 3, "the threads have numbers that differ");
}

fn check_kernels(version: u32, recording: &Recording, handles: &Handles) {
    for (channel, handle) in handles.kernels.iter().enumerate() {
        let kernel = recording.get(*handle).unwrap();
        assert_eq!((kernel.kind, kernel.parent, kernel.communicator), (Kind::KernelChannel, handles.coll, 1));
        assert_eq!((kernel.a, kernel.channel), (1_700_000_000_000_000_032, channel as u8));
        assert_eq!(recording.states(*handle), [(22, 1_700_000_000_000_000_992)]);
        assert_eq!(recording.stops(*handle), 0);
    }
    assert_eq!(handles.phases.len(), if version == 7 { 6 } else { 0 });
    for (index, handle) in handles.phases.iter().enumerate() {
        let phase = recording.get(*handle).unwrap();
        assert_eq!((phase.kind, phase.parent), (Kind::KernelPhase, handles.kernels[index / 3]));
        assert_eq!((phase.a, phase.small, phase.channel), (640, index as u8 % 3, index as u8 / 3));
        assert_eq!(recording.text(phase.function), ["initial_sync", "compute", "final_sync"][index % 3]);
        assert_eq!((recording.states(*handle), recording.stops(*handle)), (vec![(31, 672)], 0));
    }
}

/// That a process without events and communicators has no file is part of this: programs that a job starts have none.
#[test]
fn a_process_that_only_loads_it_has_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut process = process("recorder::plugin::a_process_of_its_own", "loaded", folder.path());
    succeeded(&process.output().unwrap());
    assert_eq!(files(folder.path()), Vec::<std::path::PathBuf>::new());
}
