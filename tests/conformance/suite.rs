//! What every store must do: the sentences of the `Store` contract, each as a clause of the same name.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use tower_throttle::Quota;
use tower_throttle::store::{Answer, Asked, Charge, Decision, Outcome, Receipt, Store, TierId};

/// A store under test, and a hand on its clock. Each clause gets a new, empty one.
pub(crate) trait Subject: Send + Sync {
    type Store: Store;

    fn store(&self) -> &Self::Store;

    fn advance(&self, by: Duration);

    /// How many accounts it holds, if it can tell.
    fn accounts(&self) -> Option<usize>;

    /// The runtime that its answers come from.
    fn runtime(&self) -> &Runtime;
}

/// Runs every clause; tells the names of those that were broken.
pub(crate) fn broken_clauses<S: Subject>(new: impl Fn() -> S) -> Vec<&'static str> {
    let clauses: &[Clause<S>] = &[
        ("all_or_nothing", all_or_nothing),
        ("all_or_nothing_for_many_threads", all_or_nothing_for_many_threads),
        ("never_more_than_the_quota", never_more_than_the_quota),
        ("a_refusal_charges_nothing", a_refusal_charges_nothing),
        ("a_refusal_creates_no_account", a_refusal_creates_no_account),
        ("the_outcome_answers_each_charge", the_outcome_answers_each_charge),
        ("the_wait_is_true", the_wait_is_true),
        ("a_cost_of_0_is_a_look", a_cost_of_0_is_a_look),
        ("a_cost_that_can_never_fit", a_cost_that_can_never_fit),
        ("no_charges_no_question", no_charges_no_question),
        ("accounts_are_remembered", accounts_are_remembered),
        ("an_account_is_identified", an_account_is_identified),
        ("a_raised_limit_keeps_the_account", a_raised_limit_keeps_the_account),
        ("cancellation", cancellation),
        ("giving_back_restores", giving_back_restores),
        ("giving_back_is_strict", giving_back_is_strict),
        ("giving_back_several_is_strict", giving_back_several_is_strict),
        (
            "giving_back_frees_no_more_than_was_taken",
            giving_back_frees_no_more_than_was_taken,
        ),
        ("giving_back_the_opener_of_a_window", giving_back_the_opener_of_a_window),
        ("giving_back_after_roll_over", giving_back_after_roll_over),
    ];
    let broken = clauses.iter().filter(|(_, clause)| {
        let test = Test { subject: new() };
        catch_unwind(AssertUnwindSafe(|| clause(&test))).is_err()
    });
    broken.map(|(name, _)| *name).collect()
}

