//! Accounts in a Redis that a fleet shares.
//!
//! # How it decides
//!
//! All tiers of a request, with all their quotas, are one call of one Lua script: one round trip, in which all of them are
//! charged or none. The script takes the time from the server, so that the clocks of the fleet do not matter, and counts
//! as [`MemoryStore`] does, to the microsecond. It is sent once, and again whenever a server does not have it.
//!
//! # When Redis is in trouble
//!
//! - Every call has a [deadline](RedisStore::deadline), which covers all that belongs to it: waiting for a connection, sending
//!   the script, the answer.
//! - Five calls in a row without an answer, a connection that cannot be made, or a server that serves nobody (it loads, is busy
//!   with a script, is a replica, denies access) are an outage. From then on no request waits: a background task tries the
//!   connection again or makes a new one, at first at once and then at ever longer intervals of up to 0.6 s, and ends the
//!   outage once the script answers within the deadline.
//! - A connection that was idle for 5 s, or that a caller gave up waiting for, is probed in the background.
//! - What a call that got no answer has charged is unknown: it is neither repeated nor given back.
//! - There is one connection, and a [bound](RedisStore::max_in_flight) on the calls that wait for it.
//! - What Redis does not decide is decided by the tier's [`FailureMode`](super::FailureMode): locally by default, by a
//!   [`Fallback`] that is built in. Say how many [replicas](RedisStore::replicas) share the quotas.
//!
//! # What it keeps
//!
//! One string for each tier and key, with all its buckets and windows; one hash for each sliding window or log. Each has a
//! TTL that ends when it cannot be told from a new one; a refusal writes nothing. Keys are hashed: see
//! [`secret`](RedisStore::secret).

mod call;
mod error;
mod keeper;
mod link;
mod names;
mod node;
mod reply;
mod script;
mod stats;
mod tls;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::sentinel::SentinelClient;
use redis::{Client, Cmd};

use crate::clock::Clock;

pub use self::{error::RedisStoreError, stats::RedisStats};

use self::call::Times;
use self::link::{Limits, Link};
use self::names::Names;
use self::node::Node;
use super::{
    Asked, Charge, Fallback, FallbackFuture, MemoryStore, Outcome, Receipt, RefusalCache, RefusalCacheFuture, Replicas,
    Store,
};

/// Keeps accounts in Redis, for all processes that share it.
///
/// ```no_run
/// use tower_throttle::store::RedisStore;
/// use tower_throttle::{Global, Header, Quota, RateLimitLayer, Tier};
///
/// # fn main() -> Result<(), tower_throttle::store::redis::RedisStoreError> {
/// let limits = RateLimitLayer::new([
///     Tier::new("user", Header::new("x-user-id"), Quota::per_minute(600).burst(800)),
///     Tier::new("global", Global, Quota::per_minute(6_000)),
/// ])
/// .store(RedisStore::new("redis://127.0.0.1:6379")?.replicas(4));
/// # Ok(())
/// # }
/// ```
///
/// It connects when it is first asked, so an application starts whether or not its Redis does. It needs a Tokio runtime then,
/// with I/O and time enabled; a connection that ends with its runtime is made anew in another. Clones share the connection.
///
/// Not for Redis Cluster yet: its addresses are refused.
///
/// # Defaults
///
/// - [`deadline`](Self::deadline): 50 ms, many times what a healthy Redis in the same network takes, and little beside what a
///   request takes.
/// - [`connect_timeout`](Self::connect_timeout): 1 s. No request waits for it beyond its deadline.
/// - [`max_in_flight`](Self::max_in_flight): 1,024 calls.
/// - [`replicas`](Self::replicas): 1. Set it, or each process will admit the whole quota while Redis is away.
/// - [`local`](Self::local): [`MemoryStore::new`].
/// - [`remembered_refusals`](Self::remembered_refusals): 16,384, see [`RefusalCache`].
/// - [`prefix`](Self::prefix): `throttle`.
/// - [`secret`](Self::secret): none, so that all processes agree. [`readable_keys`](Self::readable_keys): off.
///
/// Set all of them before you connect: [`deadline`](Self::deadline), [`connect_timeout`](Self::connect_timeout),
/// [`max_in_flight`](Self::max_in_flight), and what keys are called by make it another store, which connects anew.
#[derive(Clone)]
pub struct RedisStore {
    config: Config,
    store: Fallback<RefusalCache<Remote>>,
}

