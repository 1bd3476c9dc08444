//! The address of the connection.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;
use http::request::Parts;

use super::group::Group;
use crate::key::{Drawn, KeyBuf, KeyExtractor};

/// Counts by the address of the connection: the client's, or that of the nearest proxy.
///
/// Servers do not tell it by themselves:
///
/// - axum (feature `axum`): serve `app.into_make_service_with_connect_info::<SocketAddr>()`; in tests, add the layer `MockConnectInfo`.
/// - tonic (feature `tonic`): told by its `Server`.
/// - hyper and others: put a [`SocketAddr`] into the request's extensions.
///
/// Where it is missing the first request says so, once in a process and at error level (feature `tracing`), and the
/// tier treats it as a missing key: by default all requests share one account.
///
/// Behind a proxy all clients have the proxy's address: use [`ForwardedIp`](super::ForwardedIp) there.
///
/// # Defaults
///
/// IPv6 addresses are grouped by their /64, one network; an IPv4 address written as IPv6 (`::ffff:192.0.2.1`) counts
/// as what it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerIp {
    group: Group,
}

impl PeerIp {
    /// By address, IPv6 by /64.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Groups IPv6 addresses by a prefix of this length.
    ///
    /// # Panics
    ///
    /// If `prefix` is 0 or beyond 128.
    #[must_use]
    pub fn ipv6_prefix(mut self, prefix: u8) -> Self {
        self.group = Group::by_prefix(prefix);
        self
    }
}

impl KeyExtractor for PeerIp {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        self.group.draw(peer(&parts.extensions), key)
    }
}

/// The peer's address, an IPv4 one as such.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    let address = None
        .or_else(|| told_by_axum(extensions))
        .or_else(|| told_by_tonic(extensions))
        .or_else(|| extensions.get::<SocketAddr>().copied())?;
    Some(address.ip().to_canonical())
}

#[cfg(feature = "axum")]
use super::axum::peer as told_by_axum;
#[cfg(feature = "tonic")]
use super::tonic::peer as told_by_tonic;

#[cfg(not(feature = "axum"))]
const fn told_by_axum(_: &Extensions) -> Option<SocketAddr> {
    None
}

#[cfg(not(feature = "tonic"))]
const fn told_by_tonic(_: &Extensions) -> Option<SocketAddr> {
    None
}
