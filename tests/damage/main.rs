//! Damaged and hostile input: what is whole is read, the rest is counted, nothing panics and nothing takes long.

#![allow(
    clippy::duplicate_mod,
    reason = "the checks take what they need of `support` themselves, for the fuzz targets"
)]

#[path = "../checks/mod.rs"]
mod checks;
#[path = "../support/mod.rs"]
mod support;

mod broken;
mod damaged_input;
mod hostile;
mod packets_hostile;
mod regressions;
mod unknown;
