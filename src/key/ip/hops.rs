//! The addresses that proxies noted in a header, the nearest first.
//!
//! Everything here reads from the right, because what stands on the left was written by the client, and stops where
//! it need not go on: work is bounded whatever a client sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, HeaderValue};

/// How addresses are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// `X-Forwarded-For` and the like: bare addresses.
    Plain,
    /// `Forwarded`, RFC 7239: `for=` and other pairs.
    Forwarded,
}

/// No honest element is longer; a longer one is not looked at.
const LONGEST_ELEMENT: usize = 512;

/// How many elements are looked at, empty ones included.
pub(super) const MOST_HOPS: usize = 32;

/// The elements of all lines of a header, the last first: an address, or nothing where there is none that can be
/// read. Empty elements are left out.
pub(super) fn from_the_right<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    syntax: Syntax,
) -> impl Iterator<Item = Option<IpAddr>> + 'a {
    headers
        .get_all(name)
        .iter()
        .rev()
        .map(HeaderValue::as_bytes)
        .flat_map(|line| Elements { line: Some(line) })
        .take(MOST_HOPS)
        .map(|element| element.map(<[u8]>::trim_ascii))
        .filter(|element| element.is_none_or(|element| !element.is_empty()))
        .map(move |element| {
            let element = str::from_utf8(element?).ok()?;
            match syntax {
                Syntax::Plain => address(element),
                Syntax::Forwarded => address(&forwarded_for(element)?),
            }
        })
}

/// The elements of one line, the last first; nothing for one that is too long, which is also the end.
struct Elements<'a> {
    line: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        let line = self.line.take()?;
        let tail = &line[line.len().saturating_sub(LONGEST_ELEMENT)..];
        let skipped = line.len() - tail.len();
        match last_separator(tail, b',') {
            Some(comma) => {
                self.line = Some(&line[..skipped + comma]);
                Some(Some(&tail[comma + 1..]))
            }
            None if skipped == 0 => Some(Some(tail)),
            None => Some(None),
        }
    }
}

/// Where the last `separator` outside of quotes stands. A client can have a proxy quote its words (in `host=`), so
/// a comma in quotes must not begin an element.
fn last_separator(text: &[u8], separator: u8) -> Option<usize> {
    let mut quoted = false;
    for (index, byte) in text.iter().enumerate().rev() {
        if *byte == b'"' && !is_escaped(text, index) {
            quoted = !quoted;
        } else if *byte == separator && !quoted {
            return Some(index);
        }
    }
    None
}

/// Whether an odd number of backslashes stands before `index`.
fn is_escaped(text: &[u8], index: usize) -> bool {
    let backslashes = text[..index].iter().rev().take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

/// The value of `for` in an element of `Forwarded`, without its quotes.
fn forwarded_for(mut element: &str) -> Option<String> {
    loop {
        let (rest, pair) = match last_separator(element.as_bytes(), b';') {
            Some(index) => (Some(&element[..index]), &element[index + 1..]),
            None => (None, element),
        };
        if let Some((name, value)) = pair.split_once('=')
            && name.trim().eq_ignore_ascii_case("for")
        {
            let value = value.trim();
            return match value.strip_prefix('"') {
                Some(quoted) => Some(quoted.strip_suffix('"')?.replace('\\', "")),
                None => Some(value.to_owned()),
            };
        }
        element = rest?;
    }
}

/// An address, with or without a port, brackets and a zone.
fn address(text: &str) -> Option<IpAddr> {
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        if !port.is_empty() && !is_port(port.strip_prefix(':')?) {
            return None;
        }
        IpAddr::V6(ipv6(address)?)
    } else if let Some((address, port)) = text.split_once(':')
        && !port.contains(':')
    {
        IpAddr::V4(is_port(port).then(|| address.parse::<Ipv4Addr>().ok())??)
    } else if text.contains(':') {
        IpAddr::V6(ipv6(text)?)
    } else {
        IpAddr::V4(text.parse().ok()?)
    };
    Some(address.to_canonical())
}

/// A zone belongs to the machine that wrote it and says nothing here.
fn ipv6(text: &str) -> Option<Ipv6Addr> {
    let address = text.split_once('%').map_or(text, |(address, _)| address);
    address.parse().ok()
}

