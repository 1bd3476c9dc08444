//! Quotas by plan, costs by route, addresses for those who do not say who they are.
//!
//! ```text
//! cargo run --example plans --features axum
//!
//! curl -i http://127.0.0.1:3002/search -H 'authorization: Bearer free-ann'
//! curl -i http://127.0.0.1:3002/export -H 'authorization: Bearer pro-bob'
//! curl -i http://127.0.0.1:3002/search
//! curl -i http://127.0.0.1:3002/health
//! ```
//!
//! A search costs 1 and an export 10, of 20 per minute in the free plan and 200 in the pro plan; without a token the
//! address is counted, by the free plan. The health check is not counted, and the handler of `/usage` tells how the
//! client stands. `ADDR` chooses another address.

#![allow(clippy::print_stdout, reason = "an example tells what to try")]

use std::env;
use std::net::SocketAddr;

use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use http::request::Parts;
use tokio::net::TcpListener;
use tower_throttle::key::{IntoKey as _, KeyExtractor as _, PathPattern};
use tower_throttle::{PeerIp, Plan, Plans, Quota, RateLimitLayer, Tier, Verdict};

/// Who is asking, as found out by `authenticate`.
#[derive(Clone)]
struct User {
    name: String,
    plan: &'static str,
}

/// The router, limited.
pub fn app() -> Router {
    let plans = Plans::new(
        [
            Plan::new("free", Quota::per_minute(20)),
            Plan::new("pro", Quota::per_minute(200)),
        ],
        |parts: &Parts| parts.extensions.get::<User>().map(|user| user.plan),
    );
    let client = tower_throttle::Extension::with(|user: &User, key| user.name.as_str().into_key(key)).or(PeerIp::new());
    let limits = RateLimitLayer::new([Tier::new("client", client, plans).cost_by(cost)])
        .exempt(PathPattern::new("/health"))
        .share_verdict(true);
    Router::new()
        .route("/search", get(async || "Found nothing.\n"))
        .route("/export", get(async || "id,name\n"))
        .route("/usage", get(usage))
        .route("/health", get(async || "ok\n"))
        .layer(limits)
        // Added later, so outside: it runs first.
        .layer(middleware::from_fn(authenticate))
}

fn cost(parts: &Parts) -> u64 {
    match parts.uri.path() {
        "/export" => 10,
        // Looks at the account, and takes nothing.
        "/usage" => 0,
        _ => 1,
    }
}

async fn usage(Extension(verdict): Extension<Verdict>) -> String {
    let lines = verdict.standings().map(|standing| {
        format!(
            "{}: {} of {} left\n",
            standing.label(),
            standing.remaining(),
            standing.quota().limit()
        )
    });
    lines.collect()
}

/// Stands for a real check: a token is a plan and a name.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get("authorization");
    let token = token.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    if let Some((plan, name)) = token.and_then(|token| token.split_once('-')) {
        let plan = if plan == "pro" { "pro" } else { "free" };
        let name = name.to_owned();
        request.extensions_mut().insert(User { name, plan });
    }
    next.run(request).await
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:3002".to_owned());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on {address}; try:");
    println!("  curl -i http://{address}/search -H 'authorization: Bearer free-ann'");
    println!("  curl -i http://{address}/export -H 'authorization: Bearer pro-bob'");
    println!("  curl -i http://{address}/search");
    println!("  curl -i http://{address}/usage");
    let app = app().into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, app).await
}
