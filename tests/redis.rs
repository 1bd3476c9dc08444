//! Redis for real: a server of the test's own, its clock, its failures.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::HashMap;
use std::time::Duration;

#[cfg(feature = "redis-tls")]
use support::redis::Folder;
use support::redis::{PATIENT, Sentinel, Server, ask, free_port, until};
use support::{Random, outcome};
use tokio::task::JoinSet;
use tower_throttle::Quota;
use tower_throttle::store::{Answer, Asked, Charge, FailureMode, Outcome, RedisStore, Source, Store, TierId};

const MINUTE: Duration = Duration::from_secs(60);

fn store(server: &Server) -> RedisStore {
    RedisStore::new(server.url()).unwrap().deadline(PATIENT)
}

/// Charges again and again, until it is decided so.
async fn until_charged(what: &str, store: &RedisStore, charge: &[Charge<'_>], is_so: impl Fn(&Outcome) -> bool) {
    let start = std::time::Instant::now();
    while !is_so(&outcome(store.charge(charge)).await) {
        assert!(start.elapsed() < PATIENT, "{what}: not within {PATIENT:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn source(outcome: &Outcome) -> Source {
    outcome.decisions()[0].source()
}

/// One of each algorithm, with a limit that neither refills nor rolls over during a test.
fn lasting(limit: u64) -> Vec<Quota> {
    let quota = Quota::new(limit, Duration::from_secs(40 * 86_400));
    vec![
        quota,
        quota.in_steps(Duration::from_secs(40 * 86_400)),
        quota.fixed_window_from_first(),
        quota.sliding_window(10),
        quota.weighted_window(),
        quota.sliding_log(),
    ]
}

fn tiers() -> [TierId; 3] {
    ["user", "endpoint", "global"].map(|name| TierId::new("", name))
}

/// What the server was asked since its statistics were reset, by command.
fn commands(server: &Server) -> HashMap<String, u64> {
    let info: String = server.ask(&["INFO", "commandstats"]);
    let lines = info.lines().filter_map(|line| line.strip_prefix("cmdstat_"));
    lines
        .map(|line| {
            let (command, figures) = line.split_once(":calls=").unwrap();
            (command.to_owned(), figures.split(',').next().unwrap().parse().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn three_tiers_are_one_call() {
    let server = Server::start();
    let store = store(&server);
    store.connected().await.unwrap();
    assert_eq!(store.stats().script_loads, 1);
    let () = server.ask(&["CONFIG", "RESETSTAT"]);

    let (tiers, quota) = (tiers(), Quota::new(1_000, MINUTE));
    let charges = [0, 1, 2].map(|nth| Charge::new(&tiers[nth], b"key", &quota));
    for _ in 0..100 {
        assert!(outcome(store.charge(&charges)).await.is_charged());
    }
    let mut commands = commands(&server);
    for own in ["config|resetstat", "info", "client|setinfo"] {
        commands.remove(own);
    }
    let expected = [("evalsha", 100), ("time", 100), ("mget", 100), ("set", 300)];
    assert_eq!(
        commands,
        expected.map(|(command, calls)| (command.to_owned(), calls)).into()
    );
}

#[tokio::test]
async fn a_flood_of_refusals_costs_two_calls_a_second() {
    let server = Server::start();
    let store = store(&server);
    let (tiers, quota) = (tiers(), Quota::new(1, Duration::from_secs(3_600)));
    let charges = [0, 1, 2].map(|nth| Charge::new(&tiers[nth], b"key", &quota));
    assert!(outcome(store.charge(&charges)).await.is_charged());
    let () = server.ask(&["CONFIG", "RESETSTAT"]);

    let start = std::time::Instant::now();
    let mut remembered = 0;
    for _ in 0..1_000 {
        let outcome = outcome(store.charge(&charges)).await;
        assert_eq!(outcome.decisions()[0].answer(), Answer::Refuses);
        remembered += u64::from(source(&outcome) == Source::Remembered);
    }
    let seconds = start.elapsed().as_secs();
    let commands = commands(&server);
    assert!(commands["evalsha"] <= 2 + seconds, "{commands:?}");
    assert_eq!(commands["evalsha"] + remembered, 1_000);
    assert_eq!(commands.get("set"), None, "refusals write nothing");
    assert_eq!(commands.get("script|load"), None);
}

/// Many tasks, several stores, one server: exactly the quota, for each algorithm.
#[tokio::test(flavor = "multi_thread")]
async fn exactly_the_quota_is_admitted_of_many() {
    let server = Server::start();
    for (nth, quota) in lasting(100).into_iter().enumerate() {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let store = store(&server);
            for _ in 0..8 {
                let store = store.clone();
                tasks.spawn(async move {
                    let tier = TierId::new("", "tier");
                    let key = [nth as u8];
                    let mut admitted = 0;
                    for _ in 0..10 {
                        let outcome = outcome(store.charge(&[Charge::new(&tier, &key, &quota)])).await;
                        assert_ne!(source(&outcome), Source::Local, "{:?}", store.last_error());
                        admitted += u64::from(outcome.is_charged());
                    }
                    admitted
                });
            }
        }
        let admitted: u64 = tasks.join_all().await.iter().sum();
        assert_eq!(admitted, 100, "{quota:?}");
    }
}

/// Futures dropped at any time, under load: all of the charges or none.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_call_leaves_all_charges_or_none() {
    let server = Server::start();
    let store = store(&server).remembered_refusals(0);
    store.connected().await.unwrap();
    let mut tasks = JoinSet::new();
    for seed in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            let (tiers, quota) = (tiers(), lasting(1_000_000)[0]);
            let mut random = Random::new(seed);
            for _ in 0..100 {
                let charges = [0, 1, 2].map(|nth| Charge::new(&tiers[nth], b"key", &quota));
                let patience = Duration::from_micros(random.below(3_000));
                let _ = tokio::time::timeout(patience, outcome(store.charge(&charges))).await;
            }
        });
    }
    tasks.join_all().await;
    let (tiers, quota) = (tiers(), lasting(1_000_000)[0]);
    let looks = [0, 1, 2].map(|nth| Charge::new(&tiers[nth], b"key", &quota).cost(0));
    let looks = outcome(store.charge(&looks)).await;
    let left: Vec<_> = looks.decisions().iter().map(|decision| decision.remaining()).collect();
    assert!(
        left[0] < 1_000_000 && left.iter().all(|of_tier| *of_tier == left[0]),
        "{left:?}"
    );
}

/// The told wait, by the server's own clock.
#[tokio::test]
async fn the_told_wait_is_true() {
    let server = Server::start();
    let store = store(&server);
    let tier = TierId::new("", "tier");
    let quota = Quota::new(20, Duration::from_secs(2));
    for quota in [
        quota.burst(1),
        Quota::one_every(Duration::from_millis(150)).sliding_log(),
    ] {
        let charge = [Charge::new(&tier, b"key", &quota)];
        assert!(outcome(store.charge(&charge)).await.is_charged());
        for _ in 0..5 {
            let refused = outcome(store.charge(&charge)).await;
            // A slow machine may have waited already.
            if !refused.is_charged() {
                let wait = refused.decisions()[0].retry_after().unwrap();
                tokio::time::sleep(wait).await;
                assert!(outcome(store.charge(&charge)).await.is_charged(), "{quota:?}");
            }
        }
    }
}

#[tokio::test]
async fn keys_of_any_bytes_work() {
    let server = Server::start();
    for readable in [false, true] {
        let store = store(&server)
            .readable_keys(readable)
            .prefix(format!("{{p}} {readable}"));
        let tier = TierId::new("{n}", "{t} x");
        let long = vec![b'x'; 10_000];
        let keys: [&[u8]; 8] = [b"", b"{", b"}", b"{}", b"{a}b", b"\0", b"\xff\xfe", &long];
        for quota in [Quota::new(2, MINUTE), Quota::new(2, MINUTE).sliding_log()] {
            for key in keys {
                let charge = [Charge::new(&tier, key, &quota)];
                for admitted in [true, true, false] {
                    let outcome = outcome(store.charge(&charge)).await;
                    assert_eq!(
                        (outcome.is_charged(), source(&outcome)),
                        (admitted, Source::Store),
                        "{key:?}"
                    );
                }
            }
        }
    }
    let names: Vec<String> = server.ask(&["KEYS", "*"]);
    assert_eq!(names.len(), 2 * 2 * 8);
    assert!(names.iter().all(|name| name.matches('{').count() == 1), "{names:?}");
    let hashed = names.iter().filter(|name| name.starts_with("%7bp%7d%20false"));
    assert!(
        hashed.clone().count() == 16 && hashed.clone().all(|name| !name.contains("xxxx")),
        "{names:?}"
    );
}

/// Promise: every key has a TTL at all times, and after the longest reset there is none.
#[tokio::test]
async fn every_key_expires() {
    let server = Server::start();
    let store = store(&server);
    let tiers = tiers();
    let quota = Quota::new(8, Duration::from_millis(400));
    let quotas = [
        quota,
        quota.in_steps(Duration::from_millis(100)),
        quota.fixed_window(),
        quota.fixed_window_from_first(),
        quota.sliding_window(4),
        quota.weighted_window(),
        quota.sliding_log(),
    ];
    let mut connection = server.connection();
    let mut random = Random::new(5);
    let mut longest = Duration::ZERO;
    for _ in 0..300 {
        let key = [random.below(5) as u8];
        let charges: Vec<_> = (0..3_u8)
            .flat_map(|nth| {
                let tier = &tiers[usize::from(nth)];
                let (one, other) = (random.below(7) as usize, random.below(7) as usize);
                [
                    Charge::new(tier, &key, &quotas[one]),
                    Charge::new(tier, &key, &quotas[other]).nth(1).cost(1),
                ]
            })
            .collect();
        let outcome = outcome(store.charge(&charges)).await;
        longest = outcome
            .decisions()
            .iter()
            .map(|decision| decision.reset_after())
            .max()
            .unwrap();
        let names: Vec<String> = ask(&mut connection, &["KEYS", "*"]);
        for name in names {
            let ttl: i64 = ask(&mut connection, &["PTTL", &name]);
            // It may have expired in between.
            assert!(ttl != -1 && ttl <= 1_000, "{name}: {ttl}");
        }
    }
    tokio::time::sleep(longest.max(Duration::from_millis(800))).await;
    until("the database is empty", || {
        ask::<u64>(&mut connection, &["DBSIZE"]) == 0
    })
    .await;
}

/// What others have written under our keys is removed, counted, and in nobody's way; what has lost its TTL too.
#[tokio::test]
async fn corrupt_values_are_healed() {
    let server = Server::start();
    let tier = TierId::new("", "tier");
    let mut connection = server.connection();
    let hash = "{%7f}";
    let texts = [
        "",
        "garbage",
        "t0=1,2,3;",
        "t0=99999999999999999999999999,1,0,0,0,;",
        "t0=1,1,1,1,1,1;t0",
        "t0=-1,1,1,1,1,1;",
        "t0=1.5,1,1,1,1,;",
        "\u{0}\u{0}",
    ];
    let quotas = [Quota::new(2, MINUTE), Quota::new(2, MINUTE).sliding_log()];
    for (nth, quota) in quotas.iter().enumerate() {
        let name = match nth {
            0 => format!("throttle::tier:{hash}"),
            _ => format!("throttle::tier:{hash}:r0x1x59999999"),
        };
        let charge = Charge::new(&tier, b"\x7f", quota);
        for text in texts {
            let store = store(&server).readable_keys(true).remembered_refusals(0);
            let () = ask(&mut connection, &["FLUSHALL"]);
            let () = ask(&mut connection, &["SET", &name, text]);
            let look = outcome(store.charge(&[charge.cost(0)])).await;
            assert_eq!(
                (look.decisions()[0].remaining(), source(&look)),
                (2, Source::Store),
                "{text:?}"
            );
            // Nothing is to be healed of an empty string but that it is there.
            if !(nth == 0 && text.is_empty()) {
                assert_eq!(store.stats().healed, 1, "{text:?} for {quota:?}");
                assert_eq!(ask::<u64>(&mut connection, &["EXISTS", &name]), 0, "{text:?}");
            }
            let outcomes = [true, true, false];
            for admitted in outcomes {
                assert_eq!(
                    outcome(store.charge(&[charge])).await.is_charged(),
                    admitted,
                    "{text:?}"
                );
            }
        }
        // Of another type.
        let store = store(&server).readable_keys(true).remembered_refusals(0);
        let () = ask(&mut connection, &["FLUSHALL"]);
        let _: u64 = ask(&mut connection, &["RPUSH", &name, "a"]);
        for admitted in [true, true, false] {
            assert_eq!(outcome(store.charge(&[charge])).await.is_charged(), admitted);
        }
        assert!(ask::<i64>(&mut connection, &["PTTL", &name]) > 0);
        // Without a TTL: the next charge sets one; and once it is over it is found by whoever looks.
        let () = ask(&mut connection, &["FLUSHALL"]);
        assert!(outcome(store.charge(&[charge])).await.is_charged());
        let _: u64 = ask(&mut connection, &["PERSIST", &name]);
        assert!(outcome(store.charge(&[charge])).await.is_charged());
        assert!(ask::<i64>(&mut connection, &["PTTL", &name]) > 0);
    }
    // A log of which entries are missing.
    let logged = store(&server).readable_keys(true).remembered_refusals(0);
    let long = Quota::new(8, Duration::from_secs(3_600)).sliding_log();
    let charge = Charge::new(&tier, b"\x7f", &long);
    for _ in 0..4 {
        assert!(outcome(logged.charge(&[charge])).await.is_charged());
    }
    let name = format!("throttle::tier:{hash}:r0x1x3599999999");
    let _: u64 = ask(&mut connection, &["HSET", &name, "3", "garbage"]);
    let healed = outcome(logged.charge(&[charge])).await;
    assert_eq!((healed.is_charged(), healed.decisions()[0].remaining()), (true, 7));
    assert_eq!(logged.stats().healed, 1);
    assert_eq!(outcome(logged.charge(&[charge])).await.decisions()[0].remaining(), 6);

    let store = store(&server).readable_keys(true);
    let old = "t0=1700000000000000,60000000,0,60000000,0,;";
    let () = ask(&mut connection, &["SET", &format!("throttle::tier:{hash}"), old]);
    let look = outcome(store.charge(&[Charge::new(&tier, b"\x7f", &quotas[0]).cost(0)])).await;
    assert_eq!(look.decisions()[0].remaining(), 2);
    assert_eq!(store.stats().healed, 1);
    assert_eq!(
        ask::<u64>(&mut connection, &["EXISTS", &format!("throttle::tier:{hash}")]),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flushed_script_is_invisible() {
    let server = Server::start();
    let store = store(&server);
    let (tier, quota) = (TierId::new("", "tier"), lasting(10_000)[0]);
    for round in 0..20 {
        let () = server.ask(&["SCRIPT", "FLUSH"]);
        let mut tasks = JoinSet::new();
        for _ in 0..16 {
            let (store, tier) = (store.clone(), tier.clone());
            tasks.spawn(async move { outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await });
        }
        for outcome in tasks.join_all().await {
            assert!(
                outcome.is_charged() && source(&outcome) == Source::Store,
                "{:?}",
                store.last_error()
            );
        }
        assert!(store.stats().script_loads <= 2 * (round + 1) + 1, "{:?}", store.stats());
    }
}

#[tokio::test]
async fn without_redis_it_starts_and_then_uses_it() {
    let port = free_port();
    let url = format!("redis://127.0.0.1:{port}");
    let store = RedisStore::new(&url).unwrap();
    assert!(RedisStore::connect(&url).await.unwrap_err().is_disconnected());
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(2, MINUTE));
    let charge = Charge::new(&tier, b"key", &quota);
    for admitted in [true, true, false] {
        let outcome = outcome(store.charge(&[charge])).await;
        assert_eq!((outcome.is_charged(), source(&outcome)), (admitted, Source::Local));
    }
    for (mode, source) in [
        (FailureMode::Allow, Source::Failed),
        (FailureMode::Deny, Source::Failed),
    ] {
        let outcome = outcome(store.charge(&[charge.on_failure(mode)])).await;
        assert_eq!(outcome.decisions()[0].source(), source);
    }
    assert!(store.is_down());

    let _server = Server::at(port);
    until("Redis decides", || !store.is_down()).await;
    let outcome = outcome(store.charge(&[charge])).await;
    assert_eq!(source(&outcome), Source::Store);
}

#[tokio::test]
async fn addresses_are_checked_where_they_are_given() {
    for wrong in [
        "",
        "127.0.0.1",
        "http://127.0.0.1",
        "redis://",
        "redis://host:port",
        "redis://h?protocol=resp9",
    ] {
        let error = RedisStore::new(wrong).unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("redis://host:6379"),
            "{wrong}: {error}"
        );
    }
    for cluster in [
        "redis-cluster://h:7000",
        "redis+cluster://:pw@h",
        "redis://:p,w@a:7000,b:7001,c:7002",
    ] {
        let error = RedisStore::new(cluster).unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains("Cluster"),
            "{cluster}: {error}"
        );
    }
    let none: [&str; 0] = [];
    assert!(RedisStore::sentinel(none, "mymaster").unwrap_err().is_config());
    let secret = RedisStore::new("redis://user:hunter2@127.0.0.1:1").unwrap();
    assert!(!format!("{secret:?}").contains("hunter2"));
}

/// A server that is part of a cluster answers, but not what we need: it says so at once.
#[tokio::test]
async fn a_cluster_is_recognised() {
    let server = Server::with(&["--cluster-enabled", "yes"]);
    let error = RedisStore::connect(server.url()).await.unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("Redis Cluster"),
        "{error}"
    );
}

