//! The lifetime of this process's file: from the first communicator or event until the exit, and again in a forked child. Programs that a job starts,
//! such as shells and compilers, load the library, too; they call no NCCL, so they get no file.
//!
//! Parts of the library start with the file, forget in a forked child, or finish at the exit. This module calls them in order, so that [`process`]
//! and they need not know each other. Code that records gets the file from here.

use core::sync::atomic::{AtomicBool, Ordering};

use nccl_stacks_recorder_format::Writer;

use crate::{dropin, process, texts, thread};

/// The process's file, created at the first call; `None` if there is none.
#[inline]
pub(crate) fn writer() -> Option<&'static Writer> {
    process::opened_or(open)
}

#[cold]
#[inline(never)]
fn open() -> Option<&'static Writer> {
    process::open(watch_exit, dropin::start)
}

/// The exit handler is registered before another thread can have the file, because that thread may end the process.
fn watch_exit() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler lives as long as the library, which is never unloaded.
        unsafe { libc::atexit(at_exit) };
    }
}

/// From the loading of the library, forks are watched: later, one thread may create the file while another forks. The thread key is created here,
/// before the program has used up the first keys, which need no memory.
#[used]
#[unsafe(link_section = ".init_array")]
static WATCH: extern "C" fn() = watch;

extern "C" fn watch() {
    // SAFETY: the handler lives as long as the library, which is never unloaded.
    unsafe { pthread_atfork(None, None, Some(forked)) };
    thread::prepare();
}

type Handler = Option<extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> i32;
}

/// Runs in a forked child, which must not use its parent's file.
extern "C" fn forked() {
    texts::forget();
    thread::forked();
    process::forked();
    dropin::forked();
}

extern "C" fn at_exit() {
    if let Some(writer) = process::opened() {
        dropin::finish();
        writer.close();
    }
}
