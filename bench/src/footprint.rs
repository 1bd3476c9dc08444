//! What a request costs the heap, and a key the memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Charge, MemoryStore, Store as _, TierId};

use crate::algorithms::algorithms;
use crate::load::{Contender, Load, NoOp, contender};
use crate::peers::{Refusing, axum_governor, governor, tower_governor, tower_throttle};

/// The system's allocator, which counts while it is told to.
pub(crate) struct Counting;

static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is left to the system's allocator; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_COUNTING.load(Ordering::Relaxed) {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
            let live = LIVE
                .fetch_add(layout.size(), Ordering::Relaxed)
                .wrapping_add(layout.size());
            // What was allocated before may be freed now, so it may be "negative" for a while.
            if live < usize::MAX / 2 {
                PEAK.fetch_max(live, Ordering::Relaxed);
            }
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if IS_COUNTING.load(Ordering::Relaxed) {
            LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What the heap went through.
pub(crate) struct Heap {
    pub(crate) allocations: usize,
    /// Bytes that are held more than before.
    pub(crate) live: usize,
    pub(crate) peak: usize,
}

pub(crate) fn heap_during(act: impl FnOnce()) -> Heap {
    for counter in [&ALLOCATIONS, &LIVE, &PEAK] {
        counter.store(0, Ordering::Relaxed);
    }
    IS_COUNTING.store(true, Ordering::Relaxed);
    act();
    IS_COUNTING.store(false, Ordering::Relaxed);
    Heap {
        allocations: ALLOCATIONS.load(Ordering::Relaxed),
        live: LIVE.load(Ordering::Relaxed),
        peak: PEAK.load(Ordering::Relaxed),
    }
}

pub(crate) fn tables() -> String {
    format!(
        "\nAllocations for each request:\n{}\nBytes for each key, free room of the tables included:\n{}",
        allocations(),
        bytes()
    )
}

fn allocations() -> String {
    const REQUESTS: usize = 20;
    let once = Load::new(1, 1);
    let allocations = |mut contender: Contender| {
        contender(once);
        // A contender makes so many requests and a thread in one go.
        (0..REQUESTS)
            .map(|_| {
                heap_during(|| {
                    contender(once);
                })
                .allocations
            })
            .min()
    };
    let noop = allocations(contender(NoOp)).unwrap_or_default();
    let each = |contender| {
        let more = allocations(contender).unwrap_or_default() as f64 - noop as f64;
        format!("{:.1}", more.max(0.0) / crate::load::REQUESTS as f64)
    };
    let mut text = "\n| | admitted, no headers | admitted, headers | refused |\n|---|---|---|---|\n".to_owned();
    let last = Refusing::Last;
    for (name, cells) in [
        (
            "tower-throttle",
            [
                tower_throttle(false, Refusing::None),
                tower_throttle(true, Refusing::None),
                tower_throttle(true, last),
            ],
        ),
        (
            "tower_governor",
            [
                tower_governor(false, Refusing::None),
                tower_governor(true, Refusing::None),
                tower_governor(true, last),
            ],
        ),
    ] {
        text += &format!("| {name} | {} |\n", cells.map(each).join(" | "));
    }
    let cells = [axum_governor(Refusing::None), axum_governor(last)].map(each);
    text + &format!("| axum-governor | – | {} |\n", cells.join(" | "))
}

fn bytes() -> String {
    const KEYS: u64 = 1_000_000;
    let mut text = format!("\n| {KEYS} keys | bytes a key |\n|---|---|\n");
    for (name, quota) in algorithms() {
        let store = MemoryStore::new()
            .clock(ManualClock::new())
            .max_keys(KEYS as usize)
            .max_log_entries(10_000_000);
        let tier = TierId::new("", "user");
        let heap = heap_during(|| {
            for key in 0..KEYS {
                let _ = store.charge(&[Charge::new(&tier, &key.to_be_bytes(), &quota)]);
            }
        });
        assert_eq!(store.keys() as u64, KEYS);
        text += &format!("| tower-throttle: {name} | {:.1} |\n", heap.live as f64 / KEYS as f64);
    }
    let peers: [(&str, Contender); 3] = [
        ("tower_governor", tower_governor(false, Refusing::None)),
        ("governor, by hand", governor()),
        ("axum-governor", axum_governor(Refusing::None)),
    ];
    for (name, mut contender) in peers {
        contender(Load::new(1, 1));
        let heap = heap_during(|| {
            contender(Load::new(KEYS, 1));
        });
        text += &format!(
            "| {name} (its key: a header value and a path) | {:.1} |\n",
            heap.live as f64 / KEYS as f64
        );
    }
    text
}
