//! The operations of a dump.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use super::super::nodes::{Keyed, Value};
use super::super::reader::Reading;
use super::super::tables::{Records, Splits};
use super::groups::{GLOO, Group, Groups};
use crate::operation::{Operation, Source, Split, State};
use nccl_stacks_trace::names::collectives::{Collective, element_bytes};
use nccl_stacks_trace::numbers::Numbers;
use nccl_stacks_trace::time::Ns;

const COALESCED: &str = "coalesced";

/// Adds the operations of a dump, in its order.
///
/// Coalesced operations share their numbers and one kernel. Only the record of the group, which comes last, has the state and times of that
/// kernel; it passes them to its members and is no operation itself, unless the ring has lost its members.
pub(super) fn read(groups: &Groups<'_>, reading: &mut Reading<'_>) {
    // Members of coalesced groups have the process group and both numbers in common.
    let mut open = Open::default();
    let mut paths = Paths::default();
    let mut named = Keyed::new(["collective_seq_id", "seq_id", "p2p_seq_id", "profiling_name", "frames"]);
    let (mut of_operation, mut of_splits) = (Keyed::new(OF_OPERATION), Keyed::new(OF_SPLITS));
    for (entry, group) in groups.entries.iter().zip(&groups.of_entries) {
        if !entry.is_dict() {
            reading.file.skip("entries that are not dictionaries", None);
            continue;
        }
        reading.file.records += 1;
        let records = &mut *reading.records;
        let [collective, any, own, title, frames] = named.of(*entry);
        let int = |value: Option<Value<'_>>| value.and_then(Value::int);
        let numbers = (int(collective).or_else(|| int(any)), int(own));
        let title = title.and_then(Value::text).unwrap_or_default();
        let group = group.map(|at| &groups.all[at]);
        let found = of_operation.of(*entry);
        let mut operation = Operation { rank: groups.rank, ..operation(found, title, numbers, group, records) };
        let key = (operation.communicator, numbers);
        if operation.collective.as_deref() == Some(COALESCED)
            && let Some(last) = open.last.remove(&key)
        {
            let mut member = Some(last);
            while let Some(at) = member {
                let of = &mut records.operations[at];
                (of.state, of.duration) = (operation.state, operation.duration);
                member = open.before.get(&at).copied();
            }
            continue;
        }
        operation.recorded_path = frames.and_then(|frames| paths.of_frames(frames, records));
        let at = records.push(operation);
        if title.ends_with("barrier") {
            let name = records.text(title.split_once(':').map_or(title, |(_, name)| name));
            records.calls_by.insert(at, name);
        }
        records.splits.extend(splits(of_splits.of(*entry)).map(|splits| (at, splits)));
        if let Some(before) = open.last.insert(key, at) {
            open.before.insert(at, before);
        }
    }
    reading.records.paths = paths.numbers.list;
}

/// Members of coalesced groups whose record has not come yet.
#[derive(Default)]
struct Open {
    /// By process group and both numbers: the last one.
    last: HashMap<(Option<usize>, Places), usize, RandomState>,
    /// By member: the one before it.
    before: HashMap<usize, usize, RandomState>,
}

/// The number among the collectives of the group, and among the rank's own sends and receives.
type Places = (Option<i64>, Option<i64>);

/// How an all-to-all is divided, which PyTorch from 2.11 on may write.
const OF_SPLITS: [&str; 4] = ["input_split_sizes", "in_split_sizes", "output_split_sizes", "out_split_sizes"];

