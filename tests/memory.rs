//! A bounded memory, whatever clients send.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use support::charge;
use tower_throttle::Quota;
use tower_throttle::clock::{Clock, ManualClock, Timestamp};
use tower_throttle::store::memory::{Never, Usage};
use tower_throttle::store::{Asked, Charge, MemoryStore, Outcome, Store as _, TierId};

const HOUR: Duration = Duration::from_secs(3_600);

fn now(asked: Asked<Never>) -> Outcome {
    match asked {
        Asked::Now(outcome) => outcome,
        Asked::Later(_) => panic!("memory answers at once"),
    }
}

fn usage_of(store: &MemoryStore, tier: &TierId) -> Usage {
    let mut usage = store.usage().into_iter();
    usage.find(|usage| usage.tier == tier.name()).unwrap()
}

/// The flooded tier never holds more than it may, the other is untouched, and those who were refused before, a tenth
/// of all that it can hold, still are.
fn flood(quota: Quota, newcomers: u64, cost: u64, max_keys: usize) {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_keys(max_keys);
    let (flooded, other) = (TierId::new("", "flooded"), TierId::new("", "other"));
    let ask =
        |tier, key: u64, cost| charge(&store, &[Charge::new(tier, &key.to_be_bytes(), &quota).cost(cost)]).is_charged();
    let exhausted = || (0..max_keys as u64 / 10).map(|nth| u64::MAX - nth);

    assert!(exhausted().all(|key| ask(&flooded, key, quota.limit())));
    assert!((0..500).all(|key| ask(&other, key, quota.limit())));
    clock.advance(Duration::from_secs(1));
    for key in 0..newcomers {
        assert!(ask(&flooded, key, cost), "newcomers are admitted");
        if key % 1_000 == 0 {
            assert!(usage_of(&store, &flooded).keys <= max_keys);
        }
    }
    let freed = exhausted().filter(|key| ask(&flooded, *key, 1)).count();
    assert_eq!(freed, 0, "refused before, refused still: {quota:?}");
    let usage = usage_of(&store, &flooded);
    assert!(usage.keys <= max_keys && usage.keys > max_keys * 9 / 10, "{usage:?}");
    let opened = newcomers + exhausted().count() as u64;
    assert_eq!(
        usage.forgotten,
        opened - usage.keys as u64,
        "each one forgotten is counted"
    );
    assert!(!(0..500).any(|key| ask(&other, key, 1)), "the other tier is untouched");
    assert_eq!(
        (usage_of(&store, &other).keys, usage_of(&store, &other).forgotten),
        (500, 0)
    );
}

#[test]
fn a_million_keys_through_a_store_of_a_thousand() {
    flood(Quota::new(10, HOUR), 1_000_000, 1, 1_000);
}

