//! The Chrome trace format: JSON as Kineto, Perfetto's tools and Chrome write it.
//!
//! From bytes to events, in the order in which the files work:
//!
//! - `read` divides the work between threads: `split` divides the text into chunks, `chunk_reader` reads one, `join` puts together
//!   what was read. The result is the same for any number of threads.
//! - `tokenizer` finds the events of a chunk (`container`: around and beside the list; `elements`: in it), from a `cursor`, and
//!   hands them out as `piece`s. `state` is what passes from one chunk to the next. `marks` finds quotes and
//!   brackets with `words`, and text that is not JSON with `suspects`.
//! - `repair`, `rest` and `resync` read what is not JSON; how they work together is in `repair`.
//! - `event` gives one event its meaning. `fields` finds its members by walking (`scan`), `template` by comparing it with
//!   events seen before. `ids` and `kept` read its arguments: `search` finds single keys, `args` flattens values.
//! - `summary` is all that is beside the events, with the `header`.
//! - `number`, `text` and `keys` know JSON's numbers and strings, and the keys that traces have.
//! - [`copy`] copies a part of a trace; `edit` adds to single events.

mod args;
mod chunk_reader;
mod container;
pub mod copy;
mod cursor;
mod edit;
mod elements;
mod event;
mod fields;
mod format;
mod header;
mod ids;
mod join;
mod kept;
mod keys;
mod marks;
mod number;
mod piece;
mod read;
mod repair;
mod rest;
mod resync;
mod scan;
mod search;
mod split;
mod state;
mod summary;
mod suspects;
mod template;
mod text;
mod tokenizer;
mod words;

pub use crate::input::reader::Collect;
#[cfg(feature = "proto")]
pub(super) use args::flatten_value_of;
pub use format::Stream;
pub use read::{Division, Reader, count_elements};
pub use summary::Summary;
