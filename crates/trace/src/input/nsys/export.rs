//! An export as a database that is open, and what is looked up in it: texts, call chains, facts of the recording.
//!
//! SQLite reads a file in any order. A plain file is read in place and as immutable, so that SQLite writes nothing beside it; a file from
//! an archive, a pipe or a layer of compression is copied to a temporary file.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OpenFlags, OptionalExtension, Result};
use tempfile::{NamedTempFile, TempPath};

use super::tables::{Database, TEXT_FACTOR, Table, corrupt};
use crate::error::Error;
use crate::event::{ArgValue, HeaderField};
use crate::input::containers::limit::{Budget, Limited, failure};
use crate::input::containers::source::Source;
use crate::unfinished::Unfinished;

/// The most processes of an export. A machine has some for each of its GPUs, and each is read by itself.
const PROCESSES: usize = 1024;

const START: Table = Table { name: "TARGET_INFO_SESSION_START_TIME", columns: &["utcEpochNs"], process: None };
const VERSION: Table = Table { name: "META_DATA_EXPORT", columns: &["name", "value"], process: None };
const RECORDED: Table = Table { name: "META_DATA_CAPTURE", columns: &["name", "value"], process: None };

/// The name of the rows that have the environment of the recorded program, as `NAME="value"`.
const ENVIRONMENT: &str = "ENVIRONMENT_VARIABLE";

/// The variables in which launchers pass the rank and the number of ranks: torchrun, Slurm, Open MPI.
const RANKS: [(&str, &str); 3] =
    [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")];

#[derive(Debug)]
pub(super) struct Export {
    pub(super) name: String,
    pub(super) database: Database,
    /// Counts how much of it has been read, if it is the file itself: a copy was counted when it was made.
    taken: Option<Arc<AtomicU64>>,
    /// The temporary file, which is removed after the connection is closed.
    _copy: Option<(TempPath, Unfinished)>,
}

impl Export {
    pub(super) fn open(name: &str, source: Source, budget: &Budget) -> std::result::Result<Self, Error> {
        let failed = |source| failure(name, source);
        let in_place = match &source {
            Source::File(region) => region.path().map(|path| (path.to_owned(), region.taken())),
            Source::Stream(_) => None,
        };
        let (path, taken, copy) = match in_place {
            Some((path, taken)) => (path, Some(taken), None),
            None => {
                let copy = copy(source, budget).map_err(failed)?;
                (copy.0.to_path_buf(), None, Some(copy))
            }
        };
        let bytes = std::fs::metadata(&path).map_err(failed)?.len();
        if copy.is_none() {
            budget.charge(bytes).map_err(failed)?;
        }
        let opened = connect(&path).and_then(|connection| {
            check_length(&connection, bytes)?;
            Database::read(connection, bytes)
        });
        let database = opened.map_err(|error| damaged(name, &error))?;
        Ok(Export { name: name.to_owned(), database, taken, _copy: copy })
    }

    /// The numbers of the processes that have rows in some tables, in order.
    pub(super) fn processes(&self, tables: &[Table]) -> std::result::Result<BTreeSet<i64>, Error> {
        let mut found = BTreeSet::new();
        let mut is_empty = true;
        for table in tables {
            found.extend(self.database.processes(table).map_err(|error| self.damaged(&error))?);
            is_empty &= self.database.rows(table).map_err(|error| self.damaged(&error))? == 0;
        }
        if found.len() > PROCESSES {
            let message = format!("it names {} processes, more than {PROCESSES}", found.len());
            return Err(self.damaged(&corrupt(&message)));
        }
        // Rows that name no process are of the only one.
        if found.is_empty() && !is_empty {
            found.insert(0);
        }
        Ok(found)
    }

    /// The error for a database that SQLite cannot read on.
    pub(super) fn damaged(&self, error: &rusqlite::Error) -> Error {
        damaged(&self.name, error)
    }

    /// Reports which share of the export has been read.
    pub(super) fn report(&self, share: f64) {
        if let Some(taken) = &self.taken {
            taken.store((self.database.bytes as f64 * share.clamp(0.0, 1.0)) as u64, Ordering::Relaxed);
        }
    }

    /// When the recording started, in ns since 1970; 0 if unknown. The times of all rows count from there, so that the reports of
    /// several machines have the time of day, as other traces have.
    pub(super) fn start(&self) -> Result<i64> {
        let mut start = None;
        self.database.each(&START, None, |row| {
            start = row.number(0);
            Ok(start.is_none())
        })?;
        Ok(start.unwrap_or(0))
    }

    /// The header of a trace. Its environment is the started program's, which has the rank if it is alone: torchrun has none.
    pub(super) fn header(&self, is_alone: bool) -> Result<Vec<HeaderField>> {
        let mut header = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.database.each(&VERSION, None, |row| {
            if let (Some(b"EXPORT_PRODUCT_VERSION"), Some(version)) = (row.bytes(0), row.bytes(1)) {
                let key = "metadata.nsight_systems_version".to_owned();
                header.push(HeaderField { key, value: ArgValue::Text(text(version)) });
            }
            Ok(true)
        })?;
        if !is_alone {
            return Ok(header);
        }
        let mut variables = Vec::new();
        self.database.each(&RECORDED, None, |row| {
            let is_variable = row.bytes(0).is_some_and(|name| name.ends_with(ENVIRONMENT.as_bytes()));
            variables.extend(row.bytes(1).filter(|_| is_variable).map(text));
            Ok(true)
        })?;
        header.extend(rank(&variables));
        Ok(header)
    }
}

/// Refuses a database that is cut off within its last page: SQLite reads zeros there.
fn check_length(connection: &Connection, bytes: u64) -> Result<()> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, u64>(0));
    let whole = number("page_count")?.saturating_mul(number("page_size")?);
    if bytes >= whole {
        return Ok(());
    }
    Err(corrupt(&format!("it is cut off: it has {bytes} of {whole} bytes (copy it again, or export it again)")))
}

