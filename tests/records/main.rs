//! NCCL's own records: every source, on real samples with known truths, on made ones, and on what is wrong.

#[path = "../checks/records.rs"]
#[allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "it is shared with the fuzz targets, and one of its checks is used here"
)]
mod check;
#[path = "../../examples/make_trace/job/mod.rs"]
mod job;
#[path = "../support/mod.rs"]
mod support;

mod census;
mod comma;
mod conversions;
mod damaged;
mod debug_log;
mod entries;
mod flows;
mod hang;
mod hang_dumps;
mod hang_logs;
mod inspector;
mod joins;
mod made;
mod megatrace;
mod pickles;
mod plugin_dump;
mod profiler_events;
mod ras_text;
mod recorder;
mod recorder_communicators;
mod recorder_verdicts;
mod tables;
