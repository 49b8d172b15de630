//! The flow extractor's files, made from the recorded work of proxies instead of a plan: `proxy_flow_rank<R>.jsonl`, `flow_steps_rank<R>.jsonl`
//! and `flow_rank<R>.json`. Several communicators get a folder each, because nothing in these files identifies the communicator.
//!
//! A line of the first is an operation on a channel of a ring, chain or tree, or a send or receive; a line of the second is a step of the FIFO. A
//! proxy counts transfers of `sliceSteps` steps each: bytes, time and duration of a transfer are at its first step.
//!
//! Each line has keys after the extractor's own: `commHash`, `seqNumber`, times, bytes, and `"synthetic": true` if `opCount` or `redOp` is not
//! recorded. Then `opCount` is the operation's index among the recorded ones in the communicator, and `redOp` is 0. For sends and receives it always is
//! the index among the recorded ones between the same two ranks in the same direction, which is the same at both ends. The parent in a tree follows from the times (`trees`) of any operation that has them, because a channel's tree
//! stays the same; without times its lines have no stage.
//!
//! `ringPrev` and `ringNext` are -1 if the ring continues without a proxy, as over NVLink. A channel without recorded proxies has one line without
//! steps, with the times of its kernel and `"peers": "unknown"`.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Display;

use nccl_stacks_recorder_text::flow::lines::{Head, Line, Own, Step, Work, signed};
use nccl_stacks_recorder_text::flow::shape::Shape;
use nccl_stacks_recorder_text::flow::trees::{Neighbour, Parent};
use nccl_stacks_recorder_text::flow::{self, of_collective, of_pair};

use super::{Converted, Coverage, function, nccl_number, size_of};
use crate::export::flow_rank;
use crate::names::collectives::Collective;
use crate::names::values::number_of_dtype;
use crate::operation::{Counts, Operation};
use crate::records::{KernelChannel, ProxyOp, ProxyStep, Records};
use crate::time::Ns;

/// The files of all ranks. Leaves out proxy operations, and channels without one, whose collective, algorithm, rank or peer is unknown.
pub fn files(records: &Records) -> (Vec<Converted>, Coverage) {
    let steps = steps_of(records);
    let (mut coverage, mut parts) = (Coverage::default(), Vec::new());
    for (at, proxy) in records.proxy_ops.iter().enumerate() {
        let part = part(records, proxy.clone(), &steps[at]);
        coverage.count(part.is_some());
        parts.extend(part);
    }
    let with_proxy: HashSet<_> = records.proxy_ops.iter().map(|of| (of.operation, of.channel)).collect();
    for channel in records.channels.iter().filter(|of| !with_proxy.contains(&(of.operation, of.channel))) {
        let part = part(records, without_proxy(channel), &[]);
        coverage.without_peers += u64::from(part.is_some());
        parts.extend(part);
    }
    let mut by_communicator = BTreeMap::<Key, Ranks<'_>>::new();
    for part in parts {
        let of_rank = by_communicator.entry(part.key).or_default().entry(part.rank).or_default();
        of_rank.entry((part.operation, part.proxy.channel, part.side)).or_default().push(part);
    }
    let has_several = by_communicator.len() > 1;
    let mut files = Vec::new();
    for (key, ranks) in by_communicator {
        let folder = match key {
            _ if !has_several => String::new(),
            Key::Hash(hash) => format!("{hash:#x}"),
            Key::Position(at) => format!("communicator_{at}"),
        };
        let neighbours = Neighbours::find(&ranks);
        let collectives = || ranks.values().flat_map(BTreeMap::values).flatten().filter(|part| part.side.is_none());
        let are_numbered = collectives().all(|part| number(part.row).is_some());
        for (rank, ops) in &ranks {
            files.extend(of_rank(&folder, *rank, ops, &neighbours, are_numbered));
        }
    }
    (files, coverage)
}

/// A communicator: NCCL's hash, or its index if the hash is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Hash(u64),
    Position(usize),
}

