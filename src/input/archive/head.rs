//! What a file of an archive begins with: whether it may be a trace, and of what kind.

use std::io::{self, Read};

use crate::input::packed::PackedFailure;
use crate::input::{SNIFF, packing_of, proto};

/// The order in which files are read, by what they begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Packets,
    Packed,
    Json,
}

impl Rank {
    /// `None` for what is no trace for sure.
    pub(super) fn of(head: &[u8]) -> Option<Self> {
        if packing_of(head).is_some_and(|format| format.is_container()) {
            return Some(Rank::Packed);
        }
        if proto::begins(head) {
            return Some(Rank::Packets);
        }
        let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
        let may_be_json = text.first().map_or(!head.is_empty(), |first| matches!(first, b'{' | b'['));
        may_be_json.then_some(Rank::Json)
    }
}

/// The first bytes of a file; fewer if they cannot be read.
pub(super) struct Head {
    pub(super) bytes: Vec<u8>,
    /// What is wrong where they end.
    pub(super) failure: Option<io::Error>,
}

impl Head {
    pub(super) fn of(mut file: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::with_capacity(SNIFF);
        match file.by_ref().take(SNIFF as u64).read_to_end(&mut bytes) {
            Ok(_) => Ok(Head { bytes, failure: None }),
            Err(error) if PackedFailure::of(&error).is_some() => Ok(Head { bytes, failure: Some(error) }),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_ranked_by_what_they_begin_with() {
        for (head, rank) in [
            (&b"{\"traceEvents\""[..], Some(Rank::Json)),
            (b"\xef\xbb\xbf \n[{", Some(Rank::Json)),
            (b"   ", Some(Rank::Json)),
            (b"\x1f\x8b\x08", Some(Rank::Packed)),
            (b"PK\x03\x04", Some(Rank::Packed)),
            (b"\x28\xb5\x2f\xfd", Some(Rank::Packed)),
            (b"SQLite format 3\0", None),
            (b"rank 0\n", None),
            (b"", None),
        ] {
            assert_eq!(Rank::of(head), rank, "{head:?}");
        }
    }
}
