//! What time it is: whole microseconds since the Unix epoch.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells a store what time it is.
///
/// Windows are aligned to the Unix epoch, so the times of all processes of a fleet should mean the same. A clock
/// should never step back; if it does, by more than a second, accounts are moved along with it.
///
/// A store reads it while it holds locks: it must be quick, and must not ask the store anything.
pub trait Clock: Send + Sync + 'static {
    /// The time, now.
    fn now(&self) -> Timestamp;
}

/// An instant: whole microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// `micros` after the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }
}

/// The machine's clock: wall time read once, when it is made, and monotonic time since. It never steps, whatever is
/// done to the wall clock later.
#[derive(Clone, Debug)]
pub struct SystemClock {
    epoch: u64,
    origin: Instant,
}

impl SystemClock {
    /// Reads the wall clock, for the only time.
    #[must_use]
    pub fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            epoch: saturating_micros(since_epoch),
            origin: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.epoch.saturating_add(saturating_micros(self.origin.elapsed())))
    }
}

/// A clock that stands still until it is moved: for tests, yours and ours. Clones show the same time.
///
/// ```
/// use std::time::Duration;
/// use tower_throttle::clock::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// let start = clock.now();
/// clock.advance(Duration::from_secs(3));
/// assert_eq!(clock.now().as_micros() - start.as_micros(), 3_000_000);
/// ```
#[derive(Clone)]
pub struct ManualClock {
    micros: Arc<AtomicU64>,
}

/// 2027-01-15 08:00:00 UTC: a whole minute, hour and 8 hours, so that tests of aligned windows start at an edge.
const START: u64 = 1_800_000_000_000_000;

impl ManualClock {
    /// Starts at a fixed instant, 1,800,000,000 s after the epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Timestamp(START))
    }

    /// Starts at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self {
            micros: Arc::new(AtomicU64::new(now.0)),
        }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let by = saturating_micros(by);
        // Never fails: the closure always has a new value.
        let _ = self
            .micros
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| Some(now.saturating_add(by)));
    }

    /// Sets the clock, also back.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.0, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

fn saturating_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
