//! The accounts of one quota of one tier.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::quota::{Algorithm, Quota};
use crate::store::{Charge, TierId};

use super::Usage;
use super::fingerprint::Fingerprint;
use super::shard::Shard;

/// Shards of accounts, and how many there are.
pub(super) struct Table {
    tier: TierId,
    nth: u8,
    kind: Kind,
    shards: Box<[Locker]>,
    max_keys: usize,
    max_entries_of_shard: usize,
    held: AtomicUsize,
    forgotten: AtomicU64,
}

/// What makes the accounts of two quotas different: the algorithm and, for windows, period and precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
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
    pub(super) fn new(charge: &Charge<'_>, bounds: &Bounds) -> Self {
        // Many shards, so that threads seldom meet in one; but each with enough keys that a full table always finds
        // one to forget in the newcomer's own shard, and a small one is forgetful evenly.
        const KEYS_OF_SHARD: usize = 256;
        const FULL_ACCOUNTS_OF_SHARD: usize = 4;
        const MOST_SHARDS: usize = 1_024;

        let by_keys = bounds.keys / KEYS_OF_SHARD;
        let by_entries = bounds.entries / (FULL_ACCOUNTS_OF_SHARD * most_entries(charge.quota));
        let shards = by_keys.min(by_entries).clamp(1, MOST_SHARDS);
        let kind = Kind::of(charge.quota);
        Self {
            tier: charge.tier.clone(),
            nth: charge.nth,
            kind,
            shards: (0..shards).map(|_| Locker(Mutex::new(Shard::new(kind)))).collect(),
            max_keys: bounds.keys,
            max_entries_of_shard: bounds.entries / shards,
            held: AtomicUsize::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Whether the account of `charge` belongs here: its identity, less the key.
    pub(super) fn serves(&self, charge: &Charge<'_>) -> bool {
        self.nth == charge.nth && self.kind == Kind::of(charge.quota) && self.tier == *charge.tier
    }

    pub(super) fn shard(&self, fingerprint: Fingerprint) -> &Locker {
        let shards = self.shards.len() as u128;
        &self.shards[((u128::from(fingerprint.low) * shards) >> 64) as usize]
    }

    pub(super) const fn max_entries_of_shard(&self) -> usize {
        self.max_entries_of_shard
    }

    /// Counts one more key, if there is room for it.
    pub(super) fn admit(&self) -> bool {
        if self.held.fetch_add(1, Ordering::Relaxed) < self.max_keys {
            return true;
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        false
    }

    /// Counts one more key, room or not.
    pub(super) fn admit_anyway(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts keys that are gone because they could not be told from new ones …
    pub(super) fn dismiss(&self, keys: usize) {
        self.held.fetch_sub(keys, Ordering::Relaxed);
    }

    /// … and one that is gone for want of room.
    pub(super) fn forget(&self, still_counted: bool) {
        self.dismiss(1);
        if still_counted {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            namespace: self.tier.namespace().to_owned(),
            tier: self.tier.name().to_owned(),
            nth: self.nth,
            keys: self.held(),
            log_entries: self
                .shards
                .iter()
                .map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).entries())
                .sum(),
            forgotten: self.forgotten.load(Ordering::Relaxed),
        }
    }
}

impl std::ops::Deref for Locker {
    type Target = Mutex<Shard>;

    fn deref(&self) -> &Mutex<Shard> {
        &self.0
    }
}

impl Kind {
    const fn of(quota: &Quota) -> Self {
        let period = quota.period_micros();
        match quota.algorithm() {
            Algorithm::TokenBucket | Algorithm::SteppedBucket { .. } => Self::TokenBucket,
            Algorithm::FixedWindow { aligned } => Self::FixedWindow { period, aligned },
            Algorithm::SlidingWindow { buckets } => Self::SlidingWindow { period, buckets },
            Algorithm::WeightedWindow => Self::WeightedWindow { period },
            Algorithm::SlidingLog { .. } => Self::SlidingLog { period },
        }
    }
}

/// How many entries a full account of `quota` holds.
fn most_entries(quota: &Quota) -> usize {
    match quota.algorithm() {
        Algorithm::SlidingWindow { buckets } => buckets as usize + 1,
        Algorithm::SlidingLog { .. } => usize::try_from(quota.limit()).unwrap_or(usize::MAX / 8),
        _ => 1,
    }
}
