//! Events into records. All of it is the hot path.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Handle, Kind, Record, Writer, flag, layout};

use super::abi::{self, Descriptor, Opaque, StateArgs, Text, event, net, v4, v5, v6, v7};
use super::{communicator, masks, texts};
use crate::{clock, process};

/// Notes in handles: what has to be known of an event when only its handle is given.
mod note {
    pub(super) const NOTHING: u8 = 0;
    /// NCCL reports its end as a state, just before `stopEvent`.
    pub(super) const ENDS_BY_STATE: u8 = 1;
    /// Its parent and context are of another process.
    pub(super) const FOREIGN: u8 = 2;
}

/// The bits of a handle that are the record's number. The others count forks: a parent's handles name nothing in a child's file.
const NUMBER: u64 = (1 << 56) - 1;

/// The last group of each communicator, by which most collectives need not say theirs.
static GROUPS: [AtomicU64; layout::COMMUNICATORS + 1] = [const { AtomicU64::new(0) }; layout::COMMUNICATORS + 1];

/// Steps whose wait for their peer is recorded. NCCL reports that state each time it looks; entries are lost when two steps share one, which
/// costs a record.
static PEER_WAITS: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// A communicator has become known.
pub(super) fn begin(communicator: u16) {
    if let Some(group) = GROUPS.get(usize::from(communicator)) {
        group.store(0, Ordering::Relaxed);
    }
}

/// The number of a record of ours; 0 for null, and for what a process has that this one was forked from.
#[inline]
fn own(handle: Opaque) -> u64 {
    let number = handle.addr() as u64;
    if number >> 56 == process::generation() & 0xff { number & NUMBER } else { 0 }
}

#[inline]
fn pointer(handle: Option<Handle>) -> Opaque {
    let number = handle.map_or(0, |handle| handle.number() | (process::generation() & 0xff) << 56);
    ptr::without_provenance_mut(number as usize)
}

/// Writes a record, at this time and of this thread.
#[inline]
fn put(writer: &Writer, note: u8, record: Record) -> Option<Handle> {
    let thread = clock::thread();
    writer.put(thread, note, &Record { thread: thread as u32, time: clock::now(), ..record })
}

/// NCCL's `bool`.
#[inline]
fn captured(is: u8) -> u8 {
    if is == 0 { 0 } else { flag::CAPTURED }
}

/// Two numbers of 32 bits in one word, the first one low.
#[inline]
fn halves(low: c_int, high: c_int) -> u64 {
    u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32
}

/// `startEvent`.
pub(super) unsafe extern "C" fn start<const VERSION: u32, T: Copy + Into<u64>, U>(
    context: Opaque,
    handle: *mut Opaque,
    descr: *mut Descriptor<T, U>,
) -> c_int {
    let made = match process::writer() {
        // SAFETY: NCCL gives a descriptor of this version.
        Some(writer) if !descr.is_null() => unsafe { started::<VERSION, T, U>(&writer, communicator(context), descr) },
        _ => None,
    };
    // SAFETY: NCCL gives a place that may be written; null is borne. It is written in any case, for NCCL uses it again.
    if let Some(to) = unsafe { handle.as_mut() } {
        *to = pointer(made);
    }
    0
}

/// What becomes of an event besides its first record.
struct Event {
    record: Record,
    note: u8,
    more: Option<Record>,
}

