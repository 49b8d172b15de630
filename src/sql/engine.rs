//! The read-only virtual table over the store's columns; every [`Table`] of the schema is an instance of it.
//!
//! SQLite asks `best_index` which of a query's conditions the table can serve. There are three plans: equality on a column whose [`Lookup`] allows
//! it (through an index built on first use), a range on a sorted column, and a scan. SQLite still checks every condition on each row (`omit` stays
//! false), so a plan may return a superset, and SQLite's rules for comparing `5`, `'5'` and `5.0` need not be repeated here.
//!
//! A panic that leaves one of these callbacks aborts the process, because SQLite's C code cannot unwind. Nothing in them should panic; if
//! something does, [`guarded`] turns it into an error of the query.

use std::borrow::Cow;
use std::ffi::{CStr, CString, c_int};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rusqlite::types::ValueRef;
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp as Op, IndexInfo, Module, VTab, VTabConnection, VTabCursor, sqlite3_vtab,
    sqlite3_vtab_cursor,
};
use rusqlite::{Connection, Result};

use super::index::Postings;
use super::source::Source;
use super::table::{Cell, Lookup, Table};
use crate::store::strings::StringId;

/// Registers a table with a connection. Fails if SQLite does.
pub(super) fn register(connection: &Connection, source: &Arc<Source>, table: &'static Table) -> Result<()> {
    register_if(connection, source, table, |_| None)
}

/// The same for a table that cannot always be read: `refusal` returns the reason.
pub(super) fn register_if(
    connection: &Connection,
    source: &Arc<Source>,
    table: &'static Table,
    refusal: fn(&Source) -> Option<&str>,
) -> Result<()> {
    const MODULE: &Module<'_, StoreTable> = &Module::eponymous_only_module();
    let indexes = table.columns.iter().map(|_| OnceLock::new()).collect();
    let shared = Shared { source: Arc::clone(source), table, indexes, refusal };
    connection.create_module(table.name, MODULE, Some(Arc::new(shared)))
}

/// The state that a table and all its cursors share.
pub(super) struct Shared {
    source: Arc<Source>,
    table: &'static Table,
    indexes: Vec<OnceLock<Postings>>,
    refusal: fn(&Source) -> Option<&str>,
}

impl Shared {
    fn rows(&self) -> usize {
        (self.table.rows)(&self.source)
    }

    /// The index of a column, built on first use.
    fn index(&self, column: usize) -> Option<&Postings> {
        let definition = self.table.columns.get(column)?;
        let build = || {
            let value = |row| match definition.lookup {
                Lookup::Text(id) => {
                    Some(id(&self.source, row)).filter(|id| *id != StringId::NULL).map(|id| i64::from(id.0))
                }
                _ => match (definition.cell)(&self.source, row) {
                    Cell::Int(value) => Some(value),
                    _ => None,
                },
            };
            match definition.lookup {
                Lookup::IntegerIn(rows) => Postings::build(rows(&self.source).iter().map(|slice| slice.0), value),
                _ => Postings::build(0..self.rows() as u32, value),
            }
        };
        Some(self.indexes.get(column)?.get_or_init(build))
    }

    /// The value of a sorted column in a row.
    fn int(&self, column: usize, row: usize) -> i64 {
        match self.table.columns.get(column).map(|c| (c.cell)(&self.source, row)) {
            Some(Cell::Int(value)) => value,
            _ => i64::MIN,
        }
    }

    /// The first row of a sorted column for which `is_past` holds.
    fn partition(&self, column: usize, is_past: impl Fn(i64) -> bool) -> usize {
        let (mut low, mut high) = (0, self.rows());
        while low < high {
            let middle = low + (high - low) / 2;
            if is_past(self.int(column, middle)) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }
}

/// Runs a callback's body and turns a panic into an error, see the top of this file. Inconsistent state is dropped with the query.
pub(super) fn guarded<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or_else(|_| {
        Err(rusqlite::Error::ModuleError("internal error while reading the trace's tables".to_owned()))
    })
}

/// A table as SQLite sees it.
#[repr(C)]
pub(super) struct StoreTable {
    base: sqlite3_vtab,
    shared: Arc<Shared>,
}

/// `idx_num`, the number of a plan: the column in the low bits, the kind of search above.
const COLUMN_BITS: u32 = 8;
const SCAN: c_int = 0;
const EQUAL: c_int = 1;
const RANGE: c_int = 2;

