//! Route patterns of our own, for those without a router that has some.

use std::fmt;

/// A pattern for paths, as axum writes them: `/users/{id}` for any one segment, `/files/{*rest}` for all the rest.
///
/// Paths are compared as they are, letter by letter: `/users` is not `/users/`, nor `/Users`, nor `/%75sers`.
///
/// A layer inside of a router that axum has nested sees paths without the prefix of the nest: write them so, or put
/// the layer outside.
///
/// ```
/// use tower_throttle::key::PathPattern;
///
/// let user = PathPattern::new("/users/{id}");
/// assert!(user.matches("/users/42"));
/// assert!(!user.matches("/users/"));
/// assert!(!user.matches("/users/42/posts"));
///
/// let api = PathPattern::new("/api/{*rest}");
/// assert!(api.matches("/api/users/42"));
/// ```
#[derive(Clone, Debug)]
pub struct PathPattern {
    pattern: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(String),
    Any,
    Rest,
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Panics
    ///
    /// If it does not begin with `/`, if a brace stands inside a segment, or if something follows `{*rest}`.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        match Self::try_new(pattern) {
            Ok(pattern) => pattern,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads a pattern known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`new`](Self::new) panics.
    pub fn try_new(pattern: &str) -> Result<Self, InvalidPattern> {
        let invalid = || InvalidPattern {
            pattern: pattern.to_owned(),
        };
        let path = pattern.strip_prefix('/').ok_or_else(invalid)?;
        let segments = path
            .split('/')
            .map(|segment| Segment::parse(segment).ok_or_else(invalid))
            .collect::<Result<Vec<_>, _>>()?;
        let rest = segments.iter().position(|segment| matches!(segment, Segment::Rest));
        if rest.is_some_and(|nth| nth + 1 != segments.len()) {
            return Err(invalid());
        }
        Ok(Self {
            pattern: pattern.to_owned(),
            segments,
        })
    }

    /// Whether it fits `path`.
    #[must_use]
    pub fn matches(&self, path: &str) -> bool {
        let Some(mut path) = path.strip_prefix('/') else {
            return false;
        };
        let mut segments = self.segments.iter().peekable();
        while let Some(segment) = segments.next() {
            if matches!(segment, Segment::Rest) {
                return !path.is_empty();
            }
            let (found, rest) = match path.split_once('/') {
                Some((found, rest)) => (found, Some(rest)),
                None => (path, None),
            };
            let fits = match segment {
                Segment::Literal(literal) => literal == found,
                Segment::Any | Segment::Rest => !found.is_empty(),
            };
            if !fits || rest.is_some() != segments.peek().is_some() {
                return false;
            }
            path = rest.unwrap_or_default();
        }
        true
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.pattern
    }
}

impl Segment {
    fn parse(segment: &str) -> Option<Self> {
        let Some(name) = segment.strip_prefix('{').and_then(|name| name.strip_suffix('}')) else {
            return (!segment.contains(['{', '}'])).then(|| Self::Literal(segment.to_owned()));
        };
        let (kind, name) = match name.strip_prefix('*') {
            Some(name) => (Self::Rest, name),
            None => (Self::Any, name),
        };
        (!name.is_empty() && !name.contains(['{', '}', '*'])).then_some(kind)
    }
}

/// Not a pattern for paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPattern {
    pattern: String,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a path pattern; begin with '/', write '{{name}}' for one whole segment and '{{*rest}}' for all \
             at the end, such as \"/users/{{id}}\"",
            self.pattern
        )
    }
}

impl std::error::Error for InvalidPattern {}
