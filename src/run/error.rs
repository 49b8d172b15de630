//! Why a run ends without an answer. No message names an option of the program: a caller has its own words for that.

use std::path::PathBuf;

use super::choice::{NotChosen, WindowError};
use crate::answers::ranks::data::RanksError;
use crate::error::Error;
use crate::operation::Source;
use crate::records;

/// The end of a run that has no answer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe the variants and their fields")]
pub enum RunError {
    #[error(transparent)]
    Library(#[from] Error),

    #[error(transparent)]
    Ranks(#[from] RanksError),

    #[error("{name}: {message}")]
    Part { name: String, message: String },

    #[error("rank {rank} is there twice: {first} and {second}")]
    RankTwice { rank: u32, first: String, second: String },

    #[error(
        "these parts answer different questions, so that they cannot be put together: {list}. Make them again with the same options"
    )]
    DifferentQuestions { list: String },

    #[error("{name}: damaged, and nothing damaged was to be read:{list}")]
    Strict { name: String, list: String },

    #[error("{}: there is no such file{}", path.display(), near_names(near))]
    NoSuchFile { path: PathBuf, near: Vec<PathBuf> },

    #[error("{}: this folder has no traces: no file whose name ends with {endings}", folder.display())]
    NoTraceInFolder { folder: PathBuf, endings: String },

    #[error("{}: this folder has neither traces nor records of NCCL", folder.display())]
    NeitherInFolder { folder: PathBuf },

    #[error("{}: there is no file in this folder. If a job was recorded into it, no process called NCCL, or none could write there", folder.display())]
    NoFileInFolder { folder: PathBuf },

    #[error("{names}: these are no records of NCCL. Known sources are: {}", record_sources())]
    NoRecords { names: String },

    #[error("{why}")]
    UnreadRecords { why: String },

    #[error("{} is a part of a rank, and {} is none: this answers from parts or from traces, not from both", part.display(), trace.display())]
    PartsBesideTraces { part: PathBuf, trace: PathBuf },

    #[error("these files have no parts")]
    NoParts,

    #[error("{0}")]
    GivenRank(String),

    #[error("{}{window}", trace.as_ref().map_or(String::new(), |trace| format!("{trace}: ")))]
    Window { trace: Option<String>, window: WindowError },

    #[error("no collective ran in the window of any trace")]
    NoCollective { is_damaged: bool },

    #[error("these records do not say when kernels ran, or on which rank")]
    RecordsWithoutParts,

    #[error("--run {number}: there {} in these files", if *count == 1 { "is 1 run".to_owned() } else { format!("are {count} runs") })]
    NoSuchRun { number: usize, count: usize },

    #[error("nothing was chosen")]
    NotChosen(NotChosen),
}

impl From<WindowError> for RunError {
    fn from(window: WindowError) -> Self {
        RunError::Window { trace: None, window }
    }
}

impl RunError {
    /// The same, of one of several traces.
    pub(super) fn in_trace(self, name: &str) -> Self {
        match self {
            RunError::Window { window, .. } => RunError::Window { trace: Some(name.to_owned()), window },
            other => other,
        }
    }
}

/// `; near it: a.json, b.json`
fn near_names(near: &[PathBuf]) -> String {
    let names: Vec<String> = near.iter().map(|path| path.display().to_string()).collect();
    if names.is_empty() { String::new() } else { format!("; near it: {}", names.join(", ")) }
}

/// `PyTorch flight recorder, NCCL RAS, …`
fn record_sources() -> String {
    let titles: Vec<&str> = records::sources().into_iter().map(Source::title).collect();
    titles.join(", ")
}
