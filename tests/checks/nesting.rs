//! Small traces of all phases, with few threads, names and times, so that everything meets everything: the store has the slices
//! and flows of the plain rules (see [`super::naive`]), however many threads read.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::num::NonZero;

use nccl_stacks::damage::Damage;
use nccl_stacks::id::{ProcessId, SliceId, ThreadId, TrackId};
use nccl_stacks::input;
use nccl_stacks::load::{LoadOptions, load_input};
use nccl_stacks::store::Store;
use nccl_stacks::store::tracks::Owner;

use super::naive::{Bind, Counts, Event, Line, Slice, Trace, What};
use super::plain;

/// The bytes of an event.
const WIDTH: usize = 5;

/// More events add no new cases.
const MAX_EVENTS: usize = 40;

/// One in this many traces is read by several threads.
const THREADED: u32 = 4096;

const NAMES: [Option<u8>; 4] = [None, Some(b'a'), Some(b'b'), Some(b'a')];

/// Processes and threads; thread 0 of a process is its main thread.
const THREADS: [(u8, u8); 6] = [(1, 1), (1, 2), (2, 1), (0, 7), (2, 0), (0, 0)];

/// The first byte says how the trace is divided, all others are its events.
pub fn check(bytes: &[u8]) {
    // Starting threads takes longer than all the rest, so they read one trace of many.
    let mixed = bytes.iter().fold(0xcbf2_9ce4_u32, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193));
    check_with(bytes, mixed % THREADED == 0);
}

/// The same, and with threads whatever the bytes are.
pub fn check_in_threads(bytes: &[u8]) {
    check_with(bytes, true);
}

fn check_with(bytes: &[u8], in_threads: bool) {
    let [how, rest @ ..] = bytes else { return };
    let mut text = "{\"traceEvents\":[".to_owned();
    let mut events = Vec::new();
    for bytes in rest.chunks_exact(WIDTH).take(MAX_EVENTS) {
        events.push(event(bytes.try_into().unwrap(), &mut text));
        text.push(',');
    }
    if events.is_empty() {
        return;
    }
    text.pop();
    text.push_str("]}");
    let wanted = Trace::new(&events);
    compare(&plain::load_divided(&text, NonZero::new(usize::from(*how) % MAX_EVENTS)), &wanted, &text);
    if in_threads {
        compare(&load_in_threads(&text, 32 + 8 * usize::from(*how)), &wanted, &text);
    }
}

fn load_in_threads(text: &str, chunk: usize) -> Store {
    let bytes = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    let input = input::from_reader("trace".to_owned(), None, bytes).unwrap();
    let options = LoadOptions { threads: NonZero::new(4), chunk: NonZero::new(chunk), ..LoadOptions::default() };
    load_input(input, options, |_| {}).unwrap_or_else(|e| panic!("{e}: {text}")).store
}

/// One event, and its text.
fn event([kind, names, thread, ts, dur]: [u8; WIDTH], text: &mut String) -> Event {
    let (name, category) = (NAMES[usize::from(names & 3)], NAMES[usize::from(names >> 2 & 3)]);
    let (pid, tid) = THREADS[usize::from(thread) % THREADS.len()];
    let main = if tid == 0 { pid } else { tid };
    let (ts, id) = (i64::from(ts % 32), dur >> 4);
    let (mut line, mut flow, mut bind) = (Line::Thread(pid, main), None, None);
    let phases = [b'X', b'X', b'X', b'X', b'B', b'B', b'E', b'E', b'i', b's', b't', b'f', b'b', b'e', b'n', b'M'];
    let phase = phases[usize::from(kind & 15)];
    write!(text, "{{\"ph\":\"{}\",\"pid\":{pid},\"tid\":{tid},\"ts\":0.{ts:03}", phase as char).unwrap();
    let what = match phase {
        b'X' => {
            write!(text, ",\"dur\":0.{:03}", dur & 15).unwrap();
            What::Complete(i64::from(dur & 15))
        }
        b'B' | b'b' => What::Begin,
        b'E' | b'e' => What::End,
        b'i' | b'n' => What::Instant,
        b's' => What::FlowStart,
        b't' => What::FlowStep,
        b'f' => What::FlowEnd { enclosing: dur & 1 == 0 },
        _ => What::Nothing,
    };
    match phase {
        b'i' if dur & 3 == 1 => {
            text.push_str(",\"s\":\"p\"");
            line = Line::Process(pid);
        }
        b'i' if dur & 3 == 2 => {
            text.push_str(",\"s\":\"g\"");
            line = Line::Global;
        }
        b's' | b't' | b'f' if dur & 15 != 15 => {
            flow = Some(u64::from(id & 3));
            write!(text, ",\"id\":{}", id & 3).unwrap();
            if what == (What::FlowEnd { enclosing: true }) {
                text.push_str(",\"bp\":\"e\"");
            }
        }
        b'b' | b'e' | b'n' => {
            let per_process = dur & 1 == 1;
            let written =
                if per_process { format!("\"id2\":{{\"local\":{}}}", id & 1) } else { format!("\"id\":{}", id & 1) };
            write!(text, ",{written}").unwrap();
            line = Line::Operation { process: per_process.then_some(pid), category, id: id & 1 };
        }
        _ => {}
    }
    if kind >> 4 & 3 == 3 {
        let (flow_in, flow_out) = (kind & 64 != 0, kind & 128 != 0);
        write!(text, ",\"bind_id\":{},\"flow_in\":{flow_in},\"flow_out\":{flow_out}", id & 3).unwrap();
        bind = matches!(phase, b'X' | b'B' | b'b' | b'n').then_some(Bind { id: u64::from(id & 3), flow_in, flow_out });
    }
    for (key, value) in [("name", name), ("cat", category)] {
        if let Some(value) = value {
            write!(text, ",\"{key}\":\"{}\"", value as char).unwrap();
        }
    }
    text.push('}');
    let is_never_nameless = matches!(phase, b'X' | b'B' | b'b') || phase == b'i' && matches!(line, Line::Thread(..));
    // `?` means the name that Perfetto writes there.
    let name = if is_never_nameless { name.or(Some(b'?')) } else { name };
    Event { what, line, ts, name, category, id: flow, bind }
}