/// A number, or a name of RFC 7239's kind that hides it.
fn is_port(text: &str) -> bool {
    let name = text.strip_prefix('_').unwrap_or(text);
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(lines: &[&[u8]], syntax: Syntax) -> Vec<Option<String>> {
        let name = HeaderName::from_static("h");
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(&name, HeaderValue::from_bytes(line).unwrap());
        }
        from_the_right(&headers, &name, syntax)
            .map(|address| address.map(|address| address.to_string()))
            .collect()
    }

    fn one(text: &str) -> Option<String> {
        address(text).map(|address| address.to_string())
    }

    #[test]
    fn addresses_in_every_form() {
        for (text, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("192.0.2.1:5678", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("[2001:db8::1]:443", Some("2001:db8::1")),
            ("[2001:db8::1]:_hidden", Some("2001:db8::1")),
            ("fe80::1%eth0", Some("fe80::1")),
            ("[fe80::1%25eth0]:80", Some("fe80::1")),
            ("::ffff:192.0.2.1", Some("192.0.2.1")),
            ("[::ffff:c000:201]:1", Some("192.0.2.1")),
            ("unknown", None),
            ("_hidden", None),
            ("", None),
            ("192.0.2.256", None),
            ("192.0.2.1:", None),
            ("192.0.2.1:80 x", None),
            ("[2001:db8::1", None),
            ("[2001:db8::1]443", None),
            ("[192.0.2.1]", None),
            ("example.org", None),
        ] {
            assert_eq!(one(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn all_lines_count_and_the_last_comes_first() {
        assert_eq!(
            read(
                &[b"192.0.2.1, 192.0.2.2", b" 192.0.2.3 ,,", b"192.0.2.4"],
                Syntax::Plain
            ),
            ["192.0.2.4", "192.0.2.3", "192.0.2.2", "192.0.2.1"].map(|address| Some(address.to_owned()))
        );
    }

    #[test]
    fn a_comma_that_the_client_had_quoted_begins_nothing() {
        let line = br#"for=192.0.2.1, for="[2001:db8::1]:80";host="x, for=6.6.6.6\", for=6.6.6.6";proto=https"#;
        assert_eq!(
            read(&[line], Syntax::Forwarded),
            [Some("2001:db8::1".to_owned()), Some("192.0.2.1".to_owned())]
        );
        // The client's own junk, open quotes and all, cannot reach what stands to its right.
        let line = br#"for="6.6.6.6, for=192.0.2.7"#;
        assert_eq!(read(&[line], Syntax::Forwarded)[0].as_deref(), Some("192.0.2.7"));
    }

    #[test]
    fn forwarded_without_an_address_says_so() {
        assert_eq!(
            read(
                &[b"proto=http, for=unknown, for=_x;by=192.0.2.9, FOR = 192.0.2.1"],
                Syntax::Forwarded
            ),
            [Some("192.0.2.1".to_owned()), None, None, None]
        );
    }

    proptest! {
        #[test]
        fn nothing_a_client_sends_makes_it_panic(
            line in prop::collection::vec(prop::sample::select(&b"for=;,\"\\[]:%._ 0123456789abcdefx\xc3\xa4\t"[..]), 0..2000),
        ) {
            for syntax in [Syntax::Plain, Syntax::Forwarded] {
                let _ = read(&[&line], syntax);
            }
        }

        #[test]
        fn every_address_is_read_back(bits in any::<u128>(), four in any::<u32>(), port in any::<u16>()) {
            let six = Ipv6Addr::from_bits(bits);
            let four = Ipv4Addr::from_bits(four);
            let expected = Some(IpAddr::V6(six).to_canonical());
            prop_assert_eq!(address(&six.to_string()), expected);
            prop_assert_eq!(address(&format!("[{six}]:{port}")), expected);
            prop_assert_eq!(address(&format!("{four}:{port}")), Some(IpAddr::V4(four)));
            let line = format!("for=\"[{six}]:{port}\";proto=http");
            prop_assert_eq!(read(&[line.as_bytes()], Syntax::Forwarded), vec![expected.map(|ip| ip.to_string())]);
        }
    }
}
