//! Reading a trace with several threads: they take turns at reading and decompressing, and each parses what it has just read.
//!
//! A gzip stream can be decompressed by one thread at a time only, and parsing takes about as long. So the thread that has the
//! baton decompresses the next chunk into its own memory, where it stays in that processor's cache, hands the baton on, and parses
//! the chunk while another thread decompresses. There is no queue, and the load balances itself. What was parsed is put
//! together in file order; since nothing is numbered before that, the result does not depend on the threads.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::chunk_reader::{ChunkReader, ChunkSummary};
use super::join::Joiner;
use super::split::{Buffer, CHUNK, Chunk, Splitter};
use super::summary::Summary;
use crate::event::ArgsWanted;
use crate::input::reader::Collect;
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
            assembly: Mutex::new(Assembly::new(add, readers.len())),
            moved_on: Condvar::new(),
            ahead: MAX_AHEAD * readers.len() as u64,
            guessing: AtomicBool::new(!division.in_order),
            collector,
        };
        let Some((first, others)) = readers.split_first_mut() else { return Summary::default() };
        std::thread::scope(|scope| {
            for (number, reader) in (1..).zip(others) {
                let work = &work;
                // If the system gives no more threads, those that there are do the work.
                let _ = std::thread::Builder::new().spawn_scoped(scope, move || work.run(number, reader));
            }
            work.run(0, first);
        });
        work.assembly.into_inner().unwrap_or_else(PoisonError::into_inner).joiner.into_summary()
    }
}

/// How many elements the list of events of a text has, found without parsing them: for measuring what tokenizing alone costs.
pub fn count_elements(text: &[u8]) -> u64 {
    let mut splitter = Splitter::new(text, CHUNK);
    let mut reader = ChunkReader::new(TimeRule::Exact, ArgsWanted::All);
    let (mut buffer, mut elements) = (Buffer::default(), 0);
    while let Some(chunk) = splitter.next(buffer) {
        elements += reader.count(&chunk).unwrap_or_default();
        buffer = chunk.into_buffer();
    }
    elements
}

/// What the threads share.
struct Work<R, P, N, A, B> {
    baton: Mutex<Baton<R, P>>,
    assembly: Mutex<Assembly<A, B>>,
    /// Notified when the assembly has taken a chunk.
    moved_on: Condvar,
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

/// What each thread has.
struct Worker<'a, C> {
    reader: &'a mut ChunkReader,
    collector: C,
    /// The collector's number.
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
    /// What each thread does.
    fn run(&self, number: usize, reader: &mut ChunkReader) {
        let _guard = StopIfPanicking(self);
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
        let mut assembly = lock(&self.assembly);
        let number = chunk.number;
        assembly.waiting.insert(number, (chunk, guess));
        while !assembly.stopped
            && let Some((chunk, guess)) = assembly.take_next()
        {
            let used = assembly.add(chunk, guess, worker, &self.collector);
            assembly.spare.push(used);
            self.moved_on.notify_all();
        }
        if assembly.wrong.len() > MAX_WRONG {
            self.guessing.store(false, Ordering::Relaxed);
        }
        assembly.renew(worker, &self.collector);
        // The thread that has the next chunk never waits, so there is always one that goes on.
        while !assembly.stopped && number >= assembly.next + self.ahead {
            assembly = self.moved_on.wait(assembly).unwrap_or_else(PoisonError::into_inner);
        }
        (!assembly.stopped).then(|| assembly.spare.pop().unwrap_or_default())
    }
}

impl<C: Collect> Worker<'_, C> {
    fn guess(&mut self, chunk: &Chunk) -> Option<Guess<C::Batch>> {
        let Worker { reader, collector, number } = self;
        let part = reader.read(chunk, |event, offset| collector.add(event, offset))?;
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
                self.joiner.read(&mut chunk, reader, |event, offset| collector.add(event, offset));
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

/// Lets the other threads stop if one panics, rather than wait for it for ever.
struct StopIfPanicking<'a, R, P, N, A, B>(&'a Work<R, P, N, A, B>);

impl<R, P, N, A, B> Drop for StopIfPanicking<'_, R, P, N, A, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.assembly).stopped = true;
            self.0.moved_on.notify_all();
        }
    }
}

/// What a panicking thread has locked is never read: the panic goes on where the threads are joined.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
