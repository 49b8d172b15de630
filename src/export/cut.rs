//! Writes a window of a trace as a smaller trace that viewers open and for which this program gives the same answers.
//!
//! The store knows which slices to keep, and their offsets in the text if the load kept them. So the file is read a second time, and the kept
//! events are copied. Chosen kernels get an argument that marks them, and a copy on a separate track below their GPU, where they are easy to see.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::answers::stacks::keep::Kept;
use crate::error::Error;
use crate::event::{Event, Kind};
use crate::id::{SliceId, ThreadId};
use crate::input;
pub use crate::input::json::copy::Copied;
use crate::input::json::copy::{Choice, CopyError, copy};
use crate::input::{Input, Trace};
use crate::names::category::MARKED;
use crate::store::Store;
use crate::store::max_tree::MaxTree;
use crate::time::{Ns, TimeRule, Window};

use super::lanes::{Lanes, Moves, free_tids};

/// The plan of a copy: which events of a file to keep.
#[derive(Debug)]
pub struct Plan {
    /// The offsets of the kept events, sorted. Some kinds of events are kept without being listed.
    offsets: Vec<u64>,
    /// The track of marks for each chosen kernel, by offset.
    marks: HashMap<u64, usize>,
    tracks: Vec<Track>,
    /// The lanes of slices that partly overlap others.
    lanes: Lanes,
    window: Window,
    /// The unit of the file's times.
    time: TimeRule,
    /// The index of the trace's file in an archive, if it is in one.
    file: usize,
    /// What the trace lacks ([`DamageReport::carried`](crate::damage::DamageReport::carried)).
    damage: Option<String>,
}

#[derive(Debug)]
struct Track {
    tid: u32,
    name: String,
}

/// Plans the copy. The store must have been loaded with `keep_offsets` and this time rule, and have one trace.
pub fn plan(store: &Store, kept: &Kept, window: Window, time: TimeRule) -> Plan {
    let is_kept = |slice: SliceId| kept.slices[slice.row()];
    let slices = store.slices.ids().filter(|slice| is_kept(*slice));
    let mut offsets: Vec<u64> = slices.filter_map(|slice| store.slices.offset(slice)).collect();
    offsets.extend(store.offsets.ends.iter().filter(|(slice, _)| is_kept(*slice)).map(|(_, offset)| *offset));
    offsets.extend(flows(store, is_kept));
    offsets.sort_unstable();
    let (tracks, marks) = tracks(store, &kept.matched);
    let survived = store.traces.first().and_then(|trace| trace.survived);
    let (lanes, file) = (Lanes::default(), store.traces.first().map_or(0, |trace| trace.place));
    let text_bytes = store.traces.first().map_or(0, |trace| trace.text_bytes);
    let damage = store.damage.carried(survived, text_bytes);
    Plan { offsets, marks, tracks, lanes, window, time, file, damage }
}

/// The offsets of the events of complete flows: the start and an end of each are kept.
fn flows(store: &Store, is_kept: impl Fn(SliceId) -> bool) -> Vec<u64> {
    let ends = &store.offsets.flows;
    let mut has: HashMap<u64, (bool, bool), foldhash::fast::FixedState> = HashMap::default();
    for end in ends.iter().filter(|end| is_kept(end.slice)) {
        let (start, arrival) = has.entry(end.flow).or_default();
        *(if end.is_start { start } else { arrival }) = true;
    }
    let is_whole = |flow: u64| has.get(&flow) == Some(&(true, true));
    ends.iter().filter(|end| is_kept(end.slice) && is_whole(end.flow)).map(|end| end.offset).collect()
}

/// The tracks of marks, and the track of each kernel, by offset. Overlapping kernels are on different tracks.
fn tracks(store: &Store, kernels: &[SliceId]) -> (Vec<Track>, HashMap<u64, usize>) {
    let threads = &store.tracks.threads;
    let mut tids = free_tids(store);
    let (mut tracks, mut marks) = (Vec::<Track>::new(), HashMap::new());
    // By stream: its tracks, and for each the ns from the end of its last mark to the end of time.
    let mut of_streams: HashMap<ThreadId, (Vec<usize>, MaxTree)> = HashMap::new();
    for kernel in kernels {
        let slice = *kernel;
        let (Some(offset), Some(stream)) = (store.slices.offset(slice), store.stream_of(slice)) else { continue };
        let start = store.slices.ts(slice);
        let end = start + store.slices.dur(slice).max(Ns::ZERO);
        let left_after = |time: Ns| (Ns::MAX - time).0;
        let (of_stream, left) = of_streams.entry(stream).or_default();
        let track = match left.first_at_least(left_after(start)) {
            Some(free) => {
                left.set(free, left_after(end));
                of_stream[free]
            }
            None => {
                let Some(tid) = tids.next() else { continue };
                let name = name(threads[stream.row()].tid, of_stream.len());
                tracks.push(Track { tid, name });
                of_stream.push(tracks.len() - 1);
                left.push(left_after(end));
                tracks.len() - 1
            }
        };
        marks.insert(offset, track);
    }
    (tracks, marks)
}

