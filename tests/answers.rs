//! What clients are told: headers in every dialect, bodies in every form, one wait everywhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::HashSet;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body_util::{BodyExt as _, Full};
use sfv::{BareItem, ListEntry};
use tower::util::BoxCloneService;
use tower::{Layer, Service, ServiceBuilder, ServiceExt as _, service_fn};
use tower_throttle::clock::ManualClock;
use tower_throttle::policy::{Decided, DecisionHook, Reason};
use tower_throttle::response::{JsonEnvelope, PlainText, Reset};
use tower_throttle::store::MemoryStore;
use tower_throttle::{
    Global, Header, Headers, Jitter, OnMissing, Plan, Plans, Quota, RateLimitLayer, Rejection, Tier, Verdict,
};

const TEN_SECONDS: Duration = Duration::from_secs(10);

type Handler = fn(Request<Full<Bytes>>) -> Ready<Result<Response<Full<Bytes>>, Infallible>>;
type Stack = BoxCloneService<Request<Full<Bytes>>, Response<Bytes>, Infallible>;

/// A service behind layers, with bodies collected.
fn stack<L, B>(layer: L) -> Stack
where
    L: Layer<tower::util::ServiceFn<Handler>>,
    L::Service: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    <L::Service as Service<Request<Full<Bytes>>>>::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: std::fmt::Debug,
{
    let handler: Handler = |_| ready(Ok(Response::new(Full::from("inner"))));
    let service = ServiceBuilder::new().layer(layer).service(service_fn(handler));
    BoxCloneService::new(service.then(async |response: Result<Response<B>, Infallible>| {
        let (parts, body) = response?.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        Ok(Response::from_parts(parts, body))
    }))
}

async fn ask(stack: &mut Stack, request: http::request::Builder) -> Response<Bytes> {
    let request = request.body(Full::default()).unwrap();
    stack.ready().await.unwrap().call(request).await.unwrap()
}

async fn get(stack: &mut Stack) -> Response<Bytes> {
    ask(stack, Request::get("/")).await
}

fn memory() -> (ManualClock, MemoryStore) {
    let clock = ManualClock::new();
    (clock.clone(), MemoryStore::new().clock(clock))
}

/// 2 per 10 s for the user, 3 per minute and 5 per hour for all, by different algorithms; no jitter.
fn tiers() -> [Tier; 2] {
    let all = [Quota::per_minute(3).fixed_window(), Quota::per_hour(5).sliding_log()];
    [
        Tier::new("user", Header::new("x-user-id"), Quota::new(2, TEN_SECONDS)).jitter(Jitter::none()),
        Tier::new("all", Global, all).jitter(Jitter::none()),
    ]
}

fn header<'a>(response: &'a Response<Bytes>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

fn json(response: &Response<Bytes>) -> serde_json::Value {
    serde_json::from_slice(response.body()).unwrap()
}

