//! Which requests count as one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::net::{IpAddr, SocketAddr};

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};
use tower_throttle::key::{Drawn, KeyBuf, from_fn};
use tower_throttle::{Extension, ForwardedIp, Global, Header, KeyExtractor, Path, PeerIp, Routes};

fn parts(request: http::request::Builder) -> Parts {
    request.body(()).unwrap().into_parts().0
}

fn get(path: &str) -> Parts {
    parts(Request::get(path))
}

fn with(headers: &[(&str, &str)]) -> Parts {
    let request = headers.iter().fold(Request::get("/"), |request, (name, value)| {
        request.header(*name, *value)
    });
    parts(request)
}

/// The key of a request, or what else was drawn.
fn draw(extractor: &impl KeyExtractor, parts: &Parts) -> Result<Vec<u8>, Drawn> {
    let mut key = KeyBuf::new();
    match extractor.draw(parts, &mut key) {
        Drawn::Key => Ok(key.as_bytes().to_vec()),
        other => Err(other),
    }
}

#[test]
fn headers_in_any_case_of_the_name() {
    let a = draw(&Header::new("X-User-Id"), &with(&[("x-user-ID", "Ann")])).unwrap();
    assert_eq!(
        a,
        draw(&Header::new("x-user-id"), &with(&[("X-USER-ID", "Ann")])).unwrap()
    );
    assert_ne!(
        a,
        draw(&Header::new("x-user-id"), &with(&[("x-user-id", "ann")])).unwrap()
    );
    let ignoring = Header::new("x-user-id").ignore_case();
    assert_eq!(
        draw(&ignoring, &with(&[("x-user-id", "ANN-Ä")])).unwrap(),
        draw(&ignoring, &with(&[("x-user-id", "ann-Ä")])).unwrap()
    );
    assert_eq!(draw(&Header::new("x-user-id"), &with(&[])), Err(Drawn::Missing));
    assert_eq!(
        draw(&Header::new("x-user-id"), &with(&[("x-user-id", "")])),
        Err(Drawn::Missing)
    );
    // Bytes that are no text are bytes all the same; further lines mint nothing.
    let mut bytes = get("/");
    bytes
        .headers
        .insert("x-user-id", HeaderValue::from_bytes(b"\xff\xfe").unwrap());
    assert!(draw(&Header::new("x-user-id"), &bytes).is_ok());
    let twice = with(&[("x-user-id", "Ann"), ("x-user-id", "other")]);
    assert_eq!(draw(&Header::new("x-user-id"), &twice).unwrap(), a);
}

/// A lower-case letter may be a byte of an address, or of a number.
#[test]
fn ignoring_case_leaves_bytes_alone() {
    let by = Header::new("x-user-id").or(PeerIp::new()).ignore_case();
    let key = |address: &str| draw(&by, &from(address.parse().unwrap(), &[])).unwrap();
    assert_ne!(key("10.0.0.65"), key("10.0.0.97"));
    let number = (|parts: &Parts| parts.uri.path().len() as u64 + 64).ignore_case();
    assert_ne!(draw(&number, &get("/")), draw(&number, &get(&"/".repeat(33))));
}

