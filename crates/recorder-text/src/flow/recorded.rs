//! A rank's aggregate from the rings: operations in the order of their records, each with its channels, and these with their proxies.
//!
//! There is no memory to collect anything in. So the records are read twice: first for the neighbours and the parent of each channel, then for the lines.

use core::fmt::{self, Write};

use nccl_stacks_recorder_format::layout::CALL_RINGS;
use nccl_stacks_recorder_format::{Handle, Kind, Record, Text, Writer};

use super::lines::{Aggregate, Head, Line, Own, Step, Work, signed};
use super::shape::Shape;
use super::sources::Of;
use super::trees::{self, Neighbour, Parent};
use super::{of_collective, of_pair, reduction};
use crate::functions::{FUNCTIONS, function};
use crate::merge::{Cursors, Merge};
use crate::tree::{Link, Placed, Tree};

/// NCCL's states of a step in which its bytes are known: a send is under way, a receive is here.
const SEND_WAIT: u64 = 9;
const RECV_FLUSH_WAIT: u64 = 11;
/// The state of a channel that has stopped.
const CHANNEL_STOP: u64 = 22;
/// NCCL's types in the order of their numbers, without `nccl`.
const DTYPES: &str = "Int8 Uint8 Int32 Uint32 Int64 Uint64 Float16 Float32 Float64 Bfloat16 Float8e4m3 Float8e5m2";

/// How many channels NCCL can number in an event.
const CHANNELS: usize = 256;
/// How many records back from the time of an operation its call is looked for: of the call itself, and of threads that share the ring.
const NEAR: u64 = 16;
/// A tree has one parent and two or three children.
const NEIGHBOURS: usize = 8;
/// More transfers than any operation has.
const MOST_TRANSFERS: u32 = 1 << 24;

/// What operations show of something that is the same for all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown<T> {
    Nothing,
    One(T),
    Several,
}

impl<T: Copy + PartialEq> Shown<T> {
    fn add(&mut self, value: T) {
        *self = match self {
            Shown::Nothing => Shown::One(value),
            Shown::One(known) if *known == value => return,
            _ => Shown::Several,
        };
    }

