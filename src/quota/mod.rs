//! How much is allowed: so many per period, with a burst, by an algorithm.

mod error;
mod rate;

use std::fmt;
use std::time::Duration;

pub use self::error::QuotaError;
pub(crate) use self::rate::Rate;

/// So many per period, with a burst, by an algorithm.
///
/// The default algorithm is the smooth token bucket; the [`algorithm`](crate::algorithm) module tells
/// what each one promises, what it costs and when to choose it.
///
/// ```
/// use std::time::Duration;
/// use tower_throttle::Quota;
///
/// const API: Quota = Quota::per_minute(600).burst(800);
/// const LOGIN: Quota = Quota::new(5, Duration::from_secs(300)).sliding_log();
/// const PING: Quota = Quota::one_every(Duration::from_millis(250));
///
/// assert_eq!(API.limit(), 600);
/// assert_eq!(API.period(), Duration::from_secs(60));
/// assert_eq!(LOGIN.burst_size(), 5);
/// ```
///
/// The constructors are `const` and panic on nonsense, so a wrong constant does not compile. For values
/// known only at run time there are [`try_new`](Self::try_new) and [`try_burst`](Self::try_burst). What can be judged
/// only once all fields are known, [`check`](Self::check) judges; the layer does so when it is built.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    /// In microseconds.
    period: u64,
    burst: Option<u64>,
    algorithm: Algorithm,
    rate: Rate,
}

/// How a [`Quota`] counts.
///
/// Chosen by the methods of [`Quota`]; see the [`algorithm`](crate::algorithm) module for the meaning of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// The bucket refills continuously.
    TokenBucket,
    /// The bucket refills at intervals: by default at a phase of its own for each key.
    SteppedBucket {
        /// Time between two refills, in microseconds.
        step: u64,
        /// Whether all keys are refilled at multiples of `step` since the epoch.
        aligned: bool,
    },
    /// One count per window.
    FixedWindow {
        /// Whether windows are aligned to the epoch; otherwise the first admitted request opens one.
        aligned: bool,
    },
    /// The window cut into buckets, counted strictly.
    SlidingWindow {
        /// Into how many buckets the period is cut.
        buckets: u32,
    },
    /// The previous window's count, weighted by its overlap, and the current one's.
    WeightedWindow,
    /// Every admitted request remembered for one period.
    SlidingLog {
        /// The largest limit that is accepted for a log.
        most: u64,
    },
}

/// The largest quantity that is exact everywhere: whole numbers up to 2^53 survive in the doubles of Lua, and one
/// bit is left for sums.
pub(crate) const MOST: u64 = 1 << 52;

/// The largest limit of a sliding log unless it is raised.
const LOG_LIMIT: u64 = 10_000;
/// The finest cut of a sliding window.
const MOST_BUCKETS: u32 = 10_000;
const MILLISECOND: u64 = 1_000;
const HOUR: u64 = 3_600_000_000;

