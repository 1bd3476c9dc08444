//! The connection to Redis, and the breaker that keeps requests from waiting for one that is down.
//!
//! ```text
//!            first request                     connected
//!   Idle ───────────────────▶ Connecting ───────────────────▶ Up
//!                              │      ▲                        │  the connection breaks: Connecting
//!                     it fails │      │ nothing failed lately  │  too many timeouts in a row, or the server
//!                              ▼      │                        │  serves nobody: Down
//!                             Down ◀──┴────────────────────────┘
//!                              └── a background task tries again, ever more seldom, until it is Up
//! ```
//!
//! Only in `Connecting` and `Up` does a request wait, within its deadline; in `Down` none does. There is one connection, and
//! at most one task that makes a new one.

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time;

use crate::{random, trace};

use super::error::{Kind, RedisStoreError};
use super::node::Node;
use super::stats::{Counters, one_more};
use super::{reply::Reply, script};

pub(super) struct Link {
    node: Node,
    limits: Limits,
    /// Asked of a new connection before it is used.
    probe: Cmd,
    state: Mutex<State>,
    /// The state is another.
    changed: Notify,
    /// Calls that failed in a row, over the connection that there is.
    failures: AtomicU32,
    /// Connections that were made, or tried, since the last call that was answered.
    attempts: AtomicU32,
    in_flight: AtomicUsize,
    /// Held while the script is sent, so that only one of many calls does.
    loading: tokio::sync::Mutex<()>,
    pub(super) counters: Counters,
    last_error: Mutex<Option<RedisStoreError>>,
}

/// How long to wait, and for how many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Of a call, with all that belongs to it.
    pub(super) deadline: Duration,
    /// Of a connection being made, by the background task.
    pub(super) connect: Duration,
    /// Calls in flight.
    pub(super) in_flight: usize,
}

enum State {
    /// Nobody has asked yet, or the runtime of who was connecting is gone.
    Idle,
    /// Being connected to; whoever comes may wait for it.
    Connecting,
    Up {
        connection: MultiplexedConnection,
        /// Which of all connections it is.
        number: u64,
    },
    /// Known to be down; nobody waits.
    Down,
}

/// Failures in a row after which Redis is taken to be down. One late answer is no outage.
const TRIP: u32 = 5;

