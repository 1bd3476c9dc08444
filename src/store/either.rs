//! One of two stores, chosen at run time.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::{Asked, Charge, Outcome, Receipt, Store};

/// One of two stores, in one type: which, is known at run time.
///
/// ```
/// use tower_throttle::store::{Either, MemoryStore};
/// use tower_throttle::{Global, Quota, RateLimitLayer, Tier};
///
/// # fn main() {
/// let small = std::env::var_os("SMALL").is_some();
/// let store = if small {
///     Either::Left(MemoryStore::new().max_keys(1_000))
/// } else {
///     Either::Right(std::sync::Arc::new(MemoryStore::new()))
/// };
/// let limits = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))]).store(store);
/// # let _ = limits;
/// # }
/// ```
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "it is made once")]
pub enum Either<A, B> {
    /// The one.
    Left(A),
    /// The other.
    Right(B),
}

impl<A: Store, B: Store> Store for Either<A, B> {
    type Future = EitherFuture<A::Future, B::Future>;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Self::Future> {
        match self {
            Self::Left(store) => store.charge(charges).map(|left| EitherFuture::Left { left }),
            Self::Right(store) => store.charge(charges).map(|right| EitherFuture::Right { right }),
        }
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Self::Future> {
        match self {
            Self::Left(store) => store
                .give_back(charges, receipt)
                .map(|left| EitherFuture::Left { left }),
            Self::Right(store) => store
                .give_back(charges, receipt)
                .map(|right| EitherFuture::Right { right }),
        }
    }
}

pin_project! {
    /// The answer of one of two stores.
    #[derive(Debug)]
    #[project = EitherProjection]
    #[allow(missing_docs)]
    pub enum EitherFuture<A, B> {
        /// Of the one.
        Left {
            #[pin]
            left: A,
        },
        /// Of the other.
        Right {
            #[pin]
            right: B,
        },
    }
}

impl<A, B> Future for EitherFuture<A, B>
where
    A: Future<Output = Outcome>,
    B: Future<Output = Outcome>,
{
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self.project() {
            EitherProjection::Left { left } => left.poll(cx),
            EitherProjection::Right { right } => right.poll(cx),
        }
    }
}
