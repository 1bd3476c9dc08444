//! The accounts of one quota of one tier.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::quota::{Algorithm, Quota};
use crate::random;
use crate::store::{Charge, TierId};

use super::Usage;
use super::fingerprint::Fingerprint;
use super::question::Question;
use super::shard::Shard;

/// Shards of accounts, and how many there are.
pub(super) struct Table {
    tier: TierId,
    nth: u8,
    kind: Kind,
    /// In the order in which the tables of the store were opened.
    number: u32,
    shards: Box<[Locker]>,
    bounds: Bounds,
    counts: Counts,
}

/// Apart from what every decision reads, so that a core that counts does not disturb those that read.
#[repr(align(64))]
#[derive(Default)]
struct Counts {
    held: AtomicUsize,
    /// Log entries of all accounts.
    entries: AtomicUsize,
    forgotten: AtomicU64,
}

/// What makes the accounts of two quotas different: the algorithm and, for windows, period and precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
    SteppedBucket,
    FixedWindow { period: u64, aligned: bool },
    SlidingWindow { period: u64, buckets: u32 },
    WeightedWindow { period: u64 },
    SlidingLog { period: u64 },
}

/// How much a table may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) keys: usize,
    pub(super) entries: usize,
}

/// On a cache line of its own, so that two cores can lock neighbours without disturbing each other.
#[repr(align(64))]
pub(super) struct Locker(Mutex<Shard>);

impl Default for Bounds {
    fn default() -> Self {
        Self {
            keys: 100_000,
            entries: 1_000_000,
        }
    }
}

impl Table {
    /// The table that serves `charge`, and all charges to accounts of the same kind.
    pub(super) fn new(number: u32, charge: &Charge<'_>, bounds: &Bounds) -> Self {
        let shards = shards(bounds.keys);
        let kind = Kind::of(charge.quota);
        Self {
            tier: charge.tier.clone(),
            nth: charge.nth,
            kind,
            number,
            shards: (0..shards).map(|_| Locker(Mutex::new(Shard::new(kind)))).collect(),
            bounds: *bounds,
            counts: Counts::default(),
        }
    }

    /// Whether the account of `charge` belongs here: its identity, less the key.
    #[inline(always)]
    pub(super) fn serves(&self, charge: &Charge<'_>) -> bool {
        self.nth == charge.nth && self.tier == *charge.tier && self.kind.is_of(charge.quota)
    }

    /// The shard for a key, and its rank among those of all tables.
    #[inline]
    pub(super) fn shard(&self, fingerprint: Fingerprint) -> (&Locker, u64) {
        let place = self.place(fingerprint.low());
        (&self.shards[place], (u64::from(self.number) + 1) << 32 | place as u64)
    }

    /// Spreads all numbers evenly over the shards.
    #[inline]
    fn place(&self, number: u64) -> usize {
        random::below(self.shards.len() as u64, number) as usize
    }

    /// Counts one more key, if there is room for it.
    pub(super) fn admit(&self) -> bool {
        if self.counts.held.fetch_add(1, Ordering::Relaxed) < self.bounds.keys {
            return true;
        }
        self.counts.held.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Counts one more key, room or not.
    pub(super) fn admit_anyway(&self) {
        self.counts.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts keys that are gone.
    pub(super) fn dismiss(&self, keys: usize) {
        self.counts.held.fetch_sub(keys, Ordering::Relaxed);
    }

    /// Counts an account that is gone for want of room though it still counted.
    pub(super) fn count_forgotten(&self) {
        self.counts.forgotten.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what an account has more, or less.
    pub(super) fn count_entries(&self, before: usize, now: usize) {
        if now > before {
            self.counts.entries.fetch_add(now - before, Ordering::Relaxed);
        } else if now < before {
            self.counts.entries.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    pub(super) fn has_too_many_entries(&self) -> bool {
        self.counts.entries.load(Ordering::Relaxed) > self.bounds.entries
    }

    /// Forgets an account in some other shard that nobody is using; whether one was found. It waits for no lock, as
    /// the caller holds some.
    pub(super) fn forget_elsewhere(&self, question: &Question<'_>, real: u64, lot: u64) -> bool {
        const TRIES: u64 = 32;
        (0..TRIES).any(|nth| {
            let shard = self.place(random::scrambled(lot.wrapping_add(nth.wrapping_mul(random::STEP))));
            let shard = &self.shards[shard];
            shard.try_lock().is_ok_and(|mut shard| shard.forget_one(question, real))
        })
    }

    pub(super) fn held(&self) -> usize {
        self.counts.held.load(Ordering::Relaxed)
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            namespace: self.tier.namespace().to_owned(),
            tier: self.tier.name().to_owned(),
            nth: self.nth,
            keys: self.held(),
            log_entries: self.counts.entries.load(Ordering::Relaxed),
            forgotten: self.counts.forgotten.load(Ordering::Relaxed),
        }
    }
}

/// Many, so that threads seldom meet in one, and so that it is quick to let one grow; but not so many that their locks alone
/// fill the cache. And each with enough keys that a full table always finds one to forget in the newcomer's own shard,
/// and a small one is forgetful evenly.
///
/// However many keys there may be: some write `usize::MAX` for "as many as there are".
fn shards(keys: usize) -> usize {
    const MOST_SHARDS: usize = 1 << 17;

    (keys / 256).clamp(1, 1_024).max(keys / 1_024).min(MOST_SHARDS)
}

impl std::ops::Deref for Locker {
    type Target = Mutex<Shard>;

    fn deref(&self) -> &Mutex<Shard> {
        &self.0
    }
}

impl Kind {
    #[inline(always)]
    fn is_of(self, quota: &Quota) -> bool {
        match (self, quota.algorithm()) {
            (Self::TokenBucket, Algorithm::TokenBucket) => true,
            _ => self == Self::of(quota),
        }
    }

    const fn of(quota: &Quota) -> Self {
        let period = quota.period_micros();
        match quota.algorithm() {
            Algorithm::TokenBucket => Self::TokenBucket,
            Algorithm::SteppedBucket { .. } => Self::SteppedBucket,
            Algorithm::FixedWindow { aligned } => Self::FixedWindow { period, aligned },
            Algorithm::SlidingWindow { buckets } => Self::SlidingWindow { period, buckets },
            Algorithm::WeightedWindow => Self::WeightedWindow { period },
            Algorithm::SlidingLog { .. } => Self::SlidingLog { period },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_and_what_it_guards_fill_one_line_of_the_cache() {
        assert_eq!(size_of::<Locker>(), 64);
    }

    #[test]
    fn shards_are_neither_small_nor_large() {
        for keys in [512, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000] {
            let of_shard = keys / shards(keys);
            assert!((256..2_048).contains(&of_shard), "{of_shard} of {keys}");
        }
        assert_eq!(shards(1), 1);
        assert_eq!(shards(usize::MAX), 1 << 17);
    }
}
