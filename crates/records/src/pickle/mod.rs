//! Pickles as data: what Python's `pickle` would build from lists, dictionaries, texts and numbers, and nothing else.
//!
//! A pickle is a program for a stack machine, and some of its instructions import and call whatever they name. Those are an error here, with the name
//! of what they ask for and where: nothing is ever executed or imported. What is left cannot loop, and each instruction makes one value at most, so
//! memory is bounded by the length of the text. Lengths that a pickle claims are not believed: what is not there cannot be taken.

mod machine;
mod opcode;

use std::io::{BufRead, Read};

use super::nodes::Document;
use machine::Machine;

#[derive(Debug, thiserror::Error)]
pub(super) enum PickleError {
    #[error("the pickle asks to {what} at byte {at}; nothing was executed, and the file is not read")]
    Executes { what: String, at: u64 },

    #[error(
        "the pickle is of protocol 0 or 1, which is not read. Load it and write it again: `pickle.dump(dump, file, protocol=2)`"
    )]
    Old,

    #[error("the pickle has the unknown instruction {opcode:#04x} at byte {at}")]
    Unknown { opcode: u8, at: u64 },

    #[error("the pickle is damaged at byte {at}: {what}")]
    Damaged { what: &'static str, at: u64 },

    #[error("the pickle ends early, at byte {at}")]
    EndsEarly { at: u64 },

    #[error("the pickle is too large: {what} at byte {at}")]
    TooLarge { what: &'static str, at: u64 },

    #[error(transparent)]
    Read(#[from] std::io::Error),
}

/// Reads the first pickle of a file: its values, and the position of the outermost. Of one that ends early, or cannot be read to its end,
/// what was whole by then comes with the error.
pub(super) fn read(bytes: &mut dyn BufRead) -> (Option<(Document, u32)>, Option<PickleError>) {
    let mut text = Vec::new();
    let failure = bytes.take(MOST).read_to_end(&mut text).err();
    let mut machine = Machine::new(&text);
    match (machine.run(), failure) {
        (Ok(root), _) => (Some(machine.finished(root)), None),
        (Err(PickleError::EndsEarly { .. }), Some(failure)) => (machine.unfinished(), Some(failure.into())),
        (Err(PickleError::EndsEarly { at }), None) if text.len() as u64 == MOST => {
            (None, Some(PickleError::TooLarge { what: "more than a gibibyte", at }))
        }
        (Err(error @ PickleError::EndsEarly { .. }), None) => (machine.unfinished(), Some(error)),
        (Err(error), _) => (None, Some(error)),
    }
}

/// The most bytes of a pickle: a ring of 20,000 entries with frames has 100 MB.
const MOST: u64 = 1 << 30;

/// Whether a file begins as a pickle. Protocols from 2 on begin with their number after a byte that begins no text. The older ones are
/// recognised where they begin with a dictionary or a list, to be refused.
pub(super) fn is_pickle(head: &[u8]) -> bool {
    match head {
        [opcode::PROTO, 2..=5, next, ..] => opcode::is_known(*next),
        [b'}' | b']', b'q' | b'r', ..] | [b'}', b'(' | b'.', ..] => true,
        [b'(', b'd' | b'l', b'p', digit, ..] => digit.is_ascii_digit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte changed, and the rest cut off anywhere: an error or values, and positions of what is there.
    #[test]
    fn no_damage_panics() {
        use crate::nodes::Node;

        let pickle = b"\x80\x04}\x94(\x8c\x01v\x94\x8c\x01x\x94\x8c\x01e\x94](}(h\x01h\x02K\x07N\x85u}(h\x01](K\x01K\x02euee\x8c\x01p}(h\x01}(h\x02h\x02uuu.";
        let mut found = 0;
        for (at, _) in pickle.iter().enumerate() {
            for byte in 0..=u8::MAX {
                let mut changed = pickle.to_vec();
                changed[at] = byte;
                for end in [changed.len(), changed.len() * 3 / 4, at + 1] {
                    let (Some((document, root)), _) = read(&mut &changed[..end]) else { continue };
                    let is_there = |at: &u32| (*at as usize) < document.nodes.len();
                    assert!(is_there(&root));
                    assert!(document.nodes.iter().all(|node| match node {
                        Node::List(part) | Node::Dict(part) => document.items(*part).iter().all(is_there),
                        _ => true,
                    }));
                    found += 1;
                }
            }
        }
        assert!(found > 1000, "{found}");
    }

    #[test]
    fn pickles_are_recognised_by_their_first_bytes() {
        for pickle in [&b"\x80\x02}q\x00."[..], b"\x80\x04\x95\x00", b"}q\x00.", b"(dp0\n."] {
            assert!(is_pickle(pickle), "{pickle:?}");
        }
        for text in
            [&b"{\"a\": 1}"[..], b"\x80\x07}", b"\x80\x02\xff", b"(hello)", b"comm 0x1\nnext\nline", b"", b"\x80"]
        {
            assert!(!is_pickle(text), "{text:?}");
        }
    }
}
