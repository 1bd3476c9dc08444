//! The strict sliding window: the period cut into buckets.
//!
//! The current bucket and the `n` before it are summed. Common implementations sum one bucket less, `n` in all; but
//! those cover only between `n − 1` and `n` buckets of true time, and so let through more than the limit in some
//! windows of one period. Ours cover between `n` and `n + 1`: never more than the limit, at the price that quota is
//! remembered for up to one bucket longer.

use crate::quota::Quota;

use super::trail::Shape;

pub(super) const fn shape(quota: &Quota, buckets: u32) -> Shape {
    // A quota used without its check may have no bucket, or more of them than microseconds.
    let buckets = if buckets == 0 { 1 } else { buckets as u64 };
    let width = quota.period_micros() / buckets;
    Shape {
        width: if width == 0 { 1 } else { width },
        kept: buckets,
    }
}
