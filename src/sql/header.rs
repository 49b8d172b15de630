//! The header of a named query: its first comments, which say what it answers, in a form that the program reads.
//!
//! ```sql
//! -- What the query answers, in a sentence.
//! -- Row: what one row is.
//! -- Order: the order of the rows.
//! -- Nothing: what it means that there is no row.
//! -- Reads: collectives, operators or memory, if it needs no other arguments of events.
//! -- :name  type  default  what the parameter is for
//! -- column name  "title"  unit
//! ```
//!
//! Two or more blanks separate fields. Any other line continues the text before it, or is a note if it follows parameters or columns. A type is a word of [`TYPES`]; a default is a value, `none` for NULL,
//! or `required`. `:start`, `:end` and `:window_on` have the type `window`: the options for a window fill them.

use rusqlite::types::Value;

use crate::event::ArgsWanted;
use crate::time::parse_nanos;

/// What a query says about itself.
#[derive(Debug, Clone, Default)]
pub struct Header {
    pub about: String,
    /// What it means that there is no row; empty if the header does not say so.
    pub nothing: String,
    /// The arguments of events that it needs.
    pub reads: ArgsWanted,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// Its columns, in order.
    pub columns: Vec<TitledColumn>,
}

#[derive(Debug, Clone)]
pub struct Param {
    /// Its name, without the colon.
    pub name: String,
    /// The word for its type.
    kind: &'static str,
    default: String,
    about: String,
}

/// What people read above a column, and the unit of its values.
#[derive(Debug, Clone)]
pub struct TitledColumn {
    /// Its name in SQL.
    pub name: String,
    pub title: String,
    pub unit: String,
}

/// The types of parameters. A `list` is given by repeating the parameter; SQL sees a JSON array. A `time` has a unit, as in `1.5ms`; SQL sees ns.
pub const TYPES: [&str; 6] = ["integer", "number", "text", "list", "time", "window"];

/// What begins a line of text.
const KEYS: [&str; 4] = ["Row", "Order", "Nothing", "Reads"];

/// The default of a parameter that has to be given.
const REQUIRED: &str = "required";

/// The default that is NULL.
const NONE: &str = "none";

impl Header {
    /// Reads the comments at the beginning of a query. A query without such comments has an empty header.
    /// Errors: a sentence about the first line that has not this form.
    pub fn parse(sql: &str) -> Result<Self, String> {
        let mut header = Header::default();
        let (mut reads, mut free) = (String::new(), String::new());
        let mut key = "About";
        for line in sql.lines().map_while(|line| line.strip_prefix("--")).map(str::trim) {
            if let Some(param) = line.strip_prefix(':') {
                header.params.push(Param::parse(param).ok_or_else(|| {
                    format!("{line:?} is not `:name  type  default  what`, with a type of {}", TYPES.join(", "))
                })?);
                key = "Note";
                continue;
            }
            if let Some(column) = line.strip_prefix("column ") {
                let fields = fields(column);
                let [name, title, unit] =
                    fields.ok_or_else(|| format!("{line:?} is not `column name  \"title\"  unit`"))?;
                header.columns.push(TitledColumn { name, title, unit });
                key = "Note";
                continue;
            }
            let begins = |key: &&str| line.strip_prefix(*key).is_some_and(|rest| rest.starts_with(": "));
            let words = KEYS.into_iter().find(begins).map(|begun| {
                key = begun;
                line[begun.len() + 1..].trim()
            });
            let text = match key {
                "About" => &mut header.about,
                "Nothing" => &mut header.nothing,
                "Reads" => &mut reads,
                _ => &mut free,
            };
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(words.unwrap_or(line));
        }
        header.reads = match reads.trim_end_matches('.') {
            "" => ArgsWanted::All,
            "collectives" => ArgsWanted::COLLECTIVES,
            "operators" => ArgsWanted::OPERATORS,
            "memory" => ArgsWanted::MEMORY,
            other => return Err(format!("\"Reads: {other}\" is none of collectives, operators, memory")),
        };
        Ok(header)
    }
}

/// The fields of a line, without quotes around them; `None` if there are fewer or more.
fn fields<const N: usize>(line: &str) -> Option<[String; N]> {
    let fields = line.split("  ").map(str::trim).filter(|field| !field.is_empty());
    fields.map(|field| field.trim_matches('"').to_owned()).collect::<Vec<_>>().try_into().ok()
}

impl Param {
    fn parse(line: &str) -> Option<Self> {
        let [name, kind, default, about] = fields(line)?;
        let kind = TYPES.into_iter().find(|known| *known == kind)?;
        Some(Param { name, kind, default, about })
    }

    /// Whether the options for a window fill it.
    pub fn is_of_window(&self) -> bool {
        self.kind == "window"
    }

    /// Its value, from the texts that a user gave for it, or else its default.
    /// Errors: a sentence, if the texts have not its type, or if there is neither text nor default.
    pub fn value(&self, given: &[&str]) -> Result<Value, String> {
        let Param { name, kind, default, .. } = self;
        let text = match (given, default.as_str()) {
            ([], REQUIRED) => return Err(format!("the parameter {name} has no value")),
            ([], NONE) => return Ok(Value::Null),
            ([], default) => default,
            (texts, _) if *kind == "list" => return Ok(Value::Text(serde_json::json!(texts).to_string())),
            ([text], _) => text,
            _ => return Err(format!("the parameter {name} is given more than once, and is not a list")),
        };
        let wrong = |what: &str| format!("the parameter {name} is {what}, not {text:?}");
        match *kind {
            "integer" => text.parse().map(Value::Integer).map_err(|_| wrong("a whole number")),
            "number" => text.parse().map(Value::Real).map_err(|_| wrong("a number")),
            "time" => parse_nanos(text).map(|time| Value::Integer(time.0)).map_err(|_| wrong("a time, such as 1.5ms")),
            "list" => Ok(Value::Text(serde_json::json!([text]).to_string())),
            _ => Ok(Value::Text(text.to_owned())),
        }
    }

    /// `family  list  Families, as in --family`: a line for people.
    pub fn line(&self) -> String {
        let default = match self.default.as_str() {
            REQUIRED => " (required)".to_owned(),
            NONE => String::new(),
            value => format!(" [default: {value}]"),
        };
        format!("{}  {}  {}{default}", self.name, self.kind, self.about)
    }
}
