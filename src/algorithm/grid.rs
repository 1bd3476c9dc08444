//! Equidistant instants.

/// The instants `phase + n · step`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    step: u64,
    phase: u64,
}

impl Grid {
    /// The multiples of `step`.
    #[inline]
    pub(super) const fn new(step: u64) -> Self {
        Self { step, phase: 0 }
    }

    /// The multiples of `step`, `phase < step` later.
    #[inline]
    pub(super) const fn shifted(step: u64, phase: u64) -> Self {
        Self { step, phase }
    }

    /// The last instant at or before `time`; 0 if there is none.
    #[inline]
    pub(super) const fn floor(&self, time: u64) -> u64 {
        time.saturating_sub(self.past(time))
    }

    /// The first instant at or after `time`.
    #[inline]
    pub(super) const fn ceil(&self, time: u64) -> u64 {
        match self.past(time) {
            0 => time,
            past => time.saturating_add(self.step - past),
        }
    }

    /// The number of the step that `time` lies in.
    #[inline]
    pub(super) const fn index(&self, time: u64) -> u64 {
        time.saturating_sub(self.phase) / self.step
    }

    #[inline]
    const fn past(&self, time: u64) -> u64 {
        if self.step == 1 {
            // The usual case, spared its divisions.
            return 0;
        }
        (time % self.step + self.step - self.phase) % self.step
    }
}
