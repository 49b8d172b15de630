//! Parts: files of reduced traces, so that a thousand ranks are reduced where their traces are and compared anywhere.
//!
//! A [`TracePart`] is a JSON document with everything that the main job and the comparison of ranks need from one trace. [`entry`]
//! compresses a document and identifies it; [`set`] reads files of documents and sorts them, so that the same parts always give the same
//! bytes. A file of parts is JSON with one document per line, or (`parquet`) a table with a row per stack, step and rank ([`flat`]) and the
//! documents as a column.

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

use crate::answers::ranks::reduction::RankReduction;
use crate::answers::stacks::reduction::StackReduction;

/// The version of the documents. It changes when the meaning of any field does.
pub const VERSION: u32 = 8;

/// The beginning of every document, which distinguishes it from a trace.
pub const MAGIC: &str = "{\"nccl_stacks_part\":";

/// The program that writes parts, with the commit of a release build.
pub const TOOL: &str = concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"), env!("NCCL_STACKS_COMMIT"));

/// The reduction of a trace, or of a rank's records.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TracePart {
    #[serde(rename = "nccl_stacks_part")]
    pub version: u32,
    /// The program that wrote it: [`TOOL`].
    pub tool: String,
    /// The trace's name.
    pub trace: String,
    pub input: InputFile,
    /// The question: kernels, window and how stacks are distinguished. Only parts of the same question answer together.
    pub asked: String,
    /// The prefixes of the user's own code, in addition to the built-in ones.
    pub user_code: Vec<String>,
    /// The damage of the trace, one line each.
    pub damage: Vec<String>,
    /// The stacks of the chosen kernels, by rank; `None` for records, which have none.
    pub stacks: Option<StackReduction>,
    /// The collectives of each rank in it.
    pub ranks: Vec<RankReduction>,
}

impl TracePart {
    /// A part of a trace, still empty.
    pub fn new(trace: String, input: InputFile, asked: String) -> Self {
        TracePart { version: VERSION, tool: TOOL.to_owned(), trace, input, asked, ..TracePart::default() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InputFile {
    /// Its path, as it was given.
    pub name: String,
    /// The name of the trace in its archive, if it came from one.
    pub member: Option<String>,
    /// Its 128-bit XXH3 in hexadecimal; `None` for an input that can be read only once, such as standard input.
    pub digest: Option<String>,
}

impl InputFile {
    /// Identifies a file, which is read once more for its hash.
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

    /// Identifies an input that can be read only once.
    pub fn without_digest(path: &Path) -> Self {
        InputFile { name: path.display().to_string(), ..InputFile::default() }
    }
}