impl Quota {
    /// `limit` per `period`.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or beyond 2^52, or if `period` is zero, beyond 2^52 microseconds, or not a whole number of
    /// microseconds.
    #[must_use]
    pub const fn new(limit: u64, period: Duration) -> Self {
        match Self::try_new(limit, period) {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.advice()),
        }
    }

    /// `limit` per `period`, for values known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`new`](Self::new) panics.
    pub const fn try_new(limit: u64, period: Duration) -> Result<Self, QuotaError> {
        if limit == 0 || limit > MOST {
            return Err(QuotaError::Limit);
        }
        let Some(period) = micros(period) else {
            return Err(QuotaError::Period);
        };
        Ok(Self {
            limit,
            period,
            burst: None,
            algorithm: Algorithm::TokenBucket,
            rate: Rate::UNSET,
        }
        .reduced())
    }

    /// `limit` per second.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or beyond 2^52.
    #[must_use]
    pub const fn per_second(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(1))
    }

    /// `limit` per minute.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or beyond 2^52.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(60))
    }

    /// `limit` per hour.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or beyond 2^52.
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(3_600))
    }

    /// `limit` per day of 24 hours.
    ///
    /// # Panics
    ///
    /// If `limit` is 0 or beyond 2^52.
    #[must_use]
    pub const fn per_day(limit: u64) -> Self {
        Self::new(limit, Duration::from_secs(86_400))
    }

    /// One request, then no other for `interval`.
    ///
    /// # Panics
    ///
    /// If `interval` is zero, beyond 2^52 microseconds, or not a whole number of microseconds.
    #[must_use]
    pub const fn one_every(interval: Duration) -> Self {
        Self::new(1, interval)
    }

    /// How many may come at once after a rest; the limit unless set. For token buckets only.
    ///
    /// # Panics
    ///
    /// If `burst` is 0 or beyond 2^52.
    #[must_use]
    pub const fn burst(self, burst: u64) -> Self {
        match self.try_burst(burst) {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.advice()),
        }
    }

    /// How many may come at once, for a number known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`burst`](Self::burst) panics.
    pub const fn try_burst(mut self, burst: u64) -> Result<Self, QuotaError> {
        if burst == 0 || burst > MOST {
            return Err(QuotaError::Burst);
        }
        self.burst = Some(burst);
        Ok(self.reduced())
    }

    /// Refills the bucket at intervals of `step` rather than continuously, at a phase of its own for each key, so
    /// that not all clients come back at one instant.
    ///
    /// # Panics
    ///
    /// If `step` is zero or not a whole number of microseconds.
    #[must_use]
    pub const fn in_steps(self, step: Duration) -> Self {
        match self.try_in_steps(step) {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.advice()),
        }
    }

    /// Refills at intervals known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`in_steps`](Self::in_steps) panics.
    pub const fn try_in_steps(self, step: Duration) -> Result<Self, QuotaError> {
        self.stepped(step, false)
    }

    /// Refills the bucket at multiples of `step` since the Unix epoch: the same instants for all keys.
    ///
    /// # Panics
    ///
    /// If `step` is zero or not a whole number of microseconds.
    #[must_use]
    pub const fn in_aligned_steps(self, step: Duration) -> Self {
        match self.try_in_aligned_steps(step) {
            Ok(quota) => quota,
            Err(error) => panic!("{}", error.advice()),
        }
    }

    /// Refills at aligned intervals known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`in_aligned_steps`](Self::in_aligned_steps) panics.
    pub const fn try_in_aligned_steps(self, step: Duration) -> Result<Self, QuotaError> {
        self.stepped(step, true)
    }

    const fn stepped(self, step: Duration, aligned: bool) -> Result<Self, QuotaError> {
        match micros(step) {
            Some(step) => Ok(self.by(Algorithm::SteppedBucket { step, aligned })),
            None => Err(QuotaError::Step),
        }
    }

    /// One count per window, windows aligned to the Unix epoch.
    #[must_use]
    pub const fn fixed_window(self) -> Self {
        self.by(Algorithm::FixedWindow { aligned: true })
    }

    /// One count per window, each opened by the first request admitted after the last one ended.
    #[must_use]
    pub const fn fixed_window_from_first(self) -> Self {
        self.by(Algorithm::FixedWindow { aligned: false })
    }

    /// Never more than the limit in any window of one period, counted in `buckets` parts of it.
    #[must_use]
    pub const fn sliding_window(self, buckets: u32) -> Self {
        self.by(Algorithm::SlidingWindow { buckets })
    }

    /// The previous window's count, weighted by how much of it the sliding window still covers, and the current one's.
    #[must_use]
    pub const fn weighted_window(self) -> Self {
        self.by(Algorithm::WeightedWindow)
    }

    /// Never more than the limit in any window of one period, exactly; every admitted request is remembered, so
    /// limits above 10,000 are refused.
    #[must_use]
    pub const fn sliding_log(self) -> Self {
        self.sliding_log_up_to(LOG_LIMIT)
    }

    /// A [`sliding_log`](Self::sliding_log) for limits up to `most`, for those who have the memory: 16 to 32 bytes for
    /// each admitted request of the last period.
    #[must_use]
    pub const fn sliding_log_up_to(self, most: u64) -> Self {
        self.by(Algorithm::SlidingLog { most })
    }

    const fn by(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = algorithm;
        self.reduced()
    }

    /// So many …
    #[must_use]
    #[inline]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// … per so long.
    #[must_use]
    #[inline]
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period)
    }

    /// How many may come at once: the largest cost that can ever be admitted.
    #[must_use]
    #[inline]
    pub const fn burst_size(&self) -> u64 {
        match self.burst {
            Some(burst) => burst,
            None => self.limit,
        }
    }

    /// How it counts.
    #[must_use]
    #[inline]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    #[inline]
    pub(crate) const fn period_micros(&self) -> u64 {
        self.period
    }

    #[inline]
    pub(crate) const fn rate(&self) -> &Rate {
        &self.rate
    }

    /// What one of `replicas` may admit for its share, so that together they keep to the quota in the long run: as many
    /// at once, refilled more slowly. (To divide the limit instead would leave nothing of a small one.)
    pub(crate) fn stretched(&self, replicas: u32) -> Self {
        let replicas = u64::from(replicas.max(1));
        let by_period = Self {
            period: self.period.saturating_mul(replicas),
            algorithm: match self.algorithm {
                Algorithm::SteppedBucket { step, aligned } => Algorithm::SteppedBucket {
                    step: step.saturating_mul(replicas),
                    aligned,
                },
                algorithm => algorithm,
            },
            ..*self
        };
        let by_limit = Self {
            limit: (self.limit / replicas).max(1),
            burst: Some(self.burst_size()).filter(|_| self.has_burst()),
            ..*self
        };
        // What is too long to be counted exactly must be divided after all.
        [by_period.reduced(), by_limit.reduced()]
            .into_iter()
            .find(|quota| quota.period <= MOST && quota.check().is_ok())
            .unwrap_or(*self)
    }

    const fn has_burst(&self) -> bool {
        matches!(self.algorithm, Algorithm::TokenBucket | Algorithm::SteppedBucket { .. })
    }

    /// Whether the fields agree with each other.
    ///
    /// # Errors
    ///
    /// If the algorithm cannot count this quota exactly, or has no use for a field that was set.
    pub const fn check(&self) -> Result<(), QuotaError> {
        match self.algorithm {
            Algorithm::TokenBucket => self.check_bucket(self.rate.tick),
            Algorithm::SteppedBucket { step, .. } => {
                if !self.period.is_multiple_of(step) {
                    return Err(QuotaError::Step);
                }
                let steps = self.period / step;
                if !self.limit.is_multiple_of(steps) || !step.is_multiple_of(self.rate.tick) {
                    return Err(QuotaError::Step);
                }
                self.check_bucket(step)
            }
            _ if self.burst.is_some() => Err(QuotaError::BurstOfWindow),
            Algorithm::FixedWindow { .. } => Ok(()),
            Algorithm::SlidingWindow { buckets } => {
                if buckets == 0 || buckets > MOST_BUCKETS || !self.period.is_multiple_of(buckets as u64) {
                    return Err(QuotaError::Buckets);
                }
                Ok(())
            }
            Algorithm::WeightedWindow => {
                if self.limit > MOST / (self.period / self.rate.tick) {
                    return Err(QuotaError::Inexact);
                }
                Ok(())
            }
            Algorithm::SlidingLog { most } => {
                if self.limit > most {
                    return Err(QuotaError::Log);
                }
                Ok(())
            }
        }
    }

    const fn check_bucket(&self, grain: u64) -> Result<(), QuotaError> {
        if self.rate.cap > MOST {
            return Err(QuotaError::Inexact);
        }
        // A bucket that refills whole within one grain of time would lose what overflows in it, and so give less
        // than its limit without a word.
        if (self.burst_size() as u128) * (self.period as u128) < (self.limit as u128) * (grain as u128) {
            return Err(QuotaError::SmallBurst);
        }
        Ok(())
    }

    const fn reduced(mut self) -> Self {
        let mut rate = Rate::reduce(self.limit, self.period, self.burst_size(), 1);
        let too_fine = if self.has_burst() {
            rate.cap > MOST
        } else {
            self.limit > MOST / self.period
        };
        if too_fine && self.period >= HOUR && self.period.is_multiple_of(MILLISECOND) {
            rate = Rate::reduce(self.limit, self.period, self.burst_size(), MILLISECOND);
        }
        rate.is_plain &= matches!(self.algorithm, Algorithm::TokenBucket);
        self.rate = rate;
        self
    }
}

/// Whole microseconds from 1 to 2^52, or nothing.
const fn micros(duration: Duration) -> Option<u64> {
    let micros = duration.as_micros();
    if micros == 0 || micros > MOST as u128 || !duration.subsec_nanos().is_multiple_of(1_000) {
        return None;
    }
    Some(micros as u64)
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quota")
            .field("limit", &self.limit)
            .field("period", &self.period())
            .field("burst", &self.burst_size())
            .field("algorithm", &self.algorithm)
            .finish()
    }
}
