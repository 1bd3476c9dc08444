//! The accounts of one decision, locked in an order that all decisions agree on.

use std::sync::{MutexGuard, PoisonError};

use smallvec::SmallVec;

use crate::algorithm::Terms;
use crate::store::INLINE;

use super::fingerprint::Fingerprint;
use super::shard::Shard;
use super::table::{Locker, Table};

/// What is asked of one account, and where that is or would be.
pub(super) struct Question<'a> {
    pub(super) table: &'a Table,
    pub(super) shard: &'a Locker,
    /// By which the locks are ordered: any order will do that all decisions agree on.
    pub(super) rank: u64,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms<'a>,
    pub(super) cost: u64,
}

pub(super) type Questions<'a> = SmallVec<[Question<'a>; INLINE]>;

/// The shards of the accounts of one decision, locked until this is dropped.
pub(super) struct Locked<'a> {
    guards: SmallVec<[MutexGuard<'a, Shard>; INLINE]>,
    /// For each question, which of the guards is its shard's; empty if they are in the same order.
    guard_of: SmallVec<[usize; INLINE]>,
}

impl<'a> Locked<'a> {
    pub(super) fn new(questions: &[Question<'a>]) -> Self {
        let mut guards = SmallVec::new();
        // Tables are numbered as they are opened, so the tiers of a layer nearly always come in order.
        if questions.is_sorted_by(|one, next| one.rank < next.rank) {
            for question in questions {
                guards.push(lock(question.shard));
            }
            return Self {
                guards,
                guard_of: SmallVec::new(),
            };
        }

        let mut order: SmallVec<[usize; INLINE]> = (0..questions.len()).collect();
        order.sort_unstable_by_key(|nth| questions[*nth].rank);
        let mut guard_of = SmallVec::from_elem(0, questions.len());
        let mut last = None;
        for nth in order {
            let question = &questions[nth];
            // Two keys of one tier may share a shard; its lock is taken once.
            if last != Some(question.rank) {
                last = Some(question.rank);
                guards.push(lock(question.shard));
            }
            guard_of[nth] = guards.len() - 1;
        }
        Self { guards, guard_of }
    }

    /// The shard of a question.
    #[inline]
    pub(super) fn shard(&mut self, nth: usize) -> &mut Shard {
        let guard = self.guard_of.get(nth).copied().unwrap_or(nth);
        &mut self.guards[guard]
    }
}

#[inline]
fn lock(shard: &Locker) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
