//! What NCCL prints with `NCCL_DEBUG=INFO`.

use std::io;

use super::format::{Format, Reading};
use crate::operation::Source;

pub(super) const FORMAT: Format = Format { source: Source::DebugLog, sniff: |_| false, read };

fn read(_: &mut Reading<'_>) -> io::Result<()> {
    Ok(())
}