type Clause<S> = (&'static str, fn(&Test<S>));

struct Test<S> {
    subject: S,
}

const PERIOD: Duration = Duration::from_secs(60);

/// One of each algorithm and variant: 6 per minute.
fn algorithms() -> [Quota; 8] {
    let quota = Quota::new(6, PERIOD);
    [
        quota,
        quota.in_steps(Duration::from_secs(10)),
        quota.in_aligned_steps(Duration::from_secs(20)),
        quota.fixed_window(),
        quota.fixed_window_from_first(),
        quota.sliding_window(6),
        quota.weighted_window(),
        quota.sliding_log(),
    ]
}

impl<S: Subject> Test<S> {
    fn ask(&self, charges: &[Charge<'_>]) -> Outcome {
        self.wait(self.subject.store().charge(charges))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Outcome {
        self.wait(self.subject.store().give_back(charges, receipt))
    }

    fn wait<F: Future<Output = Outcome>>(&self, asked: Asked<F>) -> Outcome {
        match asked {
            Asked::Now(outcome) => outcome,
            Asked::Later(outcome) => self.subject.runtime().block_on(outcome),
        }
    }

    fn one(&self, charge: Charge<'_>) -> Decision {
        self.ask(&[charge]).decisions()[0]
    }

    fn remaining(&self, charge: Charge<'_>) -> u64 {
        self.one(charge.cost(0)).remaining()
    }
}

fn all_or_nothing<S: Subject>(test: &Test<S>) {
    let (user, global) = (TierId::new("", "user"), TierId::new("", "global"));
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let narrow = Quota::new(2, PERIOD).fixed_window();
        // Both orders: the one that refuses may come first or last.
        for order in [0, 1] {
            let mut charges = [
                Charge::new(&user, &key, quota).nth(order),
                Charge::new(&global, &key, &narrow).nth(order),
            ];
            if order == 1 {
                charges.reverse();
            }
            let admitted = (0..5).filter(|_| test.ask(&charges).is_charged()).count();
            assert_eq!(admitted, 2, "{quota:?}");
            for charge in charges {
                let used = charge.quota.limit() - test.remaining(charge);
                assert_eq!(used, 2, "{:?} holds what was admitted", charge.tier);
            }
        }
    }
}

fn all_or_nothing_for_many_threads<S: Subject>(test: &Test<S>) {
    let tiers = ["a", "b", "c"].map(|name| TierId::new("", name));
    let quotas = [(200, 90), (200, 150), (200, 120)]
        .map(|(period, limit)| Quota::new(limit, Duration::from_secs(period)).fixed_window_from_first());
    let admitted = AtomicU64::new(0);
    thread::scope(|scope| {
        for worker in 0..8_usize {
            let (tiers, quotas, admitted) = (&tiers, &quotas, &admitted);
            scope.spawn(move || {
                for nth in 0..40 {
                    let mut charges: Vec<_> = (0..3)
                        .map(|tier| Charge::new(&tiers[tier], b"key", &quotas[tier]))
                        .collect();
                    charges.rotate_left((worker + nth) % 3);
                    if test.ask(&charges).is_charged() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(admitted.load(Ordering::Relaxed), 90, "as many as the narrowest allows");
    for (tier, quota) in tiers.iter().zip(&quotas) {
        let used = quota.limit() - test.remaining(Charge::new(tier, b"key", quota));
        assert_eq!(used, 90, "{tier:?} holds what was admitted, neither more nor less");
    }
}

fn never_more_than_the_quota<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let admitted = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..8 {
                        if test.ask(&[Charge::new(&tier, &key, quota)]).is_charged() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.load(Ordering::Relaxed), 6, "{quota:?}");
    }
}

fn a_refusal_charges_nothing<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let charge = Charge::new(&tier, &key, quota);
        assert!(test.ask(&[charge.cost(6)]).is_charged());
        let told = test.one(charge);
        for _ in 0..20 {
            assert_eq!(test.one(charge), told, "refusals change nothing: {quota:?}");
        }
    }
}

fn a_refusal_creates_no_account<S: Subject>(test: &Test<S>) {
    let (full, open) = (TierId::new("", "full"), TierId::new("", "open"));
    for (nth, quota) in algorithms().iter().enumerate() {
        let all = [nth as u8];
        assert!(test.ask(&[Charge::new(&full, &all, quota).cost(6)]).is_charged());
        let before = test.subject.accounts();
        for key in 0..50_u8 {
            let outcome = test.ask(&[Charge::new(&open, &[key], quota), Charge::new(&full, &all, quota)]);
            assert!(!outcome.is_charged());
        }
        assert_eq!(test.subject.accounts(), before, "{quota:?}");
    }
}

fn the_outcome_answers_each_charge<S: Subject>(test: &Test<S>) {
    let tiers: Vec<_> = (0..6).map(|nth| TierId::new("", &format!("tier {nth}"))).collect();
    let quotas: Vec<_> = (1..=6).map(|limit| Quota::new(limit * 10, PERIOD)).collect();
    let charges: Vec<_> = (tiers.iter().zip(&quotas))
        .map(|(tier, quota)| Charge::new(tier, b"key", quota).cost(10))
        .collect();
    let outcome = test.ask(&charges);
    let remaining: Vec<_> = outcome.decisions().iter().map(Decision::remaining).collect();
    assert_eq!(remaining, [0, 10, 20, 30, 40, 50]);

    // The first and the third refuse: all are answered, with what holds without this request.
    test.ask(&charges[2..3]);
    test.ask(&charges[2..3]);
    let outcome = test.ask(&charges);
    let answers: Vec<_> = outcome.decisions().iter().map(Decision::answer).collect();
    let (admits, refuses) = (Answer::Admits, Answer::Refuses);
    assert_eq!(answers, [refuses, admits, refuses, admits, admits, admits]);
    let remaining: Vec<_> = outcome.decisions().iter().map(Decision::remaining).collect();
    assert_eq!(remaining, [0, 10, 0, 30, 40, 50]);
}

fn the_wait_is_true<S: Subject>(test: &Test<S>) {
    let micro = Duration::from_micros(1);
    let tier = TierId::new("", "tier");
    let odd = Quota::new(7, Duration::from_micros(1_000_003));
    let quotas = algorithms().into_iter().chain([odd, odd.weighted_window()]);
    for (nth, quota) in quotas.enumerate() {
        let key = [nth as u8];
        let charge = Charge::new(&tier, &key, &quota);
        for cost in [1, 3, 2, quota.limit(), 1] {
            while test.ask(&[charge.cost(cost)]).is_charged() {}
            let told = test.one(charge.cost(cost)).retry_after().expect("it fits some day");
            test.subject.advance(told - micro);
            let early = test.one(charge.cost(cost));
            assert_eq!(early.answer(), Answer::Refuses, "a microsecond early: {quota:?}");
            assert_eq!(early.retry_after(), Some(micro), "{quota:?}");
            test.subject.advance(micro);
            assert!(test.ask(&[charge.cost(cost)]).is_charged(), "in time: {quota:?}");
        }
    }
}

fn a_cost_of_0_is_a_look<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let charge = Charge::new(&tier, &key, quota);
        let before = test.subject.accounts();
        for _ in 0..20 {
            let look = test.one(charge.cost(0));
            assert_eq!((look.answer(), look.remaining()), (Answer::Admits, 6));
            assert_eq!(look.reset_after(), Duration::ZERO);
        }
        assert_eq!(test.subject.accounts(), before, "looks open no account");
        test.ask(&[charge.cost(6)]);
        let look = test.one(charge.cost(0));
        assert_eq!((look.answer(), look.remaining()), (Answer::Admits, 0), "{quota:?}");
    }
}

fn a_cost_that_can_never_fit<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        for cost in [7, 1 << 40, u64::MAX] {
            let decision = test.one(Charge::new(&tier, &key, quota).cost(cost));
            assert_eq!(decision.answer(), Answer::NeverFits, "{quota:?}");
            assert_eq!(decision.retry_after(), None);
            assert_eq!(decision.remaining(), 6);
        }
    }
}

