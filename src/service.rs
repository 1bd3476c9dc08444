//! The request comes in.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use crate::body::ResponseBody;
use crate::future::{Checking, ResponseFuture};
use crate::layer::Config;
use crate::policy::Drawing;
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
        if config.is_exempt(&parts) {
            return ResponseFuture::calling(self.inner.call(Request::from_parts(parts, body)), None);
        }
        let mut drawing = Drawing::default();
        if let Err(refused) = drawing.draw(&config.policy, &parts, config.hasher()) {
            let refusal = config.refuse_without_key(refused.tier, &parts);
            self.give_up_reservation();
            return ResponseFuture::refused(refusal);
        }
        if drawing.lines().is_empty() {
            return ResponseFuture::calling(self.inner.call(Request::from_parts(parts, body)), None);
        }
        match drawing.ask(&config.policy, |charges| self.store.charge(charges)) {
            // Left where it is: to move it would take longer than to make it.
            Asked::Now(ref mut outcome) => match config.judge(drawing.lines(), outcome, &mut parts) {
                Ok(standings) => {
                    let response = self.inner.call(Request::from_parts(parts, body));
                    ResponseFuture::calling(response, config.answers.stamp(standings))
                }
                Err(refusal) => {
                    self.give_up_reservation();
                    ResponseFuture::refused(refusal)
                }
            },
            Asked::Later(outcome) => {
                let config = Arc::clone(config);
                let clone = self.inner.clone();
                let ready = std::mem::replace(&mut self.inner, clone);
                let checking = Checking::new(config, drawing.lines().clone(), ready, parts, body);
                ResponseFuture::checking(outcome, checking)
            }
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
