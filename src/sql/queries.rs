//! The project's queries, one file each in `queries/`, embedded at compile time. No other module contains SQL text.

/// A query and the name of its file.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// `queries/<name>.sql`
    pub name: &'static str,
    /// Its text.
    pub sql: &'static str,
}

macro_rules! queries {
    ($($(#[$doc:meta])* $constant:ident = $name:literal;)*) => {
        $($(#[$doc])* pub const $constant: Query =
            Query { name: $name, sql: include_str!(concat!("../../queries/", $name, ".sql")) };)*
        /// All queries.
        pub const ALL: &[Query] = &[$($constant),*];
    };
}

queries! {
    /// The main question: stacks of collective kernels with their counts and costs.
    STACKS = "stacks";
    /// The CPU slices with given names.
    FUNCTION_SLICES = "function_slices";
    /// The distinct names of CPU slices.
    CPU_NAMES = "cpu_names";
    /// The names of user annotations.
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
