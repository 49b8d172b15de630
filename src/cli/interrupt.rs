//! Signals: Ctrl-C while a query runs stops the query, and a second one the program. While a file is written it stops the
//! program, and what there is of the file is removed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nccl_stacks::sql::rusqlite::InterruptHandle;

use super::terminal::say;

/// Whether the user wants the running query to stop.
#[derive(Debug, Clone)]
pub(super) struct Interrupts(Arc<AtomicBool>);

impl Interrupts {
    /// Makes Ctrl-C stop the query that runs on this connection.
    pub(super) fn catch(handle: InterruptHandle) -> Self {
        let wanted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&wanted);
        // If no handler can be set, Ctrl-C ends the program as usual.
        let _ = ctrlc::set_handler(move || {
            // The query may not check for interrupts now, or block on a pipe. A signal handler cannot return an exit code.
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

    /// Forgets an interrupt, before the next query.
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// The file or folder that is being written.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// While it lives, Ctrl-C removes an unfinished file, or a folder with its contents, before it ends the program.
#[derive(Debug)]
pub(super) struct Unfinished;

impl Unfinished {
    /// Guards a file or folder.
    pub(super) fn at(path: &Path) -> Self {
        set_unfinished(Some(path.to_owned()));
        // The handler is set already if several files are written one after the other. If none can be set, or that of a query is
        // set, whose answer is written quickly, Ctrl-C leaves the file.
        let _ = ctrlc::set_handler(|| {
            if let Some(path) = set_unfinished(None) {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
            say("Interrupted.");
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

/// Makes writing beyond the size limit of files (`ulimit -f`) fail like writing to a full disk, so that the error is printed and the
/// unfinished file is removed. Otherwise the signal ends the program at once.
pub(super) fn survive_size_limits() {
    #[cfg(all(any(target_os = "linux", target_os = "macos"), not(any(target_arch = "mips", target_arch = "mips64"))))]
    {
        use std::ffi::c_int;

        unsafe extern "C" {
            fn signal(signal: c_int, handler: usize) -> usize;
        }
        /// Its number on these platforms.
        const SIGXFSZ: c_int = 25;
        /// Ignores the signal.
        const SIG_IGN: usize = 1;
        // SAFETY: this is C's `signal`, whose handlers are as large as a pointer; ignoring a signal runs no code of ours.
        unsafe { signal(SIGXFSZ, SIG_IGN) };
    }
}
