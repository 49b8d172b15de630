//! Fuzzes the check in `tests/checks/records.rs`, which says what must hold.
//!
//! With `NCCL_FUZZ_SOURCE=n` in the environment all inputs are of that source, whatever their first byte says.

#![no_main]

#[path = "../../tests/checks/mod.rs"]
mod checks;

use std::sync::LazyLock;

static SOURCE: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var("NCCL_FUZZ_SOURCE").ok()?.parse().ok());

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        checks::records::check_as(SOURCE.unwrap_or((*first).into()), *first, rest);
    }
});
