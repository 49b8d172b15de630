//! Table-valued functions of a slice id (`ancestor_slice(id)` …), as read-only virtual tables.
//!
//! SQLite passes the argument as a condition on a hidden column. In a join whose other side has the id, it may try a plan in which that condition
//! is not usable yet; such a plan is refused, so that SQLite calls the function once per row of the other side. A query without any argument fails
//! with an error that shows how to pass one.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Error, Result};

use super::engine::guarded;
use super::relations::{Direction, Relations};
use super::source::Source;
use super::table::{Cell, Column};
use super::tables::{FLOW, SLICE};
use crate::id::SliceId;

enum Rows {
    /// Slices by id, with the columns of Perfetto's `slice` except aliases.
    Slices(fn(&Relations, SliceId) -> Vec<SliceId>),
    /// Flows; their `id` is the row number, as in Perfetto.
    Flows(Direction),
}

/// A table-valued function.
pub(super) struct Function {
    pub(super) name: &'static CStr,
    rows: Rows,
    /// The estimated number of rows, for SQLite's planner.
    expected: i64,
}

/// All table-valued functions.
pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: c"ancestor_slice", rows: Rows::Slices(Relations::ancestors), expected: 16 },
    Function { name: c"descendant_slice", rows: Rows::Slices(Relations::descendants), expected: 64 },
    Function { name: c"directly_connected_flow", rows: Rows::Flows(Direction::Direct), expected: 8 },
    Function { name: c"following_flow", rows: Rows::Flows(Direction::Following), expected: 32 },
    Function { name: c"preceding_flow", rows: Rows::Flows(Direction::Preceding), expected: 8 },
];

/// The hidden column that takes the argument.
const ARGUMENT: &str = "start_id";

impl Function {
    fn columns(&self) -> Vec<&'static Column> {
        match self.rows {
            Rows::Slices(_) => SLICE.columns.iter().take_while(|column| column.name != "cat").collect(),
            Rows::Flows(_) => FLOW.columns.iter().collect(),
        }
    }

    /// The rows of the table in [`Rows`] for a slice.
    fn rows_for(&self, relations: &Relations, slice: SliceId) -> Vec<u32> {
        match self.rows {
            Rows::Slices(walk) => walk(relations, slice).into_iter().map(|slice| slice.0).collect(),
            Rows::Flows(direction) => relations.flows(slice, direction),
        }
    }
}

/// Registers the functions with a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection, source: &Arc<Source>) -> Result<()> {
    const MODULE: &Module<'_, FunctionTable> = &Module::eponymous_only_module();
    let relations = Arc::new(Relations::new(Arc::clone(source)));
    for function in FUNCTIONS {
        let shared = Shared { relations: Arc::clone(&relations), function, columns: function.columns() };
        connection.create_module(function.name, MODULE, Some(Arc::new(shared)))?;
    }
    Ok(())
}

/// The state that a function and all its cursors share.
pub(super) struct Shared {
    relations: Arc<Relations>,
    function: &'static Function,
    columns: Vec<&'static Column>,
}

impl Shared {
    fn failed(&self, message: &str) -> Error {
        Error::ModuleError(format!("{}: {message}", self.function.name.to_string_lossy()))
    }

    /// The rows for an argument; none for NULL. Fails if there is no such slice.
    fn rows(&self, argument: ValueRef<'_>) -> Result<Vec<u32>> {
        let id = match argument {
            ValueRef::Null => return Ok(Vec::new()),
            ValueRef::Integer(id) => id,
            _ => return Err(self.failed("a slice's id must be an integer")),
        };
        match u32::try_from(id) {
            Ok(slice) if (slice as usize) < self.relations.source.slices.len() => {
                Ok(self.function.rows_for(&self.relations, SliceId(slice)))
            }
            _ => Err(self.failed(&format!("there is no slice with id {id}"))),
        }
    }
}

