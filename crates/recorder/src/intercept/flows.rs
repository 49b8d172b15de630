//! The flow extractor's two functions, for programs that were written for it: `ncclSetFlowExtractionEnabled` chooses the operations to record, and
//! `ncclWriteAggregatedFlow` writes the flows of a communicator. The extractor's other files are made later (`nccl-stacks export --flows`), all from
//! the records, so switching it off stops recording. The extractor is a patched NCCL: if NCCL has the functions, too, they are also called.

use core::ffi::{c_int, c_void};

use super::communicators;
use crate::{dropin, environment, process, symbols};

const SUCCESS: c_int = 0;
const SYSTEM_ERROR: c_int = 2;
const INVALID_ARGUMENT: c_int = 4;

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the extractor's name")]
extern "C" fn ncclSetFlowExtractionEnabled(enabled: c_int) -> c_int {
    process::pause(enabled == 0);
    let name = c"ncclSetFlowExtractionEnabled";
    let Some(next) = symbols::next_symbol(name, ncclSetFlowExtractionEnabled as *const c_void) else {
        return SUCCESS;
    };
    // SAFETY: the function of this name has this type.
    let next: extern "C" fn(c_int) -> c_int = unsafe { core::mem::transmute(next) };
    next(enabled)
}

/// A file that NCCL's own function has written stays: its place is the same.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the extractor's name")]
extern "C" fn ncclWriteAggregatedFlow(communicator: *mut c_void) -> c_int {
    if communicator.is_null() {
        return INVALID_ARGUMENT;
    }
    let name = c"ncclWriteAggregatedFlow";
    if let Some(next) = symbols::next_symbol(name, ncclWriteAggregatedFlow as *const c_void) {
        // SAFETY: the function of this name has this type.
        let next: extern "C" fn(*mut c_void) -> c_int = unsafe { core::mem::transmute(next) };
        if next(communicator) == SUCCESS {
            return SUCCESS;
        }
    }
    // The program runs as if this library was not there.
    if environment::is_off(c"NCCL_STACKS_RECORD") {
        return SUCCESS;
    }
    let Some(writer) = process::opened() else {
        return if process::is_without() { SYSTEM_ERROR } else { INVALID_ARGUMENT };
    };
    match communicators::number(writer, communicator) {
        0 => INVALID_ARGUMENT,
        number if dropin::write_flows(writer, number) => SUCCESS,
        _ => SYSTEM_ERROR,
    }
}
