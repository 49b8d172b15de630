//! Damaged and hostile input: what is whole is read, the rest is counted, nothing panics and nothing takes long.

mod broken;
mod damaged_input;
mod hostile;
mod packets_hostile;
mod regressions;
mod unknown;
