//! Refusals, remembered in front of a remote store.

use std::fmt;
use std::future::Future;
use std::hash::{Hash as _, Hasher};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use smallvec::SmallVec;

use crate::clock::{Clock, SystemClock, Timestamp};
use crate::random;

use super::secret::Secret;
use super::{Answer, Asked, Charge, Decision, INLINE, Outcome, Receipt, Source, Store};

/// Remembers for a moment what a remote store has refused, so that a flood of requests by one key costs it about one
/// call a second.
///
/// A `RedisStore` has one built in; around a remote store of your own, put one yourself:
/// `Fallback::new(RefusalCache::new(store))`.
///
/// # How it decides
///
/// 1. A refusal is remembered for exactly the same question: account, quota and cost.
/// 2. It counts from the instant the question was sent, for as long as the store said, and for at most a second: so never
///    longer than the store itself would refuse, but for what is given back or allowed anew in that second. What
///    [never fits](Answer::NeverFits) is remembered for a second.
/// 3. If a charge of a call is remembered to be refused, so is the call. The store is not asked; the other charges are
///    answered [`Answer::NotAsked`], and the source of all is [`Source::Remembered`].
/// 4. The wait that is told counts from the instant the answer came, so that it is never too short.
/// 5. There is room for so many refusals. In a full cache a new one takes the place of the one that ends first among four.
///
/// # Defaults
///
/// - [`capacity`](Self::capacity): 16,384 refusals, 1.2 MB once they are needed.
/// - [`clock`](Self::clock): [`SystemClock`].
pub struct RefusalCache<St> {
    store: St,
    memory: Arc<Memory>,
}

/// What is remembered.
struct Memory {
    clock: Arc<dyn Clock>,
    secret: Secret,
    capacity: usize,
    shards: Box<[Mutex<Vec<Refusal>>]>,
}

/// A refusal; all times in microseconds, by this process's clock unless said otherwise.
#[derive(Clone, Copy, Default)]
struct Refusal {
    question: Question,
    never_fits: bool,
    until: u64,
    received: u64,
    /// By the store's clock.
    store_now: u64,
    retry_after: u64,
    reset_after: u64,
    remaining: u64,
}

/// The hash of what was asked.
type Question = (u64, u64);
type Questions = SmallVec<[Question; INLINE]>;

/// In microseconds.
const LONGEST: u64 = 1_000_000;
const CAPACITY: usize = 16_384;
const MOST: usize = 1 << 24;
const SHARDS: usize = 64;
const WAYS: usize = 4;

impl<St> RefusalCache<St> {
    /// In front of a remote store.
    #[must_use]
    pub fn new(store: St) -> Self {
        Self {
            store,
            memory: Arc::new(Memory::new(Arc::new(SystemClock::new()), CAPACITY)),
        }
    }

    /// How many refusals are remembered at most, rounded up to a multiple of 256, and no more than 2²⁴; 0 remembers none.
    #[must_use]
    pub fn capacity(mut self, capacity: usize) -> Self {
        let capacity = capacity.min(MOST);
        self.memory = Arc::new(Memory::new(Arc::clone(&self.memory.clock), capacity));
        self
    }

    /// By which clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.memory = Arc::new(Memory::new(Arc::new(clock), self.memory.capacity));
        self
    }

    /// The remote store.
    #[must_use]
    pub const fn get_ref(&self) -> &St {
        &self.store
    }
}

