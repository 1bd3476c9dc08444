//! How a key is drawn.

use http::request::Parts;

use super::{IgnoreCase, IntoKey, KeyBuf, Or};

/// Draws a key from a request.
///
/// Closures that return anything that is [`IntoKey`] are extractors:
///
/// ```
/// use http::request::Parts;
/// use tower_throttle::{Quota, Tier};
///
/// let by_tenant = |parts: &Parts| {
///     let host = parts.headers.get("host")?.to_str().ok()?;
///     Some(host.split('.').next()?.to_owned())
/// };
/// let tier = Tier::new("tenant", by_tenant, Quota::per_second(50));
/// ```
///
/// The request's body is not there to be read: it has not arrived yet.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not draw keys from requests",
    label = "not a key extractor",
    note = "use an extractor such as `Global`, `Header::new(\"x-user-id\")` or `PeerIp::new()`, a tuple of them, or a closure `|parts: &http::request::Parts| -> Option<String>`"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Pushes the parts of the key. What is pushed before answering anything but [`Drawn::Key`] or
    /// [`Drawn::Partial`] is dropped.
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn;

    /// Where this finds no key, or not all of one, tries `other`. The two never give the same key.
    fn or<E: KeyExtractor>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or::new(self, other)
    }

    /// Lets ASCII letters of either case count alike.
    fn ignore_case(self) -> IgnoreCase<Self>
    where
        Self: Sized,
    {
        IgnoreCase::new(self)
    }
}

/// What an extractor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Drawn {
    /// A key: what was pushed, if anything.
    Key,
    /// A key of which some part was missing, and marked as such.
    Partial,
    /// This request is not to be counted.
    Exempt,
    /// No key.
    Missing,
}

impl<F, K> KeyExtractor for F
where
    F: Fn(&Parts) -> K + Send + Sync + 'static,
    K: IntoKey,
{
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        self(parts).into_key(key)
    }
}

/// For extractors that are chosen at run time.
impl KeyExtractor for Box<dyn KeyExtractor> {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        (**self).draw(parts, key)
    }
}

/// Draws keys by a function that pushes their parts: for those who want to borrow from the request, or to exempt it.
///
/// ```
/// use http::request::Parts;
/// use tower_throttle::key::{Drawn, KeyBuf, from_fn};
///
/// let by_first_segment = from_fn(|parts: &Parts, key: &mut KeyBuf| {
///     match parts.uri.path().split('/').nth(1) {
///         Some("internal") => Drawn::Exempt,
///         Some(segment) => {
///             key.push_text(segment.as_bytes());
///             Drawn::Key
///         }
///         None => Drawn::Missing,
///     }
/// });
/// ```
pub fn from_fn<F>(draw: F) -> FromFn<F>
where
    F: Fn(&Parts, &mut KeyBuf) -> Drawn + Send + Sync + 'static,
{
    FromFn { draw }
}

/// Draws keys by a function; see [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFn<F> {
    draw: F,
}

impl<F> KeyExtractor for FromFn<F>
where
    F: Fn(&Parts, &mut KeyBuf) -> Drawn + Send + Sync + 'static,
{
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        (self.draw)(parts, key)
    }
}

impl<F> std::fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}
