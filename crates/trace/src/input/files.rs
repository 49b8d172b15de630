//! The files of an input, whatever they hold: NCCL's records have more formats than traces, and readers of their own. The containers are
//! the same. The files of an archive come by name where it can be read in any order.

use std::io::Read;

use super::Input;
use super::containers::limit::Limited;
use super::containers::{Contents, Findings, Opener, Opening, Turn};
use crate::damage::Damage;
use crate::error::Error;

type Bytes = Box<dyn Read + Send>;

static OPENING: Opening<Bytes> = Opening {
    turn: |_| Some(Turn::Last),
    open: |_, _, source, budget| Ok(vec![Box::new(Limited::new(source, budget.clone()))]),
    name: |_| String::new(),
};

pub struct Files {
    name: String,
    contents: Option<Contents<Bytes>>,
    /// What could not be read, a line each.
    left_out: Vec<String>,
}

pub struct File {
    /// The input's name, and after a slash the name in the archive.
    pub name: String,
    pub bytes: Bytes,
}

impl Files {
    pub fn new(input: Input) -> Result<Self, Error> {
        let Input { name, limits, taken, head, source, .. } = input;
        let contents = Opener::new(&OPENING, limits, taken).open(&name, head, source)?;
        Ok(Files { name, contents: Some(contents), left_out: Vec::new() })
    }

    /// The next file. The file before it cannot be read any more.
    #[expect(clippy::should_implement_trait, reason = "an iterator of results would go on after an error")]
    pub fn next(&mut self) -> Result<Option<File>, Error> {
        match self.contents.take() {
            None => Ok(None),
            Some(Contents::File(bytes)) => Ok(Some(File { name: self.name.clone(), bytes })),
            Some(Contents::Archive(mut archive)) => match archive.next()? {
                None => {
                    let (Findings { unreadable, damage, .. }, input) = (archive.into_findings(), &self.name);
                    self.left_out.extend(unreadable.iter().map(|name| format!("{input}/{name}: cannot be read")));
                    let damage = damage.faults().filter(|(damage, _)| damage.kind != Damage::FileUnreadable);
                    self.left_out
                        .extend(damage.map(|(damage, tally)| format!("{input}: {} {}", tally.count, damage.phrase)));
                    Ok(None)
                }
                Some(member) => {
                    self.contents = Some(Contents::Archive(archive));
                    Ok(Some(File { name: format!("{}/{}", self.name, member.name), bytes: member.file }))
                }
            },
        }
    }

    /// What is wrong with an archive, a line each; complete after its last file.
    pub fn left_out(self) -> Vec<String> {
        self.left_out
    }
}
