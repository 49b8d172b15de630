//! CPU time per NCCL call, compared with an interceptor that formats text.
//!
//! A C program calls a fake NCCL in a loop, linked or through `dlsym` with a handle, from one and from eight threads, and measures itself. Every
//! run also has the call without an interceptor, so that the difference is the cost of recording.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, Throughput};

use super::library::library;

/// Compiles in the folder of the recorder's tests.
fn cc(folder: &Path, output: &str, arguments: &[&str]) {
    let mut cc = Command::new("cc");
    cc.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/recorder")).args(["-O2", "-o"]);
    assert!(cc.arg(folder.join(output)).args(arguments).status().unwrap().success());
}

/// Calls before the measurement, on the same thread or as many threads: they fill the rings once, so that their pages exist. The cost of that is
/// measured as "filling".
const FIRST: u64 = 270_000;

/// Calls per iteration: with fewer, starting threads would dominate.
const CALLS: u64 = 10_000;

/// Times `count` calls of `ncclAllReduce` by this many threads.
fn calls(folder: &Path, via: &str, threads: u64, (preload, first): (&Path, u64), count: u64) -> Duration {
    let records = tempfile::tempdir().unwrap();
    let each = count.div_ceil(threads);
    let output = Command::new(folder.join(if via == "link" { "linked" } else { "alone" }))
        // Two threads must not call the same communicator at once, so each has its own.
        .args((0..threads).map(|comm| format!("init {comm} 2 1 {comm}")))
        .args([&format!("threads {threads} {first} 0"), &format!("time {threads} {each} 0")])
        .env("VIA", via)
        .env("LD_LIBRARY_PATH", folder)
        .env("LD_PRELOAD", preload)
        .env("NCCL_STACKS_DIR", records.path())
        .output()
        .unwrap();
    let ns: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    Duration::from_nanos((ns * count as f64 / (each * threads) as f64) as u64)
}

/// Measures the interceptor, and one that writes text.
pub(super) fn interceptor(c: &mut Criterion) {
    let recorder = library();
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let library = format!("-L{}", at.display());
    cc(at, "libnccl.so.2", &["-fPIC", "-shared", "fake_nccl.c", "-Wl,-soname,libnccl.so.2"]);
    cc(at, "libtext.so", &["-fPIC", "-shared", "text.c"]);
    cc(at, "linked", &["driver.c", "-Wl,--no-as-needed", &library, "-l:libnccl.so.2", "-lpthread", "-ldl"]);
    cc(at, "alone", &["driver.c", "-lpthread", "-ldl"]);

    let text = at.join("libtext.so");
    let mut nanoseconds = BTreeMap::<(u64, &str, &str), Vec<f64>>::new();
    let mut group = c.benchmark_group("interceptor");
    group.sample_size(20).measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(CALLS));
    let cases = [("none", Path::new(""), FIRST), ("recorder", &recorder, FIRST), ("text", &text, FIRST)];
    for (threads, via) in [(1, "link"), (8, "link"), (1, "handle"), (8, "handle")] {
        // The text interceptor is not found through a handle.
        for (name, preload, first) in cases.iter().filter(|case| via == "link" || case.0 != "text") {
            group.bench_function(format!("{via}/{threads} threads/{name}"), |bencher| {
                bencher.iter_custom(|count| {
                    let took = calls(at, via, threads, (preload, *first), count * CALLS);
                    let each = took.as_nanos() as f64 / (count * CALLS) as f64;
                    nanoseconds.entry((threads, via, name)).or_default().push(each);
                    took
                });
            });
        }
    }
    // From the first call on, as many calls as a ring holds.
    for _ in 0..20 {
        let took = calls(at, "link", 1, (&recorder, 1), 1 << 16);
        nanoseconds
            .entry((1, "link", "recorder, filling"))
            .or_default()
            .push(took.as_nanos() as f64 / f64::from(1 << 16));
    }
    group.finish();
    let median = |of: &[f64]| {
        let mut of = of.to_vec();
        of.sort_by(f64::total_cmp);
        of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
    };
    for ((threads, via, name), samples) in &nanoseconds {
        let without = nanoseconds.get(&(*threads, *via, "none")).map_or(f64::NAN, |of| median(of));
        let with = median(samples);
        println!(
            "{threads} threads, {via}, {name}: {with:.1} ns per call, {:.1} beyond the call alone",
            with - without
        );
    }
}
