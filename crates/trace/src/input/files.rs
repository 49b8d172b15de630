//! The files of an input, whatever they hold: NCCL's own records have more formats than traces, and readers of their own.
//!
//! Layers of compression and archives are the same as those of traces. The files of an archive come by name where it can be read in
//! any order.

use std::io::Read;

use super::Input;
use super::containers::limit::Limited;
use super::containers::{Archive, Contents, Opener, Opening, Turn};
use crate::damage::Damage;
use crate::error::Error;

/// The decompressed bytes of a file.
type Bytes = Box<dyn Read + Send>;

/// Files are read as they are.
static OPENING: Opening<Bytes> = Opening {
    turn: |_| Some(Turn::Last),
    open: |_, _, source, budget| Ok(vec![Box::new(Limited::new(source.into_bytes(), budget.clone()))]),
    name: |_| String::new(),
};

/// The files of an input, one after the other.
pub struct Files {
    name: String,
    contents: Option<Contents<Bytes>>,
    /// What could not be read, a line each.
    left_out: Vec<String>,
}

pub struct File {
    /// Its name: that of the input, with that in the archive after a slash.
    pub name: String,
    pub bytes: Bytes,
}

impl Files {
    /// Opens an input.
    ///
    /// # Errors
    /// Archives that cannot be read, and more than four layers of compression.
    pub fn new(input: Input) -> Result<Self, Error> {
        let Input { name, limits, taken, head, source, .. } = input;
        let contents = Opener::new(&OPENING, limits, taken).open(&name, head, source)?;
        Ok(Files { name, contents: Some(contents), left_out: Vec::new() })
    }

    /// The next file. The file before it cannot be read any more.
    ///
    /// # Errors
    /// Those of reading an archive.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<File>, Error> {
        match self.contents.take() {
            None => Ok(None),
            Some(Contents::File(bytes)) => Ok(Some(File { name: self.name.clone(), bytes })),
            Some(Contents::Archive(mut archive)) => match archive.next()? {
                None => {
                    self.end(*archive);
                    Ok(None)
                }
                Some(member) => {
                    self.contents = Some(Contents::Archive(archive));
                    Ok(Some(File { name: format!("{}/{}", self.name, member.name), bytes: member.file }))
                }
            },
        }
    }

    fn end(&mut self, archive: Archive<Bytes>) {
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
