//! Memory and Redis decide alike: the same traces, by the same clock, in both.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use support::redis::{PATIENT, Server};
use support::{Random, charge, quotas};
use tokio::task::JoinSet;
use tower_throttle::Quota;
use tower_throttle::clock::{Clock as _, ManualClock, Timestamp};
use tower_throttle::store::{
    Asked, Charge, Decision, MemoryStore, Outcome, Receipt, RedisStore, Source, Store, TierId,
};

/// The limits of a request: each a tier, one of its quotas, and what that quota changes between.
type Limits = Vec<(TierId, u8, Vec<Quota>)>;

/// What was asked: for each limit the cost, and which of its quotas.
type Question = Vec<(u64, usize)>;

struct Trace {
    clock: ManualClock,
    memory: MemoryStore,
    redis: RedisStore,
    key: Vec<u8>,
    limits: Limits,
    random: Random,
    /// Charges that may be given back.
    receipts: Vec<(Question, Receipt, Receipt)>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    requests: usize,
    decisions: usize,
    admitted: usize,
    given_back: usize,
}

impl Trace {
    fn new(server: &str, limits: Limits, seed: u64) -> Self {
        let clock = ManualClock::new();
        let redis = RedisStore::new(server)
            .unwrap()
            .deadline(PATIENT)
            .remembered_refusals(0);
        Self {
            memory: MemoryStore::new().clock(clock.clone()),
            // Keys must not expire by the server's clock while ours stands still.
            redis: redis.test_clock(clock.clone(), Duration::from_secs(3_600)),
            clock,
            key: format!("key {seed}").into_bytes(),
            limits,
            random: Random::new(seed),
            receipts: Vec::new(),
            tally: Tally::default(),
        }
    }

    async fn run(&mut self, requests: usize, steps_back: bool) {
        let (mut told, mut last) = (None, None::<Question>);
        for _ in 0..requests {
            let is_repeated = told.is_some() && self.random.below(3) > 0;
            self.move_clock(told.take().filter(|_| is_repeated), steps_back);
            let question = match last.take() {
                Some(question) if is_repeated => question,
                _ => self.question(),
            };
            told = self.ask(&question).await;
            last = Some(question);
            // Where clocks step back, both keep strict, but not by the same means.
            if !steps_back && !self.receipts.is_empty() && self.random.below(4) == 0 {
                self.give_back().await;
            }
        }
    }

    fn move_clock(&mut self, told: Option<u64>, steps_back: bool) {
        let random = &mut self.random;
        let quota = self.limits[0].2[0];
        let period = quota.period().as_micros() as u64;
        let later = match (told, random.below(8)) {
            // A microsecond before the told wait, and at it.
            (Some(wait), 0..5) if wait > 0 => wait - random.below(2),
            (_, 0) => 0,
            (_, 1) => 1 + random.below(3),
            (_, 2) => period + random.below(3) - 1,
            (_, 3) => random.below(period * 2),
            (_, 4) => random.below(period / 2 + 2),
            _ => random.below((period / quota.limit()).saturating_mul(3) + 2),
        };
        let back = match random.below(24) {
            _ if !steps_back => 0,
            0 => 1_000_000 + random.below(2),
            1 => random.below(1_000_000),
            2 => random.below(3_600_000_000),
            3 => random.below(20_000_000),
            _ => 0,
        };
        let now = self.clock.now().as_micros();
        self.clock.set(Timestamp::from_micros(now + later - back));
    }

    fn question(&mut self) -> Question {
        let random = &mut self.random;
        let limits = self.limits.iter();
        limits
            .map(|(_, _, quotas)| {
                let most = quotas[0].burst_size();
                let cost = match random.below(12) {
                    0 => 0,
                    1 => random.below(most + 2),
                    2 => most,
                    3 => (most / 3).max(1),
                    4 => u64::MAX - random.below(2),
                    _ => 1 + random.below((most / 8).clamp(1, 1_000)),
                };
                (cost, random.below(quotas.len() as u64) as usize)
            })
            .collect()
    }

    /// The longest wait.
    async fn ask(&mut self, question: &Question) -> Option<u64> {
        let charges = self.charges(question);
        let in_memory = charge(&self.memory, &charges);
        let in_redis = later(self.redis.charge(&charges)).await;
        self.compare(&in_memory, &in_redis, question);

        let mut waits = in_memory.decisions().iter().map(Decision::retry_after);
        let longest = waits.try_fold(Duration::ZERO, |one, other| Some(one.max(other?)));
        let decisions = in_memory.decisions().len();
        let receipts = (in_memory.into_receipt(), in_redis.into_receipt());
        self.tally.requests += 1;
        self.tally.decisions += decisions;
        if let (Some(in_memory), Some(in_redis)) = receipts {
            self.tally.admitted += 1;
            self.receipts.push((question.clone(), in_memory, in_redis));
        }
        longest.map(|wait| wait.as_micros() as u64)
    }

