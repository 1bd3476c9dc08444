//! Random numbers: SplitMix64, a counter and a function that scrambles it.

use std::hash::{BuildHasher as _, RandomState};

/// What the counter is advanced by.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that belongs to a step of the counter.
#[inline]
pub(crate) const fn scrambled(step: u64) -> u64 {
    let mixed = (step ^ (step >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Maps all numbers evenly onto those below `bound`.
#[inline]
pub(crate) const fn below(bound: u64, number: u64) -> u64 {
    ((number as u128 * bound as u128) >> 64) as u64
}

/// Something that nobody can foresee: the standard library's keys are random for each process, and each of its states
/// has others.
pub(crate) fn seed() -> u64 {
    RandomState::new().hash_one(0_u8)
}
