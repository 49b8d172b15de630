//! Zip: members, each after a header of its own, and a directory of all of them at the end.
//!
//! `directory` reads the directory, and goes through the members' `header`s where there is none; `entry` decompresses one
//! member.

mod directory;
mod entry;
mod header;

use std::io;

use super::container::{Container, Kind};
use super::limit::{Budget, LimitReached};
use super::listing::{Entry, File, Listing};
use super::region::Region;
use super::source::Source;
use crate::damage::Damage;
use directory::Directory;

/// The header of a first member, or the end record of an archive without members.
const MAGIC: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

pub(super) static CONTAINER: Container = Container {
    name: "zip",
    sniff: |head| MAGIC.iter().any(|magic| head.starts_with(magic)),
    kind: Kind::Archive(list),
};

fn list(source: Source, budget: &Budget) -> io::Result<Listing> {
    let (region, failure) = match source {
        Source::File(region) => (region, None),
        Source::Stream(stream) => Region::from_stream(stream).map_err(|error| match LimitReached::find_in(&error) {
            Some(_) => error,
            None => io::Error::new(error.kind(), format!("it cannot be copied to a temporary file: {error}")),
        })?,
    };
    let budget = budget.of_file(region.taken());
    let directory = Directory::read(&region, &budget)?;
    // Damage to the compression around the archive has cut the archive off.
    let end = failure.map(|_| region.length()).transpose()?;
    let broken = directory.broken.or(end).map(|at| Entry::Damaged(Damage::ArchiveBroken, at));
    let unlisted = directory.unlisted.map(|at| Entry::Damaged(Damage::FileNotListed, at));
    let unreadable = directory.unreadable.into_iter().map(Entry::Unreadable);
    let files = directory.entries.into_iter().filter(|entry| !entry.name.ends_with('/'));
    let files = files.map(move |entry| match entry.refusal() {
        Some((what, advice)) => Entry::Refused { name: entry.name, what, advice },
        None => {
            let (name, region) = (entry.name.clone(), region.clone());
            Entry::File(File { name, open: Box::new(move || Source::Stream(entry.open(&region))) })
        }
    });
    let entries = broken.into_iter().chain(unlisted).chain(unreadable).chain(files);
    Ok(Listing { can_seek: true, budget, entries: Box::new(entries.map(Ok)) })
}
