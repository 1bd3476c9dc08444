//! A token bucket that is refilled in steps: the same, and the phase of its steps, so that it can be judged without
//! its key.

use crate::store::{Answer, Decision};

use super::account::{Account, Terms};
use super::token_bucket::TokenBucket;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SteppedBucket {
    bucket: TokenBucket,
    phase: u64,
}

impl Account for SteppedBucket {
    #[inline]
    fn at(&self) -> u64 {
        self.bucket.at()
    }

    #[inline]
    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool {
        self.bucket.heal(terms, real)
    }

    #[inline]
    fn answer(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        self.bucket.answer(terms, real, cost)
    }

    #[inline]
    fn look(&self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        self.bucket.look(terms, real, cost, decision);
    }

    #[inline]
    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        self.phase = terms.phase();
        self.bucket.charge(terms, real, cost, decision);
    }

    #[inline]
    fn mark(&self, cost: u64) -> u64 {
        self.bucket.mark(cost)
    }

    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool {
        self.bucket.give_back(terms, real, cost, mark)
    }

    fn told(terms: &Terms<'_>, real: u64, remaining: u64, reset_after: u64) -> Self {
        Self {
            bucket: TokenBucket::told(terms, real, remaining, reset_after),
            phase: terms.phase(),
        }
    }

    #[inline]
    fn reset_at(&self, terms: &Terms<'_>) -> u64 {
        self.bucket.reset_at(terms)
    }

    #[inline]
    fn phase(&self) -> u64 {
        self.phase
    }
}
