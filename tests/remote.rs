//! What stands around a remote store: the fallback that decides while it is away, and the refusals that are remembered in
//! front of it. The remote one here is a memory store with a switch.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use support::{Later, LaterStore, outcome};
use tower::{ServiceBuilder, ServiceExt, service_fn};
use tower_throttle::clock::{Clock as _, ManualClock, Timestamp};
use tower_throttle::policy::{Decided, Reason};
use tower_throttle::store::{
    Answer, Asked, Charge, FailureMode, Fallback, MemoryStore, Outcome, Receipt, RefusalCache, Replicas, Source, Store,
    TierId,
};
use tower_throttle::{Global, Header, Quota, RateLimitLayer, Rejection, Tier, Verdict};

const MINUTE: Duration = Duration::from_secs(60);

/// A remote store: it answers later, counts how often it is asked, and fails while it is away.
#[derive(Clone)]
struct Remote {
    store: LaterStore,
    is_away: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Remote {
    fn new(clock: &ManualClock) -> Self {
        Self {
            store: LaterStore::new(MemoryStore::new().clock(clock.clone())),
            is_away: Arc::default(),
            asked: Arc::default(),
        }
    }

    fn go_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::SeqCst);
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Store for Remote {
    type Future = Later;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Later> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.is_away.load(Ordering::SeqCst) {
            return Asked::Later(Later::new(Outcome::failed(charges.len())));
        }
        self.store.charge(charges)
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Later> {
        self.store.give_back(charges, receipt)
    }
}

fn fallback(remote: &Remote, clock: &ManualClock, replicas: impl Into<Replicas>) -> Fallback<Remote> {
    Fallback::new(remote.clone())
        .local(MemoryStore::new().clock(clock.clone()))
        .replicas(replicas)
}

fn algorithms(limit: u64) -> [Quota; 7] {
    let quota = Quota::new(limit, MINUTE);
    [
        quota,
        quota.in_steps(MINUTE / 6),
        quota.fixed_window(),
        quota.fixed_window_from_first(),
        quota.sliding_window(6),
        quota.weighted_window(),
        quota.sliding_log(),
    ]
}

/// Whoever was used up when the store failed is used up in each process that has seen it: what the store told counts,
/// not what this process admitted itself.
#[tokio::test]
async fn the_fallback_knows_what_the_store_told() {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms(6).iter().enumerate() {
        let clock = ManualClock::new();
        let remote = Remote::new(&clock);
        let here = fallback(&remote, &clock, 3);
        let elsewhere = fallback(&remote, &clock, 3);
        let key = [nth as u8];
        let charge = Charge::new(&tier, &key, quota);
        assert!(outcome(elsewhere.charge(&[charge.cost(5)])).await.is_charged());
        assert!(outcome(here.charge(&[charge])).await.is_charged());

        remote.go_away(true);
        let decided = outcome(here.charge(&[charge])).await;
        assert_eq!(decided.decisions()[0].answer(), Answer::Refuses, "{quota:?}");
        assert_eq!(decided.decisions()[0].source(), Source::Local);
        let wait = decided.decisions()[0].retry_after().unwrap();
        clock.advance(wait);
        assert!(
            outcome(here.charge(&[charge])).await.is_charged(),
            "the local wait is true: {quota:?}"
        );
        // The other process has not heard of the last one.
        assert!(outcome(elsewhere.charge(&[charge])).await.is_charged(), "{quota:?}");

        remote.go_away(false);
        assert_eq!(
            outcome(here.charge(&[charge])).await.decisions()[0].source(),
            Source::Store
        );
    }
}

/// During an outage of T, each of n processes admits at most burst + limit × T / (n × period): together the bursts, and the
/// quota in the long run.
#[tokio::test]
async fn processes_share_the_rate_while_the_store_is_away() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    remote.go_away(true);
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(60, MINUTE).burst(10));
    let replicas = Replicas::new(4);
    let processes: Vec<_> = (0..4).map(|_| fallback(&remote, &clock, replicas.clone())).collect();
    let mut admitted = [0_u64; 4];
    for _ in 0..600 {
        for (process, admitted) in processes.iter().zip(&mut admitted) {
            let charge = Charge::new(&tier, b"key", &quota);
            while outcome(process.charge(&[charge])).await.is_charged() {
                *admitted += 1;
            }
        }
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(admitted, [10 + 599 / 4; 4]);

    // Told of fewer processes, each refills faster, once what it owes is paid off.
    replicas.set(1);
    let charge = Charge::new(&tier, b"key", &quota);
    clock.advance(
        outcome(processes[0].charge(&[charge])).await.decisions()[0]
            .retry_after()
            .unwrap(),
    );
    for _ in 0..100 {
        assert!(outcome(processes[0].charge(&[charge])).await.is_charged());
        assert!(!outcome(processes[0].charge(&[charge])).await.is_charged());
        clock.advance(Duration::from_secs(1));
    }
}

