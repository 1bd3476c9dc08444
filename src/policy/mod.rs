//! What is limited: the ordered tiers, and what they make of a request.

mod check;
mod drawing;
mod error;
mod hook;
mod jitter;
mod plan;
mod rejection;
mod selector;
mod tier;
mod verdict;

use std::ops::Range;
use std::sync::Arc;

use crate::quota::Quota;
use crate::store::TierId;

pub(crate) use self::{
    check::short,
    drawing::{Drawing, Line, Lines},
    jitter::Dice,
    verdict::Standings,
};
pub use self::{
    error::ConfigError,
    hook::{Decided, DecisionHook},
    jitter::Jitter,
    plan::{IntoQuotaList, Plan, Plans, Quotas},
    rejection::{Reason, Rejection, Violation},
    selector::{HeaderIs, Selector, preflight},
    tier::{OnMissing, Tier},
    verdict::{Standing, Verdict},
};

/// The ordered tiers, checked.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    tiers: Vec<Checked>,
    /// Of all plans of all tiers.
    limits: Vec<Arc<Limit>>,
}

/// A tier that has passed the checks, with what follows from its fields.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) tier: Tier,
    pub(crate) name: Arc<str>,
    pub(crate) id: TierId,
    /// For each plan the numbers of its limits, one for each quota.
    pub(crate) plans: Vec<Range<usize>>,
}

/// A quota under the name by which clients know it.
#[derive(Debug)]
pub(crate) struct Limit {
    pub(crate) tier: Arc<str>,
    pub(crate) quota: Quota,
    /// The tier's name; with the period added if the tier has several quotas.
    pub(crate) label: Arc<str>,
    /// Quoted. Names are printable ASCII, so structured fields and JSON write them alike.
    pub(crate) quoted_label: String,
    /// What clients are told who exceed it.
    pub(crate) rule: String,
    pub(crate) rule_in_json: String,
}

impl Policy {
    /// Checks everything there is to check, and is the only way to a policy.
    pub(crate) fn new(tiers: impl IntoIterator<Item = Tier>) -> Result<Self, ConfigError> {
        check::check(tiers.into_iter().collect())
    }

    pub(crate) fn set_namespace(&mut self, namespace: &str) {
        for checked in &mut self.tiers {
            checked.id = TierId::new(namespace, checked.id.name());
        }
    }

    pub(crate) fn tiers(&self) -> &[Checked] {
        &self.tiers
    }

    /// By their numbers.
    #[inline]
    pub(crate) fn limits(&self) -> &[Arc<Limit>] {
        &self.limits
    }
}