// SAFETY: `repr(C)` with the base first, as the trait demands.
unsafe impl<'vtab> VTab<'vtab> for StoreTable {
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
        let shared = aux.ok_or_else(|| rusqlite::Error::ModuleError("table without a store".to_owned()))?;
        let declaration =
            CString::new(shared.table.declaration()).map_err(|e| rusqlite::Error::ModuleError(e.to_string()))?;
        Ok((Cow::Owned(declaration), StoreTable { base: sqlite3_vtab::default(), shared: Arc::clone(shared) }))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let plan = guarded(|| self.plan(info))?;
        let mut argument = 0;
        for at in &plan.constraints {
            argument += 1;
            info.constraint_usage(*at).set_argv_index(argument);
        }
        info.set_idx_num((plan.search << COLUMN_BITS) | plan.column as c_int);
        info.set_idx_str(&plan.operators);
        info.set_estimated_rows(plan.rows as i64);
        info.set_estimated_cost(plan.cost);
        // Every search returns rows in row order, which is the order of values in these columns.
        let ordered = info.num_of_order_by() == 1
            && info.order_bys().all(|by| !by.is_order_by_desc() && self.is_in_row_order(by.column()));
        info.set_order_by_consumed(ordered);
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Cursor> {
        Ok(Cursor { base: sqlite3_vtab_cursor::default(), shared: Arc::clone(&self.shared), found: Hits::Rows(0..0) })
    }
}

struct Plan {
    search: c_int,
    column: usize,
    constraints: Vec<usize>,
    /// The operators, one letter per constraint.
    operators: String,
    rows: f64,
    cost: f64,
}

impl StoreTable {
    fn is_in_row_order(&self, column: c_int) -> bool {
        match usize::try_from(column) {
            Err(_) => true,
            Ok(column) => {
                matches!(self.shared.table.columns.get(column).map(|c| &c.lookup), Some(Lookup::Row | Lookup::Sorted))
            }
        }
    }

    /// The column of a constraint. SQLite's rowid, -1, means the column with the row number, if there is one.
    fn column_for(&self, column: c_int) -> Option<usize> {
        let shows_row = matches!(self.shared.table.columns.first()?.lookup, Lookup::Row);
        usize::try_from(column).ok().or(shows_row.then_some(0))
    }

    fn plan(&self, info: &IndexInfo) -> Result<Plan> {
        let total = (self.shared.rows() as f64).max(1.0);
        let scan = Plan {
            search: SCAN,
            column: 0,
            constraints: vec![],
            operators: String::new(),
            rows: total,
            cost: total * 2.0,
        };
        let mut best = scan;
        for (at, constraint) in info.constraints().enumerate() {
            let Some(column) = self.column_for(constraint.column()) else { continue };
            let Some(definition) = self.shared.table.columns.get(column) else { continue };
            if !constraint.is_usable() {
                continue;
            }
            // For IN over a subquery SQLite would call the search once per value and compare each row by other rules than IN's: rows with the text
            // '5' would match both 5 and '5'.
            if matches!(definition.lookup, Lookup::Text(_)) && info.is_in_constraint(at)? {
                continue;
            }
            let rows = match (constraint.operator(), &definition.lookup) {
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Lookup::Row) => 1.0,
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Lookup::Sorted) => 2.0,
                // Virtual tables have no statistics. This is a guess between "nearly unique" and "a few names for all".
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Lookup::Integer | Lookup::IntegerIn(_)) => total.sqrt().min(25.0),
                // With a lower estimate SQLite would search by track before searching by name or thread.
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Lookup::FewValues(values)) => {
                    total / (values(&self.shared.source).max(1) as f64)
                }
                (Op::SQLITE_INDEX_CONSTRAINT_EQ, Lookup::Text(_)) if info.collation(at)? == "BINARY" => total.sqrt(),
                _ => continue,
            };
            let cost = rows + 4.0;
            if cost < best.cost {
                best = Plan { search: EQUAL, column, constraints: vec![at], operators: "=".to_owned(), rows, cost };
            }
        }
        if best.search == SCAN {
            best = self.range_plan(info, total).unwrap_or(best);
        }
        Ok(best)
    }

    fn range_plan(&self, info: &IndexInfo, total: f64) -> Option<Plan> {
        let sorted = |column: c_int| self.is_in_row_order(column).then(|| self.column_for(column)).flatten();
        let column = info
            .constraints()
            .filter(|c| c.is_usable() && is_range(c.operator()).is_some())
            .find_map(|c| sorted(c.column()))?;
        let mut plan =
            Plan { search: RANGE, column, constraints: vec![], operators: String::new(), rows: total, cost: total };
        for (at, constraint) in info.constraints().enumerate() {
            if let (true, Some(sign)) = (constraint.is_usable(), is_range(constraint.operator()))
                && sorted(constraint.column()) == Some(column)
            {
                plan.constraints.push(at);
                plan.operators.push(sign);
                plan.rows = (plan.rows / 4.0).max(1.0);
            }
        }
        plan.cost = plan.rows * 2.0;
        Some(plan)
    }
}

/// The letter of a range operator in [`Plan::operators`].
fn is_range(operator: Op) -> Option<char> {
    match operator {
        Op::SQLITE_INDEX_CONSTRAINT_GT => Some('>'),
        Op::SQLITE_INDEX_CONSTRAINT_GE => Some('g'),
        Op::SQLITE_INDEX_CONSTRAINT_LT => Some('<'),
        Op::SQLITE_INDEX_CONSTRAINT_LE => Some('l'),
        _ => None,
    }
}

