//! Parts of many files, in one order, each once.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use super::MAGIC;
use super::entry::{Entry, EntryError};

/// How a Parquet file begins and ends.
const PARQUET: &[u8] = b"PAR1";

/// Parts, in the order of their ranks, then traces.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct PartSet {
    /// The documents.
    pub entries: Vec<Entry>,
    /// Traces that are there several times, and count once: the trace, and what it is called elsewhere.
    pub twice: Vec<(String, String)>,
    /// Files, or documents in them, that cannot be used.
    pub unread: Vec<Unread>,
}

/// A file, or a document in it, that cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unread {
    /// The file.
    pub file: PathBuf,
    /// The line of the document, or its number in a table, counted from 1; `None` for a file as a whole.
    pub number: Option<usize>,
    /// Why.
    pub why: String,
}

/// Whether a file has parts, by its beginning.
pub fn is_part(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC.as_bytes()) || beginning.starts_with(PARQUET)
}

impl PartSet {
    /// Reads some files, in any order. What cannot be used is in [`PartSet::unread`].
    pub fn read(files: &[PathBuf]) -> Self {
        let mut set = PartSet::default();
        for file in files {
            match documents(file) {
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

    /// Orders the parts, and keeps one of those that are of the same bytes and question: a trace may be listed twice, as a path or its copy.
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

    /// Leaves parts out, with what is wrong with each.
    pub fn leave_out(&mut self, wrong: Vec<(Entry, String)>) {
        let left_out: BTreeSet<Entry> = wrong.iter().map(|(entry, _)| entry.clone()).collect();
        self.entries.retain(|entry| !left_out.contains(entry));
        let unread = |(entry, why): (Entry, String)| Unread { file: entry.file().to_owned(), number: None, why };
        self.unread.extend(wrong.into_iter().map(unread));
    }

    /// What is wrong with the traces, a line each, with their names.
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

    /// The ranks that are here, as far as they are known.
    pub fn ranks(&self) -> BTreeSet<u32> {
        self.entries.iter().flat_map(|entry| entry.head().ranks.iter().copied()).collect()
    }

    /// How many ranks the job has by its headers: what most of them say.
    pub fn world_size(&self) -> Option<u32> {
        let mut said: BTreeMap<u32, u64> = BTreeMap::new();
        for size in self.entries.iter().filter_map(|entry| entry.head().world_size) {
            *said.entry(size).or_default() += 1;
        }
        said.into_iter().max_by_key(|(size, parts)| (*parts, *size)).map(|(size, _)| size)
    }

    /// The different questions that parts answer, with the file of the first of each.
    pub fn questions(&self) -> BTreeMap<&str, &Path> {
        let mut found = BTreeMap::new();
        self.entries.iter().for_each(|entry| {
            found.entry(&*entry.head().asked).or_insert(entry.file());
        });
        found
    }

    /// The programs that wrote the parts, with how many each.
    pub fn tools(&self) -> BTreeMap<&str, u64> {
        let mut found = BTreeMap::new();
        self.entries.iter().for_each(|entry| *found.entry(&*entry.head().tool).or_default() += 1);
        found
    }

    /// What `read` makes of each part, in order, as many at once as there are threads, and few of them in memory.
    pub fn each<'s, T: Send + 's>(
        &'s self,
        threads: NonZero<usize>,
        read: impl Fn(&Entry) -> T + Sync + 's,
    ) -> impl Iterator<Item = (&'s Entry, T)> {
        /// How many a thread reads before they are used.
        const BATCH: usize = 16;
        let mut batches = self.entries.chunks(threads.get() * BATCH);
        let mut found: VecDeque<(&Entry, T)> = VecDeque::new();
        std::iter::from_fn(move || {
            if found.is_empty() {
                let batch = batches.next()?;
                let read = |entries: &'s [Entry]| entries.iter().map(|entry| (entry, read(entry))).collect::<Vec<_>>();
                std::thread::scope(|scope| {
                    let parts = batch.chunks(batch.len().div_ceil(threads.get()));
                    let threads: Vec<_> = parts.map(|entries| scope.spawn(|| read(entries))).collect();
                    for thread in threads {
                        found.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                    }
                });
            }
            found.pop_front()
        })
    }

    /// Writes them as JSON, a document a line.
    ///
    /// # Errors
    /// What writing fails with.
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

fn documents(file: &Path) -> io::Result<Documents> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(file)?);
    if reader.fill_buf()?.is_empty() {
        return Err(io::Error::other("it is empty"));
    }
    if reader.fill_buf()?.starts_with(PARQUET) {
        return of_parquet(reader.into_inner());
    }
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    // A trace has a million lines that are no parts.
    if !text.trim_ascii_start().is_empty() && !text.trim_ascii_start().starts_with(MAGIC.as_bytes()) {
        return Err(io::Error::other(format!("this is no part: it does not begin with {MAGIC}")));
    }
    let lines = text.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty());
    Ok(lines.map(|(at, line)| (Some(at + 1), Entry::of_json(line))).collect())
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

    /// A disk that is full when the last bytes are written.
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
