//! Refusals for gRPC and gRPC-Web: a status in one header block, with no body.
//!
//! HTTP 429 would not do: clients take it for `UNAVAILABLE`, which most of them retry at once.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use crate::policy::{Reason, Rejection};

use super::details;

/// Which gRPC a request speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grpc {
    Plain,
    Web,
    WebText,
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const GRPC_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
const GRPC_PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

impl Grpc {
    /// By the request's content type, if it is one of gRPC's.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let content_type = headers.get(CONTENT_TYPE)?.as_bytes();
        let essence = content_type.split(|byte| *byte == b';').next()?.trim_ascii();
        let essence = essence.to_ascii_lowercase();
        let rest = essence.strip_prefix(b"application/grpc")?;
        // With a format behind it, `+proto` say, or nothing.
        let ends = |rest: &[u8]| matches!(rest.first(), None | Some(b'+'));
        match rest {
            rest if ends(rest) => Some(Self::Plain),
            _ => match rest.strip_prefix(b"-web")? {
                rest if ends(rest) => Some(Self::Web),
                rest => rest
                    .strip_prefix(b"-text")
                    .filter(|rest| ends(rest))
                    .map(|_| Self::WebText),
            },
        }
    }

    const fn content_type(self) -> &'static str {
        match self {
            Self::Plain => "application/grpc",
            Self::Web => "application/grpc-web",
            Self::WebText => "application/grpc-web-text",
        }
    }

    pub(super) fn refuse(self, rejection: &Rejection) -> Response<Bytes> {
        let code = code(rejection.reason());
        let message = rejection.to_string();
        let mut response = Response::default();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type()));
        headers.insert(GRPC_STATUS, HeaderValue::from(code));
        // Inserted, never appended: two pushbacks mean "do not retry".
        headers.insert(GRPC_PUSHBACK, HeaderValue::from(pushback(rejection)));
        for (name, value) in [
            (GRPC_MESSAGE, percent_encoded(&message)),
            (GRPC_DETAILS, details::status(code, &message, rejection)),
        ] {
            // Both are made of printable ASCII only; if they were not, the status alone would do.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

const fn code(reason: Reason) -> u16 {
    match reason {
        Reason::MissingKey => 3,
        Reason::QuotaExceeded => 8,
        Reason::CostTooHigh => 9,
        Reason::StoreUnavailable => 14,
    }
}

/// Milliseconds; −1, "do not retry", where waiting does not help, or is longer (24 days) than the field can say: a
/// shorter number would be a lie.
fn pushback(rejection: &Rejection) -> i32 {
    rejection
        .wait()
        .and_then(|wait| i32::try_from(wait.as_millis()).ok())
        .unwrap_or(-1)
}

fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn content_types() {
        for (content_type, expected) in [
            ("application/grpc", Some(Grpc::Plain)),
            ("application/grpc+proto", Some(Grpc::Plain)),
            ("Application/gRPC; charset=utf-8", Some(Grpc::Plain)),
            ("application/grpc-web", Some(Grpc::Web)),
            ("application/grpc-web+proto", Some(Grpc::Web)),
            ("application/grpc-web-text", Some(Grpc::WebText)),
            ("application/grpc-web-text+proto;x=y", Some(Grpc::WebText)),
            ("application/grpcx", None),
            ("application/grpc-website", None),
            ("application/json", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            assert_eq!(Grpc::of(&headers), expected, "{content_type}");
        }
        assert_eq!(Grpc::of(&HeaderMap::new()), None);
    }

    proptest! {
        #[test]
        fn no_content_type_makes_it_panic(bytes in prop::collection::vec(prop::sample::select(&b"aplictongrw-+;/ =ebx\t\xff"[..]), 0..60)) {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_bytes(&bytes).unwrap());
            let _ = Grpc::of(&headers);
        }
    }

    #[test]
    fn messages_are_percent_encoded() {
        assert_eq!(percent_encoded("100 % ä\n"), "100 %25 %C3%A4%0A");
    }
}
