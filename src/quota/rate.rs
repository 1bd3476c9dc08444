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
    pub(crate) cap: u64,
    /// Whether a token takes whole microseconds and is refilled smoothly, as nearly always.
    pub(crate) is_plain: bool,
}

impl Rate {
    pub(super) const UNSET: Self = Self {
        tick: 1,
        l: 1,
        p: 1,
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
            // Saturated, it fails the check; a quota used unchecked must not overflow.
            cap: burst.saturating_mul(p),
            is_plain: tick == 1 && l == 1,
        }
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
