//! The program from outside: options, the config file, completions, manual pages, exit codes, and streams that fail.

mod asked;
mod command;
mod communication;
mod completions;
mod config;
mod faults;
mod man;
mod several;
#[cfg(target_os = "linux")]
mod terminal;
mod traces;
