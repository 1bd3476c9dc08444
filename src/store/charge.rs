//! What a store is asked.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

use crate::quota::Quota;

use super::INLINE;

/// One key against one quota, with a cost.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Charge<'a> {
    /// Whose accounts.
    pub tier: &'a TierId,
    /// Which of the tier's quotas, counted from 0.
    pub nth: u8,
    /// Who is counted: bytes to be compared, not text to be read. They may be secret.
    pub key: &'a [u8],
    /// How much is allowed.
    pub quota: &'a Quota,
    /// How much this request takes.
    pub cost: u64,
    /// What it means if the store cannot tell.
    pub on_failure: FailureMode,
}

impl<'a> Charge<'a> {
    /// A cost of 1 against the tier's first quota.
    #[must_use]
    #[inline]
    pub const fn new(tier: &'a TierId, key: &'a [u8], quota: &'a Quota) -> Self {
        Self {
            tier,
            nth: 0,
            key,
            quota,
            cost: 1,
            on_failure: FailureMode::Local,
        }
    }

    /// Against another of the tier's quotas.
    #[must_use]
    #[inline]
    pub const fn nth(mut self, nth: u8) -> Self {
        self.nth = nth;
        self
    }

    /// With another cost.
    #[must_use]
    #[inline]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// With another meaning of failure.
    #[must_use]
    #[inline]
    pub const fn on_failure(mut self, on_failure: FailureMode) -> Self {
        self.on_failure = on_failure;
        self
    }
}

/// Without the key, which may be secret.
impl fmt::Debug for Charge<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge")
            .field("tier", &self.tier)
            .field("nth", &self.nth)
            .field("quota", &self.quota)
            .field("cost", &self.cost)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}

/// Charges that outlive the call they were made for.
pub(crate) struct OwnedCharges {
    keys: SmallVec<[u8; 128]>,
    charges: SmallVec<[OwnedCharge; INLINE]>,
}

struct OwnedCharge {
    tier: TierId,
    nth: u8,
    /// Where it lies in `keys`.
    key: Range<usize>,
    quota: Quota,
    cost: u64,
    on_failure: FailureMode,
}

impl OwnedCharges {
    pub(crate) fn new(charges: &[Charge<'_>]) -> Self {
        let mut keys = SmallVec::new();
        let own = charges.iter().map(|charge| {
            let start = keys.len();
            keys.extend_from_slice(charge.key);
            OwnedCharge {
                tier: charge.tier.clone(),
                nth: charge.nth,
                key: start..keys.len(),
                quota: *charge.quota,
                cost: charge.cost,
                on_failure: charge.on_failure,
            }
        });
        Self {
            charges: own.collect(),
            keys,
        }
    }

    pub(crate) fn borrowed(&self) -> SmallVec<[Charge<'_>; INLINE]> {
        let charges = self.charges.iter().map(|own| Charge {
            tier: &own.tier,
            nth: own.nth,
            key: &self.keys[own.key.clone()],
            quota: &own.quota,
            cost: own.cost,
            on_failure: own.on_failure,
        });
        charges.collect()
    }
}

/// What it means for a request that the store could not decide on a tier.
///
/// | mode | while the store is away | costs |
/// |---|---|---|
/// | [`Local`](Self::Local) | each process counts for itself, at its share of the rate | memory for the keys; see [`Fallback`](super::Fallback) for how much more passes |
/// | [`Allow`](Self::Allow) | the tier does not exist | no limit at all |
/// | [`Deny`](Self::Deny) | nothing passes | the service is down when the store is |
///
/// If several tiers fail at once, any that denies denies; those that decide locally are charged all or nothing among
/// themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureMode {
    /// This process decides, with what it knows. That takes a [`Fallback`](super::Fallback), which a `RedisStore` has
    /// built in; around a store that has none, this is [`Allow`](Self::Allow).
    #[default]
    Local,
    /// The tier does not count: the request passes unless another tier refuses it.
    Allow,
    /// The request is refused as unavailable: 503, or gRPC `UNAVAILABLE`.
    Deny,
}

/// Names the accounts of one tier: a namespace, and the tier's name in it.
///
/// Two layers that share a store share the accounts of the tiers that are named alike.
#[derive(Clone)]
pub struct TierId {
    /// Of both names, so that a store finds its tables without looking at them.
    hash: u64,
    names: Arc<Names>,
}

#[derive(PartialEq, Eq)]
struct Names {
    namespace: Box<str>,
    name: Box<str>,
}

impl TierId {
    /// The tier `name` in `namespace`.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            hash: xxh3_64(format!("{namespace}\0{name}").as_bytes()),
            names: Arc::new(Names {
                namespace: namespace.into(),
                name: name.into(),
            }),
        }
    }

    /// The layer's namespace; empty unless set.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.names.namespace
    }

    /// The tier's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.names.name
    }

    #[inline]
    pub(crate) fn hash64(&self) -> u64 {
        self.hash
    }
}

impl PartialEq for TierId {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.names, &other.names) || self.names == other.names)
    }
}

impl Eq for TierId {}

impl Hash for TierId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl fmt::Debug for TierId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TierId")
            .field("namespace", &self.namespace())
            .field("name", &self.name())
            .finish()
    }
}
