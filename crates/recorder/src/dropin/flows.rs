//! The flow extractor's switch: a program written for it calls `ncclSetFlowExtractionEnabled` to choose the operations to record.
//!
//! The extractor is a patched NCCL, and writes its files itself. Here the files are made from the records later (`nccl-stacks export --flows`),
//! so switching it off stops recording. If NCCL has the function, too, it is also called.

use core::ffi::c_int;

use crate::{process, symbols};

/// The function under its original name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the extractor's name")]
extern "C" fn ncclSetFlowExtractionEnabled(enabled: c_int) -> c_int {
    process::pause(enabled == 0);
    let name = c"ncclSetFlowExtractionEnabled";
    let Some(next) = symbols::next_symbol(name, ncclSetFlowExtractionEnabled as *const core::ffi::c_void) else {
        return 0;
    };
    // SAFETY: the function of this name has this type.
    let next: extern "C" fn(c_int) -> c_int = unsafe { core::mem::transmute(next) };
    next(enabled)
}
