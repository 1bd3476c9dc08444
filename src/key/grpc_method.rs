//! A gRPC method.

use http::request::Parts;

use super::{Drawn, KeyBuf, KeyExtractor};

/// Counts by gRPC method, of services that are named.
///
/// ```
/// use tower_throttle::GrpcMethod;
///
/// let methods = GrpcMethod::new()
///     .service("helloworld.Greeter", ["SayHello"])
///     .service("helloworld.Admin", ["Reload", "Shutdown"]);
/// ```
///
/// Only what is named has an account of its own, because the path is the client's to invent: methods of a service
/// that are not named share one account per service, services that are not named share one in all. Whether the
/// request says that it is gRPC does not matter.
#[derive(Clone, Debug, Default)]
pub struct GrpcMethod {
    services: Vec<Service>,
}

#[derive(Clone, Debug)]
struct Service {
    name: String,
    methods: Methods,
}

#[derive(Clone, Debug)]
enum Methods {
    Named(Vec<String>),
    Any,
}

impl GrpcMethod {
    /// Names no service yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service, `package.Service`, with those of its methods that are counted apart.
    ///
    /// # Panics
    ///
    /// If a name is empty or contains a slash.
    #[must_use]
    pub fn service<M: Into<String>>(self, name: impl Into<String>, methods: impl IntoIterator<Item = M>) -> Self {
        let methods = methods.into_iter().map(|method| checked(method.into()));
        self.with(name.into(), Methods::Named(methods.collect()))
    }

    /// Adds a service whose methods are not known here: every method that a client names is counted apart, also one
    /// that does not exist.
    ///
    /// # Panics
    ///
    /// If the name is empty or contains a slash.
    #[must_use]
    pub fn service_with_any_method(self, name: impl Into<String>) -> Self {
        self.with(name.into(), Methods::Any)
    }

    fn with(mut self, name: String, methods: Methods) -> Self {
        let name = checked(name);
        self.services.push(Service { name, methods });
        self
    }

    /// The service and the method by which a path is counted.
    fn of<'a>(&self, path: &'a str) -> (Option<&'a str>, Option<&'a str>) {
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return (None, None);
        };
        let mut named = self.services.iter().filter(|known| known.name == service).peekable();
        match named.peek() {
            Some(_) => (Some(service), named.any(|known| known.knows(method)).then_some(method)),
            None => (None, None),
        }
    }
}

fn checked(name: String) -> String {
    assert!(
        !name.is_empty() && !name.contains('/'),
        "{name:?} is not a name of gRPC; write service(\"package.Service\", [\"Method\"]), without slashes"
    );
    name
}

impl Service {
    fn knows(&self, method: &str) -> bool {
        match &self.methods {
            Methods::Named(methods) => methods.iter().any(|known| known == method),
            Methods::Any => true,
        }
    }
}

impl KeyExtractor for GrpcMethod {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        let (service, method) = self.of(parts.uri.path());
        for part in [service, method].into_iter().flatten() {
            key.push_text(part.as_bytes());
        }
        Drawn::Key
    }
}
