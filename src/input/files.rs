//! The files of an input, whatever they hold: NCCL's own records have more formats than traces, and readers of their own.
//!
//! Layers of compression and archives are the same as those of traces. The files of an archive come by name where it can be read in
//! any order.

use std::io::Read;

use super::contents::{Archive, Contents, Opener};
use super::format::{Fit, Format, Formats, Reader, Text};
use super::{Input, archive, gzip, zstd};
use crate::damage::Damage;
use crate::error::Error;

/// A file that is neither compressed nor an archive is read as it is.
const ANY: Format = Format { sniff: |_| Fit::Maybe, reader: Reader::Trace(Text::Json) };

const FORMATS: Formats = Formats(&[gzip::FORMAT, zstd::FORMAT, archive::zip::FORMAT, archive::tar::FORMAT, ANY]);

/// The files of an input, one after the other.
pub struct Files {
    name: String,
    contents: Option<Contents>,
    /// What could not be read, a line each.
    left_out: Vec<String>,
}

/// A file of an input.
pub struct File {
    /// Its name: that of the input, with that in the archive after a slash.
    pub name: String,
    /// Its decompressed bytes.
    pub bytes: Box<dyn Read + Send>,
}

impl Files {
    /// The files of an input.
    ///
    /// # Errors
    /// Archives that cannot be read, and more than four layers of compression.
    pub fn of(input: Input) -> Result<Self, Error> {
        let Input { name, limits, taken, source, .. } = input;
        let contents = Opener::new(FORMATS, limits, taken).open(&name, source)?;
        Ok(Files { name, contents: Some(contents), left_out: Vec::new() })
    }

    /// The next file. The file before it cannot be read any more.
    ///
    /// # Errors
    /// Those of reading an archive.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<File>, Error> {
        match self.contents.take() {
            None | Some(Contents::Packets(_) | Contents::Process(_)) => Ok(None),
            Some(Contents::Json(bytes)) => Ok(Some(File { name: self.name.clone(), bytes })),
            Some(Contents::Archive(mut archive)) => match archive.next()? {
                None => {
                    self.end(*archive);
                    Ok(None)
                }
                Some(member) => {
                    self.contents = Some(Contents::Archive(archive));
                    let name = format!("{}/{}", self.name, member.name);
                    match member.contents {
                        Contents::Json(bytes) => Ok(Some(File { name, bytes })),
                        // An archive's files are handed out one by one, and no format here is one of these.
                        Contents::Packets(_) | Contents::Process(_) | Contents::Archive(_) => self.next(),
                    }
                }
            },
        }
    }

    fn end(&mut self, archive: Archive) {
        let findings = archive.into_findings();
        self.left_out.extend(findings.unreadable.iter().map(|name| format!("{}/{name}: cannot be read", self.name)));
        let damage = findings.damage.faults().filter(|(damage, _)| damage.kind != Damage::FileUnreadable);
        self.left_out.extend(damage.map(|(damage, tally)| format!("{}: {} {}", self.name, tally.count, damage.phrase)));
    }

    /// What is wrong with an archive, a line each; complete after its last file.
    pub fn left_out(self) -> Vec<String> {
        self.left_out
    }
}
