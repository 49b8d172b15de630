//! `dlsym`: leads programs that ask a library for NCCL's functions to ours. `NCCL_STACKS_DLSYM=0` switches it off.
//!
//! It must be invisible for everything else. `RTLD_NEXT` and `RTLD_DEFAULT` depend on the caller, by the return address. So for all names except
//! NCCL's, this jumps into the real `dlsym` with an unchanged stack and arguments. Rust cannot express that, hence assembly, only for x86-64.

#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering};

use super::functions;
use crate::environment;
use crate::symbols::{Dlsym, real_dlsym};

/// What our `dlsym` does next: jump to an address, or return a value if the address is null.
#[repr(C)]
struct Decision {
    jump: Option<Dlsym>,
    value: *mut c_void,
}

fn is_on() -> bool {
    static STATE: AtomicU8 = AtomicU8::new(0);
    match STATE.load(Ordering::Relaxed) {
        0 => {
            let is_off = environment::is_off(c"NCCL_STACKS_DLSYM") || environment::is_off(c"NCCL_STACKS_RECORD");
            STATE.store(if is_off { 2 } else { 1 }, Ordering::Relaxed);
            !is_off
        }
        state => state == 1,
    }
}

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char) -> Decision {
    let jump = Decision { jump: real_dlsym(), value: null_mut() };
    let Some(call) = jump.jump else { return jump };
    if handle == libc::RTLD_NEXT || name.is_null() {
        return jump;
    }
    // SAFETY: the caller of `dlsym` passes a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(function) = functions::named(name).filter(|_| is_on()) else { return jump };
    // The linker's order decides, which depends on the caller, and leads here by itself. But a program that asks whether its NCCL has a function must
    // not find it only because this library has it.
    if handle == libc::RTLD_DEFAULT {
        if function.next().is_some() {
            return jump;
        }
        // Fails, and leaves the right error for `dlerror`.
        // SAFETY: the arguments are those of the caller.
        return Decision { jump: None, value: unsafe { call(libc::RTLD_NEXT, name.as_ptr()) } };
    }
    // SAFETY: the arguments are those of the caller. The result for a handle does not depend on the caller.
    let found = unsafe { call(handle, name.as_ptr()) };
    let value = if found.is_null() { found } else { function.in_place_of(found).cast_mut() };
    Decision { jump: None, value }
}

#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        // Saves the arguments, and aligns the stack for the call.
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {decide}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "mov rax, rdx",
        "ret",
        decide = sym decide,
    )
}
