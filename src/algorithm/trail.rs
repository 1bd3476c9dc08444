//! What was admitted when, in buckets: the common account of the sliding window and the sliding log.

use std::collections::VecDeque;

use crate::quota::Algorithm;
use crate::store::{Answer, Decision};

use super::account::{Account, Terms, counted, stepped_back, used};
use super::grid::Grid;
use super::{sliding_log, sliding_window};

/// The buckets in which something was admitted, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    /// The last write.
    at: u64,
    /// What was admitted before the first entry, as the totals count it.
    base: u64,
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    bucket: u64,
    /// What was admitted in this bucket and all before it, wrapping: a difference of two tells what lies between
    /// them, so that neither question below has to walk the trail.
    total: u64,
}

/// How long a trail is: what is admitted in a bucket counts in it and in the `kept` buckets after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) width: u64,
    pub(crate) kept: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    now: u64,
    bucket: u64,
    /// The first entry that still counts.
    first: usize,
    /// What all entries before it admitted.
    base: u64,
    /// What those that count admitted.
    count: u64,
}

impl Account for Trail {
    fn at(&self) -> u64 {
        self.at
    }

    fn heal(&mut self, terms: &Terms<'_>, real: u64) -> bool {
        if stepped_back(self.at, real) {
            let buckets = Shape::of(terms).buckets();
            let step = buckets.index(self.at) - buckets.index(real);
            for entry in &mut self.entries {
                entry.bucket = entry.bucket.saturating_sub(step);
            }
            self.at = real;
            return true;
        }
        false
    }

    fn answer(&self, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        self.read(terms, real).admits(terms, cost)
    }

    fn look(&self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        let reading = self.read(terms, real);
        *decision = Decision::new(reading.admits(terms, cost))
            .with_remaining(terms.quota.limit().saturating_sub(reading.count))
            .with_retry_after_micros(self.retry_after(&reading, terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    fn charge(&mut self, terms: &Terms<'_>, real: u64, cost: u64, decision: &mut Decision) {
        let reading = self.read(terms, real);
        self.entries.drain(..reading.first);
        // What is counted is entries, so room for many more of them must not be kept.
        if self.entries.capacity() > 4 * self.entries.len().max(4) {
            self.entries.shrink_to(2 * self.entries.len());
        }
        self.base = reading.base;
        self.at = reading.now;
        let count = reading.count + cost;
        let total = reading.base.wrapping_add(count);
        match self.entries.back_mut() {
            Some(last) if last.bucket == reading.bucket => last.total = total,
            _ => self.entries.push_back(Entry {
                bucket: reading.bucket,
                total,
            }),
        }
        let charged = Reading {
            first: 0,
            count,
            ..reading
        };
        *decision = Decision::new(Answer::Admits)
            .with_remaining(terms.quota.limit().saturating_sub(count))
            .with_retry_after_micros(self.retry_after(&charged, terms, real, cost))
            .with_reset_after_micros(self.reset_after(terms, real));
    }

    fn mark(&self, _: u64) -> u64 {
        self.entries.back().map_or(0, |entry| entry.bucket)
    }

    fn give_back(&mut self, terms: &Terms<'_>, real: u64, cost: u64, mark: u64) -> bool {
        let reading = self.read(terms, real);
        let Ok(index) = self.entries.binary_search_by_key(&mark, |entry| entry.bucket) else {
            return false;
        };
        if index < reading.first {
            return false;
        }
        let before = match index {
            0 => self.base,
            _ => self.entries[index - 1].total,
        };
        let held = self.entries[index].total.wrapping_sub(before);
        let given = held.min(cost);
        for entry in self.entries.range_mut(index..) {
            entry.total = entry.total.wrapping_sub(given);
        }
        if given == held {
            self.entries.remove(index);
        }
        false
    }

    /// All of it in the current bucket.
    fn told(terms: &Terms<'_>, real: u64, remaining: u64, _: u64) -> Self {
        let entry = Entry {
            bucket: Shape::of(terms).buckets().index(real),
            total: used(terms, remaining),
        };
        Self {
            at: real,
            base: 0,
            entries: (entry.total > 0).then_some(entry).into_iter().collect(),
        }
    }

    fn reset_at(&self, terms: &Terms<'_>) -> u64 {
        match self.entries.back() {
            Some(last) => Shape::of(terms).gone_at(last.bucket),
            None => self.at,
        }
    }

    fn entries(&self) -> usize {
        self.entries.len()
    }
}

impl Trail {
    fn read(&self, terms: &Terms<'_>, real: u64) -> Reading {
        let shape = Shape::of(terms);
        let now = real.max(self.at);
        let bucket = shape.buckets().index(now);
        let oldest = bucket.saturating_sub(shape.kept);
        let first = self.entries.partition_point(|entry| entry.bucket < oldest);
        let base = match first {
            0 => self.base,
            _ => self.entries[first - 1].total,
        };
        let count = match self.entries.back() {
            Some(last) if first < self.entries.len() => last.total.wrapping_sub(base),
            _ => 0,
        };
        Reading {
            now,
            bucket,
            first,
            base,
            count,
        }
    }

    /// Until enough of the oldest entries are gone.
    fn retry_after(&self, reading: &Reading, terms: &Terms<'_>, real: u64, cost: u64) -> u64 {
        if reading.admits(terms, cost) != Answer::Refuses {
            return 0;
        }
        let excess = reading.count.saturating_add(cost) - terms.quota.limit();
        // Of entries before `first` the wrapped difference is huge or 0, so they are skipped by number.
        let (mut low, mut high) = (reading.first, self.entries.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.entries[middle].total.wrapping_sub(reading.base) < excess {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        match self.entries.get(low) {
            Some(entry) => Shape::of(terms).gone_at(entry.bucket).saturating_sub(real),
            None => 0,
        }
    }
}

impl Reading {
    fn admits(&self, terms: &Terms<'_>, cost: u64) -> Answer {
        counted(self.count, cost, terms.quota.limit())
    }
}

impl Shape {
    pub(crate) fn of(terms: &Terms<'_>) -> Self {
        match terms.quota.algorithm() {
            Algorithm::SlidingWindow { buckets } => sliding_window::shape(terms.quota, buckets),
            _ => sliding_log::shape(terms.quota),
        }
    }

    const fn buckets(&self) -> Grid {
        Grid::new(self.width)
    }

    /// When what was admitted in `bucket` no longer counts.
    const fn gone_at(&self, bucket: u64) -> u64 {
        bucket
            .saturating_add(self.kept)
            .saturating_add(1)
            .saturating_mul(self.width)
    }
}
