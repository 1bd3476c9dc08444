//! What a request has to be charged for: one key for each tier that it concerns.

use std::hash::{BuildHasher, RandomState};

use http::request::Parts;
use smallvec::SmallVec;

use crate::key::{Drawn, KeyBuf};
use crate::store::{Charge, INLINE};

use super::tier::OnMissing;
use super::{Checked, Limit, Policy};

/// The charges of a request, and the keys they are for.
pub(crate) struct Drawing {
    buf: KeyBuf,
    lines: Lines,
    /// For each line, where its key lies in `buf`.
    keys: SmallVec<[(usize, usize); INLINE]>,
}

pub(crate) type Lines = SmallVec<[Line; INLINE]>;

/// One charge, by the numbers of what it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    tier: u16,
    plan: u16,
    nth: u8,
    pub(crate) cost: u64,
    /// For the hook, if there is one.
    pub(crate) key_hash: Option<u64>,
}

/// The number of a tier that refuses requests without a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    pub(crate) tier: usize,
}

impl Policy {
    /// Draws one key for each tier that the request concerns; with `hasher`, also hashes of them.
    pub(crate) fn draw(&self, parts: &Parts, hasher: Option<&RandomState>) -> Result<Drawing, Refused> {
        let mut drawing = Drawing {
            buf: KeyBuf::new(),
            lines: Lines::new(),
            keys: SmallVec::new(),
        };
        for (tier, checked) in self.tiers.iter().enumerate() {
            if checked.tier.is_for(parts) {
                drawing.draw(tier, checked, parts, hasher)?;
            }
        }
        Ok(drawing)
    }
}

impl Drawing {
    fn draw(
        &mut self,
        number: usize,
        checked: &Checked,
        parts: &Parts,
        hasher: Option<&RandomState>,
    ) -> Result<(), Refused> {
        let tier = &checked.tier;
        let start = self.buf.mark();
        match (tier.key.draw(parts, &mut self.buf), tier.on_missing) {
            (Drawn::Key, _) | (Drawn::Partial, OnMissing::Share) => {}
            (Drawn::Missing, OnMissing::Share) => {
                self.buf.rewind(start);
                self.buf.push_missing();
            }
            (Drawn::Exempt, _) | (_, OnMissing::Skip) => {
                self.buf.rewind(start);
                return Ok(());
            }
            (_, OnMissing::Refuse) => return Err(Refused { tier: number }),
        }
        let end = self.buf.mark();

        let plan = tier.quotas.plan_of(parts);
        let cost = tier.cost.of(parts);
        let key_hash = hasher.map(|hasher| hasher.hash_one(self.buf.between(start..end)));
        for nth in 0..checked.plans[plan].len() {
            self.keys.push((start, end));
            self.lines.push(Line {
                tier: number as u16,
                plan: plan as u16,
                nth: nth as u8,
                cost,
                key_hash,
            });
        }
        Ok(())
    }

    /// What to ask the store.
    pub(crate) fn charges<'a>(&'a self, policy: &'a Policy) -> SmallVec<[Charge<'a>; INLINE]> {
        let mut charges = SmallVec::new();
        for (line, (start, end)) in self.lines.iter().zip(&self.keys) {
            let checked = line.checked(policy);
            let key = self.buf.between(*start..*end);
            charges.push(
                Charge::new(&checked.id, key, &line.limit(policy).quota)
                    .nth(line.nth)
                    .cost(line.cost)
                    .on_failure(checked.tier.on_failure),
            );
        }
        charges
    }

    /// Whether the request concerns no tier.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn into_lines(self) -> Lines {
        self.lines
    }
}

impl Line {
    pub(crate) fn checked<'p>(&self, policy: &'p Policy) -> &'p Checked {
        &policy.tiers[usize::from(self.tier)]
    }

    pub(crate) fn limit<'p>(&self, policy: &'p Policy) -> &'p Limit {
        &self.checked(policy).plans[usize::from(self.plan)][usize::from(self.nth)]
    }
}
