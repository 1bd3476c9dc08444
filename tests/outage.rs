//! The outage drill: Redis in all kinds of trouble, under load, with each failure mode.
//!
//! ```text
//! cargo test --test outage --features redis
//! ```
//!
//! It prints a table, and fails if a line is off:
//!
//! - every request gets an answer of the service or the limiter, never an error, and one that its failure mode allows;
//! - no request waits longer than the deadline and 20 ms, and none at all once Redis is known to be down;
//! - what is admitted locally is within the documented bound;
//! - Redis decides again within 2 s of its return;
//! - tasks and connections are back where they were.
//!
//! A machine that is busy elsewhere makes everybody late. So a task of the drill's own sleeps for the length of the deadline
//! all along, and by how much it oversleeps is granted to the others.

#![cfg(feature = "redis")]
#![allow(clippy::unwrap_used, reason = "a drill that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "it prints a table")]

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Request, Response};
use support::redis::{PATIENT, Sentinel, Server};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};
use tower_throttle::store::{FailureMode, RedisStore, Source};
use tower_throttle::{Global, Quota, RateLimitLayer, Tier, Verdict};

const DEADLINE: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_millis(20);
const RETURN: Duration = Duration::from_secs(2);
/// How long Redis stays in trouble.
const TROUBLE: Duration = Duration::from_millis(1_000);
const TASKS: usize = 8;

const LIMIT: u64 = 300;
const PERIOD: Duration = Duration::from_secs(1);
const BURST: u64 = 500;

/// What can happen to a Redis: trouble begins, and ends.
trait Trouble {
    fn url(&self) -> Result<RedisStore, tower_throttle::store::redis::RedisStoreError>;
    /// Returns at the instant from which on Redis could decide again.
    async fn happen(&mut self) -> Instant;
    /// How many clients Redis has that are not the drill's.
    fn connections(&self) -> usize;
}

struct Alone<F> {
    server: Server,
    happen: F,
}

impl<F: AsyncFnMut(&mut Server)> Trouble for Alone<F> {
    fn url(&self) -> Result<RedisStore, tower_throttle::store::redis::RedisStoreError> {
        RedisStore::new(self.server.url())
    }

    async fn happen(&mut self) -> Instant {
        (self.happen)(&mut self.server).await;
        Instant::now()
    }

    fn connections(&self) -> usize {
        connections(&self.server)
    }
}

impl Trouble for Sentinel {
    fn url(&self) -> Result<RedisStore, tower_throttle::store::redis::RedisStoreError> {
        RedisStore::sentinel([Self::url(self)], Self::MASTER)
    }

