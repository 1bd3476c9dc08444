//! This process decides while a remote store cannot.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use smallvec::SmallVec;

use super::charge::OwnedCharges;
use super::decision::Marks;
use super::{Answer, Asked, Charge, Decision, FailureMode, INLINE, MemoryStore, Outcome, Receipt, Source, Store};

/// Decides locally what a remote store fails to decide, for tiers whose failure mode is [`FailureMode::Local`].
///
/// A `RedisStore` has one built in; around a remote store of your own, put one yourself:
///
/// ```
/// use tower_throttle::store::{Fallback, Replicas, Store};
/// # use tower_throttle::store::MemoryStore;
///
/// fn around(remote: impl Store) -> impl Store {
///     Fallback::new(remote).replicas(Replicas::new(4))
/// }
/// # around(MemoryStore::new());
/// ```
///
/// # How it decides
///
/// 1. What the store answers, it passes on. What the store tells of an account it takes over into a memory store of its
///    own, which so knows what everybody has used, not only this process. As long as something counts that was admitted
///    locally, of which the store knows nothing, it takes over only what is stricter: so a store that fails now and then
///    is no way around the quota.
/// 2. If charges fail and one of them [denies](FailureMode::Deny), they stay failed.
/// 3. Otherwise those that are to be decided locally are charged in memory, all or nothing among themselves, under their
///    quotas stretched over the number of replicas: with 4 of them, 100 per minute are 100 per 4 minutes in each.
///    The answer's [`Source`] is [`Source::Local`].
/// 4. Those that [allow](FailureMode::Allow) stay failed, and so do not count.
///
/// # What a switch can cost
///
/// Let an outage last for T, the quota be `limit` per `period` with a burst, and n be the number of replicas.
///
/// - Each process admits at most `burst + limit × T / (n × period)` of a key by token buckets, and what its algorithm
///   admits under a period n times as long by windows. All n together admit at most n bursts, and the quota in the long
///   run. A key that was used up when the store failed is used up in each process that has seen a request of it.
/// - A key whose requests all go to one process gets one n-th of its quota, so up to (n − 1) / n less than it should.
/// - When the store returns, it does not know what was admitted meanwhile: up to one burst more.
///
/// # Defaults
///
/// - [`replicas`](Self::replicas): 1. Say how many there are, or each will admit the whole quota.
/// - [`local`](Self::local): [`MemoryStore::new`], so 100,000 keys for each quota of a tier.
pub struct Fallback<St> {
    store: St,
    stand_in: Arc<StandIn>,
}

/// How many processes share the quotas: a number that can be changed while they run. Clones are the same number.
#[derive(Clone, Debug)]
pub struct Replicas {
    count: Arc<AtomicU32>,
}

impl Replicas {
    /// So many; at least 1.
    #[must_use]
    pub fn new(replicas: u32) -> Self {
        Self {
            count: Arc::new(AtomicU32::new(replicas.max(1))),
        }
    }

    /// From now on so many; at least 1.
    ///
    /// It changes how long what was admitted locally is remembered. Of the accounts that are counted locally at the moment,
    /// windows and logs start anew; buckets keep the time until they are full, and so admit up to a burst more at once if
    /// there are more replicas, or refuse until then if there are fewer.
    pub fn set(&self, replicas: u32) {
        self.count.store(replicas.max(1), Ordering::Relaxed);
    }

    /// How many there are.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

impl From<u32> for Replicas {
    fn from(replicas: u32) -> Self {
        Self::new(replicas)
    }
}

/// What decides in the store's place.
struct StandIn {
    memory: MemoryStore,
    replicas: Replicas,
    /// Until when, by the memory's clock, something counts that was admitted here and that the store does not know of.
    counts_until: AtomicU64,
}

impl StandIn {
    const fn new(memory: MemoryStore, replicas: Replicas) -> Self {
        Self {
            memory,
            replicas,
            counts_until: AtomicU64::new(0),
        }
    }
}

impl<St> Fallback<St> {
    /// Around a remote store.
    #[must_use]
    pub fn new(store: St) -> Self {
        Self {
            store,
            stand_in: Arc::new(StandIn::new(MemoryStore::new(), Replicas::new(1))),
        }
    }

    /// How many processes share the quotas: a number, or a [`Replicas`] that is changed later.
    #[must_use]
    pub fn replicas(mut self, replicas: impl Into<Replicas>) -> Self {
        self.stand_in = Arc::new(StandIn::new(self.stand_in.memory.clone(), replicas.into()));
        self
    }

    /// Decides locally in this memory store. It must not be shared with a layer, which would mix the counts.
    #[must_use]
    pub fn local(mut self, memory: MemoryStore) -> Self {
        self.stand_in = Arc::new(StandIn::new(memory, self.stand_in.replicas.clone()));
        self
    }