    fn get(self) -> Option<T> {
        match self {
            Shown::One(value) => Some(value),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
struct Channel {
    before: Shown<u32>,
    after: Shown<u32>,
    parent: Shown<Parent>,
}

/// The aggregate of a rank in a communicator.
pub struct Flow<'a> {
    writer: &'a Writer,
    tree: Tree<'a>,
    pid: u32,
    of: Of,
    offset: i64,
    /// By direction and peer: how many sends and receives there were so far.
    pairs: &'a mut [u32],
    channels: [Channel; CHANNELS],
}

/// An operation, and what its record and that of its call say.
struct Operation {
    handle: Handle,
    record: Record,
    function: &'static str,
    algorithm: Text,
    protocol: Text,
    op_count: u64,
    is_counted: bool,
    dtype: u32,
    reduction: Option<u32>,
}

impl Operation {
    fn protocol(&self) -> &str {
        core::str::from_utf8(&self.protocol).ok().filter(|text| !text.is_empty()).unwrap_or("UNKNOWN")
    }

    fn shape(&self, is_send: bool) -> Option<Shape> {
        Shape::new(self.function, is_send, core::str::from_utf8(&self.algorithm).unwrap_or_default(), self.protocol())
    }

    /// The shape of an operation without a proxy.
    fn own_shape(&self) -> Option<Shape> {
        self.shape(self.function == "Send")
    }
}

impl<'a> Flow<'a> {
    /// Prepares the aggregate of a communicator. `links` must be new and as many as [`links`](super::links) returns, `pairs` zeros and as many as
    /// [`Of::pairs`] returns; `offset` is what to add to a record's time to get `CLOCK_REALTIME`, ns.
    #[inline(never)]
    pub fn new(writer: &'a Writer, pid: u32, of: Of, links: &'a mut [Link], pairs: &'a mut [u32], offset: i64) -> Self {
        let tree = Tree::build(writer, pid, links);
        let nothing = Channel { before: Shown::Nothing, after: Shown::Nothing, parent: Shown::Nothing };
        let mut flow = Flow { writer, tree, pid, of, offset, pairs, channels: [nothing; CHANNELS] };
        let mut places = 0;
        for placed in Merge::new(writer, Cursors::new()) {
            if let Some(operation) = flow.operation(placed, &mut places) {
                flow.look_at(&operation);
            }
        }
        flow
    }

    /// Writes the aggregate; returns how many operations it lacks, with an unknown algorithm or peer. Fails if no operation is recorded.
    #[inline(never)]
    pub fn write(&mut self, out: &mut dyn Write) -> Result<usize, fmt::Error> {
        let (operation, channel) = self.first().ok_or(fmt::Error)?;
        let op = self.op(&operation, channel);
        let mut lines = Aggregate::begin(self.of.rank, &op, out)?;
        let mut left_out = 0_usize;
        self.pairs.fill(0);
        let mut places = 0;
        for placed in self.all() {
            let Some(operation) = self.operation(placed, &mut places) else { continue };
            if operation.own_shape().is_none() {
                left_out = left_out.saturating_add(1);
                continue;
            }
            let mut next = self.channel_from(&operation, 0);
            while let Some(channel) = next {
                self.add_channel(&operation, channel, &mut lines)?;
                next = channel.checked_add(1).and_then(|from| self.channel_from(&operation, from));
            }
        }
        lines.end()?;
        Ok(left_out)
    }

    pub fn has_operations(&mut self) -> bool {
        self.first().is_some()
    }

    /// The operation that the file begins with, and its channel: the first that has one, else the first that NCCL reported, else the first call.
    #[inline(never)]
    fn first(&mut self) -> Option<(Operation, Option<u8>)> {
        self.pairs.fill(0);
        let mut without: Option<Operation> = None;
        let mut places = 0;
        for placed in self.all() {
            let Some(operation) = self.operation(placed, &mut places) else { continue };
            let channel = operation.own_shape().and_then(|_| self.channel_from(&operation, 0));
            if channel.is_some() {
                return Some((operation, channel));
            }
            without = without.or(Some(operation));
        }
        let call = || self.all().find_map(|placed| self.call(placed));
        without.or_else(call).map(|operation| (operation, None))
    }

    fn all(&self) -> Merge<'a> {
        Merge::new(self.writer, Cursors::new())
    }

    #[inline(never)]
    fn text(&self, number: u8) -> Text {
        self.writer.text_at(number).unwrap_or_default()
    }

    fn function(&self, record: &Record) -> Option<&'static str> {
        FUNCTIONS.get(function(self.writer, record.function)?).map(|(_, name)| *name)
    }

    /// An operation of the communicator that NCCL reported. All must be asked for, in their order: `places` counts those that have no number.
    #[inline(never)]
    fn operation(&mut self, (handle, record): Placed, places: &mut u64) -> Option<Operation> {
        let is_own = record.communicator == self.of.events && self.of.events != 0;
        if !is_own || !matches!(record.kind, Kind::Coll | Kind::P2p) {
            return None;
        }
        let function = self.function(&record)?;
        let call = self.call_of((handle, record), function);
        let (op_count, is_counted) = match record.kind {
            Kind::P2p => (self.next_of_pair(&record, function)?, false),
            _ => {
                let place = *places;
                *places = place.saturating_add(1);
                counted(&record).map_or((of_collective(place), false), |index| (of_collective(index), true))
            }
        };
        let name = self.text(record.dtype);
        let of_name = || DTYPES.split(' ').position(|known| Some(known.as_bytes()) == name.strip_prefix(b"nccl"));
        let of_call = call.and_then(|call| call.dtype.checked_sub(1)).map(usize::from);
        Some(Operation {
            handle,
            record,
            function,
            algorithm: self.text(record.algorithm),
            protocol: self.text(record.protocol),
            op_count,
            is_counted,
            dtype: of_call.or_else(of_name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0),
            reduction: reduction(function, call.and_then(|call| reduction_of(&call))),
        })
    }

    /// A call as an operation of which no more is known.
    fn call(&self, (handle, record): Placed) -> Option<Operation> {
        if record.kind != Kind::Call || record.communicator != self.of.calls {
            return None;
        }
        let function = self.function(&record)?;
        let (op_count, is_counted) = match function {
            "Send" | "Recv" => (of_pair(0), false),
            _ => counted(&record).map_or((0, false), |index| (of_collective(index), true)),
        };
        Some(Operation {
            handle,
            record,
            function,
            algorithm: Text::default(),
            protocol: Text::default(),
            op_count,
            is_counted,
            dtype: record.dtype.checked_sub(1).map_or(0, u32::from),
            reduction: reduction(function, reduction_of(&record)),
        })
    }

