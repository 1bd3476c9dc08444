//! The same contract, kept by Redis: by a clock of the test's own, in a server of the test's own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Mutex;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Either, MemoryStore, RedisStore, Store};

use crate::suite::{Subject, broken_clauses};
use crate::support::redis::{PATIENT, Server, ask};

struct InRedis<'a, St> {
    store: St,
    redis: RedisStore,
    connection: Mutex<redis::Connection>,
    clock: ManualClock,
    runtime: &'a Runtime,
}

impl<St: Store> Subject for InRedis<'_, St> {
    type Store = St;

    fn store(&self) -> &St {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn accounts(&self) -> Option<usize> {
        Some(ask(&mut self.connection.lock().unwrap(), &["DBSIZE"]))
    }

    fn runtime(&self) -> &Runtime {
        self.runtime
    }
}

/// What was decided here was decided by Redis.
impl<St> Drop for InRedis<'_, St> {
    fn drop(&mut self) {
        assert!(self.redis.last_error().is_none(), "{:?}", self.redis.last_error());
    }
}

fn broken<St: Store>(parameters: &str, wrap: impl Fn(RedisStore) -> St) -> Vec<&'static str> {
    let server = Server::start();
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    broken_clauses(|| {
        let mut connection = server.connection();
        let () = ask(&mut connection, &["FLUSHALL"]);
        let clock = ManualClock::new();
        let store = RedisStore::new(format!("{}/{parameters}", server.url()))
            .unwrap()
            .deadline(PATIENT)
            // It would answer by a clock of its own.
            .remembered_refusals(0)
            .test_clock(clock.clone(), Duration::from_secs(3_600));
        InRedis {
            store: wrap(store.clone()),
            redis: store,
            connection: Mutex::new(connection),
            clock,
            runtime: &runtime,
        }
    })
}

#[test]
fn the_redis_store_keeps_the_contract() {
    assert_eq!(broken("", |store| store), [""; 0]);
}

#[test]
fn the_redis_store_keeps_it_over_resp3_too() {
    assert_eq!(broken("?protocol=resp3", |store| store), [""; 0]);
}

#[test]
fn a_store_chosen_at_run_time_keeps_it_too() {
    assert_eq!(broken("", Either::<_, MemoryStore>::Left), [""; 0]);
}
