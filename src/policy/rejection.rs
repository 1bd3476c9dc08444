//! A refusal, as data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use smallvec::SmallVec;

use crate::quota::Quota;
use crate::store::Answer;

use super::jitter::{Dice, Jitter};
use super::verdict::{Standing, Standings};
use super::{Limit, Policy};

/// Why a request was refused, by which tiers, and for how long.
///
/// It lies in the extensions of every refusal, and is what a [`Responder`](crate::response::Responder) makes a
/// response of. `Display` is a sentence for the client. It holds no key.
#[derive(Clone, Debug)]
pub struct Rejection {
    reason: Reason,
    tier: Arc<str>,
    violations: Violations,
    /// Without jitter.
    retry_after: Option<Duration>,
    /// With jitter, in whole milliseconds.
    wait: Option<Duration>,
}

/// What kind of refusal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The quota is used up for now: 429, or gRPC `RESOURCE_EXHAUSTED`.
    QuotaExceeded,
    /// The request costs more than a quota can ever hold: 403, or gRPC `FAILED_PRECONDITION`.
    CostTooHigh,
    /// The request lacks a key that a tier insists on ([`OnMissing::Refuse`](super::OnMissing::Refuse)): 400, or gRPC
    /// `INVALID_ARGUMENT`.
    MissingKey,
    /// The store could not tell, and a tier then denies ([`FailureMode::Deny`](crate::store::FailureMode::Deny)): 503,
    /// or gRPC `UNAVAILABLE`.
    StoreUnavailable,
}

/// Most refusals are by one limit, or two.
type Violations = SmallVec<[Violation; 2]>;

/// A limit that refused.
#[derive(Clone)]
pub struct Violation {
    limit: Arc<Limit>,
    cost: u64,
    remaining: u64,
    retry_after: Option<Duration>,
}

impl Rejection {
    /// The refusal that the standings are, if they are one.
    pub(crate) fn of(standings: Standings<'_>, dice: &Dice) -> Option<Self> {
        let reason = standings.reason()?;
        let violated = move |standing: &Standing<'_>| match standing.answer() {
            Answer::Refuses | Answer::NeverFits => true,
            Answer::Failed => reason == Reason::StoreUnavailable && standing.denies_on_failure(),
            Answer::Admits | Answer::NotAsked => false,
        };
        let mut violations = Violations::new();
        let mut named = None;
        for standing in standings.iter().filter(violated) {
            // Where the cost is too high, it is too high for a tier that is not the first to refuse, perhaps.
            if named.is_none() && (reason != Reason::CostTooHigh || standing.answer() == Answer::NeverFits) {
                named = Some(&standing.limit().tier);
            }
            violations.push(Violation::of(standing));
        }
        let wait = match reason {
            Reason::QuotaExceeded => longest_wait(standings),
            Reason::StoreUnavailable => Some((UNAVAILABLE, Jitter::default())),
            Reason::CostTooHigh | Reason::MissingKey => None,
        };
        let wait = wait.map(|(wait, jitter)| (wait, wait.saturating_add(jitter.draw(wait, dice))));
        named.map(|tier| Self::new(reason, tier, violations, wait))
    }

    /// The refusal for want of a key.
    pub(crate) fn for_missing_key(policy: &Policy, tier: usize) -> Self {
        Self::new(Reason::MissingKey, &policy.tiers()[tier].name, Violations::new(), None)
    }

    fn new(reason: Reason, tier: &Arc<str>, violations: Violations, waits: Option<(u64, u64)>) -> Self {
        Self {
            reason,
            tier: Arc::clone(tier),
            violations,
            retry_after: waits.map(|(wait, _)| Duration::from_micros(wait)),
            wait: waits.map(|(_, told)| Duration::from_millis(told.div_ceil(1_000).max(1))),
        }
    }

    /// What kind of refusal it is.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// The first tier, in order, that refused.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.tier
    }

    /// All limits that are known to have refused, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The true wait, to the microsecond: the longest among the limits that refused. None if waiting does not help.
    ///
    /// Clients are told [`wait`](Self::wait) instead, which spreads them.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What the client is told to wait, everywhere: the true wait and the jitter, in whole milliseconds, rounded up.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The rule that the sentence begins with if a quota is exceeded, as JSON writes it.
    pub(crate) fn rule_in_json(&self) -> Option<&str> {
        match (self.reason, self.violations.first()) {
            (Reason::QuotaExceeded, Some(first)) => Some(&first.limit.rule_in_json),
            _ => None,
        }
    }

    /// The status of a plain HTTP response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Reason::CostTooHigh => StatusCode::FORBIDDEN,
            Reason::MissingKey => StatusCode::BAD_REQUEST,
            Reason::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// How long a store that fails is given, in microseconds: nobody knows how long it will.
const UNAVAILABLE: u64 = 1_000_000;

/// The longest wait, in microseconds, and the jitter of the tier that has it.
fn longest_wait(standings: Standings<'_>) -> Option<(u64, Jitter)> {
    standings
        .iter()
        .filter(|standing| standing.answer() == Answer::Refuses)
        .map(|standing| {
            let jitter = standing.line().checked(standing.policy()).tier.jitter;
            (standing.decision().retry_after_micros(), jitter)
        })
        .reduce(|longest, next| if next.0 > longest.0 { next } else { longest })
}

impl Violation {
    fn of(standing: Standing<'_>) -> Self {
        Self {
            limit: Arc::clone(standing.limit_arc()),
            cost: standing.cost(),
            remaining: standing.remaining(),
            retry_after: standing.retry_after(),
        }
    }

    /// The tier's name.
    #[must_use]
    pub fn tier(&self) -> &str {
        &self.limit.tier
    }

    /// The limit's name in headers: the tier's, with the period added if the tier has several quotas.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.limit.label
    }

    /// The quota of the plan that the request is under.
    #[must_use]
    pub fn quota(&self) -> &Quota {
        &self.limit.quota
    }

    /// The label in quotes, as JSON has them.
    pub(crate) fn quoted_label(&self) -> &str {
        &self.limit.quoted_label
    }

    /// What the request would have taken.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// What is left.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// How long until this limit admits the request; none if it never does, or if nobody knows.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = self.tier();
        let wait = self.wait().unwrap_or_default().as_millis();
        match (self.reason(), self.violations().first()) {
            (Reason::QuotaExceeded, Some(first)) => write!(f, "{}; try again in {wait} ms", first.limit.rule),
            (Reason::QuotaExceeded, None) => write!(f, "tier {tier:?} is used up; try again in {wait} ms"),
            (Reason::CostTooHigh, _) => {
                let too_high = |violation: &&Violation| violation.cost > violation.quota().burst_size();
                match self.violations().iter().find(too_high) {
                    Some(violation) => write!(
                        f,
                        "tier {tier:?} admits at most {} at once, and the request costs {}",
                        violation.quota().burst_size(),
                        violation.cost
                    ),
                    None => write!(f, "tier {tier:?} can never admit a request of this cost"),
                }
            }
            (Reason::MissingKey, _) => {
                write!(f, "tier {tier:?} counts by something that the request does not have")
            }
            (Reason::StoreUnavailable, _) => {
                write!(f, "limits cannot be checked at the moment; try again in {wait} ms")
            }
        }
    }
}

impl fmt::Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Violation")
            .field("label", &self.label())
            .field("quota", self.quota())
            .field("cost", &self.cost)
            .field("remaining", &self.remaining)
            .field("retry_after", &self.retry_after)
            .finish()
    }
}
