//! Reading a trace with several threads: they take turns at reading and decompressing, and each parses what it has just read.
//!
//! A gzip stream can be decompressed by one thread at a time only, and parsing takes about as long. So the thread that has the
//! baton decompresses the next chunk into its own memory, where it stays in that processor's cache, hands the baton on, and parses
//! the chunk while another thread decompresses. There is no queue, and the load balances itself. What was parsed is put
//! together in file order; since nothing is numbered before that, the result does not depend on the threads.
//!
//! A chunk should begin where an event does; but to know that for sure, all text before it has to be read. So the [`Splitter`]
//! guesses, by searching for text that comes only between two events, and adds from which state its guess may be read. The
//! [`Joiner`] knows the true state and has a chunk read again if the guess was wrong: a wrong guess costs time and changes nothing.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::event::Parser;
use super::list::{After, End, Fault, Piece, State, Tokenizer, Tools};
use super::value::is_space;
use crate::damage::Damage;
use crate::event::{ArgsWanted, Collect, Event};
use crate::input::reader::Summary;
use crate::parallel::Shared;
use crate::time::TimeRule;

/// Chunks are no larger, in bytes, whatever was asked for.
const MAX_CHUNK: usize = 64 << 20;

/// How many chunks per thread may wait for one before them.
const MAX_AHEAD: u64 = 4;

/// After so many wrong guesses the file is read in order.
const MAX_WRONG: usize = 16;

/// How the text is divided between threads. The result is the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Division {
    /// How many bytes of text a thread takes at a time; `None`: 512 KiB, which is best.
    pub chunk: Option<NonZero<usize>>,
    /// Reads no chunk before all text before it has been read, so that one thread at a time works.
    pub in_order: bool,
}

/// Reads traces. What its threads have learned of how events look is kept from one trace to the next.
pub struct Reader {
    readers: Vec<ChunkReader>,
}

impl Reader {
    /// A reader that has seen no trace, with so many threads.
    pub fn new(time: TimeRule, args: ArgsWanted, threads: NonZero<usize>) -> Self {
        Reader { readers: (0..threads.get()).map(|_| ChunkReader::new(time, args)).collect() }
    }

    /// Reads a trace. Each thread has a collector, which `collector` makes; the number is that of no other. A thread that has read what
    /// is not in the file gets a new one. `add` takes the batches in file order; `false` from it ends the reading. `progress` is
    /// called with every chunk.
    pub fn read<C: Collect>(
        &mut self,
        text: impl Read + Send,
        division: Division,
        collector: impl Fn(usize) -> C + Sync,
        add: impl FnMut(C::Batch) -> bool + Send,
        progress: impl FnMut() + Send,
    ) -> Summary {
        let readers = &mut self.readers;
        let chunk = division.chunk.map_or(CHUNK, NonZero::get).min(MAX_CHUNK);
        let work = Work {
            baton: Mutex::new(Baton { splitter: Splitter::new(text, chunk), progress }),
            assembly: Shared::new(Assembly::new(add, readers.len())),
            ahead: MAX_AHEAD * readers.len() as u64,
            guessing: AtomicBool::new(!division.in_order),
            collector,
        };
        let readers: Vec<Mutex<&mut ChunkReader>> = readers.iter_mut().map(Mutex::new).collect();
        work.assembly.on_threads(readers.len(), |number| work.run(number, &mut lock(&readers[number])));
        work.assembly.into_inner().joiner.into_summary()
    }
}

struct Work<R, P, N, A, B> {
    baton: Mutex<Baton<R, P>>,
    /// Waited for until it has taken a chunk.
    assembly: Shared<Assembly<A, B>>,
    ahead: u64,
    guessing: AtomicBool,
    collector: N,
}

/// What only one thread at a time can do: reading.
struct Baton<R, P> {
    splitter: Splitter<R>,
    progress: P,
}

/// What was read of a chunk before all text before it was, and the collector that it was read with.
struct Guess<B> {
    part: ChunkSummary,
    batch: B,
    collector: usize,
}

