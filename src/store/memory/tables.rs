//! The tables of a store, found without a lock.

use std::iter;
use std::sync::OnceLock;

use crate::store::Charge;

use super::table::{Bounds, Table};

/// Set once each, never removed: there is one table for each quota of each tier that was ever asked about.
pub(super) struct Tables {
    slots: [OnceLock<Table>; SLOTS],
    /// For those that did not fit.
    more: OnceLock<Box<Self>>,
}

const SLOTS: usize = 16;

impl Tables {
    /// The table for `charge`, opened if it is the first.
    pub(super) fn find(&self, charge: &Charge<'_>, bounds: &Bounds) -> &Table {
        // Its home depends on tier and number only: tables that differ in nothing but the algorithm are rare.
        let home = (charge.tier.hash64() as usize).wrapping_add(charge.nth.into());
        for step in 0..SLOTS {
            let slot = &self.slots[home.wrapping_add(step) % SLOTS];
            let table = slot.get_or_init(|| Table::new(charge, bounds));
            if table.serves(charge) {
                return table;
            }
        }
        self.more.get_or_init(Box::default).find(charge, bounds)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Table> {
        iter::successors(Some(self), |tables| tables.more.get().map(|more| &**more))
            .flat_map(|tables| tables.slots.iter().filter_map(OnceLock::get))
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            slots: [const { OnceLock::new() }; SLOTS],
            more: OnceLock::new(),
        }
    }
}
