//! todo
use crate::ranks::report::RankReport;
use std::io;
pub(super) fn ranks(_report: &RankReport, _out: &mut Vec<u8>) -> io::Result<()> {
    Ok(())
}
