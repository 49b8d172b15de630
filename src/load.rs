//! The pipeline: threads take turns at reading and decompressing, and each cuts and parses what it has just read.
//!
//! A gzip stream can be decompressed by one thread at a time only, and parsing takes about as long. So whoever has the baton
//! decompresses the next chunk into its own memory, where it stays in that processor's cache, hands the baton on, and parses
//! the chunk while another thread decompresses. There is no queue, and the load balances itself. What was parsed is put
//! together in file order; since nothing is numbered before that, the result does not depend on the threads.
//!
//! The traces of an archive are loaded one after the other, by all threads each, into one store.
//!
//! What is in Perfetto's protobuf format is read by one thread (`packets`).

mod packets;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::damage::Damage;
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::event::HeaderField;
use crate::input::archive::Findings;
use crate::input::json::{Buffer, CHUNK, Chunk, Joiner, Part, Reader, Splitter, Summary};
use crate::input::limit::Limits;
use crate::input::packed::{PackedCause, PackedFailure};
use crate::input::proto::Stream;
use crate::input::{self, Archive, Contents, Input, Member};
use crate::store::batch::{Batch, Shard};
use crate::store::traces::Trace;
use crate::store::{Builder, Store};
use crate::time::TimeRule;

/// More threads than this have nothing to do: they would wait for the one that decompresses.
const MAX_THREADS: usize = 16;

/// Chunks are no larger, whatever was asked for.
const MAX_CHUNK: usize = 64 << 20;

/// How many chunks per thread may wait for one before them.
const MAX_AHEAD: u64 = 4;

/// After so many wrong guesses the file is read without guessing.
const MAX_WRONG: usize = 16;

/// How to load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How microseconds become nanoseconds.
    pub time: TimeRule,
    /// Which arguments to keep.
    pub args: ArgsWanted,
    /// How many threads read; `None`: as many as the machine has, up to 16. The result is the same.
    pub threads: Option<NonZero<usize>>,
    /// How many bytes of text a thread takes at a time; `None`: 512 KiB, which is best. The result is the same, but for how much
    /// text is saved before a place where compressed data are corrupt, and of a broken event that lies across the end of what a
    /// thread took.
    pub chunk: Option<NonZero<usize>>,
    /// Whether to keep where in the text the events stand, so that they can be copied: eight bytes for each.
    pub places: bool,
    /// How much text the trace may have.
    pub limits: Limits,
}

/// What was loaded, and how.
#[derive(Debug)]
pub struct Loaded {
    /// The trace, or those of an archive.
    pub store: Store,
    /// The file's name for messages.
    pub name: String,
    /// How many bytes of (decompressed) text were read.
    pub text_bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
    /// What an archive holds besides traces.
    pub findings: Findings,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Bytes taken from the file.
    pub taken: u64,
    /// The file's size, if it is known.
    pub size: Option<u64>,
}

/// Loads a trace, `-` for standard input. `progress` is called now and then, for every block of text.
///
/// # Errors
/// What [`input::open`] fails with; a file that is no trace; one with more text than it may have; a file that is damaged before
/// the first whole event. Damage further on is counted in [`Store::damage`] instead.
pub fn load(
    path: impl AsRef<Path>,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    load_input(input::open(path.as_ref())?, options, progress)
}

/// The same for an opened input. Of an archive all traces are loaded, each as a machine of its own ([`crate::store::traces`]).
///
/// # Errors
/// As [`load`], less what concerns paths.
pub fn load_input(
    mut input: Input,
    options: LoadOptions,
    progress: impl FnMut(Progress) + Send,
) -> Result<Loaded, Error> {
    let start = Instant::now();
    input.limits = options.limits;
    let (name, size, taken) = (input.name.clone(), input.size, Arc::clone(&input.taken));
    let available = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = options.threads.map_or_else(available, NonZero::get).clamp(1, MAX_THREADS);
    let contents = input.into_contents()?;
    let mut loader = Loader { options, threads, progress, taken, size, builder: Builder::default(), text_bytes: 0 };
    let findings = match contents {
        Contents::Archive(archive) => loader.archive(&name, *archive)?,
        text => {
            loader.trace(&name, text, Trace::default())?;
            Findings::default()
        }
    };
    let Loader { builder, text_bytes, .. } = loader;
    let store = builder.finish(findings.damage.clone());
    Ok(Loaded { store, name, text_bytes, seconds: start.elapsed().as_secs_f64(), findings })
}