/// The pause before the second attempt; it doubles with each …
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// … up to this, with up to a quarter more at random, so that a fleet does not come back all at once.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Link {
    pub(super) fn new(node: Node, limits: Limits, probe: Cmd) -> Arc<Self> {
        Arc::new(Self {
            node,
            limits,
            probe,
            state: Mutex::new(State::Idle),
            changed: Notify::new(),
            failures: AtomicU32::new(0),
            attempts: AtomicU32::new(0),
            in_flight: AtomicUsize::new(0),
            loading: tokio::sync::Mutex::new(()),
            counters: Counters::default(),
            last_error: Mutex::new(None),
        })
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(*self.state(), State::Down)
    }

    /// Whether a call is skipped, as Redis is known to be down; counts it.
    pub(super) fn skips(&self) -> bool {
        let skips = self.is_down();
        if skips {
            self.counters.count(&RedisStoreError::new(Kind::Down));
        }
        skips
    }

    pub(super) fn last_error(&self) -> Option<RedisStoreError> {
        self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a call of so many charges. An error is counted, and has its consequences.
    pub(super) async fn call(self: &Arc<Self>, cmd: &Cmd, charges: usize) -> Result<Reply, RedisStoreError> {
        let permit = self.enter().inspect_err(|error| self.counters.count(error))?;
        let mut used = None;
        let call = async {
            let (mut connection, number) = self.connection().await?;
            used = Some(number);
            let value = self.evaluate(&mut connection, cmd).await?;
            Reply::parse(&value, charges)
        };
        let result = in_time(self.limits.deadline, call).await;
        drop(permit);
        match &result {
            Ok(reply) => {
                self.failures.store(0, Ordering::Relaxed);
                self.attempts.store(0, Ordering::Relaxed);
                one_more(&self.counters.answered);
                self.counters.healed.fetch_add(reply.healed, Ordering::Relaxed);
            }
            Err(error) => self.fail(error, used),
        }
        result
    }

    /// Waits for a connection; without a deadline, for those who want to know.
    pub(super) async fn connected(self: &Arc<Self>) -> Result<(), RedisStoreError> {
        if Handle::try_current().is_err() {
            return Err(RedisStoreError::new(Kind::NoRuntime));
        }
        self.connection().await.map(|_| ()).map_err(|error| match error.kind() {
            Kind::Down => self.last_error().unwrap_or(error),
            _ => error,
        })
    }

    fn enter(&self) -> Result<Permit<'_>, RedisStoreError> {
        if Handle::try_current().is_err() {
            return Err(RedisStoreError::new(Kind::NoRuntime));
        }
        let permit = Permit {
            in_flight: &self.in_flight,
        };
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.limits.in_flight {
            return Err(RedisStoreError::new(Kind::Overload));
        }
        Ok(permit)
    }

    async fn connection(self: &Arc<Self>) -> Result<(MultiplexedConnection, u64), RedisStoreError> {
        let mut has_spawned = false;
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before the look, so that no change goes by unseen.
            changed.as_mut().enable();
            let is_idle = {
                let mut state = self.state();
                match &*state {
                    State::Up { connection, number } => return Ok((connection.clone(), *number)),
                    State::Down => return Err(RedisStoreError::new(Kind::Down)),
                    // A runtime that ends takes no more tasks.
                    State::Idle if has_spawned => return Err(RedisStoreError::new(Kind::NoRuntime)),
                    State::Connecting => false,
                    State::Idle => {
                        *state = State::Connecting;
                        true
                    }
                }
            };
            if is_idle {
                self.spawn_keeper();
                has_spawned = true;
            }
            changed.await;
        }
    }

    /// The one command that may be sent twice: a server without the script has not run it.
    async fn evaluate(&self, connection: &mut MultiplexedConnection, cmd: &Cmd) -> Result<Value, RedisStoreError> {
        let loads_before = self.loads();
        let result = cmd.query_async(connection).await.map_err(RedisStoreError::of);
        match result {
            Err(error) if error.kind() == Kind::NoScript => {
                self.load(connection, loads_before).await?;
                cmd.query_async(connection).await.map_err(RedisStoreError::of)
            }
            result => result,
        }
    }

    /// Sends the script, unless somebody has done so since there were `loads_before` of them.
    async fn load(&self, connection: &mut MultiplexedConnection, loads_before: u64) -> Result<(), RedisStoreError> {
        let _loading = self.loading.lock().await;
        if self.loads() == loads_before {
            let mut load = redis::cmd("SCRIPT");
            load.arg("LOAD").arg(script::text());
            let _: Value = load.query_async(connection).await.map_err(RedisStoreError::of)?;
            one_more(&self.counters.script_loads);
        }
        Ok(())
    }

    fn loads(&self) -> u64 {
        self.counters.script_loads.load(Ordering::Relaxed)
    }

    fn fail(self: &Arc<Self>, error: &RedisStoreError, used: Option<u64>) {
        self.counters.count(error);
        if error.kind() == Kind::Down {
            return;
        }
        self.note(error);
        let mut state = self.state();
        let (is_up, is_current) = match &*state {
            State::Up { number, .. } => (true, used == Some(*number)),
            State::Connecting => (false, used.is_none()),
            State::Idle | State::Down => (false, false),
        };
        // Of a connection that has been replaced meanwhile it tells nothing new.
        if !is_current {
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures >= TRIP || (is_up && error.concerns_all()) {
            self.enter_outage(state);
        } else if is_up && error.breaks_connection() {
            *state = State::Connecting;
            drop(state);
            self.changed.notify_waiters();
        } else {
            return;
        }
        if is_up {
            self.spawn_keeper();
        }
    }

    fn note(&self, error: &RedisStoreError) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// From here on nobody waits.
    fn enter_outage(&self, mut state: MutexGuard<'_, State>) {
        let before = mem::replace(&mut *state, State::Down);
        drop(state);
        if !matches!(before, State::Down) {
            one_more(&self.counters.outages);
            if let Some(error) = self.last_error() {
                trace::store_down(&error);
            }
        }
        self.changed.notify_waiters();
    }

    fn enter_service(&self, connection: MultiplexedConnection) {
        let number = self.counters.connects.fetch_add(1, Ordering::Relaxed) + 1;
        let mut state = self.state();
        self.failures.store(0, Ordering::Relaxed);
        let before = mem::replace(&mut *state, State::Up { connection, number });
        drop(state);
        if matches!(before, State::Down) {
            trace::store_up();
        }
        self.changed.notify_waiters();
    }

    /// Never with the state in hand: a runtime that ends drops the keeper at once, which takes it.
    fn spawn_keeper(self: &Arc<Self>) {
        tokio::spawn(keep(Keeper {
            link: Arc::downgrade(self),
            is_done: false,
        }));
    }

    /// A connection over which the script has answered, in time.
    async fn connect(&self) -> Result<MultiplexedConnection, RedisStoreError> {
        let Limits { connect, in_flight, .. } = self.limits;
        let mut connection = self.node.connect(connect, in_flight).await?;
        // Once for the script to be there, and once for the time it takes.
        in_time(connect, self.evaluate(&mut connection, &self.probe)).await?;
        let probe = self.probe.query_async::<Value>(&mut connection);
        let value = in_time(self.limits.deadline, async { probe.await.map_err(RedisStoreError::of) }).await?;
        Reply::parse(&value, 0)?;
        Ok(connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pause before the next attempt; none before the first.
    fn pause(&self) -> Option<Duration> {
        let attempts = self.attempts.fetch_add(1, Ordering::Relaxed);
        let doublings = attempts.checked_sub(1)?.min(16);
        let pause = (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE);
        let spread = random::below(pause.as_micros() as u64 / 4 + 1, random::seed());
        Some(pause + Duration::from_micros(spread))
    }
}

/// Makes a new connection, however long it takes.
async fn keep(mut keeper: Keeper) {
    // Once nobody has the store any more, there is nothing to connect.
    while let Some(link) = keeper.link.upgrade() {
        if let Some(pause) = link.pause() {
            link.enter_outage(link.state());
            drop(link);
            time::sleep(pause).await;
        }
        let Some(link) = keeper.link.upgrade() else {
            return;
        };
        match link.connect().await {
            Ok(connection) => {
                keeper.is_done = true;
                link.enter_service(connection);
                return;
            }
            Err(error) => {
                link.note(&error);
                link.enter_outage(link.state());
            }
        }
    }
}

async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, RedisStoreError>>,
) -> Result<T, RedisStoreError> {
    match time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(RedisStoreError::new(Kind::Timeout)),
    }
}

/// Whoever is connecting. If its runtime ends before it is done, somebody else must go on.
struct Keeper {
    link: Weak<Link>,
    is_done: bool,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if !self.is_done
            && let Some(link) = self.link.upgrade()
        {
            let mut state = link.state();
            if matches!(*state, State::Connecting | State::Down) {
                *state = State::Idle;
                drop(state);
                link.changed.notify_waiters();
            }
        }
    }
}

/// A place among the calls in flight.
struct Permit<'a> {
    in_flight: &'a AtomicUsize,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
