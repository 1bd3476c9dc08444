//! A decision on several accounts, all or nothing: from account to account down, each locked on the way and charged if
//! all so far admit; and back up, where what was charged stands, or is undone if one has refused.
//!
//! One call to a level, so that nothing has to be kept in a list.

use crate::store::{Answer, Charge, Decision, Outcome};

use super::MemoryStore;
use super::shard::Shard;

/// Why a descent has to be made anew.
pub(super) enum Stop {
    /// The next lock must not be taken while the last one is held.
    Unordered,
    /// An account has been written at a later time than this decision is to be taken at.
    Late,
}

/// What one level tells the next.
pub(super) struct Above<'a> {
    /// What the clock shows, in microseconds.
    pub(super) real: u64,
    /// Whether that is the time, even if an account has been written at a later one.
    pub(super) is_sure: bool,
    /// Which charge comes next.
    pub(super) nth: usize,
    /// Whether all accounts so far admit.
    pub(super) admitted: bool,
    /// The last shard that was locked, and its rank; none before the first.
    pub(super) shard: Option<&'a mut Shard>,
    pub(super) rank: u64,
}

/// What became of one account on the way down.
pub(super) enum Tried {
    /// It was charged; for now.
    Charged { undo: Undo, decision: Decision, mark: u64 },
    /// It answers so; nothing was charged.
    Answered(Answer),
    /// It has been written at a later time.
    Late,
}

/// An account as it was.
pub(super) struct Undo {
    pub(super) slot: usize,
    pub(super) was_refused: bool,
    pub(super) snapshot: crate::algorithm::Snapshot,
}

impl MemoryStore {
    /// Whether all accounts admit, those above and those from `above.nth` on. The decisions on the latter are left in
    /// `outcome`.
    pub(super) fn descend(
        &self,
        charges: &[Charge<'_>],
        above: Above<'_>,
        outcome: &mut Outcome,
    ) -> Result<bool, Stop> {
        let Above {
            real,
            is_sure,
            nth,
            admitted,
            ..
        } = above;
        let Some(charge) = charges.get(nth) else {
            return Ok(admitted);
        };
        let question = self.question(charge);
        let mut guard;
        let shard = match above.shard {
            _ if question.rank > above.rank => {
                guard = question.lock();
                &mut *guard
            }
            // Another key of the same tier.
            Some(shard) if question.rank == above.rank => shard,
            _ => return Err(Stop::Unordered),
        };

        let mut tried = shard.try_to_charge(&question, real, admitted);
        if let Tried::Late = tried {
            if !is_sure {
                // The clock has stepped back, or this thread slept before it had the lock: it tells by looking again.
                shard.heal(&question, self.now().as_micros());
                return Err(Stop::Late);
            }
            shard.heal(&question, real);
            tried = shard.try_to_charge(&question, real, admitted);
        }
        let admits = match &tried {
            Tried::Charged { .. } => true,
            Tried::Answered(answer) => *answer == Answer::Admits,
            Tried::Late => false,
        };
        let below = Above {
            real,
            is_sure,
            nth: nth + 1,
            admitted: admitted && admits,
            shard: Some(&mut *shard),
            rank: question.rank,
        };
        let all_admit = self.descend(charges, below, outcome);

        let (decision, mark) = match tried {
            Tried::Charged { decision, mark, .. } if matches!(all_admit, Ok(true)) => (decision, mark),
            Tried::Charged { undo, .. } => {
                shard.undo(&question, undo);
                (shard.look(&question, real, question.cost), 0)
            }
            _ if matches!(all_admit, Ok(true)) && question.cost > 0 => shard.charge(&question, real),
            _ => (shard.look(&question, real, question.cost), 0),
        };
        outcome.set(nth, decision, [mark, question.table.generation()]);
        all_admit
    }
}
