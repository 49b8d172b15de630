//! The switch of the flow extractor: a program that was written for it says with `ncclSetFlowExtractionEnabled` of which operations it wants records.
//!
//! The extractor is a changed NCCL, and writes its files itself. Here the files come afterwards, from the records (`nccl-stacks export --flows`), so
//! switching off is not recording. An NCCL that has the function, too, is asked as well.

use core::ffi::c_int;

use crate::{process, symbols};

/// The function, under its own name.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the extractor's name")]
extern "C" fn ncclSetFlowExtractionEnabled(enabled: c_int) -> c_int {
    process::pause(enabled == 0);
    let name = c"ncclSetFlowExtractionEnabled";
    let Some(next) = symbols::next_symbol(name, ncclSetFlowExtractionEnabled as *const core::ffi::c_void) else {
        return 0;
    };
    // SAFETY: what was found under this name has this type.
    let next: extern "C" fn(c_int) -> c_int = unsafe { core::mem::transmute(next) };
    next(enabled)
}
