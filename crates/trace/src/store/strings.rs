//! Interned strings: every distinct text of a trace once, with a small number.
//!
//! Names repeat massively (a trace with millions of slices has a few thousand), so columns hold 4-byte ids, comparing names is comparing ids, and
//! facts about a name are computed once.

use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use crate::event::Text;

/// The number of a text. 0 means no text (NULL in SQL).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StringId(pub u32);

impl StringId {
    /// No text.
    pub const NULL: StringId = StringId(0);
}

/// The texts, in one buffer, and the index that finds them.
pub struct Strings {
    text: String,
    /// Text `i` is `text[ends[i - 1]..ends[i]]`; text 0 is empty and means no text.
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: foldhash::fast::FixedState,
    /// A cache of ids by the bytes in the file, see [`recent_slot`]. Most texts are found here without hashing all of their bytes.
    recent: Vec<u32>,
    /// The ids of texts with escapes, by their bytes in the file. Python escapes everything that is not ASCII.
    escaped: HashMap<Box<[u8]>, StringId, foldhash::fast::FixedState>,
}

/// The maximum number of texts with escapes that are remembered by their bytes; a file may have as many as events.
const MAX_ESCAPED: usize = 1 << 16;

/// The number of slots for recent texts. Traces have about as many names, or a few times more.
const RECENT: usize = 4096;

impl std::fmt::Debug for Strings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strings").field("count", &self.ends.len()).field("bytes", &self.text.len()).finish()
    }
}

impl Default for Strings {
    fn default() -> Self {
        Strings {
            text: String::new(),
            ends: vec![0],
            index: HashTable::new(),
            // A fixed seed: no order depends on it, and runs stay comparable.
            hasher: foldhash::fast::FixedState::default(),
            recent: Vec::new(),
            escaped: HashMap::default(),
        }
    }
}

impl Strings {
    /// The id of a text; new texts get a new id.
    pub fn intern(&mut self, text: &str) -> StringId {
        let hash = self.hash(text.as_bytes());
        self.find_bytes(hash, text.as_bytes()).unwrap_or_else(|| self.insert(hash, text))
    }

    /// The same for a text as written in the file. Almost all are known, and their bytes are the text itself.
    #[inline]
    pub fn intern_text(&mut self, text: Text<'_>) -> StringId {
        let slot = recent_slot(text.raw);
        if let Some(&id) = self.recent.get(slot)
            && id != 0
            && self.text.as_bytes()[self.ends[id as usize - 1]..self.ends[id as usize]] == *text.raw
        {
            return StringId(id);
        }
        self.intern_rare_text(text, slot)
    }

    fn intern_rare_text(&mut self, text: Text<'_>, slot: usize) -> StringId {
        // The bytes of a text with escapes differ from the text, so they are never looked up as one.
        if memchr::memchr(b'\\', text.raw).is_some() {
            return self.intern_escaped(text);
        }
        let hash = self.hash(text.raw);
        let id = self.find_bytes(hash, text.raw).unwrap_or_else(|| self.intern(&text.decoded()));
        if self.recent.is_empty() {
            self.recent = vec![0; RECENT];
        }
        // Bytes that are not UTF-8 never match.
        if self.get(id).is_some_and(|known| known.as_bytes() == text.raw) {
            self.recent[slot] = id.0;
        }
        id
    }

    /// All texts here come from one file, so they are decoded alike.
    fn intern_escaped(&mut self, text: Text<'_>) -> StringId {
        if let Some(known) = self.escaped.get(text.raw) {
            return *known;
        }
        let id = self.intern(&text.decoded());
        if self.escaped.len() < MAX_ESCAPED {
            self.escaped.insert(text.raw.into(), id);
        }
        id
    }

