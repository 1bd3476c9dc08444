//! Text made in place, and copied once it is whole: one allocation, of the right size.

use std::fmt;

use bytes::Bytes;
use http::HeaderValue;
use smallvec::SmallVec;

/// Bytes of a header or a body; up to 512 are held in place.
#[derive(Default)]
pub(super) struct Text {
    bytes: SmallVec<[u8; 512]>,
}

impl Text {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// In decimal.
    pub(super) fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&digits[start..]);
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

    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }

    /// None if there is nothing in it: an empty list is not sent.
    pub(super) fn into_header(self) -> Option<HeaderValue> {
        // Names were checked to be printable ASCII, so this cannot fail.
        (!self.is_empty())
            .then(|| HeaderValue::from_bytes(&self.bytes).ok())
            .flatten()
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text);
        Ok(())
    }
}
