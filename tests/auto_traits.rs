//! Which types can be sent, shared and pinned: a change here breaks users, so it must be meant.

use std::convert::Infallible;
use std::future::Ready;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tower::util::ServiceFn;
use tower_throttle::clock::{ManualClock, SystemClock, Timestamp};
use tower_throttle::key::{Drawn, IgnoreCase, InvalidCidr, InvalidHeaderName, InvalidPattern, KeyBuf, Or, PathPattern};
use tower_throttle::policy::{Decided, HeaderIs, Quotas, Reason, Standing, Violation};
use tower_throttle::response::{Draft, JsonEnvelope, PlainText, ProblemJson, Reset};
use tower_throttle::store::memory::{Never, Usage};
#[cfg(feature = "redis")]
use tower_throttle::store::redis::{RedisFuture, RedisStats, RedisStore, RedisStoreError};
use tower_throttle::store::{
    Answer, Asked, Charge, Decision, Either, FailureMode, Fallback, MemoryStore, Outcome, Receipt, RefusalCache,
    Replicas, Source, TierId,
};
use tower_throttle::{
    Algorithm, ConfigError, Extension, ForwardedIp, Global, GrpcMethod, Header, Headers, Jitter, OnMissing, Path,
    PeerIp, Plan, Plans, Quota, QuotaError, RateLimit, RateLimitLayer, Rejection, ResponseBody, ResponseFuture, Routes,
    Tier, Verdict,
};

const fn send_sync<T: Send + Sync>() {}
const fn unpin<T: Unpin>() {}
const fn cloned<T: Clone>() {}

type Inner = ServiceFn<fn(Request<Full<Bytes>>) -> Ready<Result<Response<Full<Bytes>>, Infallible>>>;

macro_rules! table {
    ($check:ident: $($kind:ty),* $(,)?) => {
        $($check::<$kind>();)*
    };
}

#[test]
fn all_types_are_what_their_users_need() {
    table!(send_sync:
        RateLimitLayer, RateLimit<Inner>, ResponseFuture<Inner, Full<Bytes>>, ResponseBody<Full<Bytes>>,
        Tier, Plan, Plans, Quotas, Jitter, OnMissing, Verdict, Standing<'_>, Rejection, Reason, Violation, ConfigError,
        HeaderIs, Headers, Reset, Draft, Decided<'_>, InvalidCidr, InvalidHeaderName, InvalidPattern, ProblemJson, PlainText, JsonEnvelope,
        KeyBuf, Drawn, Global, GrpcMethod, Header, Path, Routes, PathPattern, PeerIp, ForwardedIp,
        Extension<String>, Or<Header, PeerIp>, IgnoreCase<Header>,
        Quota, QuotaError, Algorithm, Charge<'_>, TierId, FailureMode, Decision, Answer, Outcome, Receipt,
        Asked<Never>, MemoryStore, Usage, Never, SystemClock, ManualClock, Timestamp,
    );
    #[cfg(feature = "redis")]
    {
        table!(send_sync: RedisStore, RedisStats, RedisStoreError);
        table!(cloned: RedisStore, RateLimitLayer<RedisStore>, RateLimit<Inner, RedisStore>);
        const fn send<T: Send>() {}
        table!(send: RedisFuture, ResponseFuture<Inner, Full<Bytes>, RedisStore>);
        table!(unpin: RedisFuture);
    }
    table!(send_sync:
        Either<MemoryStore, MemoryStore>, Fallback<MemoryStore>, RefusalCache<MemoryStore>, Replicas, Source,
    );
    table!(unpin: RateLimitLayer, RateLimit<Inner>, ResponseBody<Full<Bytes>>, Verdict, Rejection, MemoryStore);
    table!(cloned: RateLimitLayer, RateLimit<Inner>, MemoryStore, Verdict, Rejection, Tier, Headers, ManualClock);
    // A body that is not Sync, as axum's and tonic's are, must not keep a service from being sent.
    const fn send<T: Send>() {}
    table!(send: ResponseBody<axum::body::Body>, ResponseBody<tonic::body::Body>);
}
