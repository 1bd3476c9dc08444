//! Where accounts are kept, and charged all or nothing.
//!
//! [`MemoryStore`] keeps them in this process, `RedisStore` (feature `redis`) in a Redis that a fleet shares. The contract of
//! [`Store`] is written so that any remote store can keep it; around such a one [`Fallback`] decides while it is away,
//! and [`RefusalCache`] spares it floods of refusals.

mod charge;
mod decision;
mod either;
mod fallback;
pub mod memory;
mod refusal_cache;
#[cfg(feature = "redis")]
pub mod redis;
mod secret;

use std::future::Future;
use std::sync::Arc;

pub(crate) use self::decision::INLINE;
#[cfg(feature = "redis")]
pub use self::redis::RedisStore;
pub use self::{
    charge::{Charge, FailureMode, TierId},
    decision::{Answer, Decision, Outcome, Receipt, Source},
    either::{Either, EitherFuture},
    fallback::{Fallback, FallbackFuture, Replicas},
    memory::MemoryStore,
    refusal_cache::{RefusalCache, RefusalCacheFuture},
};

/// Decides on charges, all or nothing.
///
/// # Contract
///
/// 1. **All or nothing.** [`charge`](Self::charge) charges every account named, in one step, if each of them admits
///    its cost; otherwise none. No other call, from any thread or process, sees or uses a state in between.
/// 2. **A refusal charges nothing** and creates no account. What it tells is what holds without it.
/// 3. **The outcome answers each charge**, in the order of the charges, with the numbers after this call; on a
///    refusal all of them, also those behind the first that refused. (A store that knows of a refusal without asking may
///    leave the others [`Answer::NotAsked`].)
/// 4. **The wait is true.** Where a charge is refused with `retry_after`, the same charge is admitted at that time if
///    nothing else was charged meanwhile, and refused one microsecond before. It is never rounded down.
/// 5. **A cost of 0 is a look**: always admitted, charges nothing, creates no account.
/// 6. **A cost that can never fit** is answered [`Answer::NeverFits`], whatever the account holds.
/// 7. **No charges, no question**: an empty slice is answered at once, with no decisions.
/// 8. **Each account at most once** in a call: a caller must not name one twice; the store may answer as it likes then.
/// 9. **Accounts are remembered** until they cannot be told from new ones. A store that must forget sooner, for want
///    of room, forgets those with the least to lose and counts them.
/// 10. **Cancellation.** Dropping the future of [`Asked::Later`] at any point leaves all of the charges or none.
/// 11. **Giving back** is strict: [`give_back`](Self::give_back) returns what certainly still weighs on the accounts
///     of an admitted charge and never more, so never lets through more than if the charge had not been made; and
///     nothing once the windows it was charged to have rolled over.
/// 12. **Failure** is an answer, [`Answer::Failed`], of each charge that could not be decided; answers that are missing
///     count as such. What was charged is then unknown; it is neither repeated nor given back.
///
/// An account is identified by [`Charge::tier`], [`Charge::nth`] and [`Charge::key`]; for window algorithms also by
/// the quota's period and precision. Never by limit or burst: a raised limit keeps the account.
///
/// # Example
///
/// A store around another: here one that lets a key of its own choosing wait.
///
/// ```
/// use std::time::Duration;
/// use tower_throttle::store::{Answer, Asked, Charge, Decision, MemoryStore, Outcome, Receipt, Store};
///
/// struct Banning {
///     inner: MemoryStore,
///     banned: Vec<u8>,
/// }
///
/// impl Store for Banning {
///     type Future = <MemoryStore as Store>::Future;
///
///     fn charge(&self, charges: &[Charge<'_>]) -> Asked<Self::Future> {
///         if charges.iter().all(|charge| charge.key != self.banned) {
///             return self.inner.charge(charges);
///         }
///         // Asked for nothing, a memory store tells the time.
///         let Asked::Now(asked) = self.inner.charge(&[]) else {
///             return Asked::Now(Outcome::failed(charges.len()));
///         };
///         let refused = Decision::new(Answer::Refuses).with_retry_after(Duration::from_secs(3_600));
///         Asked::Now(Outcome::new(asked.now(), charges.iter().map(|_| refused)))
///     }
///
///     // What an admitted call was charged is given back where it was charged; a store of its own accounts finds in
///     // the receipt what it put into `Outcome::with_marks`.
///     fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Self::Future> {
///         self.inner.give_back(charges, receipt)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a store",
    note = "use `MemoryStore`, an `Arc` of a store, or implement `Store` for your own"
)]
pub trait Store: Send + Sync + 'static {
    /// The answer that is not there yet.
    type Future: Future<Output = Outcome> + Send + 'static;

    /// Charges all accounts, or none of them.
    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Self::Future>;

    /// Gives back what an admitted call charged, or less where the costs in `charges` are smaller than they were.
    ///
    /// `charges` are those of the call, in the same order, and `receipt` is from its outcome: there is one, so a
    /// charge is given back at most once. The outcome holds the numbers after giving back.
    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Self::Future>;
}

/// An outcome: now, or later.
///
/// A store that can answer at once does; that costs its caller neither an allocation nor a poll. The question borrows
/// its charges, the future owns what it needs of them.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "an answer at once must not cost an allocation")]
pub enum Asked<F> {
    /// The outcome.
    Now(Outcome),
    /// The future of it.
    Later(F),
}

impl<F> Asked<F> {
    /// The same, with another future.
    pub fn map<G>(self, later: impl FnOnce(F) -> G) -> Asked<G> {
        match self {
            Self::Now(outcome) => Asked::Now(outcome),
            Self::Later(future) => Asked::Later(later(future)),
        }
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    type Future = S::Future;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<S::Future> {
        (**self).charge(charges)
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<S::Future> {
        (**self).give_back(charges, receipt)
    }
}
