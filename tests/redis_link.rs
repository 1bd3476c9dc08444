//! The connection to Redis, and how it is kept.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use support::outcome;
use support::redis::{PATIENT, Server, free_port, until};
use tower_throttle::Quota;
use tower_throttle::store::{Charge, Outcome, RedisStore, Source, Store, TierId};

const MINUTE: Duration = Duration::from_secs(60);

fn source(outcome: &Outcome) -> Source {
    outcome.decisions()[0].source()
}

/// A connection that was closed while nobody used it is replaced before anybody does.
#[tokio::test]
async fn an_idle_connection_is_kept() {
    let server = Server::start();
    let store = RedisStore::new(server.url()).unwrap();
    store.connected().await.unwrap();
    let _: u64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    until("it is replaced", || store.stats().connects == 2).await;
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let decided = outcome(
        store
            .clone()
            .deadline(PATIENT)
            .charge(&[Charge::new(&tier, b"key", &quota)]),
    )
    .await;
    assert_eq!(source(&decided), Source::Store);
    assert_eq!((store.stats().outages, store.stats().disconnected), (0, 0));
}

/// Callers with less patience than the deadline do not keep an outage from being found out.
#[tokio::test]
async fn calls_given_up_are_looked_after() {
    let server = Server::start();
    let store = RedisStore::new(server.url())
        .unwrap()
        .deadline(Duration::from_millis(200));
    store.connected().await.unwrap();
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota)];
    server.signal("-STOP");
    let start = std::time::Instant::now();
    while !store.is_down() {
        assert!(start.elapsed() < PATIENT, "it is found out");
        let asked = outcome(store.charge(&charge));
        let _ = tokio::time::timeout(Duration::from_millis(5), asked).await;
    }
    assert_eq!(store.stats().timeouts, 0);
    server.signal("-CONT");
    until("it is back", || !store.is_down()).await;
    // And where there is an answer, giving up is nobody's fault.
    for _ in 0..50 {
        let _ = tokio::time::timeout(Duration::ZERO, outcome(store.charge(&charge))).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(store.stats().outages, 1);
}

/// After a stall the connection is used on: a fleet that connected anew all at once would be the next one.
#[tokio::test]
async fn a_stall_costs_no_connection() {
    let server = Server::start();
    let store = RedisStore::new(server.url())
        .unwrap()
        .deadline(Duration::from_millis(500))
        .connect_timeout(PATIENT);
    store.connected().await.unwrap();
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota)];
    server.signal("-STOP");
    let calls: Vec<_> = (0..8).map(|_| tokio::spawn(outcome(store.charge(&charge)))).collect();
    for call in calls {
        assert_eq!(source(&call.await.unwrap()), Source::Local);
    }
    assert!(store.is_down());
    server.signal("-CONT");
    until("it is back", || !store.is_down()).await;
    assert_eq!((store.stats().connects, store.stats().outages), (1, 1));
    assert_eq!(source(&outcome(store.charge(&charge)).await), Source::Store);
}

/// What is set around the connection leaves it as it is.
#[tokio::test]
async fn a_connected_store_stays_connected() {
    let server = Server::start();
    let store = RedisStore::connect(server.url()).await.unwrap();
    let store = store.replicas(4).remembered_refusals(10);
    assert_eq!(store.stats().connects, 1);
}

/// A runtime may end at any moment, also while a connection is being made or has just failed: nothing hangs.
#[test]
fn a_runtime_may_end_at_any_moment() {
    let server = Server::start();
    let gone = format!("redis://127.0.0.1:{}", free_port());
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
        for round in 0..200 {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            for url in [server.url(), gone.clone()] {
                let store = RedisStore::new(url).unwrap();
                for _ in 0..4 {
                    let (store, tier) = (store.clone(), tier.clone());
                    runtime.spawn(async move {
                        loop {
                            let _ = outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
                            tokio::task::yield_now().await;
                        }
                    });
                }
            }
            std::thread::sleep(Duration::from_micros(20 * round));
            drop(runtime);
        }
        sender.send(()).unwrap();
    });
    ended.recv_timeout(6 * PATIENT).expect("every runtime ends");
}

/// No length of time is too long to be waited for.
#[tokio::test]
async fn limits_may_be_anything() {
    let server = Server::start();
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota)];
    let store = RedisStore::new(server.url()).unwrap();
    let patient = store.deadline(Duration::MAX).connect_timeout(Duration::MAX);
    assert_eq!(
        source(
            &outcome(
                patient
                    .max_in_flight(usize::MAX)
                    .remembered_refusals(usize::MAX)
                    .charge(&charge)
            )
            .await
        ),
        Source::Store
    );
    let sentinel = RedisStore::sentinel([server.url()], "none").unwrap();
    let hasty = sentinel.deadline(Duration::ZERO).connect_timeout(Duration::MAX);
    assert_eq!(source(&outcome(hasty.charge(&charge)).await), Source::Local);
}
