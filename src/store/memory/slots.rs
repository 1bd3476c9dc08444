//! Accounts by fingerprint: open addressing with linear probing, grown by a quarter at a time.
//!
//! Each account lies as near to its home as those before it allow: one that is further away displaces one that is nearer
//! ("Robin Hood"). So all are about equally far, a key that is not there is soon known not to be, and the longest way
//! stays short even in a table that is four fifths full, which keeps a flood of newcomers from becoming slow now and then.
//!
//! Not a general map, because one look-up should be one miss of the cache, and because forgetting needs a random
//! sample at no cost.

use crate::algorithm::{Account, stepped_back};
use crate::random;
use crate::store::{Answer, Decision};

use super::fingerprint::Fingerprint;
use super::question::Question;
use super::table::Table;

pub(super) struct Slots<A> {
    pub(super) slots: Vec<Slot<A>>,
    held: u32,
    /// How often an account was healed or forgotten.
    generation: u32,
    /// Stirred with every newcomer's fingerprint: what it draws cannot be foreseen by clients.
    pub(super) lots: u64,
    /// The latest time at which an account was dropped as it could not be told from a new one. Nobody is new at an earlier time:
    /// they could be one of those, asking by a clock that is behind.
    pub(super) dropped_at: u64,
}

pub(super) struct Slot<A> {
    /// With a mark if the account has refused since it was last charged.
    pub(super) fingerprint: Fingerprint,
    pub(super) account: A,
}

/// The place of an account that there is not.
pub(super) const NOWHERE: usize = usize::MAX;

impl<A: Account> Slots<A> {
    #[inline(always)]
    pub(super) fn ask(&mut self, question: &Question<'_>, real: u64, slot: &mut usize) -> Option<Answer> {
        let Question { terms, cost, .. } = question;
        let Some(index) = self.find(question.fingerprint) else {
            return self.ask_newcomer(question, real);
        };
        *slot = index;
        let slot = &mut self.slots[index];
        if stepped_back(slot.account.at(), real) {
            return None;
        }
        let answer = slot.account.answer(terms, real, *cost);
        if answer == Answer::Refuses {
            slot.fingerprint.set_refused(true);
        }
        Some(answer)
    }

    #[inline(never)]
    fn ask_newcomer(&self, question: &Question<'_>, real: u64) -> Option<Answer> {
        let Question { terms, cost, .. } = question;
        let answer = A::default().answer(terms, real.max(self.dropped_at), *cost);
        (!stepped_back(self.dropped_at, real)).then_some(answer)
    }

    pub(super) fn heal(&mut self, question: &Question<'_>, real: u64) {
        if stepped_back(self.dropped_at, real) {
            self.dropped_at = real;
        }
        if let Some(index) = self.find(question.fingerprint)
            && self.slots[index].account.heal(&question.terms, real)
        {
            self.void_receipts();
        }
    }

    #[inline(always)]
    pub(super) fn look(&self, question: &Question<'_>, asked_at: usize, real: u64, decision: &mut Decision) {
        let Question { terms, cost, .. } = question;
        match self.find_again(question, asked_at) {
            Some(index) => self.slots[index].account.look(terms, real, *cost, decision),
            None => A::default().look(terms, real.max(self.dropped_at), *cost, decision),
        }
    }

    /// How the account stands, whatever the question costs.
    pub(super) fn standing(&self, question: &Question<'_>, real: u64) -> Decision {
        match self.find(question.fingerprint) {
            Some(index) => self.slots[index].account.standing(&question.terms, real, 0),
            None => A::default().standing(&question.terms, real, 0),
        }
    }

    #[inline(always)]
    pub(super) fn charge(
        &mut self,
        question: &Question<'_>,
        asked_at: usize,
        real: u64,
        decision: &mut Decision,
    ) -> u64 {
        let Question { terms, cost, .. } = question;
        let (index, real) = match self.find_again(question, asked_at) {
            Some(index) => (index, real),
            None => self.open_in_time(question, real),
        };
        let slot = &mut self.slots[index];
        slot.fingerprint.set_refused(false);
        let account = &mut slot.account;
        let entries_before = account.entries();
        account.charge(terms, real, *cost, decision);
        let (mark, entries) = (account.mark(*cost), account.entries());
        if entries != entries_before {
            question.table.count_entries(entries_before, entries);
            self.keep_to_entries(question, real);
        }
        mark
    }

    /// Not where it was when it was asked, if another account of the decision has been opened in the same shard since.
    #[inline(always)]
    fn find_again(&self, question: &Question<'_>, asked_at: usize) -> Option<usize> {
        match self.slots.get(asked_at) {
            Some(slot) if slot.fingerprint.is_of(question.fingerprint) => Some(asked_at),
            _ => self.find(question.fingerprint),
        }
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation as u64
    }