    /// The number of a send or receive; `None` if its peer is unknown.
    fn next_of_pair(&mut self, record: &Record, function: &str) -> Option<u64> {
        let peer = usize::try_from(record.c as u32 as i32).ok().filter(|peer| *peer < self.of.size as usize)?;
        let direction = if function == "Send" { self.of.size as usize } else { 0 };
        let count = self.pairs.get_mut(direction.checked_add(peer)?)?;
        let index = *count;
        *count = index.saturating_add(1);
        Some(of_pair(index.into()))
    }

    /// The call that an operation is of. The plugin's record of it is made within the call, on the same thread.
    #[inline(never)]
    fn call_of(&self, (_, operation): Placed, function: &str) -> Option<Record> {
        let api = Handle::from_number(operation.parent).and_then(|api| self.writer.get(api));
        let is_api = |record: &Record| matches!(record.kind, Kind::CollApi | Kind::P2pApi);
        let near = api.filter(is_api).unwrap_or(operation);
        let before = (0..CALL_RINGS).filter_map(|ring| self.last_call(ring, &near));
        let call = before.max_by_key(|call| call.time)?;
        let is_it = call.communicator == self.of.calls && call.a == near.a && self.function(&call) == Some(function);
        is_it.then_some(call)
    }

    /// The last call in a ring that the thread of a record made before it.
    #[inline(never)]
    fn last_call(&self, ring: usize, near: &Record) -> Option<Record> {
        let claimed = self.writer.claimed(ring);
        let (mut low, mut high) =
            (claimed.saturating_sub(self.writer.ring_sizes().of(ring)).saturating_add(1), claimed.saturating_add(1));
        // Positions below `low` are not after the record, and those from `high` on are. One that is being written is the newest or the oldest.
        while low < high {
            let middle = low.midpoint(high);
            match self.writer.at(ring, middle) {
                Some((_, record)) if record.time > near.time => high = middle,
                _ => low = middle.saturating_add(1),
            }
        }
        let positions = (1..=NEAR).map_while(|back| low.checked_sub(back));
        let mut before = positions.filter_map(|position| self.writer.at(ring, position));
        let is_call = |(_, record): &Placed| record.kind == Kind::Call && record.thread == near.thread;
        before.find(is_call).map(|(_, call)| call)
    }

    /// The work of this process's proxies for an operation on a channel, or on all of them.
    fn proxies(&self, operation: &Operation, channel: Option<u8>) -> impl Iterator<Item = Placed> + use<'_, 'a> {
        let pid = u64::from(self.pid);
        self.tree.children(operation.handle).filter(move |(_, child)| {
            let is_here = channel.is_none_or(|channel| child.channel == channel);
            child.kind == Kind::ProxyOp && is_here && child.a == pid && peer(child).is_some()
        })
    }

    /// The first channel of an operation from this number on.
    #[inline(never)]
    fn channel_from(&self, operation: &Operation, from: u8) -> Option<u8> {
        if !matches!(operation.record.kind, Kind::Coll | Kind::P2p) {
            return None;
        }
        let kernels = self.tree.children(operation.handle).filter(|(_, child)| child.kind == Kind::KernelChannel);
        let all = self.proxies(operation, None).chain(kernels).map(|(_, child)| child.channel);
        all.filter(|channel| *channel >= from).min()
    }

    /// Learns from an operation what holds for its channels.
    #[inline(never)]
    fn look_at(&mut self, operation: &Operation) {
        let Some(shape) = operation.own_shape() else { return };
        let mut next = self.channel_from(operation, 0);
        while let Some(channel) = next {
            let Some(mut known) = self.channels.get(usize::from(channel)).copied() else { return };
            for (_, proxy) in self.proxies(operation, Some(channel)).filter(|_| shape.has_ring()) {
                let side = if proxy.small == 1 { &mut known.after } else { &mut known.before };
                peer(&proxy).into_iter().for_each(|peer| side.add(peer));
            }
            self.parent(operation, shape, channel).into_iter().for_each(|parent| known.parent.add(parent));
            self.channels.get_mut(usize::from(channel)).into_iter().for_each(|place| *place = known);
            next = channel.checked_add(1).and_then(|from| self.channel_from(operation, from));
        }
    }

