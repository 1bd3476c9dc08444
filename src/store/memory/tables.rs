//! The tables of a store, found without a lock.

use std::iter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::store::Charge;

use super::table::{Bounds, Table};

/// Set once each, never removed: there is one table for each quota of each tier that was ever asked about.
#[derive(Default)]
pub(super) struct Tables {
    opened: AtomicU32,
    first: Block,
}

struct Block {
    slots: [OnceLock<Table>; SLOTS],
    /// For those that did not fit.
    more: OnceLock<Box<Self>>,
}

/// Many more than most stores have tables, so that they seldom meet.
const SLOTS: usize = 64;

impl Tables {
    /// The table for `charge`, opened if it is the first.
    #[inline(always)]
    pub(super) fn find(&self, charge: &Charge<'_>, bounds: &Bounds) -> &Table {
        let home = Block::home(charge);
        match self.first.slots[home].get() {
            Some(table) if table.serves(charge) => table,
            _ => self.search(charge, bounds),
        }
    }

    #[cold]
    fn search(&self, charge: &Charge<'_>, bounds: &Bounds) -> &Table {
        let open = || Table::new(self.opened.fetch_add(1, Ordering::Relaxed), charge, bounds);
        self.first.find(charge, &open)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Table> {
        iter::successors(Some(&self.first), |block| block.more.get().map(|more| &**more))
            .flat_map(|block| block.slots.iter().filter_map(OnceLock::get))
    }
}

impl Block {
    /// It depends on tier and number only: tables that differ in nothing but the algorithm are rare.
    #[inline]
    fn home(charge: &Charge<'_>) -> usize {
        (charge.tier.hash64() as usize).wrapping_add(charge.nth.into()) % SLOTS
    }

    fn find(&self, charge: &Charge<'_>, open: &dyn Fn() -> Table) -> &Table {
        for step in 0..SLOTS {
            let slot = &self.slots[(Self::home(charge) + step) % SLOTS];
            let table = slot.get_or_init(open);
            if table.serves(charge) {
                return table;
            }
        }
        self.more.get_or_init(Box::default).find(charge, open)
    }
}

impl Default for Block {
    fn default() -> Self {
        Self {
            slots: [const { OnceLock::new() }; SLOTS],
            more: OnceLock::new(),
        }
    }
}
