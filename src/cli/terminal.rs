//! The user's terminal: lines on standard error, the widths of both output streams, and what is set once for all that a run prints.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use terminal_size::{Height, Width, terminal_size_of};

/// Writes a line for the user to standard error; standard output carries data only.
pub(crate) fn say(message: &str) {
    // If standard error is closed, nobody reads the line.
    let _ = writeln!(io::stderr(), "{}", message.trim_end());
}

/// Removes the last lines of the terminal that standard error goes to.
pub(crate) fn erase_lines(lines: usize) {
    // Up, and clear from there on (ECMA-48, CUU and ED).
    let _ = write!(io::stderr(), "\x1b[{lines}A\x1b[J");
}

static GUARDS_CSV: AtomicBool = AtomicBool::new(false);

/// Sets whether what spreadsheets would calculate is made text in all CSV of this run.
pub(crate) fn set_csv_guard(is_on: bool) {
    GUARDS_CSV.store(is_on, Ordering::Relaxed);
}

/// Whether it is.
pub(crate) fn guards_csv() -> bool {
    GUARDS_CSV.load(Ordering::Relaxed)
}

/// How much is said beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Loudness {
    /// What is wrong.
    Quiet,
    /// And how the answer came about.
    Normal,
    /// And what nobody needs to act on.
    Verbose,
}

static LOUDNESS: AtomicU8 = AtomicU8::new(Loudness::Normal as u8);

/// Sets how much is said, for the whole run.
pub(crate) fn set_loudness(loudness: Loudness) {
    LOUDNESS.store(loudness as u8, Ordering::Relaxed);
}

/// Writes a line on how the answer came about, unless the user wants none.
pub(crate) fn note(message: &str) {
    if LOUDNESS.load(Ordering::Relaxed) >= Loudness::Normal as u8 {
        say(message);
    }
}

/// Writes a line that nobody needs to act on, if the user wants everything.
pub(crate) fn detail(message: &str) {
    if is_verbose() {
        say(message);
    }
}

/// Whether the user wants everything.
pub(crate) fn is_verbose() -> bool {
    LOUDNESS.load(Ordering::Relaxed) >= Loudness::Verbose as u8
}

/// Whether standard output is a terminal whose user has not turned colours off (<https://no-color.org>).
pub(crate) fn stdout_has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The columns of the terminal that standard output goes to, if it goes to one.
pub(crate) fn stdout_width() -> Option<u16> {
    terminal_size_of(io::stdout()).map(|(Width(width), _)| width)
}

/// The columns and lines of the terminal that standard error goes to, if it goes to one.
pub(crate) fn stderr_size() -> Option<(usize, usize)> {
    terminal_size_of(io::stderr()).map(|(Width(width), Height(height))| (width.into(), height.into()))
}
