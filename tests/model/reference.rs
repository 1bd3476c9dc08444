//! What the algorithms should decide, from first principles: every admitted request is kept, counts are made anew for
//! each question, and waits are found by trying instants. It shares no code with the crate and knows of it no more
//! than how a quota is written.

use tower_throttle::{Algorithm, Quota};

#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// When something was admitted, and how much; the time as this account's clock shows it.
    admitted: Vec<(i128, u64)>,
    /// For buckets whose quota changes: when it is full, as a fraction of ticks, because what a quota has charged stays
    /// charged in time. Under one quota the bucket is filled anew from all that was admitted instead.
    full: Option<Fraction>,
    /// The quotas that charged it.
    quotas: Vec<Quota>,
    last_write: Option<i128>,
}

#[derive(Clone, Copy, Debug)]
struct Fraction {
    numerator: i128,
    denominator: i128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) admits: bool,
    pub(crate) remaining: u64,
    /// None if it never fits.
    pub(crate) retry_after: Option<u64>,
    pub(crate) reset_after: u64,
}

const SECOND: i128 = 1_000_000;

impl Account {
    /// What `cost` meets at `real`, without charging it.
    pub(crate) fn look(&self, quota: &Quota, phase: i128, real: i128, cost: u64) -> Expected {
        let fits = cost <= most(quota);
        let wait = |admits: &dyn Fn(i128) -> bool| first(|wait| admits(real + wait)) as u64;
        Expected {
            admits: self.admits(quota, phase, real, cost),
            remaining: largest(most(quota), |cost| self.admits(quota, phase, real, cost)),
            retry_after: fits.then(|| wait(&|at| self.admits(quota, phase, at, cost))),
            reset_after: wait(&|at| self.is_as_new(quota, phase, at)),
        }
    }

    pub(crate) fn charge(&mut self, quota: &Quota, phase: i128, real: i128, cost: u64) {
        self.heal(quota, phase, real);
        let now = self.now(real);
        self.last_write = Some(now);
        self.admitted.push((now, cost));
        if !self.quotas.contains(quota) {
            self.quotas.push(*quota);
        }
        if is_bucket(quota) {
            let limit = i128::from(quota.limit());
            let period = period(quota) / tick(quota);
            let start = self.full_at(quota).max_with(refill(quota, phase, now));
            // start + cost · period / limit
            self.full = Some(Fraction {
                numerator: start.numerator * (limit / start.denominator) + i128::from(cost) * period,
                denominator: limit,
            });
        }
    }

    /// A clock that has stepped back by more than a second takes the account along.
    pub(crate) fn heal(&mut self, quota: &Quota, phase: i128, real: i128) {
        let Some(last) = self.last_write.filter(|last| last - real > SECOND) else {
            return;
        };
        let grain = grain(quota);
        let phase = if is_bucket(quota) { phase } else { 0 };
        let floor = |time: i128| (time - phase).div_euclid(grain) * grain + phase;
        let step = floor(last) - floor(real);
        for (time, _) in &mut self.admitted {
            *time -= step;
        }
        if let Some(full) = &mut self.full {
            full.numerator -= step / tick(quota) * full.denominator;
        }
        self.last_write = Some(real);
    }

    fn healed(&self, quota: &Quota, phase: i128, real: i128) -> Self {
        let mut healed = self.clone();
        healed.heal(quota, phase, real);
        healed
    }

    fn now(&self, real: i128) -> i128 {
        self.last_write.map_or(real, |last| last.max(real))
    }

