//! The store against a reference model: same decisions, remaining, retry_after and reset_after, for every algorithm,
//! for rates from 1 per day to 10 million per second, with clocks that step back and quotas that change.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod reference;

use std::time::Duration;

use reference::{Account, Expected};
use support::quotas::{
    all, changing, rates, sliding_logs, sliding_windows, stepped_buckets, token_buckets, weighted_windows,
};
use support::{Random, charge};
use tower_throttle::clock::{Clock as _, ManualClock, Timestamp};
use tower_throttle::store::{Answer, Charge, Decision, MemoryStore, TierId};
use tower_throttle::{Algorithm, Quota};

/// One limit: the quotas that it changes between, and the key it is asked for.
struct Limit {
    tier: TierId,
    nth: u8,
    key: Vec<u8>,
    quotas: Vec<Quota>,
    model: Account,
}

impl Limit {
    fn new(name: &str, quotas: Vec<Quota>) -> Self {
        for quota in &quotas {
            quota.check().unwrap();
        }
        Self {
            tier: TierId::new("", name),
            nth: 0,
            key: name.as_bytes().to_vec(),
            quotas,
            model: Account::default(),
        }
    }

    fn nth(mut self, nth: u64) -> Self {
        self.nth = nth as u8;
        self
    }

    fn phase(&self, quota: &Quota) -> i128 {
        match quota.algorithm() {
            Algorithm::SteppedBucket { step, aligned: false } => {
                let hash = self.key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                    (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
                });
                // Whole milliseconds, for quotas that count in them.
                let tick = if quota.period() >= Duration::from_secs(3_600) && quota.limit() > 1_000_000 {
                    1_000
                } else {
                    1
                };
                i128::from((hash ^ (hash >> 32)) % (step / tick) * tick)
            }
            _ => 0,
        }
    }
}

/// Asks the store and the models the same questions, and compares.
struct Trial {
    clock: ManualClock,
    store: MemoryStore,
    limits: Vec<Limit>,
    random: Random,
    decided: usize,
    admitted: usize,
}

impl Trial {
    fn new(limits: Vec<Limit>, seed: u64) -> Self {
        let clock = ManualClock::new();
        Self {
            store: MemoryStore::new().clock(clock.clone()),
            clock,
            limits,
            random: Random::new(seed),
            decided: 0,
            admitted: 0,
        }
    }

    /// One request at the present time, with these costs and these of each limit's quotas; the longest wait.
    fn ask(&mut self, costs: &[u64], chosen: &[usize]) -> Option<u64> {
        let real = i128::from(self.clock.now().as_micros());
        let asked: Vec<_> = (self.limits.iter().zip(costs).zip(chosen))
            .map(|((limit, cost), chosen)| (limit, *cost, limit.quotas[*chosen]))
            .collect();
        let charges: Vec<_> = asked
            .iter()
            .map(|(limit, cost, quota)| Charge::new(&limit.tier, &limit.key, quota).nth(limit.nth).cost(*cost))
            .collect();
        let outcome = charge(&self.store, &charges);

        let looks: Vec<_> = asked
            .iter()
            .map(|(limit, cost, quota)| reference::look(&limit.model, quota, limit.phase(quota), real, *cost))
            .collect();
        let admitted = looks.iter().all(|look| look.admits);
        let asked: Vec<_> = asked.into_iter().map(|(_, cost, quota)| (cost, quota)).collect();
        let mut longest = Some(0);
        for (nth, (cost, quota)) in asked.iter().enumerate() {
            let limit = &mut self.limits[nth];
            let phase = limit.phase(quota);
            let mut expected = looks[nth];
            if admitted && *cost > 0 {
                limit.model.charge(quota, phase, real, *cost);
                expected = Expected {
                    admits: true,
                    ..reference::look(&limit.model, quota, phase, real, *cost)
                };
            } else {
                limit.model.heal(quota, phase, real);
            }
            assert_eq!(
                seen(&outcome.decisions()[nth]),
                expected,
                "{quota:?}, cost {cost} at {real}, after {} decisions",
                self.decided
            );
            longest = longest.zip(expected.retry_after).map(|(one, other)| one.max(other));
        }
        self.decided += 1;
        self.admitted += usize::from(admitted);
        longest
    }

    fn random_costs(&mut self) -> Vec<u64> {
        let random = &mut self.random;
        let limits = self.limits.iter();
        limits
            .map(|limit| {
                let most = limit.quotas[0].burst_size();
                match random.below(10) {
                    0 => 0,
                    1 => random.below(most + 2),
                    2 => most,
                    3 => (most / 3).max(1),
                    _ => 1 + random.below((most / 8).clamp(1, 1_000)),
                }
            })
            .collect()
    }

