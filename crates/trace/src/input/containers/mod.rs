//! Containers: layers of compression and archives, from the stored bytes of an input to the files in it.
//!
//! Containers know nothing of what is in the files: traces and NCCL's records go through the same ones. To add a container, write one
//! file with its `CONTAINER` and add one line to [`CONTAINERS`].
//!
//! `source` and `region` are bytes in a file or a stream, `limit` bounds how much text they may become. Layers: `gzip` and `zstd`,
//! both streams of any number of parts (`packed`). Archives: `tar` and `zip`, each of which lists its files (`listing`); `names` says
//! which names are skipped. `archive` removes the layers and goes through the files of archives, and `findings` collects what is in an
//! archive besides.

mod archive;
mod container;
mod findings;
pub mod gzip;
pub mod limit;
mod listing;
mod names;
pub mod packed;
mod region;
pub(super) mod source;
mod sparse;
mod tar;
mod zip;
pub mod zstd;

pub use archive::{Archive, Contents, Member};
pub(super) use archive::{Opener, Opening, Turn};
pub use container::Container;
pub use findings::{Findings, InnerDamage};
pub(super) use region::Region;

/// All containers. Each has a mark that no other has.
pub static CONTAINERS: &[&Container] = &[&gzip::CONTAINER, &zstd::CONTAINER, &zip::CONTAINER, &tar::CONTAINER];

/// The container that a file with these first bytes is.
fn recognise(head: &[u8]) -> Option<&'static Container> {
    CONTAINERS.iter().copied().find(|container| (container.sniff)(head))
}
