//! Which account is forgotten when there is no room: the one with the least to lose among a few.

use crate::algorithm::Account;
use crate::store::Answer;

use super::question::Question;
use super::slots::{Slot, Slots};

/// Of how many slots the account with the least to lose is forgotten, though some of them are free …
const SAMPLE: usize = 8;
/// … and how often so many are drawn at most, if all of the accounts in them are used up.
const DRAWS: usize = 8;

impl<A: Account> Slots<A> {
    /// Forgets the account with the least to lose among a few, but not the one in question; whether there was one.
    pub(super) fn forget_one(&mut self, question: &Question<'_>, real: u64) -> bool {
        let forgotten = self.forget_in_exchange(question, real);
        if forgotten {
            question.table.dismiss(1);
        }
        forgotten
    }

    /// The same, but the number of keys held stays: another takes its place.
    pub(super) fn forget_in_exchange(&mut self, question: &Question<'_>, real: u64) -> bool {
        match self.least_to_lose(question, real) {
            Some((loss, index)) => {
                self.remove(index, question.table);
                if loss.reset_after > 0 {
                    question.table.count_forgotten();
                    self.void_receipts();
                } else {
                    self.dropped_at = self.dropped_at.max(real);
                }
                true
            }
            None => false,
        }
    }

    /// Drawn one by one from the whole shard. Neighbours would not do: where one is taken a gap is left, and those
    /// around gaps would be taken again and again, whatever they have to lose.
    fn least_to_lose(&mut self, question: &Question<'_>, real: u64) -> Option<(Loss, usize)> {
        self.lots ^= question.fingerprint.low();
        let mut least: Option<(Loss, usize)> = None;
        for _ in 0..DRAWS {
            let harmless = least.is_some_and(|(least, _)| least.standing == Standing::HasSomethingLeft);
            if self.slots.is_empty() || harmless {
                break;
            }
            let sample: [usize; SAMPLE] = std::array::from_fn(|_| {
                let lot = self.draw();
                self.place(lot)
            });
            // All are looked at before the first is judged: none of them is in the cache, and so they come together.
            let can_go = sample.map(|index| self.can_go(index, question));
            for (index, _) in sample.into_iter().zip(can_go).filter(|(_, can_go)| *can_go) {
                let loss = self.slots[index].loss(question, real);
                if least.is_none_or(|(least, _)| loss < least) {
                    least = Some((loss, index));
                }
            }
        }
        // In a shard that is nearly empty, any.
        least.or_else(|| {
            let index = (0..self.slots.len()).find(|index| self.can_go(*index, question))?;
            Some((self.slots[index].loss(question, real), index))
        })
    }

    fn can_go(&self, index: usize, question: &Question<'_>) -> bool {
        let fingerprint = &self.slots[index].fingerprint;
        !fingerprint.is_none() && !fingerprint.is_of(question.fingerprint)
    }
}

/// From what is forgotten first to what is forgotten last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    HasSomethingLeft,
    /// A flood of keys that each spend all they may looks like this …
    UsedUp,
    /// … and somebody who comes back although they were refused like this.
    Refused,
}

/// What forgetting an account would let through, ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Loss {
    /// One that is being refused goes last, unless its time has come.
    standing: Standing,
    reset_after: u64,
    /// Windows may all reset at one time; then the one that has used least goes first.
    used: u64,
}

impl<A: Account> Slot<A> {
    /// By the quota at hand. The one this account is charged by may be of another plan, under which it refuses sooner:
    /// so what it has refused counts too.
    fn loss(&self, question: &Question<'_>, real: u64) -> Loss {
        let terms = question.terms.of(&self.account);
        let decision = self.account.standing(&terms, real, 1);
        let reset_after = self.account.reset_at(&terms).saturating_sub(real);
        let standing = match decision.answer() {
            _ if reset_after == 0 => Standing::HasSomethingLeft,
            _ if self.fingerprint.is_refused() => Standing::Refused,
            Answer::Refuses => Standing::UsedUp,
            _ => Standing::HasSomethingLeft,
        };
        Loss {
            standing,
            reset_after,
            used: terms.quota.burst_size().saturating_sub(decision.remaining()),
        }
    }
}
