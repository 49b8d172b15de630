//! Containers: layers of compression and archives, from the stored bytes of an input to the files in it.
//!
//! Containers know nothing of what is in the files: traces and NCCL's records go through the same ones. To add a container, write one
//! file with its `CONTAINER` and add one line to [`CONTAINERS`]. File names decide nothing: browsers unpack downloads without renaming
//! them, and tools write gzip into files that end in `.json`.
//!
//! `source` and `region` are bytes in a file or a stream, `limit` bounds how much text they may become. Layers: `gzip` and `zstd`,
//! both streams of any number of parts (`packed`). Archives: `tar` (with `sparse`) and `zip`, each of which lists its files (`listing`).
//! `archive` removes the layers and goes through the files of archives, and `findings` collects what is in an archive besides.

mod archive;
mod findings;
pub mod gzip;
pub mod limit;
mod listing;
pub mod packed;
mod region;
pub(super) mod source;
mod sparse;
mod tar;
mod zip;
pub mod zstd;

use crate::error::Error;
pub use archive::{Archive, Contents, Member};
pub(super) use archive::{Opener, Opening, Turn};
pub use findings::{Findings, InnerDamage};
use listing::Listing;
pub(super) use region::Region;
use source::{Bytes, Head, Source};

/// All containers. Each has a mark that no other has.
pub static CONTAINERS: &[&Container] = &[&gzip::CONTAINER, &zstd::CONTAINER, &zip::CONTAINER, &tar::CONTAINER];

/// A container: a layer of compression over a file of any format, or an archive of files.
#[derive(Debug)]
pub struct Container {
    /// Its name for people: `gzip`.
    pub name: &'static str,
    /// Whether a file begins with its mark. It gets the first bytes, at most [`SNIFF`](source::SNIFF).
    sniff: fn(&[u8]) -> bool,
    kind: Kind,
}

/// How a container is opened.
#[derive(Debug)]
enum Kind {
    Layer(fn(Bytes) -> Bytes),
    /// Lists the files of an archive, which has this name in messages.
    Archive(fn(&str, Source) -> Result<Listing, Error>),
}

impl Container {
    /// Whether it holds several files. The others are layers of compression.
    pub fn is_archive(&self) -> bool {
        matches!(self.kind, Kind::Archive(_))
    }
}

fn recognise(head: &Head) -> Option<&'static Container> {
    CONTAINERS.iter().copied().find(|container| (container.sniff)(&head.bytes))
}
