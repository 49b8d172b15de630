//! Surroundings in which recording is impossible or unwanted: the job goes on as without it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::recorder::jobs::{Job, RECORDER, built};
use crate::support::program::{has, run, stdout};

#[test]
fn programs_without_nccl_are_as_before() {
    let programs: [(&str, &[&str]); 4] = [
        ("ls", &["-l", "/usr"]),
        ("sh", &["-c", "ls /usr | cat; echo $?; exit 3"]),
        ("python3", &["-c", "import ctypes; print(ctypes.CDLL(None).abs(-3)); raise SystemExit(4)"]),
        ("cc", &["--version"]),
    ];
    for (program, arguments) in programs {
        let Ok(want) = Command::new(program).args(arguments).output() else {
            println!("SKIPPED: {program} is not there");
            continue;
        };
        let mut job = Job::assemble(program.as_ref(), arguments).env("NCCL_STACKS_LOG", "1");
        assert_eq!(job.command.output().unwrap(), want, "{program}");
        assert!(!job.folder.path().join("records").exists());
    }
}

#[test]
fn nccl_within_the_program_is_not_seen_and_works() {
    let mut job = Job::assemble(&built().path("static"), &["all"]);
    let printed = job.lines();
    let calls: Vec<String> = printed.iter().filter(|line| !line.starts_with('#')).cloned().collect();
    assert_eq!((job.log(), job.log().len(), job.recordings().len()), (calls, 44, 0));
}

/// A library with NCCL inside that was opened for its opener alone: in no order of the linker, and under no name of NCCL's.
#[test]
fn nccl_within_another_library_is_found() {
    for via in ["handle", "default"] {
        let mut job = Job::assemble(&built().path("alone"), &["init 0 2 1 A", "bcast 0 5 1", "reduce 0 6 0"])
            .env("VIA", via)
            .env("LIBRARY", built().path("libwith_nccl.so"));
        assert!(job.lines().is_empty());
        let recording = job.recording();
        let names: Vec<&str> = recording.calls().iter().map(|call| call.0).collect();
        assert_eq!((job.log().len(), names), (4, vec!["ncclCommInitRank", "ncclBcast", "ncclAllReduce"]), "{via}");
    }
}

/// Before this one or after it, and looking for NCCL's functions in the right way or in one that leads back here: each sees each call once.
#[test]
fn two_interceptors_see_each_call_once() {
    for other in ["libnext.so", "libhandle.so"] {
        let other = built().path(other).display().to_string();
        for preload in [format!("{RECORDER}:{other}"), format!("{other}:{RECORDER}")] {
            for (program, via) in [("linked", "link"), ("alone", "handle"), ("alone", "default")] {
                // There is no next one of a library that its opener has alone: that other one fails without this one, too.
                if via == "default" && other.ends_with("libnext.so") {
                    continue;
                }
                let steps = ["init 0 2 1 A", "reduce 0 6 0", "reduce 0 7 0"];
                let mut job = Job::assemble(&built().path(program), &steps).env("LD_PRELOAD", &preload).env("VIA", via);
                let output = job.run();
                let said = String::from_utf8(output.stderr).unwrap();
                let recording = job.recording();
                let counts: Vec<u64> = recording.calls().iter().map(|(_, r)| r.a).collect();
                assert_eq!((counts, job.log().len(), recording.incomplete), (vec![2, 6, 7], 3, 0), "{preload} {via}");
                // Who asks NCCL's library gets NCCL's function, as without any interceptor.
                let want = if via == "handle" { "" } else { "second: 2\n" };
                assert_eq!(said, want, "{preload} {via}");
            }
        }
    }
}

/// `RTLD_NEXT` depends on who asks: the real `dlsym` must see that caller.
#[test]
fn what_others_look_for_is_found_in_their_name() {
    for other in ["libnext.so", "libhandle.so"] {
        let other = built().path(other).display().to_string();
        for preload in [format!("{RECORDER}:{other}"), format!("{other}:{RECORDER}")] {
            let mut job = Job::new(&["ppid"]).env("LD_PRELOAD", preload);
            assert_eq!(job.lines(), ["a parent"]);
        }
    }
}

