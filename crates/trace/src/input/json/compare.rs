//! Comparing text with text that was seen before, sixteen bytes at once.

/// Up to sixteen bytes of a text: `text & mask == value`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Piece {
    value: [u64; 2],
    mask: [u64; 2],
}

impl Piece {
    /// A piece of at most sixteen bytes.
    pub(super) fn new(text: &[u8]) -> Piece {
        let (mut value, mut mask) = ([0; 16], [0; 16]);
        value[..text.len()].copy_from_slice(text);
        mask[..text.len()].fill(0xff);
        Piece { value: halves(value), mask: halves(mask) }
    }

    /// Whether it is at a byte of a text that goes on for sixteen bytes from there.
    #[inline]
    pub(super) fn is_at(&self, text: &[u8], at: usize) -> bool {
        let Some(Ok(found)) = text.get(at..at + 16).map(TryInto::try_into) else { return false };
        let ([low, high], [low_mask, high_mask], [low_value, high_value]) = (halves(found), self.mask, self.value);
        ((low & low_mask) ^ low_value) | ((high & high_mask) ^ high_value) == 0
    }
}

#[inline]
fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let all = u128::from_le_bytes(bytes);
    [all as u64, (all >> 64) as u64]
}

/// Up to 96 bytes that are compared sixteen at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    pieces: [Piece; 2],
    more: Box<[Piece]>,
    length: usize,
}

impl Prefix {
    /// `None` if the text is empty or longer.
    pub(super) fn new(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() > 96 {
            return None;
        }
        let mut pieces = text.chunks(16).map(Piece::new);
        let first_two = [pieces.next().unwrap_or_default(), pieces.next().unwrap_or_default()];
        Some(Prefix { pieces: first_two, more: pieces.collect(), length: text.len() })
    }

    /// The byte after it, if it is at a byte.
    #[inline]
    pub(super) fn pass(&self, text: &[u8], at: usize) -> Option<usize> {
        let [first, second] = &self.pieces;
        if !first.is_at(text, at) || (self.length > 16 && !second.is_at(text, at + 16)) {
            return None;
        }
        let is_here =
            self.length <= 32 || self.more.iter().enumerate().all(|(i, piece)| piece.is_at(text, at + 32 + 16 * i));
        is_here.then_some(at + self.length)
    }
}