    fn insert(&mut self, hash: u64, text: &str) -> StringId {
        let id = u32::try_from(self.ends.len()).unwrap_or(0);
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (all, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        self.index.insert_unique(hash, id, |id| hash_bytes(hasher, slice(all, ends, *id).as_bytes()));
        StringId(id)
    }

    #[inline]
    fn hash(&self, bytes: &[u8]) -> u64 {
        hash_bytes(&self.hasher, bytes)
    }

    #[inline]
    fn find_bytes(&self, hash: u64, bytes: &[u8]) -> Option<StringId> {
        let all = self.text.as_bytes();
        let is_same = |id: &u32| all[self.ends[*id as usize - 1]..self.ends[*id as usize]] == *bytes;
        self.index.find(hash, is_same).map(|id| StringId(*id))
    }

    /// The id of a text; `None` if it was never interned.
    pub fn find(&self, text: &str) -> Option<StringId> {
        self.find_bytes(self.hash(text.as_bytes()), text.as_bytes())
    }

    /// The text of an id; `None` for [`StringId::NULL`].
    pub fn get(&self, id: StringId) -> Option<&str> {
        (id != StringId::NULL).then(|| slice(&self.text, &self.ends, id.0))
    }

    /// The number of ids, including [`StringId::NULL`].
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Always false, because [`StringId::NULL`] always exists.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The cache slot of a text: from its length, beginning and end, where names differ.
#[inline]
fn recent_slot(text: &[u8]) -> usize {
    let (first, last) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (text.iter().fold(0, |all, byte| all << 8 | u64::from(*byte)), 0),
    };
    // The highest bits of a product depend on all bits of its factors.
    let mixed = (first ^ last.rotate_left(23) ^ text.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - RECENT.ilog2())) as usize
}

#[inline]
fn hash_bytes(hasher: &foldhash::fast::FixedState, bytes: &[u8]) -> u64 {
    let mut state = hasher.build_hasher();
    state.write(bytes);
    state.finish()
}

fn slice<'a>(text: &'a str, ends: &[usize], id: u32) -> &'a str {
    let id = id as usize;
    &text[ends[id - 1]..ends[id]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn equal_texts_have_one_id() {
        let mut strings = Strings::default();
        let a = strings.intern("aten::add");
        let b = strings.intern("");
        let c = strings.intern("aten::mul");
        assert_eq!(strings.intern("aten::add"), a);
        assert_eq!([strings.get(a), strings.get(b), strings.get(c)], [Some("aten::add"), Some(""), Some("aten::mul")]);
        assert_eq!(strings.get(StringId::NULL), None);
        assert_eq!(strings.find("aten::mul"), Some(c));
        assert_eq!(strings.find("aten::div"), None);
    }

    #[test]
    fn texts_of_a_file_mean_what_they_decode_to() {
        let decode = |raw: &[u8]| Cow::Owned(String::from_utf8_lossy(raw).replace("\\n", "\n"));
        let mut strings = Strings::default();
        let backslash = strings.intern("a\\n");
        let newline = strings.intern_text(Text { raw: b"a\\n", decode });
        assert_ne!(newline, backslash, "its bytes are known as another text");
        assert_eq!(strings.get(newline), Some("a\n"));
        assert_eq!(strings.intern_text(Text { raw: b"a\n", decode }), newline);
        for _ in 0..2 {
            let broken = strings.intern_text(Text { raw: b"\xff", decode });
            assert_eq!(strings.get(broken), Some("\u{fffd}"));
            assert_eq!(strings.intern_text(Text { raw: b"a\\n", decode }), newline);
        }
    }

    #[test]
    fn texts_with_escapes_are_known_by_their_bytes_up_to_a_number() {
        let decode = |raw: &[u8]| Cow::Owned(String::from_utf8_lossy(raw).replace("\\n", "\n"));
        let mut strings = Strings::default();
        let raw: Vec<String> = (0..MAX_ESCAPED + 10).map(|i| format!("{i}\\n")).collect();
        for _ in 0..2 {
            for (i, raw) in raw.iter().enumerate() {
                let id = strings.intern_text(Text { raw: raw.as_bytes(), decode });
                assert_eq!((id, strings.get(id)), (StringId(i as u32 + 1), Some(&*format!("{i}\n"))));
            }
        }
        assert_eq!(strings.escaped.len(), MAX_ESCAPED);
    }

    /// Texts that share a slot keep their own ids.
    #[test]
    fn recent_texts_are_found_again() {
        let decode = |raw: &[u8]| Cow::Owned(String::from_utf8_lossy(raw).into_owned());
        let mut strings = Strings::default();
        let texts: Vec<String> = (0..3 * RECENT)
            .map(|i| format!("common beginning {i:05} common end"))
            .chain(["".to_owned(), "a".to_owned()])
            .collect();
        let ids: Vec<StringId> =
            texts.iter().map(|text| strings.intern_text(Text { raw: text.as_bytes(), decode })).collect();
        for (text, id) in texts.iter().zip(&ids).rev().chain(texts.iter().zip(&ids)) {
            assert_eq!(strings.intern_text(Text { raw: text.as_bytes(), decode }), *id);
            assert_eq!(strings.get(*id), Some(text.as_str()));
        }
    }
}