/// Proxy operations by rank, then by operation, channel, and side of a send or receive.
type Ranks<'a> = BTreeMap<u32, Ops<'a>>;
type Ops<'a> = BTreeMap<(usize, u32, Option<(bool, u32)>), Vec<ChannelOp<'a>>>;

/// The index of a collective among those of its communicator, from 0, if the source counts these.
fn number(of: &Operation) -> Option<u64> {
    let number = of.sequence.filter(|_| of.counts == Counts::Collectives)?;
    u64::try_from(number).ok()?.checked_sub(1)
}

/// A proxy operation, or a channel without one, with the facts about its collective.
struct ChannelOp<'a> {
    key: Key,
    rank: u32,
    /// `None` on a channel without a proxy.
    peer: Option<u32>,
    operation: usize,
    /// For a send or receive: which of the two, and the peer. Each is a separate operation.
    side: Option<(bool, u32)>,
    row: &'a Operation,
    shape: Shape,
    size: Option<u64>,
    proxy: ProxyOp,
    steps: &'a [&'a ProxyStep],
}

fn steps_of(records: &Records) -> Vec<Vec<&ProxyStep>> {
    let mut steps: Vec<Vec<&ProxyStep>> = vec![Vec::new(); records.proxy_ops.len()];
    for step in &records.proxy_steps {
        steps.get_mut(step.proxy_op).into_iter().for_each(|of| of.push(step));
    }
    for of in &mut steps {
        of.sort_by_key(|step| step.step);
        of.dedup_by_key(|step| step.step);
    }
    steps
}

/// A channel without proxies, as a proxy operation without steps.
fn without_proxy(channel: &KernelChannel) -> ProxyOp {
    let (start, end) = channel.on_host();
    ProxyOp { operation: channel.operation, channel: channel.channel, peer: -1, start, end, ..ProxyOp::default() }
}

fn part<'a>(records: &'a Records, proxy: ProxyOp, steps: &'a [&'a ProxyStep]) -> Option<ChannelOp<'a>> {
    let operation = proxy.operation?;
    let row = records.operations.get(operation)?;
    let communicator = row.communicator?;
    let collective = row.known_collective()?;
    let (is_bare, peer) = (proxy.peer < 0, u32::try_from(proxy.peer).ok());
    if peer.is_none() && !is_bare {
        return None;
    }
    // Without a proxy, the operation determines the direction.
    let is_send = if is_bare { collective == Collective::Send } else { proxy.is_send };
    let other = peer.or_else(|| u32::try_from(row.peer?).ok());
    let hash = records.communicators.get(communicator)?.hash;
    let algorithm = row.algorithm.as_deref().unwrap_or_default();
    Some(ChannelOp {
        key: hash.map_or(Key::Position(communicator), Key::Hash),
        rank: proxy.place.or(row.place)?,
        peer,
        operation,
        side: if collective.is_point_to_point() { Some((is_send, other?)) } else { None },
        row,
        shape: Shape::new(function(collective), is_send, algorithm, row.protocol.as_deref().unwrap_or_default())?,
        size: size_of(records, row),
        proxy,
        steps,
    })
}

/// The ring neighbours of each rank on each channel, from which it receives and to which it sends, as far as proxies show them.
struct Neighbours(BTreeMap<(u32, u32), [BTreeSet<u32>; 2]>);

impl Neighbours {
    fn find(ranks: &Ranks<'_>) -> Self {
        let mut found = BTreeMap::<(u32, u32), [BTreeSet<u32>; 2]>::new();
        let parts = ranks.values().flat_map(BTreeMap::values).flatten();
        for part in parts.filter(|part| part.shape.has_ring()) {
            let of_rank = found.entry((part.rank, part.proxy.channel)).or_default();
            of_rank[usize::from(part.proxy.is_send)].extend(part.peer);
        }
        Neighbours(found)
    }

    /// The only peer of a rank in a direction.
    fn get(&self, rank: u32, channel: u32, is_send: bool) -> Option<u32> {
        only(&self.0.get(&(rank, channel))?[usize::from(is_send)])
    }

