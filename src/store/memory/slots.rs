//! Accounts by fingerprint: open addressing with linear probing, grown by a quarter at a time.
//!
//! Not a general map, because one look-up should be one miss of the cache, and because forgetting needs a random
//! sample of neighbours at no cost.

use crate::algorithm::{Account, Terms};
use crate::store::{Answer, Decision};

use super::fingerprint::Fingerprint;
use super::table::Table;

pub(super) struct Slots<A> {
    slots: Vec<Slot<A>>,
    held: usize,
    /// Log entries of all accounts.
    entries: usize,
}

struct Slot<A> {
    /// [`Fingerprint::NONE`] if the slot is free.
    fingerprint: Fingerprint,
    account: A,
}

/// Of how many accounts the one with the least to lose is forgotten.
const SAMPLE: usize = 8;
/// How many slots are looked at for them, if they are thinly spread …
const SAMPLED_SLOTS: usize = 64;
/// … unless that were fewer than this: of one or two, the one may be the only one worth keeping.
const SMALLEST_SAMPLE: usize = 4;

impl<A: Account> Slots<A> {
    pub(super) fn answer(&mut self, fingerprint: Fingerprint, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        match self.find(fingerprint) {
            Some(index) => {
                let account = &mut self.slots[index].account;
                account.heal(terms, real);
                A::answer(&account.read(terms, real), terms, cost)
            }
            None => A::answer(&A::default().read(terms, real), terms, cost),
        }
    }

    pub(super) fn look(&self, fingerprint: Fingerprint, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let look = |account: &A| account.look(&account.read(terms, real), terms, real, cost);
        match self.find(fingerprint) {
            Some(index) => look(&self.slots[index].account),
            None => look(&A::default()),
        }
    }

    pub(super) fn charge(
        &mut self,
        fingerprint: Fingerprint,
        terms: &Terms<'_>,
        real: u64,
        cost: u64,
        table: &Table,
    ) -> (Decision, u64) {
        let index = match self.find(fingerprint) {
            Some(index) => index,
            None => self.open(fingerprint, terms, real, table),
        };
        let account = &mut self.slots[index].account;
        let reading = account.read(terms, real);
        let entries_before = account.entries();
        let decision = account.charge(&reading, terms, real, cost);
        let mark = account.mark();

        self.entries = self.entries + account.entries() - entries_before;
        if self.entries > table.max_entries_of_shard() {
            // A charge adds one entry and any other account gives up one or more, so one is enough.
            self.forget_one(fingerprint, terms, real, table);
        }
        (decision, mark)
    }

    pub(super) fn give_back(
        &mut self,
        fingerprint: Fingerprint,
        terms: &Terms<'_>,
        real: u64,
        cost: u64,
        at: u64,
        mark: u64,
    ) {
        if let Some(index) = self.find(fingerprint) {
            let account = &mut self.slots[index].account;
            let entries_before = account.entries();
            account.heal(terms, real);
            account.give_back(terms, real, cost, at, mark);
            self.entries = self.entries + account.entries() - entries_before;
        }
    }

    fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut index = self.home(fingerprint);
        loop {
            let slot = &self.slots[index];
            if slot.fingerprint == fingerprint {
                return Some(index);
            }
            if slot.is_free() {
                return None;
            }
            index = self.after(index);
        }
    }

    /// A slot for a new account, which the caller charges.
    fn open(&mut self, fingerprint: Fingerprint, terms: &Terms<'_>, real: u64, table: &Table) -> usize {
        if !table.admit() {
            self.forget_one(fingerprint, terms, real, table);
            table.admit_anyway();
        }
        // Four fifths full at most, so that probes stay short.
        if (self.held + 1) * 5 > self.slots.len() * 4 {
            self.rebuild(terms, real, table);
        }
        self.put(Slot {
            fingerprint,
            account: A::default(),
        })
    }

    /// Into the first free slot from its home on; there is one.
    fn put(&mut self, slot: Slot<A>) -> usize {
        let mut index = self.home(slot.fingerprint);
        while !self.slots[index].is_free() {
            index = self.after(index);
        }
        self.slots[index] = slot;
        self.held += 1;
        index
    }

    /// Leaves out the accounts that are as good as new, and makes room for the rest to grow by a quarter.
    fn rebuild(&mut self, terms: &Terms<'_>, real: u64, table: &Table) {
        let held_before = self.held;
        let mut kept = std::mem::take(&mut self.slots);
        kept.retain(|slot| !slot.is_free() && slot.account.reset_at_latest(terms.quota) > real);

        let slots = (kept.len() + kept.len() / 4 + 4) * 5 / 4;
        self.slots.reserve_exact(slots);
        self.slots.resize_with(slots, Slot::free);
        self.held = 0;
        self.entries = 0;
        for slot in kept {
            self.entries += slot.account.entries();
            self.put(slot);
        }
        table.dismiss(held_before - self.held);
    }

    /// Forgets the account with the least to lose among a few, for the sake of `newcomer`.
    fn forget_one(&mut self, newcomer: Fingerprint, terms: &Terms<'_>, real: u64, table: &Table) {
        // Any place will do that clients cannot foresee.
        let mut index = self.home(Fingerprint {
            high: newcomer.low.rotate_left(32) ^ newcomer.high,
            ..newcomer
        });
        let mut least: Option<(Loss, usize)> = None;
        let mut seen = 0;
        for looked_at in 0..self.slots.len() {
            if seen == SAMPLE || (seen >= SMALLEST_SAMPLE && looked_at >= SAMPLED_SLOTS) {
                break;
            }
            let slot = &self.slots[index];
            if !slot.is_free() && slot.fingerprint != newcomer {
                seen += 1;
                let loss = slot.loss(terms, real, newcomer);
                if least.is_none_or(|(least, _)| loss < least) {
                    least = Some((loss, index));
                }
            }
            index = self.after(index);
        }
        if let Some((loss, index)) = least {
            self.entries -= self.slots[index].account.entries();
            self.remove(index);
            table.forget(loss.reset_after > 0);
        }
    }

    /// Frees a slot, and moves those behind it forward that would otherwise no longer be found.
    fn remove(&mut self, index: usize) {
        self.held -= 1;
        let mut free = index;
        self.slots[free] = Slot::free();
        let mut next = self.after(free);
        while !self.slots[next].is_free() {
            let home = self.home(self.slots[next].fingerprint);
            if self.distance(home, free) < self.distance(home, next) {
                self.slots.swap(free, next);
                free = next;
            }
            next = self.after(next);
        }
    }

    fn home(&self, fingerprint: Fingerprint) -> usize {
        ((u128::from(fingerprint.high) * self.slots.len() as u128) >> 64) as usize
    }

    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    /// Steps from `from` to `to`, around the end.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots.len() - from
        }
    }
}

/// What forgetting an account would let through, ordered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Loss {
    /// One that is being refused goes last.
    refuses: bool,
    reset_after: u64,
    /// Windows may all reset at one time; then the one that has used least goes first.
    used: u64,
    /// Among equals any, at random. Were it always the first that is met, those behind a gap would go more often, and
    /// gaps grow until samples are made of next to nothing.
    lot: u64,
}

impl<A: Account> Slot<A> {
    fn free() -> Self {
        Self {
            fingerprint: Fingerprint::NONE,
            account: A::default(),
        }
    }

    fn is_free(&self) -> bool {
        self.fingerprint == Fingerprint::NONE
    }

    /// By the quota at hand: the one this account was charged by is not known, but plans of one tier are alike.
    fn loss(&self, terms: &Terms<'_>, real: u64, newcomer: Fingerprint) -> Loss {
        let quota = terms.quota;
        let terms = Terms { quota, key: &[] };
        let decision = self.account.look(&self.account.read(&terms, real), &terms, real, 1);
        Loss {
            refuses: decision.answer() == Answer::Refuses,
            reset_after: self.account.reset_at_latest(quota).saturating_sub(real),
            used: quota.burst_size().saturating_sub(decision.remaining()),
            lot: (self.fingerprint.low ^ newcomer.low).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }
}

impl<A> Slots<A> {
    pub(super) const fn entries(&self) -> usize {
        self.entries
    }
}

impl<A> Default for Slots<A> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            held: 0,
            entries: 0,
        }
    }
}
