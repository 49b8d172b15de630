//! Old commands that other commands have become. They run under their old names, with a note that says the new command line.

use std::ffi::OsString;

use super::typed::quote;

/// The words of the command line, with `merge` as the command that answers from parts now; and the note if they were changed.
pub(super) fn words(typed: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    if typed.get(1).is_none_or(|command| command != "merge") {
        return (typed, None);
    }
    let mut rest = typed[2..].to_vec();
    let mut takes = |words: &[&str]| {
        let at = rest.windows(words.len()).position(|window| window == words);
        at.map(|at| rest.drain(at..at + words.len()).count()).is_some()
    };
    let (is_joined, has_stacks) = (takes(&["--format", "parts"]) || takes(&["--format=parts"]), takes(&["--stacks"]));
    let command = match (is_joined, has_stacks) {
        (true, _) => Some("part"),
        (false, true) => None,
        (false, false) => Some("ranks"),
    };
    rest.splice(..0, command.map(OsString::from));
    let shown: Vec<String> = rest.iter().map(|word| quote(&word.to_string_lossy())).collect();
    rest.splice(..0, typed.into_iter().take(1));
    (rest, Some(format!("Note: this is `nccl-stacks {}`", shown.join(" "))))
}
