//! The part of a table that one lock guards, for whichever algorithm the table is.

use crate::algorithm::{FixedWindow, Terms, TokenBucket, Trail, WeightedWindow};
use crate::store::{Answer, Decision};

use super::fingerprint::Fingerprint;
use super::slots::Slots;
use super::table::{Kind, Table};

pub(super) enum Shard {
    TokenBucket(Slots<TokenBucket>),
    FixedWindow(Slots<FixedWindow>),
    WeightedWindow(Slots<WeightedWindow>),
    Trail(Slots<Trail>),
}

macro_rules! whichever {
    ($shard:expr, $slots:ident => $does:expr) => {
        match $shard {
            Shard::TokenBucket($slots) => $does,
            Shard::FixedWindow($slots) => $does,
            Shard::WeightedWindow($slots) => $does,
            Shard::Trail($slots) => $does,
        }
    };
}

impl Shard {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::TokenBucket => Self::TokenBucket(Slots::default()),
            Kind::FixedWindow { .. } => Self::FixedWindow(Slots::default()),
            Kind::WeightedWindow { .. } => Self::WeightedWindow(Slots::default()),
            Kind::SlidingWindow { .. } | Kind::SlidingLog { .. } => Self::Trail(Slots::default()),
        }
    }

    /// Whether the account admits `cost`; heals it if the clock has stepped back.
    pub(super) fn answer(&mut self, fingerprint: Fingerprint, terms: &Terms<'_>, real: u64, cost: u64) -> Answer {
        whichever!(self, slots => slots.answer(fingerprint, terms, real, cost))
    }

    /// The decision where nothing is charged.
    pub(super) fn look(&self, fingerprint: Fingerprint, terms: &Terms<'_>, real: u64, cost: u64) -> Decision {
        whichever!(self, slots => slots.look(fingerprint, terms, real, cost))
    }

    /// Charges the account, opening it if there is none; tells also what giving back needs to know.
    pub(super) fn charge(
        &mut self,
        fingerprint: Fingerprint,
        terms: &Terms<'_>,
        real: u64,
        cost: u64,
        table: &Table,
    ) -> (Decision, u64) {
        whichever!(self, slots => slots.charge(fingerprint, terms, real, cost, table))
    }

    pub(super) fn give_back(
        &mut self,
        fingerprint: Fingerprint,
        terms: &Terms<'_>,
        real: u64,
        cost: u64,
        at: u64,
        mark: u64,
    ) {
        whichever!(self, slots => slots.give_back(fingerprint, terms, real, cost, at, mark));
    }

    pub(super) const fn entries(&self) -> usize {
        whichever!(self, slots => slots.entries())
    }
}
