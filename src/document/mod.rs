//! Answers in all their forms. What every form says of an answer is its [`Document`]; an [`Answer`] adds what a form shows besides. Nothing is
//! computed here, and nothing is written to a terminal. [`format`](mod@format) defines the notation of numbers and names, `table` their
//! layout.

pub mod answer;
mod csv;
pub mod findings;
pub(crate) mod form;
pub mod format;
pub(crate) mod frames;
pub(crate) mod html;
pub(crate) mod json;
pub mod results;
pub mod table;

use std::io::{self, Write};

pub use answer::Answer;
pub use csv::without_formulas;
pub use findings::{Document, Finding, FindingKind, Place};
pub use form::Form;
pub use html::Page;

/// How people see an answer.
#[derive(Debug, Clone, Default)]
pub struct Screen {
    /// The columns of the screen; `None` for lines of any length.
    pub width: Option<usize>,
    /// How many callers are shown: in text those down to the user's own code, in the script's form those above the launch. `None` for all.
    pub depth: Option<usize>,
    /// Whether to show all frames, including those of libraries.
    pub full_stacks: bool,
    /// Whether to show everything known about a stack.
    pub verbose: bool,
    pub colour: bool,
}

impl Screen {
    /// The columns left next to `taken` others.
    pub(crate) fn room(&self, taken: usize) -> usize {
        self.width.map_or(usize::MAX, |width| width.saturating_sub(taken))
    }

    /// Wraps sentences at blanks into lines that fit, but not between a number and its unit. A word may be longer than a line.
    pub(crate) fn fill(&self, text: &str) -> String {
        let room = self.room(0);
        let mut lines = Vec::new();
        for paragraph in text.lines() {
            let mut line = String::new();
            for word in words(paragraph) {
                if !line.is_empty() && shown_width(&line) + 1 + shown_width(word) > room {
                    lines.push(std::mem::take(&mut line));
                } else if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            lines.push(line);
        }
        lines.join("\n")
    }

    /// Writes sentences below a line, in lines that fit.
    pub(crate) fn below(&self, indent: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
        let inner = Screen { width: self.width.map(|width| width.saturating_sub(indent.len())), ..self.clone() };
        inner.fill(text).lines().try_for_each(|line| writeln!(out, "{indent}{line}"))
    }

    /// Highlights a text, if colour is on.
    pub(crate) fn accent(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1;36m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The pieces between the blanks at which a line may end.
fn words(text: &str) -> impl Iterator<Item = &str> {
    const UNITS: &[&str] =
        &["ns", "µs", "ms", "s", "min", "h", "%", "bytes", "kB", "KiB", "MB", "MiB", "GB", "GiB", "GB/s"];
    let may_end = |at: &usize| {
        let next = text[at + 1..].split(' ').next().unwrap_or_default();
        let is_unit = UNITS.contains(&next.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%'));
        !is_unit || !text[..*at].ends_with(|c: char| c.is_ascii_digit())
    };
    let ends = text.match_indices(' ').map(|(at, _)| at).filter(move |at| may_end(at)).chain([text.len()]);
    ends.scan(0, move |start, end| Some(&text[std::mem::replace(start, end + 1)..end]))
}

/// How many columns a text takes, without its colour codes.
fn shown_width(text: &str) -> usize {
    let mut parts = text.split('\x1b');
    let plain = parts.next().map_or(0, |part| part.chars().count());
    plain + parts.map(|part| part.split_once('m').map_or(part, |(_, rest)| rest).chars().count()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_keeps_its_unit() {
        let screen = |width: usize| Screen { width: Some(width), ..Screen::default() };
        let text = "It takes 12.3 ms of 34.5 ms (35.7 %), not µs";
        assert_eq!(screen(13).fill(text), "It takes\n12.3 ms of\n34.5 ms\n(35.7 %), not\nµs");
        assert_eq!(screen(99).fill(text), text);
        assert_eq!(Screen::default().fill("a  b\nc "), "a  b\nc ");
    }
}
