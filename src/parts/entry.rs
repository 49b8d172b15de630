//! A document in few bytes, and what identifies it.
//!
//! Ten thousand documents fit into memory only compressed, and each is needed once, in order. So a file's documents stay compressed until
//! their turn, and are copied as they are into a file of many.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use twox_hash::XxHash3_64;

use super::{InputFile, MAGIC, TracePart, VERSION};
use crate::ranks::reduction::{RankReduction, RankSource};

/// How hard zstd tries.
const LEVEL: i32 = 9;

/// How long a document may be, in bytes.
const LIMIT: u64 = 4 << 30;

/// A document, compressed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What identifies it. First, so that entries are in the order of their ranks.
    head: Head,
    /// Its JSON, through zstd.
    packed: Vec<u8>,
    /// The file that it is in. Last, because where it is changes nothing.
    file: PathBuf,
}

/// What of a document is read first.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Head {
    /// The ranks in it, as far as they are known.
    pub ranks: Vec<u32>,
    /// Whether it has collectives.
    pub has_collectives: bool,
    /// See [`TracePart::trace`].
    pub trace: String,
    /// See [`TracePart::input`].
    pub input: InputFile,
    /// See [`TracePart::asked`].
    pub asked: String,
    /// See [`TracePart::tool`].
    pub tool: String,
    /// See [`TracePart::damage`].
    pub damage: Vec<String>,
    /// How many ranks the job has, if a header says it: see [`RankReduction::world_size`].
    pub world_size: Option<u32>,
}

/// The fields of a document that a head needs; the others are skipped.
#[derive(Deserialize)]
struct Fields {
    trace: String,
    input: InputFile,
    asked: String,
    tool: String,
    damage: Vec<String>,
    stacks: Option<StackFields>,
    ranks: Vec<RankFields>,
}

#[derive(Deserialize)]
struct StackFields {
    trace: TraceFields,
    stacks: Vec<((Option<String>, IgnoredAny), IgnoredAny)>,
}

impl StackFields {
    /// The ranks that its stacks are of, or its own.
    fn ranks(self) -> BTreeSet<u32> {
        let labels = self.stacks.into_iter().filter_map(|((label, _), _)| label);
        let numbers: BTreeSet<u32> = labels.filter_map(|label| label.strip_prefix("rank ")?.parse().ok()).collect();
        if numbers.is_empty() { self.trace.rank.into_iter().collect() } else { numbers }
    }
}

#[derive(Deserialize)]
struct TraceFields {
    rank: Option<u32>,
}

#[derive(Deserialize)]
struct RankFields {
    said: Vec<(RankSource, u32)>,
    world_size: Option<u32>,
}

/// A document for the comparison of ranks alone.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct RanksOf {
    /// See [`TracePart::ranks`].
    pub ranks: Vec<RankReduction>,
}

/// A document for the stacks alone.
#[derive(Debug, Deserialize)]
#[non_exhaustive]
pub struct StacksOf {
    /// See [`TracePart::stacks`].
    pub stacks: Option<crate::analysis::reduction::StackReduction>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// It is none.
    #[error("this is no part: {0}")]
    NoPart(String),
    /// Another version of the program wrote it.
    #[error(
        "{by} wrote it as version {found}, and this program reads version {VERSION}: make it again, or take that program"
    )]
    OtherVersion {
        /// The program.
        by: String,
        /// Its version of the document.
        found: String,
    },
}

impl Entry {
    /// Of a part.
    ///
    /// # Errors
    /// What writing it as JSON fails with.
    pub fn new(part: &TracePart) -> io::Result<Self> {
        let mut json = serde_json::to_vec(part)?;
        json.pop();
        let checksum = checksum(&json);
        json.extend(checksum);
        Self::of_json(&json).map_err(io::Error::other)
    }

    /// Of a document as JSON.
    ///
    /// # Errors
    /// Why it is no document.
    pub fn of_json(json: &[u8]) -> Result<Self, EntryError> {
        let head = Head::parse(json)?;
        let packed = zstd::bulk::compress(json, LEVEL).map_err(|error| EntryError::NoPart(error.to_string()))?;
        Ok(Entry { head, packed, file: PathBuf::new() })
    }

