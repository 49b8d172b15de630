//! The pipeline: one thread reads and decompresses, this one cuts, parses and fills the store.
//!
//! Decompressing takes about as long as all the rest, so two threads are the first and largest gain. Blocks travel
//! through a short queue and come back to be filled again; memory stays at a few blocks whatever the trace's size.

use std::io::{self, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Instant;

use crate::damage::Damage;
use crate::error::Error;
use crate::event::ArgsWanted;
use crate::input::gzip::{GzipCause, GzipFailure};
use crate::input::json::Summary;
use crate::input::{self, Input, json};
use crate::store::{Builder, Store};
use crate::time::TimeRule;

/// A block of text on its way from the reading thread.
const BLOCK: usize = 512 * 1024;

/// Blocks in the queue: enough to keep both threads busy, few enough to stay in the cache.
const QUEUE: usize = 4;

/// How to load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How microseconds become nanoseconds.
    pub time: TimeRule,
    /// Which arguments to keep.
    pub args: ArgsWanted,
}

/// A trace and how it was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// The trace.
    pub store: Store,
    /// The file's name for messages.
    pub name: String,
    /// How many bytes of (decompressed) text were read.
    pub text_bytes: u64,
    /// Wall time in seconds.
    pub seconds: f64,
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
/// What [`input::open`] fails with; a file that is no trace; a file that is damaged before the first whole event. Damage
/// further on is counted in [`Store::damage`] instead.
pub fn load(path: &Path, options: LoadOptions, progress: impl FnMut(Progress)) -> Result<Loaded, Error> {
    load_input(input::open(path)?, options, progress)
}

/// The same for an opened input.
///
/// # Errors
/// As [`load`], less what concerns paths.
pub fn load_input(input: Input, options: LoadOptions, mut progress: impl FnMut(Progress)) -> Result<Loaded, Error> {
    let start = Instant::now();
    let Input { name, size, taken, text } = input;
    let mut builder = Builder::default();
    let mut full = false;
    let mut text_bytes = 0;
    let summary = std::thread::scope(|scope| {
        let (filled, to_parse) = sync_channel(QUEUE);
        let (used, to_fill) = channel();
        scope.spawn(move || fill_blocks(text, &filled, &to_fill));
        let blocks = Blocks {
            incoming: to_parse,
            used,
            current: Vec::new(),
            at: 0,
            seen: |n| {
                text_bytes += n as u64;
                progress(Progress { taken: taken.load(Ordering::Relaxed), size });
            },
        };
        json::read(blocks, options.time, options.args, |event, offset| {
            full |= builder.is_full();
            if !full {
                builder.add(event, offset);
            }
        })
    });
    if full {
        return Err(Error::TooLarge { name });
    }
    let Summary { header, events, damage, .. } = check(&name, summary)?;
    let store = builder.finish(header, events, damage);
    Ok(Loaded { store, name, text_bytes, seconds: start.elapsed().as_secs_f64() })
}

/// Refuses what is no trace, and what broke before anything was whole.
fn check(name: &str, mut summary: Summary) -> Result<Summary, Error> {
    let name = name.to_owned();
    let failure = summary.failure.take();
    if let Some(source) = failure {
        match GzipFailure::of(&source) {
            None => return Err(Error::Read { name, source }),
            Some(gzip) if summary.events == 0 && gzip.cause != GzipCause::TrailingBytes => {
                let (offset, message) = (gzip.offset, gzip.message.clone());
                return Err(match gzip.cause {
                    GzipCause::CutOff => Error::NothingWhole { name, offset },
                    _ => Error::CorruptBeforeFirstEvent { name, offset, message },
                });
            }
            Some(_) => {}
        }
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

fn some_keys(keys: &[String]) -> String {
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("`{key}`")).collect();
    match keys.len() {
        0 => "nothing at all".to_owned(),
        n if n > shown.len() => format!("{} and {} more fields", shown.join(", "), n - shown.len()),
        _ => shown.join(", "),
    }
}

/// The reading thread: fills blocks until the source ends, fails, or nobody wants more.
fn fill_blocks(mut text: impl Read, filled: &SyncSender<io::Result<Vec<u8>>>, to_fill: &Receiver<Vec<u8>>) {
    loop {
        let mut block = to_fill.try_recv().unwrap_or_default();
        block.clear();
        let result = text.by_ref().take(BLOCK as u64).read_to_end(&mut block);
        let ended = block.is_empty();
        if !ended && filled.send(Ok(block)).is_err() {
            return;
        }
        match result {
            Ok(_) if ended => return,
            Ok(_) => {}
            Err(e) => {
                // If nobody listens any more, nobody misses the error.
                let _ = filled.send(Err(e));
                return;
            }
        }
    }
}

/// The queue's other end, as a source of text.
struct Blocks<F> {
    incoming: Receiver<io::Result<Vec<u8>>>,
    used: Sender<Vec<u8>>,
    current: Vec<u8>,
    at: usize,
    seen: F,
}

impl<F: FnMut(usize)> Read for Blocks<F> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            let Ok(block) = self.incoming.recv() else { return Ok(0) };
            let used = std::mem::replace(&mut self.current, block?);
            self.at = 0;
            (self.seen)(self.current.len());
            // The reading thread may have ended already; the block is then freed here.
            let _ = self.used.send(used);
        }
        let n = buf.len().min(self.current.len() - self.at);
        buf[..n].copy_from_slice(&self.current[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}
