//! Fuzzes the check in `tests/checks/parts.rs`, which says what must hold.

#![no_main]

#[path = "../../tests/checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::parts::check(bytes));