#[derive(Clone)]
struct Config {
    node: Node,
    limits: Limits,
    names: Names,
    times: Times,
    remembered: usize,
    local: MemoryStore,
    replicas: Replicas,
}

impl RedisStore {
    /// By the address of a server: `redis://[user:password@]host[:6379][/database]`, `rediss://` with the feature
    /// `redis-tls`, `unix:///path`. Add `?protocol=resp3` for RESP3.
    ///
    /// # Errors
    ///
    /// If it is no such address. Nothing is connected yet.
    pub fn new(url: impl AsRef<str>) -> Result<Self, RedisStoreError> {
        Node::at(url.as_ref()).map(Self::at)
    }

    /// By the addresses of sentinels, `redis://[user:password@]host:26379`, and the name of the master they watch. After a
    /// failover the new master is found by itself.
    ///
    /// For a master with a password, a database or TLS, build a client and use
    /// [`with_sentinel_client`](Self::with_sentinel_client).
    ///
    /// # Errors
    ///
    /// If there is no address, or one is none. Nothing is connected yet.
    pub fn sentinel<U: AsRef<str>>(
        urls: impl IntoIterator<Item = U>,
        master: impl AsRef<str>,
    ) -> Result<Self, RedisStoreError> {
        Node::by_sentinels(urls, master.as_ref()).map(Self::at)
    }

    /// By a client, for what an address cannot say: certificates, say.
    #[must_use]
    pub fn with_client(client: Client) -> Self {
        Self::at(Node::of_client(client))
    }

    /// By a client of sentinels; it must be one for the master.
    #[must_use]
    pub fn with_sentinel_client(client: SentinelClient) -> Self {
        Self::at(Node::of_sentinels(client))
    }

    /// As [`new`](Self::new), and waits for the connection: for applications that do not want to start without.
    ///
    /// # Errors
    ///
    /// If it is no address, or if Redis cannot be reached or used.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self, RedisStoreError> {
        let store = Self::new(url)?;
        store.connected().await?;
        Ok(store)
    }

    /// Waits for the connection, after all is set.
    ///
    /// # Errors
    ///
    /// If Redis cannot be reached or used. The store may be used all the same, and goes on trying.
    pub async fn connected(&self) -> Result<(), RedisStoreError> {
        self.link().connected().await
    }

    /// How long a call may take, with all that belongs to it, at least 1 ms. What takes longer has failed.
    #[must_use]
    pub fn deadline(self, deadline: Duration) -> Self {
        self.set(|config| config.limits.deadline = deadline.max(SHORTEST))
    }

    /// How long the background task gives a connection to be made, at least 1 ms.
    #[must_use]
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.set(|config| config.limits.connect = timeout.max(SHORTEST))
    }

    /// How many calls may wait for Redis at a time, at least 1; further ones fail at once.
    #[must_use]
    pub fn max_in_flight(self, calls: usize) -> Self {
        self.set(|config| config.limits.in_flight = calls.max(1))
    }

    /// How many processes share the quotas, for what is decided locally while Redis is away: a number, or a [`Replicas`]
    /// that is changed later.
    #[must_use]
    pub fn replicas(self, replicas: impl Into<Replicas>) -> Self {
        self.set_around(|config| config.replicas = replicas.into())
    }

    /// Decides locally in this memory store. It must not be shared with a layer, which would mix the counts.
    #[must_use]
    pub fn local(self, memory: MemoryStore) -> Self {
        self.set_around(|config| config.local = memory)
    }

    /// How many refusals are remembered, so that Redis is not asked again for a moment; 0 for none. See [`RefusalCache`].
    #[must_use]
    pub fn remembered_refusals(self, refusals: usize) -> Self {
        self.set_around(|config| config.remembered = refusals)
    }

    /// What all keys in Redis begin with.
    #[must_use]
    pub fn prefix(self, prefix: impl AsRef<str>) -> Self {
        self.set(|config| config.names.set_prefix(prefix.as_ref()))
    }

    /// Keys the hash by which clients' keys are known in Redis, so that who can read it but does not know the secret cannot try
    /// out keys. The same in all processes of a fleet; with another one, all accounts are new.
    #[must_use]
    pub fn secret(self, secret: impl AsRef<[u8]>) -> Self {
        self.set(|config| config.names.set_secret(secret.as_ref()))
    }

    /// Whether clients' keys are written to Redis as they are, to look at them; never with keys that are secret.
    #[must_use]
    pub fn readable_keys(self, readable: bool) -> Self {
        self.set(|config| config.names.set_readable(readable))
    }

    /// For our own tests: decides by this clock instead of the server's, and lets keys outlive it by `slack`.
    #[doc(hidden)]
    #[must_use]
    pub fn test_clock(self, clock: impl Clock, slack: Duration) -> Self {
        self.set(|config| {
            config.times = Times {
                clock: Some(Arc::new(clock)),
                slack: slack.as_millis() as u64,
            };
        })
    }

    /// What happened since it was made, in numbers.
    #[must_use]
    pub fn stats(&self) -> RedisStats {
        self.link().counters.read()
    }

    /// Whether Redis is known to be down at the moment.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.link().is_down()
    }

    /// Why it last failed, if it ever did.
    #[must_use]
    pub fn last_error(&self) -> Option<RedisStoreError> {
        self.link().last_error()
    }

    fn at(node: Node) -> Self {
        Self::with(Config {
            node,
            limits: Limits {
                deadline: Duration::from_millis(50),
                connect: Duration::from_secs(1),
                in_flight: 1_024,
            },
            names: Names::default(),
            times: Times::default(),
            remembered: 16_384,
            local: MemoryStore::new(),
            replicas: Replicas::new(1),
        })
    }

    fn set(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        Self::with(self.config)
    }

    /// Sets what is around the connection, which stays.
    fn set_around(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        let remote = self.remote().clone();
        Self::around(remote, self.config)
    }

    fn with(config: Config) -> Self {
        let remote = Remote {
            link: Link::new(config.node.clone(), config.limits, call::probe(&config.names)),
            names: Arc::new(config.names.clone()),
            times: config.times.clone(),
        };
        Self::around(remote, config)
    }

    fn around(remote: Remote, config: Config) -> Self {
        let cache = RefusalCache::new(remote).capacity(config.remembered);
        let store = Fallback::new(cache)
            .local(config.local.clone())
            .replicas(config.replicas.clone());
        Self { config, store }
    }

    const fn remote(&self) -> &Remote {
        self.store.get_ref().get_ref()
    }

    const fn link(&self) -> &Arc<Link> {
        &self.remote().link
    }
}

