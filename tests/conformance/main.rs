//! Every store of ours keeps the contract; and the suite that says so fails on stores that do not.

#[path = "../support/mod.rs"]
mod support;

mod broken;
#[cfg(feature = "redis")]
mod redis;
mod suite;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use suite::{Subject, broken_clauses};
use tokio::runtime::{Builder, Runtime};
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Asked, MemoryStore, Outcome, Store};

/// The outcome of a store that answers at once.
fn now<F>(asked: Asked<F>) -> Outcome {
    match asked {
        Asked::Now(outcome) => outcome,
        Asked::Later(_) => unreachable!("memory answers at once"),
    }
}

struct InMemory<St> {
    store: St,
    memory: MemoryStore,
    clock: ManualClock,
    runtime: Runtime,
}

fn in_memory<St>(wrap: impl Fn(MemoryStore) -> St) -> impl Fn() -> InMemory<St> {
    move || {
        let clock = ManualClock::new();
        let memory = MemoryStore::new().clock(clock.clone());
        InMemory {
            store: wrap(memory.clone()),
            memory,
            clock,
            runtime: Builder::new_current_thread().build().expect("a runtime"),
        }
    }
}

impl<St: Store> Subject for InMemory<St> {
    type Store = St;

    fn store(&self) -> &St {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn accounts(&self) -> Option<usize> {
        Some(self.memory.keys())
    }

    fn runtime(&self) -> &Runtime {
        &self.runtime
    }
}

#[test]
fn the_memory_store_keeps_the_contract() {
    assert_eq!(broken_clauses(in_memory(|memory| memory)), [""; 0]);
}

#[test]
fn a_store_that_answers_later_can_keep_it_too() {
    assert_eq!(broken_clauses(in_memory(broken::Later)), [""; 0]);
}

#[test]
fn the_suite_finds_a_store_that_charges_tiers_one_after_another() {
    let broken = broken_clauses(in_memory(broken::OneAfterAnother));
    assert!(broken.contains(&"all_or_nothing"), "{broken:?}");
    assert!(broken.contains(&"all_or_nothing_for_many_threads"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_charges_refusals() {
    let broken = broken_clauses(in_memory(broken::ChargesRefusals));
    assert!(broken.contains(&"a_refusal_charges_nothing"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_floors_the_wait() {
    let broken = broken_clauses(in_memory(broken::FloorsTheWait));
    assert!(broken.contains(&"the_wait_is_true"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_loses_a_give_back() {
    let broken = broken_clauses(in_memory(broken::LosesGiveBacks));
    assert!(broken.contains(&"giving_back_restores"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_gives_back_too_much() {
    let broken = broken_clauses(in_memory(broken::GivesBackTooMuch));
    assert!(broken.contains(&"giving_back_is_strict"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_forgets_used_accounts() {
    let broken = broken_clauses(in_memory(|store| broken::Forgets {
        store,
        calls: AtomicU64::new(0),
    }));
    assert!(broken.contains(&"accounts_are_remembered"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_looks_and_then_charges() {
    let broken = broken_clauses(in_memory(broken::LooksThenCharges));
    assert!(broken.contains(&"all_or_nothing_for_many_threads"), "{broken:?}");
}

#[test]
fn the_suite_finds_a_store_that_charges_while_polled() {
    let broken = broken_clauses(in_memory(broken::ChargesWhilePolled));
    assert!(broken.contains(&"cancellation"), "{broken:?}");
}
