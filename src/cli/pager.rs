//! The pager that an answer goes through if it is longer than the terminal, as with git.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::interrupt::paging;
use super::terminal::{may_page, size_of};

/// The exit codes of a shell that cannot run a command.
const NOT_RUN: [i32; 2] = [126, 127];

/// Shows a text in a pager. Returns whether it is shown: not if there is no pager, or the user wants none.
pub(super) fn show(text: &[u8]) -> bool {
    may_page() && command().is_some_and(|pager| paging(|| run(pager, text)))
}

/// Whether standard output is a terminal, and a text has more lines than it, of which the shell's prompt needs one.
pub(super) fn is_longer(text: &[u8]) -> bool {
    let Some((width, height)) = size_of(io::stdout()) else { return false };
    let text = String::from_utf8_lossy(text);
    // Escapes count as letters. A line that they make too long only starts a pager that ends at once.
    let rows = text.lines().map(|line| line.chars().count().div_ceil(width.max(1)).max(1));
    rows.sum::<usize>() >= height
}

/// The user's pager, else `less`; `None` if the user's is none.
fn command() -> Option<Command> {
    let mut pager = match ["NCCL_STACKS_PAGER", "PAGER"].into_iter().find_map(env::var_os) {
        None => Command::new("less"),
        Some(own) if own.is_empty() || own == "cat" => return None,
        Some(own) => {
            // It may have arguments, or be a pipeline.
            let mut shell = Command::new("sh");
            shell.args([OsString::from("-c"), own]);
            shell
        }
    };
    // Leave if all of it fits, take colours as they are, and leave the text on the screen.
    for (name, options) in [("LESS", "FRX"), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            pager.env(name, options);
        }
    }
    Some(pager)
}

/// Runs a pager to its end. Returns whether it could be started.
fn run(mut pager: Command, text: &[u8]) -> bool {
    let Ok(mut running) = pager.stdin(Stdio::piped()).spawn() else { return false };
    if let Some(mut input) = running.stdin.take() {
        // A pager that is left before the end of the text reads no more of it.
        let _ = input.write_all(text);
    }
    let ended = running.wait();
    !ended.is_ok_and(|ended| ended.code().is_some_and(|code| NOT_RUN.contains(&code)))
}
