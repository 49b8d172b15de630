//! The forms of answers, each with its word on the command line.

/// A form of an answer. No answer has all of them: see [`Answer::forms`](super::answer::Answer::forms).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people: what to know first, then everything in turn.
    Text,
    /// For people: what to know first, then tables.
    Table,
    /// For programs that read the output of `get_call_stacks.py`.
    Script,
    /// For programs: everything, described by a schema.
    Json,
    /// For spreadsheets: the rows of one table.
    Csv,
    /// For flame graph tools: one line for each stack.
    Folded,
    Speedscope,
    /// A flame graph as an SVG image.
    #[cfg(feature = "flamegraph")]
    Svg,
    /// For trace viewers: all ranks side by side on one clock.
    Perfetto,
    /// A page for a browser, in one file.
    Html,
}

const WORDS: &[(Form, &str)] = &[
    (Form::Text, "text"),
    (Form::Table, "table"),
    (Form::Script, "script"),
    (Form::Json, "json"),
    (Form::Csv, "csv"),
    (Form::Folded, "folded"),
    (Form::Speedscope, "speedscope"),
    #[cfg(feature = "flamegraph")]
    (Form::Svg, "svg"),
    (Form::Perfetto, "perfetto"),
    (Form::Html, "html"),
];

/// Endings of names that say which form a file has. A longer one is before those that it ends with.
const ENDINGS: &[(&str, &[Form])] = &[
    (".speedscope.json", &[Form::Speedscope]),
    (".json", &[Form::Json, Form::Speedscope, Form::Perfetto]),
    // Only traces are compressed.
    (".json.gz", &[Form::Perfetto]),
    (".csv", &[Form::Csv]),
    (".folded", &[Form::Folded]),
    #[cfg(feature = "flamegraph")]
    (".svg", &[Form::Svg]),
    (".html", &[Form::Html]),
    (".htm", &[Form::Html]),
];

impl Form {
    /// The forms that every answer has: they need no more than its document and its data.
    pub(crate) const OF_ALL: &'static [Form] = &[Form::Text, Form::Json];

    /// Its word on the command line.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(form, _)| *form == self).map_or("", |(_, word)| word)
    }

    pub fn parse(word: &str) -> Option<Self> {
        WORDS.iter().find(|(_, known)| *known == word).map(|(form, _)| *form)
    }

    /// The forms that a file of this name can have by its ending, the likeliest first; `None` of a name that says nothing, such as `answer.txt`.
    pub fn of_file(name: &str) -> Option<&'static [Self]> {
        let name = name.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, forms)| *forms)
    }

    /// Whether the form is for people, with the verdict first.
    pub fn is_for_people(self) -> bool {
        matches!(self, Form::Text | Form::Table)
    }
}
