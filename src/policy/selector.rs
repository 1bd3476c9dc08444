//! Which requests something is for.

use std::fmt;

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;
use http::{HeaderName, Method};

use crate::key::PathPattern;

/// Chooses requests, by their head.
///
/// A [`Method`], an array of them, a [`PathPattern`], [`HeaderIs`], or a closure:
///
/// ```
/// use http::{Method, request::Parts};
/// use tower_throttle::{Global, Quota, Tier};
///
/// let writes = Tier::new("writes", Global, Quota::per_second(100))
///     .only([Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
///     .only(|parts: &Parts| !parts.uri.path().starts_with("/internal/"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not choose requests",
    note = "use a `Method`, a `PathPattern::new(\"/users/{{id}}\")`, or a closure `|parts: &http::request::Parts| -> bool`"
)]
pub trait Selector: Send + Sync + 'static {
    /// Whether the request is chosen.
    fn selects(&self, parts: &Parts) -> bool;
}

impl<F> Selector for F
where
    F: Fn(&Parts) -> bool + Send + Sync + 'static,
{
    fn selects(&self, parts: &Parts) -> bool {
        self(parts)
    }
}

/// `GET` selects `HEAD` too: servers run the same handler for it, and leave out the body.
impl Selector for Method {
    fn selects(&self, parts: &Parts) -> bool {
        parts.method == *self || (parts.method == Self::HEAD && *self == Self::GET)
    }
}

/// Any of them.
impl<const N: usize> Selector for [Method; N] {
    fn selects(&self, parts: &Parts) -> bool {
        self.iter().any(|method| method.selects(parts))
    }
}

impl Selector for PathPattern {
    fn selects(&self, parts: &Parts) -> bool {
        self.matches(parts.uri.path())
    }
}

/// Chooses requests of which some line of a header has exactly this value.
#[derive(Clone)]
pub struct HeaderIs {
    name: HeaderName,
    value: String,
}

impl HeaderIs {
    /// The header and its value.
    pub fn new(name: HeaderName, value: impl Into<String>) -> Self {
        Self {
            name,
            value: value.into(),
        }
    }
}

impl Selector for HeaderIs {
    fn selects(&self, parts: &Parts) -> bool {
        let mut lines = parts.headers.get_all(&self.name).iter();
        lines.any(|line| line.as_bytes() == self.value.as_bytes())
    }
}

/// Without the value, which may be a secret that exempts.
impl fmt::Debug for HeaderIs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderIs")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Chooses CORS preflights, to exempt them: a browser sends them by itself and can neither avoid nor slow them.
///
/// ```
/// use tower_throttle::{Global, Quota, RateLimitLayer, Tier};
/// use tower_throttle::{key::PathPattern, policy::preflight};
///
/// let layer = RateLimitLayer::new([Tier::new("global", Global, Quota::per_second(100))])
///     .exempt(preflight)
///     .exempt(PathPattern::new("/health"));
/// ```
///
/// If the CORS middleware stands outside of the limiter, where it should, it answers them before they get here.
#[must_use]
pub fn preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}
