//! Networks of addresses.

use std::fmt;
use std::net::IpAddr;

/// A network, such as `10.0.0.0/8`; an address alone is a network of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cidr {
    network: IpAddr,
    prefix: u8,
}

impl Cidr {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidCidr> {
        Self::read(text).ok_or_else(|| InvalidCidr { text: text.to_owned() })
    }

    fn read(text: &str) -> Option<Self> {
        let (network, prefix) = match text.split_once('/') {
            Some((network, prefix)) => (network, Some(prefix)),
            None => (text, None),
        };
        let network: IpAddr = network.parse().ok()?;
        let longest = if network.is_ipv4() { 32 } else { 128 };
        let prefix: u8 = match prefix {
            Some(prefix) => prefix.parse().ok().filter(|prefix| *prefix <= longest)?,
            None => longest,
        };
        // IPv4 written as IPv6 means IPv4, as it does for the addresses it is compared with.
        match network.to_canonical() {
            canonical if canonical != network => Some(Self {
                network: canonical,
                prefix: prefix.checked_sub(96)?,
            }),
            _ => Some(Self { network, prefix }),
        }
    }

    /// Whether `address`, an IPv4 one as such, belongs to the network.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let prefix = u32::from(self.prefix);
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(32 - prefix).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differs = network.to_bits() ^ address.to_bits();
                differs.checked_shr(128 - prefix).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Not a network of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCidr {
    text: String,
}

impl fmt::Display for InvalidCidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not a network of addresses; write it like \"10.0.0.0/8\", \"fd00::/8\" or \"192.0.2.1\"",
            self.text
        )
    }
}

impl std::error::Error for InvalidCidr {}
