//! Stores that break the contract in ways that others have shipped: the suite must find each of them.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use tower_throttle::Quota;
use tower_throttle::store::{Answer, Asked, Charge, Decision, MemoryStore, Outcome, Receipt, Store, TierId};

use crate::now;

type Never = <MemoryStore as Store>::Future;

/// Charges tiers one after another, and stops at the first that refuses.
pub(crate) struct OneAfterAnother(pub(crate) MemoryStore);

impl Store for OneAfterAnother {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let mut admitted = true;
        let mut at = now(self.0.charge(&[])).now();
        let mut decisions = Vec::new();
        for charge in charges {
            let charge = if admitted { *charge } else { charge.cost(0) };
            let outcome = now(self.0.charge(&[charge]));
            admitted &= outcome.is_charged();
            at = outcome.now();
            decisions.extend_from_slice(outcome.decisions());
        }
        Asked::Now(Outcome::new(at, decisions))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        self.0.give_back(charges, receipt)
    }
}

/// Charges an account for requests that it refuses, as counters that are incremented first do.
pub(crate) struct ChargesRefusals(pub(crate) MemoryStore);

impl Store for ChargesRefusals {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let outcome = now(self.0.charge(charges));
        for (charge, decision) in charges.iter().zip(outcome.decisions()) {
            if decision.answer() == Answer::Refuses
                && charge.quota.algorithm() == tower_throttle::Algorithm::TokenBucket
            {
                let roomy = charge.quota.burst(charge.quota.burst_size() * 1_000);
                now(self
                    .0
                    .charge(&[Charge::new(charge.tier, charge.key, &roomy).cost(charge.cost)]));
            }
        }
        Asked::Now(outcome)
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        self.0.give_back(charges, receipt)
    }
}

/// Rounds waits down, to milliseconds.
pub(crate) struct FloorsTheWait(pub(crate) MemoryStore);

impl Store for FloorsTheWait {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let outcome = now(self.0.charge(charges));
        let floored = outcome.decisions().iter().map(|decision| {
            let wait = decision.retry_after().unwrap_or_default();
            decision.with_retry_after(Duration::from_millis(wait.as_millis() as u64))
        });
        Asked::Now(Outcome::new(outcome.now(), floored))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        self.0.give_back(charges, receipt)
    }
}

/// Says that it gave back, and did not.
pub(crate) struct LosesGiveBacks(pub(crate) MemoryStore);

impl Store for LosesGiveBacks {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        self.0.charge(charges)
    }

    fn give_back(&self, charges: &[Charge<'_>], _: Receipt) -> Asked<Never> {
        let looks: Vec<_> = charges.iter().map(|charge| charge.cost(0)).collect();
        self.0.charge(&looks)
    }
}

/// Gives back all that was charged, however much of it was refilled meanwhile.
pub(crate) struct GivesBackTooMuch(pub(crate) MemoryStore);

impl Store for GivesBackTooMuch {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        self.0.charge(charges)
    }

    fn give_back(&self, charges: &[Charge<'_>], _: Receipt) -> Asked<Never> {
        // A receipt as if the charge had just been made.
        let again: Vec<_> = charges.iter().map(|charge| charge.cost(1)).collect();
        let fresh = now(self.0.charge(&again));
        match fresh.into_receipt() {
            Some(receipt) => self.0.give_back(
                &charges
                    .iter()
                    .map(|charge| charge.cost(charge.cost + 1))
                    .collect::<Vec<_>>(),
                receipt,
            ),
            None => self.0.charge(&[]),
        }
    }
}

/// Forgets used accounts at random: every 50th call meets a new one.
pub(crate) struct Forgets {
    pub(crate) store: MemoryStore,
    pub(crate) calls: AtomicU64,
}

impl Store for Forgets {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        if call % 50 != 49 {
            return self.store.charge(charges);
        }
        let elsewhere = TierId::new("forgotten", &call.to_string());
        let charges: Vec<_> = (charges.iter().zip(0..))
            .map(|(charge, nth)| {
                Charge::new(&elsewhere, charge.key, charge.quota)
                    .nth(nth)
                    .cost(charge.cost)
            })
            .collect();
        self.store.charge(&charges)
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        self.store.give_back(charges, receipt)
    }
}

/// Looks first and charges then, in two steps.
pub(crate) struct LooksThenCharges(pub(crate) MemoryStore);

impl Store for LooksThenCharges {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let looks: Vec<_> = charges.iter().map(|charge| charge.cost(0)).collect();
        let seen = now(self.0.charge(&looks));
        let fits = |(charge, look): (&Charge<'_>, &Decision)| charge.cost <= look.remaining();
        if !charges.iter().zip(seen.decisions()).all(fits) {
            return self.0.charge(charges);
        }
        // Long enough that others come in between, on however few cores.
        (0..100).for_each(|_| thread::yield_now());
        for charge in charges {
            let roomy = Quota::new(charge.quota.limit() * 2, charge.quota.period());
            let roomy = match charge.quota.algorithm() {
                tower_throttle::Algorithm::FixedWindow { aligned: false } => roomy.fixed_window_from_first(),
                _ => return self.0.charge(charges),
            };
            now(self.0.charge(&[Charge::new(charge.tier, charge.key, &roomy)
                .nth(charge.nth)
                .cost(charge.cost)]));
        }
        let after = now(self.0.charge(&looks));
        Asked::Now(Outcome::new(after.now(), after.decisions().to_vec()))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        self.0.give_back(charges, receipt)
    }
}

/// Charges one tier at each poll, so that a dropped future leaves some of them.
pub(crate) struct ChargesWhilePolled(pub(crate) MemoryStore);

pub(crate) struct Steps {
    store: MemoryStore,
    charges: Vec<(TierId, u8, Vec<u8>, Quota, u64)>,
    decisions: Vec<Decision>,
}

impl Future for Steps {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let step = self.decisions.len();
        if let Some((tier, nth, key, quota, cost)) = self.charges.get(step) {
            let outcome = now(self
                .store
                .charge(&[Charge::new(tier, key, quota).nth(*nth).cost(*cost)]));
            let decision = outcome.decisions()[0];
            self.decisions.push(decision);
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let at = now(self.store.charge(&[])).now();
        Poll::Ready(Outcome::new(at, self.decisions.clone()))
    }
}

impl Store for ChargesWhilePolled {
    type Future = Steps;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Steps> {
        let owned = charges.iter().map(|charge| {
            (
                charge.tier.clone(),
                charge.nth,
                charge.key.to_vec(),
                *charge.quota,
                charge.cost,
            )
        });
        Asked::Later(Steps {
            store: self.0.clone(),
            charges: owned.collect(),
            decisions: Vec::new(),
        })
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Steps> {
        Asked::Now(now(self.0.give_back(charges, receipt)))
    }
}

/// Not broken: a store that answers later, as a remote one does.
pub(crate) struct Later(pub(crate) MemoryStore);

impl Store for Later {
    type Future = Ready<Outcome>;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Ready<Outcome>> {
        if charges.is_empty() {
            return Asked::Now(now(self.0.charge(charges)));
        }
        Asked::Later(ready(now(self.0.charge(charges))))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Ready<Outcome>> {
        Asked::Later(ready(now(self.0.give_back(charges, receipt))))
    }
}
