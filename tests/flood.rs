//! Ten million keys, each asked for once, through a tier that holds a hundred thousand.
//!
//! How long the decisions take is measured by `cargo run --release -p bench -- flood`; no test depends on that.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use support::charge;
use tower_throttle::Quota;
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Charge, MemoryStore, TierId};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const KEYS: u64 = 10_000_000;
const CAP: usize = 100_000;
const VICTIMS: u64 = 1_000;
const HONEST: u64 = 100_000;

/// What the documentation of the store says that a table may take: 62.5 bytes for each key of a token bucket, and
/// something for each of its shards.
fn most_bytes(max_keys: usize) -> usize {
    let shards = (max_keys / 256).clamp(1, 1_024).max(max_keys / 1_024);
    max_keys * 40 * 25 / 16 + shards * 320
}

#[test]
fn a_flood_of_ten_million_keys() {
    let clock = ManualClock::new();
    let before = LIVE.load(Ordering::Relaxed);
    let store = MemoryStore::new().clock(clock.clone()).max_keys(CAP);
    let (flooded, other) = (TierId::new("", "flooded"), TierId::new("", "other"));
    let quota = Quota::per_hour(10);
    let ask = |tier: &TierId, key: u64| charge(&store, &[Charge::new(tier, &key.to_be_bytes(), &quota)]);

    // Some were there before: in another tier, and in this one those who are being refused.
    let others = 50_000;
    for key in 0..others {
        for _ in 0..10 {
            assert!(ask(&other, key).is_charged());
        }
    }
    let victim = |nth: u64| u64::MAX - nth % VICTIMS;
    for nth in 0..VICTIMS {
        while ask(&flooded, victim(nth)).is_charged() {}
    }
    let wait = ask(&flooded, victim(0)).decisions()[0].retry_after().unwrap();
    let every = Duration::from_secs(60) / 100_000;

    let (mut admitted, mut honest) = (0, 0);
    for nth in 0..KEYS {
        if nth % 100 == 0 {
            clock.advance(every);
            assert!(
                !ask(&flooded, victim(nth / 100)).is_charged(),
                "refused before, refused still"
            );
        }
        if nth % (KEYS / HONEST) == 50 {
            // Somebody honest, with one request.
            honest += u64::from(ask(&flooded, 1 << 40 | nth).is_charged());
        }
        admitted += u64::from(ask(&flooded, 1 << 32 | nth).is_charged());
    }

    assert!(
        honest * 100 >= HONEST * 99,
        "{honest} of {HONEST} honest newcomers admitted"
    );
    assert_eq!(admitted, KEYS, "as each of the flood is, too");
    let peak = PEAK.load(Ordering::Relaxed) - before;
    assert!(
        peak <= 2 * most_bytes(CAP),
        "{peak} bytes, {} may be",
        2 * most_bytes(CAP)
    );

    let usage = store.usage();
    let [of_flooded, of_other] =
        ["flooded", "other"].map(|name| usage.iter().find(|usage| usage.tier == name).unwrap());
    assert!(of_flooded.keys <= CAP);
    let opened = KEYS + HONEST + VICTIMS;
    assert_eq!(
        of_flooded.forgotten,
        opened - of_flooded.keys as u64,
        "each one forgotten is counted"
    );
    assert_eq!(
        (of_other.keys as u64, of_other.forgotten),
        (others, 0),
        "the other tier is untouched"
    );
    assert!(
        !(0..others).any(|key| ask(&other, key).is_charged()),
        "and refuses whom it refused"
    );

    // Their time comes when they were told it would.
    clock.advance(wait - every * (KEYS / 100) as u32 - Duration::from_micros(1));
    assert!(!ask(&flooded, victim(0)).is_charged());
    clock.advance(Duration::from_micros(1));
    assert!((0..VICTIMS).all(|nth| ask(&flooded, victim(nth)).is_charged()));
}