/// Reads a descriptor and records it.
///
/// # Safety
///
/// The descriptor is of this version.
#[inline]
unsafe fn started<const VERSION: u32, T: Copy + Into<u64>, U>(
    writer: &Writer,
    communicator: u16,
    descr: *const Descriptor<T, U>,
) -> Option<Handle> {
    // SAFETY: fields of the head are there in each version. No reference to the whole is made, nor to the union.
    let (kind, parent, rank, of) =
        unsafe { ((*descr).event.into(), (*descr).parent, (*descr).rank, (&raw const (*descr).of).cast::<()>()) };
    let given = Given { writer, communicator, parent, rank, of };
    // SAFETY: the member is the one of the event's type, which the version has.
    let made = unsafe {
        match kind & masks::known(VERSION) {
            event::COLL => given.coll::<VERSION>(),
            event::P2P => given.p2p::<VERSION>(),
            event::PROXY_OP => given.proxy_op(),
            event::PROXY_STEP => given.proxy_step(),
            event::KERNEL_CH => given.kernel_ch(),
            event::GROUP => given.plain(Kind::Group),
            event::PROXY_CTRL => given.plain(Kind::ProxyControl),
            event::NET_PLUGIN => given.net_plugin(),
            event::GROUP_API => given.group_api(),
            event::COLL_API => given.coll_api::<VERSION>(),
            event::P2P_API => given.p2p_api::<VERSION>(),
            event::KERNEL_LAUNCH => given.kernel_launch(),
            event::CE_COLL => given.ce_coll::<VERSION>(),
            event::CE_SYNC => given.ce_sync(),
            event::CE_BATCH => given.ce_batch(),
            event::KERNEL_PHASE => given.kernel_phase(),
            _ => Event { record: Record { a: kind, ..given.record(Kind::UnknownEvent) }, note: 0, more: None },
        }
    };
    let handle = put(writer, made.note, made.record);
    if let (event::GROUP, Some(last)) = (kind, GROUPS.get(usize::from(communicator))) {
        last.store(pointer(handle).addr() as u64, Ordering::Relaxed);
    }
    if let (Some(more), Some(parent)) = (made.more, handle) {
        put(writer, note::NOTHING, Record { parent: parent.number(), ..more });
    }
    handle
}

/// The parts of a descriptor: its head, and where its union is.
struct Given<'a> {
    writer: &'a Writer,
    communicator: u16,
    parent: Opaque,
    rank: c_int,
    of: *const (),
}