fn damaged(name: &str, error: &rusqlite::Error) -> Error {
    Error::CorruptDatabase { name: name.to_owned(), message: error.to_string() }
}

/// Copies a source to a temporary file, as text of the budget.
fn copy(source: Source, budget: &Budget) -> io::Result<(TempPath, Unfinished)> {
    let mut text = Limited::new(source, budget.clone());
    let mut file = NamedTempFile::new()?;
    let unfinished = Unfinished::at(file.path());
    io::copy(&mut text, file.as_file_mut())?;
    Ok((file.into_temp_path(), unfinished))
}

/// Opens a file for reading, as one that does not change: SQLite then looks for no journal beside it, and takes no lock.
fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path), flags)?;
    // Nothing in the file may call functions, and what does not fit into memory is not kept there.
    connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA mmap_size = 0; PRAGMA cache_size = -16384")?;
    Ok(connection)
}

/// A path as SQLite takes it with parameters: all but plain characters as numbers.
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => uri.push(char::from(*byte)),
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

/// The rank and the number of ranks, under the names of Kineto's header. Both must be present and consistent.
fn rank(variables: &[String]) -> impl Iterator<Item = HeaderField> {
    let number = |wanted: &str| {
        let value = variables.iter().find_map(|variable| variable.strip_prefix(wanted)?.strip_prefix('='))?;
        value.trim_matches('"').parse::<u32>().ok()
    };
    let found = RANKS.iter().find_map(|(rank, size)| Some((number(rank)?, number(size)?)));
    let found = found.filter(|(rank, size)| rank < size);
    let field = |key: &str, value: u32| HeaderField { key: key.to_owned(), value: ArgValue::Int(i64::from(value)) };
    let fields =
        found.map(|(rank, size)| [field("distributedInfo.rank", rank), field("distributedInfo.world_size", size)]);
    fields.into_iter().flatten()
}

pub(super) const STRINGS: Table = Table { name: "StringIds", columns: &["id", "value"], process: None };

type Text = Option<Rc<str>>;

type Known = HashMap<i64, Text, foldhash::fast::FixedState>;

/// Looks up texts, each once: an export may have millions that no event uses.
pub(super) struct Strings<'e> {
    export: &'e Export,
    known: Known,
    /// Whether all texts are loaded: where the number is no key, each look-up would read the whole table.
    is_whole: bool,
    /// How many bytes of text were looked up.
    bytes: u64,
}

impl<'e> Strings<'e> {
    pub(super) fn new(export: &'e Export) -> Result<Self> {
        let sql = "SELECT max(pk) FROM pragma_table_info(?1) WHERE name = 'id'";
        let key: Option<i64> = export.database.connection.query_row(sql, [STRINGS.name], |row| row.get(0))?;
        let is_whole = key != Some(1);
        let mut known = Known::default();
        if is_whole {
            export.database.each(&STRINGS, None, |row| {
                if let Some(id) = row.number(0) {
                    known.entry(id).or_insert_with(|| row.bytes(1).and_then(text));
                }
                Ok(true)
            })?;
        }
        Ok(Strings { export, known, is_whole, bytes: 0 })
    }

