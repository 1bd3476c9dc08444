//! The sliding window estimated from two counts: the current window's, and the previous one's weighted by how much
//! of it the sliding window still covers.

use crate::store::{Answer, Decision};

use super::account::{Account, Terms, stepped_back, used};
use super::grid::Grid;

/// The counts of the window that starts at `start`, and of the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WeightedWindow {
    /// The last write.
    at: u64,
    start: u64,
    count: u64,
    previous: u64,
}

impl Account for WeightedWindow {
    #[inline]
    fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool {
        if stepped_back(self.at, real) {
            let windows = windows(terms);
            let step = windows.floor(self.at) - windows.floor(real);
            self.start = self.start.saturating_sub(step);
            self.at = real;
            return true;
        }
        false
    }

    #[inline]
    fn answer(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        self.read(terms, real).admits(terms, cost)
    }

    #[inline]
    fn look(&self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        let reading = self.read(terms, real);
        *decision = Decision::new(reading.admits(terms, cost))
            .with_remaining(reading.remaining(terms))
            .with_retry_after_micros(reading.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    #[inline]
    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        *self = self.read(terms, real);
        self.count += cost;
        *decision = Decision::new(Answer::Admits)
            .with_remaining(self.remaining(terms))
            .with_retry_after_micros(self.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    #[inline]
    fn mark(&self, _: u64) -> u64 {
        self.start
    }

    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool {
        let mut reading = self.read(terms, real);
        if reading.start == mark {
            reading.count = reading.count.saturating_sub(cost);
        } else if reading.start.checked_sub(terms.quota.period_micros()) == Some(mark) {
            reading.previous = reading.previous.saturating_sub(cost);
        } else {
            return false;
        }
        *self = reading;
        false
    }

    /// All of it in the current window.
    fn told(terms: &Terms<'_>, real: u64, remaining: u64, _: u64) -> Self {
        Self {
            count: used(terms, remaining),
            ..Self::default().read(terms, real)
        }
    }

    #[inline]
    fn reset_at(&self, terms: &Terms<'_>) -> u64 {
        let period = terms.quota.period_micros();
        let windows = match (self.count, self.previous) {
            (0, 0) => return self.at,
            (0, _) => 1,
            _ => 2,
        };
        self.start.saturating_add(period.saturating_mul(windows))
    }
}

/// In ticks, so that a product of a count and a window stays below 2^52 (checked when the quota is built).
impl WeightedWindow {
    /// The account as it would be written now.
    #[inline]
    fn read(&self, terms: &Terms<'_>, real: u64) -> Self {
        let now = real.max(self.at);
        let start = windows(terms).floor(now);
        let (count, previous) = if start <= self.start {
            (self.count, self.previous)
        } else if start - self.start == terms.quota.period_micros() {
            (0, self.count)
        } else {
            (0, 0)
        };
        Self {
            at: now,
            start,
            count,
            previous,
        }
    }

    #[inline]
    fn admits(&self, terms: &Terms<'_>, cost: u64) -> Answer {
        // A whole count decides alike: `remaining` is the largest cost that the weighted sum leaves room for.
        if cost == 0 {
            Answer::Admits
        } else if cost > terms.quota.limit() {
            Answer::NeverFits
        } else if cost > self.remaining(terms) {
            Answer::Refuses
        } else {
            Answer::Admits
        }
    }

    /// `limit − previous · (window − elapsed) / window − count`, rounded down.
    #[inline]
    fn remaining(&self, terms: &Terms<'_>) -> u64 {
        let window = window(terms);
        let elapsed = (self.at - self.start) / terms.quota.rate().tick;
        let weighted = self.previous.saturating_mul(window - elapsed);
        let spent = weighted.div_ceil(window).saturating_add(self.count);
        terms.quota.limit().saturating_sub(spent)
    }

    #[inline]
    fn retry_after(&self, terms: &Terms<'_>, real: u64, cost: u64) -> u64 {
        if self.admits(terms, cost) != Answer::Refuses {
            return 0;
        }
        let limit = terms.quota.limit();
        // In this window the previous count must lose weight; if that is not enough, in the next one this count.
        let (start, weighing, room) = match limit.checked_sub(self.count.saturating_add(cost)) {
            Some(room) => (self.start, self.previous, room),
            None => {
                let next = self.start.saturating_add(terms.quota.period_micros());
                (next, self.count, limit - cost)
            }
        };
        let window = window(terms);
        // The largest part of the window for which `weighing · part ≤ room · window`.
        let part = room.saturating_mul(window) / weighing.max(1);
        let elapsed = window.saturating_sub(part);
        start
            .saturating_add(elapsed.saturating_mul(terms.quota.rate().tick))
            .saturating_sub(real)
    }
}

#[inline]
const fn window(terms: &Terms<'_>) -> u64 {
    terms.quota.period_micros() / terms.quota.rate().tick
}

#[inline]
const fn windows(terms: &Terms<'_>) -> Grid {
    Grid::new(terms.quota.period_micros())
}