fn no_charges_no_question<S: Subject>(test: &Test<S>) {
    match test.subject.store().charge(&[]) {
        Asked::Now(outcome) => assert!(outcome.decisions().is_empty()),
        Asked::Later(_) => panic!("nothing takes no time"),
    }
}

fn accounts_are_remembered<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    let quota = Quota::new(1, PERIOD);
    let keys: Vec<_> = (0..500_u32).map(u32::to_be_bytes).collect();
    let asked = |key: &[u8]| test.ask(&[Charge::new(&tier, key, &quota)]).is_charged();
    assert!(keys.iter().all(|key| asked(key)));
    test.subject.advance(PERIOD - Duration::from_micros(1));
    assert!(!keys.iter().any(|key| asked(key)), "all are remembered to the last");
    test.subject.advance(Duration::from_micros(1));
    assert!(keys.iter().all(|key| asked(key)), "and then new");
}

fn an_account_is_identified<S: Subject>(test: &Test<S>) {
    let quota = Quota::new(1, PERIOD);
    let tiers = [("", "a"), ("", "b"), ("space", "a"), ("s", "pacea")].map(|(space, name)| TierId::new(space, name));
    let long = vec![b'x'; 10_000];
    let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"{a}", b"\xff\xfe", b"a", &long];
    for (tier, key) in tiers.iter().flat_map(|tier| keys.iter().map(move |key| (tier, key))) {
        for nth in 0..2 {
            let charge = Charge::new(tier, key, &quota).nth(nth);
            assert!(
                test.ask(&[charge]).is_charged(),
                "{tier:?} {nth}: an account of its own"
            );
            assert!(!test.ask(&[charge]).is_charged());
        }
    }
    // A namesake of the tier is the tier.
    let namesake = TierId::new("space", "a");
    assert!(!test.ask(&[Charge::new(&namesake, b"a", &quota)]).is_charged());
}

