//! NCCL's own functions, looked up at first use.
//!
//! `RTLD_NEXT` finds the next symbol after this library in the linker's order: NCCL's, or another interceptor's. A library that was opened with
//! local scope is not in that order; it is searched by its name, with the names `pncclX` first, which interceptors leave alone.

use core::ffi::{CStr, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use nccl_stacks_recorder_format::Writer;

use crate::{dropin, log, process, symbols};

/// `ncclInvalidUsage`: returned for functions that cannot be called.
pub(super) const INVALID_USAGE: i32 = 5;

#[derive(Debug)]
pub(super) struct Function {
    /// `pncclX`, the function's name after the letter `p`.
    p_name: &'static CStr,
    /// Our exported function; null for functions that are only called.
    ours: *const c_void,
    /// Our function that forwards directly to NCCL's own.
    direct: *const c_void,
    /// The next function in the linker's order.
    next: AtomicPtr<c_void>,
    base: AtomicPtr<c_void>,
    /// The number of its name in the file, with the process's generation plus one above it.
    text: AtomicU64,
    is_missing: AtomicBool,
}

// SAFETY: the pointers are addresses of functions.
unsafe impl Sync for Function {}

impl Function {
    pub(super) const fn new(p_name: &'static CStr, ours: *const c_void, direct: *const c_void) -> Function {
        Function {
            p_name,
            ours,
            direct,
            next: AtomicPtr::new(null_mut()),
            base: AtomicPtr::new(null_mut()),
            text: AtomicU64::new(0),
            is_missing: AtomicBool::new(false),
        }
    }

    pub(super) fn name(&self) -> &'static CStr {
        // SAFETY: the name has at least one letter, and the rest ends with the same zero.
        unsafe { CStr::from_ptr(self.p_name.as_ptr().add(1)) }
    }

    /// The address by which a thread remembers the function.
    #[inline]
    pub(super) fn address(&self) -> u64 {
        core::ptr::from_ref(self) as u64
    }

    /// The function to call; `None` if the process has none.
    #[inline]
    pub(super) fn next(&self) -> Option<*const c_void> {
        let next = self.next.load(Ordering::Acquire);
        if next.is_null() { self.find_next() } else { Some(next.cast_const()) }
    }

    /// NCCL's own function, past all other interceptors.
    #[inline]
    pub(super) fn base(&self) -> Option<*const c_void> {
        self.find_known_base().or_else(|| self.next())
    }

    fn find_known_base(&self) -> Option<*const c_void> {
        let base = self.base.load(Ordering::Acquire);
        if base.is_null() { self.find_base() } else { Some(base.cast_const()) }
    }

    #[cold]
    fn find_next(&self) -> Option<*const c_void> {
        let found = symbols::symbol(libc::RTLD_NEXT, self.name());
        if found.is_null() || found == self.ours {
            return self.find_base().map(|found| keep(&self.next, found));
        }
        Some(keep(&self.next, found))
    }

    #[cold]
    fn find_base(&self) -> Option<*const c_void> {
        let names = [self.p_name, self.name()];
        let mut found = symbols::symbol_of(c"libnccl.so.2", &names, self.ours);
        if found.is_null() {
            // NCCL has another name, or is part of another library: `pncclX` first, which no interceptor has.
            found = symbols::symbol_of_any(&[self.p_name], null());
        }
        if found.is_null() {
            found = symbols::symbol_of_any(&[self.name()], self.ours);
        }
        (!found.is_null()).then(|| keep(&self.base, found))
    }

    /// What a program gets that asked a library for this function, where the linker found `found`: our function, if `found` is NCCL's own.
    pub(super) fn in_place_of(&self, found: *const c_void) -> *const c_void {
        if found == self.ours {
            return found;
        }
        // Without a known one it is a library of another name, whose `pncclX` is not visible.
        let base = self.find_known_base().unwrap_or_else(|| keep(&self.base, found));
        // Calls of a second NCCL in the process are not intercepted: they must stay in that library.
        let is_real = base == found || symbols::library_of(base) == symbols::library_of(found);
        if is_real { self.direct } else { found }
    }

    /// Says once that NCCL has no such function: in our log, and as Megatrace does, which also forwards calls.
    #[cold]
    pub(super) fn missing(&self) -> i32 {
        if !self.is_missing.swap(true, Ordering::Relaxed) {
            let name = self.name().to_str().unwrap_or_default();
            log::line(format_args!("{name} was called, and no NCCL that is loaded has it: the call fails"));
            dropin::cannot_find(name);
        }
        INVALID_USAGE
    }

    /// The number of the function's name in the file.
    #[inline]
    pub(super) fn text(&self, writer: &Writer) -> u8 {
        let known = self.text.load(Ordering::Relaxed);
        let generation = process::generation().wrapping_add(1);
        if known >> 8 == generation { known as u8 } else { self.intern(writer, generation) }
    }

    #[cold]
    fn intern(&self, writer: &Writer, generation: u64) -> u8 {
        writer.set_nccl(version());
        let number = writer.text(self.name().to_bytes());
        self.text.store(generation << 8 | u64::from(number), Ordering::Relaxed);
        number
    }
}

/// Stores a found address, unless another thread has already stored one.
fn keep(place: &AtomicPtr<c_void>, found: *const c_void) -> *const c_void {
    symbols::pin(found);
    match place.compare_exchange(null_mut(), found.cast_mut(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => found,
        Err(other) => other.cast_const(),
    }
}

/// NCCL's version, 23203 for 2.32.3; 0 if unknown.
pub(super) fn version() -> u32 {
    static FUNCTION: Function = Function::new(c"pncclGetVersion", null(), null());
    let mut version = 0;
    let Some(real) = FUNCTION.next() else { return 0 };
    // SAFETY: the function has this type in every version.
    let real: unsafe extern "C" fn(*mut i32) -> i32 = unsafe { core::mem::transmute(real) };
    // SAFETY: `version` may be written.
    if unsafe { real(&raw mut version) } == 0 { version.cast_unsigned() } else { 0 }
}

/// The rank in a communicator and its size; -1 if NCCL does not answer. Only for complete communicators: NCCL would complain about others.
pub(super) fn rank_and_size(communicator: *const c_void) -> (i32, i32) {
    static RANK: Function = Function::new(c"pncclCommUserRank", null(), null());
    static SIZE: Function = Function::new(c"pncclCommCount", null(), null());
    let ask = |function: &Function| {
        let mut answer = -1;
        let Some(real) = function.next() else { return -1 };
        // SAFETY: the functions have this type in every version.
        let real: unsafe extern "C" fn(*const c_void, *mut i32) -> i32 = unsafe { core::mem::transmute(real) };
        // SAFETY: the communicator is the program's own argument or was just made by NCCL, and `answer` may be written.
        if unsafe { real(communicator, &raw mut answer) } == 0 { answer } else { -1 }
    };
    (ask(&RANK), ask(&SIZE))
}