impl<St: Store> Store for RefusalCache<St> {
    type Future = RefusalCacheFuture<St::Future>;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Self::Future> {
        if self.memory.capacity == 0 {
            let asked = self.store.charge(charges);
            return asked.map(|outcome| RefusalCacheFuture { outcome, sent: None });
        }
        let questions = self.memory.questions(charges);
        let sent = self.memory.now();
        if let Some(outcome) = self.memory.recall(&questions, sent) {
            return Asked::Now(outcome);
        }
        match self.store.charge(charges) {
            Asked::Now(outcome) => {
                self.memory.remember(&questions, sent, &outcome);
                Asked::Now(outcome)
            }
            Asked::Later(outcome) => Asked::Later(RefusalCacheFuture {
                outcome,
                sent: Some(Sent {
                    memory: Arc::clone(&self.memory),
                    questions,
                    at: sent,
                }),
            }),
        }
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Self::Future> {
        let asked = self.store.give_back(charges, receipt);
        asked.map(|outcome| RefusalCacheFuture { outcome, sent: None })
    }
}

/// All that makes one question different from another, in a row.
#[derive(Default)]
struct Told {
    bytes: SmallVec<[u8; 256]>,
}

impl Hasher for Told {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Not asked for: what was told is hashed with the secret.
    fn finish(&self) -> u64 {
        0
    }
}

impl Memory {
    fn new(clock: Arc<dyn Clock>, capacity: usize) -> Self {
        Self {
            clock,
            secret: Secret::random(),
            capacity,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.now().as_micros()
    }

    fn questions(&self, charges: &[Charge<'_>]) -> Questions {
        let hash = |charge: &Charge<'_>| {
            let mut told = Told::default();
            (charge.tier.namespace(), charge.tier.name(), charge.nth).hash(&mut told);
            (charge.key, charge.quota, charge.cost).hash(&mut told);
            self.secret.hash(&told.bytes)
        };
        charges.iter().map(hash).collect()
    }

    /// The refusal of a call, if one of its charges is remembered to be refused.
    fn recall(&self, questions: &Questions, now: u64) -> Option<Outcome> {
        let found: SmallVec<[Option<Refusal>; INLINE]> = questions
            .iter()
            .map(|question| self.find(*question).filter(|refusal| refusal.holds_at(now)))
            .collect();
        let first = found.iter().flatten().next()?;
        let store_now = first.store_now.saturating_add(now.saturating_sub(first.received));
        let decisions = found.iter().map(|found| {
            let decision = match found {
                Some(refusal) => refusal.decision(now),
                None => Decision::new(Answer::NotAsked),
            };
            decision.with_source(Source::Remembered)
        });
        Some(Outcome::new(Timestamp::from_micros(store_now), decisions))
    }

    fn remember(&self, questions: &Questions, sent: u64, outcome: &Outcome) {
        let received = self.now();
        for (question, decision) in questions.iter().zip(outcome.decisions()) {
            let never_fits = decision.answer() == Answer::NeverFits;
            let holds_for = match decision.answer() {
                Answer::Refuses => decision.retry_after_micros().min(LONGEST),
                Answer::NeverFits => LONGEST,
                _ => continue,
            };
            let until = sent.saturating_add(holds_for);
            if decision.source() == Source::Store && received < until {
                self.put(Refusal {
                    question: *question,
                    never_fits,
                    until,
                    received,
                    store_now: outcome.now().as_micros(),
                    retry_after: decision.retry_after_micros(),
                    reset_after: decision.reset_after_micros(),
                    remaining: decision.remaining(),
                });
            }
        }
    }

    fn find(&self, question: Question) -> Option<Refusal> {
        let shard = self.shard(question);
        if shard.is_empty() {
            return None;
        }
        let set = set(shard.len(), question);
        shard[set].iter().find(|refusal| refusal.question == question).copied()
    }

    fn put(&self, refusal: Refusal) {
        let mut shard = self.shard(refusal.question);
        if shard.is_empty() {
            // Only once there is something to remember.
            let sets = self.capacity.div_ceil(SHARDS * WAYS);
            shard.resize_with(sets * WAYS, Refusal::default);
        }
        let set = set(shard.len(), refusal.question);
        let replaced = shard[set].iter_mut().min_by_key(|held| match held.question {
            question if question == refusal.question => 0,
            _ => held.until,
        });
        if let Some(replaced) = replaced {
            *replaced = refusal;
        }
    }

    fn shard(&self, question: Question) -> MutexGuard<'_, Vec<Refusal>> {
        let shard = &self.shards[random::below(SHARDS as u64, question.0) as usize];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where in a shard of so many slots a refusal is, if anywhere.
fn set(slots: usize, question: Question) -> std::ops::Range<usize> {
    let start = random::below((slots / WAYS) as u64, question.1) as usize * WAYS;
    start..start + WAYS
}

impl Refusal {
    /// Not if it would hold for longer than any does: the clock has stepped back.
    const fn holds_at(&self, now: u64) -> bool {
        now < self.until && self.until - now <= LONGEST
    }

    fn decision(&self, now: u64) -> Decision {
        let passed = now.saturating_sub(self.received);
        let answer = if self.never_fits {
            Answer::NeverFits
        } else {
            Answer::Refuses
        };
        Decision::new(answer)
            .with_remaining(self.remaining)
            .with_retry_after_micros(self.retry_after.saturating_sub(passed))
            .with_reset_after_micros(self.reset_after.saturating_sub(passed))
    }
}

pin_project! {
    /// The store's answer, to be remembered.
    pub struct RefusalCacheFuture<F> {
        #[pin]
        outcome: F,
        sent: Option<Sent>,
    }
}

struct Sent {
    memory: Arc<Memory>,
    questions: Questions,
    at: u64,
}

impl<F: Future<Output = Outcome>> Future for RefusalCacheFuture<F> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.project();
        let outcome = ready!(this.outcome.poll(cx));
        if let Some(Sent { memory, questions, at }) = this.sent.take() {
            memory.remember(&questions, at, &outcome);
        }
        Poll::Ready(outcome)
    }
}

impl<St: Clone> Clone for RefusalCache<St> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            memory: Arc::clone(&self.memory),
        }
    }
}

impl<St: fmt::Debug> fmt::Debug for RefusalCache<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalCache")
            .field("store", &self.store)
            .field("capacity", &self.memory.capacity)
            .finish()
    }
}

impl<F> fmt::Debug for RefusalCacheFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalCacheFuture").finish_non_exhaustive()
    }
}
