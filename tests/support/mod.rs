//! What several suites need.

#![allow(dead_code, reason = "each suite uses a part of it")]

pub(crate) mod quotas;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Asked, Charge, MemoryStore, Outcome, Receipt, Store};
use tower_throttle::{Global, Quota, RateLimitLayer, Tier};

/// The outcome, now or later.
pub(crate) async fn outcome<F: Future<Output = Outcome>>(asked: Asked<F>) -> Outcome {
    match asked {
        Asked::Now(outcome) => outcome,
        Asked::Later(outcome) => outcome.await,
    }
}

/// Random numbers that are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `bound`, or 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// The outcome of a store that answers at once.
pub(crate) fn charge(store: &MemoryStore, charges: &[Charge<'_>]) -> Outcome {
    match store.charge(charges) {
        Asked::Now(outcome) => outcome,
        Asked::Later(never) => unreachable!("{never:?}"),
    }
}

/// A layer with one tier, which admits so many and then refuses for an hour.
pub(crate) fn refuses_after(limit: u64) -> RateLimitLayer {
    let quota = Quota::new(limit, Duration::from_secs(3_600)).fixed_window_from_first();
    RateLimitLayer::new([Tier::new("tier", Global, quota)]).store(MemoryStore::new().clock(ManualClock::new()))
}

/// A memory store that takes its time, as a remote one does.
#[derive(Clone, Default)]
pub(crate) struct LaterStore {
    memory: MemoryStore,
}

/// Pending once, then ready.
pub(crate) struct Later {
    outcome: Option<Outcome>,
    polled: bool,
}

impl Later {
    pub(crate) const fn new(outcome: Outcome) -> Self {
        Self {
            outcome: Some(outcome),
            polled: false,
        }
    }
}

impl LaterStore {
    pub(crate) const fn new(memory: MemoryStore) -> Self {
        Self { memory }
    }
}

impl Future for Later {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if !std::mem::replace(&mut self.polled, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.outcome.take().expect("polled after it was ready"))
    }
}

impl Store for LaterStore {
    type Future = Later;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Later> {
        Asked::Later(Later::new(charge(&self.memory, charges)))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Later> {
        match self.memory.give_back(charges, receipt) {
            Asked::Now(outcome) => Asked::Later(Later::new(outcome)),
            Asked::Later(never) => unreachable!("{never:?}"),
        }
    }
}

/// A store that never knows.
pub(crate) struct FailingStore;

impl Store for FailingStore {
    type Future = Ready<Outcome>;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Ready<Outcome>> {
        Asked::Later(ready(Outcome::failed(charges.len())))
    }

    fn give_back(&self, charges: &[Charge<'_>], _: Receipt) -> Asked<Ready<Outcome>> {
        self.charge(charges)
    }
}
