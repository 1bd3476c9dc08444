//! The name a method is counted by.

use http::Method;

/// `HEAD` counts as `GET`, which it does the work of; methods that a client invents share one name, or it could open
/// an account with each.
pub(super) fn name(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => "other",
    }
}
