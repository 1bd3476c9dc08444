//! The script by its calling convention, `lua/README.md`: what the store does not use yet.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::redis::Server;

const TEXT: &str = concat!(
    include_str!("../lua/account.lua"),
    include_str!("../lua/accounts.lua"),
    include_str!("../lua/token_bucket.lua"),
    include_str!("../lua/fixed_window.lua"),
    include_str!("../lua/weighted_window.lua"),
    include_str!("../lua/trail.lua"),
    include_str!("../lua/throttle.lua"),
);

/// Two per minute by each algorithm: its id, and the numbers of the quota.
const QUOTAS: [(&str, &str); 6] = [
    ("t0", "1 30000000 60000000 1"),
    ("s0", "1 30000000 60000000 1 30000000 0"),
    ("f0", "2 60000000"),
    ("o0", "2 60000000"),
    ("w0", "2 60000000 1"),
    ("r0", "2 10000000 5"),
];

/// What the two first numbers told of each charge are.
fn answers_and_remaining(told: &[Vec<u64>]) -> Vec<(u64, u64)> {
    told.iter().map(|told| (told[0], told[1])).collect()
}

/// Calls it with requests, each of them words; what is told of all their charges.
fn call(connection: &mut redis::Connection, requests: &[String]) -> Vec<Vec<u64>> {
    let script = redis::Script::new(TEXT);
    let mut call = script.key("a");
    call.key("b").arg("1800000000000000,60000");
    for word in requests.iter().flat_map(|request| request.split(' ')) {
        call.arg(word);
    }
    let reply: Vec<u64> = call.invoke(connection).unwrap();
    assert_eq!(reply[..2], [1_800_000_000_000_000, 0]);
    reply[2..].chunks(6).map(<[u64]>::to_vec).collect()
}

/// Requests in one call are decided one after another, each all or nothing, and see what those before them charged.
#[test]
fn several_requests_in_one_call() {
    let server = Server::start();
    let mut connection = server.connection();
    for (id, numbers) in QUOTAS {
        let () = server.ask(&["FLUSHALL"]);
        let (a, b) = (format!("{id} 1 1 {numbers}"), format!("{id} 2 1 {numbers}"));
        let requests = [
            format!("2 {a} {b}"),
            format!("1 {a}"),
            format!("2 {a} {b}"),
            format!("1 {b}"),
            format!("1 {b}"),
        ];
        let told = call(&mut connection, &requests);
        let refused_by_a = [(1, 0), (0, 1)];
        let expected = [&[(0, 1), (0, 1), (0, 0)][..], &refused_by_a, &[(0, 0), (1, 0)]].concat();
        assert_eq!(answers_and_remaining(&told), expected, "{id}");

        // What the fourth took is given back, and taken again, once.
        let (mark, born) = (told[5][4], told[5][5]);
        let given = format!("-1 {id} 2 1 {mark} {born} {numbers}");
        let told = call(&mut connection, &[given, format!("1 {b}"), format!("1 {b}")]);
        assert_eq!(answers_and_remaining(&told), [(0, 1), (0, 0), (1, 0)], "{id}");
    }
}
