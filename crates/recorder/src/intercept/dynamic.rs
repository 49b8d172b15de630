//! `dlsym`: what leads programs here that ask a library for NCCL's functions.
//!
//! It must be invisible to everybody else. `RTLD_NEXT` and `RTLD_DEFAULT` depend on who calls, by the return address; so for all but NCCL's
//! names this jumps into the real one, with the stack and the arguments as they came. Rust cannot say that, hence the assembly, and hence
//! only on x86-64. `NCCL_STACKS_DLSYM=0` switches it off.

#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering};

use super::functions;
use crate::environment;
use crate::symbols::{Dlsym, real_dlsym};

/// What `dlsym` does: jump to an address, or, if that is null, return a value.
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
    let real = real_dlsym();
    let Some(call) = real else { return Decision { jump: None, value: null_mut() } };
    let jump = Decision { jump: real, value: null_mut() };
    if handle == libc::RTLD_NEXT || name.is_null() {
        return jump;
    }
    // SAFETY: who asks for a symbol gives a text.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(function) = functions::named(name).filter(|_| is_on()) else { return jump };
    // The linker's order decides, and with it who asks. It leads here by itself; but a program that asks whether its NCCL has a
    // function must not hear that it has because this library does.
    if handle == libc::RTLD_DEFAULT {
        if function.next().is_some() {
            return jump;
        }
        // Fails, and leaves what `dlerror` says of it.
        // SAFETY: the arguments are the caller's.
        return Decision { jump: None, value: unsafe { call(libc::RTLD_NEXT, name.as_ptr()) } };
    }
    // SAFETY: the arguments are the caller's. The answer for a handle does not depend on who asks.
    let found = unsafe { call(handle, name.as_ptr()) };
    let value = if found.is_null() { found } else { function.in_place_of(found).cast_mut() };
    Decision { jump: None, value }
}

/// The interposed function.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        // The arguments are kept, and the stack is aligned for the call.
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
