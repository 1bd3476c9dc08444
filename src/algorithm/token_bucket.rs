//! The token bucket, smooth or in steps, as the generic cell rate algorithm.
//!
//! Instead of tokens it keeps the instant at which the bucket will be full again (the theoretical arrival time):
//! what is missing now is the time until then. In whole numbers: a token is worth `p / l` ticks, so the instant is
//! kept as `whole + rem / l`, and a debt is counted in units of `1 / l` tick.

use crate::quota::Rate;
use crate::store::{Answer, Decision};

use super::account::{Account, Terms, stepped_back};

/// When the bucket will be full: at `whole` (microseconds), and `rem / l` of a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenBucket {
    /// The last write.
    at: u64,
    whole: u64,
    rem: u64,
}

/// An account as it stands at one instant under one quota.
#[derive(Clone, Copy, Debug)]
struct Reading {
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
    #[inline]
    fn at(&self) -> u64 {
        self.at
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

    #[inline(always)]
    fn answer(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        let rate = terms.quota.rate();
        let debt = match rate.is_plain {
            true => self.debt(rate, real.max(self.at)),
            false => self.read(terms, real).debt,
        };
        admits(debt, rate, cost)
    }

    #[inline(always)]
    fn look(&self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        match terms.quota.rate() {
            rate if rate.is_plain => *decision = self.look_plain(terms, real, cost),
            _ => *decision = self.look_any(terms, real, cost),
        }
    }

    #[inline(always)]
    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        match terms.quota.rate() {
            rate if rate.is_plain => *decision = self.charge_plain(rate, real, cost),
            _ => *decision = self.charge_any(terms, real, cost),
        }
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

/// The usual case, spared most divisions: a token takes whole microseconds, and every one of them is a refill.
impl TokenBucket {
    #[inline(always)]
    fn debt(&self, rate: &Rate, now: u64) -> u64 {
        self.whole.saturating_sub(now).min(rate.cap.saturating_add(1))
    }

    #[inline(always)]
    fn look_plain(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let rate = terms.quota.rate();
        let now = real.max(self.at);
        let debt = self.debt(rate, now);
        let answer = admits(debt, rate, cost);
        let retry_after = match answer {
            Answer::Refuses => {
                let room = rate.cap.saturating_sub(cost.saturating_mul(rate.p));
                self.whole.saturating_sub(room).saturating_sub(real)
            }
            _ => 0,
        };
        Decision::new(answer)
            .with_remaining(rate.remaining(debt))
            .with_retry_after_micros(retry_after)
            .with_reset_after_micros(self.reset_after(terms, real))
    }

    #[inline(always)]
    fn charge_plain(&mut self, rate: &Rate, real: u64, cost: u64) -> Decision {
        let now = real.max(self.at);
        let charged = cost.saturating_mul(rate.p);
        let debt = self.debt(rate, now).saturating_add(charged);
        let whole = now.saturating_add(debt);
        *self = Self { at: now, whole, rem: 0 };
        let room = rate.cap.saturating_sub(charged);
        let retry_after = if debt > room {
            whole.saturating_sub(room).saturating_sub(real)
        } else {
            0
        };
        Decision::new(Answer::Admits)
            .with_remaining(rate.remaining(debt))
            .with_retry_after_micros(retry_after)
            .with_reset_after_micros(whole - real)
    }
}

/// Any case.
impl TokenBucket {
    #[inline(never)]
    fn look_any(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let reading = self.read(terms, real);
        Decision::new(admits(reading.debt, terms.quota.rate(), cost))
            .with_remaining(terms.quota.rate().remaining(reading.debt))
            .with_retry_after_micros(reading.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real))
    }

    fn read(&self, terms: &Terms<'_>, real: u64) -> Reading {
        let rate = terms.quota.rate();
        let now = real.max(self.at);
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

    #[inline(never)]
    fn charge_any(&mut self, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        let rate = terms.quota.rate();
        let reading = self.read(terms, real);
        let debt = reading.debt.saturating_add(cost.saturating_mul(rate.p));
        let charged = reading.owing(debt, rate.l);
        *self = charged.state(rate.tick);
        Decision::new(Answer::Admits)
            .with_remaining(rate.remaining(debt))
            .with_retry_after_micros(charged.retry_after(terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real))
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

    /// Until the debt leaves room for `cost`: until `whole − floor((room − rem) / l)`, at a refill.
    fn retry_after(&self, terms: &Terms<'_>, real: u64, cost: u64) -> u64 {
        let rate = terms.quota.rate();
        if admits(self.debt, rate, cost) != Answer::Refuses {
            return 0;
        }
        let room = rate.cap.saturating_sub(cost.saturating_mul(rate.p));
        let fits_at = match room.checked_sub(self.rem) {
            Some(room) => self.whole.saturating_sub(room / rate.l),
            None => self.whole.saturating_add(1),
        };
        terms
            .refills()
            .ceil(fits_at.saturating_mul(rate.tick))
            .saturating_sub(real)
    }
}

#[inline(always)]
fn admits(debt: u64, rate: &Rate, cost: u64) -> Answer {
    match rate.cap.checked_sub(cost.saturating_mul(rate.p)) {
        _ if cost == 0 => Answer::Admits,
        None => Answer::NeverFits,
        Some(room) if debt > room => Answer::Refuses,
        Some(_) => Answer::Admits,
    }
}

#[inline]
const fn ticks(micros: u64, tick: u64) -> u64 {
    if tick == 1 { micros } else { micros / tick }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::quota::Quota;

    proptest! {
        /// Whatever it was left like, by whichever plan, before or after the time it is asked at.
        #[test]
        fn the_usual_case_is_decided_like_any(
            limit in 1..50_u64,
            micros in 1..50_u64,
            burst in 1..200_u64,
            at in 0..20_000_u64,
            ahead in prop_oneof![0..20_000_u64, Just(u64::MAX / 2)],
            rem in 0..5_u64,
            real in 0..20_000_u64,
            cost in 0..250_u64,
        ) {
            let quota = Quota::new(limit, Duration::from_micros(limit * micros)).burst(burst);
            prop_assume!(quota.rate().is_plain);
            let terms = Terms::new(&quota, b"");
            let bucket = TokenBucket { at, whole: at + ahead, rem };

            let looked = bucket.look_plain(&terms, real, cost);
            prop_assert_eq!(looked, bucket.look_any(&terms, real, cost));
            prop_assert_eq!(looked.answer(), bucket.answer(&terms, real, cost));
            if cost > 0 && looked.answer() == Answer::Admits {
                let (mut plain, mut any) = (bucket, bucket);
                let charged = plain.charge_plain(quota.rate(), real, cost);
                prop_assert_eq!(charged, any.charge_any(&terms, real, cost));
                prop_assert_eq!(plain, any);
            }
        }

        #[test]
        fn no_quota_overflows(limit: u64, period: u64, burst: u64, at: u64, whole: u64, real: u64, cost: u64) {
            let Ok(quota) = Quota::try_new(limit, Duration::from_micros(period)) else {
                return Ok(());
            };
            let Ok(quota) = quota.try_burst(burst) else {
                return Ok(());
            };
            let terms = Terms::new(&quota, b"");
            let mut bucket = TokenBucket { at, whole, rem: 0 };
            let mut decision = Decision::FAILED;
            bucket.look(&terms, real, cost, &mut decision);
            if bucket.answer(&terms, real, cost) == Answer::Admits {
                bucket.charge(&terms, real, cost, &mut decision);
                bucket.look(&terms, real, cost, &mut decision);
            }
        }
    }
}
