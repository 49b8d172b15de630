//! Loading: opens a file, runs the reader of its format, and builds the store.
//!
//! The traces of an archive, or of several inputs, are loaded one after the other into one store.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::damage::Damage;
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::input::containers::{Findings, Member};
use crate::input::limit::Limits;
use crate::input::{self, Archive, Contents, Input, Reading, Summary};
use crate::store::batch::Shard;
use crate::store::traces::Trace;
use crate::store::{Builder, Store};
use crate::time::TimeRule;

#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How JSON times become nanoseconds: microseconds unless the file is known to differ
    /// ([`Store::in_nanoseconds`](crate::store::Store::in_nanoseconds)). Other formats define their unit.
    pub time: TimeRule,
    pub args: ArgsWanted,
    /// How many threads read, and answer questions about the store; `None`: one per core, up to 16. The result is the same.
    pub threads: Option<NonZero<usize>>,
    /// How many bytes of text a thread takes at a time; `None`: 512 KiB, the fastest. A stretch of nesting has one event for every 32 of
    /// these bytes. The result is the same, except for how much text is saved before corrupt compressed data, and how much of a broken
    /// event that crosses the end of a chunk.
    pub chunk: Option<NonZero<usize>>,
    /// Whether to keep the byte offsets of events, eight bytes each, so that events can be copied.
    pub keep_offsets: bool,
    /// How much text a trace may have.
    pub limits: Limits,
}

#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub taken: u64,
    /// The file's size, if it is known.
    pub size: Option<u64>,
}

/// More threads than this would only wait for the one that decompresses.
const MAX_THREADS: usize = 16;

/// How many bytes of a chunk count as one event of a stretch: the ratio of the default sizes.
const BYTES_OF_EVENT: usize = 32;

#[derive(Debug)]
pub struct Loaded {
    pub store: Store,
    pub name: String,
    /// How many bytes of (decompressed) text were read.
    pub text_bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// What an archive holds beside traces. For several inputs: of all archives among them, with names that begin with the archive's.
    pub findings: Findings,
    /// For several inputs: the errors of those from which nothing was loaded.
    pub unread: Vec<Error>,
}

/// Loads a trace, `-` for standard input. Damage after the first whole event is no error, but counted in [`Store::damage`].
pub fn load(
    path: impl AsRef<Path>,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    load_input(input::open(path.as_ref())?, options, progress)
}

/// The same for an opened input. Loads all traces of an archive, see [`crate::store::traces`].
pub fn load_input(input: Input, options: LoadOptions, progress: impl FnMut(Progress) + Send) -> Result<Loaded, Error> {
    let name = input.name.clone();
    let mut loader = Loader::new(options, progress);
    loader.size = input.size;
    let findings = loader.all(input)?;
    Ok(loader.take(name, findings))
}

/// Loads several inputs one after the other into one store, as if they were the traces of one archive. Each trace is named after its file,
/// also if the file is not an archive. An input that cannot be read at all is left out, see [`Loaded::unread`]; one that fails after part of it is
/// in the store is an error.
pub fn load_all(
    paths: &[PathBuf],
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    if let [path] = paths {
        return load(path, options, progress);
    }
    let mut loader = Loader::new(options, progress);
    (loader.is_one_of_many, loader.size) = (true, paths.iter().map(|path| size_of(path)).sum());
    let (mut findings, mut unread) = (Findings::default(), Vec::new());
    for path in paths {
        let traces = loader.builder.traces();
        loader.has_dropped_events = false;
        let read = input::open(path).and_then(|input| {
            let name = input.name.clone();
            loader.all(input).map(|of_input| (name, of_input))
        });
        match read {
            Ok((name, of_input)) => findings.take(&name, of_input),
            Err(error) if loader.has_dropped_events || loader.builder.traces() > traces => return Err(error),
            Err(error) => unread.push(error),
        }
        loader.before += size_of(path).unwrap_or(0);
    }
    if unread.len() == paths.len() && !unread.is_empty() {
        return Err(unread.swap_remove(0));
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(Loaded { unread, ..loader.take(names.join(", "), findings) })
}

/// A builder whose stretches match the load's chunks.
fn builder_of(options: LoadOptions) -> Builder {
    Builder::of_stretches(
        options.chunk.map(|chunk| NonZero::new(chunk.get() / BYTES_OF_EVENT).unwrap_or(NonZero::<usize>::MIN)),
    )
}

fn threads_of(options: LoadOptions) -> NonZero<usize> {
    let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = options.threads.map_or_else(available, NonZero::get).min(MAX_THREADS);
    NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN)
}

