//! The sliding log: a bucket for each microsecond. A request counts while it is younger than the period, so of the
//! buckets before the current one the last `period − 1` do.

use crate::quota::Quota;

use super::trail::Shape;

pub(super) const fn shape(quota: &Quota) -> Shape {
    Shape {
        width: 1,
        kept: quota.period_micros() - 1,
    }
}
