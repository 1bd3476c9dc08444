//! The one file that knows whether `tracing` is on.

pub(crate) use self::events::peer_missing;
#[cfg(feature = "redis")]
pub(crate) use self::events::{store_down, store_up};

#[cfg(feature = "tracing")]
mod events {
    use std::sync::Once;

    /// Said when it is found out, not for every request that meets it.
    #[cfg(feature = "redis")]
    pub(crate) fn store_down(error: &dyn std::error::Error) {
        tracing::error!(%error, "Redis is down: tiers are decided by their failure modes until it returns");
        // This may name an address.
        if let Some(cause) = error.source() {
            tracing::debug!(%cause, "why Redis is down");
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn store_up() {
        tracing::info!("Redis is back: it decides again");
    }

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
    #[cfg(feature = "redis")]
    pub(crate) fn store_down(_: &dyn std::error::Error) {}

    #[cfg(feature = "redis")]
    pub(crate) const fn store_up() {}

    pub(crate) const fn peer_missing() {}
}
