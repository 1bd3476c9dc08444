//! A hyper server without a framework: routes by patterns of our own, clients by their address.
//!
//! ```text
//! cargo run --example hyper
//!
//! for i in 1 2 3 4; do curl -si http://127.0.0.1:3001/hello | grep -iE '^(HTTP|retry|ratelimit:)'; done
//! ```
//!
//! You will see three times 200, then 429 with `Retry-After`. `ADDR` chooses another address.

#![allow(clippy::print_stdout, reason = "an example tells what to try")]

use std::convert::Infallible;
use std::env;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tower::{ServiceBuilder, service_fn};
use tower_throttle::{Global, PeerIp, Quota, RateLimitLayer, Routes, Tier};

/// Who may do how much.
#[must_use]
pub fn limits() -> RateLimitLayer {
    let client = (PeerIp::new(), Routes::new(["/hello", "/users/{id}"]));
    RateLimitLayer::new([
        Tier::new("client", client, Quota::new(3, Duration::from_secs(10))),
        Tier::new("global", Global, Quota::per_second(100)),
    ])
}

/// The service that is limited.
pub async fn handle(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match request.uri().path() {
        "/hello" => (StatusCode::OK, "Hello!\n"),
        path if path.starts_with("/users/") => (StatusCode::OK, "A user\n"),
        _ => (StatusCode::NOT_FOUND, "Nothing here\n"),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    Ok(response)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3001".to_owned());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}; try:");
    println!("  for i in 1 2 3 4; do curl -si http://{address}/hello | grep -iE '^(HTTP|retry|ratelimit:)'; done");

    // One layer for all connections: its state lives in it.
    let limits = limits();
    loop {
        let (stream, peer) = listener.accept().await?;
        let service = ServiceBuilder::new()
            .map_request(move |mut request: Request<Incoming>| {
                // hyper does not tell who connected, so the accept loop does.
                request.extensions_mut().insert::<SocketAddr>(peer);
                request
            })
            .layer(limits.clone())
            .service(service_fn(handle));
        tokio::spawn(async move {
            let server = auto::Builder::new(TokioExecutor::new());
            let service = TowerToHyperService::new(service);
            // A connection that breaks is its client's affair.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
