//! The client's address as told by trusted proxies.

use std::net::IpAddr;

use http::HeaderName;
use http::header::FORWARDED;
use http::request::Parts;

use super::InvalidCidr;
use super::cidr::Cidr;
use super::group::Group;
use super::hops::{self, MOST_HOPS, Syntax};
use super::peer;
use crate::key::{Drawn, KeyBuf, KeyExtractor};

/// Counts by the client's address as told by trusted proxies, in one header.
///
/// ```
/// use http::HeaderName;
/// use tower_throttle::ForwardedIp;
///
/// // Proxies in these networks may be believed:
/// let nginx = ForwardedIp::x_forwarded_for().trust(["10.0.0.0/8", "fd00::/8"]);
/// // Exactly one proxy stands in front, and nobody can go around it:
/// let balancer = ForwardedIp::forwarded().trust_hops(1);
/// let cdn = ForwardedIp::header(HeaderName::from_static("cf-connecting-ip")).trust(["173.245.48.0/20"]);
/// ```
///
/// How the client is found:
///
/// 1. Start with the address of the connection. If it is not trusted it is the client, whatever the headers say.
/// 2. Go through the header from the right, the last line first, while the addresses are trusted. The first one that
///    is not is the client; if all are, the last of them.
/// 3. An element that is no address (`unknown`, a hidden name, nonsense), or the 33rd, ends the search: the client is
///    the address before it.
///
/// With [`trust_hops`](Self::trust_hops) the client is the n-th address from the right; if there are fewer, the last.
///
/// Until something is trusted, this is the same as [`PeerIp`](super::PeerIp), whose defaults for IPv6 it has too.
#[derive(Clone, Debug)]
pub struct ForwardedIp {
    header: HeaderName,
    syntax: Syntax,
    trust: Trust,
    group: Group,
}

#[derive(Clone, Debug)]
enum Trust {
    Networks(Vec<Cidr>),
    Hops(usize),
}

const ONE_TRUST: &str = "trust networks or a number of hops, not both: the peer of a hop is not checked";

impl ForwardedIp {
    /// From `X-Forwarded-For`.
    #[must_use]
    pub fn x_forwarded_for() -> Self {
        Self::header(HeaderName::from_static("x-forwarded-for"))
    }

    /// From `Forwarded` (RFC 7239).
    #[must_use]
    pub fn forwarded() -> Self {
        Self {
            syntax: Syntax::Forwarded,
            ..Self::header(FORWARDED)
        }
    }

    /// From a header that holds an address, or a list of them.
    #[must_use]
    pub fn header(header: HeaderName) -> Self {
        Self {
            header,
            syntax: Syntax::Plain,
            trust: Trust::Networks(Vec::new()),
            group: Group::default(),
        }
    }

    /// Trusts proxies in these networks, besides those that are trusted already.
    ///
    /// # Panics
    ///
    /// If one of them is not a network, or if hops are trusted.
    #[must_use]
    pub fn trust(self, networks: impl IntoIterator<Item: AsRef<str>>) -> Self {
        match self.try_trust(networks) {
            Ok(trusting) => trusting,
            Err(error) => panic!("{error}"),
        }
    }

    /// Trusts proxies in networks known only at run time.
    ///
    /// # Errors
    ///
    /// If one of them is not a network.
    ///
    /// # Panics
    ///
    /// If hops are trusted.
    pub fn try_trust(mut self, networks: impl IntoIterator<Item: AsRef<str>>) -> Result<Self, InvalidCidr> {
        let Trust::Networks(trusted) = &mut self.trust else {
            panic!("{ONE_TRUST}");
        };
        for network in networks {
            trusted.push(Cidr::parse(network.as_ref())?);
        }
        Ok(self)
    }

    /// Trusts the nearest `hops` proxies, wherever they are: for when clients cannot reach this service but through them.
    ///
    /// # Panics
    ///
    /// If `hops` is 0 or beyond 32, or if networks are trusted.
    #[must_use]
    pub fn trust_hops(mut self, hops: usize) -> Self {
        assert!(
            (1..=MOST_HOPS).contains(&hops),
            "the number of trusted hops must be from 1 to 32; without a proxy use PeerIp"
        );
        let networks = matches!(&self.trust, Trust::Networks(networks) if !networks.is_empty());
        assert!(!networks, "{ONE_TRUST}");
        self.trust = Trust::Hops(hops);
        self
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

    fn client(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = peer::peer(&parts.extensions);
        let mut hops = hops::from_the_right(&parts.headers, &self.header, self.syntax);
        match &self.trust {
            Trust::Networks(networks) => {
                let trusted = |address| networks.iter().any(|network| network.contains(address));
                let mut client = peer?;
                while trusted(client)
                    && let Some(Some(next)) = hops.next()
                {
                    client = next;
                }
                Some(client)
            }
            Trust::Hops(count) => {
                // One that cannot be read ends the search, as above.
                hops.take(*count).map_while(|hop| hop).last().or(peer)
            }
        }
    }
}

impl KeyExtractor for ForwardedIp {
    fn draw(&self, parts: &Parts, key: &mut KeyBuf) -> Drawn {
        self.group.draw(self.client(parts), key)
    }
}