/// An address from a middleware counts as the peer's does: one client has all of its /64.
#[test]
fn an_address_is_grouped_wherever_it_comes_from() {
    let by = Extension::<IpAddr>::new();
    let key = |address: &str| {
        let mut parts = get("/");
        parts.extensions.insert(address.parse::<IpAddr>().unwrap());
        draw(&by, &parts).unwrap()
    };
    assert_eq!(key("2001:db8::1"), key("2001:db8::2"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
    assert_ne!(key("192.0.2.2"), key("192.0.2.1"));
}

/// What an extractor does to its buffer is its own affair.
#[test]
fn a_buffer_that_was_taken_away_is_no_panic() {
    let taker = from_fn(|_: &Parts, key: &mut KeyBuf| {
        *key = KeyBuf::new();
        Drawn::Key
    });
    assert!(draw(&(Path, taker).ignore_case(), &get("/")).is_ok());
}

#[test]
fn extractors_chosen_at_run_time() {
    let by: Box<dyn KeyExtractor> = if cfg!(test) { Box::new(Path) } else { Box::new(Global) };
    assert!(draw(&(by, Global), &get("/")).is_ok());
}

#[test]
fn parts_never_run_together() {
    let pair = (Header::new("a"), Header::new("b"));
    let one = draw(&pair, &with(&[("a", "a:b"), ("b", "c")])).unwrap();
    let other = draw(&pair, &with(&[("a", "a"), ("b", "b:c")])).unwrap();
    assert_ne!(one, other);
    // An extractor may push several parts; the next one's must not pass for its own.
    let many = from_fn(|parts: &Parts, key: &mut KeyBuf| {
        parts.uri.path().split('/').for_each(|part| key.push(part.as_bytes()));
        Drawn::Key
    });
    let both = (many, Header::new("a"));
    let one = draw(&both, &parts(Request::get("/x/y").header("a", "z"))).unwrap();
    let pushed_twice = from_fn(|_: &Parts, key: &mut KeyBuf| {
        ["y", "z"].iter().for_each(|part| key.push(part.as_bytes()));
        Drawn::Key
    });
    let just_x = from_fn(|_: &Parts, key: &mut KeyBuf| {
        ["", "x"].iter().for_each(|part| key.push(part.as_bytes()));
        Drawn::Key
    });
    assert_ne!(one, draw(&(just_x, pushed_twice), &get("/")).unwrap());
}

#[test]
fn a_missing_part_is_marked_and_the_others_count() {
    let pair = (Header::new("user"), Path);
    let draw_pair = |parts: &Parts| {
        let mut key = KeyBuf::new();
        (pair.draw(parts, &mut key), key.as_bytes().to_vec())
    };
    let (drawn, anonymous) = draw_pair(&get("/a"));
    assert_eq!(drawn, Drawn::Partial);
    assert_eq!(anonymous, draw_pair(&get("/a")).1, "anonymous users share per path");
    assert_ne!(anonymous, draw_pair(&get("/b")).1);
    assert_ne!(
        anonymous,
        draw_pair(&parts(Request::get("/a").header("user", "missing"))).1
    );
    assert_eq!(
        draw(&(Header::new("a"), Header::new("b")), &get("/")),
        Err(Drawn::Missing)
    );
    let exempt = from_fn(|_: &Parts, _: &mut KeyBuf| Drawn::Exempt);
    assert_eq!(
        draw(&(Header::new("a"), exempt, Path), &get("/")),
        Err(Drawn::Exempt),
        "exempt wins"
    );
}

#[test]
fn or_marks_its_side() {
    let by = Header::new("client").or(PeerIp::new());
    let mut peer = get("/");
    peer.extensions.insert("192.0.2.1:99".parse::<SocketAddr>().unwrap());
    let octets = from_fn(|_: &Parts, key: &mut KeyBuf| {
        key.push(&[192, 0, 2, 1]);
        Drawn::Key
    })
    .or(Global);
    assert_ne!(
        draw(&by, &peer),
        draw(&octets, &peer),
        "a header that says the address is not the address"
    );
    assert!(draw(&by, &with(&[("client", "x")])).is_ok());
    assert_eq!(draw(&by, &get("/")), Err(Drawn::Missing));
    // Where a part is missing the other side is tried, and half a key is better than none.
    let halves = (Header::new("a"), Path).or(Header::new("b"));
    assert!(draw(&halves, &with(&[("b", "x")])).is_ok());
    assert_eq!(draw(&halves, &get("/")), Err(Drawn::Partial));
}

#[test]
fn closures_and_extensions() {
    #[derive(Clone)]
    struct User {
        id: u64,
    }

    let by_query = |parts: &Parts| parts.uri.query().map(str::to_owned);
    assert_ne!(draw(&by_query, &get("/?a")), draw(&by_query, &get("/?b")));
    assert_eq!(draw(&by_query, &get("/")), Err(Drawn::Missing));
    let by_user = Extension::by(|user: &User| user.id);
    let mut parts = get("/");
    assert_eq!(draw(&by_user, &parts), Err(Drawn::Missing));
    parts.extensions.insert(User { id: 7 });
    parts.extensions.insert("text".to_owned());
    assert!(draw(&by_user, &parts).is_ok());
    assert!(draw(&Extension::<String>::new(), &parts).is_ok());
}

#[test]
fn paths_and_routes() {
    assert_eq!(
        draw(&Path, &get("/a?x=1")),
        draw(&Path, &get("/a?x=2")),
        "the query mints nothing"
    );
    assert_ne!(draw(&Path, &get("/a")), draw(&Path, &get("/b")));

    let routes = Routes::new(["/hello", "/users/{id}", "/files/{*rest}"]);
    let of = |method: &str, path: &str| draw(&routes, &parts(Request::builder().method(method).uri(path))).unwrap();
    assert_eq!(of("GET", "/users/1"), of("GET", "/users/2?x"));
    assert_eq!(of("HEAD", "/users/1"), of("GET", "/users/1"));
    assert_ne!(of("POST", "/users/1"), of("GET", "/users/1"));
    assert_eq!(
        of("BREW", "/users/1"),
        of("MINT", "/users/1"),
        "invented methods share a name"
    );
    assert_eq!(of("GET", "/files/a/b"), of("GET", "/files/c"));
    let nowhere = of("GET", "/nowhere");
    for path in [
        "/users",
        "/users/",
        "/users/1/",
        "/users/1/x",
        "/Hello",
        "/files/",
        "//hello",
    ] {
        assert_eq!(of("POST", path), nowhere, "{path} is no route");
    }
}

#[test]
fn nonsense_is_refused_with_a_sentence() {
    assert!(
        Header::try_new("no spaces")
            .unwrap_err()
            .to_string()
            .contains("not a header name")
    );
    for pattern in ["users", "", "/a{b}", "/{a", "/{}", "/{*}", "/{*rest}/more", "/{a}{b}"] {
        assert!(
            Routes::try_new([pattern])
                .unwrap_err()
                .to_string()
                .contains("not a path pattern"),
            "{pattern}"
        );
    }
    for network in [
        "10.0.0.0/33",
        "10.0.0/8",
        "::/129",
        "",
        "x",
        "10.0.0.0/-1",
        "10.0.0.0/8/8",
    ] {
        let error = ForwardedIp::forwarded().try_trust([network]).unwrap_err();
        assert!(error.to_string().contains("not a network"), "{network}");
    }
}

/// The key of a client at this address, with IPv6 whole.
fn key_of(address: &str) -> Vec<u8> {
    let address: IpAddr = address.parse().unwrap();
    draw(&PeerIp::new().ipv6_prefix(128), &from(address, &[])).unwrap()
}

/// A request from `peer` with these headers.
fn from(peer: IpAddr, headers: &[(&str, &str)]) -> Parts {
    let mut parts = with(headers);
    parts.extensions.insert(SocketAddr::new(peer, 1234));
    parts
}

#[test]
fn peers_are_grouped_as_they_should_be() {
    let key = |address: &str| draw(&PeerIp::new(), &from(address.parse().unwrap(), &[])).unwrap();
    assert_eq!(
        key("::ffff:192.0.2.1"),
        key("192.0.2.1"),
        "a dual-stack listener's clients"
    );
    assert_ne!(key("::ffff:192.0.2.1"), key("::ffff:192.0.2.2"), "are not all one");
    assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::"), "one network");
    assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    let wide = |address: &str| draw(&PeerIp::new().ipv6_prefix(56), &from(address.parse().unwrap(), &[])).unwrap();
    assert_eq!(wide("2001:db8:0:1::1"), wide("2001:db8:0:ff::1"));
    assert_ne!(wide("2001:db8:0:100::1"), wide("2001:db8:0:ff::1"));
    assert_eq!(draw(&PeerIp::new(), &get("/")), Err(Drawn::Missing));
}

#[cfg(feature = "axum")]
#[test]
fn axum_tells_the_peer_in_two_ways() {
    use axum::extract::ConnectInfo;
    use axum::extract::connect_info::MockConnectInfo;

    let address: SocketAddr = "192.0.2.1:80".parse().unwrap();
    let mut connected = get("/");
    connected.extensions.insert(ConnectInfo(address));
    let mut mocked = get("/");
    mocked.extensions.insert(MockConnectInfo(address));
    assert_eq!(draw(&PeerIp::new(), &connected).unwrap(), key_of("192.0.2.1"));
    assert_eq!(draw(&PeerIp::new(), &mocked).unwrap(), key_of("192.0.2.1"));
}

/// (peer, X-Forwarded-For lines, the client)
const FORWARDED: &[(&str, &[&str], &str)] = &[
    // An untrusted peer is the client, whatever it says.
    ("203.0.113.9", &["1.1.1.1"], "203.0.113.9"),
    ("10.0.0.1", &[], "10.0.0.1"),
    ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
    // Entries on the left are the client's own invention.
    ("10.0.0.1", &["1.1.1.1, 2.2.2.2, 198.51.100.7"], "198.51.100.7"),
    (
        "10.0.0.1",
        &["1.1.1.1", "2.2.2.2, 198.51.100.7", "10.0.0.2"],
        "198.51.100.7",
    ),
    ("10.0.0.1", &["198.51.100.7, 10.9.9.9 ,10.0.0.2"], "198.51.100.7"),
    // All are trusted: the last of them.
    ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
    // Ports, brackets, zones, mapped addresses.
    ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
    ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
    ("10.0.0.1", &["2001:db8::7"], "2001:db8::7"),
    ("10.0.0.1", &["fe80::7%eth0"], "fe80::7"),
    ("10.0.0.1", &["::ffff:198.51.100.7"], "198.51.100.7"),
    ("::ffff:10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
    ("10.0.0.1", &["198.51.100.7, ::ffff:10.0.0.2"], "198.51.100.7"),
    // What cannot be read ends the search.
    ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
    ("10.0.0.1", &["1.1.1.1, nonsense, 10.0.0.2"], "10.0.0.2"),
    ("10.0.0.1", &["1.1.1.1,,, ,198.51.100.7,,"], "198.51.100.7"),
];

#[test]
fn the_client_behind_trusted_networks() {
    let by = ForwardedIp::x_forwarded_for()
        .trust(["10.0.0.0/8", "fd00::/8"])
        .ipv6_prefix(128);
    for (peer, lines, client) in FORWARDED {
        let headers: Vec<_> = lines.iter().map(|line| ("x-forwarded-for", *line)).collect();
        let key = draw(&by, &from(peer.parse().unwrap(), &headers)).unwrap();
        assert_eq!(key, key_of(client), "{peer} {lines:?}");
    }
    assert_eq!(
        draw(&by, &with(&[("x-forwarded-for", "1.1.1.1")])),
        Err(Drawn::Missing),
        "no peer, no trust"
    );
}

#[test]
fn trust_adds_up_and_is_of_one_kind() {
    let by = ForwardedIp::x_forwarded_for()
        .trust(["10.0.0.0/8"])
        .trust(["::ffff:192.168.0.0/112"]);
    let hops = [("x-forwarded-for", "198.51.100.7, 192.168.0.1")];
    assert_eq!(
        draw(&by, &from("10.0.0.1".parse().unwrap(), &hops)).unwrap(),
        key_of("198.51.100.7")
    );
    let both = std::panic::catch_unwind(|| ForwardedIp::forwarded().trust(["10.0.0.0/8"]).trust_hops(1));
    assert!(both.is_err(), "the peer of a hop is not checked");
    assert!(std::panic::catch_unwind(|| ForwardedIp::forwarded().trust_hops(1).trust(["10.0.0.0/8"])).is_err());
}

#[test]
fn the_client_behind_forwarded() {
    let by = ForwardedIp::forwarded().trust(["10.0.0.0/8"]).ipv6_prefix(128);
    for (lines, client) in [
        (&["for=198.51.100.7"][..], "198.51.100.7"),
        (
            &["for=1.1.1.1, For=\"198.51.100.7:80\";proto=https;by=10.0.0.1"],
            "198.51.100.7",
        ),
        (
            &["for=1.1.1.1", "for=\"[2001:db8::7]:80\"", "for=10.0.0.2"],
            "2001:db8::7",
        ),
        (&["for=198.51.100.7;host=\"a,for=6.6.6.6\""], "198.51.100.7"),
        (&["for=198.51.100.7, for=unknown"], "10.0.0.1"),
        (&["for=198.51.100.7, for=_hidden"], "10.0.0.1"),
        (&["for=198.51.100.7, proto=https"], "10.0.0.1"),
        (&["for=\"198.51.100.7"], "10.0.0.1"),
    ] {
        let headers: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
        let mut parts = from("10.0.0.1".parse().unwrap(), &headers);
        parts
            .headers
            .insert("x-forwarded-for", HeaderValue::from_static("9.9.9.9"));
        assert_eq!(
            draw(&by, &parts).unwrap(),
            key_of(client),
            "{lines:?}; one header, never two"
        );
    }
}

#[test]
fn the_client_behind_so_many_hops() {
    let lines = [("x-forwarded-for", "1.1.1.1, 2.2.2.2"), ("x-forwarded-for", "3.3.3.3")];
    let peer = || from("203.0.113.9".parse().unwrap(), &lines);
    for (hops, client) in [(1, "3.3.3.3"), (2, "2.2.2.2"), (3, "1.1.1.1"), (4, "1.1.1.1")] {
        let by = ForwardedIp::x_forwarded_for().trust_hops(hops);
        assert_eq!(draw(&by, &peer()).unwrap(), key_of(client), "{hops} hops");
    }
    let by = ForwardedIp::x_forwarded_for().trust_hops(2);
    let broken = from(
        "203.0.113.9".parse().unwrap(),
        &[("x-forwarded-for", "1.1.1.1, x, 3.3.3.3")],
    );
    assert_eq!(draw(&by, &broken).unwrap(), key_of("3.3.3.3"));
    assert_eq!(
        draw(&by, &from("203.0.113.9".parse().unwrap(), &[])).unwrap(),
        key_of("203.0.113.9")
    );
    let one = ForwardedIp::header(HeaderName::from_static("cf-connecting-ip")).trust_hops(1);
    assert_eq!(
        draw(&one, &with(&[("cf-connecting-ip", "198.51.100.7")])).unwrap(),
        key_of("198.51.100.7")
    );
}

/// However much a client sends, the answer is right and the work the same.
#[test]
fn a_header_of_ten_thousand_entries() {
    let by = ForwardedIp::x_forwarded_for().trust(["10.0.0.0/8"]);
    let peer: IpAddr = "10.0.0.1".parse().unwrap();
    let spoofed = "1.1.1.1, ".repeat(10_000);
    let line = format!("{spoofed}198.51.100.7");
    assert_eq!(
        draw(&by, &from(peer, &[("x-forwarded-for", &line)])).unwrap(),
        key_of("198.51.100.7")
    );
    // Addresses that are trusted, without end: the search ends after 32, with one of them.
    let trusted = format!("198.51.100.7, {}10.0.0.2", "10.0.0.3, ".repeat(10_000));
    assert_eq!(
        draw(&by, &from(peer, &[("x-forwarded-for", &trusted)])).unwrap(),
        key_of("10.0.0.3")
    );
    // One element without end is none.
    let endless = "1".repeat(100_000);
    assert_eq!(
        draw(&by, &from(peer, &[("x-forwarded-for", &endless)])).unwrap(),
        key_of("10.0.0.1")
    );
    // Commas without end are elements too.
    let commas = format!("198.51.100.7{}", ",".repeat(100_000));
    assert_eq!(
        draw(&by, &from(peer, &[("x-forwarded-for", &commas)])).unwrap(),
        key_of("10.0.0.1")
    );
    let lines = vec![("x-forwarded-for", "10.0.0.3"); 5_000];
    assert_eq!(draw(&by, &from(peer, &lines)).unwrap(), key_of("10.0.0.3"));
}

proptest::proptest! {
    /// Whatever is written as a pattern is read or refused, and whatever is asked for matches or does not.
    #[test]
    fn no_pattern_and_no_path_makes_it_panic(pattern in "[/{}*a-c]{0,20}", path in "[/{}*a-c%?]{0,30}") {
        if let Ok(pattern) = tower_throttle::key::PathPattern::try_new(&pattern) {
            let _ = pattern.matches(&path);
            if !pattern.as_str().contains('{') {
                assert!(pattern.matches(pattern.as_str()), "a pattern without names is a path");
            }
        }
    }

    /// Two elements that pushed anything, in whatever portions, never give the key of two others.
    #[test]
    fn tuples_tell_their_elements_apart(
        a in proptest::collection::vec("[ab]{0,2}", 0..3), b in proptest::collection::vec("[ab]{0,2}", 0..3),
        c in proptest::collection::vec("[ab]{0,2}", 0..3), d in proptest::collection::vec("[ab]{0,2}", 0..3),
    ) {
        let pushing = |parts: Vec<String>| {
            from_fn(move |_: &Parts, key: &mut KeyBuf| {
                parts.iter().for_each(|part| key.push_text(part.as_bytes()));
                Drawn::Key
            })
        };
        let same = (&a, &b) == (&c, &d);
        let one = draw(&(pushing(a), pushing(b)), &get("/"));
        let other = draw(&(pushing(c), pushing(d)), &get("/"));
        assert_eq!(one == other, same);
    }
}
