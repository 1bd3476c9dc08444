//! What happened between us and Redis, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{Kind, RedisStoreError};

/// What happened between a [`RedisStore`](super::RedisStore) and its Redis since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedisStats {
    /// Calls that Redis answered.
    pub answered: u64,
    /// Calls whose deadline passed. What they charged, if anything, is unknown.
    pub timeouts: u64,
    /// Calls for which there was no connection, or it broke. What the latter charged is unknown.
    pub disconnected: u64,
    /// Calls that were not made, as Redis was known to be down.
    pub skipped: u64,
    /// Calls that were not made, as too many others were waiting.
    pub overload: u64,
    /// Calls that Redis answered with an error: of its memory, say, or its access control list.
    pub server_errors: u64,
    /// Answers that the script never gives.
    pub strange_replies: u64,
    /// Values that were found corrupt, or without a TTL, and removed. If this grows, somebody else writes under the prefix.
    pub healed: u64,
    /// Connections made.
    pub connects: u64,
    /// Times that the script had to be sent.
    pub script_loads: u64,
    /// Times that Redis was found to be down.
    pub outages: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) answered: AtomicU64,
    timeouts: AtomicU64,
    disconnected: AtomicU64,
    skipped: AtomicU64,
    overload: AtomicU64,
    server_errors: AtomicU64,
    strange_replies: AtomicU64,
    pub(super) healed: AtomicU64,
    pub(super) connects: AtomicU64,
    pub(super) script_loads: AtomicU64,
    pub(super) outages: AtomicU64,
}

impl Counters {
    /// A call that failed.
    pub(super) fn count(&self, error: &RedisStoreError) {
        let counter = match error.kind() {
            Kind::Timeout => &self.timeouts,
            Kind::Down => &self.skipped,
            Kind::Overload => &self.overload,
            Kind::Disconnected | Kind::NoRuntime => &self.disconnected,
            Kind::Reply(_) => &self.strange_replies,
            Kind::Url | Kind::Cluster | Kind::NoScript | Kind::Unavailable | Kind::Denied | Kind::Server => {
                &self.server_errors
            }
        };
        one_more(counter);
    }

    pub(super) fn read(&self) -> RedisStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RedisStats {
            answered: read(&self.answered),
            timeouts: read(&self.timeouts),
            disconnected: read(&self.disconnected),
            skipped: read(&self.skipped),
            overload: read(&self.overload),
            server_errors: read(&self.server_errors),
            strange_replies: read(&self.strange_replies),
            healed: read(&self.healed),
            connects: read(&self.connects),
            script_loads: read(&self.script_loads),
            outages: read(&self.outages),
        }
    }
}

pub(super) fn one_more(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
