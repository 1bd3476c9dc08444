//! A quota, reduced to the numbers that are counted with.

/// The numbers the steps count with, reduced once when the quota is made.
///
/// A token takes `p / l` ticks to refill; `cap` is what a full bucket holds, in units of `1 / l` tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rate {
    /// Microseconds per tick: 1, or 1,000 for quotas of an hour and longer that need it to stay exact.
    pub(crate) tick: u64,
    pub(crate) l: u64,
    pub(crate) p: u64,
    /// What to multiply with instead of dividing by `p`.
    inverse: u64,
    pub(crate) cap: u64,
    /// Whether a token takes whole microseconds and is refilled smoothly, as nearly always.
    pub(crate) is_plain: bool,
}

impl Rate {
    pub(super) const UNSET: Self = Self {
        tick: 1,
        l: 1,
        p: 1,
        inverse: u64::MAX,
        cap: 1,
        is_plain: false,
    };

    pub(super) const fn reduce(limit: u64, period: u64, burst: u64, tick: u64) -> Self {
        let ticks = period / tick;
        let divisor = greatest_common_divisor(limit, ticks);
        let (l, p) = (limit / divisor, ticks / divisor);
        Self {
            tick,
            l,
            p,
            inverse: u64::MAX / p,
            // Saturated, it fails the check; a quota used unchecked must not overflow.
            cap: burst.saturating_mul(p),
            is_plain: tick == 1 && l == 1,
        }
    }

    /// How many tokens there are room for beside `debt`.
    #[inline(always)]
    pub(crate) const fn remaining(&self, debt: u64) -> u64 {
        let room = self.cap.saturating_sub(debt);
        // A processor divides slowly. The product is the quotient, or one less: the inverse is short of 2^64 / p by less
        // than 1 + 1 / p, of which `room` parts in 2^64 are less than 1.
        let quotient = ((room as u128 * self.inverse as u128) >> 64) as u64;
        quotient + (room - quotient * self.p >= self.p) as u64
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn remaining_is_a_quotient(limit in 1..=1_u64 << 52, period in 1..=1_u64 << 52, burst: u64, debt: u64) {
            let rate = Rate::reduce(limit, period, burst, 1);
            let expected = |debt: u64| rate.cap.saturating_sub(debt) / rate.p;
            prop_assert_eq!(rate.remaining(debt), expected(debt));
            prop_assert_eq!(rate.remaining(0), expected(0));
            for debt in rate.cap.saturating_sub(rate.p).saturating_sub(1)..=rate.cap.saturating_sub(rate.p).saturating_add(1) {
                prop_assert_eq!(rate.remaining(debt), expected(debt));
            }
        }

        #[test]
        fn small_numbers_too(limit in 1..=20_u64, period in 1..=20_u64, burst in 0..100_u64, debt in 0..100_u64) {
            let rate = Rate::reduce(limit, period, burst, 1);
            prop_assert_eq!(rate.remaining(debt), rate.cap.saturating_sub(debt) / rate.p);
        }
    }
}