/// The rights that the README lists are enough, and one less is an error that says so.
#[tokio::test]
async fn the_listed_rights_are_enough() {
    let server = Server::start();
    let rights = "+evalsha +script|load +time +mget +set +del +pttl +hget +hset +hdel +pexpire";
    let readme = include_str!("../README.md");
    assert!(
        readme.contains(&format!("~throttle:* {rights}")),
        "the README lists them"
    );
    let mut user = vec!["ACL", "SETUSER", "limiter", "on", ">secret", "~throttle:*"];
    user.extend(rights.split(' '));
    let () = server.ask(&user);
    let url = format!("redis://limiter:secret@127.0.0.1:{}", server.port);
    let store = RedisStore::connect(&url).await.unwrap().deadline(PATIENT);
    let tier = TierId::new("", "tier");
    for quota in lasting(3) {
        for admitted in [true, true, true, false] {
            let outcome = outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
            assert_eq!((outcome.is_charged(), source(&outcome)), (admitted, Source::Store));
        }
    }
    for right in ["evalsha", "set", "hset"] {
        let () = server.ask(&["ACL", "SETUSER", "limiter", &format!("-{right}")]);
        assert!(RedisStore::connect(&url).await.unwrap_err().is_denied(), "{right}");
        let () = server.ask(&["ACL", "SETUSER", "limiter", &format!("+{right}")]);
    }
    let error = RedisStore::connect(url.replace("secret", "wrong")).await.unwrap_err();
    assert!(error.is_denied(), "{error:?}");
}

