//! What a decision costs the Redis server, beside the least that any script of its shape must do.
//!
//! ```text
//! cargo bench --bench redis_cost --features redis
//! ```
//!
//! An admitted decision on three tiers with existing keys, against a script that does nothing but read three keys with one
//! `MGET` and write them with three `SET … PX`, and between the two what a script must do besides to decide anything
//! at all, piece by piece. All on one server in one run, in turns; the figures are the server's own, microseconds per
//! `EVALSHA` from `INFO commandstats`, and the least of all rounds.

#![allow(clippy::print_stdout, reason = "a benchmark tells what it measured")]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::Duration;

use redis::Script;
use support::redis::{PATIENT, Server, ask};
use tower_throttle::Quota;
use tower_throttle::store::{Asked, Charge, MemoryStore, RedisStore, Store, TierId};

const ROUNDS: usize = 15;
const CALLS: usize = 4_000;
const KEYS: u64 = 50_000;

/// The least, and then one piece more in each line; none of them decides anything.
const PIECES: [(&str, &str); 6] = [
    (
        "MGET and three SET PX",
        "local values = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
         redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
         redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2])
         local reply = {}",
    ),
    (
        "+ 20 numbers told",
        "for index = 1, 20 do reply[index] = 1784722081827551 end",
    ),
    ("+ the time read", "local time = redis.call('TIME')"),
    (
        "+ 18 arguments read",
        "local sum = 0
         for index = 3, 20 do sum = sum + ARGV[index] end",
    ),
    (
        "+ three values read",
        "for index = 1, 3 do
             local _, _, id, at, reset, born, x, y = string.find(values[index],
                 '^(%w+)=(%d+),(%d+),(%-?%d+),(%-?%d+),(%d+),(%d*);')
             sum = sum + at + reset + born + x + y
         end",
    ),
    (
        "+ three values made",
        "for index = 1, 3 do
             local value = string.format('%s=%d,%d,%d,%d,%d,;', 't0', time[1] * 1000000 + time[2], 5000000, 0, 5000000, 0)
             local ttl = string.format('%d', 60000 + index)
         end",
    ),
];

fn main() {
    let server = Server::start();
    let mut connection = server.connection();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let hour = Duration::from_secs(3_600);
    let token_bucket = Quota::new(1_000_000_000, hour);
    let kinds = [
        ("token bucket", token_bucket),
        ("token bucket in steps", token_bucket.in_steps(hour / 3_600)),
        ("fixed window", Quota::new(1_000_000_000, hour).fixed_window()),
        ("weighted window", Quota::new(1_000_000, hour).weighted_window()),
        (
            "sliding window of 60",
            Quota::new(1_000_000_000, hour).sliding_window(60),
        ),
        (
            "sliding log of 10,000",
            Quota::new(10_000, Duration::from_secs(1)).sliding_log(),
        ),
    ];

    let mut pieces = PIECES.map(|_| f64::INFINITY);
    let mut costs = kinds.map(|_| f64::INFINITY);
    for _ in 0..ROUNDS {
        for (nth, cost) in pieces.iter_mut().enumerate() {
            *cost = cost.min(of_pieces(&server, &mut connection, nth));
        }
        for ((_, quota), cost) in kinds.iter().zip(&mut costs) {
            *cost = cost.min(runtime.block_on(of_decision(&server, *quota)));
        }
    }
    println!("us of the server per EVALSHA of three tiers, least of {ROUNDS} rounds of {CALLS}:");
    let least = pieces[0];
    let names = PIECES
        .iter()
        .map(|(name, _)| name)
        .chain(kinds.iter().map(|(name, _)| name));
    for (name, cost) in names.zip(pieces.into_iter().chain(costs)) {
        println!("  {name:<24}{cost:>7.2}{:>7.2} x", cost / least);
    }
    println!("bytes of the server's memory for each key, {KEYS} of them, one charge each:");
    let day = Quota::per_day(10);
    let kept = [
        ("token bucket", day),
        ("fixed window", day.fixed_window()),
        ("weighted window", day.weighted_window()),
        ("sliding log of one entry", day.sliding_log()),
    ];
    for (name, quota) in kept {
        println!("  {name:<24}{:>7}", runtime.block_on(memory_of_key(&server, quota)));
    }
}

async fn memory_of_key(server: &Server, quota: Quota) -> u64 {
    let mut connection = server.connection();
    let () = ask(&mut connection, &["FLUSHALL"]);
    let used = |connection: &mut redis::Connection| -> u64 {
        let info: String = ask(connection, &["INFO", "memory"]);
        let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        line.unwrap().trim().parse().unwrap()
    };
    let before = used(&mut connection);
    let store = RedisStore::new(server.url())
        .unwrap()
        .deadline(PATIENT)
        .local(MemoryStore::new().max_keys(1));
    let tier = TierId::new("", "user");
    for key in 0..KEYS {
        match store.charge(&[Charge::new(&tier, &key.to_be_bytes(), &quota)]) {
            Asked::Later(outcome) => assert!(outcome.await.is_charged()),
            Asked::Now(_) => panic!("Redis was not asked"),
        }
    }
    (used(&mut connection) - before) / KEYS
}

/// What the first piece and the `nth` after it cost.
fn of_pieces(server: &Server, connection: &mut redis::Connection, nth: usize) -> f64 {
    let mut text: String = PIECES[..=nth].iter().flat_map(|(_, piece)| [piece, "\n"]).collect();
    text.push_str("return reply");
    let script = Script::new(&text);
    let value = "t0=1784722081827551,5000000,0,5000000,0,;";
    let call = |connection: &mut redis::Connection| {
        let mut invocation = script.prepare_invoke();
        for tier in ["a", "b", "c"] {
            invocation.key(format!("throttle::{tier}:{{AAAAAAAAAAAAAAAAAAAAAAAA}}"));
        }
        invocation.arg(value).arg(60_000);
        for number in 0..if nth < 3 { 0 } else { 18 } {
            invocation.arg(number);
        }
        let _: Vec<u64> = invocation.invoke(connection).unwrap();
    };
    call(connection);
    measured(server, || (0..CALLS).for_each(|_| call(connection)))
}

async fn of_decision(server: &Server, quota: Quota) -> f64 {
    let store = RedisStore::new(server.url()).unwrap().deadline(PATIENT);
    let tiers = ["user", "endpoint", "global"].map(|name| TierId::new("", name));
    let charges = [0, 1, 2].map(|nth| Charge::new(&tiers[nth], b"some key", &quota));
    let charge = async || match store.charge(&charges) {
        Asked::Later(outcome) => assert!(outcome.await.is_charged()),
        Asked::Now(_) => panic!("Redis was not asked"),
    };
    charge().await;
    let mut connection = server.connection();
    let () = ask(&mut connection, &["CONFIG", "RESETSTAT"]);
    for _ in 0..CALLS {
        charge().await;
    }
    usec_per_call(&mut connection)
}

fn measured(server: &Server, calls: impl FnOnce()) -> f64 {
    let mut connection = server.connection();
    let () = ask(&mut connection, &["CONFIG", "RESETSTAT"]);
    calls();
    usec_per_call(&mut connection)
}

fn usec_per_call(connection: &mut redis::Connection) -> f64 {
    let info: String = ask(connection, &["INFO", "commandstats"]);
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    let figure = line.split("usec_per_call=").nth(1).unwrap().split(',').next().unwrap();
    figure.parse().unwrap()
}
