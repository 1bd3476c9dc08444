//! Which account a key has, by 128 bits of a hash keyed with a secret of the store's own.
//!
//! Keys themselves are not kept: they may be long, and secret. Two keys share an account if all 128 bits agree, by
//! chance for some pair among n keys with a probability of n² / 2^129: 2^-89 for a million. A client cannot look for
//! such pairs, as it neither knows the secret nor sees the hash.

use std::hash::{BuildHasher, Hasher, RandomState};

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;

/// Never all zeros: that marks a free slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint {
    /// Chooses the shard.
    pub(super) low: u64,
    /// Chooses the slot.
    pub(super) high: u64,
}

impl Fingerprint {
    pub(super) const NONE: Self = Self { low: 0, high: 0 };
}

/// Two independent hash functions.
pub(super) struct Secret {
    low: (u64, SharedSeed),
    high: (u64, SharedSeed),
}

impl Secret {
    pub(super) fn random() -> Self {
        // The standard library's keys are random for each process, and each of its states has others.
        let random = || RandomState::new().hash_one(0_u8);
        Self {
            low: (random(), SharedSeed::from_u64(random())),
            high: (random(), SharedSeed::from_u64(random())),
        }
    }

    pub(super) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        let hash = |(seed, shared): &(u64, SharedSeed)| {
            let mut hasher = FoldHasher::with_seed(*seed, shared);
            hasher.write(key);
            hasher.finish()
        };
        Fingerprint {
            low: hash(&self.low),
            high: hash(&self.high).max(1),
        }
    }
}
