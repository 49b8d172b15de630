//! A damaged trace as one that every viewer opens: its whole events byte for byte, the recovered ones as they were meant, and nothing
//! else.
//!
//! Viewers drop slices that partly overlap others on their thread, or draw them wrongly. These can be moved to threads of their own
//! beside that one, as Perfetto's newest reader does. A store knows which they are, so that needs a load first.

use std::collections::HashMap;
use std::io::Write;

use crate::damage::DamageReport;
use crate::error::Error;
use crate::event::{Event, Id, Kind};
use crate::id::{ThreadId, TrackId};
use crate::input;
use crate::input::Contents;
use crate::input::Input;
use crate::input::json::copy::{Choice, Copied, CopyError, repair};
use crate::store::Store;
use crate::store::tracks::Owner;
use crate::time::Ns;

use super::cut::{free_tids, packed};

/// The result of a repair.
#[derive(Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// What was written.
    pub copied: Copied,
    /// The damage that matters for writing a trace.
    pub damage: DamageReport,
    /// The bytes of text that were read.
    pub text_bytes: u64,
}

/// Which slices are moved to which threads.
#[derive(Debug, Default)]
pub struct Lanes {
    /// By a slice's offset in the text: the index of its thread.
    moves: HashMap<u64, usize>,
    threads: Vec<Lane>,
}

/// A thread beside another.
#[derive(Debug)]
struct Lane {
    tid: u32,
    name: String,
}

impl Lanes {
    /// Those of a store, which must have been loaded with `places`.
    pub fn of(store: &Store) -> Self {
        let mut lanes = Lanes::default();
        let mut tids = free_tids(store);
        let mut of_tracks: HashMap<TrackId, usize> = HashMap::new();
        let mut of_threads: HashMap<ThreadId, usize> = HashMap::new();
        for slice in store.slices.ids() {
            let track = store.slices.track(slice);
            let Owner::ThreadOverlap(utid) = store.tracks.track(track).owner else { continue };
            let Some(offset) = store.slices.offset(slice) else { continue };
            let lane = match of_tracks.get(&track) {
                Some(lane) => *lane,
                None => {
                    let Some(tid) = tids.next() else { break };
                    let number = of_threads.entry(utid).or_insert(0);
                    *number += 1;
                    lanes.threads.push(Lane { tid, name: lane_name(store, utid, *number) });
                    of_tracks.insert(track, lanes.threads.len() - 1);
                    lanes.threads.len() - 1
                }
            };
            lanes.moves.insert(offset, lane);
        }
        lanes
    }
}

/// `stream 7 (overlapping 1)`, as JSON writes it between quotes.
fn lane_name(store: &Store, utid: ThreadId, number: usize) -> String {
    let thread = store.tracks.thread(utid);
    let name = match store.strings.get(thread.name) {
        Some(name) => name.trim().to_owned(),
        None => format!("thread {}", thread.tid),
    };
    let quoted = serde_json::Value::from(format!("{name} (overlapping {number})")).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Writes the whole and the recovered events of a trace, compressed with gzip if `pack` is set. `file` is the position of the trace's
/// file in an archive.
///
/// # Errors
/// Those of reading; a trace that is not JSON; one without a whole event; those of writing, which `failed` wraps.
pub fn write(
    input: Input,
    file: Option<usize>,
    lanes: &Lanes,
    out: impl Write,
    pack: bool,
    failed: impl Fn(std::io::Error) -> Error,
) -> Result<Repaired, Error> {
    let name = input.name.clone();
    let text = match input.into_trace(file)? {
        Contents::Json(text) => text,
        other => return Err(Error::CannotRepair { name, what: other.what() }),
    };
    let mut is_named = vec![false; lanes.threads.len()];
    // The flow events of a slice follow it directly, and move with it.
    let mut last: Option<(Ns, String, usize)> = None;
    let choose = |event: &Event<'_>, offset: u64| {
        let is_flow = matches!(event.kind, Kind::FlowStart(_) | Kind::FlowStep(_) | Kind::FlowEnd { .. });
        let lane = match (lanes.moves.get(&offset).copied(), &last) {
            (Some(lane), _) => Some(lane),
            (None, Some((ts, thread, lane))) if is_flow && *ts == event.ts && *thread == thread_of(event) => {
                Some(*lane)
            }
            _ => None,
        };
        last = lane.map(|lane| (event.ts, thread_of(event), lane));
        let Some(lane) = lane else { return Choice::Copy };
        let Lane { tid, name } = &lanes.threads[lane];
        let is_first = !std::mem::replace(&mut is_named[lane], true);
        Choice::Move { tid: *tid, name: is_first.then(|| name.clone()) }
    };
    let (copied, summary, text_bytes) = packed(out, pack, &failed, |out| {
        repair(text, out, choose).map_err(|error| match error {
            CopyError::Read(source) => input::failure(&name, source),
            CopyError::Write(source) => failed(source),
        })
    })?;
    if copied.kept == 0 {
        let offset = summary.cut_off_at.unwrap_or(0);
        return Err(Error::NothingWhole { name, offset });
    }
    Ok(Repaired { copied, damage: summary.damage, text_bytes })
}

/// The process and thread of an event, as it has them.
fn thread_of(event: &Event<'_>) -> String {
    let id = |id: &Id<'_>| format!("{id:?}");
    format!("{} {}", id(&event.pid), id(&event.tid))
}
