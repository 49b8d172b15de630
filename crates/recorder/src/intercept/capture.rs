//! Whether a stream is being captured into a graph. If `NCCL_STACKS_CAPTURE` asks for it, this takes a CUDA call for each NCCL call.

use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use crate::{environment, symbols};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static FUNCTION: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Whether the stream is being captured; `false` if that is not asked for.
#[inline]
pub(super) fn is_captured(stream: u64) -> bool {
    STATE.load(Ordering::Relaxed) != OFF && ask(stream)
}

#[cold]
fn ask(stream: u64) -> bool {
    if STATE.load(Ordering::Acquire) == UNKNOWN {
        find();
    }
    let function = FUNCTION.load(Ordering::Acquire);
    if function.is_null() {
        return false;
    }
    // SAFETY: this is the type of the function, which takes a stream and where to write its state.
    let function: unsafe extern "C" fn(u64, *mut i32) -> i32 = unsafe { core::mem::transmute(function) };
    let mut status = 0;
    // SAFETY: NCCL gets the same stream. 1 is an active capture, 2 a failed one.
    unsafe { function(stream, &raw mut status) == 0 && status != 0 }
}

fn find() {
    let name = c"NCCL_STACKS_CAPTURE";
    let mut function = null();
    if environment::variable(name).is_some() && !environment::is_off(name) {
        function = symbols::symbol(libc::RTLD_DEFAULT, c"cudaStreamIsCapturing");
        if function.is_null() {
            function = symbols::symbol_of_any(&[c"cudaStreamIsCapturing"], null());
        }
    }
    FUNCTION.store(function.cast_mut(), Ordering::Release);
    STATE.store(if function.is_null() { OFF } else { ON }, Ordering::Release);
}
