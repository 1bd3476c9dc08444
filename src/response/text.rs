//! Text made in place, and copied once it is whole: one allocation.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use http::HeaderValue;

use crate::few::Few;

/// Bytes of a header or a body; up to `N` are held in place.
pub(super) struct Text<const N: usize> {
    bytes: Few<u8, N>,
}

impl<const N: usize> Text<N> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self {
            bytes: Few::filled(0, 0),
        }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    #[inline(always)]
    pub(super) fn push_piece(&mut self, piece: &Piece) {
        match &piece.long {
            None => self.bytes.extend_from_array(&piece.short, piece.len),
            Some(text) => self.push(text),
        }
    }

    /// What was pushed once before.
    pub(super) fn push_again(&mut self, range: Range<usize>) {
        self.bytes.extend_from_within(range);
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// In decimal.
    pub(super) fn push_number(&mut self, number: u64) {
        let len = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        let mut rest = number;
        let digits = self.bytes.grow(len, b'0');
        for pair in digits.rchunks_exact_mut(2) {
            pair.copy_from_slice(&PAIRS[(rest % 100) as usize]);
            rest /= 100;
        }
        if len % 2 == 1 {
            digits[0] = b'0' + rest as u8;
        }
    }

    /// As a string of JSON.
    pub(super) fn push_json(&mut self, text: &[u8]) {
        self.push("\"");
        let mut rest = text;
        while let Some(place) = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\' | ..b' ' | 0x7f))
        {
            self.bytes.extend_from_slice(&rest[..place]);
            match rest[place] {
                byte @ (b'"' | b'\\') => self.bytes.extend_from_slice(&[b'\\', byte]),
                control => {
                    let _ = fmt::Write::write_fmt(self, format_args!("\\u{control:04x}"));
                }
            }
            rest = &rest[place + 1..];
        }
        self.bytes.extend_from_slice(rest);
        self.push("\"");
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }

    /// To be cut into pieces that share its one allocation. It takes more room, and is meant for what lives briefly.
    pub(super) fn into_shared(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl<const N: usize> AsRef<[u8]> for Text<N> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}

/// Text that is pushed often.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    short: [u8; SHORT],
    len: usize,
    /// Where there is more of it.
    long: Option<Box<str>>,
}

const SHORT: usize = 32;

impl Piece {
    pub(super) fn new(text: &str) -> Self {
        let mut short = [0; SHORT];
        let long = match short.get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                None
            }
            None => Some(text.into()),
        };
        Self {
            short,
            len: text.len(),
            long,
        }
    }
}

/// Two digits each.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut number = 0;
    while number < pairs.len() {
        pairs[number] = [b'0' + number as u8 / 10, b'0' + number as u8 % 10];
        number += 1;
    }
    pairs
};

/// A field. Names were checked to be printable ASCII, so there always is one.
pub(super) fn header(text: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_written_out(number: u64, shift in 0..64_u32) {
            let mut text = Text::<64>::new();
            text.push_number(number >> shift);
            prop_assert_eq!(text.as_bytes().to_vec(), (number >> shift).to_string().into_bytes());
        }

        #[test]
        fn pieces_are_pushed_whole(pieces in prop::collection::vec("[a-z]{0,40}", 0..6)) {
            let mut text = Text::<64>::new();
            for piece in &pieces {
                text.push_piece(&Piece::new(piece));
            }
            prop_assert_eq!(text.as_bytes().to_vec(), pieces.concat().into_bytes());
        }
    }

    #[test]
    fn round_numbers_are_written_out() {
        for number in (0..20)
            .map(|exponent| 10_u64.pow(exponent))
            .flat_map(|power| [power - 1, power, power + 1])
        {
            let mut text = Text::<64>::new();
            text.push_number(number);
            assert_eq!(text.as_bytes(), number.to_string().as_bytes());
        }
    }
}
