//! Requests, and how long a service takes for them.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Request, Response};
use tower::Service;

/// Requests that are made before the clock runs: so few that they are still in the cache when they are asked, as they
/// are in a server that has just read them.
const BATCH: usize = 100;
/// Batches that a time is the sum of.
const BATCHES: usize = 20;
/// What a thread asks in all.
pub(crate) const REQUESTS: usize = BATCH * BATCHES;

/// Who asks, and over how many threads.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) users: u64,
    pub(crate) threads: usize,
}

impl Load {
    pub(crate) const fn new(users: u64, threads: usize) -> Self {
        Self { users, threads }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let users = match self.users {
            1 => "1 user",
            1_000 => "1,000 users",
            1_000_000 => "1 million",
            _ => "users",
        };
        write!(f, "{users}, {} thr.", self.threads)
    }
}

pub(crate) fn request(user: u64) -> Request<()> {
    Request::get("/api/orders?page=2")
        .header("host", "api.example.com")
        .header("user-agent", "bench")
        .header("accept", "application/json")
        .header("x-user-id", user)
        .body(())
        .expect("a request")
}

/// A service under test, with its type forgotten: nanoseconds per request, as a thread sees it.
pub(crate) type Contender = Box<dyn FnMut(Load) -> f64>;

pub(crate) fn contender<S>(service: S) -> Contender
where
    S: Service<Request<()>, Response: Answered> + Clone + Send + 'static,
{
    let mut warmed = 0;
    Box::new(move |load| {
        // Every user once, so that nobody is new.
        for user in warmed..load.users {
            answer(&mut service.clone(), request(user));
        }
        warmed = warmed.max(load.users);
        time(&service, load)
    })
}

fn time<S>(service: &S, load: Load) -> f64
where
    S: Service<Request<()>, Response: Answered> + Clone + Send,
{
    let gate = Gate::default();
    let slowest = thread::scope(|scope| {
        let threads: Vec<_> = (0..load.threads)
            .map(|thread| {
                let (mut service, gate) = (service.clone(), &gate);
                scope.spawn(move || {
                    let mut users = users(load.users, thread as u64);
                    let mut taken = Duration::ZERO;
                    for _ in 0..BATCHES {
                        let requests: Vec<_> = users.by_ref().take(BATCH).map(request).collect();
                        gate.meet(load.threads);
                        let start = Instant::now();
                        for request in requests {
                            answer(&mut service, request);
                        }
                        taken += start.elapsed();
                    }
                    taken
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).max()
    });
    slowest.unwrap_or_default().as_secs_f64() * 1e9 / REQUESTS as f64
}

/// Lets threads go on together, without the delays of being woken.
#[derive(Default)]
struct Gate {
    arrived: AtomicUsize,
}

impl Gate {
    fn meet(&self, threads: usize) {
        let round = self.arrived.fetch_add(1, Ordering::AcqRel) / threads;
        while self.arrived.load(Ordering::Acquire) < (round + 1) * threads {
            std::hint::spin_loop();
        }
    }
}

/// Users in an order that no cache foresees, another in each thread and round.
fn users(users: u64, thread: u64) -> impl Iterator<Item = u64> {
    use std::sync::atomic::AtomicU64;
    static ROUND: AtomicU64 = AtomicU64::new(1);
    let seed = ROUND.fetch_add(1, Ordering::Relaxed);
    (0_u64..).map(move |nth| {
        let mut mixed = nth ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (thread << 60);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % users
    })
}

/// Asks and takes the answer, as a server does, but for the waiting: there is nothing to wait for.
#[inline(never)]
fn answer<S: Service<Request<()>, Response: Answered>>(service: &mut S, request: Request<()>) {
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else {
        panic!("the service is not ready");
    };
    let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(&mut context) else {
        panic!("the service does not answer at once");
    };
    response.take();
}

/// Whatever the body.
pub(crate) trait Answered {
    fn take(self);
}

impl<B> Answered for Response<B> {
    fn take(self) {
        std::hint::black_box(self.status());
    }
}

/// Answers at once with nothing.
#[derive(Clone)]
pub(crate) struct NoOp;

impl Service<Request<()>> for NoOp {
    type Response = Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        std::hint::black_box(request);
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}