impl Store for RedisStore {
    type Future = RedisFuture;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<RedisFuture> {
        self.store.charge(charges).map(|outcome| RedisFuture { outcome })
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<RedisFuture> {
        self.store
            .give_back(charges, receipt)
            .map(|outcome| RedisFuture { outcome })
    }
}

/// Without the address, which may hold a password.
impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("limits", &self.config.limits)
            .field("replicas", &self.config.replicas.get())
            .field("is_down", &self.is_down())
            .finish_non_exhaustive()
    }
}

/// No time is too short to be waited for.
const SHORTEST: Duration = Duration::from_millis(1);

/// Redis alone, without what is around it.
#[derive(Clone)]
struct Remote {
    link: Arc<Link>,
    names: Arc<Names>,
    times: Times,
}

impl Store for Remote {
    type Future = RemoteFuture;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<RemoteFuture> {
        self.ask(charges, |names, times| call::charge(names, times, charges))
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<RemoteFuture> {
        self.ask(charges, |names, times| call::give_back(names, times, charges, &receipt))
    }
}

impl Remote {
    fn ask(&self, charges: &[Charge<'_>], call: impl FnOnce(&Names, &Times) -> Cmd) -> Asked<RemoteFuture> {
        let count = charges.len();
        if count == 0 {
            return Asked::Now(Outcome::failed(0));
        }
        if self.link.skips() {
            return Asked::Now(Outcome::failed(count));
        }
        let cmd = call(&self.names, &self.times);
        let link = Arc::clone(&self.link);
        Asked::Later(Box::pin(async move {
            match link.call(&cmd, count).await {
                Ok(reply) => reply.outcome,
                Err(_) => Outcome::failed(count),
            }
        }))
    }
}

type RemoteFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Redis's answer, or this process's.
#[derive(Debug)]
pub struct RedisFuture {
    outcome: FallbackFuture<RefusalCacheFuture<RemoteFuture>>,
}

impl Future for RedisFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.outcome).poll(cx)
    }
}
