//! Containers: layers of compression and archives, from the stored bytes of an input to the files in it.
//!
//! Containers know nothing of what is in the files: traces and NCCL's records go through the same ones. To add a container, write one
//! file with its `CONTAINER` and add one line to [`CONTAINERS`]. File names decide nothing: browsers unpack downloads without renaming
//! them, and tools write gzip into files that end in `.json`.
//!
//! `limit` bounds how much text the bytes of a `source` may become. `gzip` and `zstd` are streams of any number of parts (`packed`); `tar`
//! (with `sparse`) and `zip` list their files (`listing`); `archive` removes the layers and goes through the files.

mod archive;
pub mod gzip;
pub mod limit;
mod listing;
pub mod packed;
pub(super) mod source;
mod sparse;
mod tar;
mod zip;
pub mod zstd;

use crate::error::Error;
pub use archive::{Archive, Contents, Member};
pub(super) use archive::{Opener, Opening, Turn};
use listing::Listing;
pub use listing::{Findings, InnerDamage};
use source::{Bytes, Head, Source};

/// All containers. Each has a mark that no other has.
pub static CONTAINERS: &[&Container] = &[&gzip::CONTAINER, &zstd::CONTAINER, &zip::CONTAINER, &tar::CONTAINER];

/// A layer of compression over a file of any format, or an archive of files.
#[derive(Debug)]
pub struct Container {
    /// Its name for people: `gzip`.
    pub name: &'static str,
    /// Whether a file begins with its mark, by at most [`SNIFF`](source::SNIFF) bytes.
    sniff: fn(&[u8]) -> bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Layer(fn(Bytes) -> Bytes),
    Archive(List),
}

/// Lists the files of an archive, which has this name in messages.
type List = fn(&str, Source) -> Result<Listing, Error>;

impl Container {
    pub fn is_archive(&self) -> bool {
        matches!(self.kind, Kind::Archive(_))
    }
}

fn recognise(head: &Head) -> Option<&'static Container> {
    CONTAINERS.iter().copied().find(|container| (container.sniff)(&head.bytes))
}
