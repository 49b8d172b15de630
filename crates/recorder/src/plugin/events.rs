//! `startEvent`, `recordEventState` and `stopEvent`. All of this is the hot path.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, Ordering};

use nccl_stacks_recorder_format::{Handle, Kind, Record, Writer};

use super::abi::{self, Descriptor, Opaque, StateArgs, event};
use super::given::{Event, Given, halves};
use super::handles::{self, communicator, note, own, pointer};
use super::masks;
use crate::{clock, lifecycle, process, thread};

/// The steps whose wait for a peer was recorded. NCCL reports that state at each poll. If two steps share an entry, one is lost, which only costs
/// another record.
static PEER_WAITS: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Writes a record with the current time and this thread.
#[inline]
fn put(writer: &Writer, note: u8, record: Record) -> Option<Handle> {
    writer.put_event(
        thread::event_ring(),
        note,
        &Record { thread: clock::thread() as u32, time: clock::now(), ..record },
    )
}

/// `startEvent`.
pub(super) unsafe extern "C" fn start<const VERSION: u32, T: Copy + Into<u64>, U>(
    context: Opaque,
    handle: *mut Opaque,
    descr: *mut Descriptor<T, U>,
) -> c_int {
    let made = match lifecycle::writer() {
        // SAFETY: NCCL passes a descriptor of this version.
        Some(writer) if !descr.is_null() => unsafe { started::<VERSION, T, U>(writer, communicator(context), descr) },
        _ => None,
    };
    // SAFETY: NCCL passes a place to write to, or null. It is always written, because NCCL uses it again.
    if let Some(to) = unsafe { handle.as_mut() } {
        *to = pointer(made);
    }
    0
}

/// Reads a descriptor and records it.
///
/// # Safety
///
/// The descriptor has this version.
#[inline]
unsafe fn started<const VERSION: u32, T: Copy + Into<u64>, U>(
    writer: &Writer,
    communicator: u16,
    descr: *const Descriptor<T, U>,
) -> Option<Handle> {
    // SAFETY: every version has the fields of the head. No reference to the whole or to the union is made.
    let (kind, parent, rank, of) =
        unsafe { ((*descr).event.into(), (*descr).parent, (*descr).rank, (&raw const (*descr).of).cast::<()>()) };
    if process::is_paused() {
        // Events that are not recorded are still counted, so that the numbers match the other ranks'.
        if kind == event::COLL {
            writer.next_collective(communicator);
        }
        writer.leave_out();
        return None;
    }
    let given = Given { writer, communicator, parent, rank, of };
    // SAFETY: the member belongs to the event's type, which exists in this version.
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
    if kind == event::GROUP {
        handles::set_last_group(communicator, handle);
    }
    if let (Some(more), Some(parent)) = (made.more, handle) {
        put(writer, note::NOTHING, Record { parent: parent.number(), ..more });
    }
    handle
}

/// `stopEvent`.
pub(super) unsafe extern "C" fn stop(handle: Opaque) -> c_int {
    if let (Some(stopped), Some(writer)) = (Handle::from_number(own(handle)), process::opened())
        && stopped.note() != note::ENDS_BY_STATE
    {
        put(writer, note::NOTHING, Record { parent: stopped.number(), ..Record::new(Kind::Stop) });
    }
    0
}

/// `recordEventState`.
pub(super) unsafe extern "C" fn state(handle: Opaque, state: c_int, args: *mut StateArgs) -> c_int {
    let (Some(of), Some(writer)) = (Handle::from_number(own(handle)), process::opened()) else { return 0 };
    if state == abi::state::SEND_PEER_WAIT && is_again(of.number()) {
        return 0;
    }
    // SAFETY: NCCL passes null, or the argument of the state. The argument of other states is not read.
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
    put(writer, note::NOTHING, record);
    0
}

/// Whether this step's wait for its peer was already recorded.
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