/// A store that fails now and then is no way around the quota: what it admits, and one burst here.
#[tokio::test]
async fn a_store_that_comes_and_goes_admits_no_more() {
    let tier = TierId::new("", "tier");
    for (nth, quota) in algorithms(10).iter().enumerate() {
        let clock = ManualClock::new();
        let remote = Remote::new(&clock);
        let store = fallback(&remote, &clock, 1);
        let key = [nth as u8];
        let mut admitted = 0;
        for round in 0..200 {
            remote.go_away(round % 10 != 0);
            let decided = outcome(store.charge(&[Charge::new(&tier, &key, quota)])).await;
            admitted += u64::from(decided.is_charged());
        }
        assert!((10..=20).contains(&admitted), "{quota:?}: {admitted}");
    }
}

/// Local tiers are charged all or nothing among themselves; any that denies denies; those that allow do not count.
#[tokio::test]
async fn failure_modes_add_up() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = fallback(&remote, &clock, 1);
    remote.go_away(true);
    let tiers = ["a", "b", "c"].map(|name| TierId::new("", name));
    let (wide, narrow) = (Quota::new(10, MINUTE), Quota::new(2, MINUTE));
    let local = [
        Charge::new(&tiers[0], b"key", &wide),
        Charge::new(&tiers[1], b"key", &narrow),
    ];
    let allow = Charge::new(&tiers[2], b"key", &narrow).on_failure(FailureMode::Allow);
    let deny = allow.on_failure(FailureMode::Deny);

    for _ in 0..5 {
        let denied = outcome(store.charge(&[local[0], deny, local[1]])).await;
        assert!(
            denied
                .decisions()
                .iter()
                .all(|decision| decision.answer() == Answer::Failed)
        );
    }
    let answers = |outcome: &Outcome| {
        outcome
            .decisions()
            .iter()
            .map(|decision| decision.answer())
            .collect::<Vec<_>>()
    };
    for admitted in [true, true, false, false] {
        let decided = outcome(store.charge(&[local[0], allow, local[1]])).await;
        assert_eq!(decided.now(), clock.now(), "some clock tells when");
        let narrow = if admitted { Answer::Admits } else { Answer::Refuses };
        assert_eq!(answers(&decided), [Answer::Admits, Answer::Failed, narrow]);
    }
    let left = outcome(store.charge(&[local[0].cost(0)])).await;
    assert_eq!(
        left.decisions()[0].remaining(),
        8,
        "what was refused or denied is charged nowhere"
    );
}

#[tokio::test]
async fn what_was_charged_locally_is_given_back_locally() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = fallback(&remote, &clock, 2);
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(10, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota).cost(4)];
    remote.go_away(true);
    let receipt = outcome(store.charge(&charge)).await.into_receipt().unwrap();
    assert_eq!(receipt.source(), Source::Local);
    let given = outcome(store.give_back(&charge, receipt)).await;
    assert_eq!(
        (given.decisions()[0].remaining(), given.decisions()[0].source()),
        (10, Source::Local)
    );
}

