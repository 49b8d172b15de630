//! From bytes to slices: containers, compression, JSON, packets, exports of Nsight Systems, threads, and real traces against a real trace_processor.

mod archives;
mod formats;
mod limits;
mod nsys;
mod oracle;
mod packets;
mod packets_legacy;
mod packets_oracle;
mod recovery;
mod spellings;
mod threads;
