//! todo
use std::io;
use crate::ranks::report::RankReport;
pub(super) fn ranks(_report: &RankReport, _out: &mut Vec<u8>) -> io::Result<()> { Ok(()) }
