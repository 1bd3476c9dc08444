//! The bytes of a key.

use std::fmt;
use std::ops::Range;

/// Takes the parts of a key, each with its length, so that no two sequences of parts give the same bytes.
///
/// Up to 128 bytes are held in place; all tiers of a request draw their keys into one buffer.
#[derive(Clone)]
pub struct KeyBuf {
    len: usize,
    inline: [u8; INLINE],
    /// All of the bytes, once they are too many.
    spilled: Vec<u8>,
}

const INLINE: usize = 128;

/// What stands before, or instead of, the bytes of a part. Any greater number is [`PART`] and twice the length of a
/// part, and one more if it is text.
#[derive(Clone, Copy)]
pub(super) enum Sign {
    Missing = 0,
    FirstBranch = 1,
    OtherBranch = 2,
    /// Of an element of a tuple, which may have any number of parts.
    End = 3,
}

const PART: usize = 4;

impl KeyBuf {
    /// An empty buffer.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part: bytes, always compared as they are.
    #[inline]
    pub fn push(&mut self, part: &[u8]) {
        self.push_part(part, false);
    }

    /// Adds a part that is text, in whatever encoding: [`ignore_case`](super::KeyExtractor::ignore_case) applies to it.
    #[inline]
    pub fn push_text(&mut self, text: &[u8]) {
        self.push_part(text, true);
    }

    #[inline]
    fn push_part(&mut self, part: &[u8], is_text: bool) {
        let number = PART + 2 * part.len() + usize::from(is_text);
        let end = self.len + 1 + part.len();
        // The usual case, in one go.
        if number < 0x80
            && let Some([first, room @ ..]) = self.inline.get_mut(self.len..end)
        {
            *first = number as u8;
            room.copy_from_slice(part);
            self.len = end;
        } else {
            self.push_number(number);
            self.extend(part);
        }
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.inline.get_mut(self.len..end) {
            Some(room) => room.copy_from_slice(bytes),
            None => self.spill(bytes),
        }
        self.len = end;
    }

    #[cold]
    fn spill(&mut self, bytes: &[u8]) {
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.len]);
        }
        self.spilled.extend_from_slice(bytes);
    }

    /// Everything pushed so far, lengths included.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match self.inline.get(..self.len) {
            Some(bytes) => bytes,
            None => &self.spilled,
        }
    }

    #[inline]
    pub(super) fn sign(&mut self, sign: Sign) {
        self.extend(&[sign as u8]);
    }

    /// The whole key of a request that has none.
    pub(crate) fn push_missing(&mut self) {
        self.sign(Sign::Missing);
    }

    /// Where the next part begins.
    #[inline]
    pub(crate) fn mark(&self) -> usize {
        self.len
    }

    /// Drops what was pushed since `mark`.
    #[inline]
    pub(crate) fn rewind(&mut self, mark: usize) {
        if self.len > INLINE {
            self.spilled.truncate(mark);
            if let Some(room) = self.inline.get_mut(..mark) {
                room.copy_from_slice(&self.spilled[..mark]);
                self.spilled.clear();
            }
        }
        self.len = self.len.min(mark);
    }

    /// What was pushed between two marks; nothing if an extractor has put another buffer in this one's place.
    #[inline]
    pub(crate) fn between(&self, range: Range<u32>) -> &[u8] {
        let range = range.start as usize..range.end as usize;
        self.as_bytes().get(range).unwrap_or_default()
    }

    /// Turns ASCII letters of the text since `mark`, and of nothing else, to lower case.
    pub(super) fn lower_case_since(&mut self, mark: usize) {
        let bytes = match self.inline.get_mut(..self.len) {
            Some(bytes) => bytes,
            None => &mut self.spilled,
        };
        let mut rest = bytes.get_mut(mark..).unwrap_or_default();
        while !rest.is_empty() {
            let (number, length) = number_at(rest);
            let part = number.saturating_sub(PART);
            let end = rest.len().min(length + part / 2);
            if part % 2 == 1 {
                rest[length..end].make_ascii_lowercase();
            }
            rest = &mut rest[end..];
        }
    }

    /// Seven bits to a byte, the lowest first; the eighth says that more follow.
    #[inline]
    fn push_number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.extend(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.extend(&[number as u8]);
    }
}

/// A number, and how many bytes it takes.
fn number_at(bytes: &[u8]) -> (usize, usize) {
    let mut number = 0;
    for (nth, byte) in bytes.iter().enumerate() {
        number |= usize::from(byte & 0x7f) << (7 * nth);
        if *byte < 0x80 {
            return (number, nth + 1);
        }
    }
    (number, bytes.len())
}

impl Default for KeyBuf {
    #[inline]
    fn default() -> Self {
        Self {
            len: 0,
            inline: [0; INLINE],
            spilled: Vec::new(),
        }
    }
}

/// Its length only: keys may be secret.
impl fmt::Debug for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every other part is text.
    fn key(parts: &[Vec<u8>]) -> KeyBuf {
        let mut key = KeyBuf::new();
        for (nth, part) in parts.iter().enumerate() {
            key.push_part(part, nth % 2 == 1);
        }
        key
    }

    proptest! {
        #[test]
        fn two_sequences_of_parts_never_give_one_key(
            a in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5),
            b in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5),
        ) {
            prop_assert_eq!(a == b, key(&a).as_bytes() == key(&b).as_bytes());
        }

        #[test]
        fn lower_case_touches_text_and_nothing_else(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..5),
        ) {
            let mut lowered = key(&parts);
            lowered.lower_case_since(0);
            let lower_case = |(nth, part): (usize, &Vec<u8>)| match nth % 2 {
                1 => part.to_ascii_lowercase(),
                _ => part.clone(),
            };
            let expected: Vec<_> = parts.iter().enumerate().map(lower_case).collect();
            let expected = key(&expected);
            prop_assert_eq!(lowered.as_bytes(), expected.as_bytes());
        }
    }
}