/// Loads traces one after the other.
struct Loader<F> {
    options: LoadOptions,
    threads: usize,
    progress: F,
    taken: Arc<AtomicU64>,
    size: Option<u64>,
    builder: Builder,
    text_bytes: u64,
}

impl<F: FnMut(Progress) + Send> Loader<F> {
    /// Loads all traces of an archive. What is none is passed over, and so is what is damaged before its first event.
    fn archive(&mut self, name: &str, mut archive: Archive) -> Result<Findings, Error> {
        // How often there has been a trace of each name.
        let (mut names, mut first_failure) = (HashMap::<String, usize>::new(), None);
        while let Some(member) = archive.next()? {
            let Member { name: of_member, place, contents } = member;
            let shown = match names.get(&of_member) {
                None => of_member.clone(),
                Some(before) => format!("{of_member} ({})", before + 1),
            };
            let trace = Trace { name: Some(shown.clone()), place, ..Trace::default() };
            match self.trace(&format!("{name}/{shown}"), contents, trace) {
                Ok(()) => *names.entry(of_member).or_default() += 1,
                Err(Error::NotATrace { .. }) => archive.is_no_trace(shown),
                Err(error @ (Error::NothingWhole { .. } | Error::CorruptBeforeFirstEvent { .. })) => {
                    first_failure = first_failure.or(Some(error));
                    archive.is_unreadable(shown);
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

    /// Loads one trace, which is no archive.
    fn trace(&mut self, name: &str, contents: Contents, mut trace: Trace) -> Result<(), Error> {
        let read = match contents {
            Contents::Packets(stream) => self.packets(name, stream, &mut trace),
            Contents::Json(text) => self.json(name, text, &mut trace),
            // What holds the files of an archive hands out what is in the archives among them.
            Contents::Archive(_) => {
                Err(Error::NotATrace { name: name.to_owned(), what: "this is an archive".to_owned() })
            }
        };
        match read {
            Ok(header) => {
                // Of a file in an archive it is not known how large it is.
                if let (Some(size), None, Some(offset)) =
                    (self.size, &trace.name, trace.damage.get(Damage::PackedCorrupt).first_offset)
                {
                    let left = size.saturating_sub(offset);
                    // Of a part whose checksum alone is wrong nothing is missing.
                    trace.unread = if left <= TRAILER { 0.0 } else { left as f64 / size as f64 };
                }
                self.builder.end_trace(header, trace);
                Ok(())
            }
            Err(error) => {
                self.builder.drop_trace();
                Err(error)
            }
        }
    }

    fn packets(&mut self, name: &str, stream: Stream, trace: &mut Trace) -> Result<Vec<HeaderField>, Error> {
        let Loader { progress, taken, size, .. } = self;
        let tell = || progress(Progress { taken: taken.load(Ordering::Relaxed), size: *size });
        let summary = packets::load(name, stream, self.options, &mut self.builder, tell)?;
        self.text_bytes += summary.bytes;
        (trace.events, trace.damage, trace.text_bytes) = (summary.events, summary.damage, summary.bytes);
        Ok(summary.header)
    }

    fn json(&mut self, name: &str, text: Text, trace: &mut Trace) -> Result<Vec<HeaderField>, Error> {
        let Loader { options, threads, .. } = *self;
        let chunk = options.chunk.map_or(CHUNK, NonZero::get).min(MAX_CHUNK);
        let (taken, progress) = (Arc::clone(&self.taken), &mut self.progress);
        let builder = std::mem::take(&mut self.builder);
        let work = Work {
            options,
            baton: Mutex::new(Baton { splitter: Splitter::new(text, chunk), progress, taken, size: self.size }),
            assembly: Mutex::new(Assembly { builder, shards: threads, ..Assembly::default() }),
            moved_on: Condvar::new(),
            ahead: MAX_AHEAD * threads as u64,
            guessing: AtomicBool::new(true),
        };
        std::thread::scope(|scope| {
            for number in 1..threads {
                let work = &work;
                // If the system gives no more threads, those that there are do the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || work.run(number));
            }
            work.run(0);
        });
        let Assembly { joiner, builder, full, .. } = work.assembly.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.builder = builder;
        if full {
            return Err(Error::TooLarge { name: name.to_owned() });
        }
        trace.text_bytes = joiner.text_bytes();
        self.text_bytes += trace.text_bytes;
        let Summary { header, events, damage, .. } = check(name, joiner.into_summary())?;
        (trace.events, trace.damage) = (events, damage);
        Ok(header)
    }
}

/// Which archive breaks off, and where: this one, or one in it.
fn broken(name: &str, Findings { inner, damage, .. }: &Findings) -> Option<(String, u64)> {
    let outer = damage.get(Damage::ArchiveBroken).first_offset.map(|offset| (name.to_owned(), offset));
    let inner = inner.iter().find(|damage| damage.kind == Damage::ArchiveBroken);
    outer.or_else(|| inner.map(|inner| (format!("{name}/{}", inner.archive), inner.offset)))
}

/// What an archive holds that has no traces.
fn held(Findings { no_traces, unreadable, damage, .. }: &Findings) -> String {
    let [other, bad] = [Damage::NoTraceInFile, Damage::FileUnreadable].map(|kind| damage.get(kind).count);
    let of_bad = format!("nothing that can be read of {}", some_files(bad, unreadable));
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

/// So many files of an archive are named.
const SHOWN: usize = 8;

/// What stands behind a gzip member's data: its checksum and length.
const TRAILER: u64 = 8;

type Text = Box<dyn Read + Send>;

/// What the threads share.
struct Work<F> {
    options: LoadOptions,
    baton: Mutex<Baton<F>>,
    assembly: Mutex<Assembly>,
    /// Told when the assembly has taken a chunk.
    moved_on: Condvar,
    ahead: u64,
    guessing: AtomicBool,
}

/// What only one thread at a time can do: reading.
struct Baton<F> {
    splitter: Splitter<Text>,
    progress: F,
    taken: Arc<AtomicU64>,
    size: Option<u64>,
}

/// What has been read so far, in file order.
#[derive(Default)]
struct Assembly {
    joiner: Joiner,
    builder: Builder,
    /// Chunks that came before their turn.
    waiting: BTreeMap<u64, (Chunk, Option<(Part, Batch)>)>,
    /// Whose turn it is.
    next: u64,
    /// Memory of chunks that have been added.
    spare: Vec<Buffer>,
    /// How many shards there have been.
    shards: usize,
    /// Those that have read from a wrong guess: they may have met what is not in the file, and tell no more of it.
    wrong: HashSet<usize>,
    /// The trace is over, or there is no room for more of it, or a thread has failed.
    stopped: bool,
    full: bool,
}

impl<F: FnMut(Progress) + Send> Work<F> {
    /// What each thread does.
    fn run(&self, number: usize) {
        let _guard = StopIfPanicking(self);
        let mut reader = Reader::new(self.options.time, self.options.args);
        let mut shard = Shard::new(number).keep_places(self.options.places);
        let mut buffer = Buffer::default();
        while let Some(chunk) = self.next_chunk(buffer) {
            let part = if self.guessing.load(Ordering::Relaxed) {
                let part = reader.read(&chunk, |event, offset| shard.add(event, offset));
                part.map(|part| (part, shard.take()))
            } else {
                None
            };
            let Some(spare) = self.assemble(chunk, part, &mut reader, &mut shard) else { return };
            buffer = spare;
        }
    }

    fn next_chunk(&self, buffer: Buffer) -> Option<Chunk> {
        let mut baton = lock(&self.baton);
        let chunk = baton.splitter.next(buffer)?;
        let progress = Progress { taken: baton.taken.load(Ordering::Relaxed), size: baton.size };
        (baton.progress)(progress);
        Some(chunk)
    }

    /// Puts a chunk where it belongs, and all that have waited for it. Memory to read on into, or `None` if all is to stop.
    fn assemble(
        &self,
        chunk: Chunk,
        part: Option<(Part, Batch)>,
        reader: &mut Reader,
        shard: &mut Shard,
    ) -> Option<Buffer> {
        let mut assembly = lock(&self.assembly);
        let number = chunk.number;
        assembly.waiting.insert(number, (chunk, part));
        while !assembly.stopped
            && let Some((chunk, part)) = assembly.take_next()
        {
            let used = assembly.add(chunk, part, reader, shard);
            assembly.spare.push(used);
            self.moved_on.notify_all();
        }
        if assembly.wrong.len() > MAX_WRONG {
            self.guessing.store(false, Ordering::Relaxed);
        }
        assembly.renew(shard);
        // Nobody waits whose turn it is, so somebody always goes on.
        while !assembly.stopped && number >= assembly.next + self.ahead {
            assembly = self.moved_on.wait(assembly).unwrap_or_else(PoisonError::into_inner);
        }
        (!assembly.stopped).then(|| assembly.spare.pop().unwrap_or_default())
    }
}

impl Assembly {
    fn take_next(&mut self) -> Option<(Chunk, Option<(Part, Batch)>)> {
        let next = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }

    /// Adds the next chunk. One that was read from a wrong guess is read again, by the thread that has come upon it.
    fn add(&mut self, mut chunk: Chunk, part: Option<(Part, Batch)>, reader: &mut Reader, shard: &mut Shard) -> Buffer {
        match part {
            Some((part, batch)) if self.joiner.accepts(&chunk) && !self.wrong.contains(&batch.shard()) => {
                self.joiner.add(&mut chunk, part);
                self.builder.add(batch);
            }
            part => {
                self.wrong.extend(part.map(|(_, batch)| batch.shard()));
                self.renew(shard);
                self.joiner.read(&mut chunk, reader, |event, offset| shard.add(event, offset));
                self.builder.add(shard.take());
            }
        }
        self.full |= self.builder.is_full();
        self.stopped |= self.full || self.joiner.is_over();
        chunk.into_buffer()
    }

    /// Lets a thread whose shard has read from a wrong guess begin anew.
    fn renew(&mut self, shard: &mut Shard) {
        if self.wrong.contains(&shard.number()) {
            *shard = shard.renewed(self.shards);
            self.shards += 1;
        }
    }
}

/// Lets the other threads stop if one panics, rather than wait for it for ever.
struct StopIfPanicking<'a, F>(&'a Work<F>);

impl<F> Drop for StopIfPanicking<'_, F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.assembly).stopped = true;
            self.0.moved_on.notify_all();
        }
    }
}

/// What a panicking thread leaves behind is never looked at: the panic goes on where the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses what is no trace, and what broke before anything was whole.
fn check(name: &str, mut summary: Summary) -> Result<Summary, Error> {
    let name = name.to_owned();
    if let Some(source) = summary.failure.take() {
        check_failure(&name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let broken = summary.damage.get(Damage::BrokenStructure).first_offset;
    let what = match broken {
        Some(0) => "this is not JSON".to_owned(),
        Some(offset) if !summary.has_event_list => {
            format!("the JSON breaks at byte {offset}, and up to there is no event")
        }
        _ if summary.elements > 0 => format!("none of the {} elements of its list is an event", summary.elements),
        _ if summary.has_event_list && summary.cut_off_at.is_none() => return Ok(summary),
        _ => match summary.cut_off_at {
            Some(offset) if offset == 0 || summary.has_event_list || summary.keys.is_empty() => {
                return Err(Error::NothingWhole { name, offset });
            }
            _ if summary.keys.iter().any(|key| key == "traceEvents") => "its `traceEvents` is not a list".to_owned(),
            _ => format!("this is another tool's JSON: it has no `traceEvents`, but {}", some_keys(&summary.keys)),
        },
    };
    Err(Error::NotATrace { name, what })
}

/// What the source of the text failed with: nothing that keeps what was whole before it from being used, if that is what is wrong.
fn check_failure(name: &str, source: std::io::Error, events: u64) -> Result<(), Error> {
    match PackedFailure::of(&source) {
        None => Err(input::failure(name, source)),
        Some(packed) if events == 0 && packed.cause != PackedCause::TrailingBytes => {
            let (name, offset, message) = (name.to_owned(), packed.offset, packed.message.clone());
            Err(match packed.cause {
                PackedCause::CutOff => Error::NothingWhole { name, offset },
                _ => Error::CorruptBeforeFirstEvent { name, offset, message },
            })
        }
        Some(_) => Ok(()),
    }
}

fn some_keys(keys: &[String]) -> String {
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("`{key}`")).collect();
    match keys.len() {
        0 => "nothing at all".to_owned(),
        n if n > shown.len() => format!("{} and {} more fields", shown.join(", "), n - shown.len()),
        _ => shown.join(", "),
    }
}