/// Exactly the question that was refused is remembered, for at most a second at a time and never beyond the wait.
#[tokio::test]
async fn refusals_are_remembered_for_a_moment() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = RefusalCache::new(remote.clone()).clock(clock.clone());
    let tiers = ["user", "global"].map(|name| TierId::new("", name));
    let (narrow, wide) = (Quota::new(2, MINUTE), Quota::new(100, MINUTE));
    let charges = [
        Charge::new(&tiers[0], b"ann", &narrow),
        Charge::new(&tiers[1], b"", &wide),
    ];
    for _ in 0..2 {
        assert!(outcome(store.charge(&charges)).await.is_charged());
    }
    let first = outcome(store.charge(&charges)).await;
    assert_eq!((first.decisions()[0].source(), remote.asked()), (Source::Store, 3));
    clock.advance(Duration::from_millis(999));
    let again = outcome(store.charge(&charges)).await;
    let [user, global] = again.decisions() else { panic!() };
    assert_eq!((user.answer(), user.source()), (Answer::Refuses, Source::Remembered));
    assert_eq!(
        (global.answer(), global.source()),
        (Answer::NotAsked, Source::Remembered)
    );
    assert_eq!(
        user.retry_after(),
        Some(Duration::from_millis(30_000 - 999)),
        "the wait goes on"
    );
    assert_eq!(again.now(), clock.now(), "and the store's clock");
    assert_eq!(remote.asked(), 3);

    // Another key, cost or quota is another question.
    let more = Quota::new(3, MINUTE);
    for other in [
        Charge::new(&tiers[0], b"bob", &narrow),
        charges[0].cost(2),
        Charge::new(&tiers[0], b"ann", &more),
        charges[0].nth(1),
    ] {
        let before = remote.asked();
        outcome(store.charge(&[other])).await;
        assert_eq!(remote.asked(), before + 1, "{other:?}");
    }

    // After a second it is asked again; and a wait of less is not outlived.
    clock.advance(Duration::from_millis(1));
    let before = remote.asked();
    outcome(store.charge(&charges)).await;
    assert_eq!(remote.asked(), before + 1);
    clock.advance(Duration::from_millis(28_500));
    assert!(!outcome(store.charge(&charges)).await.is_charged());
    clock.advance(Duration::from_millis(500));
    assert!(outcome(store.charge(&charges)).await.is_charged());
}

/// What never fits is refused as such, and costs the store one call a second, too.
#[tokio::test]
async fn what_never_fits_is_remembered() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = RefusalCache::new(remote.clone()).clock(clock.clone());
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(5, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota).cost(6)];
    for (asked, source) in [(1, Source::Store), (1, Source::Remembered)] {
        let refused = outcome(store.charge(&charge)).await;
        let decision = refused.decisions()[0];
        assert_eq!((decision.answer(), decision.source()), (Answer::NeverFits, source));
        assert_eq!(decision.retry_after(), None);
        assert_eq!(remote.asked(), asked);
    }
    clock.advance(Duration::from_secs(1));
    assert_eq!(
        outcome(store.charge(&charge)).await.decisions()[0].source(),
        Source::Store
    );
    // A clock that steps back makes no refusal last longer.
    clock.set(Timestamp::from_micros(clock.now().as_micros() - 60_000_000));
    assert_eq!(
        outcome(store.charge(&charge)).await.decisions()[0].source(),
        Source::Store
    );
}

#[tokio::test]
async fn remembered_refusals_are_bounded() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = RefusalCache::new(remote.clone()).clock(clock.clone()).capacity(256);
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(1, MINUTE));
    let keys: Vec<_> = (0..2_000_u32).map(u32::to_be_bytes).collect();
    for key in &keys {
        let charge = [Charge::new(&tier, key, &quota)];
        assert!(outcome(store.charge(&charge)).await.is_charged());
        assert!(!outcome(store.charge(&charge)).await.is_charged());
    }
    let before = remote.asked();
    let mut remembered = 0;
    for key in &keys {
        let refused = outcome(store.charge(&[Charge::new(&tier, key, &quota)])).await;
        assert_eq!(
            refused.decisions()[0].answer(),
            Answer::Refuses,
            "forgotten or not, it is refused"
        );
        remembered += u64::from(refused.decisions()[0].source() == Source::Remembered);
    }
    assert!(remembered <= 256, "{remembered}");
    assert_eq!(remote.asked() - before, 2_000 - remembered);
}

