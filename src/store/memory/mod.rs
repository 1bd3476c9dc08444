//! Accounts in this process's memory.
//!
//! # How it decides
//!
//! Each quota of each tier has a table of its own, so that a flood of keys in one tier cannot touch another. A table
//! is cut into shards with a lock each. One decision
//!
//! 1. finds shard and fingerprint of each key: 127 bits of a hash keyed with a secret of the store's own, so that any two of a
//!    million keys share an account with a probability of 2^-88, and nobody can look for such keys;
//! 2. reads the clock, once;
//! 3. locks the shards of all its accounts, in the order of their tables and places, so that no two decisions can wait
//!    for each other, and asks each account on the way;
//! 4. charges all of them, or none.
//!
//! The clock is read before the locks are taken, as others wait for these. A thread that sleeps in between finds accounts
//! that were written, or dropped as good as new, at a later time: up to a second is sat out, which takes the later time for
//! the account's; if it is more, it reads the clock again before it takes that for a clock that was set back.
//!
//! # How it forgets
//!
//! There is no background task and no sweep. A shard that has to grow leaves out the accounts that cannot be told
//! from new ones. A table that holds as many keys as it may draws a few of its accounts for each newcomer, and forgets
//! the one with the least to lose: one that is as good as new, else one that still has something left, else one that
//! is used up, else one that has been refused since; of those alike the one that resets first. The work is the same
//! however many keys there are.
//!
//! # How much room it needs
//!
//! An account is worth keeping until it resets. So the number of keys that are live at a time is at most the number of
//! admitted requests per second, times the seconds for which one charge is remembered:
//!
//! | algorithm | a charge is remembered for |
//! |---|---|
//! | token bucket | period / limit, and the step if it has one |
//! | fixed window | up to one period |
//! | sliding window of n buckets | one period and 1 / n of it |
//! | weighted window | up to two periods |
//! | sliding log | one period |
//!
//! With 2,000 requests a second and 60 per minute, a token bucket needs 2,000 keys and a fixed window 120,000; with 100
//! per day a token bucket (864 s) needs 1.7 million. A table that is too small forgets accounts that still count, and
//! so admits more than the quota; [`MemoryStore::usage`] counts them as `forgotten`.
//!
//! A slot takes 40 bytes for a token bucket or a fixed window, 48 for a stepped bucket or a weighted window, and 64 for a
//! sliding window or log, to which 16 to 32 for each bucket or log entry in use are added, at least 64. Slots are allocated as
//! keys arrive and are kept between 64 % and 80 % full, so for each key it is a quarter to a half more: 50 to 62.5 bytes for
//! a token bucket. A table of n keys never takes more than
//!
//! ```text
//! n × slot × 25/16 + shards × 320 bytes        shards = n/256, at most 1,024; n/1,024 if that is more; never over 131,072
//! ```
//!
//! and what one shard takes twice while it grows, a quarter at a time; 64 bytes of each shard are allocated when the table is
//! opened, by the first request to its tier. Of 100,000 token buckets that is 6.4 MB. A shard that grows holds up those
//! who wait for it for some tens of microseconds, however large the table.
//!
//! # Under contention
//!
//! Threads that ask for different users hardly ever meet: their shards are many, and each lock shares its cache line with
//! nothing but what it guards. They meet where they share an account, as all do in a `Global` tier. That account has one
//! lock and two cache lines, which travel from core to core, say 100 ns each time; with the work done under the lock
//! that makes 3 to 5 million decisions a second for one account (reckoned, not measured) **however many cores there
//! are**. With 64 cores it is the first thing to break, when each spends less than about 15 µs on a request; waiting threads then sleep and are
//! woken, which costs more than the wait. Next are the counts of references to the text of `RateLimit-Policy` (one for all
//! requests, twice each) and, in a flood, the count of a table's keys. Readings on two cores are in `bench/RESULTS.md`. What
//! there is to do, best first:
//!
//! - List the tier that all share last: locks are taken in the order of the tiers, and the last is held for the shortest time.
//! - Leave it out where the tiers before it bound the sum.
//! - Split it: a key of `n` values by the client, such as a hash of its address modulo 16, with a sixteenth of the quota
//!   each. It admits what one account would if clients spread evenly, less if they do not, never more.
//!
//! Locks are those of the standard library, which put a waiting thread to sleep. Spinning ones are a little faster as long as
//! nobody waits; but a thread that is interrupted while it holds one stops all others, for as long as they spin.

mod decide;
mod fingerprint;
mod forgetting;
mod question;
mod shard;
mod slots;
mod table;
mod tables;

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::algorithm::Terms;
use crate::clock::{Clock, SystemClock, Timestamp};

use self::decide::Step;
use self::fingerprint::Fingerprint;
use self::question::Question;
use self::table::{Bounds, Table};
use self::tables::Tables;
use super::secret::Secret;
use super::{Asked, Charge, Outcome, Receipt, Store};

