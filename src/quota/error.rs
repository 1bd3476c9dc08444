//! Why a quota cannot be.

use std::fmt;

/// Why a [`Quota`](super::Quota) cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaError {
    /// The limit is 0 or beyond 2^52.
    Limit,
    /// The period is zero, beyond 2^52 microseconds, or not whole microseconds.
    Period,
    /// The burst is 0 or beyond 2^52.
    Burst,
    /// A burst was set for an algorithm that has none.
    BurstOfWindow,
    /// The bucket refills whole within the finest time that is told apart.
    SmallBurst,
    /// The refill step does not divide the period into whole refills.
    Step,
    /// The buckets do not divide the period.
    Buckets,
    /// The products of the quota exceed 2^52.
    Inexact,
    /// The limit is beyond what the log accepts.
    Log,
}

impl QuotaError {
    /// The field to change.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Limit | Self::Inexact | Self::Log => "limit",
            Self::Period => "period",
            Self::Burst | Self::BurstOfWindow | Self::SmallBurst => "burst",
            Self::Step => "step",
            Self::Buckets => "buckets",
        }
    }

    pub(super) const fn advice(&self) -> &'static str {
        match self {
            Self::Limit => "the limit of a quota must be from 1 to 2^52; to let nothing through, refuse in the handler",
            Self::Period => "the period of a quota must be a whole number of microseconds, from 1 to 2^52",
            Self::Burst => "the burst of a quota must be from 1 to 2^52; leave it out to have it equal the limit",
            Self::BurstOfWindow => "a burst means nothing to a window or a log; leave it out, or use the token bucket",
            Self::SmallBurst => {
                "the burst refills whole within one step (of the smooth bucket 1 microsecond, or 1 ms for odd quotas per hour), so the limit could \
                 never be reached; write a burst of at least limit x step / period"
            }
            Self::Step => {
                "the refill step must be whole microseconds, divide the period, and refill a whole number of \
                 requests each time; for 600 per minute write 100 ms, 1 s or 10 s"
            }
            Self::Buckets => {
                "the buckets of a sliding window must be from 1 to 10,000 and divide the period into whole \
                 microseconds; 10 or 60 do for most"
            }
            Self::Inexact => {
                "limit or burst times period is too large to be counted exactly (beyond 2^52 even after reduction); \
                 write a rounder limit, a smaller burst or a shorter period"
            }
            Self::Log => {
                "a sliding log remembers every request, so it takes limits up to 10,000; raise that with \
                 sliding_log_up_to, or use sliding_window"
            }
        }
    }
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.advice())
    }
}

impl std::error::Error for QuotaError {}