    /// The parent in a channel's tree, by the times of an operation.
    fn parent(&self, operation: &Operation, shape: Shape, channel: u8) -> Option<Parent> {
        if shape.pattern != "TREE_UP_DOWN" {
            return None;
        }
        let (mut neighbours, mut count) = ([Neighbour::default(); NEIGHBOURS], 0_usize);
        for (handle, proxy) in self.proxies(operation, Some(channel)) {
            let peer = peer(&proxy)?;
            let known = neighbours.get(..count)?.iter().position(|of| of.peer == peer);
            let at = known.unwrap_or(count);
            count = count.max(at.checked_add(1)?);
            let of = neighbours.get_mut(at)?;
            of.peer = peer;
            let (first, _) = self.steps(handle).find(|(_, step)| step.a == 0)?;
            let (moved, side) = match proxy.small {
                1 => (SEND_WAIT, &mut of.went),
                _ => (RECV_FLUSH_WAIT, &mut of.came),
            };
            *side = self.state(first, moved).map(|state| state.time);
        }
        trees::parent(neighbours.get(..count)?)
    }

    fn steps(&self, proxy: Handle) -> impl Iterator<Item = Placed> + use<'_, 'a> {
        self.tree.children(proxy).filter(|(_, child)| child.kind == Kind::ProxyStep)
    }

    #[inline(never)]
    fn state(&self, of: Handle, state: u64) -> Option<Record> {
        self.tree.children(of).map(|(_, child)| child).find(|child| child.kind == Kind::State && child.a == state)
    }

    #[inline(never)]
    fn stop(&self, of: Handle) -> Option<i64> {
        self.tree.children(of).find(|(_, child)| child.kind == Kind::Stop).map(|(_, child)| child.time)
    }

    /// The bytes of a step, once they are known.
    #[inline(never)]
    fn bytes(&self, step: Handle) -> Option<u64> {
        let has_bytes =
            |child: &Record| child.kind == Kind::State && matches!(child.a, SEND_WAIT | RECV_FLUSH_WAIT) && child.b > 0;
        self.tree.children(step).map(|(_, child)| child).find(has_bytes).map(|child| child.b)
    }

    /// When a proxy's work ended. NCCL ends that of several channels together, so that a channel's own end is that of its last step.
    #[inline(never)]
    fn end_of(&self, (handle, proxy): Placed) -> Option<i64> {
        let end = self.stop(handle)?;
        let (mut count, mut last) = (0_u64, Some(i64::MIN));
        for (step, _) in self.steps(handle) {
            count = count.saturating_add(1);
            last = last.zip(self.stop(step)).map(|(last, stop)| last.max(stop));
        }
        Some(last.filter(|_| count > 0 && count >= proxy.b & u64::from(u32::MAX)).unwrap_or(end))
    }

    fn realtime(&self, time: i64) -> i64 {
        time.saturating_add(self.offset)
    }

