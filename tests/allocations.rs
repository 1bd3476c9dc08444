//! What a request costs the heap: nothing, if it is admitted and no headers are sent.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use tower::{Layer as _, Service};
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{Charge, MemoryStore, Store as _, TierId};
use tower_throttle::{Global, Header, Headers, KeyExtractor, PeerIp, Quota, RateLimit, RateLimitLayer, Routes, Tier};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        LIVE_BYTES.with(|live| live.set(live.get().wrapping_add(layout.size())));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.with(|live| live.set(live.get().wrapping_sub(layout.size())));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(of: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.get();
    of();
    ALLOCATIONS.get() - before
}

#[derive(Clone)]
struct NoOp;

impl Service<Request<()>> for NoOp {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

fn request() -> Request<()> {
    let mut request = Request::new(());
    *request.uri_mut() = http::Uri::from_static("/users/7");
    request
        .headers_mut()
        .insert("x-user-id", HeaderValue::from_static("ann"));
    request
        .extensions_mut()
        .insert(std::net::SocketAddr::from(([192, 0, 2, 1], 80)));
    request
}

fn tiers() -> Vec<Tier> {
    let routes = || Routes::new(["/hello", "/users/{id}"]);
    let plenty = Quota::per_second(1_000_000);
    vec![
        Tier::new("user", (Header::new("x-user-id"), routes()), plenty),
        Tier::new("endpoint", routes(), plenty.fixed_window()),
        Tier::new("peer", PeerIp::new(), plenty.weighted_window()),
        Tier::new("global", Global, plenty),
    ]
}

fn ask(service: &mut RateLimit<NoOp>, request: Request<()>, expected: u16) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    match pin!(service.call(request)).poll(&mut context) {
        Poll::Ready(Ok(response)) => assert_eq!(response.status().as_u16(), expected),
        Poll::Ready(Err(never)) => match never {},
        Poll::Pending => panic!("not at once"),
    }
}

/// Allocations of one request that was asked for before, as often as not to matter.
fn cost(layer: &RateLimitLayer, expected: u16) -> usize {
    let mut service = layer.layer(NoOp);
    (0..100).for_each(|_| ask(&mut service, request(), expected));
    let request = request();
    allocations(|| ask(&mut service, request, expected))
}

#[test]
fn an_admission_without_headers_allocates_nothing() {
    let layer = RateLimitLayer::new(tiers()).headers(Headers::none());
    assert_eq!(cost(&layer, 200), 0);
}

/// What the header map itself grows by, and two more: the text of `RateLimit`, and one to spare.
#[test]
fn an_admission_with_headers_allocates_two_more_than_its_header_map() {
    let map = allocations(|| {
        let mut headers = http::HeaderMap::new();
        headers.append(
            http::HeaderName::from_static("ratelimit"),
            HeaderValue::from_static("1"),
        );
        headers.append(
            http::HeaderName::from_static("ratelimit-policy"),
            HeaderValue::from_static("1"),
        );
    });
    let cost = cost(&RateLimitLayer::new(tiers()), 200);
    eprintln!("an admission with headers: {cost} allocations, {map} of them by the header map");
    assert!(cost <= map + 2, "{cost} allocations, {map} of them by the header map");
}

/// By the first tier or the last: body, extension and headers.
#[test]
fn a_refusal_allocates_six_times() {
    let hour = Duration::from_secs(3_600);
    let nothing_left = Quota::new(1, hour);
    for refusing in 0..tiers().len() {
        let mut tiers = tiers();
        let tier = |key: Box<dyn KeyExtractor>| Tier::new("refusing", key, nothing_left);
        tiers.insert(refusing, tier(Box::new(Header::new("x-user-id"))));
        tiers.remove(refusing + 1);
        let layer = RateLimitLayer::new(tiers);
        let mut service = layer.layer(NoOp);
        ask(&mut service, request(), 200);
        let cost = cost(&layer, 429);
        eprintln!("a refusal by tier {refusing}: {cost} allocations");
        assert!(cost <= 6, "{cost} allocations");
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1, 2, 3]))), 1);
    let layer = RateLimitLayer::new(tiers());
    assert!(cost(&layer, 200) > 0, "headers take some");
}

/// The bytes that a store takes for so many keys, each charged so often.
fn bytes_for(quota: Quota, keys: u64, charges: u64) -> usize {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone()).max_keys(1_000_000);
    let tier = TierId::new("", "tier");
    let before = LIVE_BYTES.get();
    for _ in 0..charges {
        clock.advance(Duration::from_micros(1));
        for key in 0..keys {
            let _ = store.charge(&[Charge::new(&tier, &key.to_be_bytes(), &quota)]);
        }
    }
    assert_eq!(store.keys() as u64, keys);
    LIVE_BYTES.get() - before
}

/// What the documentation says of the bytes for each key, tables and their free room included.
#[test]
fn keys_take_as_many_bytes_as_the_docs_say() {
    let hour = Duration::from_secs(3_600);
    let quota = Quota::new(100, hour);
    for (quota, most) in [
        (quota, 64),
        (quota.in_steps(hour), 76),
        (quota.fixed_window(), 64),
        (quota.weighted_window(), 76),
        // And their entries, at least room for four.
        (quota.sliding_window(60), 101 + 64),
        (quota.sliding_log(), 101 + 64),
    ] {
        let bytes = bytes_for(quota, 300_000, 1) / 300_000;
        eprintln!("{bytes} bytes a key: {:?}", quota.algorithm());
        assert!(bytes <= most, "{bytes} for {quota:?}");
    }
    let bytes = bytes_for(quota, 1_000_000, 1) as f64 / 1e6;
    eprintln!("{bytes:.1} bytes a key: a million token buckets");
    assert!(bytes <= 64.0, "{bytes} for each of a million");
    let bytes = bytes_for(quota.sliding_log(), 2_000, 100) / 2_000;
    assert!(bytes <= 101 + 100 * 32, "{bytes} for a log of 100");
}

/// A log that was long once must not keep the room: entries are what is counted, so bytes must follow them.
#[test]
fn a_log_gives_back_its_room() {
    let clock = ManualClock::new();
    let store = MemoryStore::new().clock(clock.clone());
    let tier = TierId::new("", "tier");
    let quota = Quota::per_minute(1_000).sliding_log();
    let ask = |key: u64| {
        clock.advance(Duration::from_micros(1));
        let _ = store.charge(&[Charge::new(&tier, &key.to_be_bytes(), &quota)]);
    };
    let before = LIVE_BYTES.get();
    for round in 0..20 {
        for key in round * 100..(round + 1) * 100 {
            (0..1_000).for_each(|_| ask(key));
        }
        clock.advance(Duration::from_secs(61));
        // All keys so far come back, once.
        (0..(round + 1) * 100).for_each(ask);
    }
    let bytes = LIVE_BYTES.get() - before;
    assert!(bytes < 1_000_000, "{bytes} for 2,000 logs of one entry");
}
