//! The parts of many files, sorted and without duplicates.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::MAGIC;
use super::entry::{Entry, EntryError};
use crate::parallel::in_order;

/// The first and last bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// Parts, sorted by rank, then trace.
#[derive(Debug, Default)]
pub struct PartSet {
    pub entries: Vec<Entry>,
    /// Duplicate traces, which count once: the trace, and its name elsewhere.
    pub twice: Vec<(String, String)>,
    /// Files, or documents in them, that could not be used.
    pub unread: Vec<Unread>,
}

/// A file, or a document in it, that could not be used.
#[derive(Debug)]
pub struct Unread {
    pub file: PathBuf,
    /// The line of the document, or its number in a table, counted from 1; `None` for a file as a whole.
    pub number: Option<usize>,
    pub why: String,
}

/// Whether a file has parts, judged by its first bytes.
pub fn is_part(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC.as_bytes()) || beginning.starts_with(PARQUET)
}

impl PartSet {
    /// Reads files in any order. [`PartSet::unread`] lists those that cannot be used. `progress` is given how many bytes of them have been read.
    pub fn read(files: &[PathBuf], mut progress: impl FnMut(u64)) -> Self {
        let (mut set, mut before) = (PartSet::default(), 0);
        for file in files {
            let mut of_file = 0;
            let found = documents(file, |bytes| {
                of_file = bytes;
                progress(before + bytes);
            });
            before += of_file;
            match found {
                Ok(found) if found.is_empty() => {
                    let why = "there is no part in it".to_owned();
                    set.unread.push(Unread { file: file.clone(), number: None, why });
                }
                Ok(found) => found.into_iter().for_each(|(number, entry)| match entry {
                    Ok(entry) => set.entries.push(entry.of_file(file)),
                    Err(why) => set.unread.push(Unread { file: file.clone(), number, why: why.to_string() }),
                }),
                Err(error) => set.unread.push(Unread { file: file.clone(), number: None, why: error.to_string() }),
            }
        }
        set.order();
        set
    }

    /// Sorts the parts, and keeps one of several with the same bytes and question: a trace may be listed twice, or a copy of it.
    fn order(&mut self) {
        self.entries.sort_unstable();
        self.entries.dedup_by(|a, b| a.head() == b.head() && a.packed() == b.packed());
        let mut known: BTreeMap<(String, Option<String>, String, Vec<u32>), String> = BTreeMap::new();
        let twice = &mut self.twice;
        self.entries.retain(|entry| {
            let head = entry.head();
            let Some(digest) = head.input.digest.clone() else { return true };
            match known.entry((digest, head.input.member.clone(), head.asked.clone(), head.ranks.clone())) {
                btree_map::Entry::Occupied(first) => {
                    twice.push((first.get().clone(), head.trace.clone()));
                    false
                }
                btree_map::Entry::Vacant(new) => {
                    new.insert(head.trace.clone());
                    true
                }
            }
        });
    }

    /// Leaves parts out, each with the reason.
    pub fn leave_out(&mut self, wrong: Vec<(Entry, String)>) {
        let left_out: BTreeSet<Entry> = wrong.iter().map(|(entry, _)| entry.clone()).collect();
        self.entries.retain(|entry| !left_out.contains(entry));
        let unread = |(entry, why): (Entry, String)| Unread { file: entry.file().to_owned(), number: None, why };
        self.unread.extend(wrong.into_iter().map(unread));
    }

    /// The damage of all traces, one line each, with their names.
    pub fn damage(&self) -> Vec<String> {
        let of_entry = |entry: &Entry| {
            let head = entry.head();
            let named = |line: &String| match line.starts_with(&head.trace) {
                true => line.clone(),
                false => format!("{}: {line}", head.trace),
            };
            head.damage.iter().map(named).collect::<Vec<_>>()
        };
        self.entries.iter().flat_map(of_entry).collect()
    }

