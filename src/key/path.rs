//! The path, raw or by patterns.

use http::request::Parts;

use super::{Drawn, InvalidPattern, KeyBuf, KeyExtractor, PathPattern, method};

/// Counts by the raw path, without the query.
///
/// A client can invent as many paths as it likes, each with an account of its own. Where the paths are known, use
/// [`Routes`] or axum's templates.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path;

impl KeyExtractor for Path {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        key.push_text(parts.uri.path().as_bytes());
        Drawn::Key
    }
}

/// Counts by method and the first pattern that fits the path; requests that fit none share one account.
///
/// ```
/// use tower_throttle::Routes;
///
/// let routes = Routes::new(["/hello", "/users/{id}", "/files/{*path}"]);
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    patterns: Vec<PathPattern>,
}

impl Routes {
    /// By these patterns; see [`PathPattern`].
    ///
    /// # Panics
    ///
    /// If one of them is not a pattern.
    #[must_use]
    pub fn new(patterns: impl IntoIterator<Item: AsRef<str>>) -> Self {
        match Self::try_new(patterns) {
            Ok(routes) => routes,
            Err(error) => panic!("{error}"),
        }
    }

    /// By patterns known only at run time.
    ///
    /// # Errors
    ///
    /// If one of them is not a pattern.
    pub fn try_new(patterns: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, InvalidPattern> {
        let patterns = patterns
            .into_iter()
            .map(|pattern| PathPattern::try_new(pattern.as_ref()))
            .collect::<Result<_, _>>()?;
        Ok(Self { patterns })
    }
}

impl KeyExtractor for Routes {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        let path = parts.uri.path();
        if let Some(nth) = self.patterns.iter().position(|pattern| pattern.matches(path)) {
            key.push_text(method::name(&parts.method).as_bytes());
            key.push_text(self.patterns[nth].as_str().as_bytes());
        }
        Drawn::Key
    }
}
