//! Somebody who wants to know.

use std::sync::Arc;

use super::rejection::Rejection;
use super::verdict::Verdict;

/// Sees every decision: for metrics, logs, alarms.
///
/// It runs on the request's own path, so it should be quick and must not block. A closure `|decided: &Decided<'_>|`
/// will do.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tower_throttle::{Global, Quota, RateLimitLayer, Tier};
/// use tower_throttle::policy::{Decided, DecisionHook};
///
/// #[derive(Default)]
/// struct Refusals(AtomicU64);
///
/// impl DecisionHook for Refusals {
///     fn decided(&self, decided: &Decided<'_>) {
///         if decided.rejection().is_some() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let refusals = Arc::new(Refusals::default());
/// let layer = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))])
///     .hook(Arc::clone(&refusals));
/// ```
pub trait DecisionHook: Send + Sync + 'static {
    /// A request was decided on. One that concerned no tier is not told of.
    fn decided(&self, decided: &Decided<'_>);
}

impl<H: DecisionHook + ?Sized> DecisionHook for Arc<H> {
    fn decided(&self, decided: &Decided<'_>) {
        (**self).decided(decided);
    }
}

impl<F> DecisionHook for F
where
    F: Fn(&Decided<'_>) + Send + Sync + 'static,
{
    fn decided(&self, decided: &Decided<'_>) {
        self(decided);
    }
}

/// What was decided on a request.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    verdict: Option<&'a Verdict>,
    rejection: Option<&'a Rejection>,
}

impl<'a> Decided<'a> {
    pub(crate) const fn new(verdict: Option<&'a Verdict>, rejection: Option<&'a Rejection>) -> Self {
        Self { verdict, rejection }
    }

    /// How each limit stands: its tier, the answer, the numbers, and a hash of the key, never the key. None if the
    /// request was refused for want of a key, before anything was asked.
    #[must_use]
    pub const fn verdict(&self) -> Option<&'a Verdict> {
        self.verdict
    }

    /// Why it was refused, by which tiers and for how long, if it was.
    #[must_use]
    pub const fn rejection(&self) -> Option<&'a Rejection> {
        self.rejection
    }
}