    fn admits(&self, quota: &Quota, phase: i128, real: i128, cost: u64) -> bool {
        if cost == 0 {
            return true;
        }
        let (limit, cost) = (i128::from(quota.limit()), i128::from(cost));
        let now = self.now(real);
        if is_bucket(quota) {
            // What is missing, and the cost, in units of one token's share of a tick: limit for a tick, period for a token.
            let period = period(quota) / tick(quota);
            let burst = i128::from(quota.burst_size());
            if self.has_one_quota(quota) {
                return self.tokens(quota, phase, now) >= cost * period;
            }
            let full = self.full_at(quota).max_with(refill(quota, phase, now));
            let missing = full.numerator - refill(quota, phase, now) * full.denominator;
            return missing * limit + cost * period * full.denominator <= burst * period * full.denominator;
        }
        let (counted, unit) = self.counted(quota, now);
        counted + cost * unit <= limit * unit
    }

    fn has_one_quota(&self, quota: &Quota) -> bool {
        self.quotas.iter().all(|charged| charged == quota)
    }

    /// What the bucket holds, in units of which a token is one `period` and a tick refills `limit`: full at first,
    /// emptied by each that was admitted, refilled in between up to the burst.
    fn tokens(&self, quota: &Quota, phase: i128, now: i128) -> i128 {
        let (limit, period) = (i128::from(quota.limit()), period(quota) / tick(quota));
        let most = i128::from(quota.burst_size()) * period;
        let mut tokens = most;
        let mut last = None;
        for (time, cost) in self.admitted.iter().chain([&(now, 0)]) {
            let refilled = refill(quota, phase, *time);
            let ticks = last.map_or(0, |last| refilled - last);
            tokens = most.min(tokens + ticks * limit) - i128::from(*cost) * period;
            last = Some(refilled);
        }
        tokens
    }

    /// The bucket's fraction, as read under `quota`: where another one wrote it, the part of a tick is read in this
    /// one's units, at most all but one of them.
    fn full_at(&self, quota: &Quota) -> Fraction {
        let Some(full) = self.full else {
            return Fraction {
                numerator: 0,
                denominator: 1,
            };
        };
        let units = |limit: i128, period: i128| limit / greatest_common_divisor(limit, period);
        let limit = i128::from(quota.limit());
        if full.denominator == limit {
            return full;
        }
        let whole = full.numerator.div_euclid(full.denominator);
        let part = full.numerator.rem_euclid(full.denominator);
        let common = greatest_common_divisor(part, full.denominator);
        // The smallest units that the part was written in; the quota's own may be finer by a factor, but the changes
        // tried here are between quotas of one period whose limits share none with it, or whose parts are 0.
        let (part, written_in) = (part / common, full.denominator / common);
        let read_in = units(limit, period(quota) / tick(quota));
        assert!(
            part == 0 || written_in == full.denominator,
            "a change that the model cannot follow"
        );
        Fraction {
            numerator: whole * limit + part.min(read_in - 1) * (limit / read_in),
            denominator: limit,
        }
    }

