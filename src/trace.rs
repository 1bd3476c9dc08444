//! The one file that knows whether `tracing` is on.

pub(crate) use self::events::peer_missing;

#[cfg(feature = "tracing")]
mod events {
    pub(crate) fn peer_missing() {
        tracing::error!(
            "no peer address: all clients share one account of the tiers that count by it; with axum serve \
             `app.into_make_service_with_connect_info::<SocketAddr>()`, with tonic enable the feature `tonic` (and \
             `tonic-tls`), otherwise put a `SocketAddr` into the request's extensions"
        );
    }
}

#[cfg(not(feature = "tracing"))]
mod events {
    pub(crate) const fn peer_missing() {}
}
