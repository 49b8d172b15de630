//! Where the plugin is: processes that fork, unload it, load it twice, cannot write, or may not call the system. Each function is the scenario of
//! a process.

use std::path::Path;

use nccl_stacks_recorder_format::{Kind, Record, flag};

use crate::recorder::driver::{COMM, Comm, Event, Plugin, files, library, load};
use crate::recorder::recording::Recording;

pub(crate) fn run(name: &str, folder: &Path) {
    match name {
        "masks" => masks(folder),
        "nothing" => nothing(folder),
        "something" => something(folder),
        "loaded" => drop(load(library())),
        "sealed" => sealed(folder),
        _ => panic!("there is no scenario {name}"),
    }
}

/// A child has a file of its own. What it has of its parent names nothing there.
pub(crate) fn fork(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    let call = |context, parent| {
        plugin.start(context, &Event::new(2).parent(parent).text(32, c"Reduce").text(72, c"ncclInt8"))
    };
    let mine = call(context, 0);
    // SAFETY: the child ends by `_exit`, and calls the plugin, which must bear that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        plugin.stop(mine);
        plugin.state(mine, 23, None);
        // In another order than the parent, so that the numbers of texts differ.
        plugin.start(context, &Event::new(2).text(88, c"TREE"));
        let orphan = call(context, mine);
        let (again, _) = plugin.init(Comm { hash: 5, ..COMM });
        let sound = call(again, orphan);
        plugin.stop(sound);
        plugin.finalize(context);
        // SAFETY: ends the child without the parent's handlers.
        unsafe { libc::_exit(if sound >> 56 == 1 && orphan >> 56 == 1 { 7 } else { 8 }) };
    }
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
    plugin.stop(mine);

    let files = files(folder);
    let recordings: Vec<Recording> = files.iter().map(|file| Recording::read(file)).collect();
    let of = |pid: u32| recordings.iter().find(|recording| recording.header().pid == pid).unwrap();
    let (mine_file, its) = (of(std::process::id()), of(child as u32));
    assert_eq!((files.len(), mine_file.len(), mine_file.stops(mine)), (2, 2, 1));
    let colls: Vec<Record> = its.all(Kind::Coll).iter().map(|(_, record)| *record).collect();
    assert_eq!(colls.len(), 3);
    assert_eq!(its.texts(&colls[0]), ["", "", "TREE", ""]);
    for coll in &colls[1..] {
        assert_eq!(its.texts(coll), ["Reduce", "ncclInt8", "", ""]);
    }
    assert_eq!((colls[1].parent, colls[1].communicator, colls[1].flags), (0, 0, flag::NO_PARENT));
    assert_eq!(
        (colls[2].parent & !0xff, colls[2].communicator, colls[2].flags),
        (its.all(Kind::Coll)[1].0 & !0xff, 1, 0)
    );
    assert_eq!((its.communicators().len(), its.communicator(1).unwrap().hash), (1, 5));
    assert_eq!((its.communicator(1).unwrap().ended, its.all(Kind::Stop).len()), (0, 1));
}

/// NCCL closes its plugin with the last communicator, while a thread may still be in it.
pub(crate) fn unload(folder: &Path) {
    let handle = load(library());
    let plugin = Plugin::loaded(handle, 5);
    let (context, _) = plugin.init(COMM);
    let before = plugin.start(context, &Event::new(1));
    plugin.finalize(context);
    // SAFETY: closed as often as it was loaded.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    plugin.stop(before);
    let after = plugin.start(context, &Event::new(2).parent(before));
    assert_eq!(plugin.name(), c"nccl-stacks");
    // Loaded again, it is the same, with the same file.
    let again = Plugin::new(5);
    let (context, _) = again.init(COMM);
    again.stop(after);
    again.finalize(context);
    let recording = Recording::only(folder);
    assert_eq!((recording.stops(before), recording.stops(after), recording.communicators().len()), (1, 1, 2));
    assert_eq!(recording.get(after).unwrap().parent, before);
}

