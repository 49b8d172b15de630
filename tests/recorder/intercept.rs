//! The interceptor: every function of NCCL's, by every way on which programs reach it, in every surrounding.

mod communicators;
mod functions;
mod killed;
mod surroundings;
