//! What a request has to be charged for: one key for each tier that it concerns.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;

use http::request::Parts;

use crate::few::Few;
use crate::key::{Drawn, KeyBuf};
use crate::store::{Charge, INLINE};

use super::tier::OnMissing;
use super::{Checked, Limit, Policy};

/// The charges of a request, and the keys they are for.
pub(crate) struct Drawing {
    buf: KeyBuf,
    lines: Lines,
}

pub(crate) type Lines = Few<Line, INLINE>;

/// One charge, by the numbers of what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Where its key lies in the drawing.
    key: (u32, u32),
    limit: u32,
    tier: u16,
    nth: u8,
    pub(crate) cost: u64,
    /// For the hook, if there is one.
    pub(crate) key_hash: Option<NonZeroU64>,
}

/// The number of a tier that refuses requests without a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) tier: usize,
}

impl Default for Drawing {
    #[inline(always)]
    fn default() -> Self {
        Self {
            buf: KeyBuf::default(),
            lines: Few::filled(Line::NONE, 0),
        }
    }
}

impl Drawing {
    /// Draws one key for each tier that the request concerns; with `hasher`, also hashes of them.
    #[inline(always)]
    pub(crate) fn draw(&mut self, policy: &Policy, parts: &Parts, hasher: Option<&RandomState>) -> Result<(), Refused> {
        for (number, checked) in policy.tiers.iter().enumerate() {
            let start = self.buf.mark();
            if !checked.tier.is_for(parts) {
                continue;
            }
            let drawn = checked.tier.key.draw(parts, &mut self.buf);
            if drawn == Drawn::Key || self.is_counted_without(drawn, start, checked, number)? {
                self.add_lines(checked, number, start, parts, hasher);
            } else {
                self.buf.rewind(start);
            }
        }
        Ok(())
    }

    /// Whether the request has to be charged though there is no key, or not all of one.
    #[cold]
    fn is_counted_without(
        &mut self,
        drawn: Drawn,
        start: usize,
        checked: &Checked,
        number: usize,
    ) -> Result<bool, Refused> {
        match (drawn, checked.tier.on_missing) {
            (Drawn::Key, _) | (Drawn::Partial, OnMissing::Share) => Ok(true),
            (Drawn::Missing, OnMissing::Share) => {
                self.buf.rewind(start);
                self.buf.push_missing();
                Ok(true)
            }
            (Drawn::Exempt, _) | (_, OnMissing::Skip) => Ok(false),
            (_, OnMissing::Refuse) => Err(Refused { tier: number }),
        }
    }

    #[inline(always)]
    fn add_lines(
        &mut self,
        checked: &Checked,
        number: usize,
        start: usize,
        parts: &Parts,
        hasher: Option<&RandomState>,
    ) {
        let key = (start as u32, self.buf.mark() as u32);
        let cost = checked.tier.cost.of(parts);
        let key_hash = hasher.and_then(|hasher| NonZeroU64::new(hasher.hash_one(self.buf.between(key.0..key.1))));
        let limits = &checked.plans[checked.tier.quotas.plan_of(parts)];
        for (nth, limit) in limits.clone().enumerate() {
            *self.lines.room(Line::NONE) = Line {
                key,
                limit: limit as u32,
                tier: number as u16,
                nth: nth as u8,
                cost,
                key_hash,
            };
        }
    }

    /// Asks for all of the charges. Up to four of them are laid out as they are counted, which is far quicker than to
    /// push them one by one.
    #[inline]
    pub(crate) fn ask<T>(&self, policy: &Policy, ask: impl FnOnce(&[Charge<'_>]) -> T) -> T {
        let charge = |line: &Line| self.charge(line, policy);
        match &self.lines[..] {
            [] => ask(&[]),
            [a] => ask(&[charge(a)]),
            [a, b] => ask(&[charge(a), charge(b)]),
            [a, b, c] => ask(&[charge(a), charge(b), charge(c)]),
            [a, b, c, d] => ask(&[charge(a), charge(b), charge(c), charge(d)]),
            more => ask(&more.iter().map(charge).collect::<Vec<_>>()),
        }
    }

    #[inline]
    fn charge<'a>(&'a self, line: &Line, policy: &'a Policy) -> Charge<'a> {
        let checked = line.checked(policy);
        let (start, end) = line.key;
        Charge {
            tier: &checked.id,
            nth: line.nth,
            key: self.buf.between(start..end),
            quota: &line.limit(policy).quota,
            cost: line.cost,
            on_failure: checked.tier.on_failure,
        }
    }

    /// None if the request concerns no tier.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }
}

impl Line {
    pub(crate) const NONE: Self = Self {
        key: (0, 0),
        limit: 0,
        tier: 0,
        nth: 0,
        cost: 0,
        key_hash: None,
    };

    #[inline]
    pub(crate) fn checked<'p>(&self, policy: &'p Policy) -> &'p Checked {
        &policy.tiers[usize::from(self.tier)]
    }

    #[inline]
    pub(crate) fn limit<'p>(&self, policy: &'p Policy) -> &'p Limit {
        &policy.limits[self.limit as usize]
    }

    /// The number of its limit.
    pub(crate) const fn limit_number(&self) -> usize {
        self.limit as usize
    }
}