#[tokio::test]
async fn the_draft_headers_to_the_letter() {
    let (clock, store) = memory();
    let mut stack = stack(RateLimitLayer::new(tiers()).store(store));
    let policy = r#""user";q=2;w=10, "all.1m";q=3;w=60, "all.1h";q=5;w=3600"#;

    let response = get(&mut stack).await;
    assert_eq!(header(&response, "ratelimit-policy"), Some(policy));
    assert_eq!(
        header(&response, "ratelimit"),
        Some(r#""user";r=1;t=10, "all.1m";r=2;t=60, "all.1h";r=4;t=3600"#)
    );
    assert_eq!(header(&response, "retry-after"), None);

    clock.advance(Duration::from_millis(1_500));
    let response = get(&mut stack).await;
    // Nothing left: until there is more. The window ends in 58.5 s.
    assert_eq!(
        header(&response, "ratelimit"),
        Some(r#""user";r=0;t=4, "all.1m";r=1;t=59, "all.1h";r=3;t=3600"#)
    );

    let response = get(&mut stack).await;
    assert_eq!(response.status(), 429);
    assert_eq!(header(&response, "ratelimit-policy"), Some(policy));
    assert_eq!(
        header(&response, "ratelimit"),
        Some(r#""user";r=0;t=4"#),
        "only what was violated"
    );
    assert_eq!(header(&response, "retry-after"), Some("4"));
    assert_eq!(header(&response, "cache-control"), Some("no-store"));

    // Another user has quota of their own; then two tiers refuse at once, and the longer wait is told.
    let bob = || Request::get("/").header("x-user-id", "bob");
    assert_eq!(ask(&mut stack, bob()).await.status(), 200);
    let response = ask(&mut stack, bob()).await;
    assert_eq!(header(&response, "ratelimit"), Some(r#""all.1m";r=0;t=59"#));
    let response = get(&mut stack).await;
    assert_eq!(
        header(&response, "ratelimit"),
        Some(r#""user";r=0;t=4, "all.1m";r=0;t=59"#)
    );
    assert_eq!(header(&response, "retry-after"), Some("59"));
    assert_eq!(
        json(&response)["violated-policies"],
        serde_json::json!(["user", "all.1m"])
    );
}

#[tokio::test]
async fn x_rate_limit_speaks_of_the_tightest() {
    for (reset, at_first, refused) in [(Reset::Delta, "5", "10"), (Reset::Epoch, "1800000005", "1800000010")] {
        let (_, store) = memory();
        let headers = Headers::none().x_rate_limit(reset);
        let mut stack = stack(RateLimitLayer::new(tiers()).headers(headers).store(store));
        let response = get(&mut stack).await;
        let shown = ["limit", "remaining", "reset"].map(|what| header(&response, &format!("x-ratelimit-{what}")));
        assert_eq!(shown, [Some("2"), Some("1"), Some(at_first)]);
        assert_eq!(header(&response, "ratelimit"), None);
        get(&mut stack).await;
        let response = get(&mut stack).await;
        let shown = ["limit", "remaining", "reset"].map(|what| header(&response, &format!("x-ratelimit-{what}")));
        assert_eq!(shown, [Some("2"), Some("0"), Some(refused)]);
        assert_eq!(header(&response, "retry-after"), Some("5"));
    }
}

#[tokio::test]
async fn without_headers_a_refusal_still_tells_the_wait() {
    let (_, store) = memory();
    let mut stack = stack(RateLimitLayer::new(tiers()).headers(Headers::none()).store(store));
    assert!(get(&mut stack).await.headers().is_empty());
    get(&mut stack).await;
    let response = get(&mut stack).await;
    assert_eq!(header(&response, "retry-after"), Some("5"));
    let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["content-type", "cache-control", "retry-after"]);
}

#[tokio::test]
async fn bodies_in_every_form() {
    let (_, store) = memory();
    let layer =
        || RateLimitLayer::new([Tier::new("user \"x\"", Global, Quota::new(1, TEN_SECONDS)).jitter(Jitter::none())]);

    let mut problem = stack(layer().store(store.clone()));
    get(&mut problem).await;
    let response = get(&mut problem).await;
    assert_eq!(header(&response, "content-type"), Some("application/problem+json"));
    assert_eq!(
        json(&response),
        serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Quota Exceeded",
            "status": 429,
            "detail": "tier \"user \\\"x\\\"\" allows 1 per 10s; try again in 10000 ms",
            "violated-policies": ["user \"x\""],
            "wait_ms": 10_000,
        })
    );

    let mut text = stack(layer().responder(PlainText).store(store.clone()));
    let response = get(&mut text).await;
    assert_eq!(header(&response, "content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(
        response.body(),
        r#"tier "user \"x\"" allows 1 per 10s; try again in 10000 ms"#
    );

    let mut envelope = stack(layer().responder(JsonEnvelope).store(store.clone()));
    let response = get(&mut envelope).await;
    let message = r#"tier "user \"x\"" allows 1 per 10s; try again in 10000 ms"#;
    assert_eq!(
        json(&response),
        serde_json::json!({"code": 429, "message": message, "data": null})
    );
    assert!(response.body().starts_with(br#"{"code":429,"message":"#));

    // One of the user's own cannot lose the headers.
    let own = |rejection: &Rejection, parts: &Parts| {
        let body = format!("{} {}", parts.uri, rejection.tier());
        Response::builder()
            .status(420)
            .header("cache-control", "private")
            .body(body)
            .unwrap()
    };
    let mut own = stack(layer().responder(own).store(store));
    let response = get(&mut own).await;
    assert_eq!(response.status(), 420);
    assert_eq!(response.body(), "/ user \"x\"");
    assert_eq!(header(&response, "retry-after"), Some("10"));
    assert_eq!(header(&response, "ratelimit"), Some(r#""user \"x\"";r=0;t=10"#));
    assert_eq!(header(&response, "cache-control"), Some("private"));
}

#[tokio::test]
async fn a_cost_that_can_never_fit_is_forbidden_and_takes_nothing() {
    let (_, store) = memory();
    let tier = Tier::new("user", Global, Quota::new(5, TEN_SECONDS))
        .cost_by(|parts| parts.uri.path()[1..].parse().unwrap_or(1));
    let other = Tier::new("other", Global, Quota::new(2, TEN_SECONDS));
    let mut stack = stack(RateLimitLayer::new([other, tier]).store(store.clone()));
    for cost in ["6", "4503599627370497", "18446744073709551615"] {
        let response = ask(&mut stack, Request::get(format!("/{cost}"))).await;
        assert_eq!(response.status(), 403);
        assert_eq!(header(&response, "retry-after"), None);
        assert_eq!(header(&response, "ratelimit"), Some(r#""user";r=5"#));
        let detail = format!(r#"tier "user" admits at most 5 at once, and the request costs {cost}"#);
        assert_eq!(json(&response)["detail"], detail);
        assert_eq!(json(&response)["type"], "about:blank");
        assert_eq!(
            response.extensions().get::<Rejection>().unwrap().reason(),
            Reason::CostTooHigh
        );
    }
    assert_eq!(store.keys(), 0, "nothing was charged");
    let response = ask(&mut stack, Request::get("/5")).await;
    assert_eq!(
        header(&response, "ratelimit"),
        Some(r#""other";r=1;t=10, "user";r=0;t=10"#)
    );
}

#[tokio::test]
async fn a_missing_key_is_shared_skipped_or_refused() {
    let tier = |on_missing| {
        let quota = Quota::new(1, TEN_SECONDS);
        let by = (Header::new("x-user-id"), Header::new("x-tenant"));
        RateLimitLayer::new([Tier::new("user", by, quota).on_missing(on_missing)]).store(memory().1)
    };
    let half = || Request::get("/").header("x-tenant", "t");

    let mut shared = stack(tier(OnMissing::Share));
    assert_eq!(get(&mut shared).await.status(), 200);
    assert_eq!(get(&mut shared).await.status(), 429);
    assert_eq!(ask(&mut shared, half()).await.status(), 200, "what there is counts");
    assert_eq!(ask(&mut shared, half()).await.status(), 429);

    let mut skipped = stack(tier(OnMissing::Skip));
    for _ in 0..3 {
        let response = get(&mut skipped).await;
        assert_eq!(
            (response.status().as_u16(), header(&response, "ratelimit")),
            (200, None)
        );
        assert_eq!(ask(&mut skipped, half()).await.status(), 200);
    }

    let mut refused = stack(tier(OnMissing::Refuse));
    for request in [Request::get("/"), half()] {
        let response = ask(&mut refused, request).await;
        assert_eq!(response.status(), 400);
        assert_eq!(header(&response, "retry-after"), None);
        assert_eq!(
            json(&response)["detail"],
            r#"tier "user" counts by something that the request does not have"#
        );
        assert_eq!(
            response.extensions().get::<Rejection>().unwrap().reason(),
            Reason::MissingKey
        );
    }
}

#[tokio::test]
async fn a_store_that_fails_is_unavailable() {
    let tier = Tier::new("user", Global, Quota::per_second(1)).on_failure(tower_throttle::store::FailureMode::Deny);
    let mut stack = stack(RateLimitLayer::new([tier]).store(support::FailingStore));
    let response = get(&mut stack).await;
    assert_eq!(response.status(), 503);
    assert_eq!(
        json(&response)["type"],
        "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
    );
    assert_eq!(json(&response)["violated-policies"], serde_json::json!(["user"]));
    let seconds: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
    assert!((1..=2).contains(&seconds));
}

#[tokio::test]
async fn a_tier_can_be_kept_out_of_the_headers() {
    let hidden = Tier::new("hidden", Global, Quota::new(1, TEN_SECONDS))
        .in_headers(false)
        .jitter(Jitter::none());
    let shown = Tier::new("shown", Global, Quota::new(9, TEN_SECONDS));
    let headers = Headers::default().x_rate_limit(Reset::Delta);
    let mut both = stack(
        RateLimitLayer::new([hidden.clone(), shown])
            .headers(headers)
            .store(memory().1),
    );
    let response = get(&mut both).await;
    assert_eq!(header(&response, "ratelimit"), Some(r#""shown";r=8;t=10"#));
    assert_eq!(header(&response, "ratelimit-policy"), Some(r#""shown";q=9;w=10"#));
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("9"));
    let response = get(&mut both).await;
    assert_eq!(
        (response.status().as_u16(), header(&response, "ratelimit")),
        (429, None),
        "an empty list is not sent"
    );
    assert_eq!(header(&response, "retry-after"), Some("10"));
    assert_eq!(
        json(&response)["violated-policies"],
        serde_json::json!(["hidden"]),
        "a refusal names it all the same"
    );

    let mut alone = stack(RateLimitLayer::new([hidden]).store(memory().1));
    assert!(get(&mut alone).await.headers().is_empty());
}

#[tokio::test]
async fn quotas_that_seconds_cannot_tell() {
    let ms = Duration::from_millis;
    for (quota, expected) in [
        (Quota::new(10, ms(100)), r#""x";q=100;w=1"#),
        (Quota::new(10, ms(1_500)), r#""x";q=10"#),
        (Quota::new(10, ms(300)), r#""x";q=10"#),
        (
            Quota::per_minute(600).burst(800),
            r#""x";q=600;w=60;throttle-burst=800"#,
        ),
        (
            Quota::new(1 << 52, Duration::from_secs(1)).fixed_window(),
            r#""x";q=999999999999999;w=1"#,
        ),
    ] {
        let mut stack = stack(RateLimitLayer::new([Tier::new("x", Global, quota)]).store(memory().1));
        let response = get(&mut stack).await;
        assert_eq!(header(&response, "ratelimit-policy"), Some(expected));
        check_fields(response.headers());
    }
    // Of less than a second `t` would tell a tenth of the rate.
    let quota = Quota::new(10, ms(100));
    let mut stack = stack(RateLimitLayer::new([Tier::new("x", Global, quota)]).store(memory().1));
    assert_eq!(header(&get(&mut stack).await, "ratelimit"), Some(r#""x";r=9"#));
}

#[tokio::test]
async fn x_rate_limit_is_a_share() {
    let headers = Headers::none().x_rate_limit(Reset::Delta);
    let tier = Tier::new("x", Global, Quota::per_minute(600).burst(800));
    let mut stack = stack(RateLimitLayer::new([tier]).headers(headers).store(memory().1));
    let response = get(&mut stack).await;
    assert_eq!(header(&response, "x-ratelimit-limit"), Some("800"));
    assert_eq!(header(&response, "x-ratelimit-remaining"), Some("799"));
}

#[tokio::test]
async fn the_policy_of_the_plan_is_told() {
    let plans = Plans::new(
        [
            Plan::new("free", Quota::per_minute(2)),
            Plan::new("pro", Quota::per_minute(50)),
        ],
        |parts: &Parts| parts.headers.get("x-plan")?.to_str().ok(),
    );
    let mut stack = stack(RateLimitLayer::new([Tier::new("user", Global, plans)]).store(memory().1));
    for (plan, expected) in [
        ("pro", r#""user";q=50;w=60"#),
        ("free", r#""user";q=2;w=60"#),
        ("invented", r#""user";q=2;w=60"#),
    ] {
        let response = ask(&mut stack, Request::get("/").header("x-plan", plan)).await;
        assert_eq!(header(&response, "ratelimit-policy"), Some(expected));
    }
}

#[tokio::test]
async fn two_layers_in_one_stack_tell_the_truth() {
    let layer = |name: &str, limit| {
        let tier = Tier::new(name, Global, Quota::new(limit, TEN_SECONDS)).jitter(Jitter::none());
        let headers = Headers::default().x_rate_limit(Reset::Delta);
        RateLimitLayer::new([tier]).headers(headers).store(memory().1)
    };
    // The tighter one inside, then outside.
    for (outer, inner) in [(5, 2), (2, 5)] {
        let both = ServiceBuilder::new()
            .layer(layer("outer", outer))
            .layer(layer("inner", inner))
            .into_inner();
        let mut stack = stack(both);
        let response = get(&mut stack).await;
        let listed: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
        assert_eq!(
            listed,
            [
                &*format!(r#""inner";r={};t=10"#, inner - 1),
                &*format!(r#""outer";r={};t=10"#, outer - 1)
            ]
        );
        assert_eq!(response.headers().get_all("ratelimit-policy").iter().count(), 2);
        assert_eq!(
            response
                .headers()
                .get_all("x-ratelimit-limit")
                .iter()
                .collect::<Vec<_>>(),
            ["2"]
        );
        assert_eq!(header(&response, "x-ratelimit-remaining"), Some("1"));

        get(&mut stack).await;
        let response = get(&mut stack).await;
        assert_eq!(response.status(), 429);
        let listed: Vec<_> = response.headers().get_all("ratelimit").iter().collect();
        let refuser = if outer == 2 { "outer" } else { "inner" };
        assert_eq!(
            listed,
            [&*format!(r#""{refuser}";r=0;t=5"#)],
            "a refusal is not stamped again"
        );
        assert_eq!(response.headers().get_all("retry-after").iter().count(), 1);
    }
}

/// Structured fields as the `sfv` crate reads them, with the right types.
fn check_fields(headers: &HeaderMap) {
    let retry_after = headers
        .get("retry-after")
        .map(|value| value.to_str().unwrap().parse::<i64>().unwrap());
    for (name, required) in [("ratelimit-policy", "q"), ("ratelimit", "r")] {
        for line in headers.get_all(name) {
            let list = sfv::Parser::new(line.as_bytes())
                .parse::<sfv::List>()
                .expect("a structured list");
            assert!(!list.is_empty());
            for entry in list {
                let ListEntry::Item(item) = entry else {
                    panic!("a list inside a list")
                };
                assert!(matches!(item.bare_item, BareItem::String(_)), "named by a string");
                let integer = |key: &str| {
                    item.params.get(key).map(|value| match value {
                        BareItem::Integer(number) => i64::from(*number),
                        other => panic!("{key}={other:?}"),
                    })
                };
                assert!(
                    integer(required).is_some_and(|number| number >= 0),
                    "{name} needs {required}"
                );
                assert!(integer("w").is_none_or(|window| window >= 1));
                assert!(integer("t").is_none_or(|window| window >= 1));
                if let (Some(retry_after), Some(window)) = (retry_after, integer("t")) {
                    assert!(retry_after >= window, "Retry-After is never earlier than t");
                }
            }
        }
    }
    assert!(retry_after.is_none_or(|seconds| seconds >= 1));
}

#[tokio::test]
async fn every_field_parses_whatever_happens() {
    let mut random = support::Random::new(1);
    for _ in 0..150 {
        let quota = |random: &mut support::Random| {
            let period = Duration::from_micros(1 + random.below(20_000_000));
            let limit = 1 + random.below(5);
            match random.below(4) {
                0 => Quota::new(limit, period).fixed_window(),
                1 => Quota::new(limit, period).sliding_log(),
                2 => Quota::new(limit, period).weighted_window(),
                _ => Quota::new(limit, period).burst(limit + random.below(3)),
            }
        };
        let names = ["a", "with space", "q\"uote\\d", "{braces}"];
        let tiers = (0..4).map(|nth| Tier::new(names[nth], Global, quota(&mut random)));
        let (clock, store) = memory();
        let mut stack = stack(RateLimitLayer::try_new(tiers).unwrap().store(store));
        for _ in 0..20 {
            let response = get(&mut stack).await;
            check_fields(response.headers());
            assert!(response.status() == 200 || response.status() == 429);
            clock.advance(Duration::from_micros(random.below(3_000_000)));
        }
    }
}

/// A thousand clients refused at one instant: their waits spread, none is early, and every field tells one number.
#[tokio::test]
async fn refusals_spread_and_agree() {
    let tier = Tier::new("all", Global, Quota::new(1, Duration::from_secs(40)));
    let headers = Headers::default().wait_millis(HeaderName::from_static("x-wait-ms"));
    let mut stack = stack(
        RateLimitLayer::new([tier])
            .headers(headers)
            .jitter_seed(7)
            .store(memory().1),
    );
    get(&mut stack).await;
    let (mut seconds_told, mut millis_told) = (HashSet::new(), HashSet::new());
    for _ in 0..1_000 {
        let response = get(&mut stack).await;
        check_fields(response.headers());
        let seconds: u64 = header(&response, "retry-after").unwrap().parse().unwrap();
        let millis: u64 = header(&response, "x-wait-ms").unwrap().parse().unwrap();
        let rejection = response.extensions().get::<Rejection>().unwrap();
        assert_eq!(rejection.retry_after(), Some(Duration::from_secs(40)));
        assert_eq!(rejection.wait(), Some(Duration::from_millis(millis)));
        assert_eq!(seconds, millis.div_ceil(1_000));
        assert_eq!(json(&response)["wait_ms"], millis);
        assert!(
            json(&response)["detail"]
                .as_str()
                .unwrap()
                .ends_with(&format!("try again in {millis} ms"))
        );
        assert_eq!(
            header(&response, "ratelimit"),
            Some(r#""all";r=0;t=40"#),
            "t is without jitter"
        );
        assert!((40_000..=50_000).contains(&millis), "a quarter more at most: {millis}");
        seconds_told.insert(seconds);
        millis_told.insert(millis);
    }
    assert!(seconds_told.len() >= 10, "every second from 41 to 50: {seconds_told:?}");
    assert!(millis_told.len() > 900, "{}", millis_told.len());
}

#[tokio::test]
async fn jitter_is_that_of_the_longest_wait_and_can_be_seeded() {
    let told = async |seed| {
        let jitter = |min, max| Jitter::between(Duration::from_secs(min), Duration::from_secs(max));
        let tiers = [
            Tier::new("short", Global, Quota::new(1, TEN_SECONDS)).jitter(jitter(500, 600)),
            Tier::new("long", Global, Quota::new(1, TEN_SECONDS * 3)).jitter(jitter(3, 7)),
        ];
        let mut stack = stack(RateLimitLayer::new(tiers).jitter_seed(seed).store(memory().1));
        let mut waits = Vec::new();
        get(&mut stack).await;
        for _ in 0..20 {
            let response = get(&mut stack).await;
            let rejection = response.extensions().get::<Rejection>().unwrap();
            assert_eq!(rejection.tier(), "short", "the first is named");
            waits.push(rejection.wait().unwrap());
        }
        assert!(
            waits.iter().all(|wait| (33..=37).contains(&wait.as_secs())),
            "{waits:?}"
        );
        waits
    };
    assert_eq!(told(1).await, told(1).await);
    assert_ne!(told(1).await, told(2).await);
}

/// The hook sees tiers, numbers and a hash; of the key there is no trace in anything that leaves.
#[tokio::test]
async fn no_key_leaves() {
    use std::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Seen(Mutex<Vec<(String, Option<Reason>)>>);

    impl DecisionHook for Seen {
        fn decided(&self, decided: &Decided<'_>) {
            let standings = decided.verdict().into_iter().flat_map(Verdict::standings);
            let hashes: Vec<_> = standings.map(|standing| standing.key_hash().unwrap()).collect();
            let refused = decided.rejection().map(Rejection::reason);
            self.0
                .lock()
                .unwrap()
                .push((format!("{decided:?} {hashes:?}"), refused));
        }
    }

    let seen = Arc::new(Seen::default());
    let tiers = || [Tier::new("user", Header::new("x-user-id"), Quota::new(1, TEN_SECONDS))];
    let layer = RateLimitLayer::new(tiers())
        .hook(Arc::clone(&seen))
        .share_verdict(true)
        .store(memory().1);
    let debug = format!("{layer:?}");
    let mut stack = stack(layer);
    let request = |key| Request::get("/").header("x-user-id", key);
    let mut left = debug;
    for content_type in ["text/plain", "text/plain", "application/grpc"] {
        let request = request("s3cret-key").header("content-type", content_type);
        let response = ask(&mut stack, request).await;
        left += &format!(
            "{:?} {:?}",
            response.headers(),
            response.extensions().get::<Rejection>()
        );
        left += &String::from_utf8_lossy(response.body());
    }
    ask(&mut stack, request("other")).await;
    let seen = seen.0.lock().unwrap();
    let outcomes: Vec<_> = seen.iter().map(|(_, refused)| *refused).collect();
    let refused = Some(Reason::QuotaExceeded);
    assert_eq!(outcomes, [None, refused, refused, None]);
    let hash = |nth: usize| seen[nth].0.rsplit_once('[').unwrap().1.to_owned();
    assert_eq!(hash(0), hash(1), "one key, one hash");
    assert_ne!(hash(0), hash(3));
    left += &format!("{seen:?}");
    assert!(!left.contains("s3cret"), "{left}");
}

/// What has no key shares an account with nobody who has one, not even an empty one.
#[tokio::test]
async fn the_account_of_the_missing_is_their_own() {
    use tower_throttle::key::{Drawn, KeyBuf, from_fn};

    let empty = from_fn(|parts: &Parts, _: &mut KeyBuf| match parts.uri.query() {
        Some(_) => Drawn::Key,
        None => Drawn::Missing,
    });
    let tier = Tier::new("empty", empty, Quota::new(1, TEN_SECONDS));
    let mut stack = stack(RateLimitLayer::new([tier]).store(memory().1));
    assert_eq!(get(&mut stack).await.status(), 200);
    assert_eq!(get(&mut stack).await.status(), 429);
    assert_eq!(ask(&mut stack, Request::get("/?")).await.status(), 200);
}

/// Waits between two milliseconds, and between two seconds, are rounded up.
#[tokio::test]
async fn a_wait_is_never_rounded_down() {
    let (clock, store) = memory();
    let quota = Quota::new(1, Duration::from_micros(2_000_300));
    let headers = Headers::none().wait_millis(HeaderName::from_static("x-wait-ms"));
    let layer = RateLimitLayer::new([Tier::new("t", Global, quota).jitter(Jitter::none())]);
    let mut stack = stack(layer.headers(headers).store(store));
    get(&mut stack).await;
    let response = get(&mut stack).await;
    assert_eq!(header(&response, "x-wait-ms"), Some("2001"));
    assert_eq!(header(&response, "retry-after"), Some("3"));
    clock.advance(Duration::from_micros(2_000_299));
    let response = get(&mut stack).await;
    assert_eq!(header(&response, "x-wait-ms"), Some("1"));
    assert_eq!(header(&response, "retry-after"), Some("1"));
}
