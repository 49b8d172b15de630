//! The picker of a window from a list: type to filter, arrow keys to move, Enter to choose, Esc to leave.

use std::io::IsTerminal;

use inquire::{InquireError, Select};

use crate::answers::window::lists::thread;
use crate::answers::window::{Candidate, several_processes};
use crate::document::format::{count, duration, shorten, shorten_right, visible};
use crate::names::frames::location;
use crate::run::NotChosen;
use crate::time::Ns;

use super::terminal::{erase_lines, say, size_of};

pub(super) fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The only line of the list if nothing contains what is typed.
const NONE: &str = "Nothing in the list has this. Backspace removes a letter.";

/// How many lines of the terminal the list cannot use.
const OTHER_LINES: usize = 5;

/// Asks the user for one of the slices and returns its index. Starts are shown relative to `origin`, the first instant of the trace.
pub(super) fn pick(found: &[Candidate], origin: Ns) -> Result<usize, NotChosen> {
    let (width, height) = size_of(std::io::stderr()).unwrap_or((80, 24));
    // The list indents its lines by two columns; a third keeps the cursor from wrapping.
    let width = width.saturating_sub(3);
    let is_one_thread = found.windows(2).all(|pair| (&pair[0].thread, pair[0].pid) == (&pair[1].thread, pair[1].pid));
    let row = |cells: [String; 6]| {
        let [index, start, duration, kernels, gpu, thread] = cells;
        let thread = if is_one_thread { String::new() } else { format!("{:<16}  ", shorten(&thread, 16)) };
        format!("{index:>5}  {start:>13}  {duration:>11}  {kernels:>7}  {gpu:>11}  {thread}")
    };
    let header = row(["index", "start", "duration", "kernels", "GPU time", "thread"].map(str::to_owned));
    say(&format!("  {}", shorten_right(&format!("{header}name"), width)));
    let several = several_processes(found);
    let line = |(index, candidate): (usize, &Candidate)| {
        let left = row([
            index.to_string(),
            format!("+{}", duration(candidate.window.start - origin)),
            duration(candidate.window.duration()),
            count(candidate.kernels),
            duration(candidate.gpu_time),
            thread(candidate, several),
        ]);
        let room = width.saturating_sub(left.chars().count()).max(12);
        // The end of a path and the beginning of an annotation say most.
        let name = visible(&candidate.name);
        let name = if location(&name).is_some() { shorten(&name, room) } else { shorten_right(&name, room) };
        shorten_right(&format!("{left}{name}"), width)
    };
    let lines: Vec<String> = found.iter().enumerate().map(line).collect();
    loop {
        // The line after the last candidate says that none matches.
        let answer = Select::new("Which one?", lines.iter().map(String::as_str).chain([NONE]).collect())
            .with_help_message("type to filter, ↑↓ to move, Enter to choose, Esc to leave")
            .with_page_size(height.saturating_sub(OTHER_LINES).clamp(3, 25))
            .with_scorer(&|typed, _, line, index| match found.get(index) {
                Some(candidate) => score(candidate, (index, line), typed),
                None => {
                    let is_any = found.iter().zip(&lines).any(|(of, line)| contains_all(of, line, typed));
                    (!is_any).then_some(0)
                }
            })
            .with_formatter(&|line| if line.index < found.len() { line.index.to_string() } else { String::new() })
            .raw_prompt();
        match answer {
            // Nothing is chosen with it: the question is asked again.
            Ok(line) if line.index == found.len() => erase_lines(1),
            Ok(line) => {
                // The header and the answered question are superfluous once the window is printed.
                erase_lines(2);
                return Ok(line.index);
            }
            Err(InquireError::OperationCanceled | InquireError::OperationInterrupted) => return Err(NotChosen::Left),
            Err(error) => return Err(NotChosen::NotShown(error.to_string())),
        }
    }
}

/// The score of a line that matches the typed text. A typed number prefers the line with that index: 4 means index 4, not the first line with
/// a 4 in its times.
fn score(candidate: &Candidate, (index, line): (usize, &str), typed: &str) -> Option<i64> {
    let is_index = typed.trim().parse() == Ok(index);
    contains_all(candidate, line, typed).then_some(i64::from(is_index))
}

/// Whether the line or the full name contains every typed word.
fn contains_all(candidate: &Candidate, line: &str, typed: &str) -> bool {
    let text = format!("{line} {}", candidate.name).to_lowercase();
    typed.to_lowercase().split_whitespace().all(|word| text.contains(word))
}
