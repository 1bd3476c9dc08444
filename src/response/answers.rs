//! Everything a response is given by the layer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::policy::{Policy, Rejection, Standings};

use super::grpc::Grpc;
use super::headers::{Headers, Labels, Stamp};
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

    /// Answers the request of which `parts` is the head; `standings` are there if the store was asked.
    pub(crate) fn refuse(
        &self,
        rejection: Rejection,
        standings: Option<Standings<'_>>,
        parts: &Parts,
    ) -> Response<Bytes> {
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
            headers.insert(RETRY_AFTER, seconds(wait));
            self.headers.tell_wait(wait, headers);
        }
        if let Some(standings) = standings {
            self.headers.tell_refusal(standings, &self.labels, headers);
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

/// Whole seconds, rounded up; of up to an hour without an allocation.
fn seconds(wait: Duration) -> HeaderValue {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let known = usize::try_from(seconds).ok().and_then(|seconds| SECONDS.get(seconds));
    let text = known.map(|digits| {
        let zeros = digits.iter().take(3).take_while(|digit| **digit == b'0').count();
        &digits[zeros..]
    });
    text.and_then(|text| HeaderValue::from_maybe_shared(Bytes::from_static(text)).ok())
        .unwrap_or_else(|| HeaderValue::from(seconds))
}

/// Four digits each.
static SECONDS: [[u8; 4]; 3_601] = {
    let mut seconds = [[b'0'; 4]; 3_601];
    let mut number = 0;
    while number < seconds.len() {
        let mut rest = number;
        let mut place = 4;
        while place > 0 {
            place -= 1;
            seconds[number][place] += (rest % 10) as u8;
            rest /= 10;
        }
        number += 1;
    }
    seconds
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_out() {
        for number in [
            0,
            1,
            9,
            10,
            99,
            100,
            999,
            1_000,
            3_599,
            3_600,
            3_601,
            10_000,
            u64::MAX / 2,
        ] {
            assert_eq!(seconds(Duration::from_secs(number)), number.to_string());
        }
        assert_eq!(seconds(Duration::from_millis(1_001)), "2");
    }
}
