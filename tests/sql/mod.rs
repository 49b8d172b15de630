//! SQL: the tables against SQLite's own and against the program's answers, the functions, the command, and exports.

mod export;
mod launches;
mod metadata;
mod named;
mod pairs;
mod ranks;
mod sql_command;
mod sql_surface;
mod tables;