/// A function as SQLite sees it.
#[repr(C)]
pub(super) struct FunctionTable {
    base: sqlite3_vtab,
    shared: Arc<Shared>,
}

/// Plans, in `idx_num`.
const WITHOUT_ARGUMENT: c_int = 0;
const WITH_ARGUMENT: c_int = 1;

// SAFETY: `repr(C)` with the base first, as the trait demands.
unsafe impl<'vtab> VTab<'vtab> for FunctionTable {
    type Aux = Arc<Shared>;
    type Cursor = Cursor;

    fn connect(
        _: &mut VTabConnection,
        aux: Option<&Self::Aux>,
        _: &[u8],
        _: &[u8],
        _: &[u8],
        _: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let shared = aux.ok_or_else(|| Error::ModuleError("table function without a store".to_owned()))?;
        // All names and types are constants of this program.
        let columns: Vec<String> = shared.columns.iter().map(|c| format!("\"{}\" {}", c.name, c.sql_type)).collect();
        let declaration = format!("CREATE TABLE t({}, {ARGUMENT} HIDDEN)", columns.join(", "));
        let declaration = CString::new(declaration).map_err(|e| Error::ModuleError(e.to_string()))?;
        Ok((Cow::Owned(declaration), FunctionTable { base: sqlite3_vtab::default(), shared: Arc::clone(shared) }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let argument = self.shared.columns.len() as c_int;
        let (mut usable, mut later) = (None, false);
        for (at, constraint) in info.constraints().enumerate() {
            if constraint.column() == argument && constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ
            {
                if constraint.is_usable() {
                    usable = usable.or(Some(at));
                } else {
                    later = true;
                }
            }
        }
        let Some(at) = usable else {
            info.set_idx_num(WITHOUT_ARGUMENT);
            return Ok(!later);
        };
        let mut usage = info.constraint_usage(at);
        usage.set_argv_index(1);
        usage.set_omit(true);
        info.set_idx_num(WITH_ARGUMENT);
        info.set_estimated_rows(self.shared.function.expected);
        info.set_estimated_cost(self.shared.function.expected as f64 * 2.0);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor> {
        let base = sqlite3_vtab_cursor::default();
        Ok(Cursor { base, shared: Arc::clone(&self.shared), start: None, rows: Vec::new(), at: 0 })
    }
}

/// A cursor: the position of a query in the rows of one call.
#[repr(C)]
pub(super) struct Cursor {
    base: sqlite3_vtab_cursor,
    shared: Arc<Shared>,
    start: Option<i64>,
    rows: Vec<u32>,
    at: usize,
}

// SAFETY: `repr(C)` with the base first, as the trait demands.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, idx_num: c_int, _: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let Some(argument) = args.iter().next().filter(|_| idx_num == WITH_ARGUMENT) else {
            let name = self.shared.function.name.to_string_lossy();
            return Err(self.shared.failed(&format!("this function needs a slice's id as argument, as in {name}(5)")));
        };
        self.start = if let ValueRef::Integer(id) = argument { Some(id) } else { None };
        self.rows = guarded(|| self.shared.rows(argument))?;
        self.at = 0;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.at.saturating_add(1);
        Ok(())
    }

    fn eof(&self) -> bool {
        self.at >= self.rows.len()
    }

    fn column(&self, context: &mut Context, i: c_int) -> Result<()> {
        let definition = usize::try_from(i).ok().and_then(|i| self.shared.columns.get(i));
        let numbered = i == 0 && matches!(self.shared.function.rows, Rows::Flows(_));
        let cell = guarded(|| {
            Ok(match (definition, self.rows.get(self.at)) {
                (None, _) => self.start.into(),
                (Some(_), Some(_)) if numbered => Cell::Int(self.at as i64),
                (Some(column), Some(row)) => (column.cell)(&self.shared.relations.source, *row as usize),
                (Some(_), None) => Cell::Null,
            })
        })?;
        cell.set_result(context)
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.at as i64)
    }
}
