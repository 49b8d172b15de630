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
//!
//! Without the cargo feature `proto` such files are recognised and refused (`off`).

#[cfg(feature = "proto")]
mod annotation;
#[cfg(feature = "proto")]
mod annotations;
#[cfg(feature = "proto")]
mod attributes;
#[cfg(feature = "proto")]
mod clocks;
#[cfg(feature = "proto")]
mod events;
mod format;
#[cfg(feature = "proto")]
mod legacy;
#[cfg(not(feature = "proto"))]
mod off;
#[cfg(feature = "proto")]
mod packet;
#[cfg(feature = "proto")]
mod packets;
#[cfg(feature = "proto")]
mod reader;
#[cfg(feature = "proto")]
mod recover;
mod sniff;
#[cfg(feature = "proto")]
mod state;
mod summary;
#[cfg(feature = "proto")]
mod ties;
#[cfg(feature = "proto")]
mod track_event;
#[cfg(feature = "proto")]
mod tracks;
#[cfg(feature = "proto")]
mod typed;
#[cfg(feature = "proto")]
mod unpack;
#[cfg_attr(not(feature = "proto"), expect(dead_code, reason = "`sniff` needs a part of it"))]
pub(super) mod wire;

#[cfg(not(feature = "proto"))]
pub use off::Stream;
#[cfg(feature = "proto")]
pub use reader::Stream;
pub use summary::Summary;
