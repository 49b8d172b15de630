//! Rewrites a damaged trace so that every viewer opens it: whole events byte for byte, recovered ones as they were meant, and nothing else.
//!
//! Slices that partly overlap others on their thread can be moved to [lanes](Lanes).

use std::io::Write;

use crate::damage::DamageReport;
use crate::error::Error;
use crate::event::Event;
use crate::input;
use crate::input::json::copy::{Choice, Copied, CopyError, repair};
use crate::input::{Input, Trace};
use crate::time::Window;

use super::cut::packed;
pub use super::lanes::Lanes;
use super::lanes::Moves;

#[derive(Debug)]
pub struct Repaired {
    pub copied: Copied,
    /// The damage that affects the written trace.
    pub damage: DamageReport,
    /// The number of bytes of text read.
    pub text_bytes: u64,
}

/// Writes the whole and the recovered events of a trace, compressed with gzip if `pack` is set. `file` is the index of the trace's file in an
/// archive. `survived` is called at the end if the text ends early, for the time in which kernels survived in it.
/// Errors: if reading fails, the trace is not JSON or has no whole event, or writing fails, which `failed` wraps.
pub fn write(
    input: Input,
    file: Option<usize>,
    lanes: &Lanes,
    survived: impl FnOnce() -> Option<Window>,
    out: impl Write,
    pack: bool,
    failed: impl Fn(std::io::Error) -> Error,
) -> Result<Repaired, Error> {
    let name = input.name.clone();
    let text = match input.into_trace(file)? {
        Trace::Json(text) => text,
        other => return Err(Error::CannotRepair { name, what: other.format().what }),
    };
    let mut moves = Moves::new(lanes);
    let choose = |event: &Event<'_>, offset: u64| moves.lane(event, offset).map_or(Choice::Copy, Choice::Move);
    let (copied, summary) = packed(out, pack, &failed, |out| {
        repair(text, out, choose, survived).map_err(|error| match error {
            CopyError::Read(source) => input::failure(&name, source),
            CopyError::Write(source) => failed(source),
        })
    })?;
    if copied.kept == 0 {
        let offset = summary.cut_off_at.unwrap_or(0);
        return Err(Error::NothingWhole { name, offset });
    }
    Ok(Repaired { copied, damage: summary.damage, text_bytes: summary.text_bytes })
}