    async fn give_back(&mut self) {
        let nth = self.random.below(self.receipts.len() as u64) as usize;
        let (question, in_memory, in_redis) = self.receipts.swap_remove(nth);
        let charges = self.charges(&question);
        let Asked::Now(in_memory) = self.memory.give_back(&charges, in_memory) else {
            unreachable!("memory answers at once");
        };
        let in_redis = later(self.redis.give_back(&charges, in_redis)).await;
        self.compare(&in_memory, &in_redis, &question);
        self.tally.given_back += 1;
    }

    fn charges(&self, question: &Question) -> Vec<Charge<'_>> {
        let asked = self.limits.iter().zip(question);
        asked
            .map(|((tier, nth, quotas), (cost, quota))| {
                Charge::new(tier, &self.key, &quotas[*quota]).nth(*nth).cost(*cost)
            })
            .collect()
    }

    fn compare(&self, in_memory: &Outcome, in_redis: &Outcome, question: &Question) {
        assert!(
            in_redis
                .decisions()
                .iter()
                .all(|decision| decision.source() == Source::Store),
            "Redis did not decide: {:?}",
            self.redis.last_error()
        );
        assert_eq!(
            (in_memory.now(), in_memory.decisions()),
            (in_redis.now(), in_redis.decisions()),
            "{question:?} of {:?} after {} requests",
            self.limits,
            self.tally.requests
        );
    }
}

async fn later<F: Future<Output = Outcome>>(asked: Asked<F>) -> Outcome {
    match asked {
        Asked::Later(outcome) => outcome.await,
        Asked::Now(outcome) => panic!("Redis was not asked: {outcome:?}"),
    }
}

/// Runs traces, several at a time; what they came to.
async fn run(traces: Vec<(Limits, u64)>, requests: usize, steps_back: impl Fn(u64) -> bool) -> Tally {
    let server = Server::start();
    let mut tally = Tally::default();
    let mut running = JoinSet::new();
    let mut add = |trace: Tally| {
        tally.requests += trace.requests;
        tally.decisions += trace.decisions;
        tally.admitted += trace.admitted;
        tally.given_back += trace.given_back;
    };
    for (limits, seed) in traces {
        let (url, steps_back) = (server.url(), steps_back(seed));
        running.spawn(async move {
            let mut trace = Trace::new(&url, limits, seed);
            trace.run(requests, steps_back).await;
            trace.tally
        });
        if running.len() >= 32 {
            add(running.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(trace) = running.join_next().await {
        add(trace.unwrap());
    }
    // A trial that admits or refuses everything would show nothing.
    assert!(tally.admitted * 20 > tally.requests && tally.admitted * 10 < tally.requests * 9);
    assert!(tally.given_back > 0);
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn each_algorithm() {
    let mut traces = Vec::new();
    for (nth, quota) in quotas::all().into_iter().enumerate() {
        for seed in 0..8 {
            let seed = 1_000 * nth as u64 + seed;
            traces.push((vec![(TierId::new("", &format!("tier {seed}")), 0, vec![quota])], seed));
        }
    }
    let tally = run(traces, 50, |seed| seed % 2 == 1).await;
    assert!(tally.decisions >= 60_000, "{} decisions", tally.decisions);
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_that_change() {
    let mut traces = Vec::new();
    for (nth, quotas) in quotas::changing().into_iter().enumerate() {
        for seed in 0..60 {
            let seed = 1_000 * nth as u64 + seed;
            traces.push((
                vec![(TierId::new("", &format!("tier {seed}")), 0, quotas.clone())],
                seed,
            ));
        }
    }
    let tally = run(traces, 50, |seed| seed % 2 == 1).await;
    assert!(tally.decisions >= 20_000, "{} decisions", tally.decisions);
}

/// Several tiers with several quotas, of any algorithm.
#[tokio::test(flavor = "multi_thread")]
async fn several_tiers() {
    let all = quotas::all();
    let mut random = Random::new(11);
    let mut traces = Vec::new();
    for seed in 0..1_100 {
        let limits = (0..2 + random.below(5))
            // Every other one is the second quota of the tier before it.
            .map(|nth| {
                let tier = TierId::new("", &format!("tier {} of {seed}", nth / 2));
                (tier, (nth % 2) as u8, vec![*random.pick(&all)])
            })
            .collect();
        traces.push((limits, seed));
    }
    let tally = run(traces, 40, |seed| seed % 3 == 0).await;
    assert!(tally.decisions >= 160_000, "{} decisions", tally.decisions);
}

/// A log so long that its entries are searched, swept and wrapped many times.
#[tokio::test(flavor = "multi_thread")]
async fn long_trails() {
    let quotas = [
        Quota::new(300, Duration::from_secs(1)).sliding_log(),
        Quota::new(2_000, Duration::from_secs(5)).sliding_window(1_000),
    ];
    let traces = (0..8_u64)
        .map(|seed| {
            let tier = TierId::new("", &format!("tier {seed}"));
            (vec![(tier, 0, vec![quotas[seed as usize % 2]])], seed)
        })
        .collect();
    let tally = run(traces, 2_500, |seed| seed % 4 == 3).await;
    assert!(tally.decisions >= 20_000, "{} decisions", tally.decisions);
}
