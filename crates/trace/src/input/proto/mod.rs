//! Perfetto's protobuf format: a list of packets, read one after the other as a stream.
//!
//! `format` recognises such a file and refuses one without events; `packets` splits the stream, and `reader` goes through all packets, also
//! the compressed ones. `messages` declares the messages that are read, on top of the `wire` format. `events` turns a packet into events:
//! `state` is what a sequence of packets has said before, `clocks` converts times, `tracks` knows what the tracks are, `track_event` and
//! `annotations` read one event. Packets of the operating system's tracing, counters and samples are skipped and counted.
//!
//! One thread reads, in file order: the meaning of a packet depends on those before it. The names of fields and the rules are
//! those of Perfetto's `protos/perfetto/trace` and of trace_processor.

mod annotations;
mod clocks;
mod events;
mod format;
mod messages;
mod packets;
mod reader;
mod state;
mod track_event;
mod tracks;
pub(super) mod wire;

pub use reader::Stream;
