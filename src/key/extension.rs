//! What an earlier middleware found out.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use super::{Drawn, IntoKey, KeyBuf, KeyExtractor};

/// Counts by a value of the request's extensions: by what an authenticating middleware put there, say.
///
/// ```
/// use tower_throttle::Extension;
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// let by_user = Extension::by(|user: &User| user.id);
/// let by_name = Extension::<String>::new();
/// ```
///
/// That middleware must run before this layer: outside of it.
pub struct Extension<T> {
    draw: Draw<T>,
}

type Draw<T> = Arc<dyn Fn(&T, &mut KeyBuf) -> Drawn + Send + Sync>;

impl<T: Send + Sync + 'static> Extension<T> {
    /// By the value itself.
    #[must_use]
    pub fn new() -> Self
    where
        for<'a> &'a T: IntoKey,
    {
        Self {
            draw: Arc::new(|value, key| value.into_key(key)),
        }
    }

    /// By something of the value.
    pub fn by<K: IntoKey>(of: impl Fn(&T) -> K + Send + Sync + 'static) -> Self {
        Self::with(move |value, key| of(value).into_key(key))
    }

    /// By what a function pushes, which may borrow from the value: `|user, key| user.name.as_str().into_key(key)`.
    pub fn with(draw: impl Fn(&T, &mut KeyBuf) -> Drawn + Send + Sync + 'static) -> Self {
        Self { draw: Arc::new(draw) }
    }
}

impl<T> Clone for Extension<T> {
    fn clone(&self) -> Self {
        Self {
            draw: Arc::clone(&self.draw),
        }
    }
}

impl<T: Send + Sync + 'static> Default for Extension<T>
where
    for<'a> &'a T: IntoKey,
{
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for Extension<T> {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        parts
            .extensions
            .get::<T>()
            .map_or(Drawn::Missing, |value| (self.draw)(value, key))
    }
}

impl<T> fmt::Debug for Extension<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", std::any::type_name::<T>())
    }
}
