//! Archives: zip and tar. Each has a file that lists its members (`listing`); `names` decides which names are skipped, and
//! `findings` collects what is in an archive besides traces. The members are opened in `input/contents.rs`.

mod findings;
pub(super) mod listing;
pub(super) mod names;
pub(super) mod tar;
pub(super) mod zip;

pub use findings::{Findings, InnerDamage};
