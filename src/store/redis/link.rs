//! The connection to Redis, and the breaker that keeps requests from waiting for one that is down.
//!
//! ```text
//!            first request                     connected
//!   Idle ───────────────────▶ Connecting ───────────────────▶ Up
//!                              │      ▲                        │  the connection breaks: Connecting
//!                     it fails │      │ it had lasted a while  │  too many calls in a row get no answer, or the
//!                              ▼      │                        │  server serves nobody: Down
//!                             Down ◀──┴────────────────────────┘
//!                              └── a keeper tries again, ever more seldom, until it is Up
//! ```
//!
//! Only in `Connecting` and `Up` does a request wait, within its deadline; in `Down` none does. There is one connection, and
//! at most one keeper that makes a new one. While it is `Up`, a watch sees to it that a connection of which nothing is heard is
//! found out by us rather than by a request: `keeper.rs`.

use std::mem;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time;

use crate::trace;

use super::error::{Kind, RedisStoreError};
use super::keeper;
use super::node::Node;
use super::stats::{Counters, one_more};
use super::{reply::Reply, script};

pub(super) struct Link {
    pub(super) node: Node,
    pub(super) limits: Limits,
    /// Asked of a new connection before it is used, and of one that nobody has used for a while.
    pub(super) probe: Cmd,
    state: Mutex<State>,
    /// The state is another.
    changed: Notify,
    /// Calls that failed in a row, over the connection that there is.
    failures: AtomicU32,
    /// Attempts to get into service since a connection last lasted a while.
    pub(super) attempts: AtomicU32,
    /// How often it got there.
    generations: AtomicU64,
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
    Up(Service),
    /// Known to be down; nobody waits.
    Down,
}

/// A connection that is used.
struct Service {
    connection: MultiplexedConnection,
    generation: u64,
    since: Instant,
    /// Makes its watch look: whether there is an answer, and whether this is still there.
    signal: Arc<Notify>,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.signal.notify_one();
    }
}

/// A connection that has lasted so long was a good one: if it breaks, the next one is tried at once.
const LASTING: Duration = Duration::from_secs(1);

/// Failures in a row after which Redis is taken to be down. One late answer is no outage.
const TRIP: u32 = 5;

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
            generations: AtomicU64::new(0),
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
        let permit = self.enter().inspect_err(|error| {
            self.counters.count(error);
            self.note(error);
        })?;
        let mut used = None;
        let call = async {
            let (mut connection, generation) = self.connection().await?;
            used = Some(generation);
            let value = self.evaluate(&mut connection, cmd).await?;
            Reply::parse(&value, charges)
        };
        let result = in_time(self.limits.deadline, call).await;
        permit.leave();
        match &result {
            Ok(reply) => {
                self.answered(used);
                one_more(&self.counters.answered);
                self.counters.healed.fetch_add(reply.healed, Ordering::Relaxed);
            }
            Err(error) => {
                self.counters.count(error);
                self.fail(error, used);
            }
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
        let permit = Permit { link: self };
        if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.limits.in_flight {
            permit.leave();
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
                    State::Up(service) => return Ok((service.connection.clone(), service.generation)),
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
                keeper::spawn(self, None);
                has_spawned = true;
            }
            changed.await;
        }
    }

    /// The one command that may be sent twice: a server without the script has not run it.
    pub(super) async fn evaluate(
        &self,
        connection: &mut MultiplexedConnection,
        cmd: &Cmd,
    ) -> Result<Value, RedisStoreError> {
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

    /// Something was answered over the connection of that generation.
    pub(super) fn answered(&self, used: Option<u64>) {
        if used == Some(self.generations.load(Ordering::Relaxed)) {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Something was not, or not well.
    pub(super) fn fail(self: &Arc<Self>, error: &RedisStoreError, used: Option<u64>) {
        if error.kind() == Kind::Down {
            return;
        }
        self.note(error);
        if error.kind() == Kind::Server {
            // It answers, if not what it should; nobody waits for it in vain.
            return self.answered(used);
        }
        let state = self.state();
        let service = match &*state {
            State::Up(service) if used == Some(service.generation) => Some(service),
            State::Connecting if used.is_none() => None,
            // Of a connection that has been replaced meanwhile it tells nothing new.
            _ => return,
        };
        let is_up = service.is_some();
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let is_outage = failures >= TRIP || (is_up && error.concerns_all());
        let is_broken = error.breaks_connection();
        let next = if is_outage {
            State::Down
        } else if is_up && is_broken {
            State::Connecting
        } else {
            return;
        };
        if service.is_some_and(|service| service.since.elapsed() > LASTING) {
            self.attempts.store(0, Ordering::Relaxed);
        }
        let before = self.change(state, next);
        if is_up {
            // What is only late may be of use again; a replica, say, is not.
            let late = before.filter(|_| !is_broken && !error.concerns_all());
            keeper::spawn(self, late);
        }
    }

    pub(super) fn note(&self, error: &RedisStoreError) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
    }

    /// From here on nobody waits.
    pub(super) fn enter_outage(&self) {
        self.change(self.state(), State::Down);
    }

    /// The connection is used from now on; by which generation it is known, and what its watch waits for.
    pub(super) fn enter_service(&self, connection: MultiplexedConnection) -> (u64, Arc<Notify>) {
        let state = self.state();
        let generation = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        self.failures.store(0, Ordering::Relaxed);
        let signal = Arc::new(Notify::new());
        let service = Service {
            connection,
            generation,
            since: Instant::now(),
            signal: Arc::clone(&signal),
        };
        self.change(state, State::Up(service));
        (generation, signal)
    }

    /// Nobody is connecting any more.
    pub(super) fn enter_idleness(&self) {
        let state = self.state();
        if matches!(*state, State::Connecting | State::Down) {
            self.change(state, State::Idle);
        }
    }

    /// The connection of that generation, if it is still used.
    pub(super) fn used(&self, generation: u64) -> Option<MultiplexedConnection> {
        match &*self.state() {
            State::Up(service) if service.generation == generation => Some(service.connection.clone()),
            _ => None,
        }
    }

    /// Enters another state, and only then, without the lock, tells of it; the connection that was used before.
    fn change(&self, mut state: MutexGuard<'_, State>, to: State) -> Option<MultiplexedConnection> {
        let (is_down, is_up) = (matches!(to, State::Down), matches!(to, State::Up(_)));
        let before = mem::replace(&mut *state, to);
        drop(state);
        let was_down = matches!(before, State::Down);
        if is_down && !was_down {
            one_more(&self.counters.outages);
            if let Some(error) = self.last_error() {
                trace::store_down(&error);
            }
        }
        if was_down && is_up {
            trace::store_up();
        }
        self.changed.notify_waiters();
        match before {
            State::Up(service) => Some(service.connection.clone()),
            _ => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the calls in flight.
struct Permit<'a> {
    link: &'a Link,
}

impl Permit<'_> {
    /// The call has come to its end.
    fn leave(self) {
        self.link.in_flight.fetch_sub(1, Ordering::Relaxed);
        mem::forget(self);
    }
}

/// Nobody waits for the call any more, perhaps for want of patience: somebody else should see whether there is an answer.
impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.link.in_flight.fetch_sub(1, Ordering::Relaxed);
        if let State::Up(service) = &*self.link.state() {
            service.signal.notify_one();
        }
    }
}

pub(super) async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, RedisStoreError>>,
) -> Result<T, RedisStoreError> {
    match time::timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(RedisStoreError::new(Kind::Timeout)),
    }
}
