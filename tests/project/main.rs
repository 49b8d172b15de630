//! Rules about the project itself. Uses no module of `tests/support/`, so it builds fast.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails; its prints are for -- --nocapture"
)]

mod commands;
mod dependencies;
mod formats;
mod guards;
mod sentences;
