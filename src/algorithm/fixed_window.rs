//! One count per window: aligned to the epoch, or opened by the first admitted request.

use crate::quota::Algorithm;
use crate::store::{Answer, Decision};

use super::account::{Account, Terms, counted, stepped_back, used};
use super::grid::Grid;

/// How much was admitted since `start`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    /// The last write.
    at: u64,
    start: u64,
    count: u64,
}

impl Account for FixedWindow {
    #[inline]
    fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool {
        if stepped_back(self.at, real) {
            let step = if aligned(terms) {
                let windows = windows(terms);
                windows.floor(self.at) - windows.floor(real)
            } else {
                self.at - real
            };
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
            .with_remaining(terms.quota.limit().saturating_sub(reading.count))
            .with_retry_after_micros(reading.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    #[inline]
    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        *self = self.read(terms, real);
        self.count += cost;
        *decision = Decision::new(Answer::Admits)
            .with_remaining(terms.quota.limit().saturating_sub(self.count))
            .with_retry_after_micros(self.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    /// The window, and whether the charge opened it.
    #[inline]
    fn mark(&self, cost: u64) -> u64 {
        2 * self.start + u64::from(self.count == cost)
    }

    /// A charge that opened a window of its own is given back only if nothing else is in it. Otherwise the window would
    /// go on without its first request, end too early for the others, and let through one too many.
    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool {
        let reading = self.read(terms, real);
        let opener = mark % 2 == 1 && !aligned(terms);
        if reading.count > 0 && reading.start == mark / 2 && (!opener || reading.count <= cost) {
            *self = Self {
                count: reading.count.saturating_sub(cost),
                ..reading
            };
        }
        false
    }

    fn told(terms: &Terms<'_>, real: u64, remaining: u64, _: u64) -> Self {
        Self {
            count: used(terms, remaining),
            ..Self::default().read(terms, real)
        }
    }

    #[inline]
    fn reset_at(&self, terms: &Terms<'_>) -> u64 {
        if self.count == 0 { self.at } else { self.end(terms) }
    }
}

impl FixedWindow {
    /// The account as it would be written now.
    #[inline]
    fn read(&self, terms: &Terms<'_>, real: u64) -> Self {
        let now = real.max(self.at);
        if self.count > 0 && now < self.end(terms) {
            return Self { at: now, ..*self };
        }
        let start = if aligned(terms) { windows(terms).floor(now) } else { now };
        Self {
            at: now,
            start,
            count: 0,
        }
    }

    #[inline]
    fn admits(&self, terms: &Terms<'_>, cost: u64) -> Answer {
        counted(self.count, cost, terms.quota.limit())
    }

    #[inline]
    const fn end(&self, terms: &Terms<'_>) -> u64 {
        self.start.saturating_add(terms.quota.period_micros())
    }

    #[inline]
    fn retry_after(&self, terms: &Terms<'_>, real: u64, cost: u64) -> u64 {
        match self.admits(terms, cost) {
            Answer::Refuses => self.end(terms).saturating_sub(real),
            _ => 0,
        }
    }
}

#[inline]
const fn windows(terms: &Terms<'_>) -> Grid {
    Grid::new(terms.quota.period_micros())
}

#[inline]
const fn aligned(terms: &Terms<'_>) -> bool {
    matches!(terms.quota.algorithm(), Algorithm::FixedWindow { aligned: true })
}
