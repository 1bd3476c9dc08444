//! Bodies for plain HTTP.

use std::fmt::{self, Write as _};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Response};

use crate::policy::{Reason, Rejection};

use super::responder::Responder;

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
        let detail = rejection.to_string();
        let mut body = String::with_capacity(256 + detail.len());
        let _ = write!(
            body,
            r#"{{"type":"{kind}","title":"{title}","status":{},"detail":{}"#,
            status.as_u16(),
            Json(&detail)
        );
        for (nth, violation) in rejection.violations().iter().enumerate() {
            let opening = if nth == 0 { r#","violated-policies":["# } else { "," };
            let _ = write!(body, "{opening}{}", Json(violation.label()));
        }
        if !rejection.violations().is_empty() {
            body.push(']');
        }
        if let Some(wait) = rejection.wait() {
            let _ = write!(body, r#","wait_ms":{}"#, wait.as_millis());
        }
        body.push('}');
        response(rejection, "application/problem+json", body)
    }
}

/// Answers with the rejection's sentence as plain text.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainText;

impl Responder for PlainText {
    fn respond(&self, rejection: &Rejection, _: &Parts) -> Response<Bytes> {
        response(rejection, "text/plain; charset=utf-8", rejection.to_string())
    }
}

/// Answers with `{"code":429,"message":"…","data":null}`, as gateways that wrap every answer do.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonEnvelope;

impl Responder for JsonEnvelope {
    fn respond(&self, rejection: &Rejection, _: &Parts) -> Response<Bytes> {
        let body = format!(
            r#"{{"code":{},"message":{},"data":null}}"#,
            rejection.status().as_u16(),
            Json(&rejection.to_string())
        );
        response(rejection, "application/json", body)
    }
}

fn response(rejection: &Rejection, content_type: &'static str, body: String) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = rejection.status();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A string, as JSON writes it.
struct Json<'a>(&'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                control if control.is_control() => write!(f, "\\u{:04x}", u32::from(control))?,
                letter => f.write_char(letter)?,
            }
        }
        f.write_char('"')
    }
}
