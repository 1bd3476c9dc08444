//! Everybody with the same three tiers: all requests, those of a path, those of a user on a path.
//!
//! Peers are set up as fast as their interface allows: keys that are cloned without allocating, their default maps, no log
//! events, no clean-up running.

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum_governor::ExtractionError;
use axum_governor::extractor::KeyOutcome;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response};
use tower::{Layer as _, Service};
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::{GlobalKeyExtractor, KeyExtractor};
use tower_governor::{GovernorError, GovernorLayer};
use tower_throttle::store::MemoryStore;
use tower_throttle::{Global, Header, Headers, Path, Quota, RateLimitLayer, Tier};

use crate::load::{Contender, NoOp, contender};

/// Which tier refuses, if any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusing {
    None,
    First,
    Last,
}

impl Refusing {
    /// Whether the tier in this place refuses all but one request an hour.
    fn is(self, nth: usize) -> bool {
        matches!((self, nth), (Self::First, 0) | (Self::Last, 2))
    }
}

/// One token each 10 µs, and more of them to begin with than will be asked for.
const REFILL: Duration = Duration::from_micros(10);
const BURST: u32 = 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn tower_throttle(has_headers: bool, refusing: Refusing) -> Contender {
    let quota = |nth: usize| {
        if refusing.is(nth) {
            Quota::new(1, HOUR)
        } else {
            Quota::new(1, REFILL).burst(BURST.into())
        }
    };
    tower_throttle_by(has_headers, [quota(0), quota(1), quota(2)])
}

pub(crate) fn tower_throttle_by(has_headers: bool, [global, path, user]: [Quota; 3]) -> Contender {
    let headers = if has_headers {
        Headers::default()
    } else {
        Headers::none()
    };
    let layer = RateLimitLayer::new([
        Tier::new("global", Global, global),
        Tier::new("path", Path, path),
        Tier::new("user", (Header::new("x-user-id"), Path), user),
    ])
    .headers(headers)
    .store(MemoryStore::new().max_keys(2_000_000).max_log_entries(10_000_000));
    contender(layer.layer(NoOp))
}

/// Three limiters of the crate that the others are made of, asked one after the other by a service written by hand.
pub(crate) fn governor() -> Contender {
    use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
    use std::num::NonZeroU32;

    #[derive(Clone)]
    struct ByHand(Arc<Limiters>);

    struct Limiters {
        global: DefaultDirectRateLimiter,
        path: DefaultKeyedRateLimiter<PathAndQuery>,
        user: DefaultKeyedRateLimiter<(HeaderValue, PathAndQuery)>,
    }

    impl Limiters {
        fn admit(&self, request: &Request<()>) -> Option<()> {
            let path = request.uri().path_and_query()?.clone();
            self.global.check().ok()?;
            self.path.check_key(&path).ok()?;
            let user = request.headers().get("x-user-id")?.clone();
            self.user.check_key(&(user, path)).ok()
        }
    }

    impl Service<Request<()>> for ByHand {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = Ready<Result<Response<Body>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            match self.0.admit(&request) {
                Some(()) => NoOp.call(request),
                None => panic!("nobody is refused here"),
            }
        }
    }

    let burst = NonZeroU32::new(BURST).expect("not zero");
    let quota = Quota::with_period(REFILL).expect("not zero").allow_burst(burst);
    contender(ByHand(Arc::new(Limiters {
        global: RateLimiter::direct(quota),
        path: RateLimiter::keyed(quota),
        user: RateLimiter::keyed(quota),
    })))
}

#[derive(Clone)]
struct ByPath;

impl KeyExtractor for ByPath {
    type Key = PathAndQuery;

    fn extract<T>(&self, request: &Request<T>) -> Result<Self::Key, GovernorError> {
        let path = request.uri().path_and_query();
        path.cloned().ok_or(GovernorError::UnableToExtractKey)
    }
}

#[derive(Clone)]
struct ByUserAndPath;

impl KeyExtractor for ByUserAndPath {
    type Key = (HeaderValue, PathAndQuery);

    fn extract<T>(&self, request: &Request<T>) -> Result<Self::Key, GovernorError> {
        let user = request.headers().get("x-user-id").cloned();
        Ok((user.ok_or(GovernorError::UnableToExtractKey)?, ByPath.extract(request)?))
    }
}

/// Three layers, the first tier outermost.
pub(crate) fn tower_governor(has_headers: bool, refusing: Refusing) -> Contender {
    macro_rules! layer {
        ($extractor:expr, $nth:expr $(, $headers:ident)?) => {{
            let mut builder = GovernorConfigBuilder::default().key_extractor($extractor);
            if refusing.is($nth) {
                builder.period(HOUR).burst_size(1);
            } else {
                builder.period(REFILL).burst_size(BURST);
            }
            $(let mut builder = builder.$headers();)?
            GovernorLayer::new(builder.finish().expect("a configuration"))
        }};
    }
    if has_headers {
        let service = layer!(ByUserAndPath, 2, use_headers).layer(NoOp);
        let service = layer!(ByPath, 1, use_headers).layer(service);
        contender(layer!(GlobalKeyExtractor, 0, use_headers).layer(service))
    } else {
        let service = layer!(ByUserAndPath, 2).layer(NoOp);
        let service = layer!(ByPath, 1).layer(service);
        contender(layer!(GlobalKeyExtractor, 0).layer(service))
    }
}

/// One key type for all of its stacked policies.
type Key = (Option<HeaderValue>, Option<PathAndQuery>);

struct Keyed(fn(&Parts) -> Key);

impl axum_governor::extractor::KeyExtractor for Keyed {
    type Key = Key;

    fn extract(&self, parts: &Parts) -> Result<KeyOutcome<Key>, ExtractionError> {
        Ok(KeyOutcome::new((self.0)(parts)))
    }
}

/// Three policies of one layer, which always tells in headers.
pub(crate) fn axum_governor(refusing: Refusing) -> Contender {
    use axum_governor::{BodyPreset, GovernorConfigBuilder, GovernorLayer, Quota, nz};
    let quota = |nth: usize| {
        if refusing.is(nth) {
            Quota::requests_per_hour(nz!(1u32))
        } else {
            Quota::requests_per_second(nz!(100_000u32)).burst(nz!(1_000_000_000u32))
        }
    };
    let config = GovernorConfigBuilder::default()
        .with_extractor(Keyed(|_| (None, None)))
        .quota_default(quota(0))
        .stack(
            "path",
            Keyed(|parts| (None, parts.uri.path_and_query().cloned())),
            quota(1),
        )
        .stack(
            "user",
            Keyed(|parts| {
                (
                    parts.headers.get("x-user-id").cloned(),
                    parts.uri.path_and_query().cloned(),
                )
            }),
            quota(2),
        )
        .max_keys(2_000_000)
        .gc_disable()
        .body_preset(BodyPreset::ProblemJson)
        .finish()
        .expect("a configuration");
    contender(GovernorLayer::new(config).layer(NoOp))
}
