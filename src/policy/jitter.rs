//! Waits, spread so that clients refused together do not return together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::random;

use super::error::ConfigError;

/// How much is added to a told wait, drawn anew for each refusal.
///
/// It only ever adds: a client never returns before its time.
///
/// # Defaults
///
/// From 0 to the larger of 1 s and a quarter of the wait, at most 30 s: `Retry-After` counts whole seconds, so less
/// than one is mostly lost in it, and long waits need a wider spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jitter {
    range: Range,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Range {
    #[default]
    Proportional,
    Between {
        min: u64,
        max: u64,
    },
}

impl Jitter {
    /// From `min` to `max`, whatever the wait.
    ///
    /// # Panics
    ///
    /// If `min` is more than `max`, or `max` more than a day.
    #[must_use]
    pub const fn between(min: Duration, max: Duration) -> Self {
        match Self::checked(min, max) {
            Some(jitter) => jitter,
            None => panic!("{}", ADVICE),
        }
    }

    /// From `min` to `max`, for times known only at run time.
    ///
    /// # Errors
    ///
    /// Where [`between`](Self::between) panics.
    pub fn try_between(min: Duration, max: Duration) -> Result<Self, ConfigError> {
        Self::checked(min, max).ok_or_else(|| ConfigError::new("jitter", ADVICE))
    }

    const fn checked(min: Duration, max: Duration) -> Option<Self> {
        let (min, max) = (min.as_micros(), max.as_micros());
        if min > max || max > 86_400_000_000 {
            return None;
        }
        let range = Range::Between {
            min: min as u64,
            max: max as u64,
        };
        Some(Self { range })
    }

    /// None: the same wait for all.
    #[must_use]
    pub const fn none() -> Self {
        Self::between(Duration::ZERO, Duration::ZERO)
    }

    /// Something to add to a wait; both in microseconds.
    pub(super) fn draw(&self, wait: u64, dice: &Dice) -> u64 {
        let (min, max) = match self.range {
            Range::Proportional => (0, (wait / 4).clamp(1_000_000, 30_000_000)),
            Range::Between { min, max } => (min, max),
        };
        min + dice.below(max - min + 1)
    }
}

const ADVICE: &str =
    "a jitter must be from a smaller to a larger time, of at most a day; write it as between(min, max)";

/// Random numbers, for all threads that ask for some.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    steps: Arc<AtomicU64>,
}

impl Dice {
    pub(crate) fn random() -> Self {
        Self::seeded(random::seed())
    }

    /// Always the same numbers.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            steps: Arc::new(AtomicU64::new(seed)),
        }
    }

    /// Any number below `bound`, all as likely but for one part in 2^64.
    fn below(&self, bound: u64) -> u64 {
        let step = self.steps.fetch_add(random::STEP, Ordering::Relaxed);
        random::below(bound, random::scrambled(step))
    }
}
