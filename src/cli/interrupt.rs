//! Signals: Ctrl-C while a query runs stops the query, and a second one the program. While a file is written it stops the
//! program, and what there is of the file is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::InterruptHandle;

/// Whether somebody wants the running query to stop.
#[derive(Debug, Clone)]
pub(super) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// From now on Ctrl-C stops the query that runs on this connection.
    pub(super) fn catch(handle: InterruptHandle) -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&wanted);
        // Where no handler can be set, Ctrl-C ends the program as it always does.
        let _ = ctrlc::set_handler(move || {
            // The query may be in a place that does not listen, or at a pipe that nobody reads. A handler of signals has nowhere to
            // return an exit code to.
            if flag.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            handle.interrupt();
        });
        Interrupts(wanted)
    }

    pub(super) fn wanted(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Forgets what was wanted: another query begins.
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// What is written at present and not whole yet: a file or a folder.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// As long as it lives, Ctrl-C removes an unfinished file, or a folder with all that is in it, before it ends the program.
#[derive(Debug)]
pub(super) struct Unfinished;

impl Unfinished {
    /// From now on.
    pub(super) fn at(path: &Path) -> Self {
        set_unfinished(Some(path.to_owned()));
        // It is set already where several files are written one after the other. Where none can be set, and where a query's is
        // set, whose answer is written in no time, Ctrl-C leaves the file behind.
        let _ = ctrlc::set_handler(|| {
            if let Some(path) = set_unfinished(None) {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
            super::say("Interrupted.");
            std::process::exit(130);
        });
        Unfinished
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        set_unfinished(None);
    }
}

fn set_unfinished(path: Option<PathBuf>) -> Option<PathBuf> {
    std::mem::replace(&mut *UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner), path)
}

/// Lets writing beyond the size that files may have (`ulimit -f`) fail like writing to a full disk, so that it is told and what was
/// begun is removed. Otherwise the signal ends the program where it stands.
pub(super) fn survive_size_limits() {
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(any(target_arch = "mips", target_arch = "mips64"))))]
    {
        use std::ffi::c_int;

        unsafe extern "C" {
            fn signal(signal: c_int, handler: usize) -> usize;
        }
        /// Its number on these machines.
        const SIGXFSZ: c_int = 25;
        /// The handler that is none.
        const SIG_IGN: usize = 1;
        // SAFETY: this is C's `signal`, whose handlers are as large as a pointer; ignoring a signal runs no code of ours.
        unsafe { signal(SIGXFSZ, SIG_IGN) };
    }
}
