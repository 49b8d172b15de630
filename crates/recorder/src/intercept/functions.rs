//! The intercepted functions: their names, their arguments, and what is recorded of these.
//!
//! Types follow NCCL's header: enumerations are `int`, the id of 128 bytes is passed by value, every other opaque type is a pointer. Each call is
//! forwarded with the same arguments, whatever they are.

use core::ffi::{CStr, c_void};

use super::call::Call;
use super::identity::UniqueId;
use super::real::Function;
use crate::thread::State;

/// Host or device memory of the program.
type Pointer = *mut c_void;
/// `ncclComm_t`.
type Comm = *mut c_void;
/// `cudaStream_t`.
type Stream = *mut c_void;
/// Where NCCL writes the address of a communicator.
type Place = *mut Comm;
/// Only passed on.
type Config = *mut c_void;

/// `pncclX`.
const fn p_name(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("ends with a zero"),
    }
}

macro_rules! function {
    ($name:ident + ($($argument:ident: $type:ty),*) => $call:expr) => {
        function!($name($($argument: $type,)* config: Config) => $call);
    };
    ($name:ident($($argument:ident: $type:ty),*) => $call:expr) => {
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "NCCL's names and arguments")]
        mod $name {
            use super::*;

            pub(super) static ABOUT: Function = Function::new(
                p_name(concat!("p", stringify!($name), "\0")),
                $name as *const c_void,
                direct as *const c_void,
            );

            /// The common code of the exported and the direct function.
            #[inline(always)]
            unsafe fn both<const IS_DIRECT: bool>($($argument: $type),*) -> i32 {
                let function = &ABOUT;
                let outside = State::now();
                // A function that is called inside itself was reached again through another interceptor.
                let is_past_others = IS_DIRECT || outside.inside() == function.address();
                let real = if is_past_others { function.base() } else { function.next() };
                let Some(real) = real else { return function.missing() };
                // SAFETY: the function of this name has this type.
                let real: unsafe extern "C" fn($($type),*) -> i32 = unsafe { core::mem::transmute(real) };
                let call = $call;
                let entered = call.enter(function, outside);
                // SAFETY: the arguments are those of the caller.
                let result = unsafe { real($($argument),*) };
                call.leave(&entered, result);
                result
            }

            /// For programs that asked NCCL's library for the function. It bypasses all other interceptors.
            unsafe extern "C" fn direct($($argument: $type),*) -> i32 {
                // SAFETY: the arguments are those of the caller.
                unsafe { both::<true>($($argument),*) }
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
                // SAFETY: the arguments are those of the caller.
                unsafe { both::<false>($($argument),*) }
            }
        }
    };
}

/// Functions. A second name is the same function with a configuration.
macro_rules! functions {
    ($($name:ident $arguments:tt => $call:expr $(, $config:ident)?;)*) => {
        $(
            function!($name $arguments => $call);
            $(function!($config + $arguments => $call);)?
        )*

        static ALL: &[&Function] = &[$(&$name::ABOUT, $(&$config::ABOUT,)?)*];
    };
}

