//! What a closure may return as a key.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;

use super::ip::Group;
use super::{Drawn, KeyBuf};

/// A value that can be a key. `None` is a missing one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    note = "return a string, bytes, a number, an `IpAddr`, or an `Option` of one; or use `key::from_fn` to push the parts yourself"
)]
pub trait IntoKey {
    /// Pushes the value, or says that there is none.
    fn into_key(self, key: &mut KeyBuf) -> Drawn;
}

impl<K: IntoKey> IntoKey for Option<K> {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        self.map_or(Drawn::Missing, |value| value.into_key(key))
    }
}

macro_rules! by {
    ($push:ident: $($kind:ty),*) => {$(
        impl IntoKey for $kind {
            fn into_key(self, key: &mut KeyBuf) -> Drawn {
                key.$push(AsRef::<[u8]>::as_ref(&self));
                Drawn::Key
            }
        }
    )*};
}

by!(push_text: &str, &String, String, &HeaderValue, HeaderValue);
by!(push: &[u8], &Vec<u8>, Vec<u8>);

macro_rules! by_text {
    ($($kind:ty),*) => {$(
        impl IntoKey for $kind {
            fn into_key(self, key: &mut KeyBuf) -> Drawn {
                let text: &str = &self;
                text.into_key(key)
            }
        }
    )*};
}

by_text!(Cow<'_, str>, Box<str>, &Box<str>, Arc<str>, &Arc<str>);

impl<const N: usize> IntoKey for [u8; N] {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        key.push(&self);
        Drawn::Key
    }
}

impl<const N: usize> IntoKey for &[u8; N] {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        (*self).into_key(key)
    }
}

macro_rules! by_number {
    ($($kind:ty)*) => {$(
        impl IntoKey for $kind {
            fn into_key(self, key: &mut KeyBuf) -> Drawn {
                key.push(&self.to_be_bytes());
                Drawn::Key
            }
        }

        impl IntoKey for &$kind {
            fn into_key(self, key: &mut KeyBuf) -> Drawn {
                (*self).into_key(key)
            }
        }
    )*};
}

by_number!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// As [`PeerIp`](super::PeerIp) counts them: IPv6 addresses by their /64, for one client has them all. To count by
/// the whole address, return its octets.
impl IntoKey for IpAddr {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        Group::default().push(self, key);
        Drawn::Key
    }
}

impl IntoKey for &IpAddr {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        (*self).into_key(key)
    }
}
