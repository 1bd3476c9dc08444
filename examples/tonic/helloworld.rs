//! `helloworld.proto` in Rust: what a code generator would write, by hand and shorter, so that the example needs no
//! `protoc`.

use std::convert::Infallible;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use http::{Request, Response};
use tonic::body::Body;
use tonic::client::GrpcService;
use tonic::codegen::BoxFuture;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower::Service;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HelloRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct HelloReply {
    #[prost(string, tag = "1")]
    pub(crate) message: String,
}

const SAY_HELLO: &str = "/helloworld.Greeter/SayHello";

/// The service.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Greeter;

impl Greeter {
    fn say_hello(request: &HelloRequest) -> HelloReply {
        HelloReply {
            message: format!("Hello {}!", request.name),
        }
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "helloworld.Greeter";
}

impl Service<Request<Body>> for Greeter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != SAY_HELLO {
            let unknown = Status::new(Code::Unimplemented, "no such method");
            return Box::pin(async move { Ok(unknown.into_http()) });
        }
        Box::pin(async move {
            let codec = ProstCodec::<HelloReply, HelloRequest>::default();
            Ok(Grpc::new(codec).unary(SayHello, request).await)
        })
    }
}

struct SayHello;

impl UnaryService<HelloRequest> for SayHello {
    type Response = HelloReply;
    type Future = BoxFuture<tonic::Response<HelloReply>, Status>;

    fn call(&mut self, request: tonic::Request<HelloRequest>) -> Self::Future {
        let reply = Greeter::say_hello(request.get_ref());
        Box::pin(async move { Ok(tonic::Response::new(reply)) })
    }
}

/// A client of the service, as `user`.
pub(crate) async fn say_hello<C>(channel: C, user: &str, name: &str) -> Result<String, Status>
where
    C: GrpcService<Body>,
    C::ResponseBody: Send + 'static,
    <C::ResponseBody as http_body::Body>::Error: Into<tonic::codegen::StdError> + Send,
{
    let mut request = tonic::Request::new(HelloRequest { name: name.to_owned() });
    let user = user
        .parse()
        .map_err(|_| Status::invalid_argument("not a user's name"))?;
    request.metadata_mut().insert("x-user-id", user);

    let mut client = tonic::client::Grpc::new(channel);
    client
        .ready()
        .await
        .map_err(|_| Status::unavailable("the service is not ready"))?;
    let codec = ProstCodec::<HelloRequest, HelloReply>::default();
    let path = PathAndQuery::from_static(SAY_HELLO);
    let reply = client.unary(request, path, codec).await?;
    Ok(reply.into_inner().message)
}
