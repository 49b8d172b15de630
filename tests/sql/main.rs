//! SQL: the tables against those of SQLite, the functions, the command, and exports.

#[path = "../support/mod.rs"]
mod support;

mod export;
mod sql_command;
mod sql_surface;
mod tables;
