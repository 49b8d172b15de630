//! Ctrl-C while a query runs: the first stops the query, a second one the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