    /// Of a document that is compressed.
    ///
    /// # Errors
    /// Why it is no document.
    pub fn of_packed(packed: Vec<u8>) -> Result<Self, EntryError> {
        let head = Head::parse(&unpack(&packed).map_err(|error| EntryError::NoPart(error.to_string()))?)?;
        Ok(Entry { head, packed, file: PathBuf::new() })
    }

    /// The same, read from this file.
    #[must_use]
    pub fn of_file(self, file: &Path) -> Self {
        Entry { file: file.to_owned(), ..self }
    }

    /// The file that it is in.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What identifies it.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Its JSON, compressed.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// Its JSON.
    ///
    /// # Errors
    /// What decompressing fails with.
    pub fn json(&self) -> io::Result<Vec<u8>> {
        unpack(&self.packed)
    }

    /// The document, or the fields of it that a type has.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, EntryError> {
        let json = self.json().map_err(|error| EntryError::NoPart(error.to_string()))?;
        serde_json::from_slice(&json).map_err(|error| EntryError::NoPart(error.to_string()))
    }

    /// The ranks of the document.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn ranks(&self) -> Result<Vec<RankReduction>, EntryError> {
        let RanksOf { ranks } = self.document()?;
        check(&ranks)?;
        Ok(ranks)
    }

    /// The whole document.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn part(&self) -> Result<TracePart, EntryError> {
        let part: TracePart = self.document()?;
        check(&part.ranks)?;
        Ok(part)
    }
}

fn check(ranks: &[RankReduction]) -> Result<(), EntryError> {
    match ranks.iter().find_map(|rank| rank.check().err()) {
        Some(wrong) => Err(EntryError::NoPart(wrong.to_owned())),
        None => Ok(()),
    }
}

impl Head {
    fn parse(json: &[u8]) -> Result<Self, EntryError> {
        let no_part = |error: serde_json::Error| EntryError::NoPart(error.to_string());
        let Some(rest) = json.strip_prefix(MAGIC.as_bytes()) else {
            return Err(EntryError::NoPart(format!("it does not begin with {MAGIC}")));
        };
        let version: Vec<u8> = rest.iter().copied().take(10).take_while(u8::is_ascii_digit).collect();
        if version != VERSION.to_string().as_bytes() {
            #[derive(Deserialize)]
            struct Tool {
                tool: Option<String>,
            }
            let tool = serde_json::from_slice(json).ok().and_then(|Tool { tool }| tool);
            let by = tool.unwrap_or_else(|| "another version of nccl-stacks".to_owned());
            return Err(EntryError::OtherVersion { by, found: String::from_utf8_lossy(&version).into_owned() });
        }
        let end = json.len().saturating_sub(CHECKSUM);
        if json[end..] != checksum(&json[..end]) {
            return Err(EntryError::NoPart("its checksum is wrong: it is damaged, or breaks off".to_owned()));
        }
        let Fields { trace, input, asked, tool, damage, stacks, ranks } =
            serde_json::from_slice(json).map_err(no_part)?;
        // As the comparison of ranks decides: what the user gave, else the most reliable.
        let number = |of: &RankFields| {
            let given = of.said.iter().find(|(source, _)| *source == RankSource::Given);
            given.or(of.said.first()).map(|(_, rank)| *rank)
        };
        let mut numbers: Vec<u32> = ranks.iter().filter_map(number).collect();
        let world_size = ranks.iter().find_map(|of| of.world_size);
        let has_collectives = !ranks.is_empty();
        if !has_collectives {
            numbers.extend(stacks.into_iter().flat_map(StackFields::ranks));
        }
        Ok(Head { ranks: numbers, has_collectives, trace, input, asked, tool, damage, world_size })
    }
}

/// The end of a document, and how long that is: the XXH3 of 64 bits of everything before it.
fn checksum(json: &[u8]) -> Vec<u8> {
    format!(",\"checksum\":\"{:016x}\"}}", XxHash3_64::oneshot(json)).into_bytes()
}

const CHECKSUM: usize = ",\"checksum\":\"\"}".len() + 16;

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    zstd::stream::Decoder::new(packed)?.take(LIMIT + 1).read_to_end(&mut json)?;
    if json.len() as u64 > LIMIT {
        return Err(io::Error::other("it is longer than 4 GiB"));
    }
    Ok(json)
}
