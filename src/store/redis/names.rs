//! Under which Redis keys accounts are kept: `prefix:namespace:tier:{key}`.
//!
//! The braces are ours, and the only ones: what they hold decides where in a cluster an account lies, so all quotas of a
//! tier's key lie together, and nothing that a client or a configuration says moves it elsewhere. In them is a hash of the
//! key by default, of 144 bits, by BLAKE3 with a key derived from the secret.

use std::fmt::Write as _;

use crate::store::{Charge, TierId};

#[derive(Clone)]
pub(super) struct Names {
    prefix: String,
    hash_key: [u8; 32],
    is_readable: bool,
}

/// Says what the secret is for, as BLAKE3 asks for.
const CONTEXT: &str = "tower-throttle 2026-11-18 keys of accounts in Redis";

const PREFIX: &str = "throttle";

impl Default for Names {
    fn default() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            hash_key: blake3::derive_key(CONTEXT, b""),
            is_readable: false,
        }
    }
}

impl Names {
    pub(super) fn set_prefix(&mut self, prefix: &str) {
        self.prefix.clear();
        escape(prefix.as_bytes(), b":", &mut self.prefix);
    }

    pub(super) fn set_secret(&mut self, secret: &[u8]) {
        self.hash_key = blake3::derive_key(CONTEXT, secret);
    }

    pub(super) const fn set_readable(&mut self, is_readable: bool) {
        self.is_readable = is_readable;
    }

    /// The key that the buckets and windows of a charge's account are kept under.
    pub(super) fn of(&self, charge: &Charge<'_>) -> String {
        let mut name = self.of_tier(charge.tier);
        name.push_str(":{");
        if self.is_readable {
            escape(charge.key, b"", &mut name);
        } else {
            let hash = blake3::keyed_hash(&self.hash_key, charge.key);
            base64_url(&hash.as_bytes()[..18], &mut name);
        }
        name.push('}');
        name
    }

    /// Two keys of no account, in different slots of a cluster. The first is written, for an instant.
    pub(super) fn of_probe(&self) -> [String; 2] {
        ["a", "b"].map(|tag| format!("{}:*:{{{tag}}}", self.prefix))
    }

    fn of_tier(&self, tier: &TierId) -> String {
        let mut name = String::with_capacity(96);
        name.push_str(&self.prefix);
        for part in [tier.namespace(), tier.name()] {
            name.push(':');
            escape(part.as_bytes(), b"", &mut name);
        }
        name
    }
}

/// Leaves letters, digits and a few signs as they are, and writes all else as `%` and two hexadecimal digits.
fn escape(bytes: &[u8], also: &[u8], name: &mut String) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.".contains(byte) || also.contains(byte) {
            name.push(char::from(*byte));
        } else {
            let _ = write!(name, "%{byte:02x}");
        }
    }
}

/// Of whole groups of three bytes.
fn base64_url(bytes: &[u8], name: &mut String) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for group in bytes.chunks_exact(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for shift in [18, 12, 6, 0] {
            name.push(char::from(LETTERS[bits >> shift & 63]));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::quota::Quota;

    use super::*;

    fn name(names: &Names, namespace: &str, tier: &str, key: &[u8]) -> String {
        let (tier, quota) = (TierId::new(namespace, tier), Quota::per_second(1));
        names.of(&Charge::new(&tier, key, &quota))
    }

    /// What another process computes must be the same in every version: a rolling deploy shares the accounts.
    #[test]
    fn names_are_stable() {
        let mut names = Names::default();
        assert_eq!(
            name(&names, "", "user", b"ann"),
            "throttle::user:{AtJNdzlhkkYxlplsZOSYSOIm}"
        );
        names.set_secret(b"secret");
        assert_ne!(
            name(&names, "", "user", b"ann"),
            "throttle::user:{AtJNdzlhkkYxlplsZOSYSOIm}"
        );
    }

    #[test]
    fn no_two_accounts_share_a_name() {
        let mut names = Names::default();
        for is_readable in [false, true] {
            names.set_readable(is_readable);
            let mut seen = HashSet::new();
            for namespace in ["", "a", "a:b", "a%3ab"] {
                for tier in ["b", "b:c", "c", "{c}"] {
                    for key in [&b""[..], b"\0", b"a:b", b"{x}", b"%7b", b"\xff\xfe", &[b'x'; 10_000]] {
                        assert!(seen.insert(name(&names, namespace, tier, key)));
                    }
                }
            }
        }
    }

    /// A tag from user data would let a client choose the shard, or break calls with several keys.
    #[test]
    fn the_only_braces_are_ours() {
        let mut names = Names::default();
        names.set_prefix("{my}:app");
        for is_readable in [false, true] {
            names.set_readable(is_readable);
            let name = name(&names, "{n}", "{t}", b"{k}");
            assert!(name.starts_with("%7bmy%7d:app:%7bn%7d:%7bt%7d:{"), "{name}");
            assert_eq!((name.matches('{').count(), name.matches('}').count()), (1, 1), "{name}");
            assert!(name.ends_with('}') && !name.ends_with("{}"));
        }
    }
}
