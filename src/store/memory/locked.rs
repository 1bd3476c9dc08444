//! The accounts of one decision, locked in an order that all decisions agree on.

use std::sync::{MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::algorithm::Terms;
use crate::clock::Timestamp;
use crate::store::INLINE;

use super::fingerprint::Fingerprint;
use super::shard::Shard;
use super::table::{Locker, Table};

/// What is asked of one account.
pub(super) struct Question<'a> {
    pub(super) table: &'a Table,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms<'a>,
    /// What the clock shows, in microseconds.
    pub(super) real: u64,
    pub(super) cost: u64,
}

/// Where an account is, or would be.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) table: &'a Table,
    pub(super) shard: &'a Locker,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms<'a>,
}

impl Place<'_> {
    /// By which the locks are ordered: any order will do that all decisions agree on.
    fn rank(&self) -> usize {
        std::ptr::from_ref(self.shard).addr()
    }
}

/// The accounts of one decision, with their shards locked until this is dropped.
pub(super) struct Locked<'a> {
    places: SmallVec<[Place<'a>; INLINE]>,
    /// For each place, which of the guards is its shard's.
    guard_of: SmallVec<[usize; INLINE]>,
    guards: SmallVec<[MutexGuard<'a, Shard>; INLINE]>,
}

impl<'a> Locked<'a> {
    pub(super) fn new(places: SmallVec<[Place<'a>; INLINE]>) -> Self {
        let mut order: SmallVec<[usize; INLINE]> = (0..places.len()).collect();
        order.sort_unstable_by_key(|nth| places[*nth].rank());

        let mut guard_of: SmallVec<[usize; INLINE]> = SmallVec::from_elem(0, places.len());
        let mut guards: SmallVec<[MutexGuard<'a, Shard>; INLINE]> = SmallVec::new();
        let mut last = None;
        for nth in order {
            let place = places[nth];
            // Two keys of one tier may share a shard; its lock is taken once.
            if last != Some(place.rank()) {
                last = Some(place.rank());
                guards.push(place.shard.lock().unwrap_or_else(PoisonError::into_inner));
            }
            guard_of[nth] = guards.len() - 1;
        }
        Self {
            places,
            guard_of,
            guards,
        }
    }

    pub(super) fn account(&mut self, nth: usize, now: Timestamp, cost: u64) -> (&mut Shard, Question<'a>) {
        let place = self.places[nth];
        let question = Question {
            table: place.table,
            fingerprint: place.fingerprint,
            terms: place.terms,
            real: now.as_micros(),
            cost,
        };
        (&mut self.guards[self.guard_of[nth]], question)
    }
}