fn compare(store: &Store, wanted: &Trace, text: &str) {
    let slices = &store.slices;
    let text_of = |id| match store.strings.get(id) {
        Some("[No name]") => Some(b'?'),
        Some(text) => Some(text.as_bytes()[0]),
        None => None,
    };
    let mut lines: BTreeMap<TrackId, Line> = BTreeMap::new();
    let mut tracks: BTreeMap<Line, TrackId> = BTreeMap::new();
    assert_eq!(slices.len(), wanted.slices.len(), "{text}");
    for (id, slice) in slices.ids().zip(&wanted.slices) {
        let parent = slices.parent(id).map(SliceId::row);
        // Which track a line has does not matter, as long as it is always the same.
        let track = slices.track(id);
        let line = *lines.entry(track).or_insert(slice.line);
        assert_eq!(*tracks.entry(slice.line).or_insert(track), track, "slice {id} of {text}");
        let (ts, dur, depth) = (slices.ts(id).0, slices.dur(id).0, usize::from(slices.depth(id)));
        let (name, category) = (text_of(slices.name(id)), text_of(slices.category(id)));
        assert_eq!(Slice { ts, dur, line, depth, parent, name, category }, *slice, "slice {id} of {text}");
        assert!(is_of(store, store.tracks.track(track).owner, line), "slice {id} of {text}");
    }
    let flows = &store.flows;
    let rows: Vec<_> =
        (0..flows.len()).map(|i| (flows.slice_out[i].row(), flows.slice_in[i].row(), flows.trace_id[i])).collect();
    assert_eq!(rows, wanted.flows, "{text}");
    let count = |kind| store.damage.get(kind).count;
    let counts = Counts {
        spilled: count(Damage::Spilled),
        misplaced: count(Damage::MisplacedEnd),
        duplicate: count(Damage::FlowDuplicateId),
        nowhere: count(Damage::FlowNoEnclosingSlice),
        invalid: count(Damage::FlowInvalidId),
        no_direction: count(Damage::FlowWithoutDirection),
        end_without_start: count(Damage::FlowEndWithoutStart),
        step_without_start: count(Damage::FlowStepWithoutStart),
    };
    assert_eq!(counts, wanted.counts, "{text}");
}

fn is_of(store: &Store, owner: Owner, line: Line) -> bool {
    let thread = |utid: ThreadId| (store.tracks.process_of(utid).pid, store.tracks.thread(utid).tid);
    let process = |upid: ProcessId| store.tracks.process(upid).pid;
    match (owner, line) {
        (Owner::Thread(utid), Line::Thread(pid, tid)) | (Owner::Lane(utid), Line::Lane(pid, tid, _)) => {
            thread(utid) == (pid.into(), tid.into())
        }
        (Owner::Instants(Some(upid)), Line::Process(pid))
        | (Owner::Operation(Some(upid)), Line::Operation { process: Some(pid), .. }) => process(upid) == i64::from(pid),
        (Owner::Instants(None), Line::Global) | (Owner::Operation(None), Line::Operation { process: None, .. }) => true,
        _ => false,
    }
}