/// Out of memory: a refusal is decided still, as it writes nothing; an admission fails, and charges nothing.
#[tokio::test]
async fn out_of_memory_is_a_failure() {
    let server = Server::start();
    let store = store(&server).remembered_refusals(0);
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(1, Duration::from_secs(3_600)));
    let deny = FailureMode::Deny;
    let (used, new) = (
        Charge::new(&tier, b"a", &quota),
        Charge::new(&tier, b"b", &quota).on_failure(deny),
    );
    assert!(outcome(store.charge(&[used])).await.is_charged());
    let () = server.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = outcome(store.charge(&[used, new])).await;
    assert_eq!(
        (refused.decisions()[0].answer(), source(&refused)),
        (Answer::Refuses, Source::Store)
    );
    for _ in 0..20 {
        let failed = outcome(store.charge(&[new])).await;
        assert_eq!(failed.decisions()[0].answer(), Answer::Failed);
    }
    // It answers, so it is neither down nor connected to anew.
    let stats = store.stats();
    assert_eq!((stats.server_errors, stats.outages, stats.connects), (20, 0, 1));
    let () = server.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(
        outcome(store.charge(&[new])).await.is_charged(),
        "nothing was charged before"
    );
}

/// At most so many calls wait; the others are decided at once.
#[tokio::test]
async fn calls_in_flight_are_bounded() {
    let server = Server::start();
    let store = store(&server).max_in_flight(4);
    store.connected().await.unwrap();
    server.signal("-STOP");
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota)];
    let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(outcome(store.charge(&charge)))).collect();
    for waits in &mut waiting {
        assert!(tokio::time::timeout(Duration::from_millis(1), waits).await.is_err());
    }
    let fifth = outcome(store.charge(&charge)).await;
    assert_eq!(source(&fifth), Source::Local);
    assert_eq!(store.stats().overload, 1);
    server.signal("-CONT");
    for waits in waiting {
        assert_eq!(source(&waits.await), Source::Store);
    }
    assert_eq!(source(&outcome(store.charge(&charge)).await), Source::Store);
}

