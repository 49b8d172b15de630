//! Parts as a Parquet file: the flat table, with the documents as a column.
//!
//! Each part is a row group, so that the others need not be in memory while it is written. The documents are already compressed, and are
//! copied unchanged.

use std::cell::Cell;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::entry::Entry;
use super::flat::{COLUMNS, Column, DOCUMENT, FlatRow, Get, rows};

/// How many rows are read at a time.
const BATCH: usize = 1024;

/// Writes parts.
/// Errors: if writing fails, or an entry is not a valid part.
pub fn write<'e>(entries: impl IntoIterator<Item = &'e Entry>, out: impl Write + Send) -> Result<()> {
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema()?), Arc::new(properties()?))?;
    for entry in entries {
        let part = entry.part().map_err(|error| ParquetError::External(Box::new(error)))?;
        let rows = rows(&part, entry.packed());
        let mut group = writer.next_row_group()?;
        for Column { value, .. } in COLUMNS {
            let Some(mut out) = group.next_column()? else { break };
            match value {
                Get::Int(of) => values::<Int64Type>(&mut out, &rows, of)?,
                Get::Real(of) => values::<DoubleType>(&mut out, &rows, of)?,
                Get::Text(of) => {
                    values::<ByteArrayType>(&mut out, &rows, |row| Some(ByteArray::from(of(row)?.into_bytes())))?;
                }
                Get::Bytes(of) => values::<ByteArrayType>(&mut out, &rows, |row| of(row).map(ByteArray::from))?,
            }
            out.close()?;
        }
        group.close()?;
    }
    writer.close().map(drop)
}

fn values<T: DataType>(
    out: &mut SerializedColumnWriter<'_>,
    rows: &[FlatRow<'_>],
    value: impl Fn(&FlatRow<'_>) -> Option<T::T>,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    for row in rows {
        let value = value(row);
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    out.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}

fn schema() -> Result<Type> {
    let field = |column: &Column| {
        let (physical, logical) = match column.value {
            Get::Int(_) => (Physical::INT64, None),
            Get::Real(_) => (Physical::DOUBLE, None),
            Get::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Get::Bytes(_) => (Physical::BYTE_ARRAY, None),
        };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<Result<Vec<_>>>()?;
    Type::group_type_builder("part").with_fields(fields).build()
}

fn properties() -> Result<WriterProperties> {
    let document = ColumnPath::from(DOCUMENT);
    let properties = WriterProperties::builder()
        .set_created_by(super::TOOL.to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_column_compression(document.clone(), Compression::UNCOMPRESSED)
        // A row group is one page for each column: an index of pages would say what the group does.
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(false)
        .set_column_statistics_enabled(document, EnabledStatistics::None);
    Ok(properties.build())
}

/// The documents of a file, still compressed.
/// Errors: if it is not a file of parts. The `parquet` crate panics on some damage; that is an error here.
pub fn documents<R: ChunkReader + 'static>(file: R) -> Result<Vec<Vec<u8>>> {
    quietly(|| read_documents(file))
        .unwrap_or_else(|message| Err(ParquetError::General(format!("it is damaged: {message}"))))
}

thread_local! {
    /// Whether a panic on this thread becomes an error and is not printed.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs code and returns the message of a panic as an error.
fn quietly<T>(run: impl FnOnce() -> T) -> std::result::Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !IS_QUIET.get() {
                print(about);
            }
        }));
    });
    IS_QUIET.set(true);
    // Nothing borrowed is used after a panic.
    let result = panic::catch_unwind(AssertUnwindSafe(run));
    IS_QUIET.set(false);
    result.map_err(|panic| match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or("it cannot be read").to_owned(),
    })
}

fn read_documents<R: ChunkReader + 'static>(file: R) -> Result<Vec<Vec<u8>>> {
    let reader = SerializedFileReader::new(file)?;
    let columns = reader.metadata().file_metadata().schema_descr().columns();
    let column =
        columns.iter().position(|column| column.name() == DOCUMENT && column.physical_type() == Physical::BYTE_ARRAY);
    let Some(column) = column else {
        return Err(ParquetError::General(format!("it is not a table of parts: it has no column `{DOCUMENT}`")));
    };
    let mut found = Vec::new();
    for group in 0..reader.num_row_groups() {
        let mut reader =
            get_typed_column_reader::<ByteArrayType>(reader.get_row_group(group)?.get_column_reader(column)?);
        loop {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            let (records, ..) = reader.read_records(BATCH, Some(&mut levels), None, &mut values)?;
            if records == 0 {
                break;
            }
            found.extend(values.iter().map(|value: &ByteArray| value.data().to_vec()));
        }
    }
    Ok(found)
}
