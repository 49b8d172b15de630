//! The project's queries, one file each in `queries/`, embedded at compile time. No other module contains SQL text.
//!
//! Queries with titles for their columns are questions for people: `nccl-stacks sql TRACE --query NAME` asks them. The program itself asks the others.

use std::borrow::Cow;

use rusqlite::types::Value;

use super::header::Header;

/// A query and the name of its file.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// `queries/<name>.sql`
    pub name: &'static str,
    pub sql: &'static str,
}

macro_rules! queries {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: Query =
            Query { name: $name, sql: include_str!(concat!("../../queries/", $name, ".sql")) };)*
        pub const ALL: &[Query] = &[$($constant),*];
    };
}

queries! {
    /// The main question: stacks of collective kernels with their counts and costs.
    STACKS = "stacks";
    /// Kernels by name, with the columns of nsys.
    KERNELS = "kernels";
    CRITICAL_PATH = "critical_path";
    /// The backward pass of each module, beside the forward pass.
    PAIRS = "pairs";
    /// The memory of each device: totals, peaks, contradictions.
    MEMORY = "memory";
    /// The call paths that hold the memory at the peak.
    MEMORY_STACKS = "memory_stacks";
    MEMORY_STEPS = "memory_steps";
    /// Values of memory events that do not fit their keys.
    MEMORY_MALFORMED = "memory_malformed";
    /// The operators: how many, with which arguments, and the GPU time below them.
    OPERATORS = "operators";
    OPERATOR_SHAPES = "operator_shapes";
    /// Inputs that are not contiguous.
    OPERATOR_LAYOUTS = "operator_layouts";
    /// Scalars that differ between calls from one stack.
    OPERATOR_VALUES = "operator_values";
    /// Hardware counters by operator and by module.
    OPERATOR_COUNTERS = "operator_counters";
    /// Values of operators that do not fit their keys.
    OPERATOR_MALFORMED = "operator_malformed";
    /// The CPU slices with given names.
    FUNCTION_SLICES = "function_slices";
    /// The distinct names of CPU slices.
    CPU_NAMES = "cpu_names";
    ANNOTATION_NAMES = "annotation_names";
    /// The span and number of all kernels.
    KERNEL_SPAN = "kernel_span";
    /// The calls in a window that launch a graph, counted by name.
    GRAPH_LAUNCHES = "graph_launches";
    /// The columns of all tables and views.
    TABLE_COLUMNS = "table_columns";
    /// The functions that a query can call.
    SQL_FUNCTIONS = "sql_functions";
}

/// A query that is asked by its name, with its header.
#[derive(Debug, Clone)]
pub struct NamedQuery {
    /// The name, or the path of a user's file.
    pub name: String,
    pub sql: Cow<'static, str>,
    /// What its comments say about it.
    pub header: Header,
}

/// The project's queries for people, in the order of the list.
pub fn named() -> impl Iterator<Item = NamedQuery> {
    let parsed = ALL.iter().filter_map(|query| NamedQuery::new(query.name.to_owned(), query.sql.into()).ok());
    parsed.filter(|query| !query.header.columns.is_empty())
}

/// What the options for a window fill.
const OF_WINDOW: [&str; 3] = ["start", "end", "window_on"];

impl NamedQuery {
    /// Reads the header of a query.
    /// Errors: a sentence, if the header has not its form.
    pub fn new(name: String, sql: Cow<'static, str>) -> Result<Self, String> {
        let header = Header::parse(&sql).map_err(|why| format!("{name}: {why}"))?;
        Ok(NamedQuery { name, sql, header })
    }

    /// Whether its text has a parameter.
    pub fn has(&self, param: &str) -> bool {
        let named = |(at, _): (usize, &str)| {
            let before = self.sql[..at].chars().next_back();
            let after = self.sql[at + 1..].strip_prefix(param).map(|rest| rest.chars().next());
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            before.is_none_or(|c| !is_word(c) && c != ':') && after.is_some_and(|next| !next.is_some_and(is_word))
        };
        self.sql.match_indices(':').any(named)
    }

    /// Whether it asks about a window.
    pub fn takes_window(&self) -> bool {
        OF_WINDOW.iter().any(|param| self.has(param))
    }

    /// The values of its parameters, by name, except those of the window. `given` are names and texts. Those of a query without a header are numbers if they
    /// look like numbers.
    /// Errors: a sentence, if a value has not its type, or lacks.
    pub fn values(&self, given: &[(String, String)]) -> Result<Vec<(String, Value)>, String> {
        let texts = |name: &str| -> Vec<&str> {
            given.iter().filter(|(known, _)| known == name).map(|(_, text)| text.as_str()).collect()
        };
        let declared = self.header.params.iter().filter(|param| !param.is_of_window());
        let declared = declared.map(|param| Ok((param.name.clone(), param.value(&texts(&param.name))?)));
        let is_declared = |name: &str| self.header.params.iter().any(|param| param.name == name);
        let others = given.iter().filter(|(name, _)| !is_declared(name) && self.has(name));
        let number = |text: &str| text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Real));
        let others =
            others.map(|(name, text)| Ok((name.clone(), number(text).unwrap_or_else(|_| Value::Text(text.clone())))));
        declared.chain(others).collect()
    }

    /// Whether a name can be given a value.
    pub fn takes(&self, name: &str) -> bool {
        self.has(name) && !OF_WINDOW.contains(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A query for people whose header is not read would be missing from the list.
    #[test]
    fn headers_are_read() {
        for query in ALL.iter().filter(|query| query.sql.contains("\n-- column ")) {
            let titled = NamedQuery::new(query.name.to_owned(), query.sql.into()).unwrap().header.columns;
            assert!(!titled.is_empty(), "{}", query.name);
        }
    }
}
