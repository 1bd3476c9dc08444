//! A fleet: real processes that share one Redis admit exactly the quota, whatever their own clocks show.
//!
//! This file is its own test runner, because it is also the program that it starts four times.

#![allow(clippy::print_stdout, reason = "a test runner tells what it runs")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "redis")]
mod support;

fn main() {
    #[cfg(feature = "redis")]
    match std::env::var("THROTTLE_FLEET") {
        Ok(url) => fleet::be_one_of_it(&url),
        Err(_) => fleet::test(),
    }
}

#[cfg(feature = "redis")]
mod fleet {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use tokio::task::JoinSet;
    use tower_throttle::Quota;
    use tower_throttle::store::{Asked, Charge, RedisStore, Source, Store as _, TierId};

    use super::support::redis::{PATIENT, Server};

    const LIMIT: u64 = 700;
    const PROCESSES: usize = 4;
    const TASKS: u64 = 64;
    const REQUESTS: u64 = 5;

    /// None of them refills or rolls over during the test.
    fn quotas() -> [Quota; 6] {
        let period = Duration::from_secs(40 * 86_400);
        let quota = Quota::new(LIMIT, period);
        [
            quota,
            quota.in_steps(period),
            quota.fixed_window_from_first(),
            quota.sliding_window(10),
            quota.weighted_window(),
            quota.sliding_log(),
        ]
    }

    pub(super) fn test() {
        for (name, clocks) in [
            ("a fleet admits exactly the quota", [None; PROCESSES]),
            (
                "and does so with clocks that are off by an hour",
                [Some("-1h"), Some("+1h"), None, Some("+1h")],
            ),
        ] {
            let server = Server::start();
            let fleet: Vec<_> = clocks.map(|clock| start(&server.url(), clock)).into();
            let mut admitted = [0; 6];
            for (mut process, clock) in fleet.into_iter().zip(clocks) {
                let lines = BufReader::new(process.stdout.take().unwrap()).lines();
                let numbers: Vec<i64> = lines.map(|line| line.unwrap().parse().unwrap()).collect();
                assert!(process.wait().unwrap().success(), "a process of the fleet failed");
                let (off, by_algorithm) = (numbers[0] - epoch_seconds(), &numbers[1..]);
                let expected = clock.map_or(0, |clock| if clock == "+1h" { 3_600 } else { -3_600 });
                assert!(
                    (off - expected).abs() < 600,
                    "its clock is off by {off} s, not {expected} s"
                );
                for (sum, number) in admitted.iter_mut().zip(by_algorithm) {
                    *sum += *number as u64;
                }
            }
            assert_eq!(admitted, [LIMIT; 6], "{name}");
            println!("test {name} ... ok");
        }
    }

    fn start(url: &str, clock: Option<&str>) -> Child {
        let this = std::env::current_exe().unwrap();
        let mut command = match clock {
            None => Command::new(this),
            Some(clock) => {
                let mut command = Command::new("faketime");
                command.args(["-f", clock]).arg(this);
                command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
                command
            }
        };
        let started = command.env("THROTTLE_FLEET", url).stdout(Stdio::piped()).spawn();
        started.unwrap_or_else(|error| {
            panic!(
                "this test needs `faketime` ({error}); `bash scripts/test.sh` installs it, as does \
                 `apt-get install faketime`"
            )
        })
    }

    /// Prints the time, and for each algorithm how many were admitted.
    pub(super) fn be_one_of_it(url: &str) {
        println!("{}", epoch_seconds());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = RedisStore::new(url).unwrap().deadline(PATIENT);
            for (nth, quota) in quotas().into_iter().enumerate() {
                let mut tasks = JoinSet::new();
                for _ in 0..TASKS {
                    tasks.spawn(admitted(store.clone(), quota, nth as u8));
                }
                println!("{}", tasks.join_all().await.iter().sum::<u64>());
            }
        });
    }

    async fn admitted(store: RedisStore, quota: Quota, key: u8) -> u64 {
        let (tier, key) = (TierId::new("", "tier"), [key]);
        let mut admitted = 0;
        for _ in 0..REQUESTS {
            let outcome = match store.charge(&[Charge::new(&tier, &key, &quota)]) {
                Asked::Now(outcome) => outcome,
                Asked::Later(outcome) => outcome.await,
            };
            let source = outcome.decisions()[0].source();
            assert!(
                matches!(source, Source::Store | Source::Remembered),
                "{:?}",
                store.last_error()
            );
            admitted += u64::from(outcome.is_charged());
        }
        admitted
    }

    fn epoch_seconds() -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
    }
}
