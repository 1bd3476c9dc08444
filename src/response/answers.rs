//! Everything a response is given by the layer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::policy::{Policy, Rejection, Standings};

use super::grpc::Grpc;
use super::headers::{Headers, Labels, Stamp, without_comma};
use super::http::{Body, ProblemJson};
use super::responder::Responder;

/// Answers refused requests, and stamps the responses to admitted ones.
#[derive(Clone)]
pub(crate) struct Answers {
    /// None for [`ProblemJson`].
    responder: Option<Arc<dyn Responder>>,
    headers: Headers,
    labels: Arc<Labels>,
}

impl Answers {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            responder: None,
            headers: Headers::default(),
            labels: Arc::new(Labels::new(policy)),
        }
    }

    pub(crate) fn set_headers(&mut self, headers: Headers) {
        self.headers = headers;
    }

    pub(crate) fn set_responder(&mut self, responder: impl Responder) {
        self.responder = Some(Arc::new(responder));
    }

    /// Answers the request of which `parts` is the head; `standings` are there if the store was asked.
    pub(crate) fn refuse(
        &self,
        rejection: Rejection,
        standings: Option<Standings<'_>>,
        parts: &Parts,
    ) -> Response<Bytes> {
        // Only the form of the answer depends on what the client says it speaks, never whom it is charged to.
        let grpc = Grpc::of(&parts.headers);
        let texts = Texts::new(self, &rejection, standings, grpc.is_none());
        let mut response = match (grpc, &self.responder) {
            (Some(grpc), _) => grpc.refuse(&rejection),
            (None, Some(responder)) => responder.respond(&rejection, parts),
            (None, None) => ProblemJson::response(&rejection, texts.body),
        };
        let headers = response.headers_mut();
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        if let Some(wait) = rejection.wait() {
            // Digits, and so always a value.
            if let Some(retry_after) = texts.retry_after {
                headers.insert(RETRY_AFTER, retry_after);
            }
            self.headers.tell_wait(wait, headers);
        }
        if let Some(standings) = standings {
            self.headers
                .tell_refusal(standings, texts.violations, &self.labels, headers);
        }
        response.extensions_mut().insert(rejection);
        response
    }

    /// What the response to an admitted request will be given.
    #[inline]
    pub(crate) fn stamp(&self, standings: Standings<'_>) -> Option<Stamp> {
        self.headers.tell_standings(standings, &self.labels)
    }
}

/// What is written for one refusal, in one allocation: it is most of what a flood of refusals costs.
struct Texts {
    /// Empty unless it is the usual one.
    body: Bytes,
    /// `RateLimit`.
    violations: Option<HeaderValue>,
    retry_after: Option<HeaderValue>,
}

impl Texts {
    fn new(answers: &Answers, rejection: &Rejection, standings: Option<Standings<'_>>, is_http: bool) -> Self {
        let mut text = Body::new();
        if is_http && answers.responder.is_none() {
            ProblemJson::push(rejection, &mut text);
        }
        let body = text.len();
        if let Some(standings) = standings {
            answers.headers.push_violations(standings, &answers.labels, &mut text);
        }
        let fields = text.len();
        if let Some(wait) = rejection.wait() {
            text.push_number(seconds(wait));
        }
        let text = text.into_shared();
        let field = |bytes: &[u8]| HeaderValue::from_maybe_shared(text.slice_ref(bytes)).ok();
        Self {
            body: text.slice(..body),
            violations: without_comma(&text[body..fields]).and_then(field),
            retry_after: field(&text[fields..]),
        }
    }
}

/// Whole seconds, rounded up.
const fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + (wait.subsec_nanos() > 0) as u64
}
