//! A header's value.

use std::fmt;

use http::HeaderName;
use http::request::Parts;

use super::{Drawn, KeyBuf, KeyExtractor};

/// Counts by a header's value, such as a user's id or an API key.
///
/// If there are several lines of it the first counts, which is the one that `HeaderMap::get` gives a handler. An
/// empty value is a missing key.
///
/// A client can send whatever it likes: count by a header only if something in front of the limiter has checked it,
/// or if a client gains nothing by changing it. For a user that a middleware has authenticated, use
/// [`Extension`](super::Extension).
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Header {
    /// The header `name`, in any case of its letters.
    ///
    /// # Panics
    ///
    /// If `name` is not a header name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        match Self::try_new(name) {
            Ok(header) => header,
            Err(error) => panic!("{error}"),
        }
    }

    /// The header `name`, for a name known only at run time.
    ///
    /// # Errors
    ///
    /// If `name` is not a header name.
    pub fn try_new(name: &str) -> Result<Self, InvalidHeaderName> {
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Ok(Self { name }),
            Err(_) => Err(InvalidHeaderName { name: name.to_owned() }),
        }
    }
}

impl KeyExtractor for Header {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        match parts.headers.get(&self.name) {
            Some(value) if !value.is_empty() => {
                key.push_text(value.as_bytes());
                Drawn::Key
            }
            _ => Drawn::Missing,
        }
    }
}

/// Not the name of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidHeaderName {
    name: String,
}

impl fmt::Display for InvalidHeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a header name; write letters, digits and hyphens, such as \"x-user-id\"",
            self.name
        )
    }
}

impl std::error::Error for InvalidHeaderName {}
