//! Decisions by Redis, beside a peer and the least that can be asked of a server.

use std::future::poll_fn;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use redis::aio::MultiplexedConnection;
use tokio::runtime::Runtime;
use tower::{Layer as _, Service};
use tower_rate_limit_redis::{KeyResolver, RateLimitLayer as PeerLayer};
use tower_throttle::store::RedisStore;
use tower_throttle::{Global, Header, Headers, Path, Quota, RateLimitLayer, Tier};

use crate::load::NoOp;

const TASKS: [usize; 3] = [1, 16, 256];
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(700);

pub(crate) fn table() -> String {
    let Some(server) = Server::start() else {
        return "\nNot measured: that takes a redis-server.\n".to_owned();
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let contenders = runtime.block_on(contenders(&server));
    let mut text = "\n| | 1 task | 16 tasks | 256 tasks |\n|---|---|---|---|\n".to_owned();
    let mut best: Vec<Vec<Option<Round>>> = vec![TASKS.map(|_| None).into(); contenders.len()];
    for (column, tasks) in TASKS.into_iter().enumerate() {
        for _ in 0..ROUNDS {
            for (row, (_, contender)) in contenders.iter().enumerate() {
                let round = contender.round(&runtime, tasks);
                let best = &mut best[row][column];
                if best.as_ref().is_none_or(|best| round.per_second > best.per_second) {
                    *best = Some(round);
                }
            }
        }
    }
    for ((name, _), rounds) in contenders.iter().zip(best) {
        let cells = rounds.into_iter().flatten().map(|round| {
            let micros = |time: Duration| time.as_secs_f64() * 1e6;
            format!(
                "{:.0}/s, {:.0} µs, {:.0} µs",
                round.per_second,
                micros(round.p50),
                micros(round.p99)
            )
        });
        text += &format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
    }
    text
}

async fn contenders(server: &Server) -> Vec<(&'static str, Box<dyn Asked>)> {
    let connection = server.connection().await;
    let plenty = Quota::new(1_000_000_000, Duration::from_secs(1));
    let ours = RateLimitLayer::new([
        Tier::new("global", Global, plenty),
        Tier::new("path", Path, plenty),
        Tier::new("user", (Header::new("x-user-id"), Path), plenty),
    ])
    .headers(Headers::none())
    // Nothing may be decided here.
    .store(
        RedisStore::new(server.url())
            .expect("an address")
            .deadline(Duration::from_secs(20)),
    );
    let one = ours_of_one(server);
    let peer = |by: fn(&Request<()>) -> String| {
        PeerLayer::builder()
            .conn(connection.clone())
            .key_resolver(By(by))
            .capacity(u16::MAX)
            .emission_interval(Duration::from_millis(1))
            .build()
    };
    let global = |request: &Request<()>| format!("global:{}", epoch(request));
    let path = |request: &Request<()>| format!("path:{}:{}", epoch(request), request.uri().path());
    let user = |request: &Request<()>| {
        let user = request.headers().get("x-user-id").and_then(|user| user.to_str().ok());
        format!(
            "user:{}:{}:{}",
            epoch(request),
            user.unwrap_or_default(),
            request.uri().path()
        )
    };
    let stacked = peer(global).layer(peer(path).layer(peer(user).layer(NoOp)));
    vec![
        ("tower-throttle, three tiers", requests(ours.layer(NoOp))),
        ("tower-throttle, one tier", requests(one.layer(NoOp))),
        ("tower-rate-limit-redis, three layers", requests(stacked)),
        ("tower-rate-limit-redis, one layer", requests(peer(user).layer(NoOp))),
        ("INCR", Box::new(Bare(connection.clone(), "INCR"))),
        ("PING", Box::new(Bare(connection, "PING"))),
    ]
}

fn ours_of_one(server: &Server) -> RateLimitLayer<RedisStore> {
    let plenty = Quota::new(1_000_000_000, Duration::from_secs(1));
    RateLimitLayer::new([Tier::new("one", (Header::new("x-user-id"), Path), plenty)])
        .headers(Headers::none())
        .store(
            RedisStore::new(server.url())
                .expect("an address")
                .deadline(Duration::from_secs(20)),
        )
}

/// Changes every so many requests: the peer's capacity is 16 bits, and what it refuses it does not write.
fn epoch(request: &Request<()>) -> &str {
    let epoch = request.headers().get("x-epoch").and_then(|epoch| epoch.to_str().ok());
    epoch.unwrap_or_default()
}

#[derive(Clone)]
struct By(fn(&Request<()>) -> String);

impl KeyResolver for By {
    type Key = String;
    type ErrorBody = Body;

    fn key<T>(&self, request: &Request<T>) -> Result<String, Response<Body>> {
        let mut head = Request::new(());
        *head.uri_mut() = request.uri().clone();
        *head.headers_mut() = request.headers().clone();
        Ok((self.0)(&head))
    }
}

/// One round, as long as [`ROUND`].
struct Round {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

impl Clone for Round {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

trait Asked {
    fn round(&self, runtime: &Runtime, tasks: usize) -> Round;
}

fn round<A, F>(runtime: &Runtime, tasks: usize, ask: A) -> Round
where
    A: Fn() -> F + Clone + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let start = Instant::now();
    let end = start + ROUND;
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let ask = ask.clone();
            runtime.spawn(async move {
                let mut times = Vec::new();
                let mut before = Instant::now();
                while before < end {
                    ask().await;
                    let after = Instant::now();
                    times.push(after - before);
                    before = after;
                }
                times
            })
        })
        .collect();
    let mut times: Vec<_> = tasks
        .into_iter()
        .flat_map(|task| runtime.block_on(task).expect("no panic"))
        .collect();
    let elapsed = start.elapsed();
    times.sort_unstable();
    Round {
        per_second: times.len() as f64 / elapsed.as_secs_f64(),
        p50: times[times.len() / 2],
        p99: times[times.len() * 99 / 100],
    }
}

