//! Signals: the first Ctrl-C stops the running query, a second one ends the program. All other signals end the program after unfinished
//! files were removed.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crate::sql::rusqlite::InterruptHandle;
use crate::unfinished;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::terminal::say;

/// Handles signals from now on, in a thread of its own. If that thread cannot be created, signals end the program at once.
pub(super) fn handle_signals() {
    // Without waiting for the thread, a signal soon after the start could find unfinished files and no handler.
    let (ready, is_ready) = mpsc::channel::<()>();
    let _ = std::thread::Builder::new().spawn(move || {
        let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
        let Ok(mut signals) = Signals::new(wanted) else { return };
        drop(ready);
        signals.forever().for_each(handle);
    });
    // Fails when the thread has dropped its end: the handlers are there, or will never be.
    let _ = is_ready.recv();
}

/// Whether the program was started with a signal ignored, as by `nohup`. It then stays ignored.
fn is_ignored(signal: c_int) -> bool {
    // SAFETY: all zeros are a valid `sigaction`; without a new action, the call only reads the old one.
    let (read, old) = unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal, std::ptr::null(), &raw mut old), old)
    };
    read == 0 && old.sa_sigaction == libc::SIG_IGN
}

fn handle(signal: c_int) {
    if signal == SIGINT && IS_PAGING.load(Ordering::SeqCst) {
        return;
    }
    let query = QUERY.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let (SIGINT, Some(Query { handle, is_wanted })) = (signal, &query)
        && !is_wanted.swap(true, Ordering::SeqCst)
    {
        handle.interrupt();
        return;
    }
    // A query that does not stop is between checks for interrupts, or blocks on a pipe.
    let removed = unfinished::remove_all();
    if signal == SIGINT && (removed > 0 || query.is_some()) {
        say("Interrupted.");
        #[allow(clippy::exit, reason = "the signal thread has no other way to end the process")]
        std::process::exit(130);
    }
    // The parent process sees which signal it was.
    let _ = emulate_default_handler(signal);
}

static IS_PAGING: AtomicBool = AtomicBool::new(false);

/// Runs a pager, which then has the terminal, and for which Ctrl-C is meant.
pub(super) fn paging<T>(run: impl FnOnce() -> T) -> T {
    IS_PAGING.store(true, Ordering::SeqCst);
    let ended = run();
    IS_PAGING.store(false, Ordering::SeqCst);
    ended
}

/// The queries that can be stopped.
#[derive(Clone)]
struct Query {
    handle: Arc<InterruptHandle>,
    /// Whether the user wants the running query to stop.
    is_wanted: Arc<AtomicBool>,
}

static QUERY: Mutex<Option<Query>> = Mutex::new(None);

/// Makes Ctrl-C stop the query that is running on this connection. Returns whether the user wants that.
pub(super) fn catch(handle: InterruptHandle) -> Arc<AtomicBool> {
    let is_wanted = Arc::new(AtomicBool::new(false));
    let query = Query { handle: Arc::new(handle), is_wanted: is_wanted.clone() };
    *QUERY.lock().unwrap_or_else(PoisonError::into_inner) = Some(query);
    is_wanted
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like a write to a full disk, so that the error is printed and the unfinished
/// file is removed. By default, the signal kills the program.
pub(super) fn survive_size_limits() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
