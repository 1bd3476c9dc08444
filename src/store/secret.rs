//! A hash of 128 bits, keyed with a secret of the store's own.

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use std::hash::Hasher as _;

use crate::random;

/// Two independent hash functions, fast rather than cryptographic: what keeps clients from looking for keys that meet is
/// that they neither know the secret nor see a hash.
pub(super) struct Secret {
    low: (u64, SharedSeed),
    high: (u64, SharedSeed),
}

impl Secret {
    pub(super) fn random() -> Self {
        Self {
            low: (random::seed(), SharedSeed::from_u64(random::seed())),
            high: (random::seed(), SharedSeed::from_u64(random::seed())),
        }
    }

    /// The low and the high half of the hash of what `write` writes.
    pub(super) fn hash(&self, write: impl Fn(&mut FoldHasher<'_>)) -> (u64, u64) {
        let hash = |(seed, shared): &(u64, SharedSeed)| {
            let mut hasher = FoldHasher::with_seed(*seed, shared);
            write(&mut hasher);
            hasher.finish()
        };
        (hash(&self.low), hash(&self.high))
    }
}
