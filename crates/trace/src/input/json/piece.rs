//! What the tokenizer finds in a text, and what it asks the parser of events.

use super::marks::Marks;
use crate::damage::Damage;

/// No event is longer; a stray quote makes strings that are. Less in tests, which have to exceed it.
pub(super) const MAX_EVENT: usize = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// What the tokenizer finds, in file order.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// One event object that is JSON as far as it was read, and whether it was recognised.
    Event { event: Marked<'a>, offset: u64, bytes: u64, recognised: bool },
    /// Something that is wrong, and how many bytes of the text it cost.
    Fault(Fault),
    /// A field beside the events, its key still escaped; `text` is `None` if it is too long to keep.
    Header { key: &'a [u8], text: Option<&'a [u8]>, offset: u64, bytes: u64 },
}

/// Something that is wrong with the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Damage,
    /// Its offset in the file's text.
    pub(super) offset: u64,
    /// How many bytes it cost.
    pub(super) bytes: u64,
}

/// An object in a marked text.
#[derive(Debug)]
pub(super) struct Marked<'a> {
    /// The text up to the object's closing brace.
    pub(super) text: &'a [u8],
    /// Where its opening brace is.
    pub(super) at: usize,
    /// The text's marks.
    pub(super) marks: &'a mut Marks,
}

/// The parser of events: it decides where they end and whether they are objects.
pub(super) trait Events {
    /// The byte after the event that begins at a byte, if it looks like one before.
    fn recognise(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> Option<usize>;

    /// Whether what begins at a byte and goes to the text's end is an object, its members' insides aside.
    fn read(&mut self, text: &[u8], at: usize, marks: &mut Marks) -> bool;
}
