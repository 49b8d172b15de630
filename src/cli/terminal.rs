//! The user's terminal: lines on standard error, the widths of both output streams, and settings for everything that a run prints.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use terminal_size::{Height, Width, terminal_size_of};

/// Writes a line for the user to standard error; standard output only carries data.
pub(crate) fn say(message: &str) {
    // If standard error is closed, nobody reads the line.
    let _ = writeln!(io::stderr(), "{}", message.trim_end());
}

/// Removes the last lines of the terminal that standard error goes to.
pub(crate) fn erase_lines(lines: usize) {
    // Moves up, and clears from there on (ECMA-48, CUU and ED).
    let _ = write!(io::stderr(), "\x1b[{lines}A\x1b[J");
}

static HAS_STDOUT: AtomicBool = AtomicBool::new(true);

/// Sets whether standard output is open.
pub(crate) fn set_stdout(is_open: bool) {
    HAS_STDOUT.store(is_open, Ordering::Relaxed);
}

/// Errors: standard output was closed before the program began. Writing to it would not fail, see the program's `main`.
pub(crate) fn check_stdout() -> io::Result<()> {
    let is_open = HAS_STDOUT.load(Ordering::Relaxed);
    if is_open { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
}

/// What the user asked for, for everything that a run prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Whether a long answer may go through a pager.
    pub(crate) has_pager: bool,
    /// Whether CSV is guarded against formulas.
    pub(crate) guards_csv: bool,
    /// Whether only warnings and errors are printed beside the answer.
    pub(crate) is_quiet: bool,
    /// Whether details that need no action are printed, too.
    pub(crate) is_verbose: bool,
}

static SETTINGS: RwLock<Settings> =
    RwLock::new(Settings { has_pager: true, guards_csv: false, is_quiet: false, is_verbose: false });

pub(crate) fn set(settings: Settings) {
    *SETTINGS.write().unwrap_or_else(PoisonError::into_inner) = settings;
}

pub(crate) fn settings() -> Settings {
    *SETTINGS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a long answer may go through a pager: the user has not turned that off, and standard output is a terminal.
pub(crate) fn may_page() -> bool {
    let is_off = std::env::var_os("NO_PAGER").is_some_and(|value| !value.is_empty());
    settings().has_pager && !is_off && io::stdout().is_terminal()
}

/// Writes a line about how the answer came about, unless the user asked for quiet.
pub(crate) fn note(message: &str) {
    if !settings().is_quiet {
        say(message);
    }
}

/// Writes a line that needs no action, if the user asked for verbose output.
pub(crate) fn detail(message: &str) {
    if is_verbose() {
        say(message);
    }
}

pub(crate) fn is_verbose() -> bool {
    let Settings { is_quiet, is_verbose, .. } = settings();
    is_verbose && !is_quiet
}

/// Whether standard output is a terminal whose user has not turned colours off (<https://no-color.org>).
pub(crate) fn stdout_has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The columns and lines of the terminal on standard output or standard error, if it is one.
pub(crate) fn size_of(stream: impl AsFd) -> Option<(usize, usize)> {
    terminal_size_of(stream).map(|(Width(width), Height(height))| (width.into(), height.into()))
}
