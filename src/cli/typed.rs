//! The inputs and options of this run as text for a shell, for the commands that a page suggests.
//!
//! They are built from the options in force and not from the typed words: some options come from a config file, and the suggested command
//! may not have all of them.

use std::path::PathBuf;

use crate::answers::OnPage;
use crate::document::format::shell_word;
use crate::operations::clocks::ClockMode;

use super::args::{CLOCK, Climbing, RankOf, Selection, Span, asked_of};

pub(super) fn on_page(inputs: &[PathBuf], options: &[(&str, Option<String>)], notes: Vec<String>) -> OnPage {
    OnPage::new(files(inputs), words(options), notes)
}

/// Options as words for a shell, with a blank before each.
pub(super) fn words(options: &[(&str, Option<String>)]) -> String {
    let option = |(name, value): &(&str, Option<String>)| {
        let value = value.as_ref().map_or(String::new(), |value| format!(" {}", shell_word(value)));
        format!(" --{name}{value}")
    };
    options.iter().map(option).collect()
}

pub(super) fn options(selection: &Selection, span: &Span, climbing: &Climbing) -> Vec<(&'static str, Option<String>)> {
    let file = |path: &PathBuf| path.display().to_string();
    asked_of(selection, span, climbing, file)
}

/// The options that only a comparison of ranks has.
pub(super) fn of_ranks(given: &[RankOf], clock: ClockMode) -> String {
    let given = given
        .iter()
        .map(|RankOf { rank, trace }| format!(" --rank {}", shell_word(&format!("{rank}={}", trace.display()))));
    let clock = CLOCK[1..].iter().find(|(_, mode)| *mode == clock).map(|(word, _)| format!(" --clock {word}"));
    given.chain(clock).collect()
}

fn files(inputs: &[PathBuf]) -> String {
    let word = |path: &PathBuf| {
        let text = path.display().to_string();
        // A bare name could be taken for a command or an option.
        let is_bare = text != "-" && (text.starts_with('-') || !text.contains(['/', '.']));
        shell_word(&if is_bare { format!("./{text}") } else { text }).into_owned()
    };
    inputs.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_a_shell_takes() {
        let inputs = ["a b.json", "ranks", "-x.json", "-", "d/t.json"].map(PathBuf::from);
        let option = ("kernel-name", Some("it's%".to_owned()));
        let on_page = on_page(&inputs, &[option, ("exact-names", None)], Vec::new());
        assert_eq!(on_page.inputs, "'a b.json' ./ranks ./-x.json - d/t.json");
        assert_eq!(on_page.options, r" --kernel-name 'it'\''s%' --exact-names");
    }
}
