//! The queries, one file each in `queries/`, embedded when the program is built.

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
        /// All of them.
        pub const ALL: &[Query] = &[$($constant),*];
    };
}

queries! {
    /// The main answer: stacks of NCCL kernels with their counts and costs.
    STACKS = "stacks";
    /// Names that a pattern finds.
    FUNCTION_NAMES = "function_names";
    /// The CPU slices of some names.
    FUNCTION_SLICES = "function_slices";
    /// The distinct names of CPU slices.
    CPU_NAMES = "cpu_names";
    /// The names of user annotations.
    ANNOTATION_NAMES = "annotation_names";
    /// Kernels in a window by name.
    KERNELS_IN_WINDOW = "kernels_in_window";
    /// The span in which there are kernels.
    KERNEL_SPAN = "kernel_span";
    /// Calls in a window that launch a graph.
    GRAPH_LAUNCHES = "graph_launches";
    /// The span of all slices.
    TRACE_SPAN = "trace_span";
    /// The columns of all tables and views.
    TABLE_COLUMNS = "table_columns";
    /// The functions of SQL.
    SQL_FUNCTIONS = "sql_functions";
}
