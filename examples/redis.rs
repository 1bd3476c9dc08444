//! The axum example on Redis: any number of processes share one quota.
//!
//! ```text
//! redis-server --port 6379 &
//! ADDR=127.0.0.1:3000 cargo run --example redis --features axum,redis &
//! ADDR=127.0.0.1:3001 cargo run --example redis --features axum,redis &
//!
//! for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:300$((i % 2))/hello -H 'x-user-id: ann'; done
//! ```
//!
//! You will see five times 200 and then 429, whichever of the two you ask. Stop Redis, and each of them decides for itself, at
//! half the rate, as there are two of them (`REPLICAS`); start it again, and it decides again. The header `x-decided-by` of
//! a greeting tells. `REDIS_URL` chooses another Redis; without any, the example starts all the same.

#![allow(clippy::print_stdout, reason = "an example tells what to try")]

use std::env;
use std::error::Error;
use std::time::Duration;

use axum::extract::Path;
use axum::routing::get;
use axum::{Extension, Router};
use tokio::net::TcpListener;
use tower_throttle::store::RedisStore;
use tower_throttle::{Endpoint, Global, Header, Quota, RateLimitLayer, Tier, Verdict};

/// The router, limited in `store`.
pub fn app(store: RedisStore) -> Router {
    let ten_seconds = Duration::from_secs(10);
    let user = (Header::new("x-user-id"), Endpoint);
    let limits = RateLimitLayer::new([
        Tier::new("user", user, Quota::new(5, ten_seconds)),
        Tier::new("endpoint", Endpoint, Quota::new(20, ten_seconds)),
        Tier::new("global", Global, Quota::new(40, ten_seconds)),
    ])
    .store(store)
    .share_verdict(true);
    Router::new()
        .route("/hello", get(hello))
        .route(
            "/users/{id}",
            get(async |Path(id): Path<String>| format!("User {id}\n")),
        )
        .layer(limits)
}

async fn hello(Extension(verdict): Extension<Verdict>) -> ([(&'static str, String); 1], &'static str) {
    let sources: Vec<_> = verdict.standings().map(|standing| standing.source()).collect();
    let decided_by = sources.first().map(|source| format!("{source:?}")).unwrap_or_default();
    ([("x-decided-by", decided_by.to_lowercase())], "Hello!\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redis = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let replicas = env::var("REPLICAS")
        .ok()
        .and_then(|replicas| replicas.parse::<u32>().ok());
    let store = RedisStore::new(redis)?.replicas(replicas.unwrap_or(2));

    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}; try:");
    println!("  curl -i http://{address}/hello -H 'x-user-id: ann'");
    axum::serve(listener, app(store)).await?;
    Ok(())
}
