//! Loading: opens a file, runs the reader of its format, and builds the store.
//!
//! The traces of an archive, or of several inputs, are loaded one after the other into one store.

mod options;
mod shard;

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::damage::{Damage, DamageReport};
use crate::error::Error;
use crate::input::containers::{Findings, Member};
use crate::input::{self, Archive, Contents, Input, Reading, Summary};
use crate::store::batch::Shard;
use crate::store::traces::Trace;
use crate::store::{Builder, Store};
pub use options::{LoadOptions, Progress};

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
pub fn load_input(
    mut input: Input,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    let start = Instant::now();
    input.limits = options.limits;
    let name = input.name.clone();
    let (mut loader, contents) = Loader::new(input, options, progress)?;
    let findings = loader.all(&name, contents, None)?;
    let Loader { builder, text_bytes, threads, .. } = loader;
    let store = builder.finish(findings.damage.clone(), threads);
    Ok(Loaded { store, name, text_bytes, seconds: start.elapsed().as_secs_f64(), findings, unread: Vec::new() })
}

/// Loads several inputs one after the other into one store, as if they were the traces of one archive. Each trace is named after its file,
/// also if the file is not an archive. An input that cannot be read at all is left out, see [`Loaded::unread`]; one that fails after part of it is
/// in the store is an error.
pub fn load_all(
    paths: &[PathBuf],
    options: LoadOptions,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    if let [path] = paths {
        return load(path, options, progress);
    }
    let start = Instant::now();
    let size: Option<u64> = paths.iter().map(|path| size_of(path)).sum();
    let (mut builder, mut text_bytes, mut findings, mut unread) =
        (builder_of(options), 0, Findings::default(), Vec::new());
    let (mut before, mut loaded) = (0, 0);
    for path in paths {
        let shown = |Progress { taken, .. }| progress(Progress { taken: before + taken, size });
        match add_input(path, options, shown, &mut builder, &mut text_bytes) {
            Ok((name, of_input)) => {
                findings.take(&name, of_input);
                loaded += 1;
            }
            Err((error, true)) => unread.push(error),
            Err((error, false)) => return Err(error),
        }
        before += size_of(path).unwrap_or(0);
    }
    if loaded == 0 && !unread.is_empty() {
        return Err(unread.swap_remove(0));
    }
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let store = builder.finish(findings.damage.clone(), threads_of(options));
    let seconds = start.elapsed().as_secs_f64();
    Ok(Loaded { store, name: names.join(", "), text_bytes, seconds, findings, unread })
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

/// Adds the traces of one input to the store. With an error comes whether the input can be left out, because nothing of it was added.
fn add_input(
    path: &Path,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
    builder: &mut Builder,
    text_bytes: &mut u64,
) -> Result<(String, Findings), (Error, bool)> {
    let mut input = input::open(path).map_err(|error| (error, true))?;
    input.limits = options.limits;
    let name = input.name.clone();
    let (mut loader, contents) = Loader::new(input, options, progress).map_err(|error| (error, true))?;
    loader.is_one_of_many = true;
    loader.builder = std::mem::take(builder);
    let traces = loader.builder.traces();
    let read = loader.all(&name, contents, Some(name.clone()));
    *builder = loader.builder;
    *text_bytes += loader.text_bytes;
    let is_clean = !loader.has_dropped_events && builder.traces() == traces;
    read.map(|findings| (name, findings)).map_err(|error| (error, is_clean))
}

/// Loads the traces of an input one after the other, each into its own store, so that only one is in memory at a time. `each` receives
/// every trace, also before an error, and may stop the load. Findings about the archive as a whole are returned, with an empty store.
pub fn load_each(
    mut input: Input,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
    mut each: impl FnMut(Loaded) -> ControlFlow<()>,
) -> Result<Loaded, Error> {
    let mut start = Instant::now();
    input.limits = options.limits;
    let name = input.name.clone();
    let (mut loader, contents) = Loader::new(input, options, progress)?;
    let archive = match contents {
        Contents::Archive(archive) => archive,
        Contents::File(opened) => {
            loader.trace(&name, opened, Trace::default())?;
            let loaded = loader.take(name.clone(), &mut start);
            let _ = each(loaded);
            return Ok(loader.take(name, &mut start));
        }
    };
    let findings = loader.archive(&name, *archive, |loader, member| {
        let loaded = loader.take(format!("{name}/{member}"), &mut start);
        each(loaded)
    })?;
    let store = Builder::default().finish(findings.damage.clone(), NonZero::<usize>::MIN);
    Ok(Loaded { store, findings, ..loader.take(name, &mut start) })
}

struct Loader<F> {
    options: LoadOptions,
    threads: NonZero<usize>,
    progress: F,
    taken: Arc<AtomicU64>,
    size: Option<u64>,
    builder: Builder,
    text_bytes: u64,
    /// Whether trace names begin with the archive's own name.
    is_one_of_many: bool,
    /// Whether a trace was dropped after some of its events were stored.
    has_dropped_events: bool,
}

impl<F: FnMut(Progress) + Send> Loader<F> {
    fn new(input: Input, options: LoadOptions, progress: F) -> Result<(Self, Contents), Error> {
        let loader = Loader {
            options,
            threads: threads_of(options),
            progress,
            taken: Arc::clone(&input.taken),
            size: input.size,
            builder: builder_of(options),
            text_bytes: 0,
            is_one_of_many: false,
            has_dropped_events: false,
        };
        Ok((loader, input.into_contents()?))
    }

    /// Loads all traces of an input. The trace of one that is no archive gets a name.
    fn all(&mut self, name: &str, contents: Contents, of_trace: Option<String>) -> Result<Findings, Error> {
        match contents {
            Contents::Archive(archive) => self.archive(name, *archive, |_, _| ControlFlow::Continue(())),
            Contents::File(opened) => {
                self.trace(name, opened, Trace { name: of_trace, ..Trace::default() }).map(|()| Findings::default())
            }
        }
    }

    /// Takes everything loaded since the last call.
    fn take(&mut self, name: String, since: &mut Instant) -> Loaded {
        let store = std::mem::replace(&mut self.builder, builder_of(self.options))
            .finish(DamageReport::default(), self.threads);
        let text_bytes = std::mem::take(&mut self.text_bytes);
        let seconds = std::mem::replace(since, Instant::now()).elapsed().as_secs_f64();
        Loaded { store, name, text_bytes, seconds, findings: Findings::default(), unread: Vec::new() }
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
        let Loader { options, threads, progress, taken, size, builder, text_bytes, .. } = self;
        let LoadOptions { time, args, chunk, keep_offsets, .. } = *options;
        let mut progress = || progress(Progress { taken: taken.load(Ordering::Relaxed), size: *size });
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
