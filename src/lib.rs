//! wip
#![forbid(unsafe_code)]

pub mod algorithm;
mod body;
pub mod clock;
mod future;
pub mod key;
mod layer;
pub mod policy;
mod quota;
pub mod response;
mod service;
pub mod store;
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
