//! The peer address as tonic tells it.

use std::net::SocketAddr;

use http::Extensions;
use tonic::transport::server::TcpConnectInfo;

pub(super) fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    extensions
        .get::<TcpConnectInfo>()
        .and_then(TcpConnectInfo::remote_addr)
        .or_else(|| behind_tls(extensions))
}

#[cfg(feature = "tonic-tls")]
fn behind_tls(extensions: &Extensions) -> Option<SocketAddr> {
    use tonic::transport::server::TlsConnectInfo;

    extensions
        .get::<TlsConnectInfo<TcpConnectInfo>>()
        .and_then(|info| info.get_ref().remote_addr())
}

#[cfg(not(feature = "tonic-tls"))]
const fn behind_tls(_: &Extensions) -> Option<SocketAddr> {
    None
}
