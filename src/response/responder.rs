//! A refusal becomes a response.

use bytes::Bytes;
use http::Response;
use http::request::Parts;

use crate::policy::Rejection;

/// Turns a [`Rejection`] into a response, for requests that are not gRPC.
///
/// Status, headers and body are the responder's; the layer adds `Retry-After`, the rate-limit headers,
/// `Cache-Control: no-store` unless there is a `Cache-Control`, and the rejection itself to the extensions.
///
/// [`ProblemJson`](super::ProblemJson), [`PlainText`](super::PlainText), [`JsonEnvelope`](super::JsonEnvelope), or a closure:
///
/// ```
/// use http::{Response, request::Parts};
/// use tower_throttle::{Global, Quota, RateLimitLayer, Rejection, Tier};
///
/// let layer = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))])
///     .responder(|rejection: &Rejection, parts: &Parts| {
///         Response::builder()
///             .status(rejection.status())
///             .header("content-type", "text/html")
///             .body(format!("<p>Too fast for {}.</p>", rejection.tier()))
///             .unwrap_or_default()
///     });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not answer refused requests",
    note = "use `ProblemJson`, `PlainText`, `JsonEnvelope`, or a closure `|rejection: &Rejection, parts: &http::request::Parts| -> http::Response<String>`"
)]
pub trait Responder: Send + Sync + 'static {
    /// The response to the refused request of which `parts` is the head.
    fn respond(&self, rejection: &Rejection, parts: &Parts) -> Response<Bytes>;
}

impl<F, B> Responder for F
where
    F: Fn(&Rejection, &Parts) -> Response<B> + Send + Sync + 'static,
    B: Into<Bytes>,
{
    fn respond(&self, rejection: &Rejection, parts: &Parts) -> Response<Bytes> {
        self(rejection, parts).map(Into::into)
    }
}
