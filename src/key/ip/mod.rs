//! The client's address.

#[cfg(feature = "axum")]
mod axum;
mod cidr;
mod forwarded;
mod group;
mod hops;
mod peer;
#[cfg(feature = "tonic")]
mod tonic;

pub(super) use self::group::Group;
pub use self::{cidr::InvalidCidr, forwarded::ForwardedIp, peer::PeerIp};
