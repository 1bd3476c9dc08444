//! The least that a layer of this shape must do, piece by piece, without deciding or keeping anything.
//!
//! Each has three keys to draw and three counters to find, in tables that fit into the cache. None bounds its memory, none can be configured, and none knows
//! all or nothing: what is between them and us is what those cost.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::Body;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tower::Service;

use crate::load::{Contender, NoOp, contender};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Floor {
    /// Splits the request and wraps future and response.
    Layer,
    /// Also draws three keys by trait objects, and hashes them, fast and without a secret.
    Keys,
    /// Also reads the clock, and adds to three counters under a lock each.
    Counts,
    /// Also writes a header of three items and adds it and another.
    Headers,
    /// Counts, then answers 429 with a body of 250 bytes, five headers and an extension.
    Refusal,
}

/// A user's requests on a path, by the path, and all of them.
type Key = fn(&Parts, &mut Vec<u8>);

const KEYS: [Key; 3] = [
    |_, _| {},
    |parts, key| key.extend_from_slice(parts.uri.path().as_bytes()),
    |parts, key| {
        if let Some(user) = parts.headers.get(USER) {
            key.extend_from_slice(user.as_bytes());
        }
        key.extend_from_slice(parts.uri.path().as_bytes());
    },
];

const USER: HeaderName = HeaderName::from_static("x-user-id");
const LIST: HeaderName = HeaderName::from_static("ratelimit");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

#[derive(Clone)]
struct Least {
    floor: Floor,
    inner: NoOp,
    shared: Arc<Shared>,
}

struct Shared {
    clock: quanta::Clock,
    counters: [Vec<Mutex<[u64; 5]>>; 3],
    policy: HeaderValue,
}

thread_local! {
    /// Keys are drawn into room that is there.
    static KEY: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

pub(crate) fn floor(floor: Floor) -> Contender {
    let counters = |count| (0..count).map(|_| Mutex::default()).collect();
    contender(Least {
        floor,
        inner: NoOp,
        shared: Arc::new(Shared {
            clock: quanta::Clock::new(),
            counters: [counters(1), counters(1), counters(65_536)],
            policy: HeaderValue::from_static("\"global\";q=100000;w=1, \"path\";q=100000;w=1, \"user\";q=100000;w=1"),
        }),
    })
}

impl Service<Request<()>> for Least {
    type Response = Response<Wrapped>;
    type Error = Infallible;
    type Future = Calling;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<()>) -> Calling {
        let (parts, body) = request.into_parts();
        if self.floor >= Floor::Keys {
            self.shared.count(&parts, self.floor);
        }
        if self.floor == Floor::Refusal {
            return Calling::Refused(Some(self.shared.refusal()));
        }
        let list = (self.floor == Floor::Headers).then(|| self.shared.list());
        let response = self.inner.call(Request::from_parts(parts, body));
        Calling::Inner(response, list)
    }
}

impl Shared {
    fn count(&self, parts: &Parts, floor: Floor) {
        KEY.with_borrow_mut(|key| {
            let now = if floor >= Floor::Counts { self.clock.raw() } else { 0 };
            for (draw, counters) in std::hint::black_box(KEYS).iter().zip(&self.counters) {
                key.clear();
                draw(parts, key);
                let hash = xxhash_rust::xxh3::xxh3_64(key);
                if floor >= Floor::Counts {
                    let place = ((u128::from(hash) * counters.len() as u128) >> 64) as usize;
                    let mut counter = counters[place].lock().expect("nobody panics");
                    counter[0] = hash;
                    counter[1] = now;
                    counter[2] += 1;
                } else {
                    std::hint::black_box(hash);
                }
            }
        });
    }

    /// As long as ours.
    fn list(&self) -> (HeaderValue, HeaderValue) {
        let list =
            std::hint::black_box(b"\"global\";r=999999999;t=1, \"path\";r=999999999;t=1, \"user\";r=999999999;t=1");
        let list = HeaderValue::from_bytes(list).expect("ASCII");
        (list, self.policy.clone())
    }

    fn refusal(&self) -> Response<Wrapped> {
        let body = axum::body::Bytes::copy_from_slice(&std::hint::black_box([b'x'; 250]));
        let mut response = Response::new(Wrapped::Ours(body));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        let headers = response.headers_mut();
        headers.insert("content-type", HeaderValue::from_static("application/problem+json"));
        headers.insert("cache-control", HeaderValue::from_static("no-store"));
        headers.insert(
            "retry-after",
            HeaderValue::from_bytes(std::hint::black_box(b"3600")).expect("ASCII"),
        );
        headers.append(POLICY, self.policy.clone());
        let list = HeaderValue::from_bytes(std::hint::black_box(b"\"user\";r=0;t=3600")).expect("ASCII");
        headers.append(LIST, list);
        // As much as it takes to say which limit refused, and for how long.
        response.extensions_mut().insert([0_u64; 12]);
        response
    }
}

/// A body of the inner service, or one of its own.
#[allow(dead_code, reason = "nobody reads it here")]
pub(crate) enum Wrapped {
    Inner(Body),
    Ours(axum::body::Bytes),
}

#[allow(clippy::large_enum_variant, reason = "as in a real layer")]
enum Calling {
    Inner(
        <NoOp as Service<Request<()>>>::Future,
        Option<(HeaderValue, HeaderValue)>,
    ),
    Refused(Option<Response<Wrapped>>),
}

impl Future for Calling {
    type Output = Result<Response<Wrapped>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Inner(response, told) => {
                let Poll::Ready(Ok(response)) = Pin::new(response).poll(context) else {
                    return Poll::Pending;
                };
                let mut response = response.map(Wrapped::Inner);
                if let Some((list, policy)) = told.take() {
                    response.headers_mut().append(POLICY, policy);
                    response.headers_mut().append(LIST, list);
                }
                Poll::Ready(Ok(response))
            }
            Self::Refused(response) => Poll::Ready(Ok(response.take().expect("polled once"))),
        }
    }
}

/// What the machine takes for the simplest things, in nanoseconds.
pub(crate) fn of_the_machine() -> String {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Instant;

    let least = |act: &mut dyn FnMut()| {
        (0..50).fold(f64::INFINITY, |least, _| {
            let start = Instant::now();
            (0..20_000).for_each(|_| act());
            least.min(start.elapsed().as_secs_f64() * 1e9 / 20_000.0)
        })
    };
    let (atomic, lock, clock) = (AtomicU64::new(0), Mutex::new(0_u64), quanta::Clock::new());
    let nothing = least(&mut || {
        black_box(0);
    });
    let figures = [
        (
            "one atomic addition",
            least(&mut || {
                black_box(&atomic).fetch_add(1, Ordering::Relaxed);
            }),
        ),
        (
            "one lock, taken and released",
            least(&mut || {
                *black_box(&lock).lock().expect("nobody panics") += 1;
            }),
        ),
        (
            "the time, asked of the system",
            least(&mut || {
                black_box(Instant::now());
            }),
        ),
        (
            "the time, by the processor's counter",
            least(&mut || {
                black_box(clock.raw());
            }),
        ),
    ];
    let rows = figures.map(|(name, cost)| format!("| {name} | {:.1} |\n", cost - nothing));
    format!("\n| | ns |\n|---|---|\n{}", rows.concat())
}
