//! Checking, then calling; or a refusal.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::layer::Config;
use crate::policy::{Line, Lines, Rejection, Standings, Verdict};
use crate::response::Stamp;
use crate::store::{MemoryStore, Outcome, Store};

pin_project! {
    /// The response: the inner service's, or a refusal.
    pub struct ResponseFuture<S, ReqBody, St = MemoryStore>
    where
        S: Service<Request<ReqBody>>,
        St: Store,
    {
        #[pin]
        state: State<S, ReqBody, St::Future>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, ReqBody, F>
    where
        S: Service<Request<ReqBody>>,
    {
        /// The store is thinking; the request and the ready service wait.
        Checking {
            #[pin]
            outcome: F,
            // Boxed, as it would make the future of every store as large.
            checking: Option<Box<Checking<S, ReqBody>>>,
        },
        /// The inner service is at work.
        Calling {
            #[pin]
            response: S::Future,
            stamp: Option<Stamp>,
        },
        Refused {
            response: Option<Response<Bytes>>,
        },
    }
}

/// What is needed once the store has answered.
pub(crate) struct Checking<S, ReqBody> {
    config: Arc<Config>,
    lines: Lines,
    /// Ready, and so dropped on a refusal: that frees what it reserved.
    service: S,
    parts: Parts,
    body: ReqBody,
}

impl<S, ReqBody, St> ResponseFuture<S, ReqBody, St>
where
    S: Service<Request<ReqBody>>,
    St: Store,
{
    pub(crate) fn checking(outcome: St::Future, checking: Checking<S, ReqBody>) -> Self {
        Self {
            state: State::Checking {
                outcome,
                checking: Some(Box::new(checking)),
            },
        }
    }

    pub(crate) const fn calling(response: S::Future, stamp: Option<Stamp>) -> Self {
        Self {
            state: State::Calling { response, stamp },
        }
    }

    pub(crate) const fn refused(response: Response<Bytes>) -> Self {
        Self {
            state: State::Refused {
                response: Some(response),
            },
        }
    }
}

impl<S, ReqBody> Checking<S, ReqBody> {
    pub(crate) const fn new(config: Arc<Config>, lines: Lines, service: S, parts: Parts, body: ReqBody) -> Self {
        Self {
            config,
            lines,
            service,
            parts,
            body,
        }
    }
}

impl Config {
    /// Admits a request, and tells how it stands, or refuses it.
    #[allow(
        clippy::result_large_err,
        reason = "a refusal is as usual as an admission, and a box would cost it"
    )]
    #[inline(always)]
    pub(crate) fn judge<'a>(
        &'a self,
        lines: &'a [Line],
        outcome: &'a mut Outcome,
        parts: &mut Parts,
    ) -> Result<Standings<'a>, Response<Bytes>> {
        outcome.complete(lines.len());
        let standings = Standings::new(&self.policy, lines, outcome);
        if !outcome.is_charged()
            && let Some(rejection) = Rejection::of(standings, &self.dice)
        {
            if self.hook.is_some() {
                let verdict = Verdict::new(&self.policy, standings);
                self.tell(Some(&verdict), Some(&rejection));
            }
            return Err(self.answers.refuse(rejection, Some(standings), parts));
        }
        if self.hook.is_some() || self.share_verdict {
            self.share(standings, parts);
        }
        Ok(standings)
    }

    #[cold]
    fn share(&self, standings: Standings<'_>, parts: &mut Parts) {
        let verdict = Verdict::new(&self.policy, standings);
        self.tell(Some(&verdict), None);
        if self.share_verdict {
            let outer = parts.extensions.remove::<Verdict>();
            parts.extensions.insert(verdict.shared(outer));
        }
    }

    /// Refuses a request that lacks a key which the tier insists on.
    pub(crate) fn refuse_without_key(&self, tier: usize, parts: &Parts) -> Response<Bytes> {
        let rejection = Rejection::for_missing_key(&self.policy, tier);
        self.tell(None, Some(&rejection));
        self.answers.refuse(rejection, None, parts)
    }
}

impl<S, ReqBody, ResBody, St> Future for ResponseFuture<S, ReqBody, St>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>>,
    St: Store,
{
    type Output = Result<Response<ResponseBody<ResBody>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Checking { outcome, checking } => {
                    let mut outcome = ready!(outcome.poll(cx));
                    let mut checking = *checking.take().expect("polled after it was ready");
                    let config = checking.config;
                    match config.judge(&checking.lines, &mut outcome, &mut checking.parts) {
                        Ok(standings) => {
                            let request = Request::from_parts(checking.parts, checking.body);
                            State::Calling {
                                response: checking.service.call(request),
                                stamp: config.answers.stamp(standings),
                            }
                        }
                        Err(response) => State::Refused {
                            response: Some(response),
                        },
                    }
                }
                StateProjection::Calling { response, stamp } => {
                    let mut response = ready!(response.poll(cx))?.map(ResponseBody::inner);
                    if let Some(stamp) = stamp {
                        stamp.put_on(&mut response);
                    }
                    return Poll::Ready(Ok(response));
                }
                StateProjection::Refused { response } => {
                    let response = response.take().expect("polled after it was ready");
                    return Poll::Ready(Ok(response.map(ResponseBody::refusal)));
                }
            };
            state.set(next);
        }
    }
}

impl<S, ReqBody, St> fmt::Debug for ResponseFuture<S, ReqBody, St>
where
    S: Service<Request<ReqBody>>,
    St: Store,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Checking { .. } => "Checking",
            State::Calling { .. } => "Calling",
            State::Refused { .. } => "Refused",
        };
        f.debug_tuple("ResponseFuture").field(&state).finish()
    }
}
