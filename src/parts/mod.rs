//! Parts: what a trace is reduced to, in files, so that a thousand ranks are reduced where their traces are and put together anywhere.
//!
//! A [`TracePart`] has what the main job and what the comparison of ranks need of one trace, and is a JSON document. [`entry`] holds a document
//! in few bytes and knows what identifies it; [`set`] reads files of them and puts them into one order, whatever order they came in, so that
//! the same parts always give the same bytes. A file of parts is JSON, a document a line, or (`parquet`) a table with a row for each stack, step
//! and rank ([`flat`]), in which the documents are a column.

pub mod entry;
pub mod flat;
#[cfg(feature = "parquet")]
pub mod parquet;
pub mod set;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::analysis::reduction::StackReduction;
use crate::ranks::reduction::RankReduction;

/// The version of the documents. It changes with the meaning of any field.
pub const VERSION: u32 = 4;

/// How a document begins, so that it can be distinguished from a trace.
pub const MAGIC: &str = "{\"nccl_stacks_part\":";

/// The program that writes parts, with the commit of a release build.
pub const TOOL: &str = concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"), env!("NCCL_STACKS_COMMIT"));

/// A trace, or a rank's records, reduced.
#[derive(Debug, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TracePart {
    /// [`VERSION`].
    #[serde(rename = "nccl_stacks_part")]
    pub version: u32,
    /// What wrote it: [`TOOL`].
    pub tool: String,
    /// The trace's name.
    pub trace: String,
    /// The file that it was read from.
    pub input: InputFile,
    /// What was asked of it: kernels, window and how stacks are distinguished. Parts of other questions are not added up.
    pub asked: String,
    /// The prefixes of the user's own code, beside those that are always known as such.
    pub user_code: Vec<String>,
    /// What is wrong with the trace, a line each.
    pub damage: Vec<String>,
    /// The stacks of the chosen kernels, by rank; `None` for records, which have none.
    pub stacks: Option<StackReduction>,
    /// The collectives of each rank in it.
    pub ranks: Vec<RankReduction>,
}

impl TracePart {
    /// An empty part of a trace.
    pub fn new(trace: String, input: InputFile, asked: String) -> Self {
        TracePart { version: VERSION, tool: TOOL.to_owned(), trace, input, asked, ..TracePart::default() }
    }
}

/// What identifies an input.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputFile {
    /// Its path, as it was given.
    pub name: String,
    /// The trace's name in it, if it is an archive.
    pub member: Option<String>,
    /// Its XXH3 of 128 bits, in hexadecimal digits; `None` for what is read once, as standard input.
    pub digest: Option<String>,
}

impl InputFile {
    /// Of a file that is read once more for it.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn identify(path: &Path) -> io::Result<Self> {
        let (mut file, mut hash) = (File::open(path)?, XxHash3_128::new());
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(bytes) => hash.write(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let digest = Some(format!("{:032x}", hash.finish_128()));
        Ok(InputFile { digest, ..InputFile::without_digest(path) })
    }

    /// Of what is read once.
    pub fn without_digest(path: &Path) -> Self {
        InputFile { name: path.display().to_string(), ..InputFile::default() }
    }
}