fn size_of(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}

/// Loads the traces of an input one after the other, each into its own store, so that only one is in memory at a time. `each` receives
/// every trace, also before an error, and may stop the load. Findings about the archive as a whole are returned, with an empty store.
pub fn load_each(
    input: Input,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
    mut each: impl FnMut(Loaded) -> ControlFlow<()>,
) -> Result<Loaded, Error> {
    let name = input.name.clone();
    let mut loader = Loader::new(options, progress);
    loader.size = input.size;
    let findings = match loader.open(input)? {
        Contents::Archive(archive) => loader.archive(&name, *archive, |loader, member| {
            each(loader.take(format!("{name}/{member}"), Findings::default()))
        })?,
        Contents::File(opened) => {
            loader.trace(&name, opened, Trace::default())?;
            let _ = each(loader.take(name.clone(), Findings::default()));
            Findings::default()
        }
    };
    Ok(loader.take(name, findings))
}

struct Loader<F> {
    options: LoadOptions,
    threads: NonZero<usize>,
    progress: F,
    /// How many bytes of the input have been read, and how many the inputs before it have.
    taken: Arc<AtomicU64>,
    before: u64,
    /// The size of all inputs.
    size: Option<u64>,
    builder: Builder,
    text_bytes: u64,
    /// When what is loaded now was begun.
    since: Instant,
    /// Whether trace names begin with the archive's own name.
    is_one_of_many: bool,
    /// Whether a trace was dropped after some of its events were stored.
    has_dropped_events: bool,
}

impl<F: FnMut(Progress) + Send> Loader<F> {
    fn new(options: LoadOptions, progress: F) -> Self {
        Loader {
            options,
            threads: threads_of(options),
            progress,
            taken: Arc::default(),
            before: 0,
            size: None,
            builder: builder_of(options),
            text_bytes: 0,
            since: Instant::now(),
            is_one_of_many: false,
            has_dropped_events: false,
        }
    }

    fn open(&mut self, mut input: Input) -> Result<Contents, Error> {
        input.limits = self.options.limits;
        self.taken = Arc::clone(&input.taken);
        input.into_contents()
    }

    /// Loads all traces of an input. One of many gets its name, also if it is no archive.
    fn all(&mut self, input: Input) -> Result<Findings, Error> {
        let name = input.name.clone();
        match self.open(input)? {
            Contents::Archive(archive) => self.archive(&name, *archive, |_, _| ControlFlow::Continue(())),
            Contents::File(opened) => {
                let of_trace = Some(name.clone()).filter(|_| self.is_one_of_many);
                self.trace(&name, opened, Trace { name: of_trace, ..Trace::default() }).map(|()| Findings::default())
            }
        }
    }

    /// Takes everything loaded since the last call, with what else there is.
    fn take(&mut self, name: String, findings: Findings) -> Loaded {
        let builder = std::mem::replace(&mut self.builder, builder_of(self.options));
        let store = builder.finish(findings.damage.clone(), self.threads);
        let text_bytes = std::mem::take(&mut self.text_bytes);
        let seconds = std::mem::replace(&mut self.since, Instant::now()).elapsed().as_secs_f64();
        Loaded { store, name, text_bytes, seconds, findings, unread: Vec::new() }
    }