fn splits([input, r#in, output, out]: [Option<Value<'_>>; OF_SPLITS.len()]) -> Option<Splits> {
    let list = |list: Option<Value<'_>>| {
        let list = list?;
        // One list, or a list of one.
        let list = list.items().next().filter(|first| first.is_list()).unwrap_or(list);
        list.items().map(|split| u64::try_from(split.int()?).ok()).collect::<Option<Vec<u64>>>()
    };
    let (sent, received) = (list(input.or(r#in))?, list(output.or(out))?);
    (!sent.is_empty() && sent.len() == received.len()).then_some(Splits { sent, received })
}

const OF_OPERATION: [&str; 10] = [
    "is_p2p",
    "input_dtypes",
    "output_dtypes",
    "input_sizes",
    "output_sizes",
    "time_created_ns",
    "time_created_us",
    "duration_ms",
    "state",
    "retired",
];

fn operation(
    [is_p2p, in_types, out_types, in_sizes, out_sizes, created_ns, created_us, took, state, retired]: [Option<Value<'_>>;
        OF_OPERATION
            .len()],
    title: &str,
    (collective_number, own_number): Places,
    group: Option<&Group>,
    records: &mut Records,
) -> Operation {
    let (backend, name) = title.split_once(':').unwrap_or(("", title));
    let is_gloo = backend == GLOO;
    let (text, collective) = records.collective(name);
    let peers = peers(title);
    let is_point_to_point = peers.is_some() || is_p2p.is_some_and(Value::is_true);
    let dtype = in_types.and_then(dtype).or_else(|| out_types.and_then(dtype));
    let [in_elements, out_elements] = [in_sizes, out_sizes].map(|sizes| sizes.and_then(elements));
    let ranks = group.and_then(|group| group.ranks.as_ref()).map(|ranks| ranks.len() as u64);
    Operation {
        source: Source::FLIGHT_RECORDER,
        communicator: group.map(|group| group.communicator),
        place: peers.map(|(own, _)| own).or(group.and_then(|group| group.place)),
        peer: peers.map(|(_, peer)| peer.into()),
        sequence: if is_point_to_point { own_number } else { collective_number },
        collective: Some(text).filter(|text| !text.is_empty()),
        enqueued: created_ns.and_then(Value::int).or_else(|| created_us?.int()?.checked_mul(1_000)).map(Ns),
        duration: took.and_then(Value::float).and_then(of_ms),
        state: match state.and_then(Value::text) {
            // Gloo has no events of a GPU, so that the state never changes; it only retires what has ended.
            Some("scheduled") if is_gloo && retired.is_some_and(Value::is_true) => State::Completed,
            Some("scheduled") => State::Scheduled,
            Some("started") => State::Started,
            Some("completed") => State::Completed,
            _ => State::Unknown,
        },
        split: if collective == Some(Collective::AllToAll) { Split::Unknown } else { Split::Even },
        dtype: dtype.map(|dtype| records.text(dtype)),
        in_elements,
        out_elements,
        bytes: collective.and_then(|of| size(of, [in_elements, out_elements], dtype, ranks)),
        ..Operation::default()
    }
}

/// The type of the first of several tensors, or of all.
fn dtype(types: Value<'_>) -> Option<&str> {
    types.items().next().and_then(Value::text).or(types.text())
}

/// Milliseconds as time; `None` for what is no time.
fn of_ms(ms: f64) -> Option<Ns> {
    (ms.is_finite() && (0.0..1e12).contains(&ms)).then(|| Ns::rounded(ms * 1e6))
}

/// The own place and the peer's of a send or receive, both within the group: `nccl:send 1->2`, `nccl:recv 3<-0`.
pub(super) fn peers(title: &str) -> Option<(u32, u32)> {
    let (_, ranks) = title.split_once(' ')?;
    let (own, peer) = ranks.split_once("->").or_else(|| ranks.split_once("<-"))?;
    Some((own.trim().parse().ok()?, peer.trim().parse().ok()?))
}

/// The size of a collective in bytes, by the elements that this rank gives and gets; `None` if they, their type or the number of ranks is unknown.
fn size(of: Collective, elements: [Option<u64>; 2], dtype: Option<&str>, ranks: Option<u64>) -> Option<u64> {
    let of_type = dtype.and_then(element_bytes)?;
    let [input, output] = elements.map(|elements| elements.map(|elements| elements.saturating_mul(of_type)));
    let (input, output) = match of {
        // Only the root has a tensor on the other side.
        Collective::Gather => (input?, output.unwrap_or(0)),
        Collective::Scatter => (input.unwrap_or(0), output?),
        _ => (input?, output?),
    };
    let ranks = ranks.or(of.is_point_to_point().then_some(1))?;
    Some(of.size(input, output, ranks))
}

/// How many elements the tensors of these shapes have together: `[[4096, 1, 5120]]`. `None` without tensors.
fn elements(shapes: Value<'_>) -> Option<u64> {
    let size = |shape: Value<'_>| {
        shape.items().try_fold(1_u64, |product, side| product.checked_mul(u64::try_from(side.int()?).ok()?))
    };
    let shapes = shapes.items();
    if shapes.len() == 0 {
        return None;
    }
    shapes.map(|shape| if shape.is_list() { size(shape) } else { None }).try_fold(0_u64, |sum, n| sum.checked_add(n?))
}

/// The call paths of entries, each once. A pickle holds a list or a frame that several entries have once.
#[derive(Default)]
struct Paths {
    numbers: Numbers<Vec<Arc<str>>>,
    /// By the position of a list of frames.
    of_lists: HashMap<u32, Option<u32>, RandomState>,
    /// By the position of a frame: its text.
    frames: HashMap<u32, Arc<str>, RandomState>,
}

impl Paths {
    /// The call path of an entry's frames. PyTorch writes them as its tracebacks have them, the innermost first and `<module>` last; ours begin with the
    /// outermost.
    fn of_frames(&mut self, frames: Value<'_>, records: &mut Records) -> Option<u32> {
        if let Some(known) = self.of_lists.get(&frames.position()) {
            return *known;
        }
        let mut path: Vec<Arc<str>> = Vec::with_capacity(frames.items().len());
        for frame in frames.items().rev() {
            let text = self.frames.entry(frame.position()).or_insert_with(|| records.text(&text_of(frame)));
            path.push(Arc::clone(text));
        }
        let found = (!path.is_empty()).then(|| self.numbers.number(path));
        self.of_lists.insert(frames.position(), found);
        found
    }
}

/// A frame as the profiler writes Python functions: `train.py(12): step`.
fn text_of(frame: Value<'_>) -> String {
    let text = |key: &str| frame.get(key).and_then(Value::text);
    let name = text("name").unwrap_or("?");
    match (text("filename"), frame.get("line").and_then(Value::int)) {
        (Some(file), Some(line)) => format!("{file}({line}): {name}"),
        (Some(file), None) => format!("{file}: {name}"),
        _ => name.to_owned(),
    }
}