/// A runtime takes its connections along when it ends; the store goes on in another.
#[test]
fn a_store_outlives_its_runtime() {
    let server = Server::start();
    let store = store(&server);
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(100, MINUTE));
    let charge = [Charge::new(&tier, b"key", &quota)];
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            // The first may meet the old connection.
            let _ = outcome(store.charge(&charge)).await;
            assert_eq!(source(&outcome(store.charge(&charge)).await), Source::Store);
        });
    }
    // And without any it fails, rather than panics.
    let Asked::Later(without) = store.charge(&charge) else {
        panic!("it is not known to be down");
    };
    let mut without = std::pin::pin!(without);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(without.as_mut().poll(&mut context).is_ready());
}

/// With a certificate of the test's own, which a client is handed in with.
#[cfg(feature = "redis-tls")]
#[tokio::test]
async fn over_tls() {
    let folder = Folder::new();
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let port = free_port().to_string();
    let _server = Server::with(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    let certificates = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(cert.pem().into_bytes()),
    };
    let client = redis::Client::build_with_tls(url.as_str(), certificates).unwrap();
    let store = RedisStore::with_client(client).deadline(PATIENT);
    store.connected().await.unwrap();
    let (tier, quota) = (TierId::new("", "tier"), Quota::new(1, MINUTE));
    for admitted in [true, false] {
        let outcome = outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
        assert_eq!((outcome.is_charged(), source(&outcome)), (admitted, Source::Store));
    }
    // A certificate that nobody vouches for is an error, not a connection.
    assert!(RedisStore::connect(&url).await.is_err());
}