/// The rows that a cursor iterates over.
enum Hits {
    Rows(Range<usize>),
    /// The rows at these positions of a column's index.
    Indexed {
        column: usize,
        positions: Range<usize>,
    },
}

/// A cursor: the position of a query in a table.
#[repr(C)]
pub(super) struct Cursor {
    base: sqlite3_vtab_cursor,
    shared: Arc<Shared>,
    found: Hits,
}

impl Cursor {
    fn row(&self) -> usize {
        match &self.found {
            Hits::Rows(rows) => rows.start,
            Hits::Indexed { column, positions } => {
                self.shared.index(*column).map_or(usize::MAX, |index| index.row(positions.start) as usize)
            }
        }
    }

    /// The rows in which a column may equal a value, by SQLite's rules.
    fn equal(&self, column: usize, value: ValueRef<'_>) -> Hits {
        let all = Hits::Rows(0..self.shared.rows());
        let Some(definition) = self.shared.table.columns.get(column) else { return all };
        let wanted = match (&definition.lookup, value) {
            (_, ValueRef::Null) => return Hits::Rows(0..0),
            (Lookup::Text(_), ValueRef::Text(text)) => {
                match std::str::from_utf8(text).ok().and_then(|text| self.shared.source.strings.find(text)) {
                    Some(id) => i64::from(id.0),
                    None => return Hits::Rows(0..0),
                }
            }
            (
                Lookup::Row | Lookup::Sorted | Lookup::Integer | Lookup::FewValues(_) | Lookup::IntegerIn(_),
                ValueRef::Integer(value),
            ) => value,
            // Comparing a number with text is rare, so SQLite scans all rows.
            _ => return all,
        };
        match definition.lookup {
            Lookup::Row => match usize::try_from(wanted) {
                Ok(row) if row < self.shared.rows() => Hits::Rows(row..row + 1),
                _ => Hits::Rows(0..0),
            },
            Lookup::Sorted => Hits::Rows(
                self.shared.partition(column, |v| v >= wanted)..self.shared.partition(column, |v| v > wanted),
            ),
            _ => {
                Hits::Indexed { column, positions: self.shared.index(column).map_or(0..0, |index| index.find(wanted)) }
            }
        }
    }

    /// The rows of a sorted column within all given bounds.
    fn range(&self, column: usize, operators: &str, args: &Filters<'_>) -> Hits {
        let (mut start, mut end) = (0, self.shared.rows());
        for (operator, value) in operators.chars().zip(args.iter()) {
            let bound = match value {
                ValueRef::Integer(value) => value,
                ValueRef::Null => return Hits::Rows(0..0),
                _ => continue,
            };
            match operator {
                '>' => start = start.max(self.shared.partition(column, |v| v > bound)),
                'g' => start = start.max(self.shared.partition(column, |v| v >= bound)),
                '<' => end = end.min(self.shared.partition(column, |v| v >= bound)),
                _ => end = end.min(self.shared.partition(column, |v| v > bound)),
            }
        }
        Hits::Rows(start..end.max(start))
    }
}

// SAFETY: `repr(C)` with the base first, as the trait demands.
unsafe impl VTabCursor for Cursor {
    fn filter(&mut self, idx_num: c_int, idx_str: Option<&str>, args: &Filters<'_>) -> Result<()> {
        let column = (idx_num & ((1 << COLUMN_BITS) - 1)) as usize;
        self.found = guarded(|| {
            if let Some(reason) = (self.shared.refusal)(&self.shared.source) {
                let table = self.shared.table.name();
                return Err(rusqlite::Error::ModuleError(format!("{table} cannot be read: {reason}")));
            }
            Ok(match (idx_num >> COLUMN_BITS, args.iter().next()) {
                (EQUAL, Some(value)) => self.equal(column, value),
                (RANGE, Some(_)) => self.range(column, idx_str.unwrap_or_default(), args),
                _ => Hits::Rows(0..self.shared.rows()),
            })
        })?;
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        match &mut self.found {
            Hits::Rows(range) | Hits::Indexed { positions: range, .. } => range.start = range.start.saturating_add(1),
        }
        Ok(())
    }

    fn eof(&self) -> bool {
        match &self.found {
            Hits::Rows(range) | Hits::Indexed { positions: range, .. } => range.is_empty(),
        }
    }

    fn column(&self, context: &mut Context, i: c_int) -> Result<()> {
        let row = self.row();
        let definition = usize::try_from(i).ok().and_then(|i| self.shared.table.columns.get(i));
        let in_table = row < self.shared.rows();
        let cell =
            guarded(|| Ok(definition.filter(|_| in_table).map_or(Cell::Null, |c| (c.cell)(&self.shared.source, row))))?;
        cell.set_result(context)
    }

    fn rowid(&self) -> Result<i64> {
        Ok(self.row() as i64)
    }
}
