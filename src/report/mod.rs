//! Results as text. Nothing is computed here, and nothing is written to a terminal: each form fills a `Write` or makes a String.

pub mod results;
pub mod table;
pub mod text;
