//! What a policy's shape costs: how many tiers, what is configured but not used, and accounts that threads share.

use std::time::Duration;

use http::Method;
use tower::Layer as _;
use tower_throttle::policy::preflight;
use tower_throttle::store::MemoryStore;
use tower_throttle::{Global, Header, Headers, Path, Plan, Plans, Quota, RateLimitLayer, Tier};

use crate::load::{Contender, Load, NoOp, contender};
use crate::rounds::Rounds;

const PLENTY: Quota = Quota::new(1, Duration::from_micros(10)).burst(1_000_000_000);

pub(crate) fn table() -> String {
    let loads = [Load::new(1_000, 1), Load::new(1_000, 2)];
    let global = || Tier::new("global", Global, PLENTY);
    let path = || Tier::new("path", Path, PLENTY);
    let user = || Tier::new("user", (Header::new("x-user-id"), Path), PLENTY);
    let contenders = vec![
        ("one tier: all requests, so one account", layer(vec![global()])),
        ("one tier: by user", layer(vec![user()])),
        ("three tiers: global, path, user", layer(vec![global(), path(), user()])),
        ("three tiers: user, path, global", layer(vec![user(), path(), global()])),
        (
            "three tiers, and five for other methods",
            layer(others(vec![global(), path(), user()])),
        ),
        (
            "three tiers, of which one has 100 plans",
            layer(vec![global(), path(), planned()]),
        ),
        ("two tiers by user", layer(by_user(2))),
        ("three tiers by user", layer(by_user(3))),
        ("four tiers by user", layer(by_user(4))),
        ("five tiers by user", layer(by_user(5))),
        ("eight tiers by user", layer(by_user(8))),
    ];
    Rounds::new(&loads, contenders).run(40).table()
}

fn layer(tiers: Vec<Tier>) -> Contender {
    let layer = RateLimitLayer::new(tiers)
        .headers(Headers::none())
        .exempt(preflight)
        .store(MemoryStore::new());
    contender(layer.layer(NoOp))
}

fn others(mut tiers: Vec<Tier>) -> Vec<Tier> {
    tiers.extend((0..5).map(|nth| Tier::new(format!("other {nth}"), Path, PLENTY).only([Method::POST])));
    tiers
}

fn planned() -> Tier {
    let plans = (0..100).map(|nth| Plan::new(format!("plan {nth}"), PLENTY));
    Tier::new(
        "planned",
        (Header::new("x-user-id"), Path),
        Plans::new(plans, |_| Some("plan 99")),
    )
}

fn by_user(tiers: usize) -> Vec<Tier> {
    let tier = |nth| Tier::new(format!("user {nth}"), (Header::new("x-user-id"), Path), PLENTY);
    (0..tiers).map(tier).collect()
}
