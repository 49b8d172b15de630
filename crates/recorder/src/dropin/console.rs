//! Lines on standard error in the form of Megatrace's console, for scripts that look for them there:
//!
//! ```text
//! [2025-08-19 08:35:04.253968] [Rank: 3] [ERROR] [megatrace.rs:281:create] no log in ./logs: it cannot be created: error 13
//! ```
//!
//! As with Megatrace, errors are printed even if `MEGATRACE_LOG_LEVEL` is not set. A job without Megatrace's variables gets no line.

use core::ffi::CStr;
use core::fmt;

use nccl_stacks_recorder_format::realtime_and_monotonic;

use crate::{environment, log};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    /// The last level that the environment asks for.
    pub(super) fn wanted() -> Level {
        let word = environment::variable(c"MEGATRACE_LOG_LEVEL").map(CStr::to_bytes).unwrap_or_default();
        let all = [Level::Error, Level::Warn, Level::Info, Level::Debug];
        all.into_iter().find(|level| level.name().as_bytes() == word).unwrap_or(Level::Error)
    }

    fn name(self) -> &'static str {
        match self {
            Level::Error => "ERROR",
            Level::Warn => "WARN",
            Level::Info => "INFO",
            Level::Debug => "DEBUG",
        }
    }
}

/// Prints what a function of `megatrace.rs` says there, whatever its level.
#[cold]
pub(super) fn line(level: Level, rank: Option<u32>, (function, line): (&str, u32), what: fmt::Arguments<'_>) {
    let (realtime, _) = realtime_and_monotonic();
    let seconds: libc::time_t = realtime / 1_000_000_000;
    // SAFETY: zeros are a valid time, which the call overwrites.
    let now = unsafe {
        let mut now = core::mem::zeroed::<libc::tm>();
        libc::localtime_r(&raw const seconds, &raw mut now);
        now
    };
    let (year, month) = (now.tm_year.saturating_add(1900), now.tm_mon.saturating_add(1));
    let micros = realtime % 1_000_000_000 / 1000;
    let (rank, level) = (rank.map_or(-1, i64::from), level.name());
    log::plain(format_args!(
        "[{year:04}-{month:02}-{:02} {:02}:{:02}:{:02}.{micros:06}] [Rank: {rank}] [{level}] [megatrace.rs:{line}:{function}] {what}",
        now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec,
    ));
}