/// Probed by two copies of NCCL, of different versions.
pub(crate) fn twice(folder: &Path) {
    let plugins = [7, 7, 5, 4].map(Plugin::new);
    let begun = plugins.map(|plugin| plugin.init(Comm { hash: plugin.version.into(), ..COMM }));
    let colls = [0, 1, 2, 3].map(|at| plugins[at].start(begun[at].0, &Event::new(2)));
    let recording = Recording::only(folder);
    let hashes = colls.map(|coll| recording.communicator(recording.get(coll).unwrap().communicator).unwrap().hash);
    assert_eq!(hashes, [7, 7, 5, 4]);
    assert_eq!(recording.header().plugin, 4);
}

fn masks(folder: &Path) {
    let masks = [4, 5, 6, 7].map(|version| Plugin::new(version).init(COMM).1.to_string());
    let want = std::env::var("NCCL_STACKS_TEST_WANT").unwrap();
    assert_eq!(masks.join(" "), want);
    assert_eq!(Recording::only(folder).header().events.to_string(), masks[3]);
}

/// No file: no context, no events, and whatever comes all the same is borne.
fn nothing(folder: &Path) {
    for version in 4..=7 {
        let plugin = Plugin::new(version);
        assert_eq!(plugin.init(COMM), (0, 0));
        assert_eq!(plugin.start(0, &Event::new(2)), 0);
        plugin.stop(0x1100);
        plugin.state(0x1100, 19, None);
        plugin.finalize(0);
    }
    assert_eq!(files(folder), Vec::<std::path::PathBuf>::new());
}

fn something(folder: &Path) {
    let plugin = Plugin::new(7);
    let (context, _) = plugin.init(COMM);
    assert!(plugin.start(context, &Event::new(2)) != 0);
    assert_eq!(Recording::only(folder).len(), 1);
}

/// Where the kernel ends a process that calls it, a hundred thousand events are recorded: nothing on
/// the way asks the system for memory, waits for a lock, or asks for the time other than through the C library's own page.
fn sealed(folder: &Path) {
    /// From here on, whatever this thread calls but its end kills it.
    fn enter() {
        let statement = |code: u32, jt: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf: 0, k };
        let mut filter = [
            // The call's number; if it is the end, one further.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, libc::SYS_exit as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_KILL_PROCESS),
            statement(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: the filter is there during the call.
        unsafe {
            let refused = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) != 0;
            if refused {
                libc::_exit(9);
            }
        }
    }
    let child = |work: fn()| {
        // SAFETY: the child only calls what is meant, and ends without handlers.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                work();
                libc::syscall(libc::SYS_exit, 7);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        }
    };
    let ended = |status: i32| libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7;
    let clock = child(|| {
        enter();
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes `now`.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    });
    if !ended(clock) {
        use std::io::Write;
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: sealed: here the clock is a system call, or processes cannot be sealed"
        );
        return;
    }
    let calls = child(|| {
        enter();
        // SAFETY: has no condition.
        unsafe { libc::syscall(libc::SYS_getpid) };
    });
    assert!(libc::WIFSIGNALED(calls), "a call of the system ends a process that is sealed");
    let events = child(|| {
        let plugin = Plugin::new(7);
        let (context, _) = plugin.init(COMM);
        let texts = [(32, c"AllReduce"), (72, c"ncclInt8"), (88, c"RING"), (96, c"LL")];
        let coll = texts.into_iter().fold(Event::new(2), |event, (at, text)| event.text(at, text)).u64(128, 1);
        let mut coll = coll.words(7);
        let mut step = Event::new(16).words(7);
        let mut round = || {
            let coll = plugin.start_at(context, coll.as_mut_ptr().cast());
            let step = plugin.start_at(context, step.as_mut_ptr().cast());
            plugin.state(step, 20, Some(0));
            plugin.state(step, 9, Some(1));
            plugin.stop(step);
            plugin.stop(coll);
        };
        // The first one makes the file's ring, and the texts' numbers.
        round();
        enter();
        (0..15_000).for_each(|_| round());
    });
    assert!(ended(events), "{events:#x}");
    let recording = Recording::only(folder);
    // A collective has a tag, which is a record more.
    assert_eq!(recording.header().claimed.iter().sum::<u64>(), 15_001 * 7);
}