    #[inline(never)]
    fn head<'b>(&self, operation: &'b Operation, channel: u8) -> Head<'b> {
        Head {
            op_count: operation.op_count,
            rank: self.of.rank,
            channel: u32::from(channel),
            protocol: operation.protocol(),
            own: Own {
                hash: Some(self.of.hash).filter(|hash| *hash != 0),
                number: (operation.record.kind == Kind::Coll).then_some(operation.record.b.cast_signed()),
                is_synthetic: !operation.is_counted || operation.reduction.is_none(),
                ..Own::default()
            },
        }
    }

    #[inline(never)]
    fn work(&self, (handle, proxy): Placed) -> Work {
        Work {
            transfers: proxy_steps(&proxy),
            chunk: proxy.b >> 32,
            start: Some(self.realtime(proxy.time)),
            end: self.end_of((handle, proxy)).map(|end| self.realtime(end)),
            bytes: self.steps(handle).filter_map(|(step, _)| self.bytes(step)).reduce(u64::saturating_add),
        }
    }

    /// An operation on a channel without a proxy has the times of the channel's kernel.
    #[inline(never)]
    fn without_proxy(&self, operation: &Operation, channel: Option<u8>) -> Work {
        let is_it = |child: &Record| child.kind == Kind::KernelChannel && Some(child.channel) == channel;
        let kernel = self.tree.children(operation.handle).find(|(_, child)| is_it(child));
        let end_of = |handle| self.state(handle, CHANNEL_STOP).map(|state| state.time).or_else(|| self.stop(handle));
        Work {
            start: Some(self.realtime(kernel.map_or(operation.record.time, |(_, kernel)| kernel.time))),
            end: kernel.and_then(|(handle, _)| end_of(handle)).map(|end| self.realtime(end)),
            ..Work::default()
        }
    }

    /// The line of an operation on a channel; without a channel what is known of it.
    #[inline(never)]
    fn op<'b>(&self, operation: &'b Operation, channel: Option<u8>) -> Line<'b> {
        let of_channel = channel.map(|channel| self.proxies(operation, Some(channel)));
        let work = of_channel.into_iter().flatten().map(|proxy| self.work(proxy)).reduce(Work::and);
        let mut head = self.head(operation, channel.unwrap_or(0));
        head.own.lacks_peers = work.is_none();
        let work = work.unwrap_or_else(|| self.without_proxy(operation, channel));
        let known = channel.and_then(|channel| self.channels.get(usize::from(channel)));
        let place = |of: fn(&Channel) -> Shown<u32>| known.and_then(|known| of(known).get()).map_or(-1, i64::from);
        let ring = (place(|known| known.before), place(|known| known.after));
        head.op(operation.own_shape(), &work, operation.dtype, operation.reduction, ring)
    }

    /// Writes the steps on a channel in the extractor's order: a ring receives first; a tree is in the order of [`trees::stage`].
    #[inline(never)]
    fn add_channel(&self, operation: &Operation, channel: u8, lines: &mut Aggregate<'_>) -> fmt::Result {
        let Some(shape) = operation.own_shape() else { return Ok(()) };
        let is_tree = shape.pattern == "TREE_UP_DOWN";
        let agreed = || self.channels.get(usize::from(channel)).and_then(|known| known.parent.get());
        let parent = if is_tree { self.parent(operation, shape, channel).or_else(agreed) } else { None };
        for turn in 0..4 {
            for (handle, proxy) in self.proxies(operation, Some(channel)) {
                let (Some(peer), is_send) = (peer(&proxy), proxy.small == 1) else { continue };
                let (stage, place) = match parent.map(|parent| trees::stage(parent, peer, is_send)) {
                    Some((stage, place)) => (Some(stage), place),
                    None => (None, u8::from(is_send != is_tree)),
                };
                if let (true, Some(shape)) = (place == turn, operation.shape(is_send)) {
                    let step = Step { number: 0, is_send, peer, bytes: (proxy.b >> 32).cast_signed(), stage };
                    self.add_steps(operation, shape, step, (handle, proxy), lines)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the steps that a proxy was given. Those that were recorded come in the order of their numbers.
    #[inline(never)]
    fn add_steps<'b>(
        &self,
        operation: &'b Operation,
        shape: Shape,
        step: Step<'b>,
        (handle, proxy): Placed,
        lines: &mut Aggregate<'_>,
    ) -> fmt::Result {
        let (transfers, size) = (proxy_steps(&proxy), Some(u64::from(self.of.size)).filter(|size| *size > 0));
        let mut recorded = self.steps(handle).peekable();
        for number in 0..transfers {
            while recorded.next_if(|(_, step)| step.a < u64::from(number)).is_some() {}
            let mut head = self.head(operation, proxy.channel);
            if let Some((handle, record)) = recorded.next_if(|(_, step)| step.a == u64::from(number)) {
                head.own.start = Some(self.realtime(record.time));
                head.own.took = self.stop(handle).map(|end| end.saturating_sub(record.time));
                head.own.bytes = signed(self.bytes(handle));
            }
            for line in head.transfer(Step { number, ..step }, shape, transfers, size) {
                lines.step(&line)?;
            }
        }
        Ok(())
    }
}

fn peer(proxy: &Record) -> Option<u32> {
    u32::try_from(proxy.c as u32 as i32).ok()
}

/// How many transfers a proxy was given; none if that cannot be.
fn proxy_steps(proxy: &Record) -> u32 {
    Some(proxy.b as u32).filter(|steps| *steps <= MOST_TRANSFERS).unwrap_or(0)
}

/// The index of a collective in its communicator, from 0, if the recorder has counted it. All bits are a root of -1.
fn counted(record: &Record) -> Option<u64> {
    let number = u32::try_from(record.c >> 32).ok().filter(|number| *number != u32::MAX)?;
    number.checked_sub(1).map(u64::from)
}

/// NCCL's number of a call's reduction; `None` for one of the program's own.
fn reduction_of(call: &Record) -> Option<u32> {
    call.algorithm.checked_sub(1).map(u32::from).filter(|number| *number < 5)
}
