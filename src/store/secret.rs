//! A hash of 128 bits, keyed with a secret of the store's own.

use std::hash::{BuildHasher as _, RandomState};

use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::random;

/// XXH3 with a secret: fast rather than cryptographic. What keeps clients from looking for keys that meet is that they
/// neither know the secret nor see a hash.
///
/// On long keys XXH3 sums up, and there two keys can be made that meet under one secret in 2^32; so these are hashed
/// with SipHash instead, twice.
pub(super) struct Secret {
    words: [u8; 192],
    for_long: [RandomState; 2],
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
            for_long: [RandomState::new(), RandomState::new()],
        }
    }

    /// The low and the high half of the hash of `bytes`.
    #[inline(always)]
    pub(super) fn hash(&self, bytes: &[u8]) -> (u64, u64) {
        if bytes.len() > SHORT {
            return self.hash_long(bytes);
        }
        let hash = xxh3_128_with_secret(bytes, &self.words);
        (hash as u64, (hash >> 64) as u64)
    }

    #[cold]
    fn hash_long(&self, bytes: &[u8]) -> (u64, u64) {
        (self.for_long[0].hash_one(bytes), self.for_long[1].hash_one(bytes))
    }
}
