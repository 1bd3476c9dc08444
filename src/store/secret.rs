//! A hash of 128 bits, keyed with a secret of the store's own.

use std::hash::{BuildHasher as _, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::random;

/// XXH3 with a secret: fast rather than cryptographic. What keeps clients from looking for keys that meet is that they
/// neither know the secret nor see a hash.
///
/// On long keys XXH3 sums up, and there two keys can be made that meet under one secret in 2^32; so these are hashed
/// with SipHash too.
pub(super) struct Secret {
    words: [u8; 192],
    for_long: RandomState,
}

/// What XXH3 takes for short.
const SHORT: usize = 240;

impl Secret {
    pub(super) fn random() -> Self {
        let mut words = [0; 192];
        for word in words.chunks_exact_mut(8) {
            word.copy_from_slice(&random::seed().to_ne_bytes());
        }
        Self {
            words,
            for_long: RandomState::new(),
        }
    }

    /// The low and the high half of the hash of `bytes`.
    #[inline(always)]
    pub(super) fn hash(&self, bytes: &[u8]) -> (u64, u64) {
        let hash = xxh3_128_with_secret(bytes, &self.words);
        let (low, high) = (hash as u64, (hash >> 64) as u64);
        if bytes.len() <= SHORT {
            (low, high)
        } else {
            (low, self.for_long.hash_one(bytes))
        }
    }
}