impl Given<'_> {
    fn record(&self, kind: Kind) -> Record {
        let parent = own(self.parent);
        let flags = if parent == 0 { flag::NO_PARENT } else { 0 };
        Record { parent, flags, communicator: self.communicator, ..Record::new(kind) }
    }

    fn plain(&self, kind: Kind) -> Event {
        Event { record: self.record(kind), note: note::NOTHING, more: None }
    }

    fn text(&self, text: Text) -> u8 {
        texts::number(self.writer, text)
    }

    /// The member of the union.
    ///
    /// # Safety
    ///
    /// The union has such a member, and it is the one that was written.
    #[inline]
    unsafe fn member<M>(&self) -> &M {
        // SAFETY: by the caller. The union begins at a multiple of 8.
        unsafe { &*self.of.cast::<M>() }
    }

    /// What does not fit into the record of an operation: a tag of its user, the group if it is not the communicator's last one, and the
    /// kernel's variant.
    fn more(&self, tag: u64, group: Opaque, variant: u8) -> Option<Record> {
        let group = own(group);
        let last = match self.communicator {
            0 => 0,
            number => GROUPS.get(usize::from(number)).map_or(0, |last| last.load(Ordering::Relaxed)),
        };
        let last = own(ptr::without_provenance_mut(last as usize));
        (tag != 0 || variant != 0 || group != last).then(|| Record {
            a: tag,
            b: group,
            function: variant,
            communicator: self.communicator,
            ..Record::new(Kind::More)
        })
    }

    /// Of a call: only its tag.
    fn tag(&self, tag: u64) -> Option<Record> {
        (tag != 0).then(|| Record { a: tag, communicator: self.communicator, ..Record::new(Kind::More) })
    }

    // SAFETY of all that follow: the caller says that the union has the event's member in this version.

    unsafe fn coll<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v4::Coll>() };
        let mut record = Record {
            a: of.count as u64,
            b: of.seq_number,
            c: halves(of.root, 0),
            function: self.text(of.func),
            dtype: self.text(of.datatype),
            algorithm: self.text(of.algo),
            protocol: self.text(of.proto),
            channel: of.n_channels,
            small: of.n_warps,
            ..self.record(Kind::Coll)
        };
        let more = match VERSION {
            ..5 => None,
            5 | 6 => self.more(0, unsafe { self.member::<v5::Coll>() }.parent_group, 0),
            _ => {
                let of = unsafe { self.member::<v7::Coll>() };
                if of.is_sym_coll != 0 {
                    record.flags |= flag::SYMMETRIC;
                }
                // SAFETY: a text or null.
                let is_empty = of.kernel_variant.is_null() || unsafe { *of.kernel_variant } == 0;
                let variant = if is_empty { 0 } else { self.text(of.kernel_variant) };
                self.more(of.user_tag, of.before.parent_group, variant)
            }
        };
        Event { record, note: note::NOTHING, more }
    }

    unsafe fn p2p<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v4::P2p>() };
        let record = Record {
            a: of.count as u64,
            c: halves(of.peer, 0),
            function: self.text(of.func),
            dtype: self.text(of.datatype),
            channel: of.n_channels,
            ..self.record(Kind::P2p)
        };
        let more = match VERSION {
            ..5 => None,
            5 | 6 => self.more(0, unsafe { self.member::<v5::P2p>() }.parent_group, 0),
            _ => {
                let of = unsafe { self.member::<v7::P2p>() };
                self.more(of.user_tag, of.before.parent_group, 0)
            }
        };
        Event { record, note: note::NOTHING, more }
    }

    unsafe fn proxy_op(&self) -> Event {
        let of = unsafe { self.member::<v4::ProxyOp>() };
        let is_foreign = of.pid.cast_unsigned() != process::id();
        let mut record = Record {
            a: u64::from(of.pid.cast_unsigned()),
            b: halves(of.n_steps, of.chunk_size),
            c: halves(of.peer, 0),
            channel: of.channel_id,
            small: u8::from(of.is_send != 0),
            ..self.record(Kind::ProxyOp)
        };
        if is_foreign {
            // Of whatever process: its number of forks is not ours.
            record.parent = self.parent.addr() as u64 & NUMBER;
            record.flags = flag::FOREIGN | if record.parent == 0 { flag::NO_PARENT } else { 0 };
            record.communicator = 0;
            record.c = halves(of.peer, self.rank);
        }
        Event { record, note: if is_foreign { note::FOREIGN } else { note::NOTHING }, more: None }
    }

    unsafe fn proxy_step(&self) -> Event {
        let of = unsafe { self.member::<v4::ProxyStep>() };
        let mut record = Record { a: halves(of.step, 0), ..self.record(Kind::ProxyStep) };
        if Handle::of(record.parent).is_some_and(|parent| parent.note() == note::FOREIGN) {
            record.communicator = 0;
        }
        Event { record, note: note::NOTHING, more: None }
    }

    unsafe fn kernel_ch(&self) -> Event {
        let of = unsafe { self.member::<v4::KernelCh>() };
        let record = Record { a: of.gpu_time, channel: of.channel_id, ..self.record(Kind::KernelChannel) };
        Event { record, note: note::ENDS_BY_STATE, more: None }
    }

    unsafe fn kernel_phase(&self) -> Event {
        let of = unsafe { self.member::<v7::KernelPhase>() };
        let record = Record {
            a: of.gpu_time,
            channel: of.channel_id,
            small: of.phase_id,
            function: self.text(of.phase_name),
            ..self.record(Kind::KernelPhase)
        };
        Event { record, note: note::ENDS_BY_STATE, more: None }
    }

    /// A payload that is known is the record; else its id is.
    unsafe fn net_plugin(&self) -> Event {
        let of = unsafe { self.member::<v4::NetPlugin>() };
        let mut record = Record { a: of.id.cast_unsigned(), ..self.record(Kind::NetPlugin) };
        // SAFETY: the id says what the payload is; its first byte, whether it has the fields.
        unsafe {
            if let (net::IB_V1, Some(given)) = (of.id, of.data.cast::<net::Payload<net::QueuePair>>().as_ref())
                && given.kind == net::TRANSFER
            {
                record.kind = Kind::NetIb;
                record.a = halves(given.of.qp_num, given.of.device);
                record.b = given.of.length as u64;
                record.c = given.of.wr_id;
                record.small = given.of.opcode as u8;
            }
            if let (net::SOCKET_V1, Some(given)) = (of.id, of.data.cast::<net::Payload<net::Socket>>().as_ref())
                && given.kind == net::TRANSFER
            {
                record.kind = Kind::NetSocket;
                record.a = halves(given.of.fd, 0);
                record.b = given.of.length as u64;
                record.c = halves(given.of.op, 0);
            }
        }
        Event { record, note: note::NOTHING, more: None }
    }

    unsafe fn group_api(&self) -> Event {
        let of = unsafe { self.member::<v5::GroupApi>() };
        let mut made = self.plain(Kind::GroupApi);
        made.record.a = halves(of.group_depth, 0);
        made.record.flags |= captured(of.graph_captured);
        made
    }

    unsafe fn coll_api<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v5::CollApi>() };
        let mut record = Record {
            a: of.count as u64,
            b: of.stream.addr() as u64,
            c: halves(of.root, 0),
            function: self.text(of.func),
            dtype: self.text(of.datatype),
            ..self.record(Kind::CollApi)
        };
        record.flags |= captured(of.graph_captured);
        let tag = if VERSION < 7 { 0 } else { unsafe { self.member::<v7::CollApi>() }.user_tag };
        Event { record, note: note::NOTHING, more: self.tag(tag) }
    }

    unsafe fn p2p_api<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v5::P2pApi>() };
        let mut record = Record {
            a: of.count as u64,
            b: of.stream.addr() as u64,
            function: self.text(of.func),
            dtype: self.text(of.datatype),
            ..self.record(Kind::P2pApi)
        };
        record.flags |= captured(of.graph_captured);
        let tag = if VERSION < 7 { 0 } else { unsafe { self.member::<v7::P2pApi>() }.user_tag };
        Event { record, note: note::NOTHING, more: self.tag(tag) }
    }

    unsafe fn kernel_launch(&self) -> Event {
        let of = unsafe { self.member::<v5::KernelLaunch>() };
        let mut made = self.plain(Kind::KernelLaunch);
        made.record.b = of.stream.addr() as u64;
        made
    }

    unsafe fn ce_coll<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v6::CeColl>() };
        let record = Record {
            a: of.count as u64,
            b: of.seq_number,
            c: halves(of.root, of.ce_seq_num.cast_signed()),
            function: self.text(of.func),
            dtype: self.text(of.datatype),
            protocol: self.text(of.sync_strategy),
            small: of.intra_batch_sync,
            ..self.record(Kind::CeColl)
        };
        let more = Record {
            a: if VERSION < 7 { 0 } else { unsafe { self.member::<v7::CeColl>() }.user_tag },
            b: halves(of.batch_size.cast_signed(), of.num_batches.cast_signed()),
            c: of.stream.addr() as u64,
            communicator: self.communicator,
            ..Record::new(Kind::More)
        };
        Event { record, note: note::NOTHING, more: Some(more) }
    }

    unsafe fn ce_sync(&self) -> Event {
        let of = unsafe { self.member::<v6::CeSync>() };
        let mut made = self.plain(Kind::CeSync);
        made.record.a = u64::from(of.is_complete != 0);
        made.record.b = halves(of.n_ranks, 0);
        made
    }

    unsafe fn ce_batch(&self) -> Event {
        let of = unsafe { self.member::<v6::CeBatch>() };
        let mut made = self.plain(Kind::CeBatch);
        made.record.a = halves(of.num_ops, 0);
        made.record.b = of.total_bytes as u64;
        made.record.small = of.use_intra_sync;
        made
    }
}