    /// The length of a ring, if all of its ranks are known.
    fn length(&self, start: u32, channel: u32) -> Option<u64> {
        let (mut at, mut length) = (start, 0);
        // A path with more ranks than neighbours does not return.
        for _ in 0..self.0.len() {
            at = self.get(at, channel, true)?;
            length += 1;
            if at == start {
                return Some(length);
            }
        }
        None
    }
}

fn of_rank(
    folder: &str,
    rank: u32,
    ops: &Ops<'_>,
    neighbours: &Neighbours,
    are_numbered: bool,
) -> impl Iterator<Item = Converted> {
    let (mut op_lines, mut step_lines) = (Vec::new(), Vec::new());
    let mut places = Places::default();
    let parents = parents(ops);
    for ((operation, channel, _), parts) in ops {
        let Some(first) = parts.first() else { continue };
        let op_count = places.next(*operation, first, are_numbered);
        op_lines.push(op_line(op_count, parts, first, neighbours));
        let is_tree = first.shape.pattern == "TREE_UP_DOWN";
        let parent = is_tree.then(|| parent(parts).or_else(|| only(parents.get(channel)?))).flatten();
        let stage = |part: &ChannelOp<'_>| Some(flow::trees::stage(parent?, part.peer?, part.proxy.is_send));
        // The extractor's order: a ring receives first. The order of a tree depends on the parent.
        let place = |part: &&ChannelOp<'_>| match stage(part) {
            Some((_, place)) => (place, false),
            None => (0, part.proxy.is_send != is_tree),
        };
        let mut parts: Vec<&ChannelOp<'_>> = parts.iter().collect();
        parts.sort_by_key(place);
        for part in parts {
            let size = part.size.or_else(|| neighbours.length(part.rank, part.proxy.channel));
            add_steps(op_count, part, size, stage(part).map(|(stage, _)| stage), &mut step_lines);
        }
    }
    let meta = op_lines.first().map(Line::to_string).unwrap_or_default();
    let file = |name: String, text: String| Converted { folder: folder.to_owned(), name, text };
    [
        file(format!("proxy_flow_rank{rank}.jsonl"), joined(&op_lines)),
        file(format!("flow_steps_rank{rank}.jsonl"), joined(&step_lines)),
        file(format!("flow_rank{rank}.json"), flow_rank::text(rank, &meta, step_lines.into_iter())),
    ]
    .into_iter()
    .filter(|file| !file.text.is_empty())
}

