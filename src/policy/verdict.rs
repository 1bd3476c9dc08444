//! The policy's answer for one request.

use std::fmt;
use std::iter;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::few::Few;
use crate::quota::Quota;
use crate::store::{Answer, Decision, FailureMode, INLINE, Outcome, Source};

use super::drawing::{Line, Lines};
use super::rejection::Reason;
use super::{Limit, Policy};

/// The policy's answer for one request: how each limit stands after it.
///
/// In the request's extensions if [`share_verdict`](crate::RateLimitLayer::share_verdict) is on, for handlers that
/// want to tell their clients more; and given to the [`DecisionHook`](super::DecisionHook).
///
/// ```
/// use tower_throttle::Verdict;
///
/// fn tightest(verdict: &Verdict) -> Option<u64> {
///     verdict.standings().map(|standing| standing.remaining()).min()
/// }
/// ```
#[derive(Clone)]
pub struct Verdict {
    policy: Arc<Policy>,
    lines: Lines,
    now: Timestamp,
    decisions: Few<Decision, INLINE>,
    /// That of a layer further out, which admitted the request before.
    outer: Option<Arc<Self>>,
}

impl Verdict {
    pub(crate) fn new(policy: &Arc<Policy>, standings: Standings<'_>) -> Self {
        Self {
            policy: Arc::clone(policy),
            lines: Lines::of(standings.lines.iter().copied(), Line::NONE),
            now: standings.now,
            decisions: Few::of(standings.decisions.iter().copied(), Decision::FAILED),
            outer: None,
        }
    }

    /// How each limit that the request concerned stands, in the order of the tiers; after them those of layers
    /// further out.
    pub fn standings(&self) -> impl Iterator<Item = Standing<'_>> {
        iter::successors(Some(self), |verdict| verdict.outer.as_deref()).flat_map(|verdict| {
            let own = Standings {
                policy: &verdict.policy,
                lines: &verdict.lines,
                now: verdict.now,
                decisions: &verdict.decisions,
            };
            own.iter()
        })
    }

    /// When it was decided, by the store's clock.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// For handlers: without hashes of keys, and with what a layer further out had to say.
    pub(crate) fn shared(mut self, outer: Option<Self>) -> Self {
        self.lines.iter_mut().for_each(|line| line.key_hash = None);
        self.outer = outer.map(Arc::new);
        self
    }
}

/// A verdict that nobody keeps.
#[derive(Clone, Copy)]
pub(crate) struct Standings<'a> {
    policy: &'a Policy,
    lines: &'a [Line],
    now: Timestamp,
    decisions: &'a [Decision],
}

impl<'a> Standings<'a> {
    /// What `outcome` means for `lines`, which it answers one by one.
    #[inline]
    pub(crate) fn new(policy: &'a Policy, lines: &'a [Line], outcome: &'a Outcome) -> Self {
        Self {
            policy,
            lines,
            now: outcome.now(),
            decisions: outcome.decisions(),
        }
    }

    #[inline]
    pub(crate) fn iter(self) -> impl Iterator<Item = Standing<'a>> + Clone {
        let policy = self.policy;
        let lines = self.lines.iter().zip(self.decisions);
        lines.map(move |(line, decision)| Standing { policy, line, decision })
    }

    pub(crate) const fn now(self) -> Timestamp {
        self.now
    }

    /// Why the request is refused, if it is.
    #[inline]
    pub(crate) fn reason(self) -> Option<Reason> {
        let mut reason = None;
        for standing in self.iter() {
            match standing.answer() {
                // Nothing weighs more: waiting will not help.
                Answer::NeverFits => return Some(Reason::CostTooHigh),
                Answer::Refuses => reason = Some(Reason::QuotaExceeded),
                Answer::Failed if standing.denies_on_failure() => {
                    reason = reason.or(Some(Reason::StoreUnavailable));
                }
                Answer::Admits | Answer::NotAsked | Answer::Failed => {}
            }
        }
        reason
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.standings()).finish()
    }
}

/// How one limit stands after a request.
#[derive(Clone, Copy)]
pub struct Standing<'a> {
    policy: &'a Policy,
    line: &'a Line,
    decision: &'a Decision,
}

impl<'a> Standing<'a> {
    /// The tier's name.
    #[must_use]
    pub fn tier(&self) -> &'a str {
        &self.line.checked(self.policy).tier.name
    }

    /// The limit's name in headers and refusals: the tier's, with the period added if the tier has several quotas.
    #[must_use]
    pub fn label(&self) -> &'a str {
        &self.limit().label
    }

    /// The quota of the plan that the request is under.
    #[must_use]
    pub fn quota(&self) -> &'a Quota {
        &self.limit().quota
    }

    /// What the request took, or would have taken.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.line.cost
    }

    /// Whether this limit admits the request.
    #[must_use]
    pub const fn answer(&self) -> Answer {
        self.decision.answer()
    }

    /// Who decided: the store, or this process in its place.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.decision.source()
    }

    /// The largest cost that would be admitted right now.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.decision.remaining()
    }

    /// How long until the same request is admitted (again); none if it never is, or if nobody knows.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.decision.retry_after()
    }

    /// How long until nothing is used of the quota.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        self.decision.reset_after()
    }

    /// A hash of the key, keyed with a secret of the layer's own: it tells clients apart, in this process and as long
    /// as it runs, and says nothing about who they are. Only there for a [`DecisionHook`](super::DecisionHook).
    #[must_use]
    pub fn key_hash(&self) -> Option<u64> {
        self.line.key_hash.map(NonZeroU64::get)
    }

    #[inline]
    pub(crate) fn limit(&self) -> &'a Limit {
        self.line.limit(self.policy)
    }

    pub(crate) fn limit_arc(&self) -> &'a Arc<Limit> {
        &self.policy.limits()[self.line.limit_number()]
    }

    pub(crate) const fn decision(&self) -> &'a Decision {
        self.decision
    }

    pub(crate) fn line(&self) -> &'a Line {
        self.line
    }

    pub(crate) fn policy(&self) -> &'a Policy {
        self.policy
    }

    /// Whether headers may name it: the tier wants it, and it applies, which one that failed open does not.
    pub(crate) fn is_named(&self) -> bool {
        self.line.checked(self.policy).tier.in_headers && self.answer() != Answer::Failed
    }

    /// Whether headers may also tell how it stands.
    pub(crate) fn is_shown(&self) -> bool {
        self.is_named() && self.answer() != Answer::NotAsked
    }

    pub(crate) fn denies_on_failure(&self) -> bool {
        self.line.checked(self.policy).tier.on_failure == FailureMode::Deny
    }
}

impl fmt::Debug for Standing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Standing")
            .field("label", &self.label())
            .field("quota", &self.quota())
            .field("cost", &self.cost())
            .field("decision", &self.decision)
            .finish()
    }
}
