//! A bounded memory, whatever clients send.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use support::charge;
use tower_throttle::Quota;
use tower_throttle::clock::ManualClock;
use tower_throttle::store::memory::Usage;
use tower_throttle::store::{Charge, MemoryStore, TierId};

const HOUR: Duration = Duration::from_secs(3_600);

fn usage_of(store: &MemoryStore, tier: &TierId) -> Usage {
    let mut usage = store.usage().into_iter();
    usage.find(|usage| usage.tier == tier.name()).unwrap()
}

/// The flooded tier never holds more than it may, the other is untouched, and who was refused before still is.
fn flood(quota: Quota, keys: u64, max_keys: usize) {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_keys(max_keys);
    let (flooded, other) = (TierId::new("", "flooded"), TierId::new("", "other"));
    let ask = |tier, key: &[u8], cost| charge(&store, &[Charge::new(tier, key, &quota).cost(cost)]).is_charged();

    assert!(ask(&flooded, b"exhausted", quota.limit()));
    for key in 0..500_u64 {
        assert!(ask(&other, &key.to_be_bytes(), quota.limit()));
    }
    clock.advance(Duration::from_secs(1));
    let mut newcomers = 0;
    for key in 0..keys {
        newcomers += u64::from(ask(&flooded, &key.to_be_bytes(), 1));
        if key % 1_000 == 0 {
            assert!(usage_of(&store, &flooded).keys <= max_keys);
            assert!(
                !ask(&flooded, b"exhausted", 1),
                "refused before, refused still: {quota:?}, {key}"
            );
        }
    }
    assert_eq!(newcomers, keys, "newcomers are admitted");
    let usage = usage_of(&store, &flooded);
    assert!(usage.keys <= max_keys && usage.keys > max_keys * 9 / 10, "{usage:?}");
    assert_eq!(
        usage.forgotten,
        keys + 1 - usage.keys as u64,
        "each one forgotten is counted"
    );
    for key in 0..500_u64 {
        assert!(!ask(&other, &key.to_be_bytes(), 1), "the other tier is untouched");
    }
    assert_eq!(
        (usage_of(&store, &other).keys, usage_of(&store, &other).forgotten),
        (500, 0)
    );
}

#[test]
fn a_million_keys_through_a_store_of_a_thousand() {
    flood(Quota::new(10, HOUR), 1_000_000, 1_000);
}

#[test]
fn a_flood_is_bounded_for_every_algorithm() {
    let quota = Quota::new(10, HOUR);
    for quota in [
        quota.in_steps(HOUR),
        quota.fixed_window(),
        // Its exhausted account ends before those that the flood opens, and must still go last.
        quota.fixed_window_from_first(),
        quota.sliding_window(60),
        quota.weighted_window(),
        quota.sliding_log(),
    ] {
        flood(quota, 20_000, 1_000);
    }
}

#[test]
fn one_key_is_room_for_one() {
    flood_of_one(MemoryStore::new().max_keys(1));
    flood_of_one(MemoryStore::new().max_keys(0));
}

fn flood_of_one(store: MemoryStore) {
    let quota = Quota::new(10, HOUR);
    let tier = TierId::new("", "tier");
    for key in 0..100_u8 {
        assert!(charge(&store, &[Charge::new(&tier, &[key], &quota)]).is_charged());
        assert_eq!(store.keys(), 1);
    }
}

#[test]
fn refused_requests_create_nothing() {
    let store = MemoryStore::new().clock(ManualClock::new());
    let (user, global) = (TierId::new("", "user"), TierId::new("", "global"));
    let (of_user, of_all) = (Quota::new(10, HOUR), Quota::new(1, HOUR));
    let ask = |key: &[u8], cost| {
        let user = Charge::new(&user, key, &of_user).cost(cost);
        charge(&store, &[user, Charge::new(&global, b"", &of_all)]).is_charged()
    };
    assert!(ask(b"first", 1));
    for key in 0..10_000_u64 {
        assert!(!ask(&key.to_be_bytes(), 1));
        assert!(!ask(&key.to_be_bytes(), 11), "nor do those that can never fit");
    }
    assert_eq!(store.keys(), 2);
}

#[test]
fn log_entries_are_bounded() {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_log_entries(10_000);
    let tier = TierId::new("", "tier");
    let quota = Quota::new(100, HOUR).sliding_log();
    let mut most = 0;
    for nth in 0..100_000_u64 {
        clock.advance(Duration::from_micros(1));
        charge(&store, &[Charge::new(&tier, &(nth % 3_000).to_be_bytes(), &quota)]);
        if nth % 500 == 0 {
            most = most.max(usage_of(&store, &tier).log_entries);
        }
    }
    assert!((5_000..=10_000).contains(&most), "{most}");
    assert!(usage_of(&store, &tier).forgotten > 0);

    // A single account may fill its log even where that is more than the bound.
    let small = MemoryStore::new().clock(clock.clone()).max_log_entries(10);
    let admitted = (0..200).filter(|_| {
        clock.advance(Duration::from_micros(1));
        charge(&small, &[Charge::new(&tier, b"key", &quota)]).is_charged()
    });
    assert_eq!(admitted.count(), 100);
}

/// Accounts that are as good as new make room by themselves: 100 live keys at a time, a hundred thousand in all.
#[test]
fn what_has_expired_is_left_behind() {
    for quota in [
        Quota::per_second(1),
        Quota::per_second(1).sliding_log(),
        Quota::per_second(1).fixed_window(),
    ] {
        let clock = ManualClock::new();
        let store = MemoryStore::new().clock(clock.clone());
        let tier = TierId::new("", "tier");
        for key in 0..100_000_u64 {
            clock.advance(Duration::from_millis(10));
            assert!(charge(&store, &[Charge::new(&tier, &key.to_be_bytes(), &quota)]).is_charged());
        }
        assert!(store.keys() < 6_000, "{} held", store.keys());
        assert_eq!(usage_of(&store, &tier).forgotten, 0, "none that still counted");
    }
}

/// Accounts are told apart by a hash; of a hundred thousand none may find another's.
#[test]
fn keys_do_not_share_accounts() {
    let store = MemoryStore::new().clock(ManualClock::new()).max_keys(200_000);
    let tier = TierId::new("", "tier");
    let quota = Quota::new(1, HOUR);
    let ask = |key: u64| charge(&store, &[Charge::new(&tier, &key.to_be_bytes(), &quota)]).is_charged();
    assert!((0..100_000).all(ask));
    assert!(!(0..100_000).any(ask));
    assert_eq!(store.keys(), 100_000);
}