/// A program that asks whether its NCCL has a function must not hear of this library's.
#[test]
fn what_nccl_does_not_have_is_not_found() {
    let lines = |preload: &str| {
        let mut job = Job::assemble(&built().path("linked"), &["all"]).env("LD_LIBRARY_PATH", built().path("old"));
        job = job.env("VIA", "default").env("LD_PRELOAD", preload);
        let printed = job.lines();
        printed.into_iter().filter(|line| line.starts_with("dlsym of ")).collect::<Vec<String>>()
    };
    // Found and failed at once would be neither.
    let without = lines("");
    assert!(without.contains(&"dlsym of ncclAllReduceConfig: none".to_owned()), "{without:?}");
    assert_eq!(lines(RECORDER), without);
}

/// As daemons do. The next file of the job has the number of the recorder's descriptor: it must neither grow nor get other permissions.
#[test]
fn a_job_may_close_all_descriptors_and_use_their_numbers() {
    let own = tempfile::tempdir().unwrap();
    let own = own.path().join("checkpoint");
    let take = format!("takefds {}", own.display());
    // Other threads have other rings, for which space would be reserved.
    let mut job = Job::new(&["init 0 2 1 A", "reduce 0 7 0", &take, "threads 2 10 0", "reduce 0 8 0"]);
    job.command.env_remove("FAKE_NCCL_LOG");
    job.lines();
    let about = fs::metadata(&own).unwrap();
    assert_eq!((about.len(), about.permissions().mode() & 0o777), (0, 0o600));
    let recording = job.recording();
    let counts: Vec<u64> = recording.calls().iter().map(|(_, call)| call.a).collect();
    // The ring that was there goes on, and what has none is counted.
    assert_eq!((counts, recording.header().lost), (vec![2, 7, 8], 20));
}

/// Files of at most 10 blocks: an empty file says why there is no recording, and the job goes on.
#[test]
fn a_process_that_cannot_record_leaves_the_reason() {
    let linked = built().path("linked");
    let script = format!("ulimit -f 10; exec {} 'init 0 2 1 A' 'reduce 0 7 0'", linked.display());
    let mut job = Job::assemble("sh".as_ref(), &["-c", &script]);
    job.command.env_remove("FAKE_NCCL_LOG");
    assert!(job.lines().is_empty());
    let files = fs::read_dir(job.folder.path().join("records")).unwrap();
    let files: Vec<(String, u64)> = files
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), file.metadata().unwrap().len()))
        .collect();
    // 27 is "File too large".
    assert!(files.len() == 1 && files[0].0.ends_with(".E27.ncclrec-failed") && files[0].1 == 0, "{files:?}");
}

/// What was found in a library that its opener closes is kept: so is the library.
#[test]
fn a_library_may_be_closed_and_opened_again() {
    let steps = ["init 0 2 1 A", "reduce 0 5 0", "reopen", "reduce 0 6 0", "reopen", "init 1 2 1 A", "reduce 1 7 0"];
    let mut job = Job::assemble(&built().path("alone"), &steps).env("VIA", "handle");
    assert!(job.lines().is_empty());
    let counts: Vec<(u64, u16)> = job.recording().calls().iter().map(|(_, r)| (r.a, r.communicator)).collect();
    assert_eq!((counts, job.log().len()), (vec![(2, 1), (5, 1), (6, 1), (2, 2), (7, 2)], 5));
}

