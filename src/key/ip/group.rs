//! Which addresses count as one.

use std::net::{IpAddr, Ipv6Addr};

use crate::key::{Drawn, KeyBuf};
use crate::trace;

/// IPv6 addresses are grouped by their prefix, because one customer has at least 2^64 of them.
#[derive(Clone, Copy, Debug)]
pub(in crate::key) struct Group {
    prefix: u8,
}

impl Group {
    /// # Panics
    ///
    /// If `prefix` is 0 or beyond 128.
    pub(super) const fn by_prefix(prefix: u8) -> Self {
        assert!(
            prefix >= 1 && prefix <= 128,
            "an IPv6 prefix must be from 1 to 128; 64 is one network, 56 and 48 are what one customer often gets"
        );
        Self { prefix }
    }

    /// Pushes the address if there is one; if not, says what to do about it.
    pub(super) fn draw(self, address: Option<IpAddr>, key: &mut KeyBuf) -> Drawn {
        let Some(address) = address else {
            trace::peer_missing();
            return Drawn::Missing;
        };
        self.push(address, key);
        Drawn::Key
    }

    pub(in crate::key) fn push(self, address: IpAddr, key: &mut KeyBuf) {
        match address.to_canonical() {
            IpAddr::V4(address) => key.push(&address.octets()),
            IpAddr::V6(address) => {
                let mask = u128::MAX << (128 - self.prefix);
                key.push(&Ipv6Addr::from_bits(address.to_bits() & mask).octets());
            }
        }
    }
}

impl Default for Group {
    fn default() -> Self {
        Self { prefix: 64 }
    }
}
