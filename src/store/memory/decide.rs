//! A decision on several accounts, all or nothing: all of them are locked, then asked, then charged.

use std::sync::MutexGuard;

use crate::clock::Timestamp;
use crate::store::{Answer, Outcome};

use super::MemoryStore;
use super::question::Question;
use super::shard::Shard;
use super::slots::NOWHERE;

/// A question, and what comes of it during a decision.
pub(super) struct Step<'a> {
    question: Question<'a>,
    /// None as long as it is not locked, and where the shard is that of a step before.
    guard: Option<MutexGuard<'a, Shard>>,
    /// Where the account was when it was asked.
    slot: usize,
}

/// What all accounts say together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Admits,
    Refuses,
    /// An account was written at a later time, more than what may be sat out.
    Late,
}

impl MemoryStore {
    /// Leaves the decisions in `outcome`.
    pub(super) fn decide(&self, steps: &mut [Step<'_>], outcome: &mut Outcome) {
        // Any order will do that all decisions agree on; in none of them can two wait for each other. Tables are numbered
        // as they are opened, so the tiers of a layer nearly always come in order.
        if !steps.is_sorted_by_key(|step| step.question.rank) {
            steps.sort_unstable_by_key(|step| step.question.rank);
        }
        // Not while others wait for the locks. If this thread sleeps from here to there, it finds out below.
        let mut now = self.now();
        let mut verdict = lock_and_ask(steps, now);
        if verdict == Verdict::Late {
            // The clock has stepped back, or somebody was quicker: it tells by looking again.
            now = self.now();
            heal(steps, now);
            verdict = ask(steps, now);
        }

        outcome.set_now(now);
        let answers = outcome.answers();
        for nth in 0..steps.len() {
            with(steps, nth, |question, shard, slot| {
                let decision = &mut answers.decisions[question.place];
                if verdict == Verdict::Admits && question.cost > 0 {
                    answers.marks[2 * question.place] = shard.charge(question, *slot, now.as_micros(), decision);
                } else {
                    shard.look(question, *slot, now.as_micros(), decision);
                }
                answers.marks[2 * question.place + 1] = shard.generation();
            });
        }
    }
}

impl<'a> Step<'a> {
    #[inline(always)]
    pub(super) const fn new(question: Question<'a>) -> Self {
        Self {
            question,
            guard: None,
            slot: NOWHERE,
        }
    }
}

/// The last lock is held for the shortest time, so the account that everybody shares is best asked last.
#[inline(always)]
fn lock_and_ask(steps: &mut [Step<'_>], now: Timestamp) -> Verdict {
    let mut verdict = Verdict::Admits;
    let mut last = None;
    for nth in 0..steps.len() {
        let step = &mut steps[nth];
        // Two keys of one tier may lie in one shard.
        if last != Some(step.question.rank) {
            step.guard = Some(step.question.lock());
            last = Some(step.question.rank);
        }
        verdict = verdict.and(with(steps, nth, |question, shard, slot| {
            shard.ask(question, now.as_micros(), slot)
        }));
    }
    verdict
}

/// Again, once all are locked.
#[cold]
fn ask(steps: &mut [Step<'_>], now: Timestamp) -> Verdict {
    (0..steps.len()).fold(Verdict::Admits, |verdict, nth| {
        verdict.and(with(steps, nth, |question, shard, slot| {
            shard.ask(question, now.as_micros(), slot)
        }))
    })
}

impl Verdict {
    #[inline(always)]
    fn and(self, answer: Option<Answer>) -> Self {
        match (self, answer) {
            (Self::Late, _) | (_, None) => Self::Late,
            (verdict, Some(Answer::Admits)) => verdict,
            (_, Some(_)) => Self::Refuses,
        }
    }
}

#[cold]
fn heal(steps: &mut [Step<'_>], now: Timestamp) {
    for nth in 0..steps.len() {
        with(steps, nth, |question, shard, _| shard.heal(question, now.as_micros()));
    }
}

/// Does something with an account, given its shard, which is locked, and its place there.
#[inline(always)]
fn with<T>(steps: &mut [Step<'_>], nth: usize, act: impl FnOnce(&Question<'_>, &mut Shard, &mut usize) -> T) -> T {
    match &mut steps[nth] {
        Step {
            question,
            guard: Some(guard),
            slot,
        } => act(question, guard, slot),
        Step { guard: None, .. } => with_shared(steps, nth, act),
    }
}

/// Where a step before holds the shard.
#[cold]
fn with_shared<T>(
    steps: &mut [Step<'_>],
    nth: usize,
    act: impl FnOnce(&Question<'_>, &mut Shard, &mut usize) -> T,
) -> T {
    let (before, rest) = steps.split_at_mut(nth);
    let guard = before.iter_mut().rev().find_map(|step| step.guard.as_mut());
    let shard = guard.expect("the first step of a shard has its guard");
    act(&rest[0].question, shard, &mut rest[0].slot)
}
