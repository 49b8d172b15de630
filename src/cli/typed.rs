//! What the user has typed, as a shell takes it again: a page names the commands that show what it shows, and these have the same inputs and options.

use std::ffi::OsString;

/// Options that say how an answer is written and not what it is, with whether a value follows.
const OF_WRITING: &[(&str, bool)] = &[
    ("--format", true),
    ("--output", true),
    ("-o", true),
    ("--color", true),
    ("--json", false),
    ("--ranks", false),
    ("--quiet", false),
    ("-q", false),
    ("--verbose", false),
    ("-v", false),
];

/// The commands that write pages.
const COMMANDS: [&str; 5] = ["report", "ranks", "hang", "records", "diff"];

/// The inputs and options of this process, without the command and how the answer is written.
pub(super) fn words() -> String {
    quoted(std::env::args_os().skip(1))
}

fn quoted(arguments: impl Iterator<Item = OsString>) -> String {
    let mut arguments = arguments.peekable();
    arguments.next_if(|first| COMMANDS.iter().any(|command| first == command));
    let mut words = Vec::new();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        match OF_WRITING.iter().find(|(option, _)| *option == text) {
            Some((_, true)) => drop(arguments.next()),
            Some((_, false)) => {}
            None if OF_WRITING
                .iter()
                .any(|(option, has_value)| *has_value && text.starts_with(&format!("{option}="))) => {}
            None => words.push(quote(&text)),
        }
    }
    words.join(" ")
}

/// A word that a shell takes as it is, in quotes if it would not.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_a_shell_takes() {
        let typed = ["ranks", "a b.json", "ranks", "--format", "html", "--output=x.html", "-o", "y", "-k", "it's%"];
        let words = quoted(typed.iter().map(OsString::from));
        assert_eq!(words, r"'a b.json' ranks -k 'it'\''s%'");
    }
}
