//! Failures: the library's errors, with the command-line flags that help, and the program's own.

use std::io;
use std::path::PathBuf;

use crate::answers::ranks::data::RanksError;
use crate::answers::ranks::job::JobError;
use crate::error::Error;
use crate::run::RunError;

/// A failure. Its text is a message for the user.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{}", with_flags(.0))]
    Library(#[from] Error),

    #[error("{}", advise(.0))]
    Ranks(#[from] RanksError),

    #[error(transparent)]
    Run(RunError),

    #[error("{name}: damaged, and --strict was given:{list}")]
    Strict { name: String, list: String },

    #[error("{name}:{line}: {message}")]
    Config { name: String, line: usize, message: String },

    #[error("--if {0}")]
    Rule(String),

    #[error("SQL statement {number} (line {line}): {message}")]
    Statement { number: usize, line: usize, message: String },

    #[error("{}: cannot be written: {source}", path.display())]
    WriteDevice { path: PathBuf, source: io::Error },

    #[error(
        "this program was built without the recorder's library, which needs Linux and the folder `crates` of the source"
    )]
    NoRecorder,

    #[error(
        "{}: others could replace the recordings in this folder: {why}. Give a --dir of your own, or --shared-dir if you trust them",
        folder.display()
    )]
    OpenFolder { folder: PathBuf, why: String },

    #[error(
        "{}: others could replace the recorder's library in this folder: {why}. Give a --library-dir of your own",
        folder.display()
    )]
    OpenLibraryFolder { folder: PathBuf, why: String },

    #[error("the recorder's library needs a folder of your own: set HOME, or give --library-dir")]
    NoLibraryFolder,

    #[error("{command}: cannot be run: {source}")]
    Job { command: String, source: io::Error },

    #[error("the answer cannot be put into this form: {source}")]
    Form { source: io::Error },

    #[error("{}: there is no such file; is the command `{command}` meant?", path.display())]
    NoSuchCommand { path: PathBuf, command: String },

    #[error("{0}")]
    TooLarge(String),

    #[error("standard output cannot be written: {0}")]
    Stdout(io::Error),
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Library(error) => Failure::Library(error),
            RunError::Ranks(error) => Failure::Ranks(error),
            RunError::Strict { name, list } => Failure::Strict { name, list },
            error => Failure::Run(error),
        }
    }
}

/// The message for an error of the library, with the flag that it is about in front and the flag that helps at the end.
pub(super) fn with_flags(error: &Error) -> String {
    match error {
        Error::EmptyPattern => format!("--kernel-name: {error}; leave the flag out for all NCCL kernels"),
        Error::BadPattern { pattern, message } => format!("--kernel-name {pattern}: {message}"),
        Error::NoSuchFamily { name, known } => {
            format!("--family {name}: there is no such family; the families are {known}")
        }
        Error::BadFamilies { .. } => format!("--family-file {error}"),
        Error::TooMuchText { .. } => {
            format!("{error}. If the trace is fine and fits into memory, allow its size with --max-bytes SIZE")
        }
        Error::CannotCut { .. } => format!("{error}. --sqlite exports the whole trace"),
        _ => error.to_string(),
    }
}

/// The message for an error about ranks, with the flag that helps.
fn advise(error: &RanksError) -> String {
    match error {
        RanksError::Job(JobError::Unknown { .. } | JobError::Contradiction { .. }) => {
            format!("{error}. Give the rank with --rank RANK=TRACE")
        }
        RanksError::Unfit(_) => format!("{error} --clock none compares only the durations of their kernels"),
        _ => error.to_string(),
    }
}
