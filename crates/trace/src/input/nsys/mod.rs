//! The SQLite exports of Nsight Systems (`nsys export --type sqlite`), read into the events of a trace.
//!
//! Kernels, copies and fills become slices of GPUs, calls of the CUDA runtime and driver and the ranges of NVTX slices of threads,
//! all with the categories and arguments that Kineto gives them. So all that works on a trace of the PyTorch profiler works on these,
//! as far as the export has the data.
//!
//! CUPTI numbers correlations in each process by itself. So each process that has used CUDA is a trace of its own, and an export of
//! several is an archive of their traces: then a kernel can only have a launch of its own process.
//!
//! `opening` is the line of the registry: it recognises an export and finds its processes. `export` is the open file. `tables` knows the
//! tables and columns: an export has a table only if it has rows, and columns have been added over the years. `process` reads one process:
//! `calls` and `memory` name its work, `nvtx` reads its ranges, `payload` what NCCL attaches to them, `chains` the call chains of the CPU,
//! `names` the names of threads and processes. `about` reads the facts of the recording. `spans` converts times, `strings` looks up texts,
//! and `output` makes events. Rows are read one by one, in the order of the file; memory holds the texts that occur, and 16 bytes for each
//! function of a call chain.
//!
//! The schema is that of "SQLite Export Schema Reference" in the documentation of Nsight Systems, and of a real export of 2026.2.

mod about;
mod calls;
mod chains;
mod export;
mod memory;
mod names;
mod nvtx;
mod opening;
mod output;
mod payload;
mod process;
mod spans;
mod strings;
mod summary;
mod tables;

pub use process::Process;
pub use summary::{Item, Summary};