    /// The remote store.
    #[must_use]
    pub const fn get_ref(&self) -> &St {
        &self.store
    }
}

impl<St: Store> Store for Fallback<St> {
    type Future = FallbackFuture<St::Future>;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Self::Future> {
        match self.store.charge(charges) {
            Asked::Now(outcome) => Asked::Now(self.stand_in.complete(charges, outcome)),
            Asked::Later(outcome) => Asked::Later(FallbackFuture {
                outcome,
                completing: Some((OwnedCharges::new(charges), Arc::clone(&self.stand_in))),
            }),
        }
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Self::Future> {
        if receipt.source() == Source::Local {
            let outcome = self.stand_in.with_stretched(charges, |charges| {
                match self.stand_in.memory.give_back(charges, receipt) {
                    Asked::Now(outcome) => outcome,
                    Asked::Later(never) => never.into_outcome(),
                }
            });
            return Asked::Now(outcome.from(Source::Local));
        }
        let asked = self.store.give_back(charges, receipt);
        asked.map(|outcome| FallbackFuture {
            outcome,
            completing: None,
        })
    }
}

impl StandIn {
    /// Learns from what the store has answered, and decides what it has not.
    fn complete(&self, charges: &[Charge<'_>], outcome: Outcome) -> Outcome {
        let is_failed = |nth: usize| match outcome.decisions().get(nth) {
            Some(decision) => decision.answer() == Answer::Failed,
            None => true,
        };
        let failed: SmallVec<[usize; INLINE]> = (0..charges.len()).filter(|nth| is_failed(*nth)).collect();
        if failed.is_empty() {
            self.learn(charges, &outcome);
            return outcome;
        }
        if failed.iter().any(|nth| charges[*nth].on_failure == FailureMode::Deny) {
            return outcome;
        }

        let local: SmallVec<[usize; INLINE]> = (failed.iter().copied())
            .filter(|nth| charges[*nth].on_failure == FailureMode::Local)
            .collect();
        let is_whole = local.len() == charges.len();
        let answered = outcome
            .decisions()
            .iter()
            .filter(|decision| decision.answer() != Answer::Failed);
        let is_answered = answered.clone().next().is_some();
        let is_refused = answered.into_iter().any(|decision| decision.answer() != Answer::Admits);

        let (mut now, mut decisions) = outcome.into_parts();
        decisions.resize(charges.len(), Decision::FAILED);
        let mut marks = Marks::filled(0, 0);
        if is_refused {
            // Charged here, a request that others refuse would leave a charge behind.
            for nth in local {
                decisions[nth] = Decision::new(Answer::NotAsked).with_source(Source::Local);
            }
        } else if !local.is_empty() {
            let asked: SmallVec<[Charge<'_>; INLINE]> = local.iter().map(|nth| charges[*nth]).collect();
            let decided = self
                .with_stretched(&asked, |asked| charge(&self.memory, asked))
                .from(Source::Local);
            for (nth, decision) in local.iter().zip(decided.decisions()) {
                decisions[*nth] = *decision;
            }
            if decided.is_charged() {
                let resets = decided.decisions().iter().map(Decision::reset_after_micros).max();
                let until = decided.now().as_micros().saturating_add(resets.unwrap_or_default());
                self.counts_until.fetch_max(until, Ordering::Relaxed);
            }
            if !is_answered {
                now = decided.now();
            }
            if is_whole {
                marks = decided.into_marks();
            }
        }
        Outcome::from_parts(now, decisions, marks)
    }

    /// Takes over what the store itself has told of accounts that may have to be decided on here.
    fn learn(&self, charges: &[Charge<'_>], outcome: &Outcome) {
        let replicas = self.replicas.get();
        let counts_until = self.counts_until.load(Ordering::Relaxed);
        let keeps_less = counts_until > 0 && self.memory.now().as_micros() < counts_until;
        for (charge, decision) in charges.iter().zip(outcome.decisions()) {
            let told = matches!(decision.answer(), Answer::Admits | Answer::Refuses | Answer::NeverFits);
            if told && decision.source() == Source::Store && charge.on_failure == FailureMode::Local {
                let quota = charge.quota.stretched(replicas);
                let reset_after = decision.reset_after_micros().saturating_mul(replicas.into());
                let charge = Charge {
                    quota: &quota,
                    ..*charge
                };
                self.memory.tell(&charge, decision.remaining(), reset_after, keeps_less);
            }
        }
    }

    fn with_stretched<T>(&self, charges: &[Charge<'_>], ask: impl FnOnce(&[Charge<'_>]) -> T) -> T {
        let replicas = self.replicas.get();
        if replicas == 1 {
            return ask(charges);
        }
        let quotas: SmallVec<[_; INLINE]> = charges.iter().map(|charge| charge.quota.stretched(replicas)).collect();
        let charges = charges
            .iter()
            .zip(&quotas)
            .map(|(charge, quota)| Charge { quota, ..*charge });
        ask(&charges.collect::<SmallVec<[Charge<'_>; INLINE]>>())
    }
}

fn charge(memory: &MemoryStore, charges: &[Charge<'_>]) -> Outcome {
    match memory.charge(charges) {
        Asked::Now(outcome) => outcome,
        Asked::Later(never) => never.into_outcome(),
    }
}

impl Outcome {
    /// The same decisions, taken by somebody else.
    fn from(mut self, source: Source) -> Self {
        for decision in self.decisions_mut() {
            *decision = decision.with_source(source);
        }
        self
    }
}

pin_project! {
    /// The store's answer, or this process's.
    pub struct FallbackFuture<F> {
        #[pin]
        outcome: F,
        // None where there is nothing to complete: giving back is the store's business alone.
        completing: Option<(OwnedCharges, Arc<StandIn>)>,
    }
}

impl<F: Future<Output = Outcome>> Future for FallbackFuture<F> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.project();
        let outcome = ready!(this.outcome.poll(cx));
        Poll::Ready(match this.completing.take() {
            Some((charges, stand_in)) => stand_in.complete(&charges.borrowed(), outcome),
            None => outcome,
        })
    }
}

impl<St: Clone> Clone for Fallback<St> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            stand_in: Arc::clone(&self.stand_in),
        }
    }
}

impl<St: fmt::Debug> fmt::Debug for Fallback<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback")
            .field("store", &self.store)
            .field("replicas", &self.stand_in.replicas.get())
            .field("local", &self.stand_in.memory)
            .finish()
    }
}

impl<F> fmt::Debug for FallbackFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FallbackFuture").finish_non_exhaustive()
    }
}