struct Layered<S>(S);

fn requests<S>(service: S) -> Box<dyn Asked>
where
    S: Service<Request<()>, Response: IsOk, Error: std::fmt::Debug, Future: Send> + Clone + Send + Sync + 'static,
{
    Box::new(Layered(service))
}

trait IsOk {
    fn is_ok(&self) -> bool;
}

impl<B> IsOk for Response<B> {
    fn is_ok(&self) -> bool {
        self.status() == StatusCode::OK
    }
}

impl<S> Asked for Layered<S>
where
    S: Service<Request<()>, Response: IsOk, Error: std::fmt::Debug, Future: Send> + Clone + Send + Sync + 'static,
{
    fn round(&self, runtime: &Runtime, tasks: usize) -> Round {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let service = Arc::new(self.0.clone());
        round(runtime, tasks, move || {
            let mut service = S::clone(&service);
            async move {
                let nth = NTH.fetch_add(1, Ordering::Relaxed);
                let request = Request::get("/api/orders")
                    .header("x-user-id", nth % 1_000)
                    .header("x-epoch", nth / 10_000)
                    .body(())
                    .expect("a request");
                poll_fn(|context| service.poll_ready(context)).await.expect("ready");
                let response = service.call(request).await.expect("a response");
                assert!(response.is_ok(), "nobody is refused here");
            }
        })
    }
}

/// A command, over the same kind of connection.
struct Bare(MultiplexedConnection, &'static str);

impl Asked for Bare {
    fn round(&self, runtime: &Runtime, tasks: usize) -> Round {
        let Self(connection, command) = self;
        let (connection, command) = (connection.clone(), *command);
        round(runtime, tasks, move || {
            let mut connection = connection.clone();
            async move {
                let mut asked = redis::cmd(command);
                if command != "PING" {
                    asked.arg("counter");
                }
                let _: redis::Value = asked.query_async(&mut connection).await.expect("an answer");
            }
        })
    }
}

/// A server of the benchmark's own, which ends with this.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|it| it.local_addr())
            .ok()?
            .port();
        let process = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        // It takes connections as soon as it has started.
        for _ in 0..500 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Some(Self { process, port });
            }
            thread::sleep(Duration::from_millis(10));
        }
        None
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    async fn connection(&self) -> MultiplexedConnection {
        let client = redis::Client::open(self.url()).expect("an address");
        client.get_multiplexed_async_connection().await.expect("it runs")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
