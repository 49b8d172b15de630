//! SQL: the tables against SQLite's own and against the program's answers, the functions, the command, and exports.

#[path = "../support/mod.rs"]
mod support;

mod export;
mod launches;
mod sql_command;
mod sql_surface;
mod tables;
