//! The one file that knows whether TLS is on.

/// Connecting would panic without a process-wide provider of cryptography, and with two of them compiled in there is none
/// unless somebody chooses. If the application has, its choice stands.
#[cfg(feature = "redis-tls")]
pub(super) fn prepare() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that somebody else was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

#[cfg(not(feature = "redis-tls"))]
pub(super) const fn prepare() {}
