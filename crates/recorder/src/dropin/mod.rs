//! Output of other tools, written inside the job from the records: for users whose scripts set those tools' variables and read their files. A sleeping
//! thread writes Megatrace's log; the flow extractor's file is written when the program asks for it. Neither runs where records are made.

mod file;
mod flows;
mod megatrace;

pub(crate) use flows::write_flows;
pub(crate) use megatrace::{cannot_find, finish, forked, start};
