//! What time it is: whole microseconds since the Unix epoch.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells a store what time it is.
///
/// Windows are aligned to the Unix epoch, so the times of all processes of a fleet should mean the same. A clock
/// should never step back; if it does, by more than a second, accounts are moved along with it.
///
/// A store may read it while it holds locks: it must be quick, and must not ask the store anything.
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

/// The machine's clock: wall time read once, when it is made, and monotonic time since. It does not step, whatever is
/// done to the wall clock later.
///
/// A decision reads the clock, and asking the system for the time is a good part of what it costs. So each thread asks
/// ten times a second and counts the processor's ticks in between, where they run evenly; two threads may then disagree
/// by some microseconds, and one that asks again may find itself some ahead; accounts sit that out. To find out how fast the
/// processor counts, the first clock of a process takes some time to make, 200 ms at the very most.
#[derive(Clone, Debug)]
pub struct SystemClock {
    /// What to add to the time of the process, in microseconds.
    epoch: u64,
    process: &'static Process,
}

impl SystemClock {
    /// Reads the wall clock, for the only time.
    #[must_use]
    pub fn new() -> Self {
        let process = LazyLock::force(&PROCESS);
        let uptime = process.uptime();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            epoch: saturating_micros(since_epoch).saturating_sub(uptime / 1_000),
            process,
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Timestamp {
        Timestamp(self.epoch + self.process.uptime_by_ticks() / 1_000)
    }
}

/// Monotonic time since the first clock of the process was made, in nanoseconds.
#[derive(Debug)]
struct Process {
    start: Instant,
    /// Used for its counter only; its own time would drift from the system's, which is kept right.
    counter: quanta::Clock,
}

static PROCESS: LazyLock<Process> = LazyLock::new(|| Process {
    start: Instant::now(),
    counter: quanta::Clock::new(),
});

/// A time by both measures.
#[derive(Clone, Copy)]
struct Sighting {
    ticks: u64,
    uptime: u64,
}

thread_local! {
    static LAST: Cell<Option<Sighting>> = const { Cell::new(None) };
}

impl Process {
    /// As the system tells it.
    fn uptime(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// As counted from the last time this thread has asked the system.
    #[inline]
    fn uptime_by_ticks(&self) -> u64 {
        const TRUSTED: u64 = 100_000_000;
        let ticks = self.counter.raw();
        if let Some(last) = LAST.get() {
            let since = self.counter.delta_as_nanos(last.ticks, ticks);
            // Also not if the counter was set back, as it may be where a virtual machine has moved.
            if since < TRUSTED && ticks >= last.ticks {
                return last.uptime + since;
            }
        }
        self.ask()
    }

    #[cold]
    fn ask(&self) -> u64 {
        // A thread that was interrupted in between must not take what it has read for one instant.
        const BELONG_TOGETHER: u64 = 20_000;
        let before = self.counter.raw();
        let uptime = self.uptime();
        let ticks = self.counter.raw();
        let together = ticks >= before && self.counter.delta_as_nanos(before, ticks) < BELONG_TOGETHER;
        LAST.set(together.then_some(Sighting { ticks, uptime }));
        uptime
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
