//! The layer in a real axum server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(feature = "axum")]

mod support;

use std::net::SocketAddr;

use axum::Router;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use support::LaterStore;
use tokio::net::TcpListener;
use tower_throttle::clock::ManualClock;
use tower_throttle::store::MemoryStore;
use tower_throttle::{Endpoint, Global, Header, OnMissing, PeerIp, Quota, RateLimitLayer, Tier};

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, app).await });
    address
}

/// Connects anew for each request.
async fn ask(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let request = Request::builder().method(method).uri(format!("http://{address}{path}"));
    let request = headers
        .iter()
        .fold(request, |request, (name, value)| request.header(*name, *value));
    client.request(request.body(Full::default()).unwrap()).await.unwrap()
}

fn routes() -> Router {
    Router::new()
        .route("/hello", get(async || "hello"))
        .route("/users/{id}", get(async || "user").post(async || "made"))
        .route("/other", post(async || "other"))
}

fn store() -> MemoryStore {
    MemoryStore::new().clock(ManualClock::new())
}

#[tokio::test]
async fn many_connections_share_one_state() {
    async fn admitted(address: SocketAddr) -> usize {
        let requests: Vec<_> = (0..60)
            .map(|nth| {
                tokio::spawn(async move { ask(address, "GET", ["/hello", "/users/1"][nth % 2], &[]).await.status() })
            })
            .collect();
        let mut admitted = 0;
        for request in requests {
            admitted += usize::from(request.await.unwrap() == StatusCode::OK);
        }
        admitted
    }
    let tier = || Tier::new("all", Global, Quota::per_hour(20));
    let now = serve(routes().layer(RateLimitLayer::new([tier()]))).await;
    assert_eq!(admitted(now).await, 20);
    let later = serve(routes().layer(RateLimitLayer::new([tier()]).store(LaterStore::default()))).await;
    assert_eq!(admitted(later).await, 20);
}

#[tokio::test]
async fn endpoints_are_routes_and_nothing_else() {
    let store = store();
    let tier = Tier::new("endpoint", Endpoint, Quota::per_hour(1_000));
    let address = serve(routes().layer(RateLimitLayer::new([tier]).store(store.clone()))).await;
    type Asked<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);
    let accounts = async |requests: &[Asked<'_>]| {
        for (method, path, headers) in requests {
            ask(address, method, path, headers).await;
        }
        store.keys()
    };
    assert_eq!(
        accounts(&[
            ("GET", "/users/1", &[]),
            ("GET", "/users/2", &[]),
            ("GET", "/users/3?x=1", &[])
        ])
        .await,
        1
    );
    assert_eq!(accounts(&[("HEAD", "/users/1", &[])]).await, 1, "HEAD counts as GET");
    let grpc: &[_] = &[("content-type", "application/grpc")];
    assert_eq!(
        accounts(&[("GET", "/users/1", grpc)]).await,
        1,
        "the content type mints nothing"
    );
    assert_eq!(
        accounts(&[("POST", "/users/1", &[]), ("POST", "/users/1", grpc)]).await,
        2
    );
    assert_eq!(
        accounts(&[("BREW", "/users/1", &[]), ("MINT", "/users/2", &[])]).await,
        3,
        "invented methods share one"
    );
    assert_eq!(
        accounts(&[("GET", "/a", &[]), ("GET", "/b", &[]), ("POST", "/c/d", &[])]).await,
        4,
        "so do unmatched paths"
    );
}

#[tokio::test]
async fn a_refusal_of_grpc_on_a_rest_route_is_grpc() {
    let address = serve(routes().layer(RateLimitLayer::new([Tier::new("all", Global, Quota::per_hour(1))]))).await;
    let grpc = [("content-type", "application/grpc")];
    assert_eq!(ask(address, "GET", "/hello", &grpc).await.status(), StatusCode::OK);
    let response = ask(address, "GET", "/hello", &grpc).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["grpc-status"], "8");
    assert_eq!(
        ask(address, "GET", "/hello", &[]).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
    let head = ask(address, Method::HEAD.as_str(), "/hello", &[]).await;
    assert_eq!(head.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test]
async fn the_peer_is_known() {
    let tier = Tier::new("peer", PeerIp::new(), Quota::per_hour(2)).on_missing(OnMissing::Refuse);
    let address = serve(routes().layer(RateLimitLayer::new([tier]))).await;
    let forged = [
        ("x-forwarded-for", "1.1.1.1"),
        ("forwarded", "for=2.2.2.2"),
        ("x-real-ip", "3.3.3.3"),
    ];
    assert_eq!(ask(address, "GET", "/hello", &[]).await.status(), StatusCode::OK);
    assert_eq!(
        ask(address, "GET", "/hello", &forged[..1]).await.status(),
        StatusCode::OK
    );
    assert_eq!(
        ask(address, "GET", "/hello", &forged).await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
}

/// A flood by one user, at their own tier, leaves all of the shared quota to another.
#[tokio::test]
async fn a_flood_by_one_user_costs_another_nothing() {
    let tiers = [
        Tier::new("user", (Header::new("x-user-id"), Endpoint), Quota::per_hour(5)),
        Tier::new("endpoint", Endpoint, Quota::per_hour(10)),
        Tier::new("global", Global, Quota::per_hour(10)),
    ];
    let address = serve(routes().layer(RateLimitLayer::new(tiers).store(store()))).await;
    let mut admitted = 0;
    for _ in 0..50 {
        let status = ask(address, "GET", "/hello", &[("x-user-id", "mallory")])
            .await
            .status();
        admitted += usize::from(status == StatusCode::OK);
    }
    assert_eq!(admitted, 5);
    for _ in 0..5 {
        assert_eq!(
            ask(address, "GET", "/hello", &[("x-user-id", "ann")]).await.status(),
            StatusCode::OK
        );
    }
}
