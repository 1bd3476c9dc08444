//! Configuration becomes a service.

use std::fmt;
use std::hash::RandomState;
use std::sync::Arc;

use http::request::Parts;
use tower_layer::Layer;

use crate::policy::{ConfigError, Decided, DecisionHook, Dice, Policy, Rejection, Selector, Tier, Verdict};
use crate::response::{Answers, Headers, Responder};
use crate::service::RateLimit;
use crate::store::{MemoryStore, Store};

/// Limits the requests to a service.
///
/// ```
/// use tower_throttle::{Global, Header, Quota, RateLimitLayer, Routes, Tier};
///
/// let routes = || Routes::new(["/hello", "/users/{id}"]);
/// let limits = RateLimitLayer::new([
///     Tier::new("user", (Header::new("x-user-id"), routes()), Quota::per_minute(600).burst(800)),
///     Tier::new("endpoint", routes(), Quota::per_minute(3_000).burst(4_000)),
///     Tier::new("global", Global, Quota::per_minute(6_000).burst(7_000)),
/// ]);
/// # let _ = limits;
/// ```
///
/// Its state lives in the layer: clones of it, and all services made by them, share one.
///
/// # The way of a request
///
/// 1. If the layer is not [`enabled`](Self::enabled), or the request [`exempt`](Self::exempt), it passes untouched.
/// 2. Each tier that it concerns draws a key. One that insists on a key and finds none refuses.
/// 3. The store charges all tiers, or none of them if one refuses.
/// 4. Admitted: the inner service is called, and [`headers`](Self::headers) are added to its response.
///    Refused: the inner service is not called; the [`responder`](Self::responder) answers, or for gRPC a status.
///
/// # Defaults
///
/// - A [`MemoryStore`] of its own, which suits one process.
/// - [`Headers::default`]: `RateLimit` and `RateLimit-Policy`.
/// - [`ProblemJson`](crate::response::ProblemJson) for refusals.
/// - No exemptions, no hook, no verdict in the request's extensions, a random seed for the jitter.
pub struct RateLimitLayer<St = MemoryStore> {
    config: Arc<Config>,
    store: Arc<St>,
    enabled: bool,
}

/// All that is the same for every request.
#[derive(Clone)]
pub(crate) struct Config {
    pub(crate) policy: Arc<Policy>,
    pub(crate) exempt: Vec<Arc<dyn Selector>>,
    pub(crate) answers: Answers,
    pub(crate) hook: Option<Hook>,
    pub(crate) share_verdict: bool,
    pub(crate) dice: Dice,
}

#[derive(Clone)]
pub(crate) struct Hook {
    hook: Arc<dyn DecisionHook>,
    /// Keys the hashes that the hook sees.
    hasher: RandomState,
}

impl Config {
    #[inline]
    pub(crate) fn is_exempt(&self, parts: &Parts) -> bool {
        self.exempt.iter().any(|requests| requests.selects(parts))
    }

    /// For the hook, if there is one.
    #[inline]
    pub(crate) fn hasher(&self) -> Option<&RandomState> {
        self.hook.as_ref().map(|hook| &hook.hasher)
    }

    /// Tells the hook, if there is one.
    pub(crate) fn tell(&self, verdict: Option<&Verdict>, rejection: Option<&Rejection>) {
        if let Some(Hook { hook, .. }) = &self.hook {
            hook.decided(&Decided::new(verdict, rejection));
        }
    }
}

