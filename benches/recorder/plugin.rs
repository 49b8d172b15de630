//! The cost of the recorder to a job: a thread's CPU time per event, in nanoseconds.
//!
//! The library is loaded as NCCL does it, and called through its table. `cargo bench -p nccl-stacks-benches --bench recorder` runs all. With eight
//! threads, the time is CPU time per thread, so it shows the cost of sharing, not the number of cores.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Barrier;
use std::time::Duration;

use criterion::Criterion;

use super::library::library;

type Init =
    unsafe extern "C" fn(*mut *mut c_void, u64, *mut c_int, *const c_char, c_int, c_int, c_int, *mut c_void) -> c_int;

/// The table of version 7.
#[repr(C)]
struct Table {
    name: *const c_char,
    init: Init,
    start: unsafe extern "C" fn(*mut c_void, *mut *mut c_void, *mut c_void) -> c_int,
    stop: unsafe extern "C" fn(*mut c_void) -> c_int,
    state: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void) -> c_int,
    finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
}

// SAFETY: it holds functions and a constant.
unsafe impl Sync for Table {}

/// The data of a thread: the table and the number of a context.
#[derive(Clone, Copy)]
struct Plugin {
    table: &'static Table,
    context: usize,
}

/// Loads the library into this process, with its file in a folder.
fn load(folder: &std::path::Path) -> *mut c_void {
    // SAFETY: there is only one thread.
    unsafe { std::env::set_var("NCCL_STACKS_DIR", folder) };
    let path = CString::new(library().into_os_string().into_encoded_bytes()).unwrap();
    // SAFETY: `path` is a C string.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null());
    library
}

fn plugin(library: *mut c_void) -> Plugin {
    // SAFETY: the library is loaded, and its table has this layout.
    let table = unsafe { &*libc::dlsym(library, c"ncclProfiler_v7".as_ptr()).cast::<Table>() };
    let (mut context, mut mask) = (std::ptr::null_mut(), 0);
    // SAFETY: the arguments are as NCCL's.
    unsafe { (table.init)(&raw mut context, 7, &raw mut mask, c"bench".as_ptr(), 1, 8, 3, std::ptr::null_mut()) };
    assert!(!context.is_null());
    Plugin { table, context: context as usize }
}

/// The CPU time of this thread.
fn cpu() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to write to.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The mean CPU time of this many threads that each run `work` once.
fn on_threads(threads: u32, work: impl Fn() + Sync) -> Duration {
    let barrier = Barrier::new(threads as usize);
    let timed = || {
        barrier.wait();
        let begun = cpu();
        work();
        cpu() - begun
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum::<Duration>() / threads
    })
}

/// A descriptor: its type, and texts or numbers at NCCL's offsets.
fn descriptor(kind: u64, words: &[(usize, u64)]) -> [u64; 17] {
    let mut descriptor = [0; 17];
    descriptor[0] = kind;
    for (at, word) in words {
        descriptor[at / 8] = *word;
    }
    descriptor
}

/// Events of the profiler plugin: the mean of `startEvent` and `stopEvent`, and a state.
fn plugin_events(criterion: &mut Criterion, library: *mut c_void) {
    let plugin = plugin(library);
    let text = |text: &'static CStr| text.as_ptr() as u64;
    let coll = [
        (32, text(c"AllReduce")),
        (56, 1 << 20),
        (72, text(c"ncclBfloat16")),
        (88, text(c"RING")),
        (96, text(c"SIMPLE")),
    ];
    let events = [("collective", descriptor(2, &coll)), ("step of a proxy", descriptor(16, &[(24, 3)]))];
    let mut group = criterion.benchmark_group("plugin");
    for threads in [1, 8] {
        for (name, descriptor) in events {
            group.bench_function(format!("{name}, {threads} threads"), |bencher| {
                bencher.iter_custom(|pairs| {
                    let all = on_threads(threads, || {
                        let mut descriptor = descriptor;
                        for _ in 0..pairs {
                            let mut handle = std::ptr::null_mut();
                            // SAFETY: the arguments are as NCCL's.
                            unsafe {
                                let context = plugin.context as *mut c_void;
                                (plugin.table.start)(context, &raw mut handle, descriptor.as_mut_ptr().cast());
                                (plugin.table.stop)(handle);
                            }
                        }
                    });
                    // There are two calls.
                    all / 2
                });
            });
        }
        group.bench_function(format!("state, {threads} threads"), |bencher| {
            bencher.iter_custom(|states| {
                on_threads(threads, || {
                    let mut bytes = 4096u64;
                    for _ in 0..states {
                        // SAFETY: the arguments are as NCCL's; the handle names some record.
                        unsafe { (plugin.table.state)(0x100 as *mut c_void, 9, (&raw mut bytes).cast()) };
                    }
                })
            });
        });
    }
    // The clock is part of each event, and the recorder cannot make it faster.
    group.bench_function("of it the clock", |bencher| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is a valid timespec to write to.
        bencher.iter(|| unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) });
    });
    group.finish();
}

/// Loads the library and times its plugin.
pub(crate) fn plugin_bench(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let library = load(folder.path());
    plugin_events(criterion, library);
}
