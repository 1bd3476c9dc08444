//! Which account a key has, by 127 bits of a hash keyed with a secret of the store's own.
//!
//! Keys themselves are not kept: they may be long, and secret. Two keys share an account if all bits agree, by chance
//! for some pair among n keys with a probability of n² / 2^128, as of a random function: 2^-88 for a million. The hash is fast rather than
//! cryptographic; what keeps clients from looking for such pairs is that they neither know the secret nor see a hash.

use crate::store::secret::Secret;

/// The hash of a key; the lowest bit is left for a mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint {
    /// Chooses the shard.
    low: u64,
    /// Chooses the slot; 0 only in a free one.
    high: u64,
}

const REFUSED: u64 = 1;

impl Fingerprint {
    #[inline]
    pub(super) fn of(key: &[u8], secret: &Secret) -> Self {
        let (low, high) = secret.hash(key);
        Self {
            low: low & !REFUSED,
            high: high.max(1),
        }
    }

    /// Of a free slot.
    pub(super) const NONE: Self = Self { low: 0, high: 0 };

    #[inline]
    pub(super) const fn is_none(&self) -> bool {
        self.high == 0
    }

    /// Whether it is the same, whatever is marked.
    #[inline]
    pub(super) const fn is_of(&self, other: Self) -> bool {
        self.high == other.high && (self.low ^ other.low) & !REFUSED == 0
    }

    #[inline]
    pub(super) const fn low(&self) -> u64 {
        self.low & !REFUSED
    }

    #[inline]
    pub(super) const fn high(&self) -> u64 {
        self.high
    }

    #[inline]
    pub(super) const fn is_refused(&self) -> bool {
        self.low & REFUSED != 0
    }

    #[inline]
    pub(super) const fn set_refused(&mut self, refused: bool) {
        self.low = self.low() | if refused { REFUSED } else { 0 };
    }
}
