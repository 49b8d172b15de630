//! Groups, calls, operations and channels as events, one per line.

use core::fmt::{self, Write};

use nccl_stacks_recorder_format::{Communicator, Handle, Kind, Record, Text, Writer, flag};

use super::Written;
use crate::json::Escaped;
use crate::tree::{Placed, Tree};

/// The state of a kernel channel that has the GPU time of its stop.
const CHANNEL_STOP: u64 = 22;

/// The plugin's categories. Each has its own numbering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    GroupApi,
    Group,
    CollApi,
    P2pApi,
    KernelLaunch,
    Coll,
    P2p,
    Gpu,
    Proxy,
    Net,
    NetIb,
    NetSock,
    CeColl,
    CeSync,
    CeBatch,
}

impl Category {
    fn name(self) -> &'static str {
        match self {
            Category::GroupApi => "GROUP_API",
            Category::Group => "GROUP",
            Category::CollApi => "COLL_API",
            Category::P2pApi => "P2P_API",
            Category::KernelLaunch => "KERNEL_LAUNCH",
            Category::Coll => "COLL",
            Category::P2p => "P2P",
            Category::Gpu => "GPU",
            Category::Proxy => "PROXY",
            Category::Net => "NET",
            Category::NetIb => "NET_IB",
            Category::NetSock => "NET_SOCK",
            Category::CeColl => "CE_COLL",
            Category::CeSync => "CE_SYNC",
            Category::CeBatch => "CE_BATCH",
        }
    }
}

/// The part of the records to dump.
#[derive(Debug, Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) pid: u32,
    /// The time that is written as 0, ns.
    pub(super) epoch: i64,
    /// The communicator.
    pub(super) number: u16,
    pub(super) known: Communicator<'a>,
}

impl About<'_> {
    /// Whether a record belongs to the communicator.
    pub(super) fn has(&self, record: &Record) -> bool {
        record.communicator == self.number && self.known.times().contains(&record.time)
    }
}

/// An event whose begin has been written.
#[derive(Clone, Copy)]
pub(super) struct Event<'n> {
    pub(super) category: Category,
    pub(super) name: &'n [u8],
    pub(super) id: u64,
}

/// The writer of events.
pub(super) struct Events<'a> {
    writer: &'a Writer,
    pub(super) tree: &'a Tree<'a>,
    about: About<'a>,
    out: &'a mut dyn Write,
    ids: [u64; 15],
    written: Written,
    is_first: bool,
}

impl<'a> Events<'a> {
    pub(super) fn new(writer: &'a Writer, tree: &'a Tree<'a>, about: About<'a>, out: &'a mut dyn Write) -> Self {
        Events { writer, tree, about, out, ids: [0; 15], written: Written::default(), is_first: true }
    }

    pub(super) fn open(&mut self) -> fmt::Result {
        self.out.write_str("[\n")
    }

    pub(super) fn close(self) -> Result<Written, fmt::Error> {
        self.out.write_str(if self.is_first { "]\n" } else { "\n]\n" })?;
        Ok(self.written)
    }

    pub(super) fn leave_out(&mut self) {
        self.written.left_out = self.written.left_out.saturating_add(1);
    }

    /// The next number in a category, from 0.
    pub(super) fn id(&mut self, category: Category) -> u64 {
        let Some(next) = self.ids.get_mut(category as usize) else { return 0 };
        let id = *next;
        *next = next.saturating_add(1);
        id
    }

    /// The text with a number from a record.
    fn text(&self, number: u8) -> Text {
        self.writer.text_at(number).unwrap_or_default()
    }

    /// Whether a record has a child of one of these kinds in this communicator.
    pub(super) fn has(&self, handle: Handle, kinds: &[Kind]) -> bool {
        self.tree.children(handle).any(|(_, child)| kinds.contains(&child.kind) && self.about.has(&child))
    }

    pub(super) fn stop(&self, handle: Handle) -> Option<i64> {
        self.tree.children(handle).find(|(_, child)| child.kind == Kind::Stop).map(|(_, stop)| stop.time)
    }

    fn event(&mut self, event: Event<'_>, phase: &str, time: i64) -> fmt::Result {
        self.out.write_str(if self.is_first { "" } else { ",\n" })?;
        self.is_first = false;
        let since = time.saturating_sub(self.about.epoch).max(0);
        let (micros, rest) = (since / 1000, since % 1000);
        let (name, cat, id, pid) = (Escaped(event.name), event.category.name(), event.id, self.about.pid);
        write!(self.out, "{{\"name\": \"{name}\", \"cat\": \"{cat}\", \"ph\": \"{phase}\", \"id\": {id}, ")?;
        write!(self.out, "\"pid\": {pid}, \"tid\": 1, \"ts\": {micros}.{rest:03}000")
    }