fn a_raised_limit_keeps_the_account<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let raised = match quota.algorithm() {
            tower_throttle::Algorithm::FixedWindow { aligned: true } => Quota::new(12, PERIOD).fixed_window(),
            tower_throttle::Algorithm::SlidingLog { .. } => Quota::new(12, PERIOD).sliding_log(),
            tower_throttle::Algorithm::SlidingWindow { buckets } => Quota::new(12, PERIOD).sliding_window(buckets),
            _ => continue,
        };
        test.ask(&[Charge::new(&tier, &key, quota).cost(6)]);
        assert_eq!(test.remaining(Charge::new(&tier, &key, &raised)), 6, "{quota:?}");
        test.ask(&[Charge::new(&tier, &key, &raised).cost(6)]);
        assert_eq!(test.remaining(Charge::new(&tier, &key, quota)), 0, "{quota:?}");
    }
}

/// Futures dropped after each number of polls: what is there then is all of the charges or none.
fn cancellation<S: Subject>(test: &Test<S>) {
    let (one, other) = (TierId::new("", "one"), TierId::new("", "other"));
    let quota = Quota::new(1_000, PERIOD).fixed_window_from_first();
    let charges = [Charge::new(&one, b"key", &quota), Charge::new(&other, b"key", &quota)];
    let _runtime = test.subject.runtime().enter();
    for polls in 0..20 {
        if let Asked::Later(outcome) = test.subject.store().charge(&charges) {
            let mut outcome = pin!(outcome);
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if outcome.as_mut().poll(&mut context).is_ready() {
                    break;
                }
            }
        }
        let left = charges.map(|charge| charge.cost(0));
        let left = test
            .ask(&left)
            .decisions()
            .iter()
            .map(Decision::remaining)
            .collect::<Vec<_>>();
        assert_eq!(left[0], left[1], "dropped after {polls} polls");
    }
}

fn giving_back_restores<S: Subject>(test: &Test<S>) {
    let (one, other) = (TierId::new("", "one"), TierId::new("", "other"));
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let charges = [
            Charge::new(&one, &key, quota).cost(2),
            Charge::new(&other, &key, quota).cost(3),
        ];
        test.ask(&[charges[0]]);
        let receipt = test.ask(&charges).into_receipt().expect("it was charged");
        let outcome = test.give_back(&charges, receipt);
        let remaining: Vec<_> = outcome.decisions().iter().map(Decision::remaining).collect();
        assert_eq!(remaining, [4, 6], "{quota:?}");
        assert_eq!(charges.map(|charge| test.remaining(charge)), [4, 6], "{quota:?}");
        let refused = test.ask(&[charges[0].cost(5)]);
        assert!(
            refused.into_receipt().is_none(),
            "what was not charged cannot be given back"
        );
    }
}

/// Had the charge never been made, a bucket would have been full and lost what it was refilled since. So what is
/// given back late is worth less, or nothing.
fn giving_back_is_strict<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    let quota = Quota::new(6, PERIOD);
    let charge = Charge::new(&tier, b"key", &quota);
    let receipt = test.ask(&[charge.cost(3)]).into_receipt().expect("it was charged");
    // 2 of 3 are refilled; then others take 4.
    test.subject.advance(Duration::from_secs(20));
    assert!(test.ask(&[charge.cost(4)]).is_charged());
    assert_eq!(test.remaining(charge), 1);
    test.give_back(&[charge.cost(3)], receipt);
    assert_eq!(test.remaining(charge), 2, "one of the three still weighed");
}