    /// What counts at `now`, in units of one request's `unit`.
    fn counted(&self, quota: &Quota, now: i128) -> (i128, i128) {
        let period = period(quota);
        let sum = |counts: &dyn Fn(i128) -> bool| -> i128 {
            let counted = self.admitted.iter().filter(|(time, _)| counts(*time));
            counted.map(|(_, cost)| i128::from(*cost)).sum()
        };
        match quota.algorithm() {
            Algorithm::FixedWindow { aligned: true } => {
                let window = |time: i128| time.div_euclid(period);
                (sum(&|time| window(time) == window(now)), 1)
            }
            Algorithm::FixedWindow { aligned: false } => {
                let mut opened = None;
                for (time, _) in &self.admitted {
                    if opened.is_none_or(|opened| *time >= opened + period) {
                        opened = Some(*time);
                    }
                }
                match opened {
                    Some(opened) if now < opened + period => (sum(&|time| time >= opened), 1),
                    _ => (0, 1),
                }
            }
            Algorithm::SlidingWindow { buckets } => {
                let buckets = i128::from(buckets);
                let bucket = |time: i128| time.div_euclid(period / buckets);
                (sum(&|time| bucket(now) - bucket(time) <= buckets), 1)
            }
            Algorithm::SlidingLog { .. } => (sum(&|time| now - time < period), 1),
            Algorithm::WeightedWindow => {
                let tick = tick(quota);
                let window = now.div_euclid(period);
                let this = sum(&|time| time.div_euclid(period) == window);
                let previous = sum(&|time| time.div_euclid(period) == window - 1);
                let elapsed = (now - window * period) / tick;
                let unit = period / tick;
                (previous * (unit - elapsed) + this * unit, unit)
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn is_as_new(&self, quota: &Quota, phase: i128, real: i128) -> bool {
        if self.last_write.is_some_and(|last| last > real) {
            return false;
        }
        if is_bucket(quota) && self.has_one_quota(quota) {
            let period = period(quota) / tick(quota);
            return self.tokens(quota, phase, real) == i128::from(quota.burst_size()) * period;
        }
        if is_bucket(quota) {
            let full = self.full_at(quota);
            return full.numerator <= refill(quota, phase, real) * full.denominator;
        }
        self.counted(quota, real).0 == 0
    }
}

/// A look at an account as a store would answer it: healed first.
pub(crate) fn look(account: &Account, quota: &Quota, phase: i128, real: i128, cost: u64) -> Expected {
    account.healed(quota, phase, real).look(quota, phase, real, cost)
}

impl Fraction {
    fn max_with(self, whole: i128) -> Self {
        if self.numerator >= whole * self.denominator {
            return self;
        }
        Self {
            numerator: whole,
            denominator: 1,
        }
    }
}

pub(crate) fn is_bucket(quota: &Quota) -> bool {
    matches!(
        quota.algorithm(),
        Algorithm::TokenBucket | Algorithm::SteppedBucket { .. }
    )
}

fn most(quota: &Quota) -> u64 {
    if is_bucket(quota) {
        quota.burst_size()
    } else {
        quota.limit()
    }
}

fn period(quota: &Quota) -> i128 {
    quota.period().as_micros() as i128
}

/// Quotas of an hour and longer count in milliseconds if they could not be counted exactly in microseconds.
fn tick(quota: &Quota) -> i128 {
    let (limit, period) = (i128::from(quota.limit()), period(quota));
    let product = if is_bucket(quota) {
        i128::from(quota.burst_size()) * period / greatest_common_divisor(limit, period)
    } else {
        limit * period
    };
    if period >= 3_600 * SECOND && product > 1 << 52 {
        1_000
    } else {
        1
    }
}

/// The distance of the instants that an algorithm tells apart.
fn grain(quota: &Quota) -> i128 {
    match quota.algorithm() {
        Algorithm::TokenBucket => tick(quota),
        Algorithm::SteppedBucket { step, .. } => i128::from(step),
        Algorithm::FixedWindow { aligned: true } | Algorithm::WeightedWindow => period(quota),
        Algorithm::SlidingWindow { buckets } => period(quota) / i128::from(buckets),
        _ => 1,
    }
}

/// The last refill, in ticks.
fn refill(quota: &Quota, phase: i128, now: i128) -> i128 {
    let grain = grain(quota);
    ((now - phase).div_euclid(grain) * grain + phase) / tick(quota)
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// The first instant from which on something holds: it must never cease to.
fn first(holds: impl Fn(i128) -> bool) -> i128 {
    if holds(0) {
        return 0;
    }
    let (mut fails, mut good) = (0, 1);
    while !holds(good) {
        assert!(good < 1 << 80, "it never holds");
        (fails, good) = (good, good * 2);
    }
    while good - fails > 1 {
        let middle = i128::midpoint(fails, good);
        if holds(middle) {
            good = middle;
        } else {
            fails = middle;
        }
    }
    good
}

/// The largest number up to `most` for which something holds; it does for 0.
fn largest(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut good, mut fails) = (0, most + 1);
    while fails - good > 1 {
        let middle = u64::midpoint(good, fails);
        if holds(middle) {
            good = middle;
        } else {
            fails = middle;
        }
    }
    good
}
