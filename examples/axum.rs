//! Three tiers in front of an axum router, in memory: per user and endpoint, per endpoint, and all together.
//!
//! ```text
//! cargo run --example axum --features axum
//!
//! curl -i http://127.0.0.1:3000/hello -H 'x-user-id: ann'
//! for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:3000/users/7 -H 'x-user-id: ann'; done
//! ```
//!
//! You will see how you stand in `RateLimit`, five times 200, and then 429 with `Retry-After`. Another user, or the other endpoint, still
//! gets through: a refused request takes nothing from anybody. `ADDR` chooses another address.

#![allow(clippy::print_stdout, reason = "an example tells what to try")]

use std::env;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use tokio::net::TcpListener;
use tower_throttle::{Endpoint, Global, Header, Quota, RateLimitLayer, Tier};

/// The router, limited.
pub fn app() -> Router {
    let ten_seconds = Duration::from_secs(10);
    let user = (Header::new("x-user-id"), Endpoint);
    let limits = RateLimitLayer::new([
        Tier::new("user", user, Quota::new(5, ten_seconds)),
        Tier::new("endpoint", Endpoint, Quota::new(20, ten_seconds)),
        Tier::new("global", Global, Quota::new(40, ten_seconds)),
    ]);
    Router::new()
        .route("/hello", get(async || "Hello!\n"))
        .route(
            "/users/{id}",
            get(async |Path(id): Path<String>| format!("User {id}\n")),
        )
        .layer(limits)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}; try:");
    println!("  curl -i http://{address}/hello -H 'x-user-id: ann'");
    println!(
        "  for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{{http_code}}\\n' http://{address}/users/7 -H 'x-user-id: ann'; done"
    );
    axum::serve(listener, app()).await
}
