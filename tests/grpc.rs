//! gRPC as clients see it: a real tonic server and client, and the frames below them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

#[path = "../examples/tonic/helloworld.rs"]
mod helloworld;

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use helloworld::{Greeter, say_hello};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::transport::{Channel, Server};
use tonic_types::{QuotaViolation, StatusExt as _};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_throttle::clock::ManualClock;
use tower_throttle::store::{FailureMode, MemoryStore, Store};
use tower_throttle::{Global, GrpcMethod, Header, OnMissing, PeerIp, Quota, RateLimitLayer, Rejection, Tier};

const TEN_SECONDS: Duration = Duration::from_secs(10);

/// With a clock that stands still.
async fn serve(limits: RateLimitLayer) -> SocketAddr {
    let limits = limits.store(MemoryStore::new().clock(ManualClock::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().accept_http1(true).layer(limits).add_service(Greeter);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

async fn connect(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

fn per_user(limit: u64) -> Tier {
    let method = GrpcMethod::new().service("helloworld.Greeter", ["SayHello"]);
    Tier::new(
        "user",
        (Header::new("x-user-id"), method),
        Quota::new(limit, TEN_SECONDS),
    )
}

#[tokio::test]
async fn a_tonic_client_is_told_to_wait() {
    let address = serve(RateLimitLayer::new([
        per_user(2),
        Tier::new("all", Global, Quota::per_minute(3)),
    ]))
    .await;
    let channel = connect(address).await;
    for _ in 0..2 {
        assert_eq!(say_hello(channel.clone(), "ann", "Ann").await.unwrap(), "Hello Ann!");
    }
    let status = say_hello(channel.clone(), "ann", "Ann").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);

    let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
    let jittered = Duration::from_secs(5)..=Duration::from_millis(6_250);
    assert!(jittered.contains(&delay), "5 s and a quarter at most: {delay:?}");
    let metadata = |name: &str| status.metadata().get(name).unwrap().to_str().unwrap();
    assert_eq!(metadata("grpc-retry-pushback-ms"), delay.as_millis().to_string());
    assert_eq!(metadata("retry-after"), delay.as_millis().div_ceil(1_000).to_string());
    assert!(metadata("ratelimit").starts_with(r#""user";r=0;t="#));
    let message = format!(r#"tier "user" allows 2 per 10s; try again in {} ms"#, delay.as_millis());
    assert_eq!(status.message(), message);

    let violations = status.get_details_quota_failure().unwrap().violations;
    let QuotaViolation {
        subject,
        description,
        quota_id,
        quota_value,
        ..
    } = &violations[0];
    assert_eq!(
        (violations.len(), &**subject, &**description),
        (1, "policy:user", "2 per 10s")
    );
    assert_eq!((&**quota_id, *quota_value), ("user", 2));

    // A thousand more: each field tells its client one number, and no two clients need be told the same.
    let mut waits = std::collections::HashSet::new();
    for _ in 0..1_000 {
        let status = say_hello(channel.clone(), "ann", "Ann").await.unwrap_err();
        let delay = status.get_details_retry_info().unwrap().retry_delay.unwrap();
        let pushback = status
            .metadata()
            .get("grpc-retry-pushback-ms")
            .unwrap()
            .to_str()
            .unwrap();
        assert!(jittered.contains(&delay));
        assert_eq!(pushback, delay.as_millis().to_string());
        assert!(status.message().ends_with(&format!("try again in {pushback} ms")));
        waits.insert(delay);
    }
    assert!(waits.len() > 500, "{}", waits.len());

    // Another user is served, and then all together are too many.
    say_hello(channel.clone(), "bob", "Bob").await.unwrap();
    let status = say_hello(channel, "bob", "Bob").await.unwrap_err();
    assert!(status.message().starts_with(r#"tier "all""#), "{status:?}");
}

/// One header block with END_STREAM, which is what keeps a call retryable for strict clients.
#[tokio::test]
async fn a_refusal_is_trailers_only() {
    let address = serve(RateLimitLayer::new([per_user(1)])).await;
    let (mut h2, connection) = h2::client::handshake(TcpStream::connect(address).await.unwrap())
        .await
        .unwrap();
    tokio::spawn(connection);
    for refused in [false, true] {
        h2 = h2.ready().await.unwrap();
        let request = Request::post(format!("http://{address}/helloworld.Greeter/SayHello"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let (response, mut body) = h2.send_request(request, false).unwrap();
        body.send_data(Bytes::from_static(b"\0\0\0\0\0"), true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.body().is_end_stream(), refused, "the block ends the stream");
        assert_eq!(response.headers().contains_key("grpc-status"), refused);
        if refused {
            assert_eq!(response.headers()["grpc-status"], "8");
            assert_eq!(response.headers()["content-type"], "application/grpc");
            assert_eq!(response.headers().get_all("grpc-retry-pushback-ms").iter().count(), 1);
        }
    }
}

/// One layer, one budget: what gRPC uses, HTTP lacks; and each is answered in its own way.
#[tokio::test]
async fn http_and_grpc_share_a_budget() {
    let address = serve(RateLimitLayer::new([Tier::new(
        "all",
        Global,
        Quota::new(2, TEN_SECONDS),
    )]))
    .await;
    say_hello(connect(address).await, "ann", "Ann").await.unwrap();
    let client = Client::builder(TokioExecutor::new()).build_http();
    let get = || {
        Request::get(format!("http://{address}/"))
            .body(Full::<Bytes>::default())
            .unwrap()
    };
    let response = client.request(get()).await.unwrap();
    assert!(
        response.headers()["ratelimit"]
            .to_str()
            .unwrap()
            .starts_with(r#""all";r=0;"#)
    );
    let response = client.request(get()).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let status = say_hello(connect(address).await, "bob", "Bob").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
}

/// tonic tells who has connected.
#[cfg(feature = "tonic")]
#[tokio::test]
async fn the_peer_of_a_tonic_server_is_known() {
    let tier = Tier::new("peer", PeerIp::new(), Quota::new(2, TEN_SECONDS)).on_missing(OnMissing::Refuse);
    let address = serve(RateLimitLayer::new([tier])).await;
    assert!(say_hello(connect(address).await, "ann", "Ann").await.is_ok());
    assert!(say_hello(connect(address).await, "bob", "Bob").await.is_ok());
    let status = say_hello(connect(address).await, "cid", "Cid").await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "three connections, one address");
}

/// The refusal of a request with this content type, straight from the service.
async fn refusal(layer: &RateLimitLayer<impl Store>, content_type: &str, path: &str) -> Response<Bytes> {
    let inner = service_fn(async |_: Request<Full<Bytes>>| {
        Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = layer.layer(inner);
    let request = Request::post(path)
        .header("content-type", content_type)
        .body(Full::default())
        .unwrap();
    let response = service.ready().await.unwrap().call(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// `google.rpc.Status`, as others decode it.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

fn details(headers: &HeaderMap) -> Status {
    let bytes = STANDARD_NO_PAD.decode(&headers["grpc-status-details-bin"]).unwrap();
    Status::decode(&*bytes).unwrap()
}

#[tokio::test]
async fn every_kind_of_refusal_has_its_status() {
    use support::FailingStore;

    let never = Tier::new("t%", Global, Quota::new(2, TEN_SECONDS)).cost_by(|_| 3);
    let missing = Tier::new("t%", Header::new("x"), Quota::new(2, TEN_SECONDS)).on_missing(OnMissing::Refuse);
    let denied = Tier::new("t%", Global, Quota::new(2, TEN_SECONDS)).on_failure(FailureMode::Deny);
    let never = refusal(&RateLimitLayer::new([never]), "application/grpc", "/").await;
    let missing = refusal(&RateLimitLayer::new([missing]), "application/grpc", "/").await;
    let denied = refusal(
        &RateLimitLayer::new([denied]).store(FailingStore),
        "application/grpc",
        "/",
    )
    .await;
    for (response, code, kinds, waits) in [
        (never, "9", vec!["QuotaFailure"], false),
        (missing, "3", vec![], false),
        (denied, "14", vec!["RetryInfo", "QuotaFailure"], true),
    ] {
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.body().is_empty());
        let headers = response.headers();
        assert_eq!(headers["grpc-status"], code);
        assert_eq!(
            headers["grpc-retry-pushback-ms"] == "-1",
            !waits,
            "no use in trying again"
        );
        assert_eq!(headers.contains_key("retry-after"), waits);
        let details = details(headers);
        assert_eq!(details.code.to_string(), code, "the two do not contradict each other");
        let urls: Vec<_> = details.details.iter().map(|any| &*any.type_url).collect();
        assert_eq!(
            urls,
            kinds
                .iter()
                .map(|kind| format!("type.googleapis.com/google.rpc.{kind}"))
                .collect::<Vec<_>>()
        );
        let rejection = response.extensions().get::<Rejection>().unwrap();
        assert_eq!(details.message, rejection.to_string());
        assert_eq!(headers["grpc-message"], rejection.to_string().replace('%', "%25"));
    }
}

#[tokio::test]
async fn grpc_web_is_answered_in_kind() {
    let layer = RateLimitLayer::new([Tier::new("all", Global, Quota::new(1, TEN_SECONDS))]);
    refusal(&layer, "text/plain", "/").await;
    for (content_type, expected) in [
        ("application/grpc", "application/grpc"),
        ("application/grpc+proto", "application/grpc"),
        ("application/grpc-web+proto", "application/grpc-web"),
        ("application/grpc-web-text", "application/grpc-web-text"),
    ] {
        let response = refusal(&layer, content_type, "/").await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], expected);
        assert_eq!(response.headers()["grpc-status"], "8");
        assert!(response.body().is_empty());
    }
    assert_eq!(
        refusal(&layer, "application/grpcs", "/").await.status(),
        StatusCode::TOO_MANY_REQUESTS
    );
}

/// A wait that the field cannot say must not become a shorter one.
#[tokio::test]
async fn a_wait_of_months_says_do_not_retry() {
    let quota = Quota::new(1, Duration::from_secs(86_400 * 60));
    let layer = RateLimitLayer::new([Tier::new("all", Global, quota)]);
    refusal(&layer, "application/grpc", "/").await;
    let response = refusal(&layer, "application/grpc", "/").await;
    assert_eq!(response.headers()["grpc-retry-pushback-ms"], "-1");
}

/// Methods and services that a client invents share accounts; what it says it speaks does not matter.
#[tokio::test]
async fn invented_methods_share_an_account() {
    let store = MemoryStore::new();
    let methods = GrpcMethod::new()
        .service("a.B", ["C", "D"])
        .service_with_any_method("a.Open");
    let layer = RateLimitLayer::new([Tier::new("method", methods, Quota::per_hour(1_000))]).store(store.clone());
    let accounts = async |paths: &[&str]| {
        for path in paths {
            for content_type in ["application/grpc", "text/plain"] {
                assert_eq!(refusal(&layer, content_type, path).await.status(), StatusCode::OK);
            }
        }
        store.keys()
    };
    assert_eq!(accounts(&["/a.B/C", "/a.B/D"]).await, 2);
    assert_eq!(
        accounts(&["/a.B/X", "/a.B/Y", "/a.B/"]).await,
        3,
        "unknown methods of a known service"
    );
    assert_eq!(
        accounts(&["/a.X/C", "/b.B/C", "/", "/a.B", "/a.B/C/D"]).await,
        4,
        "unknown services"
    );
    assert_eq!(
        accounts(&["/a.Open/X", "/a.Open/Y"]).await,
        6,
        "any method, where that was chosen"
    );
}