#[test]
fn a_flood_is_bounded_for_every_algorithm() {
    let quota = Quota::new(10, HOUR);
    for quota in [
        quota,
        quota.in_steps(HOUR),
        quota.in_aligned_steps(HOUR / 10),
        quota.fixed_window(),
        // Its exhausted account ends before those that the flood opens, and must still go last.
        quota.fixed_window_from_first(),
        quota.sliding_window(60),
        quota.weighted_window(),
        quota.sliding_log(),
    ] {
        flood(quota, 20_000, 1, 1_000);
        // Nearly exhausted ones are still not refused.
        flood(quota, 20_000, 9, 1_000);
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
    assert!((9_000..=10_000).contains(&most), "{most}");
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

/// Many threads at once through a small table: never more than the cap, not even by one.
#[test]
fn the_cap_holds_for_many_threads() {
    for max_keys in [1, 300, 4_096] {
        let store = MemoryStore::new().clock(ManualClock::new()).max_keys(max_keys);
        let tier = TierId::new("", "tier");
        let quota = Quota::new(10, HOUR);
        thread::scope(|scope| {
            for worker in 0..4_u64 {
                let (store, tier, quota) = (&store, &tier, &quota);
                scope.spawn(move || {
                    for nth in 0..20_000 {
                        let key = (worker * 1_000_000 + nth).to_be_bytes();
                        assert!(charge(store, &[Charge::new(tier, &key, quota)]).is_charged());
                    }
                });
            }
        });
        let held = store.keys();
        assert!(held <= max_keys && held * 10 >= max_keys * 9, "{held} of {max_keys}");
    }
}

/// "As many as there are", as some write it.
#[test]
fn no_cap_is_a_cap() {
    let store = MemoryStore::new().max_keys(usize::MAX);
    let tier = TierId::new("", "tier");
    let quota = Quota::new(1, HOUR);
    assert!(charge(&store, &[Charge::new(&tier, b"key", &quota)]).is_charged());
    assert!(!charge(&store, &[Charge::new(&tier, b"key", &quota)]).is_charged());
}

/// Shows what it was told to show, and then the last of it.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<VecDeque<u64>>>);

impl Script {
    fn shows(&self, micros: impl IntoIterator<Item = u64>) {
        *self.0.lock().unwrap() = micros.into_iter().collect();
    }
}

impl Clock for Script {
    fn now(&self) -> Timestamp {
        let mut shown = self.0.lock().unwrap();
        let next = if shown.len() > 1 {
            shown.pop_front()
        } else {
            shown.front().copied()
        };
        Timestamp::from_micros(next.unwrap_or_default())
    }
}

const START: u64 = 1_800_000_000_000_000;

/// A thread that reads the clock and then sleeps, while others go on, must not take the account back to its time.
#[test]
fn a_thread_that_slept_moves_no_account() {
    let script = Script::default();
    let store = MemoryStore::new().clock(script.clone());
    let tier = TierId::new("", "tier");
    let quota = Quota::per_minute(60);
    let ask = || store.charge(&[Charge::new(&tier, b"key", &quota)]);
    script.shows([START]);
    let receipts: Vec<_> = (0..60).filter_map(|_| now(ask()).into_receipt()).collect();
    assert_eq!(receipts.len(), 60);

    // It read the clock 10 s ago; when it has the lock and looks again, it sees the time.
    script.shows([START - 10_000_000, START]);
    assert!(!now(ask()).is_charged());
    script.shows([START + 1_000_000]);
    assert!(now(ask()).is_charged(), "one has been refilled meanwhile");
    assert!(!now(ask()).is_charged(), "but no more than one");

    // And receipts are good still.
    let charges = [Charge::new(&tier, b"key", &quota)];
    let _ = store.give_back(&charges, receipts.into_iter().next_back().unwrap());
    assert!(now(ask()).is_charged());
}

/// The window of the account that was dropped is over; a clock that is behind must not open it again.
#[test]
fn nobody_is_new_before_what_was_dropped() {
    let script = Script::default();
    let store = MemoryStore::new().max_keys(2_000).clock(script.clone());
    let tier = TierId::new("", "tier");
    let quota = Quota::new(10, Duration::from_millis(100)).fixed_window();
    let ask = |key: u64| now(store.charge(&[Charge::new(&tier, &key.to_be_bytes(), &quota)])).is_charged();
    script.shows([START]);
    assert!((0..10).all(|_| ask(7)));
    // So many newcomers in the next window that the shard has grown, and left the old account out.
    script.shows([START + 100_000]);
    assert!((100..1_000).all(ask));
    script.shows([START + 50_000]);
    assert!(ask(7));
    script.shows([START + 100_000]);
    assert_eq!(
        (0..10).filter(|_| ask(7)).count(),
        9,
        "it was admitted in the window that is"
    );

    // Far behind, the clock has been set back, and is followed.
    script.shows([START - 10_000_000]);
    assert!((0..10).all(|_| ask(8)));
    assert!(!ask(8));
}

/// Plans share accounts. A flood of keys of a large plan must not free those whom a small one refuses.
#[test]
fn a_flood_under_another_plan_frees_nobody_who_asks() {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_keys(1_000);
    let tier = TierId::new("", "tier");
    let (free, pro) = (
        Quota::new(10, HOUR).fixed_window(),
        Quota::new(1_000, HOUR).fixed_window(),
    );
    let ask = |key: u64, quota: &Quota, cost| {
        charge(&store, &[Charge::new(&tier, &key.to_be_bytes(), quota).cost(cost)]).is_charged()
    };
    assert!((0..100).all(|key| ask(key, &free, 10)));
    assert!(!(0..100).any(|key| ask(key, &free, 1)), "they are being refused");
    assert!((1_000..11_000).all(|key| ask(key, &pro, 20)));
    assert!(!(0..100).any(|key| ask(key, &free, 1)), "and still are");
}

/// Keys that each spend all they may are used up like the one that is being refused, but they were not refused yet.
#[test]
fn a_flood_that_spends_all_frees_nobody_who_asks() {
    for limit in [1, 5] {
        let store = MemoryStore::new().clock(ManualClock::new()).max_keys(1_000);
        let tier = TierId::new("", "tier");
        for quota in [Quota::new(limit, HOUR), Quota::new(limit, HOUR).fixed_window()] {
            let ask = |key: u64, cost| {
                charge(&store, &[Charge::new(&tier, &key.to_be_bytes(), &quota).cost(cost)]).is_charged()
            };
            assert!(ask(7, limit));
            let mut admitted = 0;
            for key in 100..8_100 {
                assert!(ask(key, limit));
                admitted += u64::from(key % 100 == 0 && ask(7, 1));
            }
            assert_eq!(admitted, 0, "{quota:?}");
        }
    }
}

/// Logs of very different lengths in one tier: within the bound nobody is forgotten.
#[test]
fn within_the_bound_no_log_is_forgotten() {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_log_entries(100_000);
    let tier = TierId::new("", "tier");
    let (free, pro) = (Quota::new(5, HOUR).sliding_log(), Quota::new(5_000, HOUR).sliding_log());
    let ask = |key: u64, quota: &Quota| {
        clock.advance(Duration::from_micros(1));
        charge(&store, &[Charge::new(&tier, &key.to_be_bytes(), quota)]).is_charged()
    };
    for key in 0..5_000 {
        assert!((0..5).all(|_| ask(key, &free)));
    }
    for key in 10_000..10_010 {
        assert!((0..5_000).all(|_| ask(key, &pro)));
    }
    assert_eq!(usage_of(&store, &tier).log_entries, 75_000);
    assert_eq!(usage_of(&store, &tier).forgotten, 0);
    assert!(!(0..5_000).any(|key| ask(key, &free)));
    // Beyond it, somebody must go.
    for key in 20_000..20_020 {
        assert!((0..5_000).all(|_| ask(key, &pro)));
        assert!(usage_of(&store, &tier).log_entries <= 100_000);
    }
    assert!(usage_of(&store, &tier).forgotten > 0);
}