/// What has been read so far, in file order.
struct Assembly<A, B> {
    joiner: Joiner,
    add: A,
    /// Chunks that came before their turn.
    waiting: BTreeMap<u64, (Chunk, Option<Guess<B>>)>,
    /// The number of the next chunk.
    next: u64,
    /// Memory of chunks that have been added.
    spare: Vec<Buffer>,
    /// How many collectors there have been.
    collectors: usize,
    /// Those that have read from a wrong guess: they may have met what is not in the file, and would not pass it on again.
    wrong: HashSet<usize>,
    /// The trace is over, or there is no room for more of it, or a thread has failed.
    stopped: bool,
}

struct Worker<'a, C> {
    reader: &'a mut ChunkReader,
    collector: C,
    number: usize,
}

impl<R, P, N, A, C> Work<R, P, N, A, C::Batch>
where
    R: Read,
    P: FnMut(),
    N: Fn(usize) -> C,
    A: FnMut(C::Batch) -> bool,
    C: Collect,
{
    fn run(&self, number: usize, reader: &mut ChunkReader) {
        let mut worker = Worker { reader, collector: (self.collector)(number), number };
        let mut buffer = Buffer::default();
        while let Some(chunk) = self.next_chunk(buffer) {
            let guess = if self.guessing.load(Ordering::Relaxed) { worker.guess(&chunk) } else { None };
            let Some(spare) = self.assemble(chunk, guess, &mut worker) else { return };
            buffer = spare;
        }
    }

    fn next_chunk(&self, buffer: Buffer) -> Option<Chunk> {
        let mut baton = lock(&self.baton);
        let chunk = baton.splitter.next(buffer)?;
        (baton.progress)();
        Some(chunk)
    }

    /// Puts a chunk where it belongs, and all that have waited for it. Memory to read on into, or `None` if all is to stop.
    fn assemble(&self, chunk: Chunk, guess: Option<Guess<C::Batch>>, worker: &mut Worker<'_, C>) -> Option<Buffer> {
        let mut assembly = self.assembly.lock();
        let number = chunk.number;
        assembly.waiting.insert(number, (chunk, guess));
        while !assembly.stopped
            && let Some((chunk, guess)) = assembly.take_next()
        {
            let used = assembly.add(chunk, guess, worker, &self.collector);
            assembly.spare.push(used);
            self.assembly.notify();
        }
        if assembly.wrong.len() > MAX_WRONG {
            self.guessing.store(false, Ordering::Relaxed);
        }
        assembly.renew(worker, &self.collector);
        // The thread that has the next chunk never waits, so there is always one that goes on.
        while !assembly.stopped && number >= assembly.next + self.ahead {
            assembly = self.assembly.wait(assembly)?;
        }
        (!assembly.stopped).then(|| assembly.spare.pop().unwrap_or_default())
    }
}

impl<C: Collect> Worker<'_, C> {
    fn guess(&mut self, chunk: &Chunk) -> Option<Guess<C::Batch>> {
        let Worker { reader, collector, number } = self;
        let (start, take) = (chunk.start.clone()?, |event: &Event<'_>, offset| collector.add(event, offset));
        let part = reader.read(chunk.text(), chunk.base, chunk.after, start, take);
        Some(Guess { part, batch: collector.take(), collector: *number })
    }
}

impl<A, B> Assembly<A, B> {
    fn new(add: A, collectors: usize) -> Self {
        Assembly {
            joiner: Joiner::default(),
            add,
            waiting: BTreeMap::new(),
            next: 0,
            spare: Vec::new(),
            collectors,
            wrong: HashSet::new(),
            stopped: false,
        }
    }

    fn take_next(&mut self) -> Option<(Chunk, Option<Guess<B>>)> {
        let next = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }

    /// Adds the next chunk. One that was read from a wrong guess is read again, by the thread that adds it.
    fn add<C: Collect<Batch = B>>(
        &mut self,
        mut chunk: Chunk,
        guess: Option<Guess<B>>,
        worker: &mut Worker<'_, C>,
        collector: &impl Fn(usize) -> C,
    ) -> Buffer
    where
        A: FnMut(B) -> bool,
    {
        let batch = match guess {
            Some(guess) if self.joiner.accepts(&chunk) && !self.wrong.contains(&guess.collector) => {
                self.joiner.add(&mut chunk, guess.part);
                guess.batch
            }
            guess => {
                self.wrong.extend(guess.map(|guess| guess.collector));
                self.renew(worker, collector);
                let Worker { reader, collector, .. } = worker;
                let take = |event: &Event<'_>, offset| collector.add(event, offset);
                let read = |text: &_, base, after, state| reader.read(text, base, after, state, take);
                self.joiner.read(&mut chunk, read);
                collector.take()
            }
        };
        let has_room = (self.add)(batch);
        self.stopped |= !has_room || self.joiner.is_over();
        chunk.into_buffer()
    }

