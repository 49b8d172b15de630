//! The memory layout of NCCL's profiler interface, versions 4 to 7, as in its headers, in our own structures.
//!
//! The descriptors of all versions have the same head of 24 bytes, followed by a union whose members extend those of the version before. So readers
//! use the oldest member with the field, and check the version for newer fields: an older NCCL's descriptor is shorter, and nothing after its end
//! may be read. It needs only `core`: a test also compiles it, beside C structures.

use core::ffi::{c_char, c_int, c_void};

/// A text that NCCL owns; may be null.
pub(crate) type Text = *const c_char;
/// Buffers, streams and handles, which are opaque.
pub(crate) type Opaque = *mut c_void;

/// The types of events. A descriptor has one type, a mask any number.
pub(crate) mod event {
    pub(crate) const GROUP: u64 = 1;
    pub(crate) const COLL: u64 = 2;
    pub(crate) const P2P: u64 = 4;
    pub(crate) const PROXY_OP: u64 = 8;
    pub(crate) const PROXY_STEP: u64 = 16;
    pub(crate) const PROXY_CTRL: u64 = 32;
    pub(crate) const KERNEL_CH: u64 = 64;
    pub(crate) const NET_PLUGIN: u64 = 128;
    pub(crate) const GROUP_API: u64 = 256;
    pub(crate) const COLL_API: u64 = 512;
    pub(crate) const P2P_API: u64 = 1024;
    pub(crate) const KERNEL_LAUNCH: u64 = 2048;
    pub(crate) const CE_COLL: u64 = 4096;
    pub(crate) const CE_SYNC: u64 = 8192;
    pub(crate) const CE_BATCH: u64 = 16384;
    pub(crate) const KERNEL_PHASE: u64 = 32768;
}

pub(crate) mod state {
    use core::ffi::c_int;

    pub(crate) const SEND_WAIT: c_int = 9;
    pub(crate) const RECV_FLUSH_WAIT: c_int = 11;
    pub(crate) const PROXY_CTRL_APPEND: c_int = 17;
    pub(crate) const SEND_PEER_WAIT: c_int = 20;
    pub(crate) const KERNEL_CH_STOP: c_int = 22;
    pub(crate) const KERNEL_PHASE_STOP: c_int = 31;
}

/// A descriptor: its type, the handle of its parent, a rank, and the data of the type.
#[repr(C)]
pub(crate) struct Descriptor<T, U> {
    pub(crate) event: T,
    pub(crate) parent: Opaque,
    pub(crate) rank: c_int,
    pub(crate) of: U,
}

#[repr(C)]
pub(crate) union StateArgs {
    pub(crate) trans_size: usize,
    pub(crate) appended_ops: c_int,
    pub(crate) data: Opaque,
    pub(crate) gpu_time: u64,
}

/// The table that a plugin exports, with `init` and the descriptor of its version.
#[repr(C)]
pub(crate) struct Table<I, D> {
    pub(crate) name: Text,
    pub(crate) init: I,
    pub(crate) start_event: unsafe extern "C" fn(Opaque, *mut Opaque, *mut D) -> c_int,
    pub(crate) stop_event: unsafe extern "C" fn(Opaque) -> c_int,
    pub(crate) record_event_state: unsafe extern "C" fn(Opaque, c_int, *mut StateArgs) -> c_int,
    pub(crate) finalize: unsafe extern "C" fn(Opaque) -> c_int,
}

// SAFETY: it holds functions, and a name that never changes.
unsafe impl<I, D> Sync for Table<I, D> {}

/// `init` of version 4: context, mask, name, hash, nodes, ranks, rank, logger.
pub(crate) type InitV4 = unsafe extern "C" fn(*mut Opaque, *mut c_int, Text, u64, c_int, c_int, c_int, Opaque) -> c_int;
/// `init` since version 5: context, hash, mask, name, nodes, ranks, rank, logger.
pub(crate) type InitV5 = unsafe extern "C" fn(*mut Opaque, u64, *mut c_int, Text, c_int, c_int, c_int, Opaque) -> c_int;

/// A version's structures in a descriptor's union, with the offsets of their fields in NCCL's descriptor; its descriptor, whose event has this type,
/// of this size in bytes; and its table. All offsets are checked.
macro_rules! version {
    ($version:ident($($before:ident)?) $event:ty, $init:ty, $size:literal:
     $($name:ident { $($field:ident: $type:ty = $at:literal),+ $(,)? })+) => {
        pub(crate) mod $version {
            use core::mem::offset_of;

            use super::*;

            $(
                #[repr(C)]
                #[derive(Clone, Copy)]
                pub(crate) struct $name {
                    $(pub(crate) $field: $type),+
                }
                const _: () = { $(assert!(24 + offset_of!($name, $field) == $at);)+ };
            )+

            #[repr(C)]
            #[allow(non_snake_case, reason = "members have the names of their types")]
            pub(crate) union Of {
                $(before: core::mem::ManuallyDrop<$before::Of>,)?
                $($name: $name),+
            }

            pub(crate) type Descr = Descriptor<$event, Of>;
            pub(crate) type Table = super::Table<$init, Descr>;

            const _: () = assert!(size_of::<Descr>() == $size && offset_of!(Descr, event) == 0);
            const _: () = assert!(offset_of!(Descr, parent) == 8 && offset_of!(Descr, rank) == 16);
            const _: () = assert!(offset_of!(Descr, of) == 24 && size_of::<Table>() == 48);
            const _: () = assert!(offset_of!(Table, name) == 0 && offset_of!(Table, init) == 8);
            const _: () = assert!(offset_of!(Table, start_event) == 16 && offset_of!(Table, stop_event) == 24);
            const _: () = assert!(offset_of!(Table, record_event_state) == 32 && offset_of!(Table, finalize) == 40);
        }
    };
}

