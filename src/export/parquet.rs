//! The tables as Parquet files, one each, for data frames and other columnar readers.
//!
//! The store and Parquet both hold columns, so each column is written directly, without SQLite in between. A file has row groups of about a
//! million rows, written one after the other, so that memory holds only part of one column.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use crate::sql::source::Source;
use crate::sql::{Cell, Column, TABLES, Table};

/// The number of rows in a group.
const GROUP: usize = 1 << 20;

/// The number of rows written at a time.
const BATCH: usize = 1 << 14;

/// The limit of a dictionary in bytes: more than the names of a million slices take.
const DICTIONARY: usize = 16 << 20;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Real,
    /// Text, and columns with values of several types, each written as text.
    Text,
}

impl Kind {
    fn for_column(column: &Column) -> Kind {
        match column.sql_type {
            "INTEGER" => Kind::Int,
            "REAL" => Kind::Real,
            _ => Kind::Text,
        }
    }
}

/// Writes `<table>.parquet` for every table into a folder. Returns the total size in bytes.
pub fn write(source: &Source, folder: &Path) -> Result<u64> {
    let mut size = 0;
    for table in TABLES {
        let file = File::create_new(folder.join(format!("{}.parquet", table.name())))?;
        write_table(source, table, file.try_clone()?)?;
        size += file.metadata()?.len();
    }
    Ok(size)
}

fn write_table(source: &Source, table: &Table, file: File) -> Result<()> {
    let rows = (table.rows)(source);
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema(table)?), Arc::new(properties(table)?))?;
    for start in (0..rows).step_by(GROUP) {
        let mut group = writer.next_row_group()?;
        for column in table.columns {
            let Some(mut out) = group.next_column()? else { break };
            for at in (start..rows.min(start + GROUP)).step_by(BATCH) {
                write_batch(source, column, at..rows.min(start + GROUP).min(at + BATCH), &mut out)?;
            }
            out.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

/// The table's columns, all nullable.
fn schema(table: &Table) -> Result<Type> {
    let field = |column: &Column| {
        let (physical, logical) = match Kind::for_column(column) {
            Kind::Int => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = table.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    Type::group_type_builder(table.name()).with_fields(fields).build()
}

/// Texts use a dictionary, and so do numbers while it is small; otherwise numbers are delta-encoded, which keeps times small.
fn properties(table: &Table) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(3)?;
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("nccl-stacks version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(level));
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        properties = match Kind::for_column(column) {
            Kind::Int => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Kind::Real => properties,
            Kind::Text => properties.set_column_dictionary_page_size_limit(path, DICTIONARY),
        };
    }
    Ok(properties.build())
}

fn write_batch(
    source: &Source,
    column: &Column,
    rows: Range<usize>,
    out: &mut SerializedColumnWriter<'_>,
) -> Result<()> {
    let cells = rows.map(|row| (column.cell)(source, row));
    match Kind::for_column(column) {
        Kind::Int => write_values::<Int64Type>(out, cells, |cell| if let Cell::Int(v) = cell { Some(v) } else { None }),
        Kind::Real => {
            write_values::<DoubleType>(out, cells, |cell| if let Cell::Real(v) = cell { Some(v) } else { None })
        }
        Kind::Text => write_values::<ByteArrayType>(out, cells, |cell| text(cell).map(ByteArray::from)),
    }
}

fn text(cell: Cell<'_>) -> Option<Vec<u8>> {
    match cell {
        Cell::Null => None,
        Cell::Int(value) => Some(value.to_string().into_bytes()),
        Cell::Real(value) => Some(format!("{value:?}").into_bytes()),
        Cell::Text(text) => Some(text.as_bytes().to_vec()),
        Cell::Owned(text) => Some(text.into_bytes()),
    }
}

fn write_values<'a, T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Cell<'a>>,
    value: impl Fn(Cell<'a>) -> Option<T::T>,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for cell in cells {
        let value = value(cell);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    out.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}