    /// Gives a thread a new collector if its own has read from a wrong guess.
    fn renew<C: Collect<Batch = B>>(&mut self, worker: &mut Worker<'_, C>, collector: &impl Fn(usize) -> C) {
        if self.wrong.contains(&worker.number) {
            (worker.collector, worker.number) = (collector(self.collectors), self.collectors);
            self.collectors += 1;
        }
    }
}

/// What a panicking thread has locked is never read: the panic goes on where the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Puts parts together, in file order.
pub(super) struct Joiner {
    state: State,
    /// The text of what was begun and not ended, and its offset.
    rest: Vec<u8>,
    base: u64,
    /// How much of the rest has been searched without a result.
    searched: usize,
    summary: Summary,
    failure: Option<io::Error>,
    text_bytes: u64,
}

impl Default for Joiner {
    fn default() -> Self {
        Joiner {
            state: State::START,
            rest: Vec::new(),
            base: 0,
            searched: 0,
            summary: Summary::default(),
            failure: None,
            text_bytes: 0,
        }
    }
}

impl Joiner {
    /// Whether what was read of the next chunk is right, because the chunk begins in the state that was guessed.
    fn accepts(&self, chunk: &Chunk) -> bool {
        self.rest.is_empty() && chunk.start.as_ref() == Some(&self.state)
    }

    /// Adds the next chunk, whose part is right.
    fn add(&mut self, chunk: &mut Chunk, part: ChunkSummary) {
        self.rest.extend_from_slice(&chunk.text()[part.used..]);
        self.base = chunk.base + part.used as u64;
        self.state = part.state;
        self.summary.add(part.summary);
        self.take_end(chunk);
    }

    /// Adds the next chunk by reading it, with what is left of those before it. `read` reads a text that begins at an offset in a state.
    pub(super) fn read(&mut self, chunk: &mut Chunk, read: impl FnOnce(&[u8], u64, After, State) -> ChunkSummary) {
        self.rest.extend_from_slice(chunk.text());
        self.take_end(chunk);
        // The end of a value that goes on and on is searched for from its start each time; a quarter more text each time keeps
        // that linear.
        if !chunk.after.is_end() && self.rest.len() - self.searched < self.searched / 4 {
            return;
        }
        let ChunkSummary { summary, state, used } = read(&self.rest, self.base, chunk.after, self.state.clone());
        self.rest.drain(..used);
        self.searched = self.rest.len();
        self.base += used as u64;
        self.state = state;
        self.summary.add(summary);
    }

    fn take_end(&mut self, chunk: &mut Chunk) {
        self.text_bytes += chunk.text().len() as u64;
        self.failure = self.failure.take().or(chunk.failure.take());
    }

    /// Whether the trace is over, and no more of the file need be read: text after a trace is counted.
    pub(super) fn is_over(&self) -> bool {
        self.state.end().is_some_and(|end| !matches!(end, End::Trailing { .. }))
    }

    /// All that was read beside the events.
    pub(super) fn into_summary(mut self) -> Summary {
        self.summary.has_event_list = self.state.seen_events;
        let end = self.state.end().unwrap_or(End::Whole);
        self.summary.end(end, self.text_bytes, self.failure);
        self.summary
    }
}

/// Reads chunks. Each thread has its own, which learns how events look.
struct ChunkReader {
    parser: Parser,
    tools: Tools,
}

/// What was read of a chunk beside its events.
#[derive(Debug)]
pub(super) struct ChunkSummary {
    pub(super) summary: Summary,
    /// The state after the text that was used.
    pub(super) state: State,
    pub(super) used: usize,
}

impl ChunkReader {
    fn new(time: TimeRule, wanted: ArgsWanted) -> Self {
        ChunkReader { parser: Parser::new(time, wanted), tools: Tools::default() }
    }