/// What the layer makes of it: handlers and the hook know who decided; clients are told no number that nobody knows.
#[tokio::test]
async fn the_layer_tells_who_decided() {
    let clock = ManualClock::new();
    let remote = Remote::new(&clock);
    let store = Fallback::new(RefusalCache::new(remote.clone()).clock(clock.clone()))
        .local(MemoryStore::new().clock(clock.clone()));
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hook = Arc::clone(&seen);
    let layer = |on_failure| {
        let hook = Arc::clone(&hook);
        RateLimitLayer::new([
            Tier::new("user", Header::new("x-user-id"), Quota::new(2, MINUTE)).on_failure(on_failure),
            Tier::new("global", Global, Quota::new(100, MINUTE)).on_failure(FailureMode::Allow),
        ])
        .store(store.clone())
        .share_verdict(true)
        .hook(move |decided: &Decided<'_>| {
            let standings = decided.verdict().unwrap().standings();
            hook.lock()
                .unwrap()
                .push(standings.map(|standing| standing.source()).collect::<Vec<_>>());
        })
    };
    let ask = async |on_failure| {
        let service =
            ServiceBuilder::new()
                .layer(layer(on_failure))
                .service(service_fn(async |request: Request<String>| {
                    let verdict = request.extensions().get::<Verdict>().unwrap();
                    let sources: Vec<_> = verdict.standings().map(|standing| standing.source()).collect();
                    Ok::<_, Infallible>(Response::new(format!("{sources:?}")))
                }));
        let request = Request::get("/")
            .header("x-user-id", "ann")
            .body(String::new())
            .unwrap();
        service.oneshot(request).await.unwrap()
    };
    let header = |response: &Response<_>, name| {
        response
            .headers()
            .get(name)
            .map(|value: &http::HeaderValue| value.to_str().unwrap().to_owned())
    };

    let response = ask(FailureMode::Local).await;
    assert_eq!(response.status(), StatusCode::OK);
    ask(FailureMode::Local).await;
    assert_eq!(ask(FailureMode::Local).await.status(), StatusCode::TOO_MANY_REQUESTS);
    let remembered = ask(FailureMode::Local).await;
    assert_eq!(remembered.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        header(&remembered, "ratelimit-policy").unwrap(),
        r#""user";q=2;w=60, "global";q=100;w=60"#,
        "the policy stays the same"
    );
    assert_eq!(header(&remembered, "ratelimit").unwrap(), r#""user";r=0;t=30"#);

    remote.go_away(true);
    clock.advance(Duration::from_secs(30));
    let response = ask(FailureMode::Local).await;
    assert_eq!(response.status(), StatusCode::OK);
    // The tier that failed open is left out; what decides locally is told.
    assert_eq!(header(&response, "ratelimit").unwrap(), r#""user";r=0;t=30"#);
    assert_eq!(header(&response, "ratelimit-policy").unwrap(), r#""user";q=2;w=60"#);
    assert_eq!(ask(FailureMode::Local).await.status(), StatusCode::TOO_MANY_REQUESTS);

    let denied = ask(FailureMode::Deny).await;
    assert_eq!(denied.status(), StatusCode::SERVICE_UNAVAILABLE);
    let rejection = denied.extensions().get::<Rejection>().unwrap();
    assert_eq!(
        (rejection.reason(), rejection.tier()),
        (Reason::StoreUnavailable, "user")
    );
    assert_eq!(header(&denied, "ratelimit"), None);

    use Source::{Failed, Local, Remembered, Store};
    let expected = [
        [Store, Store],
        [Store, Store],
        [Store, Store],
        [Remembered, Remembered],
        [Local, Failed],
        [Local, Failed],
        [Failed, Failed],
    ];
    assert_eq!(*seen.lock().unwrap(), expected);
}
