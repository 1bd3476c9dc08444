//! The token bucket, smooth or in steps, as the generic cell rate algorithm.
//!
//! Instead of tokens it keeps the instant at which the bucket will be full again (the theoretical arrival time):
//! what is missing now is the time until then. In whole numbers: a token is worth `p / l` ticks, so the instant is
//! kept as `whole + rem / l`, and a debt is counted in units of `1 / l` tick.

use crate::quota::Rate;
use crate::store::{Answer, Decision};

use super::account::{Account, Snapshot, Terms, stepped_back};

/// When the bucket will be full: at `whole` (microseconds), and `rem / l` of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// The last write.
    at: u64,
    whole: u64,
    rem: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// The account's clock, in microseconds …
    now: u64,
    /// … and the last refill, in ticks: what is missing is counted from here.
    refill: u64,
    whole: u64,
    rem: u64,
    /// What is missing, in units of `1 / l` tick; `cap + 1` stands for all that is more than a bucket.
    debt: u64,
}

impl Account for TokenBucket {
    type Reading = Reading;

    #[inline]
    fn at(&self) -> u64 {
        self.at
    }

    #[inline]
    fn snapshot(&self) -> Option<Snapshot> {
        Some([self.at, self.whole, self.rem, 0])
    }

    #[inline]
    fn restore(&mut self, [at, whole, rem, _]: Snapshot) {
        *self = Self { at, whole, rem };
    }

    #[inline]
    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool {
        if stepped_back(self.at, real) {
            // From refill to refill, so that the same number of tokens is missing after as before.
            let refills = terms.refills();
            let step = refills.floor(self.at) - refills.floor(real);
            self.whole = self.whole.saturating_sub(step);
            self.at = real;
            return true;
        }
        false
    }

    #[inline]
    fn read(&self, terms: &Terms<'_>, real: u64) -> Reading {
        let rate = terms.quota.rate();
        let now = real.max(self.at);
        if rate.is_whole && !terms.has_steps() {
            return self.read_whole(now, rate);
        }
        let refill = ticks(terms.refills().floor(now), rate.tick);
        // Written under another quota it may lie between two ticks: to the strict side.
        let mut whole = if rate.tick == 1 {
            self.whole
        } else {
            self.whole.div_ceil(rate.tick)
        };
        let mut rem = self.rem.min(rate.l - 1);
        if whole < refill {
            (whole, rem) = (refill, 0);
        }
        let missing = whole - refill;
        // Never multiplies a far value: the quota may have shrunk. With a cap of at most 2^52 nothing saturates.
        let debt = if missing > (rate.cap / rate.l).saturating_add(1) {
            rate.cap.saturating_add(1)
        } else {
            missing.saturating_mul(rate.l).saturating_add(rem)
        };
        Reading {
            now,
            refill,
            whole,
            rem,
            debt,
        }
    }

    #[inline]
    fn answer(reading: &Reading, terms: &Terms<'_>, cost: u64) -> Answer {
        let rate = terms.quota.rate();
        if cost == 0 {
            Answer::Admits
        } else if cost > terms.quota.burst_size() {
            Answer::NeverFits
        } else if reading.debt > rate.cap.saturating_sub(cost.saturating_mul(rate.p)) {
            Answer::Refuses
        } else {
            Answer::Admits
        }
    }

    #[inline]
    fn look(&self, reading: &Reading, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        Decision::new(Self::answer(reading, terms, cost))
            .with_remaining(remaining(terms, reading.debt))
            .with_retry_after_micros(retry_after(reading, terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real))
    }

    #[inline]
    fn charge(&mut self, reading: &Reading, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let rate = terms.quota.rate();
        let debt = reading.debt.saturating_add(cost.saturating_mul(rate.p));
        if rate.is_whole && !terms.has_steps() {
            return self.charge_whole(reading.now, debt, rate, real, cost);
        }
        let charged = reading.owing(debt, rate.l);
        *self = charged.state(rate.tick);
        Decision::new(Answer::Admits)
            .with_remaining(remaining(terms, debt))
            .with_retry_after_micros(retry_after(&charged, terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real))
    }

