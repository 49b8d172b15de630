//! todo
use crate::ranks::report::Compared;
use std::io;
pub(super) fn ranks(_compared: &Compared, _out: &mut Vec<u8>) -> io::Result<()> {
    Ok(())
}
