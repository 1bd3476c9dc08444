//! Tiered, all-or-nothing rate limiting for axum, tonic, hyper and any other Tower service.
//!
//! [`RateLimitLayer`] wraps a `Service<http::Request<_>>`. It draws a key from the request for each of its tiers, charges
//! all of them in one step or none, and either calls the inner service or answers 429 (gRPC: `RESOURCE_EXHAUSTED`)
//! with a `Retry-After` that is true.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::{Router, routing::get};
//! use tower_throttle::{Endpoint, Global, Header, Quota, RateLimitLayer, Tier};
//!
//! let limits = RateLimitLayer::new([
//!     Tier::new("user", (Header::new("x-user-id"), Endpoint), Quota::per_minute(600).burst(800)),
//!     Tier::new("endpoint", Endpoint, Quota::per_minute(3_000).burst(4_000)),
//!     Tier::new("global", Global, Quota::per_minute(6_000).burst(7_000)),
//! ]);
//! let app: Router = Router::new()
//!     .route("/hello", get(async || "Hello!"))
//!     .layer(limits);
//! ```
//!
//! # The parts
//!
//! - A [`Tier`] is a name, a [key extractor](key) and a [`Quota`], or several of them, or [`Plans`]. Tiers are checked
//!   in order, and the first that refuses is named.
//! - A [`Quota`] is so many per period, by one of several [algorithms](algorithm); the token bucket unless you choose.
//! - A [`Store`](store::Store) keeps the accounts: [`MemoryStore`](store::MemoryStore) in this process, `RedisStore` (feature
//!   `redis`) for a fleet of them.
//! - A refusal is data, a [`Rejection`], of which a [`Responder`](response::Responder) makes the response.
//! - [`Headers`] tell clients how they stand.
//!
//! # What it promises
//!
//! - **Never over-admits**: while its store decides, no tier lets through more than its algorithm's documented worst case,
//!   under any number of threads and processes, whatever their clocks show, as long as the store has room for the keys
//!   that are live.
//! - **All or nothing**: a refused request leaves no charge on any tier, so one client that is refused at its own tier
//!   takes nothing from what all share.
//! - **The told wait is true**: who waits exactly that long and meets no other traffic is admitted.
//! - **Memory is bounded** by a number you can set. Of a table that is too small, a flood of new keys takes those who are
//!   being refused last of all; what still counted and had to go is counted.
//! - **Redis trouble is bounded**: every call has a deadline, once Redis is known to be down no request waits for it, and it
//!   decides again by itself when it returns. Meanwhile each tier does as its [`FailureMode`](store::FailureMode) says.
//! - **Memory and Redis decide alike**, to the microsecond.
//! - **Wrong configuration fails when it is built**, with what to write instead.
//! - **No key leaves**: not in a header, a body, a log or the hook.
//!
//! # Where to put the layer
//!
//! Outside of what it protects, inside of what must see every response: tracing and CORS outside (a 429 without CORS
//! headers is unreadable to browsers, and preflights are answered before they count), the limiter, then the handlers.
//! In axum give it to `Router::layer` or `route_layer`: `Endpoint` needs the route, which is found inside the `Router`. (Around a
//! finished `Router` all requests are one endpoint; so are, always, those that match no route.)
//! A tier by address belongs before authentication, which it protects; a tier by user behind it. The layer can be
//! used twice in one stack.
//!
//! A service that the limiter admits to is called in place. On a refusal it is dropped and replaced by its clone, so
//! that it keeps no permit of, say, a `ConcurrencyLimit`; that is why it must be `Clone`.
//!
//! # Testing
//!
//! [`ManualClock`](clock::ManualClock) lets a test move the time itself:
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//! use http::{Request, Response};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_throttle::clock::ManualClock;
//! use tower_throttle::store::MemoryStore;
//! use tower_throttle::{Global, Quota, RateLimitLayer, Tier};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Infallible> {
//! let clock = ManualClock::new();
//! let limits = RateLimitLayer::new([Tier::new("global", Global, Quota::per_minute(1))])
//!     .store(MemoryStore::new().clock(clock.clone()));
//! let mut service = ServiceBuilder::new()
//!     .layer(limits)
//!     .service(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
//!
//! let mut status = async || {
//!     let response = service.ready().await?.call(Request::new(String::new())).await?;
//!     Ok::<_, Infallible>(response.status().as_u16())
//! };
//! assert_eq!(status().await?, 200);
//! assert_eq!(status().await?, 429);
//! clock.advance(Duration::from_secs(60));
//! assert_eq!(status().await?, 200);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None is on by default; each only adds.
//!
//! | feature | adds | costs |
//! |---|---|---|
//! | `axum` | `Endpoint`; the peer address from `ConnectInfo` | axum, which you have |
//! | `tonic` | the peer address from tonic's connect info | tonic, which you have |
//! | `redis` | `RedisStore` | redis-rs, blake3, and a Tokio runtime |
//! | `redis-tls` | `rediss://` addresses | rustls with ring |
//! | `tracing` | an error event if a server gives no peer address; events when Redis is down and up again | tracing |

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// In the order in which a request meets them.
mod layer;
mod service;
mod future;
mod body;
pub mod policy;
pub mod key;
mod quota;
pub mod store;
pub mod algorithm;
pub mod clock;
pub mod response;

// What several of them need.
mod few;
mod random;
mod trace;

#[cfg(feature = "axum")]
pub use crate::key::Endpoint;
pub use crate::{
    body::ResponseBody,
    future::ResponseFuture,
    key::{Extension, ForwardedIp, Global, GrpcMethod, Header, KeyExtractor, Path, PeerIp, Routes},
    layer::RateLimitLayer,
    policy::{ConfigError, Jitter, OnMissing, Plan, Plans, Rejection, Tier, Verdict},
    quota::{Algorithm, Quota, QuotaError},
    response::Headers,
    service::RateLimit,
};

/// The README's snippets run as tests.
#[cfg(all(doctest, feature = "axum", feature = "redis"))]
#[doc = include_str!("../README.md")]
mod readme {}
