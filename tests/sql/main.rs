//! SQL: the tables against those of SQLite and against the program's answers, the functions, the command, and exports.

#[path = "../support/mod.rs"]
mod support;

mod export;
mod launches;
mod sql_command;
mod sql_surface;
mod tables;
