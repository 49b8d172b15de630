//! SQLite databases, which hold no trace that this program reads: Nsight Systems exports them.

use super::format::{Fit, Format, Reader};

const MAGIC: &[u8] = b"SQLite format 3\0";

pub(super) const FORMAT: Format = Format {
    sniff: |head| Fit::sure_if(head.starts_with(MAGIC)),
    reader: Reader::Refused {
        what: "this is an SQLite database (an Nsight Systems export?)",
        advice: "Record with the PyTorch profiler instead",
    },
};
