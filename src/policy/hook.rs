//! Somebody who wants to know.

use super::rejection::Reason;
use super::verdict::Verdict;

/// Sees every decision: for metrics, logs, alarms.
///
/// It runs on the request's own path, so it should be quick and must not block.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use tower_throttle::{Global, Quota, RateLimitLayer, Tier};
/// use tower_throttle::policy::{DecisionHook, Reason, Verdict};
///
/// #[derive(Default)]
/// struct Refusals(AtomicU64);
///
/// impl DecisionHook for Refusals {
///     fn decided(&self, _: &Verdict, refused: Option<Reason>) {
///         if refused.is_some() {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let layer = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))])
///     .hook(Refusals::default());
/// ```
pub trait DecisionHook: Send + Sync + 'static {
    /// A request was decided on; `refused` tells why, if it was.
    ///
    /// Of each limit the verdict holds tier, answer and numbers, and a hash of the key, never the key. A request that
    /// concerned no tier is not told of, nor one that was refused for want of a key.
    fn decided(&self, verdict: &Verdict, refused: Option<Reason>);
}
