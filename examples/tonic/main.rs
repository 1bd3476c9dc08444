//! Three tiers in front of a gRPC service, in memory: per user and method, per method, and all together.
//!
//! ```text
//! cargo run --example tonic                        # the server
//! cargo run --example tonic -- ann                 # in another terminal: calls by ann until one is refused
//! grpcurl -plaintext -proto examples/tonic/helloworld.proto -H 'x-user-id: ann' -d '{"name":"Ann"}' \
//!     127.0.0.1:50051 helloworld.Greeter/SayHello
//! ```
//!
//! You will see five greetings, then `RESOURCE_EXHAUSTED` with the delay after which to try again. `ADDR` chooses another address.

#![allow(clippy::print_stdout, reason = "an example tells what to try")]

mod helloworld;

use std::env;
use std::error::Error;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Channel, Server};
use tonic_types::StatusExt as _;
use tower_throttle::{Global, GrpcMethod, Header, Quota, RateLimitLayer, Tier};

/// Who may do how much.
#[must_use]
pub fn limits() -> RateLimitLayer {
    let ten_seconds = Duration::from_secs(10);
    let method = || GrpcMethod::new().service("helloworld.Greeter", ["SayHello"]);
    let user = (Header::new("x-user-id"), method());
    RateLimitLayer::new([
        Tier::new("user", user, Quota::new(5, ten_seconds)),
        Tier::new("endpoint", method(), Quota::new(20, ten_seconds)),
        Tier::new("global", Global, Quota::new(40, ten_seconds)),
    ])
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:50051".to_owned());
    match env::args().nth(1) {
        Some(user) => call(&address, &user).await,
        None => serve(&address).await,
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}; try:", listener.local_addr()?);
    println!("  ADDR={} cargo run --example tonic -- ann", listener.local_addr()?);
    let server = Server::builder().layer(limits()).add_service(helloworld::Greeter);
    Ok(server.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}

async fn call(address: &str, user: &str) -> Result<(), Box<dyn Error>> {
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    loop {
        match helloworld::say_hello(channel.clone(), user, user).await {
            Ok(greeting) => println!("{greeting}"),
            Err(status) => {
                let retry = status.get_details_retry_info();
                let delay = retry.and_then(|retry| retry.retry_delay);
                println!("{:?}: {}; retry after {delay:?}", status.code(), status.message());
                return Ok(());
            }
        }
    }
}
