//! How people see numbers, sizes, names and values. All forms and the notes of the command line use the same notation.

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use crate::names::collectives::size_text as size;
use crate::operation::ranges::runs;
use crate::time::Ns;

/// The width of lines where there is no screen: wide enough for most names, short enough for a log.
pub const WIDTH_WITHOUT_SCREEN: usize = 160;

/// A length of time in the largest unit that it reaches, with at least three significant digits: `7.93 ms`, `139.1 ms`.
pub fn duration(time: Ns) -> String {
    let nanos = time.0.unsigned_abs();
    // From where a time would be rounded to a thousand of the smaller unit.
    let (unit, name) = match nanos {
        0..1_000 => return format!("{} ns", time.0),
        1_000..999_950 => (1_000, "µs"),
        999_950..999_950_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let sign = if time.0 < 0 { "-" } else { "" };
    // Rounds in integers, so that equal times always print alike.
    let rounded = |parts: u128| (u128::from(nanos) * parts * 2 + unit) / (unit * 2);
    match (rounded(100), rounded(10)) {
        (few @ 0..1_000, _) => format!("{sign}{}.{:02} {name}", few / 100, few % 100),
        (_, many) => format!("{sign}{}.{} {name}", many / 10, many % 10),
    }
}

/// A count with commas: `239,093`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 kernel`, `239,093 kernels`
pub fn kernels(n: u64) -> String {
    plural(n, "kernel")
}

/// A number of things: `1 file`, `8 files`.
pub(crate) fn plural(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A number with commas and this many decimals.
pub(crate) fn grouped(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let (whole, rest) =
        text.split_once('.').map_or((&*text, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    whole.parse::<u64>().map_or(text.clone(), |whole| format!("{}{rest}", count(whole)))
}

/// A share: `12.3 %`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share, or `?` if it is unknown.
pub(crate) fn percent_or_unknown(share: Option<f64>) -> String {
    share.map_or("?".to_owned(), percent)
}

pub(crate) fn sign(number: f64) -> &'static str {
    if number < 0.0 { "−" } else { "+" }
}

/// A name that is safe to show: control characters, which could move a terminal's cursor or forge a line of output, and characters that are
/// invisible or change the direction of the surrounding text are written as escapes.
pub fn visible(name: &str) -> Cow<'_, str> {
    if !name.contains(is_hidden) {
        return Cow::Borrowed(name);
    }
    let escaped = name.chars().map(|c| if is_hidden(c) { c.escape_default().to_string() } else { c.to_string() });
    Cow::Owned(escaped.collect())
}

/// Whether a character is invisible: Unicode's controls, its format characters that belong to no script, its line separators, and its
/// private-use and tag characters.
pub(crate) fn is_hidden(c: char) -> bool {
    c.is_control()
        || (c > '\u{ac}'
            && matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e000}'..='\u{f8ff}'
                    | '\u{e0000}'..='\u{e007f}'
                    | '\u{f0000}'..='\u{10ffff}'))
}

/// A name shortened to a width from the left: the function at its end says more than the folders at its start.
pub fn shorten(name: &str, width: usize) -> String {
    without(name, width, 0)
}

pub fn shorten_right(text: &str, width: usize) -> String {
    without(text, width, width.saturating_sub(1))
}

pub(crate) fn shorten_middle(text: &str, width: usize) -> String {
    without(text, width, width / 2)
}

/// A text of at most `width` characters: its first ones, an ellipsis, its last ones.
fn without(text: &str, width: usize, first: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let last = width.saturating_sub(first + 1);
    text.chars().take(first).chain(['…']).chain(text.chars().skip(length - last)).collect()
}

/// A word for a shell, in quotes if it needs them.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

/// The last component of a path, for titles.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// Values, each with the number of kernels that have it; the number is left out if all of them do. The remaining kernels are unknown.
pub(crate) fn values_of(values: &BTreeMap<String, u64>, kernels: u64) -> String {
    counted(values.iter().map(|(value, kernels)| (value.as_str(), *kernels)), kernels)
}