/// The new master is found by itself, also if the old one is still there and has become a replica.
#[tokio::test]
async fn a_failover_is_followed() {
    let mut sentinel = Sentinel::start();
    let store = RedisStore::sentinel([sentinel.url()], Sentinel::MASTER)
        .unwrap()
        .deadline(PATIENT);
    store.connected().await.unwrap();
    let (tier, quota) = (TierId::new("", "tier"), lasting(1_000)[0]);
    let charge = [Charge::new(&tier, b"key", &quota)];
    assert!(outcome(store.charge(&charge)).await.is_charged());
    let on_master: u64 = sentinel.master.ask(&["DBSIZE"]);
    assert_eq!(on_master, 1);

    let () = sentinel.sentinel.ask(&["SENTINEL", "FAILOVER", Sentinel::MASTER]);
    until("the replica is promoted", || sentinel.has_failed_over()).await;
    // For a moment the old master does not know it yet.
    until_charged("it is followed", &store, &charge, |outcome| {
        let clients: Option<String> = sentinel.replica.look(&["CLIENT", "LIST"]);
        source(outcome) == Source::Store && clients.is_some_and(|clients| clients.contains("cmd=evalsha"))
    })
    .await;
    sentinel.master.kill();
    assert_eq!(source(&outcome(store.charge(&charge)).await), Source::Store);
}

/// A replica answers, but does not write: that is an outage, and ends when it is a master.
#[tokio::test]
async fn a_replica_is_of_no_use_until_it_is_promoted() {
    let server = Server::start();
    let store = store(&server);
    store.connected().await.unwrap();
    let (tier, quota) = (TierId::new("", "tier"), lasting(1_000)[0]);
    let charge = [Charge::new(&tier, b"key", &quota)];
    let () = server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    // It may end our connection first, and serves nobody while it has no master.
    let is_away = |outcome: &Outcome| source(outcome) == Source::Local && store.is_down();
    until_charged("it is found out", &store, &charge, is_away).await;
    // And it is not taken for a master again, however often it is tried.
    let stats = store.stats();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((store.stats().connects, store.is_down()), (stats.connects, true));
    let () = server.ask(&["REPLICAOF", "NO", "ONE"]);
    until_charged("it decides again", &store, &charge, |outcome| {
        source(outcome) == Source::Store
    })
    .await;
}