    pub(super) fn begin(&mut self, event: Event<'_>, time: i64, args: fmt::Arguments<'_>) -> fmt::Result {
        self.event(event, "b", time)?;
        self.written.events = self.written.events.saturating_add(1);
        write!(self.out, ", \"args\": {{{args}}}}}")
    }

    /// Writes the end of an event; nothing if it has no end.
    pub(super) fn end(&mut self, event: Event<'_>, time: Option<i64>) -> fmt::Result {
        let Some(time) = time else { return Ok(()) };
        self.event(event, "e", time)?;
        self.out.write_str("}")
    }

    pub(super) fn group_api(&mut self, (handle, record): Placed) -> fmt::Result {
        let id = self.id(Category::GroupApi);
        let event = Event { category: Category::GroupApi, name: b"Group API", id };
        self.begin(event, record.time, format_args!("\"groupApiId\": {id}, \"groupDepth\": {}", record.a))?;
        let (tree, about) = (self.tree, self.about);
        let children = || tree.children(handle).filter(move |(_, child)| about.has(child));
        for launch in children().filter(|(_, child)| child.kind == Kind::KernelLaunch) {
            self.launch(launch, id)?;
        }
        for child in children() {
            match child.1.kind {
                Kind::CollApi | Kind::P2pApi => self.call(child)?,
                _ => self.part(child)?,
            }
        }
        self.end(event, self.stop(handle))
    }

    pub(super) fn group(&mut self, (handle, record): Placed) -> fmt::Result {
        let id = self.id(Category::Group);
        let event = Event { category: Category::Group, name: b"Group", id };
        self.begin(event, record.time, format_args!("\"groupId\": {id}"))?;
        self.parts(handle)?;
        self.end(event, self.stop(handle))
    }

    pub(super) fn launch(&mut self, (handle, record): Placed, group: u64) -> fmt::Result {
        let id = self.id(Category::KernelLaunch);
        let event = Event { category: Category::KernelLaunch, name: b"KernelLaunch", id };
        self.begin(event, record.time, format_args!("\"groupId\": {group}, \"Stream\": \"0x{:x}\"", record.b))?;
        self.end(event, self.stop(handle))
    }

    /// A call of a collective, send or receive, and the operations that it enqueued.
    pub(super) fn call(&mut self, (handle, record): Placed) -> fmt::Result {
        let category = if record.kind == Kind::CollApi { Category::CollApi } else { Category::P2pApi };
        let event = Event { category, name: &self.text(record.function), id: self.id(category) };
        let (count, dtype, stream) = (record.a, Escaped(&self.text(record.dtype)), record.b);
        let captured = u8::from(record.flags & flag::CAPTURED != 0);
        let rest = format_args!("\"GraphCaptured\": {captured}, \"Stream\": \"0x{stream:x}\"");
        match record.kind {
            Kind::CollApi => {
                let root = record.c as i32;
                let args = format_args!("\"count\": {count}, \"datatype\": \"{dtype}\", \"root\": {root}, {rest}");
                self.begin(event, record.time, args)?;
            }
            _ => {
                self.begin(event, record.time, format_args!("\"count\": {count}, \"datatype\": \"{dtype}\", {rest}"))?
            }
        }
        self.parts(handle)?;
        self.end(event, self.stop(handle))
    }

    fn parts(&mut self, handle: Handle) -> fmt::Result {
        let (tree, about) = (self.tree, self.about);
        for child in tree.children(handle).filter(|(_, child)| about.has(child)) {
            self.part(child)?;
        }
        Ok(())
    }

    /// An operation of a call or group. Other records are skipped.
    fn part(&mut self, child: Placed) -> fmt::Result {
        match child.1.kind {
            Kind::Coll | Kind::P2p => self.operation(child),
            Kind::CeColl => self.copies(child),
            _ => Ok(()),
        }
    }