    pub(super) fn get(&mut self, id: Option<i64>) -> Result<Text> {
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        if self.is_whole {
            return Ok(None);
        }
        let mut statement =
            self.export.database.connection.prepare_cached("SELECT value FROM StringIds WHERE id = ?1")?;
        let bytes = |row: &rusqlite::Row<'_>| Ok(row.get_ref(0)?.as_bytes().ok().and_then(text));
        let found = statement.query_row([id], bytes).optional()?.flatten();
        self.bytes += found.as_ref().map_or(0, |text| text.len() as u64);
        // Texts that share their pages come from a damaged file.
        if self.bytes > self.export.database.bytes.saturating_mul(TEXT_FACTOR) {
            return Err(corrupt("StringIds has more text than the file has bytes"));
        }
        self.known.insert(id, found.clone());
        Ok(found)
    }

    /// The first of several numbers that has a text.
    pub(super) fn first(&mut self, ids: impl IntoIterator<Item = Option<i64>>) -> Result<Option<Rc<str>>> {
        for id in ids {
            if let Some(text) = self.get(id)? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

fn text(bytes: &[u8]) -> Text {
    Some(bytes).filter(|bytes| !bytes.is_empty()).map(|bytes| Rc::from(String::from_utf8_lossy(bytes)))
}

/// A row for each function of each chain. Depth 0 is the innermost.
const CHAINS: Table = Table { name: "CUDA_CALLCHAINS", columns: &["id", "stackDepth", "symbol"], process: None };

/// The deepest function of a chain that is kept. Nesting ends there in any case.
const DEEPEST: i64 = 255;

/// The functions around the calls into CUDA, where the recording has them (`--cudabacktrace`), without their texts: 16 bytes each. The table has
/// no index, so that one chain cannot be looked up.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<Frame>);

/// In order: by chain, the outermost function first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    chain: u32,
    /// 255 less the depth.
    height: u8,
    symbol: i64,
}

impl Chains {
    pub(super) fn read(export: &Export) -> Result<Self> {
        let mut frames = Vec::new();
        export.database.each(&CHAINS, None, |row| {
            let depth = row.number(1).filter(|depth| (0..=DEEPEST).contains(depth));
            let chain = row.number(0).and_then(|chain| u32::try_from(chain).ok());
            if let (Some(chain), Some(depth), Some(symbol)) = (chain, depth, row.number(2)) {
                frames.push(Frame { chain, height: (DEEPEST - depth) as u8, symbol });
            }
            Ok(true)
        })?;
        frames.sort_unstable();
        // Otherwise every call that names a chain could get the whole table.
        frames.dedup_by_key(|frame| (frame.chain, frame.height));
        Ok(Chains(frames))
    }

    pub(super) fn range(&self, chain: i64) -> Range<usize> {
        let Ok(chain) = u32::try_from(chain) else { return 0..0 };
        let first = self.0.partition_point(|frame| frame.chain < chain);
        let length = self.0[first..].partition_point(|frame| frame.chain == chain);
        first..first + length
    }

    pub(super) fn symbol(&self, at: usize) -> Option<i64> {
        self.0.get(at).map(|frame| frame.symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_may_have_any_characters() {
        assert_eq!(uri(Path::new("a/b c?d=%é.db")), "file:a/b%20c%3Fd%3D%25%C3%A9.db?immutable=1");
    }

    #[test]
    fn launchers_say_the_rank() {
        for (variables, want) in [
            (&["RANK=\"3\"", "WORLD_SIZE=\"8\""][..], vec![3, 8]),
            (&["SLURM_PROCID=12", "SLURM_NTASKS=16", "LOCAL_RANK=4"], vec![12, 16]),
            (&["RANK=\"3\""], vec![]),
            (&["RANK=\"8\"", "WORLD_SIZE=\"8\""], vec![]),
            (&["RANKS=\"3\"", "WORLD_SIZE=\"8\""], vec![]),
            (&[], vec![]),
        ] {
            let variables: Vec<String> = variables.iter().map(|variable| (*variable).to_owned()).collect();
            let found: Vec<ArgValue<String>> = rank(&variables).map(|field| field.value).collect();
            assert_eq!(found, want.into_iter().map(ArgValue::Int).collect::<Vec<_>>(), "{variables:?}");
        }
    }
}
