//! The accounts of one decision, locked in an order that all decisions agree on.

use std::sync::{MutexGuard, PoisonError};

use crate::algorithm::Terms;

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
    /// In which slot of its shard the account was found.
    pub(super) slot: Option<usize>,
}

/// The shards of the accounts of one decision, locked until this is dropped.
pub(super) trait Locked {
    /// The shard of a question.
    fn shard(&mut self, nth: usize) -> &mut Shard;
}

/// Whether the shards may be locked as they come. Tables are numbered as they are opened, so the tiers of a layer
/// nearly always are.
#[inline]
pub(super) fn are_in_order(questions: &[Question<'_>]) -> bool {
    questions.is_sorted_by(|one, next| one.rank < next.rank)
}

#[inline]
pub(super) fn lock<'a>(question: &Question<'a>) -> MutexGuard<'a, Shard> {
    question.shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<const N: usize> Locked for [MutexGuard<'_, Shard>; N] {
    #[inline]
    fn shard(&mut self, nth: usize) -> &mut Shard {
        &mut self[nth]
    }
}

/// Of any number, in any order.
pub(super) struct Sorted<'a> {
    guards: Vec<MutexGuard<'a, Shard>>,
    /// For each question, which of the guards is its shard's.
    guard_of: Vec<usize>,
}

impl<'a> Sorted<'a> {
    pub(super) fn new(questions: &[Question<'a>]) -> Self {
        let mut order: Vec<usize> = (0..questions.len()).collect();
        order.sort_unstable_by_key(|nth| questions[*nth].rank);
        let mut guard_of = vec![0; questions.len()];
        let mut guards = Vec::with_capacity(questions.len());
        let mut last = None;
        for nth in order {
            let question = &questions[nth];
            // Two keys of one tier may share a shard; its lock is taken once.
            if last != Some(question.rank) {
                last = Some(question.rank);
                guards.push(lock(question));
            }
            guard_of[nth] = guards.len() - 1;
        }
        Self { guards, guard_of }
    }
}

impl Locked for Sorted<'_> {
    fn shard(&mut self, nth: usize) -> &mut Shard {
        &mut self.guards[self.guard_of[nth]]
    }
}
