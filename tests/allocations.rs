//! What an admitted request costs the heap: nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use http::{HeaderValue, Request, Response};
use tower::{Layer as _, Service};
use tower_throttle::{Global, Header, Headers, PeerIp, Quota, RateLimitLayer, Routes, Tier};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting touches nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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

/// Allocations of one request that was asked for before, as often as not to matter.
fn cost(layer: &RateLimitLayer, expected: u16) -> usize {
    let mut service = layer.layer(NoOp);
    let mut ask = |request| {
        let mut context = Context::from_waker(Waker::noop());
        assert!(service.poll_ready(&mut context).is_ready());
        match pin!(service.call(request)).poll(&mut context) {
            Poll::Ready(Ok(response)) => assert_eq!(response.status().as_u16(), expected),
            Poll::Ready(Err(never)) => match never {},
            Poll::Pending => panic!("not at once"),
        }
    };
    (0..100).for_each(|_| ask(request()));
    let request = request();
    allocations(|| ask(request))
}

#[test]
fn an_admission_without_headers_allocates_nothing() {
    let layer = RateLimitLayer::new(tiers()).headers(Headers::none());
    assert_eq!(cost(&layer, 200), 0);
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1, 2, 3]))), 1);
    let layer = RateLimitLayer::new(tiers());
    assert!(cost(&layer, 200) > 0, "headers take some");
}
