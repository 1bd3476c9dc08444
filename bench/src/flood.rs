//! Ten million keys through a tier that holds a hundred thousand.

use std::time::{Duration, Instant};

use tower_throttle::Quota;
use tower_throttle::store::memory::Usage;
use tower_throttle::store::{Asked, Charge, MemoryStore, Store as _, TierId};

use crate::footprint::{Heap, heap_during};

const KEYS: u64 = 10_000_000;
const CAP: usize = 100_000;
const VICTIMS: u64 = 1_000;

pub(crate) fn report() -> String {
    let quota = Quota::new(10, Duration::from_secs(3_600));
    let store = MemoryStore::new().max_keys(CAP);
    let (user, other) = (TierId::new("", "user"), TierId::new("", "other"));
    let ask = |tier: &TierId, key: u64| match store.charge(&[Charge::new(tier, &key.to_be_bytes(), &quota)]) {
        Asked::Now(outcome) => outcome.is_charged(),
        Asked::Later(never) => drop_never(never),
    };

    let mut quiet = Vec::new();
    let mut flooded = Vec::new();
    let (mut refused, mut asked, mut admitted) = (0, 0, 0);
    let Heap { peak, .. } = heap_during(|| {
        // Half of what it holds, known; and some who are being refused.
        for key in 0..CAP as u64 / 2 {
            ask(&user, key);
            ask(&other, key);
        }
        for victim in 0..VICTIMS {
            while ask(&user, u64::MAX - victim) {}
        }
    });
    let heap = heap_during(|| {
        for key in 0..KEYS {
            admitted += u64::from(ask(&user, 1 << 32 | key));
            if key % 100 == 0 {
                asked += 1;
                refused += u64::from(!ask(&user, u64::MAX - key / 100 % VICTIMS));
            }
        }
    });
    let peak = peak + heap.peak;
    let usage = store.usage();
    let of = |name: &str| usage.iter().find(|usage| usage.tier == name).expect("it was asked");
    let Usage { keys, forgotten, .. } = of("user").clone();
    let (other_keys, other_forgotten) = (of("other").keys, of("other").forgotten);

    // Time by time, quiet and flooded stores in turns, without counting.
    let calm = MemoryStore::new().max_keys(CAP);
    let calmly = |key: u64| calm.charge(&[Charge::new(&user, &key.to_be_bytes(), &quota)]);
    (0..CAP as u64 / 2).for_each(|key| drop(calmly(key)));
    for nth in 0..1_000_000_u64 {
        let known = nth.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (CAP as u64 / 2);
        quiet.push(timed(|| drop(calmly(known))));
        flooded.push(timed(|| {
            ask(&user, 1 << 33 | nth);
        }));
    }
    // Nothing is swept or moved all at once, however many there are.
    let large = MemoryStore::new().max_keys(KEYS as usize);
    let grown = (0..KEYS).map(|key| timed(|| drop(large.charge(&[Charge::new(&user, &key.to_be_bytes(), &quota)]))));
    let grown = Percentiles::of(grown.collect());
    let idle = (0..100_000_000).map(|_| timed(|| ())).max().unwrap_or_default() / 1_000;
    let (quiet, flooded) = (Percentiles::of(quiet), Percentiles::of(flooded));
    let ratio = flooded.p99 as f64 / quiet.p99 as f64;
    let formula = formula(CAP);
    format!(
        "
| {KEYS} keys, each asked for once, through a tier of {CAP} | |
|---|---|
| peak memory, two tiers | {:.2} MB; the formula allows {:.2} MB |
| keys held at the end | {keys} |
| accounts forgotten, and counted | {forgotten} |
| newcomers admitted | {:.2} % |
| asked for one of {VICTIMS} keys refused before | {asked} times, refused {refused} times |
| another tier meanwhile | {other_keys} keys, {other_forgotten} forgotten |
| a decision on a known key, store quiet | median {} ns, p99 {} ns, p99.9 {} ns, longest {} µs |
| a decision on a newcomer, table full | median {} ns, p99 {} ns, p99.9 {} ns, longest {} µs |
| ratio of p99 | {ratio:.2} |
| a decision on a newcomer, table growing to {KEYS} | median {} ns, p99 {} ns, p99.9 {} ns, longest {} µs |
| an idle loop for as long, its longest pause | {idle} µs |
",
        peak as f64 / 1e6,
        2.0 * formula as f64 / 1e6,
        100.0 * admitted as f64 / KEYS as f64,
        quiet.median,
        quiet.p99,
        quiet.p999,
        quiet.most / 1_000,
        flooded.median,
        flooded.p99,
        flooded.p999,
        flooded.most / 1_000,
        grown.median,
        grown.p99,
        grown.p999,
        grown.most / 1_000,
    )
}

/// The bytes of a token bucket's table, as the documentation of the store has it.
fn formula(keys: usize) -> usize {
    let shards = (keys / 256).clamp(1, 1_024).max(keys / 1_024);
    keys * 40 * 25 / 16 + shards * 320
}

fn timed(act: impl FnOnce()) -> u64 {
    let start = Instant::now();
    act();
    start.elapsed().as_nanos() as u64
}

struct Percentiles {
    median: u64,
    p99: u64,
    p999: u64,
    most: u64,
}

impl Percentiles {
    fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        Self {
            median: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            most: at(1.0),
        }
    }
}

fn drop_never<T>(_: T) -> bool {
    unreachable!("memory answers at once")
}