// Later versions kept the structures of version 4, and each added some.
version! { v4() u8, InitV4, 104:
    Coll {
        seq_number: u64 = 24, func: Text = 32, send_buff: Opaque = 40, recv_buff: Opaque = 48,
        count: usize = 56, root: c_int = 64, datatype: Text = 72, n_channels: u8 = 80, n_warps: u8 = 81,
        algo: Text = 88, proto: Text = 96,
    }
    P2p {
        func: Text = 24, buff: Opaque = 32, datatype: Text = 40, count: usize = 48, peer: c_int = 56,
        n_channels: u8 = 60,
    }
    ProxyOp {
        pid: c_int = 24, channel_id: u8 = 28, peer: c_int = 32, n_steps: c_int = 36,
        chunk_size: c_int = 40, is_send: c_int = 44,
    }
    ProxyStep { step: c_int = 24 }
    KernelCh { channel_id: u8 = 24, gpu_time: u64 = 32 }
    NetPlugin { id: i64 = 24, data: Opaque = 32 }
}
version! { v5(v4) u64, InitV5, 112:
    Coll { before: v4::Coll = 24, parent_group: Opaque = 104 }
    P2p { before: v4::P2p = 24, parent_group: Opaque = 64 }
    GroupApi { graph_captured: u8 = 24, group_depth: c_int = 28 }
    CollApi {
        func: Text = 24, count: usize = 32, datatype: Text = 40, root: c_int = 48, stream: Opaque = 56,
        graph_captured: u8 = 64,
    }
    P2pApi { func: Text = 24, count: usize = 32, datatype: Text = 40, stream: Opaque = 48, graph_captured: u8 = 56 }
    KernelLaunch { stream: Opaque = 24 }
}
version! { v6(v5) u64, InitV5, 112:
    CeColl {
        seq_number: u64 = 24, func: Text = 32, send_buff: Opaque = 40, recv_buff: Opaque = 48,
        count: usize = 56, root: c_int = 64, datatype: Text = 72, sync_strategy: Text = 80,
        intra_batch_sync: u8 = 88, batch_size: u32 = 92, num_batches: u32 = 96, ce_seq_num: u32 = 100,
        stream: Opaque = 104,
    }
    CeSync { is_complete: u8 = 24, n_ranks: c_int = 28 }
    CeBatch { num_ops: c_int = 24, total_bytes: usize = 32, use_intra_sync: u8 = 40 }
}
version! { v7(v6) u64, InitV5, 136:
    Coll { before: v5::Coll = 24, kernel_variant: Text = 112, is_sym_coll: u8 = 120, user_tag: u64 = 128 }
    P2p { before: v5::P2p = 24, user_tag: u64 = 72 }
    CollApi { before: v5::CollApi = 24, user_tag: u64 = 72 }
    P2pApi { before: v5::P2pApi = 24, user_tag: u64 = 64 }
    CeColl { before: v6::CeColl = 24, user_tag: u64 = 112 }
    KernelPhase { channel_id: u8 = 24, phase_id: u8 = 25, phase_name: Text = 32, gpu_time: u64 = 40 }
}

/// Data that NCCL's own network plugins pass with an event, after its id: the type in the upper half, the version in the lower half.
pub(crate) mod net {
    use super::*;

    pub(crate) const IB_V1: i64 = 1 << 16 | 1;
    pub(crate) const SOCKET_V1: i64 = 2 << 16 | 1;
    /// The only `kind` in both structures.
    pub(crate) const TRANSFER: u8 = 1;

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(crate) struct QueuePair {
        pub(crate) device: c_int,
        pub(crate) wr_id: u64,
        pub(crate) opcode: c_int,
        pub(crate) qp_num: c_int,
        pub(crate) length: usize,
    }

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(crate) struct Socket {
        pub(crate) fd: c_int,
        pub(crate) op: c_int,
        pub(crate) length: usize,
    }

    /// In NCCL's headers, the second member is a union of one structure, so it is aligned to its widest field.
    #[repr(C)]
    #[derive(Clone, Copy)]
    pub(crate) struct Payload<T> {
        pub(crate) kind: u8,
        pub(crate) of: T,
    }
}

const _: () = assert!(size_of::<StateArgs>() == 8);
const _: () = assert!(size_of::<net::Payload<net::QueuePair>>() == 40 && size_of::<net::Payload<net::Socket>>() == 24);