impl RateLimitLayer {
    /// Limits by these tiers, in this order.
    ///
    /// # Panics
    ///
    /// If the configuration cannot be, with the message of [`try_new`](Self::try_new)'s error.
    #[must_use]
    pub fn new(tiers: impl IntoIterator<Item = Tier>) -> Self {
        match Self::try_new(tiers) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Limits by these tiers, for a configuration known only at run time.
    ///
    /// # Errors
    ///
    /// If there is no tier, if names are alike or do not fit into a header, if a quota or a cost can never be met or
    /// counted exactly, or if the plans of a tier disagree.
    pub fn try_new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, ConfigError> {
        let policy = Policy::new(tiers)?;
        Ok(Self {
            config: Arc::new(Config {
                answers: Answers::new(&policy),
                policy: Arc::new(policy),
                exempt: Vec::new(),
                hook: None,
                share_verdict: false,
                dice: Dice::random(),
            }),
            store: Arc::new(MemoryStore::new()),
            enabled: true,
        })
    }
}

impl<St> RateLimitLayer<St> {
    /// Keeps accounts in `store`. Layers that are given the same one share the accounts of tiers that are named alike.
    #[must_use]
    pub fn store<T: Store>(self, store: T) -> RateLimitLayer<T> {
        RateLimitLayer {
            config: self.config,
            store: Arc::new(store),
            enabled: self.enabled,
        }
    }

    /// Sets the names of the tiers apart from those of other layers that share the store.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|config| Arc::make_mut(&mut config.policy).set_namespace(namespace))
    }

    /// Lets these requests pass uncounted; see [`preflight`](crate::policy::preflight) for a recipe.
    #[must_use]
    pub fn exempt(self, requests: impl Selector) -> Self {
        self.with(|config| config.exempt.push(Arc::new(requests)))
    }

    /// Which headers tell clients how they stand.
    ///
    /// ```
    /// use http::HeaderName;
    /// use tower_throttle::response::Reset;
    /// use tower_throttle::{Global, Headers, Quota, RateLimitLayer, Tier};
    ///
    /// let limits = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))]).headers(
    ///     Headers::default() // `RateLimit` and `RateLimit-Policy`; `Headers::none()` for none
    ///         .x_rate_limit(Reset::Epoch)
    ///         .wait_millis(HeaderName::from_static("x-retry-after-ms")),
    /// );
    /// ```
    #[must_use]
    pub fn headers(self, headers: Headers) -> Self {
        self.with(|config| config.answers.set_headers(headers))
    }

    /// What answers a refused request that is not gRPC. `Retry-After` is the layer's to set, whatever it says.
    #[must_use]
    pub fn responder(self, responder: impl Responder) -> Self {
        self.with(|config| config.answers.set_responder(responder))
    }

    /// Who sees every decision.
    #[must_use]
    pub fn hook(self, hook: impl DecisionHook) -> Self {
        self.with(|config| {
            config.hook = Some(Hook {
                hook: Arc::new(hook),
                hasher: RandomState::new(),
            });
        })
    }

    /// Whether the [`Verdict`](crate::Verdict) is put into the extensions of admitted requests, for handlers. It costs
    /// a few allocations for each request.
    #[must_use]
    pub fn share_verdict(self, share_verdict: bool) -> Self {
        self.with(|config| config.share_verdict = share_verdict)
    }

    /// Makes jitter the same in every run: for tests.
    #[must_use]
    pub fn jitter_seed(self, seed: u64) -> Self {
        self.with(|config| config.dice = Dice::seeded(seed))
    }

    /// Whether it does anything. Off, it lets everything pass; the type of the service stays the same.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<S, St> Layer<S> for RateLimitLayer<St> {
    type Service = RateLimit<S, St>;

    fn layer(&self, inner: S) -> RateLimit<S, St> {
        let config = self.enabled.then(|| Arc::clone(&self.config));
        RateLimit::new(inner, config, Arc::clone(&self.store))
    }
}

impl<St> Clone for RateLimitLayer<St> {
    fn clone(&self) -> Self {
        Self {
            config: Arc::clone(&self.config),
            store: Arc::clone(&self.store),
            enabled: self.enabled,
        }
    }
}

impl<St: fmt::Debug> fmt::Debug for RateLimitLayer<St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer")
            .field("policy", &self.config.policy)
            .field("store", &self.store)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}
