//! Perfetto's protobuf format: a list of packets, read one after the other as a stream.
//!
//! `sniff` recognises such a file; `packets` splits the stream, `recover` resynchronises after damage, and `reader` goes through
//! all packets, also the compressed ones, which `unpack` decompresses. `wire` and `packet` parse fields. `events` turns a packet
//! into events: `state` is what a sequence of packets has said before, `clocks` converts times to the trace's clock, `tracks`
//! knows what the tracks are, and `track_event`, `legacy`, `typed`, `annotation`, `annotations` and `ties` parse one event. Packets
//! of the operating system's tracing, counters and samples are skipped and counted.
//!
//! One thread reads, in file order: the meaning of a packet depends on those before it. The names of fields and the rules are
//! those of Perfetto's `protos/perfetto/trace` and of trace_processor.

mod annotation;
mod annotations;
mod attributes;
mod clocks;
mod events;
mod format;
mod legacy;
mod packet;
mod packets;
mod reader;
mod recover;
mod sniff;
mod state;
mod summary;
mod ties;
mod track_event;
mod tracks;
mod typed;
mod unpack;
pub(super) mod wire;

pub use reader::Stream;
pub use summary::Summary;