pub(crate) fn counted<'a>(values: impl Iterator<Item = (&'a str, u64)> + Clone, all: u64) -> String {
    let unknown = all.saturating_sub(values.clone().map(|(_, kernels)| kernels).sum());
    let one = |(value, kernels): (&str, u64)| match kernels == all {
        true => visible(value).into_owned(),
        false => format!("{} ×{}", visible(value), count(kernels)),
    };
    let mut parts: Vec<String> = values.map(one).collect();
    match unknown {
        0 => {}
        unknown if unknown < all => parts.push(format!("unknown ×{}", count(unknown))),
        _ => parts.push("unknown".to_owned()),
    }
    parts.join(", ")
}

/// More ranks or ranges of ranks than this are counted.
const LISTED: usize = 8;

/// Ranks as a list: `0-7, 9 and 14`.
pub(crate) fn numbers(ranks: &[u32]) -> String {
    let parts = runs(ranks);
    let text = |(first, last): &(u32, u32)| match last - first {
        0 => vec![first.to_string()],
        1 => vec![first.to_string(), last.to_string()],
        _ => vec![format!("{first}-{last}")],
    };
    let shown: Vec<String> = parts.iter().take(LISTED).flat_map(text).collect();
    if parts.len() > LISTED {
        let rest: u32 = parts[LISTED..].iter().map(|(first, last)| last - first + 1).sum();
        return format!("{} and {rest} more", shown.join(", "));
    }
    match &shown[..] {
        [] => "none".to_owned(),
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        [only, ..] => only.clone(),
    }
}

/// Ranks with their noun: `rank 3`, `ranks 0-7 and 9`.
pub(crate) fn ranks(ranks: &[u32]) -> String {
    format!("{} {}", if ranks.len() == 1 { "rank" } else { "ranks" }, numbers(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_print_in_a_fitting_unit() {
        for (nanos, want) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (139_078_775, "139.1 ms"),
            (-1_500, "-1.50 µs"),
            (999_999_999, "1.00 s"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(duration(Ns(nanos)), want);
        }
    }

    #[test]
    fn words_are_quoted_for_shells() {
        assert_eq!(shell_word("/a/b-c.so:/d"), "/a/b-c.so:/d");
        assert_eq!(shell_word("it's a $HOME"), r"'it'\''s a $HOME'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn control_characters_are_shown_as_escapes() {
        assert_eq!(visible("evil\nAppeared 9 times\u{1b}[31m"), "evil\\nAppeared 9 times\\u{1b}[31m");
        assert!(matches!(visible("naïve …"), Cow::Borrowed(_)));
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!([0, 999, 1_000, 239_093, 1_234_567].map(count), ["0", "999", "1,000", "239,093", "1,234,567"]);
    }

    #[test]
    fn names_are_shortened_from_the_left() {
        assert_eq!(shorten("a/b.py(1): run", 20), "a/b.py(1): run");
        assert_eq!(shorten("a/b.py(1): run", 8), "…1): run");
        assert_eq!(
            (shorten_middle("abcdefgh", 8), shorten_middle("abcdefghi", 8)),
            ("abcdefgh".into(), "abcd…ghi".into())
        );
    }

    #[test]
    fn numbers_and_values_read_well() {
        assert_eq!(grouped(1_234_567.25, 1), "1,234,567.2");
        assert_eq!(grouped(999.96, 1), "1,000.0");
        assert_eq!((grouped(0.0, 0), percent(0.1234)), ("0".to_owned(), "12.3 %".to_owned()));
        let some = |pairs: &[(&str, u64)]| pairs.iter().map(|(value, n)| ((*value).to_owned(), *n)).collect();
        assert_eq!(values_of(&some(&[("a", 3)]), 3), "a");
        assert_eq!(values_of(&some(&[("a", 2), ("b", 1)]), 5), "a ×2, b ×1, unknown ×2");
        assert_eq!(values_of(&some(&[]), 5), "unknown");
    }

    #[test]
    fn ranks_are_listed_as_ranges() {
        assert_eq!(numbers(&[0, 1, 2, 3, 9, 14, 15]), "0-3, 9, 14 and 15");
        assert_eq!(
            (ranks(&[7]), ranks(&[7, 9]), ranks(&[])),
            ("rank 7".into(), "ranks 7 and 9".into(), "ranks none".into())
        );
        let many: Vec<u32> = (0..40).step_by(2).collect();
        assert_eq!(numbers(&many), "0, 2, 4, 6, 8, 10, 12, 14 and 12 more");
    }
}
