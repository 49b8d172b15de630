//! Converts the data of NCCL's events to records: one function for each type.

use core::ffi::c_int;

use nccl_stacks_recorder_format::{Handle, Kind, Record, Writer, flag};

use super::abi::{Opaque, Text, net, v4, v5, v6, v7};
use super::handles::{NUMBER, last_group, note, own};
use crate::{process, texts};

/// NCCL's `bool`.
#[inline]
fn captured(is: u8) -> u8 {
    if is == 0 { 0 } else { flag::CAPTURED }
}

/// Two numbers of 32 bits in one word, the first in the low half.
#[inline]
pub(super) fn halves(low: c_int, high: c_int) -> u64 {
    u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32
}

/// The records for an event, and the note for its handle.
pub(super) struct Event {
    pub(super) record: Record,
    pub(super) note: u8,
    pub(super) more: Option<Record>,
}

/// The parts of a descriptor: its head, and the address of its union.
pub(super) struct Given<'a> {
    pub(super) writer: &'a Writer,
    pub(super) communicator: u16,
    pub(super) parent: Opaque,
    pub(super) rank: c_int,
    pub(super) of: *const (),
}

impl Given<'_> {
    pub(super) fn record(&self, kind: Kind) -> Record {
        let parent = own(self.parent);
        let flags = if parent == 0 { flag::NO_PARENT } else { 0 };
        Record { parent, flags, communicator: self.communicator, ..Record::new(kind) }
    }

    pub(super) fn plain(&self, kind: Kind) -> Event {
        Event { record: self.record(kind), note: note::NOTHING, more: None }
    }

    fn text(&self, text: Text) -> u8 {
        texts::number(self.writer, text)
    }

    /// The active member of the union.
    ///
    /// # Safety
    ///
    /// The union has this member, and it is the one that was written.
    #[inline]
    unsafe fn member<M>(&self) -> &M {
        // SAFETY: the caller promises it. The union is aligned to 8 bytes.
        unsafe { &*self.of.cast::<M>() }
    }

    /// What does not fit into an operation's record: the user's tag, the group if it is not the communicator's last, and the kernel variant.
    fn more(&self, tag: u64, group: Opaque, variant: u8) -> Option<Record> {
        let (group, last) = (own(group), last_group(self.communicator));
        (tag != 0 || variant != 0 || group != last).then(|| Record {
            a: tag,
            b: group,
            function: variant,
            communicator: self.communicator,
            ..Record::new(Kind::More)
        })
    }

    /// The same for a call: only its tag.
    fn tag(&self, tag: u64) -> Option<Record> {
        (tag != 0).then(|| Record { a: tag, communicator: self.communicator, ..Record::new(Kind::More) })
    }

    // SAFETY of the functions below: the caller promises that the union has the event's member in this version.

    pub(super) unsafe fn coll<const VERSION: u32>(&self) -> Event {
        let of = unsafe { self.member::<v4::Coll>() };
        let mut record = Record {
            a: of.count as u64,
            b: of.seq_number,
            c: halves(of.root, self.writer.next_collective(self.communicator).cast_signed()),
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
                // SAFETY: the pointer is null or a C string.
                let is_empty = of.kernel_variant.is_null() || unsafe { *of.kernel_variant } == 0;
                let variant = if is_empty { 0 } else { self.text(of.kernel_variant) };
                self.more(of.user_tag, of.before.parent_group, variant)
            }
        };
        Event { record, note: note::NOTHING, more }
    }

    pub(super) unsafe fn p2p<const VERSION: u32>(&self) -> Event {
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

    pub(super) unsafe fn proxy_op(&self) -> Event {
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
            // The process is unknown, so its generation is not ours.
            record.parent = self.parent.addr() as u64 & NUMBER;
            record.flags = flag::FOREIGN | if record.parent == 0 { flag::NO_PARENT } else { 0 };
            record.communicator = 0;
            record.c = halves(of.peer, self.rank);
        }
        Event { record, note: if is_foreign { note::FOREIGN } else { note::NOTHING }, more: None }
    }

    pub(super) unsafe fn proxy_step(&self) -> Event {
        let of = unsafe { self.member::<v4::ProxyStep>() };
        let mut record = Record { a: halves(of.step, 0), ..self.record(Kind::ProxyStep) };
        if Handle::from_number(record.parent).is_some_and(|parent| parent.note() == note::FOREIGN) {
            record.communicator = 0;
        }
        Event { record, note: note::NOTHING, more: None }
    }

    pub(super) unsafe fn kernel_ch(&self) -> Event {
        let of = unsafe { self.member::<v4::KernelCh>() };
        let record = Record { a: of.gpu_time, channel: of.channel_id, ..self.record(Kind::KernelChannel) };
        Event { record, note: note::ENDS_BY_STATE, more: None }
    }

    pub(super) unsafe fn kernel_phase(&self) -> Event {
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

    /// Recorded with its payload if that is known, otherwise with its id.
    pub(super) unsafe fn net_plugin(&self) -> Event {
        let of = unsafe { self.member::<v4::NetPlugin>() };
        let mut record = Record { a: of.id.cast_unsigned(), ..self.record(Kind::NetPlugin) };
        // SAFETY: the id determines the payload's type; its first byte tells whether it has the fields.
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

    pub(super) unsafe fn group_api(&self) -> Event {
        let of = unsafe { self.member::<v5::GroupApi>() };
        let mut made = self.plain(Kind::GroupApi);
        made.record.a = halves(of.group_depth, 0);
        made.record.flags |= captured(of.graph_captured);
        made
    }

    pub(super) unsafe fn coll_api<const VERSION: u32>(&self) -> Event {
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

    pub(super) unsafe fn p2p_api<const VERSION: u32>(&self) -> Event {
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

    pub(super) unsafe fn kernel_launch(&self) -> Event {
        let of = unsafe { self.member::<v5::KernelLaunch>() };
        let mut made = self.plain(Kind::KernelLaunch);
        made.record.b = of.stream.addr() as u64;
        made
    }

    pub(super) unsafe fn ce_coll<const VERSION: u32>(&self) -> Event {
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

    pub(super) unsafe fn ce_sync(&self) -> Event {
        let of = unsafe { self.member::<v6::CeSync>() };
        let mut made = self.plain(Kind::CeSync);
        made.record.a = u64::from(of.is_complete != 0);
        made.record.b = halves(of.n_ranks, 0);
        made
    }

    pub(super) unsafe fn ce_batch(&self) -> Event {
        let of = unsafe { self.member::<v6::CeBatch>() };
        let mut made = self.plain(Kind::CeBatch);
        made.record.a = halves(of.num_ops, 0);
        made.record.b = of.total_bytes as u64;
        made.record.small = of.use_intra_sync;
        made
    }
}
