//! Different quotas for different clients of one tier.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use crate::quota::Quota;

/// A named set of quotas.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) name: String,
    pub(crate) quotas: Vec<Quota>,
}

impl Plan {
    /// One quota, or several that must all admit.
    pub fn new(name: impl Into<String>, quotas: impl IntoQuotaList) -> Self {
        Self {
            name: name.into(),
            quotas: quotas.into_list(),
        }
    }
}

/// Plans, and which of them a request is under.
///
/// ```
/// use http::request::Parts;
/// use tower_throttle::{Extension, Plan, Plans, Quota, Tier};
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
///     plan: &'static str,
/// }
///
/// let plans = Plans::new(
///     [
///         Plan::new("free", Quota::per_minute(60)),
///         Plan::new("pro", Quota::per_minute(6_000).burst(10_000)),
///     ],
///     // What an authenticating middleware has found out; never what a client says of itself.
///     |parts: &Parts| parts.extensions.get::<User>().map(|user| user.plan),
/// );
/// let tier = Tier::new("user", Extension::by(|user: &User| user.id), plans);
/// ```
///
/// The first plan is for requests for which none, or an unknown one, is named.
///
/// All plans of a tier share its accounts, so a client that changes plans takes what it has used along. For that they
/// must agree in the algorithm and the number of quotas, and windows in their period; the layer checks it when it is
/// built.
#[derive(Clone)]
pub struct Plans {
    plans: Vec<Plan>,
    choose: Choose,
}

type Choose = Arc<dyn for<'a> Fn(&'a Parts) -> Option<&'a str> + Send + Sync>;

impl Plans {
    /// These plans, chosen by what `choose` names.
    pub fn new<F>(plans: impl IntoIterator<Item = Plan>, choose: F) -> Self
    where
        F: for<'a> Fn(&'a Parts) -> Option<&'a str> + Send + Sync + 'static,
    {
        Self {
            plans: plans.into_iter().collect(),
            choose: Arc::new(choose),
        }
    }
}

impl fmt::Debug for Plans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plans.fmt(f)
    }
}

/// What a tier allows: one quota, several, or plans of them.
#[derive(Clone)]
pub struct Quotas {
    pub(crate) plans: Vec<Plan>,
    /// Their numbers in the order of their names, so that many plans are no slower than a few.
    by_name: Vec<usize>,
    choose: Option<Choose>,
}

impl Quotas {
    fn new(plans: Vec<Plan>, choose: Option<Choose>) -> Self {
        let mut by_name: Vec<_> = (0..plans.len()).collect();
        by_name.sort_by_key(|number| &plans[*number].name);
        Self { plans, by_name, choose }
    }

    /// The number of the plan that a request is under.
    #[inline]
    pub(crate) fn plan_of(&self, parts: &Parts) -> usize {
        match &self.choose {
            None => 0,
            Some(choose) => choose(parts).and_then(|name| self.number_of(name)).unwrap_or_default(),
        }
    }

    fn number_of(&self, name: &str) -> Option<usize> {
        let place = self
            .by_name
            .binary_search_by(|number| self.plans[*number].name.as_str().cmp(name));
        place.ok().map(|place| self.by_name[place])
    }
}

impl<L: IntoQuotaList> From<L> for Quotas {
    fn from(quotas: L) -> Self {
        Self::new(vec![Plan::new("", quotas)], None)
    }
}

impl From<Plans> for Quotas {
    fn from(plans: Plans) -> Self {
        Self::new(plans.plans, Some(plans.choose))
    }
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plans.fmt(f)
    }
}

/// One quota, an array, a slice or a `Vec` of them.
pub trait IntoQuotaList: sealed::Sealed {
    /// All of them.
    #[doc(hidden)]
    fn into_list(self) -> Vec<Quota>;
}

impl IntoQuotaList for Quota {
    fn into_list(self) -> Vec<Quota> {
        vec![self]
    }
}

impl<const N: usize> IntoQuotaList for [Quota; N] {
    fn into_list(self) -> Vec<Quota> {
        self.into()
    }
}

impl IntoQuotaList for &[Quota] {
    fn into_list(self) -> Vec<Quota> {
        self.to_vec()
    }
}

impl IntoQuotaList for Vec<Quota> {
    fn into_list(self) -> Vec<Quota> {
        self
    }
}

mod sealed {
    use crate::quota::Quota;

    pub trait Sealed {}

    impl Sealed for Quota {}
    impl<const N: usize> Sealed for [Quota; N] {}
    impl Sealed for &[Quota] {}
    impl Sealed for Vec<Quota> {}
}
