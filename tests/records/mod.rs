//! NCCL's own records: every source, on real samples with known truths, on made ones, and on what is wrong.

mod cases;
mod census;
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
mod megatrace;
mod pickles;
mod plugin_dump;
mod profiler_events;
mod ras_text;
mod recorder;
mod recorder_communicators;
mod recorder_groups;
mod recorder_verdicts;
mod runs;
mod tables;
mod watchdog;
