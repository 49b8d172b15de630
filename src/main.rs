//! The program: [`nccl_stacks::cli`] with the arguments of the process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's memory. Where the system gives no more of it, Rust aborts the process, as a crash would; this ends it with a message and an exit code.
struct Memory;

#[global_allocator]
static MEMORY: Memory = Memory;

fn given(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        missing(bytes);
    }
    memory
}

#[cold]
#[allow(clippy::exit, reason = "what called this expects memory, and can do nothing without it")]
fn missing(bytes: usize) -> ! {
    let _ = writeln!(
        io::stderr(),
        "error: there is too little memory: {bytes} more bytes cannot be had. Give fewer files or a window (--step), or run it where there is more memory"
    );
    std::process::exit(1)
}

// SAFETY: all of them are the system's, with the same arguments, and return what that returns.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        given(unsafe { System.realloc(memory, layout, size) }, size)
    }
}

/// Whether standard output was closed when the process began. Rust puts /dev/null in its place before `main`, where nothing that is written fails.
static IS_STDOUT_CLOSED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own preparations.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOOK: extern "C" fn() = look_at_stdout;

extern "C" fn look_at_stdout() {
    // SAFETY: the call asks for the flags of a descriptor, which need not be open.
    let is_closed = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } == -1;
    IS_STDOUT_CLOSED.store(is_closed, Ordering::Relaxed);
}

fn main() -> ExitCode {
    nccl_stacks::cli::main(!IS_STDOUT_CLOSED.load(Ordering::Relaxed))
}
