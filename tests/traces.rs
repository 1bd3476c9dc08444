//! Known traces, and the most that each algorithm admits in any true window.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use support::{Random, charge};
use tower_throttle::Quota;
use tower_throttle::clock::{Clock as _, ManualClock, Timestamp};
use tower_throttle::store::{Answer, Charge, MemoryStore, TierId};

/// One key, asked at given times.
struct Trace {
    clock: ManualClock,
    store: MemoryStore,
    tier: TierId,
    quotas: Vec<Quota>,
    start: u64,
}

impl Trace {
    fn new<const N: usize>(quotas: [Quota; N]) -> Self {
        let clock = ManualClock::new();
        Self {
            store: MemoryStore::new().clock(clock.clone()),
            start: clock.now().as_micros(),
            clock,
            tier: TierId::new("", "trace"),
            quotas: quotas.to_vec(),
        }
    }

    /// The answer of each quota, so many microseconds after the start; and the longest wait.
    fn at(&self, micros: u64) -> (Vec<Answer>, Duration) {
        self.clock.set(Timestamp::from_micros(self.start + micros));
        let charges: Vec<_> = (self.quotas.iter().zip(0..))
            .map(|(quota, nth)| Charge::new(&self.tier, b"key", quota).nth(nth))
            .collect();
        let outcome = charge(&self.store, &charges);
        let wait = outcome.decisions().iter().filter_map(|decision| decision.retry_after());
        let answers = outcome.decisions().iter().map(|decision| decision.answer());
        (answers.collect(), wait.max().unwrap_or_default())
    }

    fn passes(&self, micros: u64) -> bool {
        self.at(micros).0.iter().all(|answer| *answer == Answer::Admits)
    }
}

const SECOND: u64 = 1_000_000;

#[test]
fn fixed_window_from_the_first_request_2_per_3_s() {
    let trace = Trace::new([Quota::new(2, Duration::from_secs(3)).fixed_window_from_first()]);
    let passed = [0, 0, 0, 3, 3, 5].map(|second| trace.passes(second * SECOND));
    assert_eq!(passed, [true, true, false, true, true, false]);
}

#[test]
fn log_with_1_per_second_and_5_per_minute() {
    let trace = Trace::new([Quota::per_second(1).sliding_log(), Quota::per_minute(5).sliding_log()]);
    let first = [Answer::Refuses, Answer::Admits];
    let second = [Answer::Admits, Answer::Refuses];
    let both = [Answer::Admits, Answer::Admits];
    for (at, expected) in [
        (0, both),
        (0, first),
        (1, both),
        (2, both),
        (3, both),
        (4, both),
        (5, second),
        (66, both),
    ] {
        assert_eq!(trace.at(at * SECOND).0, expected, "at {at} s");
    }
}

#[test]
fn log_tells_when_its_oldest_entry_leaves() {
    let trace = Trace::new([Quota::per_minute(5).sliding_log()]);
    // Seconds after :33:00.
    for entry in [35, 37, 74, 86, 88] {
        assert!(trace.passes(entry * SECOND));
    }
    assert_eq!(trace.at(91 * SECOND), (vec![Answer::Refuses], Duration::from_secs(4)));
    assert!(trace.passes(100 * SECOND));
}

/// Polls at a high rate and refusals must not keep a bucket from refilling.
#[test]
fn a_bucket_refills_however_often_it_is_asked() {
    let trace = Trace::new([Quota::per_second(10).burst(1)]);
    let passed = (0..10_000).filter(|nth| trace.passes(nth * 1_000)).count();
    assert_eq!(passed, 100);
}

/// Refusals are not counted, so hammering does not lock a client out.
#[test]
fn hammering_prolongs_nothing() {
    let second = Duration::from_secs(1);
    for quota in [
        Quota::new(2, second),
        Quota::new(2, second).in_aligned_steps(second),
        Quota::new(2, second).fixed_window(),
        Quota::new(2, second).fixed_window_from_first(),
        Quota::new(2, second).sliding_window(10),
        Quota::new(2, second).weighted_window(),
        Quota::new(2, second).sliding_log(),
    ] {
        let trace = Trace::new([quota]);
        assert!(trace.passes(0) && trace.passes(0));
        let (_, wait) = trace.at(0);
        let wait = wait.as_micros() as u64;
        assert!((0..wait).step_by(997).all(|micros| !trace.passes(micros)), "{quota:?}");
        assert!(!trace.passes(wait - 1) && trace.passes(wait), "{quota:?}");
    }
}

const PERIOD: u64 = 120;

/// The most that was admitted in any half-open window of one period, over many schedules that try hard: silence,
/// greed, and greed that begins or ends at odd instants.
fn most_in_any_window(quota: Quota) -> u64 {
    quota.check().unwrap();
    let mut most = 0;
    for seed in 0..400 {
        let trace = Trace::new([quota]);
        let mut random = Random::new(seed);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        let mut now = random.below(3 * PERIOD);
        let restless = [8, 40, 400][seed as usize % 3];
        while now < 8 * PERIOD {
            // Greedy at this instant, or only once.
            let once = random.below(4) == 0;
            let mut count = 0;
            while trace.passes(now) {
                count += 1;
                if once {
                    break;
                }
            }
            admitted.push((now, count));
            now += match random.below(restless) {
                0 => PERIOD - 1 + random.below(3),
                1 => PERIOD - now % PERIOD - u64::from(random.below(2) == 0).min(PERIOD - 1 - now % PERIOD),
                2 => 1 + random.below(2 * PERIOD),
                _ => 1,
            };
        }
        for (nth, (start, _)) in admitted.iter().enumerate() {
            let window = admitted[nth..].iter().take_while(|(at, _)| *at < start + PERIOD);
            most = most.max(window.map(|(_, count)| count).sum());
        }
    }
    most
}

#[test]
fn the_most_in_any_window_is_what_the_docs_say() {
    let quota = |limit| Quota::new(limit, Duration::from_micros(PERIOD));
    let (limit, burst) = (6, 9);
    for (quota, bound) in [
        (quota(limit), 2 * limit - 1),
        (quota(limit).burst(burst), burst + limit - 1),
        (quota(limit).burst(1), limit),
        // 7 per 120 µs do not divide.
        (quota(7), 13),
        // Several a microsecond: less is refilled in a period less one microsecond.
        (quota(360), 360 + 357),
        (quota(limit).in_aligned_steps(Duration::from_micros(20)), 2 * limit),
        (
            quota(limit).burst(burst).in_steps(Duration::from_micros(40)),
            burst + limit,
        ),
        (quota(limit).fixed_window(), 2 * limit),
        (quota(limit).fixed_window_from_first(), 2 * limit - 1),
        (quota(limit).sliding_window(1), limit),
        (quota(limit).sliding_window(4), limit),
        (quota(limit).sliding_window(120), limit),
        (quota(limit).weighted_window(), 2 * limit - 1),
        (quota(limit).sliding_log(), limit),
    ] {
        assert_eq!(most_in_any_window(quota), bound, "{quota:?}");
    }
}