    pub(super) fn operation(&mut self, (handle, record): Placed) -> fmt::Result {
        let category = if record.kind == Kind::Coll { Category::Coll } else { Category::P2p };
        let event = Event { category, name: &self.text(record.function), id: self.id(category) };
        let (hash, rank, count, channels) = (self.about.known.hash, self.about.known.rank, record.a, record.channel);
        let dtype = Escaped(&self.text(record.dtype));
        if record.kind == Kind::Coll {
            let (algorithm, protocol) = (Escaped(&self.text(record.algorithm)), Escaped(&self.text(record.protocol)));
            let args = format_args!(
                "\"SeqNum\": {}, \"CommHash\": {hash}, \"Rank\": {rank}, \"Count\": {count}, \"Datatype\": \"{dtype}\", \
                 \"Algorithm\": \"{algorithm}\", \"Protocol\": \"{protocol}\", \"nChannels\": {channels}",
                record.b
            );
            self.begin(event, record.time, args)?;
        } else {
            let args = format_args!(
                "\"CommHash\": {hash}, \"Rank\": {rank}, \"Peer\": {}, \"Count\": {count}, \"Datatype\": \"{dtype}\", \
                 \"nChannels\": {channels}",
                record.c as i32
            );
            self.begin(event, record.time, args)?;
        }
        let tree = self.tree;
        for child in tree.children(handle).filter(|(_, child)| child.kind == Kind::KernelChannel) {
            self.channel(child)?;
        }
        for child in tree.children(handle).filter(|(_, child)| child.kind == Kind::ProxyOp) {
            self.proxy_op(child)?;
        }
        self.end(event, self.stop(handle))
    }

    fn channel(&mut self, (handle, record): Placed) -> fmt::Result {
        let event = Event { category: Category::Gpu, name: b"KernelCh", id: self.id(Category::Gpu) };
        let is_stop = |child: &Record| child.kind == Kind::State && child.a == CHANNEL_STOP;
        let ended = self.tree.children(handle).find(|(_, child)| is_stop(child)).map(|(_, stop)| stop);
        let stop = ended.filter(|stop| stop.b != 0);
        let (channel, start) = (record.channel, record.a);
        match stop.map(|stop| stop.b) {
            Some(stop) => {
                let args = format_args!("\"Channel\": {channel}, \"StartGpuClk\": {start}, \"StopGpuClk\": {stop}");
                self.begin(event, record.time, args)?;
            }
            None => self.begin(event, record.time, format_args!("\"Channel\": {channel}, \"StartGpuClk\": {start}"))?,
        }
        // The state is the end; only other kinds of recordings also have a stop.
        self.end(event, self.stop(handle).or(ended.map(|stop| stop.time)))
    }

    /// A collective on copy engines with its synchronisations and batches.
    pub(super) fn copies(&mut self, (handle, record): Placed) -> fmt::Result {
        let id = self.id(Category::CeColl);
        let event = Event { category: Category::CeColl, name: &self.text(record.function), id };
        let (stop, count, dtype) = (self.stop(handle), record.a, Escaped(&self.text(record.dtype)));
        let strategy = Escaped(&self.text(record.protocol));
        let args = format_args!(
            "\"eventId\": {id}, \"count\": {count}, \"datatype\": \"{dtype}\", \"strategy\": \"{strategy}\""
        );
        match stop.map(|stop| stop.saturating_sub(record.time).max(0)) {
            Some(took) => {
                let (micros, rest) = (took / 1000, took % 1000);
                self.begin(event, record.time, format_args!("{args}, \"duration_cpu_us\": {micros}.{rest:03}"))?;
            }
            None => self.begin(event, record.time, args)?,
        }
        let tree = self.tree;
        for (part, child) in tree.children(handle) {
            match child.kind {
                Kind::CeSync => {
                    let id = self.id(Category::CeSync);
                    let event = Event { category: Category::CeSync, name: b"CeSync", id };
                    let kind = if child.a == 1 { "Complete" } else { "Ready" };
                    let args = format_args!("\"eventId\": {id}, \"type\": \"{kind}\", \"nRanks\": {}", child.b);
                    self.begin(event, child.time, args)?;
                    self.end(event, self.stop(part))?;
                }
                Kind::CeBatch => {
                    let id = self.id(Category::CeBatch);
                    let event = Event { category: Category::CeBatch, name: b"CeBatch", id };
                    let (operations, bytes) = (child.a, child.b);
                    let args = format_args!("\"eventId\": {id}, \"numOps\": {operations}, \"totalBytes\": {bytes}");
                    self.begin(event, child.time, args)?;
                    self.end(event, self.stop(part))?;
                }
                _ => {}
            }
        }
        self.end(event, stop)
    }
}
