//! `grpc-status-details-bin`: a `google.rpc.Status` with `RetryInfo` and `QuotaFailure`, encoded by hand. Protocol
//! buffers need no more than numbers and bytes with a length for it, and a dependency would bring a code generator.

use std::time::Duration;

use crate::policy::{Rejection, Violation, short};

/// Clients may take no more than 8 KiB of headers, so not all of many violations are told.
const MOST_VIOLATIONS: usize = 16;

/// The message, in base64 without padding.
pub(super) fn status(code: u16, message: &str, rejection: &Rejection) -> String {
    let mut status = Message::default();
    status.number(1, code.into());
    status.bytes(2, message.as_bytes());
    if let Some(wait) = rejection.wait() {
        status.message(3, &any("google.rpc.RetryInfo", &retry_info(wait)));
    }
    if !rejection.violations().is_empty() {
        status.message(
            3,
            &any("google.rpc.QuotaFailure", &quota_failure(rejection.violations())),
        );
    }
    base64(&status.encoded)
}

fn any(kind: &str, value: &Message) -> Message {
    let mut any = Message::default();
    any.bytes(1, format!("type.googleapis.com/{kind}").as_bytes());
    any.message(2, value);
    any
}

fn retry_info(wait: Duration) -> Message {
    let mut duration = Message::default();
    duration.number(1, wait.as_secs());
    duration.number(2, wait.subsec_nanos().into());
    let mut info = Message::default();
    info.message(1, &duration);
    info
}

fn quota_failure(violations: &[Violation]) -> Message {
    let mut failure = Message::default();
    for violation in violations.iter().take(MOST_VIOLATIONS) {
        let quota = violation.quota();
        let mut encoded = Message::default();
        // The subject would be the key, which is not told.
        encoded.bytes(1, format!("policy:{}", violation.label()).as_bytes());
        encoded.bytes(2, format!("{} per {}", quota.limit(), short(quota.period())).as_bytes());
        encoded.bytes(5, violation.label().as_bytes());
        encoded.number(7, quota.limit());
        failure.message(1, &encoded);
    }
    failure
}

#[derive(Default)]
struct Message {
    encoded: Vec<u8>,
}

impl Message {
    /// A number; 0 is the default and left out.
    fn number(&mut self, field: u8, number: u64) {
        if number != 0 {
            self.encoded.push(field << 3);
            self.varint(number);
        }
    }

    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        self.encoded.push(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.encoded.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u8, message: &Self) {
        self.bytes(field, &message.encoded);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.encoded.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.encoded.push(number as u8);
    }
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for nth in 0..=chunk.len() {
            encoded.push(char::from(LETTERS[(bits >> (18 - 6 * nth)) as usize & 63]));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base64_is_that_of_everybody(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let expected = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
            prop_assert_eq!(super::base64(&bytes), expected);
        }
    }
}
