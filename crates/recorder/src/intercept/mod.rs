//! The interceptor: functions with the names of NCCL's functions, which the dynamic linker puts in front of them.
//!
//! Each function finds the [real function](real), writes a record of the [call], calls the real function with the same arguments, and
//! returns its result, which is only recorded if it is an error, or if the call may have waited for other ranks.
//!
//! Linked programs and `dlsym(RTLD_DEFAULT)` find these functions by the linker's order. Programs that ask a handle, as Python's `ctypes` does, would
//! miss them; hence [`dlsym`](dynamic).
//!
//! # Nested calls
//!
//! NCCL calls its own public functions (`ncclBcast` calls `ncclBroadcast`), and the linker leads those calls here as well. So each thread
//! [remembers](crate::thread) which function it is in, and nested calls are forwarded without a record. Another interceptor after this one may find
//! this one when it looks for NCCL. So a function that is called inside itself forwards to NCCL's library; otherwise the two would call each other
//! for ever.
//!
//! # What is not seen
//!
//! Statically linked NCCL; `dlvsym`; the replay of a graph, which makes no calls: only the capture is seen.

mod call;
mod capture;
mod communicators;
mod dynamic;
mod flows;
mod functions;
mod identity;
mod real;
