//! The one file that knows whether `tracing` is on.

pub(crate) use self::events::peer_missing;

#[cfg(feature = "tracing")]
mod events {
    use std::sync::Once;

    /// Said once: it is true of the server, so of every request.
    pub(crate) fn peer_missing() {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::error!(
                "requests have no peer address, so tiers that count by it find no key; with axum serve \
                 `app.into_make_service_with_connect_info::<SocketAddr>()`, with tonic enable the feature `tonic`, \
                 otherwise put a `SocketAddr` into the request's extensions"
            );
        });
    }
}

#[cfg(not(feature = "tracing"))]
mod events {
    pub(crate) const fn peer_missing() {}
}
