//! What every algorithm answers for one account.

use crate::quota::{Algorithm, Quota};
use crate::store::{Answer, Decision};

use super::grid::Grid;

/// What is held for one key under one quota; `Default` is a new account.
///
/// All times are microseconds since the epoch. `real` is what the clock shows; an account's own clock never runs
/// back (see [`heal`](Self::heal)).
///
/// The way of one decision: `answer`; then, when all accounts of the request have answered, `charge`, or `look` if one of
/// them does not admit.
pub(crate) trait Account: Default + Send {
    /// The last write.
    fn at(&self) -> u64;

    /// Follows a clock that stepped back by more than a second, by moving the account along; what it has left stays
    /// the same. Whether it had to. Small steps are sat out instead: the time of the last write is taken for `now`.
    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool;

    /// [`Answer::Admits`], [`Answer::Refuses`] or [`Answer::NeverFits`]; a cost of 0 is always admitted.
    fn answer(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Answer;

    /// The decision where nothing is charged. It is made in its place: moved there, it would be read before the processor
    /// has written it.
    fn look(&self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision);

    /// Charges `cost`, which `answer` has just admitted.
    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision);

    /// What `give_back` needs to know of a charge of `cost` just made.
    fn mark(&self, cost: u64) -> u64;

    /// Gives back `cost` of a charge that left `mark`: as much of it as certainly still weighs on the account, never
    /// more. The account has not been healed nor forgotten since. Whether the marks of other charges say nothing certain
    /// from now on.
    #[must_use]
    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool;

    /// An account of which another store tells what remains and when it resets, to the strict side where that does not
    /// say all.
    fn told(terms: &Terms<'_>, real: u64, remaining: u64, reset_after: u64) -> Self;

    /// From when on the account cannot be told from a new one.
    fn reset_at(&self, terms: &Terms<'_>) -> u64;

    /// How it stands, for those who keep no list of decisions.
    fn standing(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let mut decision = Decision::FAILED;
        self.look(terms, real, cost, &mut decision);
        decision
    }

    /// The phase of its refills, kept by accounts that are refilled in steps.
    #[inline]
    fn phase(&self) -> u64 {
        0
    }

    /// How many log entries it holds, for those that hold any.
    #[inline]
    fn entries(&self) -> usize {
        0
    }

    /// How long to wait for what `reset_at` tells.
    #[inline]
    fn reset_after(&self, terms: &Terms<'_>, real: u64) -> u64 {
        self.reset_at(terms).saturating_sub(real)
    }
}

/// A quota, as it applies to one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    pub(crate) quota: &'a Quota,
    /// How long after the multiples of the step its bucket is refilled; 0 for all that is not refilled in steps.
    phase: u64,
}

impl<'a> Terms<'a> {
    #[inline]
    pub(crate) fn new(quota: &'a Quota, key: &[u8]) -> Self {
        let phase = match quota.algorithm() {
            Algorithm::SteppedBucket { step, aligned: false } => {
                let tick = quota.rate().tick;
                phase(key, step / tick) * tick
            }
            _ => 0,
        };
        Self { quota, phase }
    }

    /// The same quota, for the key that `account` belongs to.
    #[inline]
    pub(crate) fn of<A: Account>(&self, account: &A) -> Self {
        Self {
            phase: account.phase(),
            ..*self
        }
    }

    pub(crate) const fn phase(&self) -> u64 {
        self.phase
    }

    /// The instants at which a bucket under these terms is refilled.
    #[inline]
    pub(super) const fn refills(&self) -> Grid {
        match self.quota.algorithm() {
            Algorithm::SteppedBucket { step, .. } => Grid::shifted(step, self.phase),
            _ => Grid::new(self.quota.rate().tick),
        }
    }
}

/// What is used, where so much remains.
pub(super) fn used(terms: &Terms<'_>, remaining: u64) -> u64 {
    terms.quota.limit().saturating_sub(remaining)
}

/// Whether a clock that shows `real` has stepped back, for an account last written at `at`.
#[inline]
pub(crate) const fn stepped_back(at: u64, real: u64) -> bool {
    const SAT_OUT: u64 = 1_000_000;
    at.saturating_sub(real) > SAT_OUT
}

/// A number below `modulus` of the key's own, the same in every process and store (so not keyed): FNV-1a, its upper
/// half folded in.
fn phase(key: &[u8], modulus: u64) -> u64 {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) % modulus.max(1)
}

/// The answer of an algorithm that counts: does `cost` fit beside `count` under `limit`?
#[inline]
pub(super) fn counted(count: u64, cost: u64, limit: u64) -> Answer {
    if cost == 0 {
        Answer::Admits
    } else if cost > limit {
        Answer::NeverFits
    } else if cost > limit.saturating_sub(count) {
        Answer::Refuses
    } else {
        Answer::Admits
    }
}