    #[inline]
    fn mark(&self, _: u64) -> u64 {
        self.whole
    }

    /// Had the charge never been made, the bucket would have been full no earlier than `mark`, less what was charged;
    /// from then on it would have lost its refills to overflow. So what certainly still weighs on the account is
    /// what was charged, but no more than lies between now and `mark`.
    ///
    /// Of charges made after this one the same can no longer be said: without it, the bucket would have been full earlier
    /// than their marks tell.
    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool {
        let rate = terms.quota.rate();
        let reading = self.read(terms, real);
        let weighs = ticks(mark, rate.tick)
            .saturating_sub(reading.refill)
            .saturating_mul(rate.l);
        let given = weighs.min(cost.saturating_mul(rate.p)).min(reading.debt);
        if given == 0 || reading.debt > rate.cap {
            return false;
        }
        *self = reading.owing(reading.debt - given, rate.l).state(rate.tick);
        true
    }

    /// When it resets tells all, but for a fraction of a tick.
    fn told(_: &Terms<'_>, real: u64, _: u64, reset_after: u64) -> Self {
        Self {
            at: real,
            whole: real.saturating_add(reset_after),
            rem: 0,
        }
    }

    #[inline]
    fn reset_at(&self, terms: &Terms<'_>) -> u64 {
        if self.whole == 0 {
            return self.at;
        }
        let tick = terms.quota.rate().tick;
        let full = if self.rem > 0 {
            self.whole.saturating_add(tick)
        } else {
            self.whole
        };
        terms.refills().ceil(full).max(self.at)
    }
}

/// The usual case, spared its divisions: a token takes whole microseconds, and every one of them is a refill.
impl TokenBucket {
    #[inline]
    fn read_whole(&self, now: u64, rate: &Rate) -> Reading {
        let whole = self.whole.max(now);
        Reading {
            now,
            refill: now,
            whole,
            rem: 0,
            debt: (whole - now).min(rate.cap.saturating_add(1)),
        }
    }

    #[inline]
    fn charge_whole(&mut self, now: u64, debt: u64, rate: &Rate, real: u64, cost: u64) -> Decision {
        let whole = now.saturating_add(debt);
        *self = Self { at: now, whole, rem: 0 };
        let room = rate.cap.saturating_sub(cost.saturating_mul(rate.p));
        let retry_after = if debt > room { whole - room - real } else { 0 };
        Decision::new(Answer::Admits)
            .with_remaining(rate.cap.saturating_sub(debt) / rate.p)
            .with_retry_after_micros(retry_after)
            .with_reset_after_micros(whole - real)
    }
}

impl Reading {
    /// The same instant with another debt.
    #[inline]
    fn owing(&self, debt: u64, l: u64) -> Self {
        Self {
            whole: self.refill.saturating_add(debt / l),
            rem: debt % l,
            debt,
            ..*self
        }
    }

    #[inline]
    fn state(&self, tick: u64) -> TokenBucket {
        TokenBucket {
            at: self.now,
            whole: self.whole.saturating_mul(tick),
            rem: self.rem,
        }
    }
}

#[inline]
fn remaining(terms: &Terms<'_>, debt: u64) -> u64 {
    let rate = terms.quota.rate();
    rate.cap.saturating_sub(debt) / rate.p
}

/// Until the debt leaves room for `cost`: until `whole − floor((room − rem) / l)`, at a refill.
#[inline]
fn retry_after(reading: &Reading, terms: &Terms<'_>, real: u64, cost: u64) -> u64 {
    let rate = terms.quota.rate();
    if TokenBucket::answer(reading, terms, cost) != Answer::Refuses {
        return 0;
    }
    let room = rate.cap.saturating_sub(cost.saturating_mul(rate.p));
    let fits_at = match room.checked_sub(reading.rem) {
        Some(room) => reading.whole.saturating_sub(room / rate.l),
        None => reading.whole.saturating_add(1),
    };
    terms
        .refills()
        .ceil(fits_at.saturating_mul(rate.tick))
        .saturating_sub(real)
}

#[inline]
const fn ticks(micros: u64, tick: u64) -> u64 {
    if tick == 1 { micros } else { micros / tick }
}
