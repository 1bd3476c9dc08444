//! Wrong configuration fails when it is built, with an error that names the tier, the field and what to write.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use tower_throttle::{ConfigError, Global, Jitter, Plan, Plans, Quota, QuotaError, RateLimitLayer, Tier};

fn error(tiers: impl IntoIterator<Item = Tier>) -> ConfigError {
    RateLimitLayer::try_new(tiers).expect_err("it cannot be")
}

/// The error of one tier, which must name it and the field.
fn error_of(tier: Tier, name: &str, field: &str, advice: &str) {
    let error = error([tier]);
    assert_eq!((error.tier(), error.field()), (Some(name), field), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("tier {name:?}, {field}: ")), "{text}");
    assert!(text.contains(advice), "{text:?} should say {advice:?}");
}

fn tier(quota: Quota) -> Tier {
    Tier::new("t", Global, quota)
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn tiers_and_names() {
    assert_eq!(error([]).field(), "tiers");
    let quota = Quota::per_second(1);
    for name in ["", "  ", "tab\t", "newline\n", "ümlaut", &"x".repeat(65)] {
        error_of(Tier::new(name, Global, quota), name, "name", "printable ASCII");
    }
    let error = error([Tier::new("user", Global, quota), Tier::new("User", Global, quota)]);
    assert_eq!((error.tier(), error.field()), (Some("User"), "name"));
    assert!(error.to_string().contains("is taken"));
    // The names of several quotas count too.
    let twice = [
        Tier::new("a", Global, [quota, Quota::per_minute(5)]),
        Tier::new("A.1M", Global, quota),
    ];
    assert_eq!(self::error(twice).tier(), Some("A.1M"));
    // Two tiers of one name would share accounts, whatever their quotas are called.
    let several = Tier::new("user", Global, [quota, Quota::per_minute(5)]);
    assert_eq!(
        self::error([several, Tier::new("USER", Global, quota)]).tier(),
        Some("USER")
    );
}

#[test]
fn quotas() {
    error_of(
        tier(Quota::per_second(10_000_000).burst(1)),
        "t",
        "burst",
        "at least limit x step / period",
    );
    error_of(
        tier(Quota::per_minute(600).in_steps(SECOND * 7)),
        "t",
        "step",
        "divide the period",
    );
    error_of(
        tier(Quota::per_minute(7).in_steps(SECOND)),
        "t",
        "step",
        "whole number of requests",
    );
    error_of(
        tier(Quota::per_minute(60).burst(5).in_steps(SECOND * 10)),
        "t",
        "burst",
        "at least",
    );
    error_of(
        tier(Quota::per_minute(60).sliding_window(0)),
        "t",
        "buckets",
        "from 1 to 10,000",
    );
    error_of(
        tier(Quota::new(5, SECOND).sliding_window(7)),
        "t",
        "buckets",
        "divide the period",
    );
    error_of(
        tier(Quota::per_minute(60).burst(70).fixed_window()),
        "t",
        "burst",
        "leave it out",
    );
    error_of(
        tier(Quota::per_minute(60).sliding_log().burst(70)),
        "t",
        "burst",
        "leave it out",
    );
    error_of(
        tier(Quota::per_minute(10_001).sliding_log()),
        "t",
        "limit",
        "sliding_log_up_to",
    );
    error_of(tier(Quota::per_day(999_999_937)), "t", "limit", "rounder limit");
    error_of(
        tier(Quota::per_minute(100_000_007).weighted_window()),
        "t",
        "limit",
        "2^52",
    );
    error_of(Tier::new("t", Global, []), "t", "quotas", "from 1 to 16");
    error_of(
        Tier::new("t", Global, vec![Quota::per_second(1); 17]),
        "t",
        "quotas",
        "from 1 to 16",
    );
    // Close to the edge, and fine.
    for quota in [
        Quota::per_day(999_983),
        Quota::per_second(10_000_000),
        Quota::per_day(999_999_937).fixed_window(),
        Quota::per_minute(10_001).sliding_log_up_to(20_000),
        Quota::per_minute(60).in_steps(SECOND * 60),
        Quota::new(1 << 52, SECOND).fixed_window(),
    ] {
        RateLimitLayer::try_new([tier(quota)]).unwrap();
    }
}

#[test]
fn quotas_known_at_run_time() {
    for limit in [0, (1 << 52) + 1, u64::MAX] {
        assert_eq!(Quota::try_new(limit, SECOND), Err(QuotaError::Limit));
    }
    let periods = [
        Duration::ZERO,
        Duration::from_nanos(1_500),
        Duration::MAX,
        Duration::from_micros((1 << 52) + 1),
    ];
    for period in periods {
        assert_eq!(Quota::try_new(1, period), Err(QuotaError::Period));
    }
    for burst in [0, (1 << 52) + 1] {
        assert_eq!(Quota::per_second(1).try_burst(burst), Err(QuotaError::Burst));
    }
    assert!(Quota::try_new(5, SECOND).unwrap().try_burst(9).is_ok());
    assert!(QuotaError::Burst.to_string().contains("from 1 to 2^52"));
}

#[test]
fn costs() {
    error_of(tier(Quota::per_second(5)).cost(6), "t", "cost", "at most 5");
    error_of(tier(Quota::per_second(50).burst(5)).cost(6), "t", "cost", "at most 5");
    error_of(
        Tier::new("t", Global, [Quota::per_second(5), Quota::per_minute(3)]).cost(4),
        "t",
        "cost",
        "at most 3",
    );
    RateLimitLayer::try_new([tier(Quota::per_second(5)).cost(5)]).unwrap();
    RateLimitLayer::try_new([tier(Quota::per_second(5)).cost(0)]).unwrap();
}

#[test]
fn plans() {
    let disagree = |one: Vec<Quota>, other: Vec<Quota>| {
        let plans = Plans::new([Plan::new("free", one), Plan::new("pro", other)], |_| None);
        error_of(
            Tier::new("t", Global, plans),
            "t",
            "plans",
            "plans \"free\" and \"pro\" disagree",
        );
    };
    let quota = Quota::per_minute(60);
    disagree(vec![quota], vec![quota, Quota::per_second(5)]);
    disagree(vec![quota], vec![quota.fixed_window()]);
    disagree(vec![quota.fixed_window()], vec![quota.fixed_window_from_first()]);
    disagree(vec![quota.fixed_window()], vec![Quota::per_hour(60).fixed_window()]);
    disagree(vec![quota.sliding_window(6)], vec![quota.sliding_window(10)]);
    disagree(vec![quota.sliding_log()], vec![Quota::per_second(60).sliding_log()]);
    // One counts in milliseconds, the other in microseconds: neither can read the other's fractions.
    disagree(vec![Quota::per_hour(10_000_019)], vec![Quota::per_second(1_000)]);
    disagree(vec![quota.in_steps(SECOND)], vec![quota]);
    disagree(vec![quota.in_steps(SECOND)], vec![quota.in_steps(SECOND * 2)]);

    let none = Plans::new([], |_| None);
    error_of(Tier::new("t", Global, none), "t", "plans", "from 1 to 256");
    let alike = Plans::new([Plan::new("a", quota), Plan::new("a", quota)], |_| None);
    error_of(Tier::new("t", Global, alike), "t", "plans", "two plans are named \"a\"");
    let costly = Plans::new([Plan::new("a", quota), Plan::new("b", Quota::per_second(2))], |_| None);
    error_of(Tier::new("t", Global, costly).cost(3), "t", "cost", "at most 2");
    let fine = Plans::new([Plan::new("a", quota), Plan::new("b", Quota::per_second(2))], |_| None);
    RateLimitLayer::try_new([Tier::new("t", Global, fine)]).unwrap();
}

/// `new` panics with the full message; so do constructors, which in a constant means that it does not compile.
#[test]
fn nonsense_panics_with_a_sentence() {
    fn message(nonsense: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let panic = std::panic::catch_unwind(nonsense).expect_err("nonsense");
        match panic.downcast::<String>() {
            Ok(text) => *text,
            Err(panic) => (*panic.downcast::<&str>().expect("a message")).to_owned(),
        }
    }
    let layer = message(|| drop(RateLimitLayer::new([tier(Quota::per_second(5)).cost(6)])));
    assert_eq!(
        layer,
        r#"tier "t", cost: a cost of 6 can never fit; write at most 5, or raise the burst"#
    );
    assert!(message(|| _ = Quota::per_second(0)).contains("from 1 to 2^52"));
    assert!(message(|| _ = Quota::per_second(1).burst(0)).contains("from 1 to 2^52"));
    assert!(message(|| _ = Quota::one_every(Duration::ZERO)).contains("microseconds"));
    assert!(message(|| _ = Quota::per_second(1).in_steps(Duration::ZERO)).contains("step"));
    assert!(message(|| _ = Jitter::between(SECOND, Duration::ZERO)).contains("between(min, max)"));
    assert_eq!(
        Jitter::try_between(SECOND, Duration::ZERO).unwrap_err().field(),
        "jitter"
    );
    assert!(Jitter::try_between(Duration::ZERO, SECOND).is_ok());
    assert_eq!(Quota::per_second(1).try_in_steps(Duration::ZERO), Err(QuotaError::Step));
    assert!(message(|| _ = tower_throttle::GrpcMethod::new().service("/a.B", ["C"])).contains("without slashes"));
    let retry_after = http::header::RETRY_AFTER;
    assert!(message(|| _ = tower_throttle::Headers::none().wait_millis(retry_after)).contains("seconds"));
    assert!(message(|| _ = tower_throttle::Header::new("a b")).contains("not a header name"));
    assert!(message(|| _ = tower_throttle::PeerIp::new().ipv6_prefix(0)).contains("from 1 to 128"));
    assert!(message(|| _ = tower_throttle::ForwardedIp::forwarded().trust_hops(0)).contains("from 1 to 32"));
}
