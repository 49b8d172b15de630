//! The library's error type. Each message names the file, the byte offset where there is one, and what to do. None names a flag of the
//! program, because a library caller has other words for it.

use std::io;
use std::path::PathBuf;

/// Anything that prevents an answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: there is no such file", path.display())]
    NoSuchFile { path: PathBuf },

    #[error("{}: this is a directory; name the trace file in it, for example {}/trace.json.gz", path.display(), path.display())]
    IsDirectory { path: PathBuf },

    #[error("{name}: the file is empty (0 bytes); was the profiler stopped before it had written its trace?")]
    Empty { name: String },

    #[error("{name}: cannot be read: {source}")]
    Read { name: String, source: io::Error },

    #[error("{name}: {what}. Expected {expected}")]
    NotATrace { name: String, what: String, expected: &'static str },

    #[error("{name}: this is {what}, which nccl-stacks does not read as a trace. {instead}")]
    OtherFormat { name: String, what: &'static str, instead: &'static str },

    #[error("{name}: {what}, which nccl-stacks cannot read yet. {advice}")]
    Unsupported { name: String, what: &'static str, advice: &'static str },

    #[error("{name}: there is no trace in this archive, which holds {list}")]
    NoTraceInArchive { name: String, list: String },

    #[error("{name}: the archive is cut off at byte {offset}, before its first trace. Copy it again")]
    ArchiveCutOff { name: String, offset: u64 },

    #[error(
        "{name}: this zip of {bytes} bytes is cut off, or the directory at its end does not describe it ({message}). Copy it again, or save what is in it with `zip -FF FILE --out WHOLE.zip`"
    )]
    BrokenZip { name: String, bytes: u64, message: String },

    #[error("{name}: the file has changed since it was read first; try again")]
    Changed { name: String },

    #[error("{name}: this is an archive, which has to be read twice; save it to a file first")]
    ArchiveOnce { name: String },

    #[error("{name}: a window of {what} cannot be written as a trace")]
    CannotCut { name: String, what: &'static str },

    #[error("{name}: this is {what}; only JSON can be repaired")]
    CannotRepair { name: String, what: &'static str },

    #[error(
        "{name}: this SQLite database is damaged ({message}). Copy it again, or export it again: `nsys export --type sqlite`"
    )]
    CorruptDatabase { name: String, message: String },

    #[error(
        "{name}: the file is cut off at byte {offset} before the first whole event. Copy it again, or record again"
    )]
    NothingWhole { name: String, offset: u64 },

    #[error(
        "{name}: corrupt compressed data at byte {offset} of the file, before the first whole event ({message}). Copy it again; `gzip -t` or `zstd -t` tests a copy"
    )]
    CorruptBeforeFirstEvent { name: String, offset: u64, message: String },

    #[error("{name}: {what}")]
    TooMuchText { name: String, what: String },

    #[error("{name}: more than 4,294,967,294 events, slices or distinct strings; cut the trace into parts")]
    TooLarge { name: String },

    #[error("the pattern is empty")]
    EmptyPattern,

    #[error("`{key}` is not a key to group by. Known keys: {known}")]
    BadGroupKey { key: String, known: String },

    #[error("pattern {pattern}: {message}")]
    BadPattern { pattern: String, message: String },

    #[error("there is no family {name}; known families: {known}")]
    NoSuchFamily { name: String, known: String },

    #[error("there is a family {name} already; give yours another name")]
    FamilyBuiltIn { name: String },

    #[error(
        "{name}: {message}. Expected a JSON object of families, each a list of patterns: {{\"mine\": [\"myAllReduce\", \"/regex/\"]}}"
    )]
    BadFamilies { name: String, message: String },

    #[error("SQL: {0}")]
    Sql(#[from] rusqlite::Error),

    #[error("{}: cannot be written: {source}. Nothing was written", path.display())]
    Write { path: PathBuf, source: io::Error },
}

impl Error {
    /// Whether the file should have been a trace, and nothing of it could be read: whoever recorded it is missing from the answer.
    pub fn is_lost_trace(&self) -> bool {
        use Error::*;
        matches!(
            self,
            Empty { .. }
                | Read { .. }
                | ArchiveCutOff { .. }
                | BrokenZip { .. }
                | CorruptDatabase { .. }
                | NothingWhole { .. }
                | CorruptBeforeFirstEvent { .. }
        )
    }
}