functions! {
    // Collectives.
    ncclAllReduce(from: Pointer, to: Pointer, count: usize, dtype: i32, op: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).by(op), ncclAllReduceConfig;
    ncclReduceScatter(from: Pointer, to: Pointer, count: usize, dtype: i32, op: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).by(op), ncclReduceScatterConfig;
    ncclReduce(from: Pointer, to: Pointer, count: usize, dtype: i32, op: i32, root: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).by(op).with(root), ncclReduceConfig;
    ncclAllGather(from: Pointer, to: Pointer, count: usize, dtype: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream), ncclAllGatherConfig;
    ncclBroadcast(from: Pointer, to: Pointer, count: usize, dtype: i32, root: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).with(root), ncclBroadcastConfig;
    ncclAlltoAll(from: Pointer, to: Pointer, count: usize, dtype: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream), ncclAlltoAllConfig;
    ncclGather(from: Pointer, to: Pointer, count: usize, dtype: i32, root: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).with(root), ncclGatherConfig;
    ncclScatter(from: Pointer, to: Pointer, count: usize, dtype: i32, root: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).with(root), ncclScatterConfig;
    ncclBcast(buffer: Pointer, count: usize, dtype: i32, root: i32, comm: Comm, stream: Stream)
        => Call::collective(count, dtype, comm, stream).with(root);

    // Point to point.
    ncclSend(from: Pointer, count: usize, dtype: i32, peer: i32, comm: Comm, stream: Stream)
        => Call::transfer(count, dtype, comm, stream).with(peer);
    ncclRecv(to: Pointer, count: usize, dtype: i32, peer: i32, comm: Comm, stream: Stream)
        => Call::transfer(count, dtype, comm, stream).with(peer);
    ncclPutSignal(from: Pointer, count: usize, dtype: i32, peer: i32, window: Pointer, offset: usize, signal: i32, context: i32,
        flags: u32, comm: Comm, stream: Stream)
        => Call::operation(count, dtype, comm, stream).with(peer);
    ncclSignal(peer: i32, signal: i32, context: i32, flags: u32, comm: Comm, stream: Stream)
        => Call::signal(comm, stream).with(peer);
    ncclWaitSignal(count: i32, signals: Pointer, comm: Comm, stream: Stream) => Call::signal(comm, stream);

    // Groups.
    ncclGroupStart() => Call::begin();
    ncclGroupEnd() => Call::end();
    ncclGroupSimulateEnd(info: Pointer) => Call::end();

    // Communicators.
    ncclGetUniqueId(id: *mut UniqueId) => Call::plain(core::ptr::null());
    ncclCommInitRank(place: Place, size: i32, id: UniqueId, rank: i32)
        => Call::make(place.cast(), size, &raw const id, rank);
    ncclCommInitRankConfig(place: Place, size: i32, id: UniqueId, rank: i32, config: Config)
        => Call::make(place.cast(), size, &raw const id, rank);
    ncclCommInitRankScalable(place: Place, size: i32, rank: i32, ids: i32, id: *mut UniqueId, config: Config)
        => Call::make(place.cast(), size, id, rank);
    ncclCommInitAll(places: Place, count: i32, devices: *const i32) => Call::make_all(places.cast(), count);
    ncclCommSplit(comm: Comm, color: i32, key: i32, place: Place, config: Config)
        => Call::split(comm, color, key, place.cast());
    ncclCommShrink(comm: Comm, without: *mut i32, count: i32, place: Place, config: Config, flags: i32)
        => Call::shrink(comm, count, place.cast());
    ncclCommGrow(comm: Comm, size: i32, id: *const UniqueId, rank: i32, place: Place, config: Config)
        => Call::grow(comm, size, rank, place.cast());
    ncclCommGetUniqueId(comm: Comm, id: *mut UniqueId) => Call::plain(comm);
    ncclCommFinalize(comm: Comm) => Call::finalize(comm);
    ncclCommDestroy(comm: Comm) => Call::destroy(comm);
    ncclCommAbort(comm: Comm) => Call::destroy(comm);
    ncclCommRevoke(comm: Comm, flags: i32) => Call::plain(comm);
    ncclCommSuspend(comm: Comm, flags: i32) => Call::plain(comm);
    ncclCommResume(comm: Comm) => Call::plain(comm);

    // User-defined reductions.
    ncclRedOpCreatePreMulSum(op: *mut i32, scalar: Pointer, dtype: i32, residence: i32, comm: Comm)
        => Call::plain(comm).typed(dtype);
    ncclRedOpDestroy(op: i32, comm: Comm) => Call::plain(comm).by(op);
}

pub(super) fn named(name: &CStr) -> Option<&'static Function> {
    // Almost every lookup of a program ends here.
    if !name.to_bytes().starts_with(b"nccl") {
        return None;
    }
    ALL.iter().copied().find(|function| function.name() == name)
}