    /// Random requests at random times, some at just the instants that were told.
    fn run(&mut self, requests: usize, steps_back: bool) {
        let mut told = None;
        let mut last: Option<(Vec<u64>, Vec<usize>)> = None;
        for _ in 0..requests {
            let now = self.clock.now().as_micros();
            let quota = self.limits[0].quotas[0];
            let period = quota.period().as_micros() as u64;
            let again = told.is_some() && self.random.below(3) > 0;
            let later = match (told.take(), self.random.below(8)) {
                // One tick before the told wait, and at it.
                (Some(wait), 0..4) if again && wait > 0 => wait - self.random.below(2),
                (_, 0) => 0,
                (_, 1) => 1 + self.random.below(3),
                (_, 2) => period + self.random.below(3) - 1,
                (_, 3) => self.random.below(period * 2),
                (_, 4) => self.random.below(period / 2 + 2),
                _ => self.random.below((period / quota.limit()).saturating_mul(3) + 2),
            };
            self.clock.set(Timestamp::from_micros(now + later));
            if steps_back && self.random.below(6) == 0 {
                let back = match self.random.below(4) {
                    0 => 1_000_000 + self.random.below(2),
                    1 => self.random.below(1_000_000),
                    2 => self.random.below(3_600_000_000),
                    _ => self.random.below(20_000_000),
                };
                self.clock.set(Timestamp::from_micros(now + later - back));
            }
            let (costs, chosen) = match last.take() {
                Some(asked) if again => asked,
                _ => {
                    let costs = self.random_costs();
                    let limits = self.limits.iter();
                    let chosen: Vec<_> = limits
                        .map(|limit| self.random.below(limit.quotas.len() as u64) as usize)
                        .collect();
                    (costs, chosen)
                }
            };
            told = self.ask(&costs, &chosen);
            last = Some((costs, chosen));
        }
    }
}

fn seen(decision: &Decision) -> Expected {
    Expected {
        admits: decision.answer() == Answer::Admits,
        remaining: decision.remaining(),
        retry_after: decision.retry_after().map(|wait| wait.as_micros() as u64),
        reset_after: decision.reset_after().as_micros() as u64,
    }
}

/// Runs each quota through many traces.
fn run_each(quotas: impl IntoIterator<Item = Quota>, steps_back: bool) {
    let mut decided = 0;
    let mut admitted = 0;
    for (nth, quota) in quotas.into_iter().enumerate() {
        for seed in 0..24 {
            let name = format!("{nth}/{seed}");
            let mut trial = Trial::new(vec![Limit::new(&name, vec![quota])], seed + 1_000 * nth as u64);
            trial.run(40, steps_back);
            decided += trial.decided;
            admitted += trial.admitted;
        }
    }
    // A trial that admits or refuses everything would show nothing.
    assert!(
        admitted * 5 > decided && admitted * 10 < decided * 9,
        "{admitted} of {decided}"
    );
}

#[test]
fn token_bucket() {
    run_each(token_buckets(), false);
}

#[test]
fn token_bucket_with_a_clock_that_steps_back() {
    run_each(token_buckets(), true);
}

#[test]
fn stepped_bucket() {
    run_each(stepped_buckets(), false);
}

#[test]
fn stepped_bucket_with_a_clock_that_steps_back() {
    run_each(stepped_buckets(), true);
}

#[test]
fn fixed_window() {
    run_each(rates().into_iter().map(Quota::fixed_window), false);
    run_each(rates().into_iter().map(Quota::fixed_window_from_first), false);
}

#[test]
fn fixed_window_with_a_clock_that_steps_back() {
    run_each(rates().into_iter().map(Quota::fixed_window), true);
    run_each(rates().into_iter().map(Quota::fixed_window_from_first), true);
}

#[test]
fn sliding_window() {
    run_each(sliding_windows(), false);
}

#[test]
fn sliding_window_with_a_clock_that_steps_back() {
    run_each(sliding_windows(), true);
}

#[test]
fn weighted_window() {
    run_each(weighted_windows(), false);
}

#[test]
fn weighted_window_with_a_clock_that_steps_back() {
    run_each(weighted_windows(), true);
}

#[test]
fn sliding_log() {
    run_each(sliding_logs(), false);
}

#[test]
fn sliding_log_with_a_clock_that_steps_back() {
    run_each(sliding_logs(), true);
}

/// Under quotas that shrink and grow, an account keeps what it has used.
#[test]
fn quotas_that_change() {
    let changes = changing();
    for (nth, quotas) in changes.iter().enumerate() {
        for seed in 0..120 {
            let name = format!("{nth}/{seed}");
            let mut trial = Trial::new(vec![Limit::new(&name, quotas.clone())], seed);
            trial.run(40, seed % 2 == 0);
        }
    }
}

/// Several tiers with several quotas: charged together or not at all, and all looked at on a refusal.
#[test]
fn several_tiers_of_all_algorithms() {
    let all = all();
    let mut random = Random::new(7);
    let (mut decided, mut admitted) = (0, 0);
    for seed in 0..800 {
        let count = 2 + random.below(5);
        let limits = (0..count)
            // Every other one is the second quota of the tier before it.
            .map(|nth| Limit::new(&format!("tier {} of {seed}", nth / 2), vec![*random.pick(&all)]).nth(nth % 2))
            .collect();
        let mut trial = Trial::new(limits, seed);
        trial.run(30, seed % 3 == 0);
        decided += trial.decided;
        admitted += trial.admitted;
    }
    assert!(
        admitted * 20 > decided && admitted * 10 < decided * 9,
        "{admitted} of {decided}"
    );
}
