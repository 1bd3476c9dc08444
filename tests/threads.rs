//! Many threads at once: never more than the quota, and nothing lost on the way.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::{Random, charge};
use tower_throttle::Quota;
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Charge, MemoryStore, TierId};

const THREADS: u64 = 8;
const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn exactly_the_quota_is_admitted_of_many() {
    let quota = Quota::new(1_000, HOUR);
    for quota in [
        quota,
        quota.in_steps(HOUR / 10),
        quota.fixed_window(),
        quota.fixed_window_from_first(),
        quota.sliding_window(60),
        quota.weighted_window(),
        quota.sliding_log(),
    ] {
        let store = MemoryStore::new().clock(ManualClock::new());
        let tier = TierId::new("", "tier");
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let outcome = charge(&store, &[Charge::new(&tier, b"key", &quota)]);
                        admitted.fetch_add(outcome.is_charged().into(), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000, "{quota:?}");
    }
}

/// While the real clock runs, a bucket admits its burst and what was refilled, and not one more.
#[test]
fn a_running_clock_refills_and_no_more() {
    let quota = Quota::per_second(10_000).burst(100);
    let store = MemoryStore::new();
    let tier = TierId::new("", "tier");
    let ask = || charge(&store, &[Charge::new(&tier, b"key", &quota)]);
    let start = ask().now().as_micros();
    let (admitted, last) = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let mut admitted = 0;
                    let mut last = 0;
                    for _ in 0..20_000 {
                        let outcome = ask();
                        admitted += u64::from(outcome.is_charged());
                        last = outcome.now().as_micros();
                    }
                    (admitted, last)
                })
            })
            .collect();
        let results = workers.into_iter().map(|worker| worker.join().unwrap());
        results.fold((1, 0), |(admitted, last), (more, at)| (admitted + more, last.max(at)))
    });
    let refilled = (last - start) / 100;
    assert!(admitted <= 100 + refilled, "{admitted} of 100 and {refilled} refilled");
    assert!(admitted >= 100, "at least the burst: {admitted}");
}

/// Three tiers, random users, costs and orders of tiers, refusals at every tier: in the end each account holds
/// exactly what was admitted.
#[test]
fn every_account_holds_exactly_the_admitted_charges() {
    const USERS: usize = 20;
    let kinds: [fn(Quota) -> Quota; 6] = [
        |quota| quota,
        |quota| quota.in_steps(HOUR / 10),
        Quota::fixed_window,
        Quota::weighted_window,
        Quota::sliding_log,
        |quota| quota.sliding_window(10),
    ];
    for kind in kinds {
        let store = MemoryStore::new().clock(ManualClock::new());
        let tiers = ["user", "endpoint", "global"].map(|name| TierId::new("", name));
        let quotas = [60, 350, 900].map(|limit| kind(Quota::new(limit, HOUR)));
        let user_holds: Vec<_> = (0..USERS).map(|_| AtomicU64::new(0)).collect();
        let endpoint_holds: Vec<_> = (0..3).map(|_| AtomicU64::new(0)).collect();
        let global_holds = AtomicU64::new(0);
        let refused = AtomicU64::new(0);
        thread::scope(|scope| {
            for seed in 0..THREADS {
                let (store, tiers, quotas) = (&store, &tiers, &quotas);
                let (user_holds, endpoint_holds) = (&user_holds, &endpoint_holds);
                let (global_holds, refused) = (&global_holds, &refused);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..300 {
                        let user = random.below(USERS as u64) as usize;
                        let endpoint = random.below(3) as usize;
                        let cost = random.below(5);
                        let keys = [[user as u8], [endpoint as u8], [0]];
                        let mut charges: Vec<_> = (0..3)
                            .map(|tier| Charge::new(&tiers[tier], &keys[tier], &quotas[tier]).cost(cost))
                            .collect();
                        random.shuffle(&mut charges);
                        if charge(store, &charges).is_charged() {
                            user_holds[user].fetch_add(cost, Ordering::Relaxed);
                            endpoint_holds[endpoint].fetch_add(cost, Ordering::Relaxed);
                            global_holds.fetch_add(cost, Ordering::Relaxed);
                        } else {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(refused.into_inner() > 100, "refusals happened");
        let held = |tier: usize, key: usize| {
            let key = [key as u8];
            let look = Charge::new(&tiers[tier], &key, &quotas[tier]).cost(0);
            quotas[tier].limit() - charge(&store, &[look]).decisions()[0].remaining()
        };
        for (user, holds) in user_holds.into_iter().enumerate() {
            assert_eq!(held(0, user), holds.into_inner(), "user {user}");
        }
        for (endpoint, holds) in endpoint_holds.into_iter().enumerate() {
            assert_eq!(held(1, endpoint), holds.into_inner(), "endpoint {endpoint}");
        }
        assert_eq!(held(2, 0), global_holds.into_inner());
    }
}

/// A client refused at its own tier takes nothing from what all share.
#[test]
fn a_flood_by_one_user_costs_another_nothing() {
    let store = MemoryStore::new().clock(ManualClock::new());
    let (user, global) = (TierId::new("", "user"), TierId::new("", "global"));
    let (of_user, of_all) = (Quota::new(10, HOUR), Quota::new(20, HOUR));
    let ask = |name: &[u8]| {
        let outcome = charge(
            &store,
            &[Charge::new(&user, name, &of_user), Charge::new(&global, b"", &of_all)],
        );
        outcome.is_charged()
    };
    let flooded: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| scope.spawn(|| (0..2_000).filter(|_| ask(b"mallory")).count()))
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(flooded, 10);
    assert_eq!(
        (0..10).filter(|_| ask(b"ann")).count(),
        10,
        "every request of the other succeeds"
    );
}