fn name(stream: i64, before: usize) -> String {
    match (u32::try_from(stream), before) {
        (Ok(stream), 0) => format!("matched kernels on stream {stream}"),
        (Ok(stream), n) => format!("matched kernels on stream {stream} ({})", n + 1),
        // The number of the stream is a text in the file, which may be anything.
        (Err(_), 0) => "matched kernels".to_owned(),
        (Err(_), n) => format!("matched kernels ({})", n + 1),
    }
}

/// Copies the planned events from the loaded file, and compresses them with gzip if `pack` is set.
pub fn write(
    input: Input,
    plan: &Plan,
    out: impl Write,
    pack: bool,
    failed: impl Fn(std::io::Error) -> Error,
) -> Result<Copied, Error> {
    packed(out, pack, &failed, |out| plan.copy(input, out, &failed))
}

/// Calls `write` with `out`, through gzip if `pack` is set.
pub(super) fn packed<T>(
    out: impl Write,
    pack: bool,
    failed: impl Fn(std::io::Error) -> Error,
    write: impl FnOnce(&mut dyn Write) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut out = BufWriter::new(out);
    if !pack {
        let written = write(&mut out)?;
        out.flush().map_err(failed)?;
        return Ok(written);
    }
    let mut encoder = GzEncoder::new(out, Compression::default());
    let written = write(&mut encoder)?;
    encoder.finish().and_then(|mut out| out.flush()).map_err(failed)?;
    Ok(written)
}

/// Whether an event is a mark of an earlier cut, which is obsolete.
fn is_mark(event: &Event<'_>) -> bool {
    event.category.is_some_and(|category| category.raw == MARKED.as_bytes())
}

impl Plan {
    /// The same plan with partly overlapping slices moved to separate threads; viewers drop them otherwise.
    #[must_use]
    pub fn on_lanes(self, store: &Store) -> Self {
        Plan { lanes: Lanes::after(store, self.tracks.len()), ..self }
    }

    fn copy(
        &self,
        input: Input,
        out: &mut dyn Write,
        failed: impl Fn(std::io::Error) -> Error,
    ) -> Result<Copied, Error> {
        let name = input.name.clone();
        let mut offsets = self.offsets.iter().copied().peekable();
        let (mut is_named, mut moves) = (vec![false; self.tracks.len()], Moves::new(&self.lanes));
        let choose = |event: &Event<'_>, offset: u64| {
            while offsets.next_if(|planned| *planned < offset).is_some() {}
            let is_planned = offsets.next_if_eq(&offset).is_some();
            if let Some(mark) = self.marks.get(&offset) {
                let Track { tid, name, .. } = &self.tracks[*mark];
                let is_first = !std::mem::replace(&mut is_named[*mark], true);
                let lane = moves.lane(event, offset);
                return Choice::Mark { tid: *tid, name: is_first.then_some(name.as_str()), lane };
            }
            if is_planned && !is_mark(event) || self.keeps(event) {
                return moves.lane(event, offset).map_or(Choice::Copy, Choice::Move);
            }
            Choice::LeaveOut
        };
        let text = match input.into_trace(Some(self.file))? {
            Trace::Json(text) => text,
            other => return Err(Error::CannotCut { name, what: other.format().what }),
        };
        copy(text, out, self.time, self.damage.as_deref(), choose).map_err(|error| match error {
            CopyError::Read(source) => input::failure(&name, source),
            CopyError::Write(source) => failed(source),
        })
    }

    /// Whether an event is kept because of its kind: metadata of processes and threads always, events that no table shows if they are in the
    /// window. A window of everything also keeps flows without a target, and ends without a begin.
    fn keeps(&self, event: &Event<'_>) -> bool {
        let is_kept = match event.kind {
            Kind::ProcessName(_)
            | Kind::ThreadName(_)
            | Kind::ProcessSortIndex(_)
            | Kind::ThreadSortIndex(_)
            | Kind::Metadata => true,
            Kind::Other => self.window.contains(event.ts),
            Kind::FlowStart(_) | Kind::FlowStep(_) | Kind::FlowEnd { .. } | Kind::End | Kind::AsyncEnd(_) => {
                self.window == Window::ALL
            }
            _ => false,
        };
        !is_mark(event) && is_kept
    }
}
