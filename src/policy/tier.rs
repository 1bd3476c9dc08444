//! A name, a key and a quota.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use crate::key::KeyExtractor;
use crate::store::FailureMode;

use super::jitter::Jitter;
use super::plan::Quotas;
use super::selector::Selector;

/// One rule: a name, who is counted, and how much they may.
///
/// ```
/// use http::Method;
/// use tower_throttle::{Header, OnMissing, PeerIp, Quota, Tier};
/// use tower_throttle::key::{KeyExtractor as _, PathPattern};
///
/// let logins = Tier::new("logins", PeerIp::new(), [Quota::per_second(1), Quota::per_hour(20)])
///     .only(Method::POST)
///     .only(PathPattern::new("/login"));
///
/// let uploads = Tier::new("uploads", Header::new("x-user-id").or(PeerIp::new()), Quota::per_day(1_000))
///     .cost_by(|parts| if parts.uri.path().starts_with("/bulk") { 50 } else { 1 });
/// ```
///
/// # Defaults
///
/// - It is for all requests ([`only`](Self::only)), each of which costs 1 ([`cost`](Self::cost)).
/// - Requests without a key share one account ([`on_missing`](Self::on_missing)): to leave the key out must not be a
///   way around the limit.
/// - It shows in headers ([`in_headers`](Self::in_headers)), because a client can only keep to a limit that it knows.
/// - [`Jitter::default`]: up to a quarter of the wait, so that clients refused together do not return together.
/// - [`FailureMode::Local`] ([`on_failure`](Self::on_failure)): a store that fails neither takes the service down nor
///   leaves it without a limit.
#[derive(Clone)]
pub struct Tier {
    pub(crate) name: String,
    pub(crate) key: Arc<dyn KeyExtractor>,
    pub(crate) quotas: Quotas,
    pub(crate) only: Vec<Arc<dyn Selector>>,
    pub(crate) cost: Cost,
    pub(crate) on_missing: OnMissing,
    pub(crate) jitter: Jitter,
    pub(crate) in_headers: bool,
    pub(crate) on_failure: FailureMode,
}

/// What a request without a key means to a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// All such requests share one account; those with a partial key share one for what they have.
    #[default]
    Share,
    /// The tier does not apply.
    Skip,
    /// The request is refused: 400, or gRPC `INVALID_ARGUMENT`.
    Refuse,
}

/// What a request takes.
#[derive(Clone)]
pub(crate) enum Cost {
    Constant(u64),
    By(Arc<dyn Fn(&Parts) -> u64 + Send + Sync>),
}

impl Tier {
    /// So much for each key. The name stands in headers and refusals, so clients see it.
    ///
    /// `quotas` is a [`Quota`](crate::Quota), an array or `Vec` of them that must all admit, or [`Plans`](super::Plans).
    pub fn new(name: impl Into<String>, key: impl KeyExtractor, quotas: impl Into<Quotas>) -> Self {
        Self {
            name: name.into(),
            key: Arc::new(key),
            quotas: quotas.into(),
            only: Vec::new(),
            cost: Cost::Constant(1),
            on_missing: OnMissing::default(),
            jitter: Jitter::default(),
            in_headers: true,
            on_failure: FailureMode::default(),
        }
    }

    /// Restricts it to these requests; several restrictions must all be met.
    #[must_use]
    pub fn only(mut self, requests: impl Selector) -> Self {
        self.only.push(Arc::new(requests));
        self
    }

    /// What each request takes; 0 looks at the account and charges nothing.
    #[must_use]
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = Cost::Constant(cost);
        self
    }

    /// What a request takes, by its head. A cost that is more than the quota can ever hold is refused as such: 403,
    /// or gRPC `FAILED_PRECONDITION`.
    #[must_use]
    pub fn cost_by(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Cost::By(Arc::new(cost));
        self
    }

    /// What a request without a key, or with only a part of it, means.
    #[must_use]
    pub fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// How far the waits of refused clients are spread.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Whether `RateLimit` and the other headers speak of it. Refusals name it all the same.
    #[must_use]
    pub fn in_headers(mut self, in_headers: bool) -> Self {
        self.in_headers = in_headers;
        self
    }

    /// What it means for a request that the store could not decide.
    #[must_use]
    pub fn on_failure(mut self, on_failure: FailureMode) -> Self {
        self.on_failure = on_failure;
        self
    }

    #[inline]
    pub(crate) fn is_for(&self, parts: &Parts) -> bool {
        self.only.iter().all(|requests| requests.selects(parts))
    }
}

impl Cost {
    #[inline]
    pub(crate) fn of(&self, parts: &Parts) -> u64 {
        match self {
            Self::Constant(cost) => *cost,
            Self::By(cost) => cost(parts),
        }
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier")
            .field("name", &self.name)
            .field("quotas", &self.quotas)
            .field("on_missing", &self.on_missing)
            .field("jitter", &self.jitter)
            .field("in_headers", &self.in_headers)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
