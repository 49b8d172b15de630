//! A compressed document, and the head that identifies it.
//!
//! Ten thousand documents fit into memory only when compressed, and each is needed once, in order. So a file's documents stay compressed
//! until their turn, and are copied unchanged when they are joined into one file.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use twox_hash::XxHash3_64;

use super::{InputFile, MAGIC, TracePart, VERSION};
use crate::answers::ranks::reduction::{RankReduction, RankSource};

/// The zstd compression level.
const LEVEL: i32 = 9;

/// The maximum length of a document in bytes.
const LIMIT: u64 = 4 << 30;

/// A document, compressed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// What identifies it. The first field, so that entries sort by rank.
    head: Head,
    /// Its JSON, compressed with zstd.
    packed: Vec<u8>,
    /// The file it was read from. The last field, so that it does not affect the order.
    file: PathBuf,
}

/// The head of a document, which is read first.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    /// The ranks in it, as far as known.
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
    /// The number of ranks of the job, if a header has it: see [`RankReduction::world_size`].
    pub world_size: Option<u32>,
}

/// The fields of a document from which a head is made; the others are skipped.
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
    /// The ranks in the labels of its stacks, or else the rank of its trace.
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

/// The fields of a document that the comparison of ranks needs.
#[derive(Debug, Deserialize)]
pub struct RanksOf {
    /// See [`TracePart::ranks`].
    pub ranks: Vec<RankReduction>,
}

/// The fields of a document that the stacks need.
#[derive(Debug, Deserialize)]
pub struct StacksOf {
    /// See [`TracePart::stacks`].
    pub stacks: Option<crate::answers::stacks::reduction::StackReduction>,
}

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// It is not a part.
    #[error("this is not a part: {0}")]
    NoPart(String),
    /// Another version of the program wrote it.
    #[error(
        "{by} wrote it as version {found}, and this program reads version {VERSION}: make it again, or use that program"
    )]
    OtherVersion {
        by: String,
        /// Its version of the document.
        found: String,
    },
}

impl Entry {
    pub fn new(part: &TracePart) -> io::Result<Self> {
        let mut json = serde_json::to_vec(part)?;
        json.pop();
        let checksum = checksum(&json);
        json.extend(checksum);
        Self::of_json(&json).map_err(io::Error::other)
    }

    /// Compresses a document of JSON.
    pub fn of_json(json: &[u8]) -> Result<Self, EntryError> {
        let head = Head::parse(json)?;
        let packed = zstd::bulk::compress(json, LEVEL).map_err(|error| EntryError::NoPart(error.to_string()))?;
        Ok(Entry { head, packed, file: PathBuf::new() })
    }

    /// Takes a document that is already compressed.
    pub fn of_packed(packed: Vec<u8>) -> Result<Self, EntryError> {
        let head = Head::parse(&unpack(&packed).map_err(|error| EntryError::NoPart(error.to_string()))?)?;
        Ok(Entry { head, packed, file: PathBuf::new() })
    }

    /// The same entry, read from this file.
    #[must_use]
    pub fn of_file(self, file: &Path) -> Self {
        Entry { file: file.to_owned(), ..self }
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Its JSON, compressed.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    pub fn json(&self) -> io::Result<Vec<u8>> {
        unpack(&self.packed)
    }

    /// Deserializes the document, or those of its fields that the type has.
    pub fn document<T: DeserializeOwned>(&self) -> Result<T, EntryError> {
        let json = self.json().map_err(|error| EntryError::NoPart(error.to_string()))?;
        serde_json::from_slice(&json).map_err(|error| EntryError::NoPart(error.to_string()))
    }

    pub fn ranks(&self) -> Result<Vec<RankReduction>, EntryError> {
        let RanksOf { ranks } = self.document()?;
        check(&ranks)?;
        Ok(ranks)
    }

    /// The whole document.
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
            return Err(EntryError::NoPart("its checksum is wrong: it is damaged or cut off".to_owned()));
        }
        let Fields { trace, input, asked, tool, damage, stacks, ranks } =
            serde_json::from_slice(json).map_err(no_part)?;
        // The rank that the comparison of ranks uses: the user's, or else the most reliable one.
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

/// The end of a document: the 64-bit XXH3 of everything before it.
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
