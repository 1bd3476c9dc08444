//! What a store answers.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::few::Few;

/// The store's answer for one charge, with the account's numbers after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    answer: Answer,
    source: Source,
    remaining: u64,
    /// Both in microseconds.
    retry_after: u64,
    reset_after: u64,
}

/// Whether an account admits a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// It does. Charged only if every charge of the call is admitted.
    Admits,
    /// Not now, but after [`Decision::retry_after`].
    Refuses,
    /// Not ever: the cost is more than the quota can hold.
    NeverFits,
    /// The store was not asked, as another charge of the call is known to be refused.
    NotAsked,
    /// The store could not tell.
    Failed,
}

/// Who decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    #[default]
    Store,
    /// This process, because the store failed: see [`FailureMode::Local`](super::FailureMode::Local).
    Local,
    /// This process, which remembers a refusal by the store: see [`RefusalCache`](super::RefusalCache).
    Remembered,
    /// Nobody: the store failed.
    Failed,
}

impl Decision {
    pub(crate) const FAILED: Self = Self::new(Answer::Failed);

    /// An answer, with numbers of 0, from the store (or from nobody, if it [failed](Answer::Failed)).
    #[must_use]
    #[inline]
    pub const fn new(answer: Answer) -> Self {
        Self {
            answer,
            source: match answer {
                Answer::Failed => Source::Failed,
                _ => Source::Store,
            },
            remaining: 0,
            retry_after: 0,
            reset_after: 0,
        }
    }

    /// Sets what remains.
    #[must_use]
    #[inline]
    pub const fn with_remaining(mut self, remaining: u64) -> Self {
        self.remaining = remaining;
        self
    }

    /// Sets who decided.
    #[must_use]
    pub const fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Sets the wait, in whole microseconds, rounded up.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        self.with_retry_after_micros(ceil_micros(retry_after))
    }

    /// Sets the time to reset, in whole microseconds, rounded up.
    #[must_use]
    pub fn with_reset_after(self, reset_after: Duration) -> Self {
        self.with_reset_after_micros(ceil_micros(reset_after))
    }

    #[inline]
    pub(crate) const fn with_retry_after_micros(mut self, micros: u64) -> Self {
        self.retry_after = micros;
        self
    }

    #[inline]
    pub(crate) const fn with_reset_after_micros(mut self, micros: u64) -> Self {
        self.reset_after = micros;
        self
    }

    /// Whether the account admits the cost.
    #[must_use]
    pub const fn answer(&self) -> Answer {
        self.answer
    }

    /// Who decided.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// The largest cost that would be admitted right now, after this decision.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// How long until the same cost is admitted (again), if nothing else is charged; zero if it would be right now,
    /// none if it never is, or if nobody knows.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.answer {
            Answer::NeverFits | Answer::NotAsked | Answer::Failed => None,
            Answer::Admits | Answer::Refuses => Some(Duration::from_micros(self.retry_after)),
        }
    }

    /// How long until the account cannot be told from a new one, if nothing else is charged.
    #[must_use]
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.reset_after)
    }

    #[inline]
    pub(crate) const fn retry_after_micros(&self) -> u64 {
        self.retry_after
    }

    #[inline]
    pub(crate) const fn reset_after_micros(&self) -> u64 {
        self.reset_after
    }
}

/// The store's answers for one call.
#[derive(Debug)]
pub struct Outcome {
    now: Timestamp,
    decisions: Decisions,
    marks: Marks,
}

pub(crate) type Decisions = Few<Decision, INLINE>;

/// Room for a store's own numbers: two for each charge.
pub(crate) type Marks = Few<u64, { 2 * INLINE }>;

/// Charges of a call that are handled without an allocation.
pub(crate) const INLINE: usize = 4;

impl Outcome {
    /// The decisions, in the order of the charges, taken at `now` by the store's clock.
    #[must_use]
    pub fn new(now: Timestamp, decisions: impl IntoIterator<Item = Decision>) -> Self {
        Self {
            now,
            decisions: Few::of(decisions, Decision::FAILED),
            marks: Few::filled(0, 0),
        }
    }

    /// Adds what the store itself wants to find in the [`Receipt`].
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = u64>) -> Self {
        self.marks = Few::of(marks, 0);
        self
    }

    /// As if all `charges` had failed, with room for two marks each.
    #[inline(always)]
    pub(crate) fn unanswered(charges: usize) -> Self {
        Self {
            now: Timestamp::default(),
            decisions: Few::filled(Decision::FAILED, charges),
            marks: Few::filled(0, 2 * charges),
        }
    }

    #[inline]
    pub(crate) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// To be set one by one, with the marks that there is room for.
    #[inline]
    pub(crate) fn answers(&mut self) -> Answers<'_> {
        Answers {
            decisions: &mut self.decisions,
            marks: &mut self.marks,
        }
    }

    pub(crate) const fn from_parts(now: Timestamp, decisions: Decisions, marks: Marks) -> Self {
        Self { now, decisions, marks }
    }

    /// A failure of all `charges`.
    #[must_use]
    pub fn failed(charges: usize) -> Self {
        Self::unanswered(charges)
    }

    /// When this was decided, by the store's clock.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// One for each charge, in their order.
    #[must_use]
    #[inline]
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Whether every charge was admitted, and so all were charged.
    #[must_use]
    #[inline]
    pub fn is_charged(&self) -> bool {
        self.decisions.iter().all(|decision| decision.answer == Answer::Admits)
    }

    /// A store that answers less than it was asked has failed for the rest.
    #[inline]
    pub(crate) fn complete(&mut self, charges: usize) {
        if self.decisions.len() != charges {
            self.decisions.resize(charges, Decision::FAILED);
        }
    }

    pub(crate) fn decisions_mut(&mut self) -> &mut [Decision] {
        &mut self.decisions
    }

    pub(crate) fn into_parts(self) -> (Timestamp, Decisions) {
        (self.now, self.decisions)
    }

    pub(crate) fn into_marks(self) -> Marks {
        self.marks
    }

    /// For giving back what was charged; none if nothing was, or if a charge failed.
    #[must_use]
    pub fn into_receipt(self) -> Option<Receipt> {
        let source = self.decisions.first().map_or(Source::Store, Decision::source);
        let agree = self.decisions.iter().all(|decision| decision.source == source);
        (self.is_charged() && agree).then_some(Receipt {
            now: self.now,
            source,
            marks: self.marks,
        })
    }
}

/// The decisions of an outcome, and what the store wants to find in the receipt about each.
pub(crate) struct Answers<'a> {
    pub(crate) decisions: &'a mut [Decision],
    pub(crate) marks: &'a mut [u64],
}

/// Proof of a charge, to give it back with. It cannot be copied, so that it is used at most once.
#[derive(Debug)]
pub struct Receipt {
    now: Timestamp,
    source: Source,
    marks: Marks,
}

impl Receipt {
    /// When the charge was made.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// Who decided on it, and so holds the charge.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// What the store put into [`Outcome::with_marks`].
    #[must_use]
    pub fn marks(&self) -> &[u64] {
        &self.marks
    }
}

fn ceil_micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}
