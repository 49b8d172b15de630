//! The interceptor: functions with the names of NCCL's, which the dynamic linker puts before NCCL's own.
//!
//! Each finds the [real function](real), writes a record of the [call](call), calls the real function with the same arguments, and returns its
//! result. A record of the result follows only where it is an error, or where the call may have waited for other ranks.
//!
//! A program may reach NCCL on several ways. Linked programs and `dlsym(RTLD_DEFAULT)` find these functions by the linker's order. Those
//! that ask a handle, as Python's `ctypes` does, would pass them by: that is why [`dlsym`](dynamic) is here, too.
//!
//! # Calls inside of calls
//!
//! NCCL's library calls its own public functions (`ncclBcast` is an `ncclBroadcast`), and the linker leads those calls here as well. They
//! are no calls of the program. So each thread [remembers](crate::thread) in which function it is, and what comes meanwhile is forwarded without a
//! record. Another interceptor after this one may find this one again when it looks for NCCL: a function that is called inside of itself
//! forwards to NCCL's library, not to the next interceptor, so that the two do not call each other for ever.
//!
//! # What is not seen
//!
//! Programs that NCCL is linked into statically do not ask the linker. `dlvsym` is not watched. A graph's replay calls nothing: only its
//! capture is seen.

mod call;
mod capture;
mod communicators;
mod dynamic;
mod functions;
mod identity;
mod real;
