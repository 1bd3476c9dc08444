//! Everything a response is given by the layer.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::policy::{Policy, Rejection, Verdict};

use super::grpc::Grpc;
use super::headers::{Headers, Labels};
use super::http::ProblemJson;
use super::responder::Responder;

/// Answers refused requests, and stamps the responses to admitted ones.
#[derive(Clone)]
pub(crate) struct Answers {
    responder: Arc<dyn Responder>,
    headers: Headers,
    labels: Arc<Labels>,
}

impl Answers {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            responder: Arc::new(ProblemJson),
            headers: Headers::default(),
            labels: Arc::new(Labels::new(policy)),
        }
    }

    pub(crate) fn set_headers(&mut self, headers: Headers) {
        self.headers = headers;
    }

    pub(crate) fn set_responder(&mut self, responder: impl Responder) {
        self.responder = Arc::new(responder);
    }

    /// Answers the request of which `parts` is the head; `verdict` is there if the store was asked.
    pub(crate) fn refuse(&self, rejection: Rejection, verdict: Option<&Verdict>, parts: &Parts) -> Response<Bytes> {
        // Only the form of the answer depends on what the client says it speaks, never whom it is charged to.
        let mut response = match Grpc::of(&parts.headers) {
            Some(grpc) => grpc.refuse(&rejection),
            None => self.responder.respond(&rejection, parts),
        };
        let headers = response.headers_mut();
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        if let Some(wait) = rejection.wait() {
            let seconds = wait.as_millis().div_ceil(1_000) as u64;
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
            self.headers.tell_wait(wait, headers);
        }
        if let Some(verdict) = verdict {
            self.headers.tell_refusal(verdict, &self.labels, headers);
        }
        response.extensions_mut().insert(rejection);
        response
    }

    /// Whether responses to admitted requests are stamped at all.
    pub(crate) const fn stamps(&self) -> bool {
        self.headers.tell_anything()
    }

    pub(crate) fn stamp<B>(&self, verdict: &Verdict, response: &mut Response<B>) {
        // A layer further in has refused it, and said all there is to say.
        if response.extensions().get::<Rejection>().is_none() {
            self.headers
                .tell_standings(verdict, &self.labels, response.headers_mut());
        }
    }
}
