//! From bytes to slices: containers, compression, JSON, packets, threads, and real traces against a real trace_processor.

#[path = "../support/mod.rs"]
mod support;

mod archives;
mod limits;
mod oracle;
mod packets;
mod packets_legacy;
mod packets_oracle;
mod recovery;
mod threads;
