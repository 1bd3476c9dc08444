//! Servers that answer what Redis never does: a typed error, counted, the failure mode obeyed, no panic.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::redis::until;
use support::{Random, outcome};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tower_throttle::Quota;
use tower_throttle::store::{Answer, Charge, FailureMode, RedisStore, Source, Store, TierId};

/// A server that is asked for nothing as Redis would be, so that it is taken for one, and answers charges as it likes.
struct Stranger {
    port: u16,
    connections: Arc<AtomicU64>,
}

impl Stranger {
    async fn answering(answer: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicU64::new(0));
        let (count, answer) = (Arc::clone(&connections), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let answer = Arc::clone(&answer);
                tokio::spawn(async move {
                    let _ = serve(stream, &*answer).await;
                });
            }
        });
        Self { port, connections }
    }

    fn store(&self) -> RedisStore {
        RedisStore::new(format!("redis://127.0.0.1:{}", self.port)).unwrap()
    }
}

async fn serve(stream: TcpStream, answer: &(dyn Fn(u64) -> Vec<u8> + Send + Sync)) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut charges = 0;
    loop {
        let command = read_command(&mut stream).await?;
        let is_evalsha = command[0].eq_ignore_ascii_case(b"evalsha");
        // With a fourth argument after the keys something is asked.
        let is_probe = is_evalsha && command.len() == 6;
        let reply = match is_evalsha {
            true if is_probe => b"*2\r\n:1800000000000000\r\n:0\r\n".to_vec(),
            true => {
                charges += 1;
                answer(charges)
            }
            false => b"+OK\r\n".to_vec(),
        };
        if reply.is_empty() {
            return Ok(());
        }
        stream.write_all(&reply).await?;
    }
}

async fn read_command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<Vec<u8>>> {
    let count = read_number(stream).await?;
    let mut command = Vec::new();
    for _ in 0..count {
        let mut bytes = vec![0; read_number(stream).await? + 2];
        stream.read_exact(&mut bytes).await?;
        bytes.truncate(bytes.len() - 2);
        command.push(bytes);
    }
    Ok(command)
}

async fn read_number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line[1..].trim().parse().unwrap())
}

fn array(numbers: &[&str]) -> Vec<u8> {
    let items: String = numbers.iter().map(|number| format!(":{number}\r\n")).collect();
    format!("*{}\r\n{items}", numbers.len()).into_bytes()
}

#[tokio::test]
async fn strange_answers_are_failures() {
    let good = ["1800000000000000", "0", "0", "9", "0", "1", "1", "1"];
    let with = |nth: usize, number: &'static str| {
        let mut numbers = good;
        numbers[nth] = number;
        array(&numbers)
    };
    let answers: Vec<(&str, Vec<u8>)> = vec![
        ("a status", b"+OK\r\n".to_vec()),
        ("a number", b":7\r\n".to_vec()),
        ("nothing", b"$-1\r\n".to_vec()),
        ("an empty array", b"*0\r\n".to_vec()),
        ("too few numbers", array(&good[..7])),
        ("too many numbers", array(&[&good[..], &["1"]].concat())),
        ("a negative number", with(3, "-1")),
        ("an unknown answer", with(2, "3")),
        (
            "text among the numbers",
            b"*8\r\n:1\r\n:0\r\n:0\r\n$1\r\n9\r\n:0\r\n:1\r\n:1\r\n:1\r\n".to_vec(),
        ),
        (
            "a nested array",
            b"*8\r\n:1\r\n:0\r\n*1\r\n:0\r\n:9\r\n:0\r\n:1\r\n:1\r\n:1\r\n".to_vec(),
        ),
        ("an integer that is none", with(3, "99999999999999999999999999")),
        ("another protocol", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("noise", (0..200).map(|byte| byte as u8 ^ 0xa5).collect()),
        ("half an array, and then nothing", b"*8\r\n:1\r\n".to_vec()),
        ("a huge length", b"*2147483647\r\n".to_vec()),
        ("an end", Vec::new()),
        (
            "out of memory",
            b"-OOM command not allowed when used memory > 'maxmemory'.\r\n".to_vec(),
        ),
        ("no right", b"-NOPERM this user has no permissions\r\n".to_vec()),
        (
            "a wrong type",
            b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n".to_vec(),
        ),
        (
            "a replica",
            b"-READONLY You can't write against a read only replica.\r\n".to_vec(),
        ),
        (
            "loading",
            b"-LOADING Redis is loading the dataset in memory\r\n".to_vec(),
        ),
        ("busy", b"-BUSY Redis is busy running a script.\r\n".to_vec()),
        (
            "a failed script",
            b"-ERR user_script:1: attempt to index a nil value\r\n".to_vec(),
        ),
        (
            "no script, again and again",
            b"-NOSCRIPT No matching script.\r\n".to_vec(),
        ),
        ("a moved key", b"-MOVED 1 127.0.0.1:1\r\n".to_vec()),
    ];
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_minute(10));
    for (name, answer) in answers {
        let stranger = Stranger::answering(move |_| answer.clone()).await;
        for mode in [FailureMode::Local, FailureMode::Allow, FailureMode::Deny] {
            let store = stranger.store();
            let charge = Charge::new(&tier, b"key", &quota).on_failure(mode);
            let decision = outcome(store.charge(&[charge])).await.decisions()[0];
            let expected = match mode {
                FailureMode::Local => (Answer::Admits, Source::Local),
                _ => (Answer::Failed, Source::Failed),
            };
            assert_eq!((decision.answer(), decision.source()), expected, "{name}");
            let stats = store.stats();
            let failures = stats.timeouts + stats.disconnected + stats.server_errors + stats.strange_replies;
            assert_eq!((failures, stats.answered), (1, 0), "{name}: {stats:?}");
            assert!(store.last_error().is_some(), "{name}");
        }
    }
}

