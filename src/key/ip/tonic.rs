//! The peer address as tonic tells it, with its own TLS or without.

use std::net::SocketAddr;

use http::Extensions;
use tonic::transport::server::TcpConnectInfo;

pub(super) fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    extensions.get::<TcpConnectInfo>()?.remote_addr()
}