    pub(super) const fn void_receipts(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// A charge adds one entry and any other account gives up one or more, so forgetting one is enough.
    #[cold]
    fn keep_to_entries(&mut self, question: &Question<'_>, real: u64) {
        if question.table.has_too_many_entries() {
            let lot = self.draw();
            if !question.table.forget_elsewhere(question, real, lot) {
                self.forget_one(question, real);
            }
        }
    }

    pub(super) fn give_back(&mut self, question: &Question<'_>, real: u64, mark: u64) {
        let Question { terms, cost, table, .. } = question;
        let Some(index) = self.find(question.fingerprint) else {
            return;
        };
        let account = &mut self.slots[index].account;
        if account.heal(terms, real) {
            self.void_receipts();
            return;
        }
        let entries_before = account.entries();
        let voids_receipts = account.give_back(terms, real, *cost, mark);
        table.count_entries(entries_before, account.entries());
        let is_reset = account.reset_at(terms) <= real;
        if voids_receipts {
            self.void_receipts();
        }
        if is_reset {
            self.dropped_at = self.dropped_at.max(real);
            self.remove(index, table);
            table.dismiss(1);
        }
    }

    /// Puts an account in the place of the one there is, if any and, if so asked, if that leaves more; a new one is worth keeping
    /// only if it counts.
    pub(super) fn tell(
        &mut self,
        question: &Question<'_>,
        real: u64,
        remaining: u64,
        reset_after: u64,
        keeps_less: bool,
    ) {
        let Question { terms, table, .. } = question;
        let index = match self.find(question.fingerprint) {
            Some(index) => index,
            None if reset_after == 0 => return,
            None => self.open(question, real),
        };
        let account = &mut self.slots[index].account;
        if keeps_less && account.standing(terms, real, 0).remaining() <= remaining {
            return;
        }
        let entries_before = account.entries();
        *account = A::told(terms, real, remaining, reset_after);
        table.count_entries(entries_before, account.entries());
        // What was charged before is part of what was told.
        self.void_receipts();
    }

    #[inline(always)]
    fn find(&self, fingerprint: Fingerprint) -> Option<usize> {
        let mut index = self.home(fingerprint);
        let mut distance = 0;
        // Not reached if there are no slots at all; else there is always a free one to stop at.
        while let Some(slot) = self.slots.get(index) {
            if slot.fingerprint.is_of(fingerprint) {
                return Some(index);
            }
            if slot.fingerprint.is_none() || (distance > 0 && self.distance(index) < distance) {
                return None;
            }
            index = self.after(index);
            distance += 1;
        }
        None
    }

    /// A slot for a new account, which the caller charges, at the time that is told.
    #[inline(never)]
    fn open_in_time(&mut self, question: &Question<'_>, real: u64) -> (usize, u64) {
        let index = self.open(question, real);
        (index, real.max(self.dropped_at))
    }

    fn open(&mut self, question: &Question<'_>, real: u64) -> usize {
        if !question.table.admit() && !self.forget_in_exchange(question, real) {
            // Nobody here to make room. A table has so many keys to a shard that this does not happen to a full one.
            question.table.admit_anyway();
        }
        // Four fifths full at most, so that probes stay short.
        if (self.held as usize + 1) * 5 > self.slots.len() * 4 {
            self.rebuild(question, real);
        }
        self.put(Slot {
            fingerprint: question.fingerprint,
            account: A::default(),
        })
    }

    /// In the place of the first account that is nearer to its home, which moves on. Some slot is free.
    fn put(&mut self, mut slot: Slot<A>) -> usize {
        let mut index = self.home(slot.fingerprint);
        let mut distance = 0;
        let mut put = None;
        while !self.slots[index].fingerprint.is_none() {
            let held = self.distance(index);
            if held < distance {
                std::mem::swap(&mut self.slots[index], &mut slot);
                distance = held;
                put = put.or(Some(index));
            }
            index = self.after(index);
            distance += 1;
        }
        self.slots[index] = slot;
        self.held += 1;
        put.unwrap_or(index)
    }

    /// Leaves out the accounts that are as good as new, and makes room for the rest to grow by a quarter.
    fn rebuild(&mut self, question: &Question<'_>, real: u64) {
        let held_before = self.held;
        let mut kept = std::mem::take(&mut self.slots);
        kept.retain(|slot| {
            let live = !slot.fingerprint.is_none() && slot.reset_at(question) > real;
            if !live {
                question.table.count_entries(slot.account.entries(), 0);
            }
            live
        });

        let slots = (kept.len() + kept.len() / 4 + 4) * 5 / 4;
        self.slots.reserve_exact(slots);
        self.slots.resize_with(slots, Slot::free);
        self.held = 0;
        for slot in kept {
            self.put(slot);
        }
        if self.held < held_before {
            self.dropped_at = self.dropped_at.max(real);
            question.table.dismiss((held_before - self.held) as usize);
        }
    }

    /// Frees a slot, and moves those behind it nearer to their homes.
    pub(super) fn remove(&mut self, index: usize, table: &Table) {
        table.count_entries(self.slots[index].account.entries(), 0);
        self.held -= 1;
        let mut free = index;
        self.slots[free] = Slot::free();
        let mut next = self.after(free);
        while !self.slots[next].fingerprint.is_none() && self.distance(next) > 0 {
            self.slots.swap(free, next);
            free = next;
            next = self.after(next);
        }
    }

    #[inline]
    fn home(&self, fingerprint: Fingerprint) -> usize {
        self.place(fingerprint.high())
    }

    /// Spreads all numbers evenly over the slots.
    #[inline]
    pub(super) fn place(&self, number: u64) -> usize {
        random::below(self.slots.len() as u64, number) as usize
    }

    #[inline]
    fn after(&self, index: usize) -> usize {
        if index + 1 == self.slots.len() { 0 } else { index + 1 }
    }

    /// How far from its home the account at `index` lies, around the end.
    #[inline]
    fn distance(&self, index: usize) -> usize {
        let home = self.home(self.slots[index].fingerprint);
        if index >= home {
            index - home
        } else {
            index + self.slots.len() - home
        }
    }

    pub(super) const fn draw(&mut self) -> u64 {
        self.lots = self.lots.wrapping_add(random::STEP);
        random::scrambled(self.lots)
    }
}

impl<A: Account> Slot<A> {
    fn free() -> Self {
        Self {
            fingerprint: Fingerprint::NONE,
            account: A::default(),
        }
    }

    fn reset_at(&self, question: &Question<'_>) -> u64 {
        self.account.reset_at(&question.terms.of(&self.account))
    }
}

impl<A> Default for Slots<A> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            held: 0,
            generation: 0,
            lots: 0,
            dropped_at: 0,
        }
    }
}