    /// Reads a text that begins at an offset in this state, and hands each event to `take`, in file order, with its byte offset.
    fn read(
        &mut self,
        text: &[u8],
        base: u64,
        after: After,
        state: State,
        mut take: impl FnMut(&Event<'_>, u64),
    ) -> ChunkSummary {
        let ChunkReader { parser, tools } = self;
        let mut tokenizer = Tokenizer::new(text, base, after, state, tools);
        let mut summary = Summary::default();
        while let Some(piece) = tokenizer.next(parser) {
            match piece {
                Piece::Event { event, offset, bytes, recognised } => {
                    summary.elements += 1;
                    let take = |event: &Event<'_>| {
                        summary.events += 1;
                        take(event, offset);
                    };
                    if let Err(kind) = parser.parse(event, recognised, take) {
                        summary.damage.lose(kind, Some(offset), bytes);
                    }
                    for kind in parser.faults() {
                        summary.damage.count(kind, Some(offset));
                    }
                }
                Piece::Fault(Fault { kind, offset, bytes }) => {
                    let is_element =
                        matches!(kind, Damage::ElementNotObject | Damage::EventTooLong | Damage::EventSyntax);
                    summary.elements += u64::from(is_element);
                    summary.damage.lose(kind, Some(offset), bytes);
                }
                Piece::Header { key, text, offset, bytes } => summary.header_field(key, text, offset, bytes),
            }
        }
        let (state, used) = tokenizer.into_rest();
        ChunkSummary { summary, state, used }
    }
}

/// A chunk's usual size, in bytes: that of a processor's own cache, less what the parser needs.
pub(super) const CHUNK: usize = 512 * 1024;

/// A chunk in which no event begins grows up to so many times the usual size, and ends anywhere then.
const MAX_GROWTH: usize = 16;

/// What looks like an event's beginning is not longer than this.
const LOOK_BACK: usize = 1024;

/// Events begin with one of these keys.
const FIRST_KEYS: &[&[u8]] = &[b"ph", b"name", b"cat", b"pid", b"tid", b"ts", b"dur", b"id", b"args"];

#[derive(Debug)]
pub(super) struct Chunk {
    /// How many chunks are before it.
    number: u64,
    buffer: Buffer,
    /// The offset of its first byte in the file's text.
    base: u64,
    after: After,
    /// The state in which it probably begins, if it can be read without knowing what is before it.
    start: Option<State>,
    /// What reading failed with, after this chunk.
    pub(super) failure: Option<io::Error>,
}

impl Chunk {
    fn text(&self) -> &[u8] {
        self.buffer.text()
    }

    /// The memory, to be used again.
    pub(super) fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

#[derive(Debug, Default)]
pub(super) struct Buffer {
    /// Once grown it is not shrunk, so that it is not filled with zeros again each time.
    bytes: Vec<u8>,
    filled: usize,
}

impl Buffer {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    fn set(&mut self, text: &[u8]) {
        self.filled = 0;
        self.room(text.len())[..text.len()].copy_from_slice(text);
        self.filled = text.len();
    }