    async fn happen(&mut self) -> Instant {
        self.master.kill();
        let start = Instant::now();
        while !tokio::task::block_in_place(|| self.has_failed_over()) {
            assert!(start.elapsed() < PATIENT, "no failover");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Instant::now()
    }

    fn connections(&self) -> usize {
        let server = if self.has_failed_over() {
            &self.replica
        } else {
            &self.master
        };
        connections(server)
    }
}

/// Those that have ever called the script.
fn connections(server: &Server) -> usize {
    let clients: String = tokio::task::block_in_place(|| server.ask(&["CLIENT", "LIST"]));
    clients.lines().filter(|client| client.contains("cmd=evalsha")).count()
}

/// What the requests of one failure mode met.
#[derive(Default)]
struct Seen {
    requests: AtomicU64,
    /// By status: 200, 429, 503, anything else.
    statuses: [AtomicU64; 4],
    locally: AtomicU64,
    locally_admitted: AtomicU64,
    /// In microseconds.
    longest_wait: AtomicU64,
}

#[derive(Clone)]
struct Load {
    store: RedisStore,
    mode: FailureMode,
    seen: Arc<Seen>,
    stop: Arc<AtomicBool>,
}

impl Load {
    async fn run(self) {
        let seen = Arc::clone(&self.seen);
        let limits = RateLimitLayer::new([
            Tier::new("all", Global, Quota::new(LIMIT, PERIOD).burst(BURST)).on_failure(self.mode)
        ])
        .namespace(&format!("{:?}", self.mode))
        .store(self.store.clone())
        .hook(move |decided: &tower_throttle::policy::Decided<'_>| {
            let is_local = |verdict: &Verdict| verdict.standings().any(|standing| standing.source() == Source::Local);
            if decided.verdict().is_some_and(is_local) {
                seen.locally.fetch_add(1, Ordering::Relaxed);
                seen.locally_admitted
                    .fetch_add(u64::from(decided.rejection().is_none()), Ordering::Relaxed);
            }
        });
        let service = ServiceBuilder::new()
            .layer(limits)
            .service(service_fn(async |_: Request<String>| {
                Ok::<_, Infallible>(Response::new(String::new()))
            }));
        let seen = &self.seen;
        while !self.stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            // An error of the service would not even compile.
            let Ok(response) = service.clone().oneshot(Request::new(String::new())).await;
            let waited = start.elapsed();
            seen.requests.fetch_add(1, Ordering::Relaxed);
            let status = match response.status().as_u16() {
                200 => 0,
                429 => 1,
                503 => 2,
                _ => 3,
            };
            seen.statuses[status].fetch_add(1, Ordering::Relaxed);
            seen.longest_wait
                .fetch_max(waited.as_micros() as u64, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// `is_outage` tells whether it must be found to be one; a connection that is cut may be, if another is cut at once.
async fn drill(name: &str, mut trouble: impl Trouble, is_outage: Option<bool>) -> Vec<String> {
    let tasks_before = Handle::current().metrics().num_alive_tasks();
    let modes = [FailureMode::Local, FailureMode::Allow, FailureMode::Deny];
    let stop = Arc::new(AtomicBool::new(false));
    let loads = modes.map(|mode| Load {
        store: trouble.url().unwrap().deadline(DEADLINE).remembered_refusals(0),
        mode,
        seen: Arc::new(Seen::default()),
        stop: Arc::clone(&stop),
    });
    for load in &loads {
        load.store.connected().await.unwrap();
    }
    let tasks_connected = Handle::current().metrics().num_alive_tasks();
    let connected = trouble.connections();
    let mut running = JoinSet::new();
    for load in &loads {
        for _ in 0..TASKS {
            running.spawn(load.clone().run());
        }
    }
    let late = Arc::new(AtomicU64::new(0));
    let (control, stopped) = (Arc::clone(&late), Arc::clone(&stop));
    running.spawn(async move {
        while !stopped.load(Ordering::Relaxed) {
            let start = Instant::now();
            tokio::time::sleep(DEADLINE).await;
            let overslept = start.elapsed().saturating_sub(DEADLINE);
            control.fetch_max(overslept.as_micros() as u64, Ordering::Relaxed);
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;

    let began = Instant::now();
    let could_return = trouble.happen().await;
    let mut returned = [Duration::ZERO; 3];
    for (load, returned) in loads.iter().zip(&mut returned) {
        let answered = load.store.stats().answered;
        while load.store.is_down() || load.store.stats().answered == answered {
            assert!(could_return.elapsed() < PATIENT, "{name}: Redis never decides again");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        *returned = could_return.elapsed();
    }
    let outage = began.elapsed();
    // What is still under way ends within its deadline.
    tokio::time::sleep(4 * DEADLINE).await;
    stop.store(true, Ordering::Relaxed);
    running.join_all().await;

    let late = Duration::from_micros(late.load(Ordering::Relaxed));
    let mut off = Vec::new();
    for (load, returned) in loads.iter().zip(returned) {
        let seen = &load.seen;
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let [ok, refused, unavailable, other] = [0, 1, 2, 3].map(|status| read(&seen.statuses[status]));
        let longest = Duration::from_micros(read(&seen.longest_wait));
        let bound = BURST + (LIMIT as f64 * outage.as_secs_f64()).ceil() as u64;
        let stats = load.store.stats();
        println!(
            "{name:<22}{:<7}{:>7}{ok:>7}{refused:>7}{unavailable:>7}{:>9}{:>8}{:>12.1}{:>9.0}{:>9}",
            format!("{:?}", load.mode),
            read(&seen.requests),
            read(&seen.locally),
            read(&seen.locally_admitted),
            longest.as_secs_f64() * 1e3,
            returned.as_secs_f64() * 1e3,
            stats.skipped,
        );
        let mut check = |is_right: bool, what: String| {
            if !is_right {
                off.push(format!("{name}, {:?}: {what}", load.mode));
            }
        };
        check(other == 0, format!("{other} strange answers"));
        check(ok > 0, "nothing was admitted".to_owned());
        let (is_deny, is_local) = (load.mode == FailureMode::Deny, load.mode == FailureMode::Local);
        check(is_deny || unavailable == 0, format!("{unavailable} unavailable"));
        check(is_local || read(&seen.locally) == 0, "decided locally".to_owned());
        check(
            longest <= DEADLINE + GRACE + late,
            format!("somebody waited for {longest:?}; the machine was late by {late:?}"),
        );
        check(
            read(&seen.locally_admitted) <= bound,
            format!(
                "{} admitted locally, at most {bound} may be",
                read(&seen.locally_admitted)
            ),
        );
        check(
            returned <= RETURN + late,
            format!("Redis decided again after {returned:?}"),
        );
        check(
            is_outage.is_none_or(|is_outage| is_outage == (stats.outages > 0)),
            format!("{} outages", stats.outages),
        );
        // Once it is down, nobody waits: only what was under way by then can have.
        let waited = stats.timeouts + stats.disconnected;
        let allowed = (stats.outages + stats.connects) * TASKS as u64 + stats.connects;
        check(
            waited <= allowed,
            format!("{waited} waited in vain, at most {allowed} may"),
        );
        if is_deny && is_outage == Some(true) {
            check(unavailable > 0, "nothing was denied".to_owned());
        }
    }
    let connections = trouble.connections();
    if connections != connected.max(1) && connections != modes.len() {
        off.push(format!("{name}: {connections} connections, {connected} before"));
    }
    // The task that called us is among them; those of replaced connections end when they notice.
    let start = Instant::now();
    while Handle::current().metrics().num_alive_tasks() > tasks_connected {
        if start.elapsed() > RETURN {
            let tasks = Handle::current().metrics().num_alive_tasks();
            off.push(format!("{name}: {tasks} tasks, {tasks_connected} before"));
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(loads);
    while Handle::current().metrics().num_alive_tasks() > tasks_before && start.elapsed() < 2 * RETURN {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let tasks = Handle::current().metrics().num_alive_tasks();
    if tasks > tasks_before {
        off.push(format!("{name}: {tasks} tasks without a store, {tasks_before} before"));
    }
    off
}

fn alone<F: AsyncFnMut(&mut Server)>(happen: F) -> Alone<F> {
    Alone {
        server: Server::with(&["--busy-reply-threshold", "200"]),
        happen,
    }
}

async fn again_and_again(server: &Server, command: &[&str]) {
    let start = Instant::now();
    while start.elapsed() < TROUBLE {
        tokio::task::block_in_place(|| server.ask::<redis::Value>(command));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Resident memory, in kB.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_kind_of_trouble() {
    println!(
        "\n{:<22}{:<7}{:>7}{:>7}{:>7}{:>7}{:>9}{:>8}{:>12}{:>9}{:>9}",
        "trouble", "mode", "asked", "200", "429", "503", "locally", "passed", "longest/ms", "back/ms", "skipped"
    );
    let mut off = Vec::new();
    let pause = async || tokio::time::sleep(TROUBLE).await;
    let killed = alone(async |server: &mut Server| {
        server.kill();
        pause().await;
        tokio::task::block_in_place(|| server.restart());
    });
    off.extend(drill("killed", killed, Some(true)).await);
    let memory_before = memory();

    let stopped = alone(async |server: &mut Server| {
        server.signal("-STOP");
        pause().await;
        server.signal("-CONT");
    });
    off.extend(drill("stopped", stopped, Some(true)).await);

    let restarted = alone(async |server: &mut Server| tokio::task::block_in_place(|| server.restart()));
    // It may be back before enough calls in a row have failed.
    off.extend(drill("restarted empty", restarted, None).await);

    let flushed = alone(async |server: &mut Server| again_and_again(server, &["SCRIPT", "FLUSH"]).await);
    off.extend(drill("scripts flushed", flushed, Some(false)).await);

    let cut = alone(async |server: &mut Server| again_and_again(server, &["CLIENT", "KILL", "TYPE", "normal"]).await);
    off.extend(drill("clients killed", cut, None).await);

    let busy = alone(async |server: &mut Server| {
        let mut connection = server.connection();
        let endless = std::thread::spawn(move || {
            let _ = redis::cmd("EVAL")
                .arg("while true do end")
                .arg(0)
                .query::<redis::Value>(&mut connection);
        });
        pause().await;
        tokio::task::block_in_place(|| {
            let _: redis::Value = server.ask(&["SCRIPT", "KILL"]);
            endless.join().unwrap();
        });
    });
    off.extend(drill("busy with a script", busy, Some(true)).await);

    off.extend(drill("failed over", Sentinel::start(), Some(true)).await);

    let grown = memory().saturating_sub(memory_before);
    if grown > 32 * 1_024 {
        off.push(format!("{grown} kB more memory"));
    }
    assert!(off.is_empty(), "off:\n{}", off.join("\n"));
}
