//! The request comes in.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response};
use tower_service::Service;

use crate::body::ResponseBody;
use crate::future::{Checking, ResponseFuture};
use crate::layer::Config;
use crate::policy::{Lines, Rejection, Verdict};
use crate::store::{Asked, MemoryStore, Store};

/// Limits the requests to `S`; made by [`RateLimitLayer`](crate::RateLimitLayer).
pub struct RateLimit<S, St = MemoryStore> {
    inner: S,
    /// None if the layer is not enabled.
    config: Option<Arc<Config>>,
    store: Arc<St>,
}

impl<S, St> RateLimit<S, St> {
    pub(crate) const fn new(inner: S, config: Option<Arc<Config>>, store: Arc<St>) -> Self {
        Self { inner, config, store }
    }

    /// The inner service.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service, alone.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, St, ReqBody, ResBody> Service<Request<ReqBody>> for RateLimit<S, St>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    St: Store,
{
    type Response = Response<ResponseBody<ResBody>>;
    type Error = S::Error;
    type Future = ResponseFuture<S, ReqBody, St>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let Some(config) = &self.config else {
            return ResponseFuture::calling(self.inner.call(request), None);
        };
        let (mut parts, body) = request.into_parts();
        let judged = match config.ask(&*self.store, &parts) {
            Question::NotAsked => Ok(None),
            Question::Refused(rejection) => {
                config.tell(None, Some(&rejection));
                Err(config.answers.refuse(rejection, None, &parts))
            }
            Question::Asked(lines, Asked::Now(outcome)) => {
                let verdict = Verdict::new(&config.policy, lines, outcome);
                config.judge(verdict, &mut parts)
            }
            Question::Asked(lines, Asked::Later(outcome)) => {
                let config = Arc::clone(config);
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                let checking = Checking::new(config, lines, ready, parts, body);
                return ResponseFuture::checking(outcome, checking);
            }
        };
        match judged {
            Ok(stamp) => {
                let request = Request::from_parts(parts, body);
                ResponseFuture::calling(self.inner.call(request), stamp)
            }
            Err(response) => {
                self.give_up_reservation();
                ResponseFuture::refused(response)
            }
        }
    }
}

/// What became of the question whether a request may pass.
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the usual one, and never kept"
)]
enum Question<F> {
    /// No tier wants to know.
    NotAsked,
    /// A tier refuses without the store: the request lacks a key.
    Refused(Rejection),
    /// The store was asked for these charges.
    Asked(Lines, Asked<F>),
}

impl Config {
    fn ask<St: Store>(&self, store: &St, parts: &Parts) -> Question<St::Future> {
        if self.exempt.iter().any(|requests| requests.selects(parts)) {
            return Question::NotAsked;
        }
        let hasher = self.hook.as_ref().map(|hook| &hook.hasher);
        match self.policy.draw(parts, hasher) {
            Ok(drawing) if drawing.is_empty() => Question::NotAsked,
            Ok(drawing) => {
                let asked = store.charge(&drawing.charges(&self.policy));
                Question::Asked(drawing.into_lines(), asked)
            }
            Err(refused) => Question::Refused(Rejection::for_missing_key(&self.policy, refused.tier)),
        }
    }
}

impl<S: Clone, St> RateLimit<S, St> {
    /// The inner service was made ready for a request that it will not get. Dropped, it frees what it reserved, say
    /// the permit of a `ConcurrencyLimit`; left in place, this clone would keep it for as long as it idles.
    fn give_up_reservation(&mut self) {
        self.inner = self.inner.clone();
    }
}

impl<S: Clone, St> Clone for RateLimit<S, St> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            config: self.config.clone(),
            store: Arc::clone(&self.store),
        }
    }
}

impl<S: fmt::Debug, St: fmt::Debug> fmt::Debug for RateLimit<S, St> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("store", &self.store)
            .field("enabled", &self.config.is_some())
            .finish_non_exhaustive()
    }
}