    /// Loads all traces of an archive. Skips files that are not traces or are damaged before their first event. Calls `loaded` with each
    /// trace's name; it may stop the load.
    fn archive(
        &mut self,
        name: &str,
        mut archive: Archive,
        mut loaded: impl FnMut(&mut Self, &str) -> ControlFlow<()>,
    ) -> Result<Findings, Error> {
        // How many traces had each name.
        let (mut names, mut first_failure) = (HashMap::<String, usize>::new(), None);
        while let Some(member) = archive.next()? {
            let Member { name: of_member, place, file } = member;
            let shown = match names.get(&of_member) {
                None => of_member.clone(),
                Some(before) => format!("{of_member} ({})", before + 1),
            };
            let full = format!("{name}/{shown}");
            let of_trace = if self.is_one_of_many { full.clone() } else { shown.clone() };
            let trace = Trace { name: Some(of_trace), place, ..Trace::default() };
            match self.trace(&full, file, trace) {
                Ok(()) => {
                    *names.entry(of_member).or_default() += 1;
                    if loaded(self, &shown).is_break() {
                        break;
                    }
                }
                Err(Error::NotATrace { .. }) => archive.findings.no_trace(shown),
                Err(error @ (Error::NothingWhole { .. } | Error::CorruptBeforeFirstEvent { .. })) => {
                    first_failure = first_failure.or(Some(error));
                    archive.findings.unreadable(shown);
                }
                Err(error) => return Err(error),
            }
        }
        let mut findings = archive.into_findings();
        let broken = broken(name, &findings);
        match (first_failure.or(findings.refusal.take()), broken) {
            _ if !names.is_empty() => Ok(findings),
            (Some(error), _) => Err(error),
            (None, Some((name, offset))) => Err(Error::ArchiveCutOff { name, offset }),
            (None, None) => Err(Error::NoTraceInArchive { name: name.to_owned(), list: held(&findings) }),
        }
    }

    fn trace(&mut self, name: &str, opened: input::Trace, mut trace: Trace) -> Result<(), Error> {
        trace.format = Some(opened.format());
        match self.read(name, opened) {
            Ok(Summary { header, events, damage, text_bytes, .. }) => {
                (trace.events, trace.damage, trace.text_bytes) = (events, damage, text_bytes);
                name.clone_into(&mut trace.file);
                self.builder.end_trace(header, trace);
                Ok(())
            }
            Err(error) => {
                self.has_dropped_events |= self.builder.drop_trace();
                Err(error)
            }
        }
    }

    fn read(&mut self, name: &str, opened: input::Trace) -> Result<Summary, Error> {
        let Loader { options, threads, progress, taken, before, size, builder, text_bytes, .. } = self;
        let LoadOptions { time, args, chunk, keep_offsets, .. } = *options;
        let mut progress = || progress(Progress { taken: *before + taken.load(Ordering::Relaxed), size: *size });
        let (threads, progress) = (*threads, &mut progress);
        let mut reading = Reading { name, time, args, threads, chunk, keep_offsets, progress, text_bytes };
        let summary = opened.read::<Shard>(&mut reading, |batch| {
            builder.add(batch);
            !builder.is_full()
        });
        if builder.is_full() {
            return Err(Error::TooLarge { name: name.to_owned() });
        }
        summary
    }
}

/// The truncated archive and the byte where it ends: this archive, or one inside it.
fn broken(name: &str, Findings { inner, damage, .. }: &Findings) -> Option<(String, u64)> {
    let outer = damage.get(Damage::ArchiveBroken).first_offset.map(|offset| (name.to_owned(), offset));
    let inner = inner.iter().find(|damage| damage.kind == Damage::ArchiveBroken);
    outer.or_else(|| inner.map(|inner| (format!("{name}/{}", inner.archive), inner.offset)))
}

/// The contents of an archive without traces.
fn held(Findings { no_traces, unreadable, damage, .. }: &Findings) -> String {
    let [other, bad] = [Damage::NoTraceInFile, Damage::FileUnreadable].map(|kind| damage.get(kind).count);
    let of_bad = format!("nothing readable in {}", some_files(bad, unreadable));
    match (other, bad) {
        (_, 0) => some_files(other, no_traces),
        (0, _) => of_bad,
        _ => format!("{}, and {of_bad}", some_files(other, no_traces)),
    }
}

/// `3 files: a.txt, b.csv and 1 more`
fn some_files(count: u64, names: &[String]) -> String {
    let names = &names[..names.len().min(SHOWN)];
    let (shown, more) = (names.join(", "), count - names.len() as u64);
    match count {
        0 => "no files, or only hidden and empty ones".to_owned(),
        1 => format!("1 file: {shown}"),
        n if more > 0 => format!("{n} files: {shown} and {more} more"),
        n => format!("{n} files: {shown}"),
    }
}

/// How many files of an archive a message names.
const SHOWN: usize = 8;
