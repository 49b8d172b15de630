//! The kinds of categories, remembered by their bytes in the file.

use std::ops::Range;

use super::compare::Piece;
use super::text::unescape;
use crate::names::category::CategoryKind;

/// Categories are remembered up to this many; Kineto has a dozen.
const MAX_KINDS: usize = 16;

/// The categories met so far.
pub(super) struct Categories {
    /// As they are in the file, and their kinds.
    kinds: Vec<(Vec<u8>, CategoryKind)>,
    /// The last one, if it has at most 16 bytes: events come in runs.
    last: (Piece, usize, CategoryKind),
}

impl Default for Categories {
    fn default() -> Self {
        Categories { kinds: Vec::new(), last: (Piece::default(), 0, CategoryKind::Cpu) }
    }
}

impl Categories {
    /// The kind of the category in a range of the text. An event without one may be a call.
    #[inline]
    pub(super) fn kind_of(&mut self, text: &[u8], category: Option<Range<usize>>) -> CategoryKind {
        category.map_or(CategoryKind::Runtime, |category| self.kind(text, category))
    }

    #[inline]
    fn kind(&mut self, text: &[u8], category: Range<usize>) -> CategoryKind {
        let (piece, length, kind) = self.last;
        if category.len() == length && piece.is_at(text, category.start) {
            return kind;
        }
        self.another_kind(text.get(category).unwrap_or_default())
    }

    fn another_kind(&mut self, category: &[u8]) -> CategoryKind {
        let known = self.kinds.iter().find(|(known, _)| known == category).map(|(_, kind)| *kind);
        let kind = known.unwrap_or_else(|| {
            // Removing all of them is so rare that choosing is not worth it.
            if self.kinds.len() == MAX_KINDS {
                self.kinds.clear();
            }
            let kind = CategoryKind::from_name(&unescape(category));
            self.kinds.push((category.to_owned(), kind));
            kind
        });
        if category.len() <= 16 {
            self.last = (Piece::new(category), category.len(), kind);
        }
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_remembered() {
        let categories = &mut Categories::default();
        for i in 0..40 {
            assert_eq!(categories.kind(format!("category {i}").as_bytes(), 0..10), CategoryKind::Cpu);
        }
        assert_eq!(categories.kind(b"Kernel, or a longer text", 0..6), CategoryKind::Kernel);
        assert_eq!(categories.kind(b"Kernel, or a longer text", 0..6), CategoryKind::Kernel);
        assert_eq!(categories.kind(b"Kernel, or a longer text", 0..7), CategoryKind::Cpu);
        assert!(categories.kinds.len() <= MAX_KINDS);
    }
}
