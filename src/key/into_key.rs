//! What a closure may return as a key.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderValue;

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

macro_rules! by_bytes {
    ($($kind:ty: $value:ident => $bytes:expr;)*) => {$(
        impl IntoKey for $kind {
            fn into_key(self, key: &mut KeyBuf) -> Drawn {
                let $value = self;
                key.push($bytes);
                Drawn::Key
            }
        }
    )*};
}

by_bytes! {
    &str: text => text.as_bytes();
    &String: text => text.as_bytes();
    String: text => text.as_bytes();
    Cow<'_, str>: text => text.as_bytes();
    &[u8]: bytes => bytes;
    &Vec<u8>: bytes => bytes;
    Vec<u8>: bytes => &bytes;
    &HeaderValue: value => value.as_bytes();
    HeaderValue: value => value.as_bytes();
    char: letter => letter.encode_utf8(&mut [0; 4]).as_bytes();
    bool: truth => &[u8::from(truth)];
}

impl<const N: usize> IntoKey for [u8; N] {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        key.push(&self);
        Drawn::Key
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

/// Whole, as given; [`PeerIp`](super::PeerIp) groups IPv6 addresses, this does not.
impl IntoKey for IpAddr {
    fn into_key(self, key: &mut KeyBuf) -> Drawn {
        match self.to_canonical() {
            Self::V4(address) => key.push(&address.octets()),
            Self::V6(address) => key.push(&address.octets()),
        }
        Drawn::Key
    }
}
