//! What is asked of one account.

use std::sync::{MutexGuard, PoisonError};

use crate::algorithm::Terms;

use super::fingerprint::Fingerprint;
use super::shard::Shard;
use super::table::{Locker, Table};

/// What is asked of one account, and where that is or would be.
pub(super) struct Question<'a> {
    pub(super) table: &'a Table,
    pub(super) shard: &'a Locker,
    /// By which the locks are ordered: any order will do that all decisions agree on.
    pub(super) rank: u64,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms<'a>,
    pub(super) cost: u64,
    /// Which charge of the call it is.
    pub(super) place: usize,
}

impl<'a> Question<'a> {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'a, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
