//! An axum route.

use axum::extract::MatchedPath;
use http::request::Parts;

use super::{Drawn, KeyBuf, KeyExtractor, method};

/// Counts by method and axum's route template: `GET /users/{id}` is one endpoint, whatever the id.
///
/// - `HEAD` counts as `GET`; methods that are not of HTTP share one name.
/// - Requests that match no route share one account. So do all requests if the layer is wrapped around the finished
///   `Router` instead of being given to [`Router::layer`](axum::Router::layer): routes are matched inside it.
/// - A tonic service in an axum router is one route, `/package.Service/{*rest}`; for its methods use
///   [`GrpcMethod`](super::GrpcMethod), and for a router that has both [`Routes`](super::Routes) or a tier for each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Endpoint;

impl KeyExtractor for Endpoint {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        if let Some(path) = parts.extensions.get::<MatchedPath>() {
            key.push_text(method::name(&parts.method).as_bytes());
            key.push_text(path.as_str().as_bytes());
        }
        // Without parts it is the account of all that match nothing.
        Drawn::Key
    }
}
