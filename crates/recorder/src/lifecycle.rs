//! From when to when this process has a file: from the first communicator or event, again in a process that is forked off, up to the exit.
//!
//! Programs that a job starts load the library, too: shells, compilers. They call no NCCL, so they get no file.
//!
//! Several parts of the library have something to begin with the file, to forget in a child, or to finish at the exit. They are called from
//! here, in order, so that [`process`] and they need not know each other. Who records asks here for the file.

use core::sync::atomic::{AtomicBool, Ordering};

use nccl_stacks_recorder_format::Writer;

use crate::{dropin, process, texts, thread};

/// The process's file, which is created if that was not tried yet; `None` if it has none.
#[inline]
pub(crate) fn writer() -> Option<&'static Writer> {
    process::opened_or(open)
}

/// Creates the file, and starts what reads it.
#[cold]
#[inline(never)]
fn open() -> Option<&'static Writer> {
    process::open(watch_exit, dropin::start)
}

/// The exit is watched before another thread can have the file: that thread may end the process.
fn watch_exit() {
    static WATCHED: AtomicBool = AtomicBool::new(false);
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function lives as long as the library, which is never unloaded.
        unsafe { libc::atexit(at_exit) };
    }
}

/// Forks are watched from the moment the library is loaded: later there is a time at which a thread creates the file and another one forks.
/// And what threads keep is there before the program takes the first places, which need no memory.
#[used]
#[unsafe(link_section = ".init_array")]
static WATCH: extern "C" fn() = watch;

extern "C" fn watch() {
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { pthread_atfork(None, None, Some(forked)) };
    thread::prepare();
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// In the child: what it has is the parent's.
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
