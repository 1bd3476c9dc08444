//! The one place where configuration is checked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::quota::{Algorithm, Quota};
use crate::store::TierId;

use super::error::ConfigError;
use super::plan::Plan;
use super::tier::{Cost, Tier};
use super::{Checked, Limit, Policy};

/// What can be numbered everywhere; nobody needs as many.
const MOST_TIERS: usize = 256;
const MOST_PLANS: usize = 256;
const MOST_QUOTAS: usize = 16;

pub(super) fn check(tiers: Vec<Tier>) -> Result<Policy, ConfigError> {
    if tiers.is_empty() || tiers.len() > MOST_TIERS {
        return Err(ConfigError::new(
            "tiers",
            "write from 1 to 256 tiers; to limit nothing, use enabled(false)",
        ));
    }
    let mut names = HashSet::new();
    let mut policy = Policy {
        tiers: Vec::new(),
        limits: Vec::new(),
    };
    for tier in tiers {
        check_tier(&tier).map_err(|error| error.of_tier(&tier.name))?;
        let labels = labels(&tier.name, &tier.quotas.plans);
        // The tier's own name, which accounts go by, and those of its quotas, which clients see; often the same.
        let own: HashSet<_> = (labels.iter().map(|label| &**label))
            .chain([&*tier.name])
            .map(str::to_ascii_lowercase)
            .collect();
        for name in own {
            if !names.insert(name.clone()) {
                return Err(ConfigError::new(
                    "name",
                    format!("the name {name:?} is taken; no two may be alike, not even but for case"),
                )
                .of_tier(&tier.name));
            }
        }
        policy.add(tier, &labels);
    }
    Ok(policy)
}

fn check_tier(tier: &Tier) -> Result<(), ConfigError> {
    check_name(&tier.name)?;
    check_plans(&tier.quotas.plans)?;
    check_cost(tier)
}

/// It becomes a structured-field string in the headers; one that does not fit would spoil the whole field.
fn check_name(name: &str) -> Result<(), ConfigError> {
    let printable = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if name.trim().is_empty() || name.len() > 64 || !printable {
        let advice = "a name must be 1 to 64 printable ASCII characters; write something like \"per-user\"";
        return Err(ConfigError::new("name", advice));
    }
    Ok(())
}

fn check_plans(plans: &[Plan]) -> Result<(), ConfigError> {
    let Some((first, others)) = plans.split_first().filter(|_| plans.len() <= MOST_PLANS) else {
        return Err(ConfigError::new(
            "plans",
            "write from 1 to 256 plans; the first is the default",
        ));
    };
    let mut names = HashSet::new();
    for plan in plans {
        if !names.insert(&plan.name) {
            let advice = format!("two plans are named {:?}; give each a name of its own", plan.name);
            return Err(ConfigError::new("plans", advice));
        }
        if plan.quotas.is_empty() || plan.quotas.len() > MOST_QUOTAS {
            return Err(ConfigError::new("quotas", "write from 1 to 16 quotas for each plan"));
        }
        for quota in &plan.quotas {
            quota
                .check()
                .map_err(|error| ConfigError::new(error.field(), error.to_string()))?;
        }
    }
    for other in others {
        let agree = first.quotas.len() == other.quotas.len()
            && first
                .quotas
                .iter()
                .zip(&other.quotas)
                .all(|(one, another)| share_accounts(one, another));
        if !agree {
            let advice = format!(
                "plans {:?} and {:?} disagree; give all plans of a tier the same number of quotas with the same \
                 algorithms, windows also the same period (and do not mix buckets or weighted windows of very large or odd rates per hour with others)",
                first.name, other.name
            );
            return Err(ConfigError::new("plans", advice));
        }
    }
    Ok(())
}

/// Whether an account charged under one quota means something under the other.
fn share_accounts(one: &Quota, other: &Quota) -> bool {
    match (one.algorithm(), other.algorithm()) {
        // Both keep fractions of a tick, and must mean the same by it.
        (Algorithm::TokenBucket, Algorithm::TokenBucket) => one.rate().tick == other.rate().tick,
        (Algorithm::SlidingLog { .. }, Algorithm::SlidingLog { .. }) => one.period() == other.period(),
        (step @ Algorithm::SteppedBucket { .. }, other_step) => {
            step == other_step && one.rate().tick == other.rate().tick
        }
        (Algorithm::WeightedWindow, Algorithm::WeightedWindow) => {
            one.period() == other.period() && one.rate().tick == other.rate().tick
        }
        (window, other_window) => window == other_window && one.period() == other.period(),
    }
}

fn check_cost(tier: &Tier) -> Result<(), ConfigError> {
    let Cost::Constant(cost) = tier.cost else {
        return Ok(());
    };
    let quotas = tier.quotas.plans.iter().flat_map(|plan| &plan.quotas);
    match quotas.map(Quota::burst_size).min() {
        Some(most) if cost > most => {
            let advice = format!("a cost of {cost} can never fit; write at most {most}, or raise the burst");
            Err(ConfigError::new("cost", advice))
        }
        _ => Ok(()),
    }
}

impl Policy {
    fn add(&mut self, tier: Tier, labels: &[Arc<str>]) {
        let name: Arc<str> = tier.name.as_str().into();
        let mut plans = Vec::new();
        for plan in &tier.quotas.plans {
            let first = self.limits.len();
            for (quota, label) in plan.quotas.iter().zip(labels) {
                let (limit, period) = (quota.limit(), short(quota.period()));
                let rule = format!("tier {name:?} allows {limit} per {period}");
                self.limits.push(Arc::new(Limit {
                    tier: Arc::clone(&name),
                    quota: *quota,
                    label: Arc::clone(label),
                    quoted_label: format!("{label:?}"),
                    // Of printable ASCII, only these two are written otherwise.
                    rule_in_json: rule.replace('\\', r"\\").replace('"', r#"\""#),
                    rule,
                }));
            }
            plans.push(first..self.limits.len());
        }
        self.tiers.push(Checked {
            id: TierId::new("", &name),
            name,
            plans,
            tier,
        });
    }
}

/// One quota goes by the tier's name; of several each adds its period, or its number if that does not tell them apart
/// in every plan.
fn labels(name: &str, plans: &[Plan]) -> Vec<Arc<str>> {
    let periods = |plan: &Plan| plan.quotas.iter().map(Quota::period).collect::<Vec<_>>();
    let of_first = periods(&plans[0]);
    if let [_] = of_first[..] {
        return vec![name.into()];
    }
    let telling = of_first.iter().collect::<HashSet<_>>().len() == of_first.len()
        && plans.iter().all(|plan| periods(plan) == of_first);
    let labels = of_first.iter().zip(1..).map(|(period, nth)| {
        if telling {
            format!("{name}.{}", short(*period))
        } else {
            format!("{name}.{nth}")
        }
    });
    labels.map(Arc::from).collect()
}

/// A time in its largest whole unit.
pub(crate) fn short(time: Duration) -> String {
    const UNITS: [(u128, &str); 5] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
    ];
    let micros = time.as_micros();
    match UNITS.iter().find(|(unit, _)| micros.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", micros / unit),
        None => format!("{micros}us"),
    }
}
