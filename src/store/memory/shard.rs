//! The part of a table that one lock guards, for whichever algorithm the table is.

use crate::algorithm::{FixedWindow, SteppedBucket, TokenBucket, Trail, WeightedWindow};
use crate::store::{Answer, Decision};

use super::question::Question;
use super::slots::Slots;
use super::table::Kind;

pub(super) enum Shard {
    TokenBucket(Slots<TokenBucket>),
    SteppedBucket(Slots<SteppedBucket>),
    FixedWindow(Slots<FixedWindow>),
    WeightedWindow(Slots<WeightedWindow>),
    Trail(Slots<Trail>),
}

macro_rules! whichever {
    ($shard:expr, $slots:ident => $does:expr) => {
        match $shard {
            Shard::TokenBucket($slots) => $does,
            Shard::SteppedBucket($slots) => $does,
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
            Kind::SteppedBucket => Self::SteppedBucket(Slots::default()),
            Kind::FixedWindow { .. } => Self::FixedWindow(Slots::default()),
            Kind::WeightedWindow { .. } => Self::WeightedWindow(Slots::default()),
            Kind::SlidingWindow { .. } | Kind::SlidingLog { .. } => Self::Trail(Slots::default()),
        }
    }

    /// What the account answers, or would if there were one; it takes note that it has refused. None if it was written at
    /// a later time, more than what may be sat out. Where it is is left in `slot`.
    #[inline(always)]
    pub(super) fn ask(&mut self, question: &Question<'_>, real: u64, slot: &mut usize) -> Option<Answer> {
        match self {
            Self::TokenBucket(slots) => slots.ask(question, real, slot),
            other => other.ask_other(question, real, slot),
        }
    }

    #[inline(never)]
    fn ask_other(&mut self, question: &Question<'_>, real: u64, slot: &mut usize) -> Option<Answer> {
        whichever!(self, slots => slots.ask(question, real, slot))
    }

    /// Moves the account along with a clock that has stepped back, if it has.
    pub(super) fn heal(&mut self, question: &Question<'_>, real: u64) {
        whichever!(self, slots => slots.heal(question, real));
    }

    /// How often an account was healed or forgotten: receipts from before say nothing certain about what is held now.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        whichever!(self, slots => slots.generation())
    }

    /// The decision where nothing is charged to an account that was in `slot` when it was asked.
    #[inline(always)]
    pub(super) fn look(&self, question: &Question<'_>, slot: usize, real: u64, decision: &mut Decision) {
        match self {
            Self::TokenBucket(slots) => slots.look(question, slot, real, decision),
            other => other.look_other(question, slot, real, decision),
        }
    }

    #[inline(never)]
    fn look_other(&self, question: &Question<'_>, slot: usize, real: u64, decision: &mut Decision) {
        whichever!(self, slots => slots.look(question, slot, real, decision));
    }

    /// How the account stands, whatever the question costs.
    pub(super) fn standing(&self, question: &Question<'_>, real: u64) -> Decision {
        whichever!(self, slots => slots.standing(question, real))
    }

    /// Charges the account, which was in `slot` when it was asked, opening it if there is none; tells what giving back
    /// needs to know.
    #[inline(always)]
    pub(super) fn charge(&mut self, question: &Question<'_>, slot: usize, real: u64, decision: &mut Decision) -> u64 {
        match self {
            Self::TokenBucket(slots) => slots.charge(question, slot, real, decision),
            other => other.charge_other(question, slot, real, decision),
        }
    }

    #[inline(never)]
    fn charge_other(&mut self, question: &Question<'_>, slot: usize, real: u64, decision: &mut Decision) -> u64 {
        whichever!(self, slots => slots.charge(question, slot, real, decision))
    }

    /// Gives back the cost of a charge that left `mark`.
    pub(super) fn give_back(&mut self, question: &Question<'_>, real: u64, mark: u64) {
        whichever!(self, slots => slots.give_back(question, real, mark));
    }

    /// Takes over what another store tells of the account.
    pub(super) fn tell(
        &mut self,
        question: &Question<'_>,
        real: u64,
        remaining: u64,
        reset_after: u64,
        keeps_less: bool,
    ) {
        whichever!(self, slots => slots.tell(question, real, remaining, reset_after, keeps_less));
    }

    /// Forgets an account other than the one in question; whether there was one.
    pub(super) fn forget_one(&mut self, question: &Question<'_>, real: u64) -> bool {
        whichever!(self, slots => slots.forget_one(question, real))
    }
}
