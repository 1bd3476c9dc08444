//! The examples, started as their users start them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "redis")]
mod support;

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

/// A running example; stopped when dropped.
struct Example {
    process: Child,
    address: String,
    /// Kept open: an example whose output nobody takes would stop.
    _output: BufReader<ChildStdout>,
}

impl Example {
    fn start(name: &str) -> Self {
        Self::start_with(name, &[])
    }

    fn start_with(name: &str, variables: &[(&str, &str)]) -> Self {
        let mut process = Command::new(path(name))
            .env("ADDR", "127.0.0.1:0")
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("example {name} does not start ({error}); build it with `cargo build --examples --all-features`")
            });
        let mut first_line = String::new();
        let output = process.stdout.take().expect("its output is piped");
        let mut output = BufReader::new(output);
        output.read_line(&mut first_line).expect("it prints its address");
        let address = first_line
            .strip_prefix("listening on ")
            .and_then(|rest| rest.split_once(';'));
        let address = address.expect("it prints its address").0.to_owned();
        Self {
            process,
            address,
            _output: output,
        }
    }

    async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Response<Bytes> {
        let client = Client::builder(TokioExecutor::new()).build_http();
        let request = Request::get(format!("http://{}{path}", self.address));
        let request = headers
            .iter()
            .fold(request, |request, (name, value)| request.header(*name, *value));
        let response = client
            .request(request.body(Full::<Bytes>::default()).unwrap())
            .await
            .unwrap();
        let (parts, body) = response.into_parts();
        Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Beside this test, where cargo puts them.
fn path(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.ancestors().nth(2).expect("target/profile/deps/test");
    profile.join("examples").join(name)
}

fn rate_limit(response: &Response<Bytes>) -> &str {
    response.headers()["ratelimit"].to_str().unwrap()
}

/// How many requests pass until one is refused, with the refusal. A slow machine refills meanwhile, so there may be
/// more of them than the burst.
async fn until_refused(example: &Example, path: &str, headers: &[(&str, &str)]) -> (usize, Response<Bytes>) {
    for passed in 0..10_000 {
        let response = example.get(path, headers).await;
        if response.status() == StatusCode::TOO_MANY_REQUESTS {
            return (passed, response);
        }
        assert_eq!(response.status(), StatusCode::OK);
    }
    panic!("never refused");
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn axum() {
    let example = Example::start("axum");
    let ann = [("x-user-id", "ann")];
    let response = example.get("/users/7", &ann).await;
    assert_eq!(response.body(), "User 7\n");
    let (passed, response) = until_refused(&example, "/users/8", &ann).await;
    assert!(passed >= 4, "{passed}");
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=4).contains(&wait));
    let response = example.get("/hello", &ann).await;
    assert_eq!(
        (response.status(), &**response.body()),
        (StatusCode::OK, &b"Hello!\n"[..])
    );
    assert!(rate_limit(&response).starts_with(r#""user";r=4;t=10, "endpoint";r=19;t=10, "global";r="#));
    assert_eq!(
        response.headers()["ratelimit-policy"],
        r#""user";q=5;w=10, "endpoint";q=20;w=10, "global";q=40;w=10"#
    );
    assert_eq!(
        example.get("/users/9", &[("x-user-id", "bob")]).await.status(),
        StatusCode::OK
    );
}

/// Two processes share one quota, and go on without their Redis.
#[cfg(all(feature = "axum", feature = "redis"))]
#[tokio::test]
async fn redis() {
    let mut server = support::redis::Server::start();
    let url = server.url();
    let both = [(); 2].map(|()| Example::start_with("redis", &[("REDIS_URL", &url)]));
    let ann = [("x-user-id", "ann")];
    let mut decided_by = Vec::new();
    let mut statuses = Vec::new();
    for nth in 0..7 {
        let response = both[nth % 2].get("/hello", &ann).await;
        decided_by.extend(response.headers().get("x-decided-by").cloned());
        statuses.push(response.status().as_u16());
    }
    // A slow machine refills meanwhile; but each for itself would pass all seven.
    assert!(
        statuses.starts_with(&[200; 5]) && statuses.contains(&429),
        "{statuses:?}"
    );
    assert!(decided_by.iter().all(|source| source == "store"), "{decided_by:?}");

    server.kill();
    let bob = [("x-user-id", "bob")];
    let response = both[0].get("/hello", &bob).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-decided-by"], "local");
    // A user who was used up stays so where that is known.
    let (passed, _) = until_refused(&both[0], "/hello", &ann).await;
    assert!(passed <= 4, "{passed}");
}

#[tokio::test]
async fn hyper() {
    let example = Example::start("hyper");
    assert!(until_refused(&example, "/hello", &[]).await.0 >= 3);
    assert_eq!(example.get("/users/1", &[]).await.status(), StatusCode::OK);
    assert_eq!(example.get("/nowhere", &[]).await.status(), StatusCode::NOT_FOUND);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn plans() {
    let example = Example::start("plans");
    let free = [("authorization", "Bearer free-ann")];
    let pro = [("authorization", "Bearer pro-bob")];
    // The first request of each finds a full account.
    assert!(rate_limit(&example.get("/export", &pro).await).starts_with(r#""client";r=190;"#));
    assert!(rate_limit(&example.get("/export", &free).await).starts_with(r#""client";r=10;"#));
    let (passed, response) = until_refused(&example, "/export", &free).await;
    assert!(passed >= 1);
    assert_eq!(response.headers()["ratelimit-policy"], r#""client";q=20;w=60"#);
    let usage = example.get("/usage", &free).await;
    let usage = str::from_utf8(usage.body()).unwrap();
    assert!(
        usage.starts_with("client: ") && usage.ends_with(" of 20 left\n"),
        "{usage}"
    );
    assert!(
        rate_limit(&example.get("/search", &[]).await).starts_with(r#""client";r=19;"#),
        "by address"
    );
    assert!(!example.get("/health", &[]).await.headers().contains_key("ratelimit"));
}

#[tokio::test]
async fn tonic() {
    let example = Example::start("tonic");
    let output = Command::new(path("tonic"))
        .arg("ann")
        .env("ADDR", &example.address)
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = output.lines().collect();
    let (refusal, greetings) = lines.split_last().unwrap();
    assert!(
        greetings.len() >= 5 && greetings.iter().all(|line| *line == "Hello ann!"),
        "{output}"
    );
    assert!(
        refusal.starts_with(r#"ResourceExhausted: tier "user" allows 5 per 10s; try again in "#),
        "{output}"
    );
    assert!(refusal.contains("retry after Some("), "{output}");
}