/// Two charges, of which the first is given back: without it the bucket would have been full earlier than the second
/// charge could tell, and what it was refilled then is lost to the second. Found by comparing memory with Redis: giving
/// back both by what each knew when it was made forgave a third that nobody had given back.
fn giving_back_several_is_strict<S: Subject>(test: &Test<S>) {
    let (with, without) = (TierId::new("", "with"), TierId::new("", "without"));
    let quota = Quota::new(60, PERIOD);
    let charge = |tier| Charge::new(tier, b"key", &quota);
    let first = test
        .ask(&[charge(&with).cost(20)])
        .into_receipt()
        .expect("it was charged");
    let second = test
        .ask(&[charge(&with).cost(20)])
        .into_receipt()
        .expect("it was charged");
    test.give_back(&[charge(&with).cost(20)], first);
    test.subject.advance(Duration::from_secs(25));
    assert!(
        test.ask(&[charge(&with).cost(10), charge(&without).cost(10)])
            .is_charged()
    );
    test.give_back(&[charge(&with).cost(20)], second);
    let left = [&with, &without].map(|tier| test.remaining(charge(tier)));
    assert!(left[0] <= left[1], "{left:?}");
}

/// Two accounts with the same traffic, but for charges that one is given back: it never has more left than the other,
/// to which they were never made.
fn giving_back_frees_no_more_than_was_taken<S: Subject>(test: &Test<S>) {
    let (with, without) = (TierId::new("", "with"), TierId::new("", "without"));
    let mut random = crate::support::Random::new(3);
    let gapless = algorithms().into_iter().filter(|quota| {
        // A window that its first request opens is another window without it: see the next clause.
        quota.algorithm() != tower_throttle::Algorithm::FixedWindow { aligned: false }
    });
    for (nth, quota) in gapless.enumerate() {
        for round in 0..30_u8 {
            let key = [nth as u8, round];
            let charge = |tier| Charge::new(tier, &key, &quota);
            let mut taken = Vec::new();
            for _ in 0..30 {
                test.subject.advance(Duration::from_millis(random.below(15_000)));
                match random.below(4) {
                    0 => {
                        let cost = 1 + random.below(4);
                        let outcome = test.ask(&[charge(&with).cost(cost)]);
                        taken.extend(outcome.into_receipt().map(|receipt| (receipt, cost)));
                    }
                    1 if !taken.is_empty() => {
                        let (receipt, cost) = taken.swap_remove(random.below(taken.len() as u64) as usize);
                        test.give_back(&[charge(&with).cost(cost)], receipt);
                    }
                    _ => {
                        let cost = 1 + random.below(3);
                        test.ask(&[charge(&with).cost(cost), charge(&without).cost(cost)]);
                    }
                }
                let left = [&with, &without].map(|tier| test.remaining(charge(tier)));
                assert!(left[0] <= left[1], "{left:?} of {quota:?}");
            }
        }
    }
}

/// The others in the window would find it ended too early, and more than twice the limit less one would pass.
fn giving_back_the_opener_of_a_window<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    let quota = Quota::new(2, Duration::from_secs(3)).fixed_window_from_first();
    let charge = Charge::new(&tier, b"key", &quota);
    let second = || test.subject.advance(Duration::from_secs(1));
    let opener = test.ask(&[charge]).into_receipt().expect("it was charged");
    second();
    assert!(test.ask(&[charge]).is_charged());
    test.give_back(&[charge], opener);
    second();
    let third = u64::from(test.ask(&[charge]).is_charged());
    second();
    let fourth = (0..2).filter(|_| test.ask(&[charge]).is_charged()).count() as u64;
    assert!(1 + third + fourth <= 3, "1 and {third} and {fourth} within 3 s");

    // Alone in its window it is given back, and the window with it.
    let charge = Charge::new(&tier, b"other", &quota);
    let opener = test.ask(&[charge]).into_receipt().expect("it was charged");
    second();
    test.give_back(&[charge], opener);
    assert_eq!(test.remaining(charge), 2);
}

fn giving_back_after_roll_over<S: Subject>(test: &Test<S>) {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms().iter().enumerate() {
        let key = [nth as u8];
        let charge = Charge::new(&tier, &key, quota);
        let receipt = test.ask(&[charge.cost(3)]).into_receipt().expect("it was charged");
        test.subject.advance(PERIOD * 3);
        assert!(test.ask(&[charge.cost(4)]).is_charged());
        test.give_back(&[charge.cost(3)], receipt);
        assert_eq!(test.remaining(charge), 2, "{quota:?}");
    }
}
