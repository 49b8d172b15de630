//! The user's terminal: lines on standard error, and the widths of both output streams.

use std::io::{self, Write};

use terminal_size::{Height, Width, terminal_size_of};

/// Writes a line for the user to standard error; standard output carries data only.
pub(crate) fn say(message: &str) {
    // If standard error is closed, nobody reads the line.
    let _ = writeln!(io::stderr(), "{}", message.trim_end());
}

/// The columns of the terminal that standard output goes to, if it goes to one.
pub(crate) fn stdout_width() -> Option<u16> {
    terminal_size_of(io::stdout()).map(|(Width(width), _)| width)
}

/// The columns and lines of the terminal that standard error goes to, if it goes to one.
pub(crate) fn stderr_size() -> Option<(usize, usize)> {
    terminal_size_of(io::stderr()).map(|(Width(width), Height(height))| (width.into(), height.into()))
}
