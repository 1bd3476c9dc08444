//! The layer as a Tower citizen: readiness, calls, clones, bodies, stacks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use support::{LaterStore, refuses_after};
use tower::{Layer as _, Service, ServiceBuilder, ServiceExt as _, service_fn};
use tower_throttle::clock::ManualClock;
use tower_throttle::key::PathPattern;
use tower_throttle::policy::preflight;
use tower_throttle::store::MemoryStore;
use tower_throttle::{Global, Header, Quota, RateLimitLayer, Rejection, Tier, Verdict};

const HOUR: Duration = Duration::from_secs(3_600);

fn request() -> Request<Full<Bytes>> {
    Request::new(Full::default())
}

/// Counts what is done to it, and panics if it is called unready.
#[derive(Default)]
struct Probe {
    ready: bool,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    calls: AtomicUsize,
    clones: AtomicUsize,
    drops: AtomicUsize,
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        self.counts.clones.fetch_add(1, Ordering::Relaxed);
        Self {
            // A clone of a ready service is not ready.
            ready: false,
            counts: Arc::clone(&self.counts),
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        if self.ready {
            self.counts.drops.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Service<Request<Full<Bytes>>> for Probe {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called unready");
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        ready(Ok(Response::new(Full::from("inner"))))
    }
}

/// Three requests are admitted and three refused.
async fn three_of_six<S>(mut service: S)
where
    S: Service<
            Request<Full<Bytes>>,
            Response = Response<tower_throttle::ResponseBody<Full<Bytes>>>,
            Error = Infallible,
        >,
{
    for nth in 1..=6 {
        let response = service.ready().await.unwrap().call(request()).await.unwrap();
        let expected = if nth <= 3 {
            StatusCode::OK
        } else {
            StatusCode::TOO_MANY_REQUESTS
        };
        assert_eq!(response.status(), expected);
    }
}

#[tokio::test]
async fn never_called_unready_and_never_for_a_refused_request() {
    let probe = Probe::default();
    let counts = Arc::clone(&probe.counts);
    three_of_six(refuses_after(3).layer(probe)).await;
    assert_eq!(counts.calls.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn the_same_with_a_store_that_answers_later() {
    let probe = Probe::default();
    let counts = Arc::clone(&probe.counts);
    three_of_six(refuses_after(3).store(LaterStore::default()).layer(probe)).await;
    assert_eq!(counts.calls.load(Ordering::Relaxed), 3);
    // The three that were made ready in vain were dropped, with what they had reserved.
    assert_eq!(counts.drops.load(Ordering::Relaxed), 3);
}

/// A store that answers at once costs an admission neither a clone of the inner service nor a poll.
#[tokio::test]
async fn an_admission_calls_in_place() {
    let probe = Probe::default();
    let counts = Arc::clone(&probe.counts);
    let mut service = refuses_after(1_000).layer(probe);
    for _ in 0..100 {
        let future = service.ready().await.unwrap().call(request());
        let mut context = Context::from_waker(Waker::noop());
        assert!(
            matches!(pin!(future).poll(&mut context), Poll::Ready(Ok(_))),
            "ready at the first poll"
        );
    }
    assert_eq!(counts.clones.load(Ordering::Relaxed), 0);
    assert_eq!(counts.calls.load(Ordering::Relaxed), 100);
}

#[tokio::test]
async fn a_refusal_gives_up_what_was_reserved() {
    let probe = Probe::default();
    let counts = Arc::clone(&probe.counts);
    let mut service = refuses_after(1).layer(probe);
    service.ready().await.unwrap().call(request()).await.unwrap();
    let future = service.ready().await.unwrap().call(request());
    assert_eq!(
        counts.drops.load(Ordering::Relaxed),
        1,
        "in call already, not once the future is polled"
    );
    assert_eq!(future.await.unwrap().status(), StatusCode::TOO_MANY_REQUESTS);
}

/// Two clones over one permit: one is refused and then idles; the other must become ready.
#[tokio::test]
async fn an_idle_clone_keeps_no_permit_of_a_concurrency_limit() {
    async fn check<L>(limits: L)
    where
        L: tower::Layer<tower::limit::ConcurrencyLimit<Probe>>,
        L::Service: Service<Request<Full<Bytes>>> + Clone,
        <L::Service as Service<Request<Full<Bytes>>>>::Error: std::fmt::Debug,
    {
        let mut idle = ServiceBuilder::new()
            .layer(limits)
            .layer(tower::limit::ConcurrencyLimitLayer::new(1))
            .service(Probe::default());
        let mut other = idle.clone();
        for _ in 0..3 {
            idle.ready().await.unwrap().call(request()).await.unwrap();
        }
        tokio::time::timeout(Duration::from_secs(30), other.ready())
            .await
            .expect("the permit was given up")
            .unwrap()
            .call(request())
            .await
            .unwrap();
        drop(idle);
    }
    check(refuses_after(1)).await;
    check(refuses_after(1).store(LaterStore::default())).await;
}

#[tokio::test]
async fn works_over_a_buffer() {
    let service = ServiceBuilder::new()
        .layer(refuses_after(5))
        .buffer(1)
        .service(Probe::default());
    // Clones that were refused idle, and must keep no slot of the buffer.
    let mut clones = vec![service; 4];
    let mut admitted = 0;
    for nth in 0..20 {
        let ready = tokio::time::timeout(Duration::from_secs(30), clones[nth % 4].ready());
        let service = ready.await.expect("slots are given up").unwrap();
        admitted += usize::from(service.call(request()).await.unwrap().status() == StatusCode::OK);
    }
    assert_eq!(admitted, 5);
}

#[tokio::test]
async fn a_mock_sees_admitted_requests_only() {
    let (mock, mut handle) = tower_test::mock::pair::<Request<Full<Bytes>>, Response<Full<Bytes>>>();
    let mut service = refuses_after(1).layer(mock);
    handle.allow(2);
    let first = service.ready().await.unwrap().call(request());
    let seen = handle.next_request();
    let (response, ()) = tokio::join!(first, async {
        let (_, respond) = seen.await.unwrap();
        respond.send_response(Response::new(Full::default()));
    });
    assert_eq!(response.unwrap().status(), StatusCode::OK);

    let refused = service.ready().await.unwrap().call(request()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(
        tokio::time::timeout(Duration::from_millis(1), handle.next_request())
            .await
            .is_err(),
        "nothing came through"
    );
}

/// The inner service's readiness is passed on: a full one holds back callers, as without the layer.
#[tokio::test]
async fn readiness_is_the_inner_services() {
    let (mock, mut handle) = tower_test::mock::pair::<Request<Full<Bytes>>, Response<Full<Bytes>>>();
    let mut service = refuses_after(1).layer(mock);
    handle.allow(0);
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_pending());
    handle.allow(1);
    assert!(service.poll_ready(&mut context).is_ready());
    handle.send_error("broken");
    let error = service.ready().await.unwrap_err();
    assert_eq!(error.to_string(), "broken", "its errors are passed on as they are");
}

#[tokio::test]
async fn clones_share_one_state() {
    let layer = refuses_after(4);
    let mut services = [layer.layer(Probe::default()), layer.clone().layer(Probe::default())];
    let mut admitted = 0;
    for nth in 0..12 {
        let mut service = services[nth % 2].clone();
        let response = service.ready().await.unwrap().call(request()).await.unwrap();
        admitted += usize::from(response.status() == StatusCode::OK);
        services[nth % 2] = service;
    }
    assert_eq!(admitted, 4);
}

#[tokio::test]
async fn layers_share_a_store_by_name_and_namespace() {
    let store = MemoryStore::new().clock(ManualClock::new());
    let admitted = async |layer: RateLimitLayer| {
        let mut service = layer.store(store.clone()).layer(Probe::default());
        let response = service.ready().await.unwrap().call(request()).await.unwrap();
        response.status() == StatusCode::OK
    };
    assert!(admitted(refuses_after(2)).await);
    assert!(admitted(refuses_after(2)).await);
    assert!(!admitted(refuses_after(2)).await, "the same accounts");
    assert!(
        admitted(refuses_after(2).namespace("other")).await,
        "accounts of its own"
    );
}

#[tokio::test]
async fn off_it_lets_everything_pass() {
    let mut service = refuses_after(1).enabled(false).layer(Probe::default());
    for _ in 0..5 {
        let response = service.ready().await.unwrap().call(request()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(response.headers().is_empty());
    }
}

#[tokio::test]
async fn exempt_requests_are_not_counted() {
    let mut service = refuses_after(1)
        .exempt(preflight)
        .exempt(PathPattern::new("/health"))
        .layer(Probe::default());
    let health = || Request::get("/health").body(Full::<Bytes>::default()).unwrap();
    let preflight = || {
        Request::builder()
            .method(Method::OPTIONS)
            .header("origin", "https://example.org")
            .header("access-control-request-method", "PUT")
            .body(Full::<Bytes>::default())
            .unwrap()
    };
    for _ in 0..5 {
        for request in [health(), preflight()] {
            let response = service.ready().await.unwrap().call(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
        }
    }
    assert_eq!(
        service.ready().await.unwrap().call(request()).await.unwrap().status(),
        StatusCode::OK
    );
    // A plain OPTIONS is a request like any other.
    let options = Request::options("/").body(Full::default()).unwrap();
    let refused = service.ready().await.unwrap().call(options).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
}

#[test]
fn the_inner_service_can_be_reached() {
    let mut service = refuses_after(1).layer(7);
    *service.get_mut() += 1;
    assert_eq!(*service.get_ref(), 8);
    assert_eq!(service.into_inner(), 8);
}

/// Two layers in one stack, each with a verdict: the handler sees both.
#[tokio::test]
async fn handlers_see_how_the_client_stands() {
    let tier = |name: &str, limit| Tier::new(name, Global, Quota::new(limit, HOUR));
    let layer = |name, limit| RateLimitLayer::new([tier(name, limit)]).share_verdict(true);
    let seen = service_fn(|request: Request<Full<Bytes>>| async move {
        let verdict = request.extensions().get::<Verdict>().expect("a verdict");
        let standings: Vec<_> = verdict
            .standings()
            .map(|standing| (standing.tier().to_owned(), standing.remaining(), standing.key_hash()))
            .collect();
        assert_eq!(
            standings,
            [("inner".to_owned(), 2, None), ("outer".to_owned(), 8, None)]
        );
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = ServiceBuilder::new()
        .layer(layer("outer", 9))
        .layer(layer("inner", 3))
        .service(seen);
    service.ready().await.unwrap().call(request()).await.unwrap();

    // Not asked for, it is not there.
    let absent = service_fn(|request: Request<Full<Bytes>>| async move {
        assert!(request.extensions().is_empty());
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    });
    let mut service = refuses_after(1).layer(absent);
    service.ready().await.unwrap().call(request()).await.unwrap();
}

#[tokio::test]
async fn a_refusal_carries_its_rejection() {
    let mut service = refuses_after(1).layer(Probe::default());
    service.ready().await.unwrap().call(request()).await.unwrap();
    let refused = service.ready().await.unwrap().call(request()).await.unwrap();
    let rejection = refused.extensions().get::<Rejection>().expect("a rejection");
    assert_eq!(rejection.tier(), "tier");
    assert_eq!(rejection.retry_after(), Some(HOUR));
    assert!(rejection.wait() >= rejection.retry_after());
}

/// Any body in, any body of `Bytes` out.
#[tokio::test]
async fn any_body_will_do() {
    async fn check<Req, Res>(request_body: Req, again: Req, response_body: fn() -> Res)
    where
        Res: http_body::Body<Data = Bytes> + Send + 'static,
        Res::Error: std::fmt::Debug,
    {
        let inner =
            service_fn(move |_: Request<Req>| async move { Ok::<_, Infallible>(Response::new(response_body())) });
        let mut service = refuses_after(1).layer(inner);
        let response = service
            .ready()
            .await
            .unwrap()
            .call(Request::new(request_body))
            .await
            .unwrap();
        let hint = response_body().size_hint();
        assert_eq!(response.body().size_hint().exact(), hint.exact(), "hints are passed on");
        assert_eq!(response.body().is_end_stream(), response_body().is_end_stream());
        let inner = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(inner, response_body().collect().await.unwrap().to_bytes());

        let refused = service.ready().await.unwrap().call(Request::new(again)).await.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
        let length = refused.body().size_hint().exact().expect("a body of known length");
        assert!(!refused.body().is_end_stream());
        let body = refused.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len() as u64, length);
        assert!(
            body.starts_with(b"{\"type\":"),
            "whatever the inner body, ours is whole"
        );
    }
    check((), (), || Full::<Bytes>::from("full")).await;
    check("text", "", Empty::<Bytes>::new).await;
    check(Full::<Bytes>::default(), Full::default(), || {
        BoxBody::new(Full::<Bytes>::from("boxed"))
    })
    .await;
    let (one, other) = (axum::body::Body::empty(), axum::body::Body::empty());
    check(one, other, || axum::body::Body::from("axum")).await;
    let (one, other) = (tonic::body::Body::empty(), tonic::body::Body::empty());
    check(one, other, || tonic::body::Body::new(Full::<Bytes>::from("tonic"))).await;
    check(vec![1_u8], vec![], tower_throttle::ResponseBody::<Full<Bytes>>::default).await;
}

/// hyper's own body comes back too: a limited client, as in a proxy.
#[tokio::test]
async fn a_client_can_be_limited() {
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = axum::Router::new().route("/", axum::routing::get(async || "from afar"));
    tokio::spawn(async { axum::serve(listener, app).await });

    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let mut service = refuses_after(1).layer(client);
    let get = || {
        Request::get(format!("http://{address}/"))
            .body(Full::default())
            .unwrap()
    };
    let response = service.ready().await.unwrap().call(get()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "from afar");
    let refused = service.ready().await.unwrap().call(get()).await.unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert!(
        refused
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .starts_with(b"{")
    );
}

/// Layers as their users stack them, so that it is known to compile: behind a timeout, and in both orders.
#[tokio::test]
async fn stacks_with_other_layers() {
    let timeout = || tower_http::timeout::TimeoutLayer::with_status_code(StatusCode::GATEWAY_TIMEOUT, HOUR);
    let inner =
        service_fn(|_: Request<Full<Bytes>>| async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) });
    let mut outside = ServiceBuilder::new()
        .layer(timeout())
        .layer(refuses_after(1))
        .service(inner);
    let mut inside = ServiceBuilder::new()
        .layer(refuses_after(1))
        .layer(timeout())
        .service(inner);
    for expected in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS] {
        assert_eq!(
            outside.ready().await.unwrap().call(request()).await.unwrap().status(),
            expected
        );
        assert_eq!(
            inside.ready().await.unwrap().call(request()).await.unwrap().status(),
            expected
        );
    }
}

/// Dropping the response future while the store is thinking calls nothing.
#[tokio::test]
async fn a_dropped_request_is_not_called() {
    let probe = Probe::default();
    let counts = Arc::clone(&probe.counts);
    let mut service = refuses_after(3).store(LaterStore::default()).layer(probe);
    drop(service.ready().await.unwrap().call(request()));
    assert_eq!(counts.calls.load(Ordering::Relaxed), 0);
    assert_eq!(counts.drops.load(Ordering::Relaxed), 1, "the reservation went with it");
}

/// What is configured but does not concern a request is not asked for.
#[tokio::test]
async fn tiers_are_for_the_requests_they_are_for() {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let writes = Tier::new("writes", Global, Quota::new(1, HOUR))
        .only([Method::POST, Method::PUT])
        .only(PathPattern::new("/things/{id}"))
        .cost_by(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            1
        });
    let bots = Tier::new("bots", Global, Quota::new(1, HOUR))
        .only(tower_throttle::policy::HeaderIs::new(http::header::USER_AGENT, "bot"));
    let mut service = RateLimitLayer::new([writes, bots]).layer(Probe::default());
    let mut status = async |method: &str, path: &str, agent: &str| {
        let request = Request::builder().method(method).uri(path).header("user-agent", agent);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        service
            .ready()
            .await
            .unwrap()
            .call(request)
            .await
            .unwrap()
            .status()
            .as_u16()
    };
    for _ in 0..3 {
        assert_eq!(status("HEAD", "/things/1", "x").await, 200);
        assert_eq!(status("GET", "/things/1", "x").await, 200);
        assert_eq!(status("POST", "/other", "x").await, 200);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    assert_eq!(status("POST", "/things/1", "x").await, 200);
    assert_eq!(status("PUT", "/things/2", "x").await, 429);
    assert_eq!(status("GET", "/", "bot").await, 200);
    assert_eq!(status("GET", "/", "bot").await, 429);
}

/// Servers run the handler of GET for HEAD too, so it must not be a way around.
#[tokio::test]
async fn a_tier_for_get_is_for_head_too() {
    let reads = Tier::new("reads", Global, Quota::new(2, HOUR)).only(Method::GET);
    let mut service = RateLimitLayer::new([reads]).layer(Probe::default());
    for (method, expected) in [("GET", 200), ("HEAD", 200), ("HEAD", 429), ("GET", 429), ("POST", 200)] {
        let request = Request::builder().method(method).body(Full::default()).unwrap();
        let response = service.ready().await.unwrap().call(request).await.unwrap();
        assert_eq!(response.status().as_u16(), expected, "{method}");
    }
}

#[tokio::test]
async fn a_store_that_fails_obeys_the_tiers() {
    use support::FailingStore;
    use tower_throttle::store::FailureMode;

    let tier = |name: &str, mode| Tier::new(name, Header::new("x-user-id"), Quota::per_second(1)).on_failure(mode);
    let status = async |tiers: Vec<Tier>| {
        let mut service = RateLimitLayer::new(tiers).store(FailingStore).layer(Probe::default());
        let response = service.ready().await.unwrap().call(request()).await.unwrap();
        (response.status(), response.headers().contains_key("ratelimit"))
    };
    let (allow, deny) = (FailureMode::Allow, FailureMode::Deny);
    assert_eq!(
        status(vec![tier("a", allow), tier("b", allow)]).await,
        (StatusCode::OK, false)
    );
    assert_eq!(
        status(vec![tier("a", allow), tier("b", deny)]).await,
        (StatusCode::SERVICE_UNAVAILABLE, false),
        "any that denies denies"
    );
}