    /// The ranks of the parts, as far as known.
    pub fn ranks(&self) -> BTreeSet<u32> {
        self.entries.iter().flat_map(|entry| entry.head().ranks.iter().copied()).collect()
    }

    /// The number of ranks of the job, as most headers have it.
    pub fn world_size(&self) -> Option<u32> {
        let mut said: BTreeMap<u32, u64> = BTreeMap::new();
        for size in self.entries.iter().filter_map(|entry| entry.head().world_size) {
            *said.entry(size).or_default() += 1;
        }
        said.into_iter().max_by_key(|(size, parts)| (*parts, *size)).map(|(size, _)| size)
    }

    /// The distinct questions that the parts answer, each with the first file that answers it.
    pub fn questions(&self) -> BTreeMap<&str, &Path> {
        let mut found = BTreeMap::new();
        self.entries.iter().for_each(|entry| {
            found.entry(&*entry.head().asked).or_insert(entry.file());
        });
        found
    }

    /// The programs that wrote the parts, with the number of parts from each.
    pub fn tools(&self) -> BTreeMap<&str, u64> {
        let mut found = BTreeMap::new();
        self.entries.iter().for_each(|entry| *found.entry(&*entry.head().tool).or_default() += 1);
        found
    }

    /// Maps each part with `read`, in order and on all threads, with only a few parts in memory.
    pub fn each<'s, T: Send + 's>(
        &'s self,
        threads: NonZero<usize>,
        read: impl Fn(&Entry) -> T + Sync + 's,
    ) -> impl Iterator<Item = (&'s Entry, T)> {
        /// How many parts each thread reads per round.
        const BATCH: usize = 16;
        let mut batches = self.entries.chunks(threads.get() * BATCH);
        let mut found: VecDeque<(&Entry, T)> = VecDeque::new();
        std::iter::from_fn(move || {
            if found.is_empty() {
                let batch = batches.next()?;
                found.extend(in_order(batch.len(), threads.get(), |at| (&batch[at], read(&batch[at]))));
            }
            found.pop_front()
        })
    }

    /// Writes the parts as JSON, one document per line.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        for entry in &self.entries {
            out.write_all(&entry.json()?)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }
}

/// A file's documents, each with its number if there are several.
type Documents = Vec<(Option<usize>, Result<Entry, EntryError>)>;

fn documents(file: &Path, mut progress: impl FnMut(u64)) -> io::Result<Documents> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(file)?);
    if reader.fill_buf()?.is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    if reader.fill_buf()?.starts_with(PARQUET) {
        let file = reader.into_inner();
        let size = file.metadata()?.len();
        let found = of_parquet(file)?;
        progress(size);
        return Ok(found);
    }
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    // A trace may have a million lines, none of which is a part.
    if !text.trim_ascii_start().is_empty() && !text.trim_ascii_start().starts_with(MAGIC.as_bytes()) {
        return Err(io::Error::other(format!("this is not a part: it does not begin with {MAGIC}")));
    }
    let (mut found, mut taken) = (Vec::new(), 0);
    for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if !line.is_empty() {
            found.push((Some(at + 1), Entry::of_json(line)));
        }
        taken += line.len() as u64 + 1;
        progress(taken);
    }
    Ok(found)
}

#[cfg(feature = "parquet")]
fn of_parquet(file: File) -> io::Result<Documents> {
    let packed = super::parquet::documents(file).map_err(io::Error::other)?;
    Ok(packed.into_iter().enumerate().map(|(at, packed)| (Some(at + 1), Entry::of_packed(packed))).collect())
}

#[cfg(not(feature = "parquet"))]
fn of_parquet(_: File) -> io::Result<Documents> {
    Err(io::Error::other("this program was built without the feature `parquet`; parts as .json need none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{InputFile, TracePart};

    /// A disk that becomes full with the last bytes.
    struct Full;

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let part = TracePart::new("trace".to_owned(), InputFile::default(), String::new());
        let set = PartSet { entries: vec![Entry::new(&part).unwrap()], ..PartSet::default() };
        assert_eq!(set.write_json(&mut Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