/// NVIDIA's own library, where a variable says where it is. Without a GPU it makes no communicator, but it answers, and its answers arrive.
#[test]
fn the_real_library_answers_as_without_the_recorder() {
    let Some(library) = std::env::var_os("NCCL_STACKS_TEST_NCCL") else {
        println!("SKIPPED: NCCL_STACKS_TEST_NCCL does not name a libnccl.so.2");
        return;
    };
    let symbols = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let missing: Vec<&str> =
        super::functions::names().filter(|name| !symbols.contains(&format!(" {name}\n"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let steps = ["start", "reduce 0 5 0", "bcast 0 3 1", "end", "destroy 0"];
    let job = |via| Job::assemble(&built().path("alone"), &steps).env("VIA", via).env("LIBRARY", &library);
    let mut without = job("handle");
    without.command.env_remove("LD_PRELOAD");
    let without = without.lines();
    assert_eq!(without.len(), 3);
    for mut job in [job("handle"), job("default")] {
        assert_eq!(job.lines(), without);
        let recording = job.recording();
        let names: Vec<&str> = recording.calls().iter().map(|call| call.0).collect();
        let want = ["ncclGroupStart", "ncclAllReduce", "ncclBcast", "ncclGroupEnd", "ncclCommDestroy"];
        assert_eq!(names, want);
        // `ncclInvalidArgument`: there is no communicator.
        let results = [("ncclAllReduce", 4), ("ncclBcast", 4), ("ncclGroupEnd", 4), ("ncclCommDestroy", 0)];
        assert_eq!(recording.results(), results);
        assert!(recording.header().nccl > 21_800);
    }
}

#[test]
fn recording_can_be_switched_off() {
    for (program, via) in [("linked", "link"), ("alone", "handle")] {
        let mut job = Job::assemble(&built().path(program), &["all"]).env("VIA", via).env("NCCL_STACKS_RECORD", "0");
        job.run();
        assert_eq!((job.log().len(), job.recordings().len()), (44, 0));
    }
}

/// All that the job does, and nothing recorded; one line if it asked for lines.
fn is_not_recorded(mut job: Job) {
    job.command.env("NCCL_STACKS_LOG", "1");
    let output = job.run();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((job.log().len(), said.lines().count()), (44, 1), "{said}");
    has(&said, "nothing is recorded");
    assert!(job.recordings().is_empty());
}

#[test]
fn a_folder_that_cannot_be_written_costs_a_line() {
    for folder in ["/proc/self/fdinfo", "/nonexistent/folder", "/dev/null"] {
        is_not_recorded(Job::new(&["all"]).env("NCCL_STACKS_DIR", folder));
    }
}

/// The system would kill a process that writes beyond this limit.
#[test]
fn a_limit_of_file_sizes_costs_a_line() {
    let mut job = Job::new(&["all"]);
    let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
    // SAFETY: setrlimit may be called between fork and exec.
    unsafe {
        job.command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    is_not_recorded(job);
}

#[test]
fn a_full_disk_costs_records() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |size: &str| {
        let what = ["-t", "tmpfs", "-o", size, "none"];
        Command::new("mount").args(what).arg(folder.path()).output().is_ok_and(|done| done.status.success())
    };
    if !mount("size=64k") {
        println!("SKIPPED: no file system may be mounted");
        return;
    }
    let tried = std::panic::catch_unwind(|| {
        // Not even room for what the file begins with.
        is_not_recorded(Job::new(&["all"]).env("NCCL_STACKS_DIR", folder.path()));
    });
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    // Room for that, and for one ring of 16 KiB, but not for 4 MiB.
    assert!(mount("size=400k"));
    let counted = std::panic::catch_unwind(|| {
        let mut job = Job::new(&["init 0 2 1 A", "reduce 0 5 0"]).env("NCCL_STACKS_DIR", folder.path());
        job.command.env("NCCL_STACKS_RING_RECORDS", "65536");
        job.run();
        let file = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        let recording = crate::recorder::recording::Recording::read(&file);
        let header = recording.header();
        let said = run(&["hang", folder.path().to_str().unwrap(), "--quiet"]);
        ((recording.records.len(), header.lost, header.lost_why, recording.communicators().len()), stdout(&said))
    });
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    tried.unwrap();
    let (counted, said) = counted.unwrap();
    // Two calls, and the result of the first, for which there is no call.
    assert_eq!(counted, (0, 2, libc::ENOSPC, 1));
    has(&said, "The recording lacks 2 records for which the disk was full.");
    has(&said, "Free space there, or record into another folder (--dir)");
}

#[test]
fn a_ring_that_is_too_small_keeps_the_last_calls() {
    let mut job = Job::new(&["init 0 2 1 A", "threads 1 1000 0"]).env("NCCL_STACKS_RING_RECORDS", "64");
    job.run();
    let recording = job.recording();
    let counts: Vec<u64> = recording.calls().iter().map(|(_, r)| r.a).collect();
    assert_eq!(counts, (745..=1000).collect::<Vec<u64>>());
    // A ring for calls has four times the records of others. The two records of making the communicator, and the calls.
    assert_eq!((recording.header().claimed.iter().sum::<u64>(), recording.incomplete), (1002, 0));
}