/// A huge but whole number is a number.
#[tokio::test]
async fn huge_numbers_are_passed_on() {
    let most = "9223372036854775807";
    let stranger = Stranger::answering(move |_| array(&[most, "0", "1", most, most, most, most, most])).await;
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_minute(10));
    let decision = outcome(stranger.store().charge(&[Charge::new(&tier, b"key", &quota)]))
        .await
        .decisions()[0];
    assert_eq!((decision.answer(), decision.source()), (Answer::Refuses, Source::Store));
    assert_eq!(decision.remaining(), i64::MAX as u64);
}

/// A charge that got no answer may have been made: it is never sent again, over whatever connection, nor given back.
#[tokio::test]
async fn an_unknown_outcome_is_left_alone() {
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_minute(10));
    for no_answer in [&b""[..], b"*8\r\n:1\r\n"] {
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let stranger = Stranger::answering(move |_| match count.fetch_add(1, Ordering::SeqCst) {
            0 => no_answer.to_vec(),
            _ => array(&["1800000000000000", "0", "0", "9", "0", "1", "1", "1"]),
        })
        .await;
        let store = stranger.store();
        let charge = [Charge::new(&tier, b"key", &quota)];
        let unanswered = outcome(store.charge(&charge)).await;
        assert_eq!(unanswered.decisions()[0].source(), Source::Local);
        for _ in 0..10 {
            let _ = outcome(store.charge(&charge)).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let stats = store.stats();
        assert!(received.load(Ordering::SeqCst) <= 11 - stats.skipped, "{stats:?}");
    }
}

/// Random bytes, random cuts of good answers: a decision for each call, whatever comes.
#[tokio::test]
async fn any_bytes_are_survived() {
    let stranger = Stranger::answering(|nth| {
        let mut random = Random::new(nth);
        let good = array(&["1800000000000000", "0", "0", "9", "0", "1", "1", "1"]);
        let mut bytes = good[..random.below(good.len() as u64 + 1) as usize].to_vec();
        for _ in 0..random.below(20) {
            bytes.push(random.next() as u8);
        }
        for _ in 0..random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = random.next() as u8;
            }
        }
        bytes
    })
    .await;
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_minute(1_000));
    for round in 0..60 {
        let store = stranger.store().deadline(Duration::from_millis(20));
        for _ in 0..=round % 4 {
            let decided = outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
            assert_eq!(decided.decisions().len(), 1);
            assert_ne!(decided.decisions()[0].answer(), Answer::Failed, "local, if not there");
        }
    }
}

/// A server that ends every connection once it is used: no storm of reconnects, however many requests there are.
#[tokio::test]
async fn reconnects_are_no_storm() {
    let stranger = Stranger::answering(|_| Vec::new()).await;
    let store = stranger.store();
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_second(1_000_000));
    let start = std::time::Instant::now();
    let mut calls = 0_u64;
    while start.elapsed() < Duration::from_millis(1_500) {
        outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
        calls += 1;
        tokio::task::yield_now().await;
    }
    let connections = stranger.connections.load(Ordering::SeqCst);
    // At once, then after 50, 100, 200, 400 and 800 ms or more.
    assert!(
        (2..=8).contains(&connections),
        "{connections} connections for {calls} calls"
    );
    assert!(calls > 100, "{calls}");
}

/// A store that nobody has any more stops connecting.
#[tokio::test]
async fn a_dropped_store_leaves_nothing_behind() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let store = RedisStore::new("redis://127.0.0.1:1").unwrap();
    let (tier, quota) = (TierId::new("", "tier"), Quota::per_minute(1));
    outcome(store.charge(&[Charge::new(&tier, b"key", &quota)])).await;
    assert!(
        tokio::runtime::Handle::current().metrics().num_alive_tasks() > before,
        "it goes on trying"
    );
    drop(store);
    until("its task ends", || {
        tokio::runtime::Handle::current().metrics().num_alive_tasks() == before
    })
    .await;
}
