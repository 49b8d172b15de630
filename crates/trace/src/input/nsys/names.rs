//! Names of processes and threads.

use super::tables::{THREAD_BITS, Table};

pub(super) const PROCESSES: Table =
    Table { name: "PROCESSES", columns: &["globalPid", "name"], process: Some("globalPid") };

pub(super) const THREADS: Table =
    Table { name: "ThreadNames", columns: &["globalTid", "nameId"], process: Some("globalTid") };

/// The lowest bits of a `globalTid`: the thread's number, as the operating system gives it.
pub(super) fn thread(global: i64) -> u32 {
    (global & ((1 << THREAD_BITS) - 1)) as u32
}

/// The number of a process, as the operating system gives it, by its global number without the thread's bits.
pub(super) fn process(global: i64) -> u32 {
    thread(global)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of a real export: 144 is both.
    #[test]
    fn global_numbers_have_parts() {
        let global = 281_477_392_629_904;
        assert_eq!((process(global >> THREAD_BITS), thread(global)), (144, 144));
    }
}