    /// At least `n` bytes after the text.
    fn room(&mut self, n: usize) -> &mut [u8] {
        if self.bytes.is_empty() {
            // The system's fresh pages are zeros already: most of a chunk's memory is never touched by a small trace.
            self.bytes = vec![0; self.filled + n];
        } else if self.bytes.len() < self.filled + n {
            self.bytes.resize(self.filled + n, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Reads up to `n` bytes after the text; fewer only at the source's end. `Ok(false)`: it has ended.
    fn read(&mut self, source: &mut impl Read, n: usize) -> io::Result<bool> {
        let wanted = self.filled + n;
        while self.filled < wanted {
            let left = wanted - self.filled;
            match source.read(&mut self.room(left)[..left]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }
}

pub(super) struct Splitter<R> {
    source: R,
    size: usize,
    /// What is read and belongs to the next chunk.
    carry: Vec<u8>,
    base: u64,
    number: u64,
    start: Option<State>,
    /// Whether the file begins with an object, in which the list of events is.
    in_object: bool,
    ended: bool,
}

impl<R: Read> Splitter<R> {
    /// Begins with the source's first byte. `size` is what chunks should have, in bytes; [`CHUNK`] is best.
    pub(super) fn new(source: R, size: usize) -> Self {
        Splitter {
            source,
            size,
            carry: Vec::new(),
            base: 0,
            number: 0,
            start: Some(State::START),
            in_object: false,
            ended: false,
        }
    }

    /// The next chunk, in the memory given. `None` after the last.
    pub(super) fn next(&mut self, mut buffer: Buffer) -> Option<Chunk> {
        if self.ended {
            return None;
        }
        if buffer.bytes.len() > 4 * self.size {
            // It has held something unusual.
            buffer = Buffer::default();
        }
        buffer.set(&self.carry);
        self.carry.clear();
        let mut failure = None;
        let mut after = After::More;
        let mut event = None;
        let mut searched = 0;
        while event.is_none() && after == After::More && buffer.filled < MAX_GROWTH * self.size {
            match buffer.read(&mut self.source, self.size) {
                Ok(true) => {
                    event = last_event(buffer.text(), searched);
                    // What looks like an event's beginning may lie across the end of what has been searched.
                    searched = buffer.filled.saturating_sub(LOOK_BACK);
                }
                Ok(false) => after = After::Nothing,
                Err(e) => (after, failure) = (After::Failure, Some(e)),
            }
        }
        if self.number == 0 {
            let text = buffer.text();
            let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            self.in_object = text.iter().find(|b| !is_space(**b)) == Some(&b'{');
        }
        if event.is_some() {
            after = After::Event;
        }
        let next_start = event.map(|_| State::in_list(self.in_object));
        if let Some(event) = event {
            self.carry.extend_from_slice(&buffer.text()[event..]);
            buffer.filled = event;
        }
        self.ended = after.is_end();
        let start = std::mem::replace(&mut self.start, next_start);
        let chunk = Chunk { number: self.number, base: self.base, buffer, after, start, failure };
        self.number += 1;
        self.base += chunk.text().len() as u64;
        Some(chunk)
    }
}

/// Where in a text, at `from` or after it, the last event probably begins.
fn last_event(text: &[u8], from: usize) -> Option<usize> {
    let mut end = text.len();
    while let Some(brace) = memchr::memrchr(b'{', text.get(from..end)?) {
        end = from + brace;
        let (before, after) = text.split_at(end);
        if end > 0 && ends_an_event(before) && begins_an_event(&after[1..]) {
            return Some(end);
        }
    }
    None
}

/// Whether a text ends with `},`, white space aside.
fn ends_an_event(text: &[u8]) -> bool {
    let mut visible = text.iter().rev().filter(|b| !is_space(**b));
    visible.next() == Some(&b',') && visible.next() == Some(&b'}')
}

/// Whether a text begins with a key that events begin with, white space aside.
fn begins_an_event(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    FIRST_KEYS.iter().any(|key| {
        let rest = text.strip_prefix(b"\"").and_then(|text| text.strip_prefix(*key));
        rest.and_then(|rest| rest.strip_prefix(b"\"")).is_some_and(|rest| rest.trim_ascii_start().starts_with(b":"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_begin_after_others_and_with_their_keys() {
        for (text, want) in [
            (r#"{"a":1}, {"ph":"X"}"#, Some(9)),
            ("},\n  {\n  \"name\" : 1", Some(5)),
            (r#"},{"ph":1},{"other":1}"#, Some(2)),
            (r#"[{"ph":1}"#, None),
            (r#"},{"ph"#, None),
            ("", None),
        ] {
            assert_eq!(last_event(text.as_bytes(), 0), want, "{text}");
        }
        assert_eq!(last_event(br#"},{"ph":1}"#, 3), None);
    }

    #[test]
    fn text_without_events_is_divided_anywhere() {
        let text = "x".repeat(MAX_GROWTH * 1000 + 500);
        let mut splitter = Splitter::new(text.as_bytes(), 1000);
        let first = splitter.next(Buffer::default()).unwrap();
        assert_eq!(first.text().len(), MAX_GROWTH * 1000);
        let second = splitter.next(first.into_buffer()).unwrap();
        assert_eq!((second.text().len(), second.base), (500, MAX_GROWTH as u64 * 1000));
        assert_eq!(second.start, None);
        assert!(splitter.next(second.into_buffer()).is_none());
    }
}