/// Lines one below the other.
fn joined(lines: &[impl Display]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn only<T: Copy + Ord>(of: &BTreeSet<T>) -> Option<T> {
    of.first().copied().filter(|_| of.len() == 1)
}

/// By channel: the parents of a rank according to the times of its operations. A tree stays the same for all operations of a communicator.
fn parents(ops: &Ops<'_>) -> BTreeMap<u32, BTreeSet<Parent>> {
    let mut found = BTreeMap::<u32, BTreeSet<Parent>>::new();
    let is_tree = |parts: &&Vec<ChannelOp<'_>>| parts.iter().all(|part| part.shape.pattern == "TREE_UP_DOWN");
    for ((_, channel, _), parts) in ops.iter().filter(|(_, parts)| is_tree(parts)) {
        found.entry(*channel).or_default().extend(parent(parts));
    }
    found
}

/// The parent of a rank in a channel's tree.
fn parent(parts: &[ChannelOp<'_>]) -> Option<Parent> {
    let mut found: BTreeMap<u32, Neighbour> = BTreeMap::new();
    for part in parts {
        let Some(peer) = part.peer else { continue };
        let neighbour = found.entry(peer).or_insert(Neighbour { peer, ..Default::default() });
        let first = part.steps.first().filter(|step| step.step == 0);
        let moved = first.and_then(|step| moved(step, part.proxy.is_send)).map(|time| time.0);
        *(if part.proxy.is_send { &mut neighbour.went } else { &mut neighbour.came }) = moved;
    }
    flow::trees::parent(&found.into_values().collect::<Vec<_>>())
}

/// When a step's data left the GPU or arrived.
fn moved(step: &ProxyStep, is_send: bool) -> Option<Ns> {
    let start = step.start?;
    match is_send {
        true => Some(start + step.gpu_wait? + step.peer_wait.unwrap_or_default()),
        false => Some(start + step.network?),
    }
}

/// Numbers operations: even for collectives, odd for sends and receives.
#[derive(Default)]
struct Places {
    last: Option<usize>,
    next: u64,
    /// By direction and peer: the last send or receive, and its index among those, which is the same at its other end.
    pairs: HashMap<(bool, u32), (usize, u64)>,
}

impl Places {
    /// The number of an operation: as recorded, or its index. Its channels are consecutive and share the number.
    fn next(&mut self, operation: usize, part: &ChannelOp<'_>, are_numbered: bool) -> OpCount {
        if let Some(side) = part.side {
            let (last, index) = self.pairs.entry(side).or_insert((operation, 0));
            if *last != operation {
                (*last, *index) = (operation, *index + 1);
            }
            return OpCount { value: of_pair(*index), is_recorded: false };
        }
        if let Some(number) = number(part.row).filter(|_| are_numbered) {
            return OpCount { value: of_collective(number), is_recorded: true };
        }
        if self.last != Some(operation) {
            self.last = Some(operation);
            self.next += 1;
        }
        OpCount { value: of_collective(self.next - 1), is_recorded: false }
    }
}

/// The `opCount` of an operation.
#[derive(Clone, Copy)]
struct OpCount {
    value: u64,
    is_recorded: bool,
}

/// The extractor's number of the reduction.
fn reduction(part: &ChannelOp<'_>) -> Option<u32> {
    flow::reduction(function(part.row.known_collective()?), part.row.reduction)
}

fn op_line<'a>(op_count: OpCount, parts: &[ChannelOp<'_>], first: &ChannelOp<'a>, neighbours: &Neighbours) -> Line<'a> {
    let work = |ChannelOp { proxy, .. }: &ChannelOp<'_>| Work {
        transfers: proxy.steps,
        chunk: proxy.chunk_bytes.unwrap_or(0),
        start: proxy.queued.or(proxy.start).map(|time| time.0),
        end: proxy.end.map(|time| time.0),
        bytes: proxy.bytes,
    };
    let work = parts.iter().map(work).reduce(Work::and).unwrap_or_default();
    let place = |is_send| neighbours.get(first.rank, first.proxy.channel, is_send).map_or(-1, i64::from);
    let dtype = first.row.dtype.as_deref().and_then(number_of_dtype).unwrap_or(0);
    head(op_count, first).op(Some(first.shape), &work, dtype, reduction(first), (place(false), place(true)))
}

/// What the lines of an operation on a channel begin with, and our own keys without times.
fn head<'a>(op_count: OpCount, part: &ChannelOp<'a>) -> Head<'a> {
    Head {
        op_count: op_count.value,
        rank: part.rank,
        channel: part.proxy.channel,
        protocol: part.row.protocol.as_deref().unwrap_or("UNKNOWN"),
        own: Own {
            hash: match part.key {
                Key::Hash(hash) => Some(hash),
                Key::Position(_) => None,
            },
            number: nccl_number(part.row),
            lacks_peers: part.peer.is_none(),
            is_synthetic: !op_count.is_recorded || reduction(part).is_none(),
            ..Own::default()
        },
    }
}

/// The lines of the recorded steps: `sliceSteps` lines each.
fn add_steps<'a>(
    op_count: OpCount,
    part: &ChannelOp<'a>,
    size: Option<u64>,
    stage: Option<&'static str>,
    lines: &mut Vec<Line<'a>>,
) {
    let Some(peer) = part.peer else { return };
    let bytes = signed(part.proxy.chunk_bytes).unwrap_or(0);
    for transfer in part.steps {
        let mut head = head(op_count, part);
        head.own.start = transfer.start.map(|time| time.0);
        head.own.took = transfer.start.zip(transfer.end).map(|(start, end)| (end - start).0);
        head.own.bytes = signed(transfer.bytes);
        let step = Step { number: transfer.step, is_send: part.proxy.is_send, peer, bytes, stage };
        lines.extend(head.transfer(step, part.shape, part.proxy.steps, size));
    }
}