/// `stopEvent`.
pub(super) unsafe extern "C" fn stop(handle: Opaque) -> c_int {
    if let (Some(stopped), Some(writer)) = (Handle::of(own(handle)), process::opened())
        && stopped.note() != note::ENDS_BY_STATE
    {
        put(&writer, note::NOTHING, Record { parent: stopped.number(), ..Record::new(Kind::Stop) });
    }
    0
}

/// `recordEventState`.
pub(super) unsafe extern "C" fn state(handle: Opaque, state: c_int, args: *mut StateArgs) -> c_int {
    let (Some(of), Some(writer)) = (Handle::of(own(handle)), process::opened()) else { return 0 };
    if state == abi::state::SEND_PEER_WAIT && is_again(of.number()) {
        return 0;
    }
    // SAFETY: NCCL gives null, or the argument of the state. Other states have none, whatever is in it.
    let value = unsafe {
        match (state, args.as_ref()) {
            (_, None) => 0,
            (abi::state::SEND_WAIT | abi::state::RECV_FLUSH_WAIT, Some(args)) => args.trans_size as u64,
            (abi::state::PROXY_CTRL_APPEND, Some(args)) => halves(args.appended_ops, 0),
            (abi::state::KERNEL_CH_STOP | abi::state::KERNEL_PHASE_STOP, Some(args)) => args.gpu_time,
            _ => 0,
        }
    };
    let record = Record { parent: of.number(), a: halves(state, 0), b: value, ..Record::new(Kind::State) };
    put(&writer, note::NOTHING, record);
    0
}

/// Whether the step's wait for its peer has been recorded.
#[inline]
fn is_again(step: u64) -> bool {
    let at = (step.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55) as usize;
    let Some(seen) = PEER_WAITS.get(at) else { return false };
    let tagged = step | (process::generation() & 0xff) << 56;
    if seen.load(Ordering::Relaxed) == tagged {
        return true;
    }
    seen.store(tagged, Ordering::Relaxed);
    false
}
