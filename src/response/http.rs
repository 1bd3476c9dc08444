//! Bodies for plain HTTP.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::policy::{Reason, Rejection};

use super::responder::Responder;
use super::text::Text;

/// Answers with problem details (RFC 9457), the default:
///
/// ```json
/// {
///   "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
///   "title": "Quota Exceeded",
///   "status": 429,
///   "detail": "tier \"user\" allows 5 per 10s; try again in 2734 ms",
///   "violated-policies": ["user"],
///   "wait_ms": 2734
/// }
/// ```
///
/// The types are those of the rate-limit headers draft: `quota-exceeded`, or `temporary-reduced-capacity` with 503 if
/// the store failed; `about:blank` for what it has no type for.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProblemJson;

impl Responder for ProblemJson {
    fn respond(&self, rejection: &Rejection, _: &Parts) -> Response<Bytes> {
        let mut body = Body::new();
        Self::push(rejection, &mut body);
        Self::response(rejection, body.to_bytes())
    }
}

impl ProblemJson {
    pub(super) fn response(rejection: &Rejection, body: Bytes) -> Response<Bytes> {
        response(rejection, "application/problem+json", body)
    }

    pub(super) fn push(rejection: &Rejection, body: &mut Body) {
        let status = rejection.status();
        let (kind, title) = match rejection.reason() {
            Reason::QuotaExceeded => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Quota Exceeded",
            ),
            Reason::StoreUnavailable => (
                "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                "Temporary Reduced Capacity",
            ),
            Reason::CostTooHigh | Reason::MissingKey => ("about:blank", status.canonical_reason().unwrap_or_default()),
        };
        body.push(r#"{"type":""#);
        body.push(kind);
        body.push(r#"","title":""#);
        body.push(title);
        body.push(r#"","status":"#);
        body.push(status.as_str());
        body.push(r#","detail":"#);
        let wait_ms = push_sentence(rejection, body);
        for (nth, violation) in rejection.violations().iter().enumerate() {
            body.push(if nth == 0 { r#","violated-policies":["# } else { "," });
            body.push(violation.quoted_label());
        }
        if !rejection.violations().is_empty() {
            body.push("]");
        }
        if let Some(wait) = rejection.wait() {
            body.push(r#","wait_ms":"#);
            match wait_ms {
                Some(digits) => body.push_again(digits),
                None => body.push_number(millis(wait)),
            }
        }
        body.push("}");
    }
}

/// Answers with the rejection's sentence as plain text.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl Responder for PlainText {
    fn respond(&self, rejection: &Rejection, _: &Parts) -> Response<Bytes> {
        response(rejection, "text/plain; charset=utf-8", sentence(rejection).to_bytes())
    }
}

/// Answers with `{"code":429,"message":"…","data":null}`, as gateways that wrap every answer do.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonEnvelope;

impl Responder for JsonEnvelope {
    fn respond(&self, rejection: &Rejection, _: &Parts) -> Response<Bytes> {
        let mut body = Body::new();
        body.push(r#"{"code":"#);
        body.push(rejection.status().as_str());
        body.push(r#","message":"#);
        push_sentence(rejection, &mut body);
        body.push(r#","data":null}"#);
        response(rejection, "application/json", body.to_bytes())
    }
}

/// A body that fits here takes one allocation.
pub(super) type Body = Text<320>;

/// As a string of JSON. The usual one, which a flood of refusals asks for, is not written out anew each time; then also tells
/// where in it the wait is, in milliseconds.
fn push_sentence(rejection: &Rejection, body: &mut Body) -> Option<Range<usize>> {
    let (Some(rule), Some(wait)) = (rejection.rule_in_json(), rejection.wait()) else {
        body.push_json(sentence(rejection).as_bytes());
        return None;
    };
    body.push("\"");
    body.push(rule);
    body.push("; try again in ");
    let start = body.len();
    body.push_number(millis(wait));
    let digits = start..body.len();
    body.push(" ms\"");
    Some(digits)
}

const fn millis(wait: Duration) -> u64 {
    wait.as_millis() as u64
}

fn sentence(rejection: &Rejection) -> Body {
    let mut sentence = Body::new();
    let _ = write!(sentence, "{rejection}");
    sentence
}

fn response(rejection: &Rejection, content_type: &'static str, body: Bytes) -> Response<Bytes> {
    let mut response = Response::new(body);
    *response.status_mut() = rejection.status();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
