//! The peer address as axum tells it.

use std::net::SocketAddr;

use axum::extract::ConnectInfo;
use axum::extract::connect_info::MockConnectInfo;
use http::Extensions;

pub(super) fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    let connected = extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(address)| *address);
    // In tests; axum's own extractor looks for it too.
    let mocked = || {
        extensions
            .get::<MockConnectInfo<SocketAddr>>()
            .map(|MockConnectInfo(address)| *address)
    };
    connected.or_else(mocked)
}
