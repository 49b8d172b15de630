//! A whole trace, or a window of it, in other forms: for other programs to read.

pub mod cut;
pub mod sqlite;