/// Keeps accounts in this process's memory, and answers at once.
///
/// Clones share the accounts, so one store can serve several layers.
///
/// ```
/// use tower_throttle::{Header, Quota, RateLimitLayer, Tier};
/// use tower_throttle::store::MemoryStore;
///
/// let store = MemoryStore::new().max_keys(1_000_000);
/// let layer = RateLimitLayer::new([Tier::new("user", Header::new("x-user-id"), Quota::per_minute(60))])
///     .store(store.clone());
/// assert_eq!(store.keys(), 0);
/// ```
///
/// # Defaults
///
/// - [`max_keys`](Self::max_keys): 100,000 for each quota of each tier, which take up to 6.4 MB of token buckets: small
///   enough that a flood of keys is no danger to a small machine, and enough for 1,600 requests a second with a quota
///   that is remembered for a minute. See the [module](self) for what you need.
/// - [`max_log_entries`](Self::max_log_entries): 1,000,000 for each quota of each tier, up to 32 MB.
/// - [`clock`](Self::clock): [`SystemClock`].
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    bounds: Bounds,
    secret: Secret,
    tables: Tables,
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with(Arc::new(SystemClock::new()), Bounds::default())
    }

    /// How many keys each quota of a tier may hold, at least 1. The accounts held so far are left behind.
    #[must_use]
    pub fn max_keys(self, max_keys: usize) -> Self {
        let keys = max_keys.max(1);
        Self::with(
            Arc::clone(&self.inner.clock),
            Bounds {
                keys,
                ..self.inner.bounds
            },
        )
    }

    /// How many entries the sliding windows or logs of each quota of a tier may hold together; a single account may fill
    /// its own even where that is more. The accounts held so far are left behind.
    #[must_use]
    pub fn max_log_entries(self, max_log_entries: usize) -> Self {
        let entries = max_log_entries.max(1);
        Self::with(
            Arc::clone(&self.inner.clock),
            Bounds {
                entries,
                ..self.inner.bounds
            },
        )
    }

    /// By which clock. The accounts held so far are left behind.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        Self::with(Arc::new(clock), self.inner.bounds)
    }

    fn with(clock: Arc<dyn Clock>, bounds: Bounds) -> Self {
        Self {
            inner: Arc::new(Inner {
                clock,
                bounds,
                secret: Secret::random(),
                tables: Tables::default(),
            }),
        }
    }

    /// How many accounts are held, in all tiers.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.inner.tables.iter().map(Table::held).sum()
    }

    /// What each quota of each tier holds.
    #[must_use]
    pub fn usage(&self) -> Vec<Usage> {
        self.inner.tables.iter().map(Table::usage).collect()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.inner.clock.now()
    }

    /// Takes over what another store tells of the account of `charge`: what remains, and in how many microseconds it
    /// resets. Not if `keeps_less` and less remains here.
    pub(crate) fn tell(&self, charge: &Charge<'_>, remaining: u64, reset_after: u64, keeps_less: bool) {
        let question = self.question(charge, 0);
        let mut shard = question.lock();
        let real = self.now().as_micros();
        shard.tell(&question, real, remaining, reset_after, keeps_less);
    }

    /// Finds an account: all work that needs no lock.
    #[inline(always)]
    fn question<'a>(&'a self, charge: &Charge<'a>, place: usize) -> Question<'a> {
        let table = self.inner.tables.find(charge, &self.inner.bounds);
        let fingerprint = Fingerprint::of(charge.key, &self.inner.secret);
        let (shard, rank) = table.shard(fingerprint);
        Question {
            table,
            shard,
            rank,
            fingerprint,
            terms: Terms::new(charge.quota, charge.key),
            cost: charge.cost,
            place,
        }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("max_keys", &self.inner.bounds.keys)
            .field("max_log_entries", &self.inner.bounds.entries)
            .field("keys", &self.keys())
            .finish_non_exhaustive()
    }
}

impl Store for MemoryStore {
    type Future = Never;

    fn charge(&self, charges: &[Charge<'_>]) -> Asked<Never> {
        let mut asked = Asked::Now(Outcome::unanswered(charges.len()));
        let Asked::Now(ref mut outcome) = asked;
        let step = |place: usize| Step::new(self.question(&charges[place], place));
        match charges.len() {
            0 => outcome.set_now(self.now()),
            1 => self.decide(&mut [step(0)], outcome),
            2 => self.decide(&mut [step(0), step(1)], outcome),
            3 => self.decide(&mut [step(0), step(1), step(2)], outcome),
            4 => self.decide(&mut [step(0), step(1), step(2), step(3)], outcome),
            more => self.decide(&mut (0..more).map(step).collect::<Vec<_>>(), outcome),
        }
        asked
    }

    fn give_back(&self, charges: &[Charge<'_>], receipt: Receipt) -> Asked<Never> {
        let mut outcome = Outcome::unanswered(charges.len());
        outcome.set_now(self.now());
        // One by one: what is given back is nobody's, so there is nothing to be seen in between.
        for (nth, charge) in charges.iter().enumerate() {
            let question = self.question(charge, nth);
            let mut shard = question.lock();
            let real = self.now().as_micros();
            if let Some([mark, generation]) = receipt.marks().get(2 * nth..2 * nth + 2)
                && *generation == shard.generation()
            {
                shard.give_back(&question, real, *mark);
            }
            outcome.answers().decisions[nth] = shard.standing(&question, real);
        }
        Asked::Now(outcome)
    }
}

/// What one quota of one tier holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// The layer's namespace.
    pub namespace: String,
    /// The tier's name.
    pub tier: String,
    /// Which of the tier's quotas, counted from 0.
    pub nth: u8,
    /// Keys held now.
    pub keys: usize,
    /// Buckets and log entries held now by the accounts of a sliding window or log; 0 for the others.
    pub log_entries: usize,
    /// Accounts forgotten for want of room while they still counted: if this grows, raise
    /// [`MemoryStore::max_keys`].
    pub forgotten: u64,
}

/// The future of a store that always answers at once: there is none.
#[derive(Debug)]
pub struct Never {
    never: Infallible,
}

impl Never {
    pub(crate) const fn into_outcome(self) -> Outcome {
        match self.never {}
    }
}

impl Future for Never {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        match self.never {}
    }
}
