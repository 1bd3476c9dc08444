//! Charges become a command: see `lua/README.md` for the calling convention.

use redis::Cmd;
use smallvec::SmallVec;

use crate::algorithm::{Shape, Terms};
use crate::clock::Clock;
use crate::quota::{Algorithm, MOST};
use crate::store::{Charge, INLINE, Receipt};

use super::names::Names;
use super::script;

/// Numbers given to the script for one quota.
type Numbers = SmallVec<[u64; 8]>;

/// What of the command is not in the charges.
#[derive(Clone, Default)]
pub(super) struct Times {
    /// In place of the server's clock …
    pub(super) clock: Option<std::sync::Arc<dyn Clock>>,
    /// … under which keys must not expire by the server's: milliseconds added to every TTL.
    pub(super) slack: u64,
}

/// What `give_back` needs to know of a charge: mark, and when the account was born.
const NUMBERS_OF_MARK: usize = 2;

pub(super) fn charge(names: &Names, times: &Times, charges: &[Charge<'_>]) -> Cmd {
    call(names, times, charges, None)
}

pub(super) fn give_back(names: &Names, times: &Times, charges: &[Charge<'_>], receipt: &Receipt) -> Cmd {
    call(names, times, charges, Some(receipt.marks()))
}

/// Decides on nothing, but takes all it takes to decide: the script, a server that is no part of a cluster (in which the
/// keys would lie apart), and the rights.
pub(super) fn probe(names: &Names) -> Cmd {
    let mut cmd = evalsha(&names.of_probe());
    cmd.arg("");
    cmd
}

fn call(names: &Names, times: &Times, charges: &[Charge<'_>], marks: Option<&[u64]>) -> Cmd {
    // Quotas of one tier and key share a Redis key, but for trails, which have one each.
    let mut keys: SmallVec<[String; INLINE]> = SmallVec::new();
    let mut of_charge: SmallVec<[usize; INLINE]> = SmallVec::new();
    for (nth, charge) in charges.iter().enumerate() {
        let account = Account::of(charge);
        let shared = charges[..nth].iter().zip(&of_charge).find(|(other, _)| {
            !account.is_trail && !Account::of(other).is_trail && other.key == charge.key && other.tier == charge.tier
        });
        of_charge.push(match shared {
            Some((_, key)) => *key,
            None => {
                let mut name = names.of(charge);
                if account.is_trail {
                    name.push(':');
                    name.push_str(&account.id);
                }
                keys.push(name);
                keys.len()
            }
        });
    }

    let mut cmd = evalsha(&keys);
    match &times.clock {
        Some(clock) => cmd.arg(format!("{},{}", clock.now().as_micros(), times.slack)),
        None => cmd.arg(""),
    };
    let count = charges.len() as i64;
    cmd.arg(if marks.is_some() { -count } else { count });
    for (nth, (charge, key)) in charges.iter().zip(&of_charge).enumerate() {
        let account = Account::of(charge);
        // No quota holds more, so a larger cost is refused as this one is.
        let cost = charge.cost.min(2 * MOST);
        cmd.arg(&account.id).arg(*key).arg(cost);
        for of_mark in 0..marks.map_or(0, |_| NUMBERS_OF_MARK) {
            let mark = marks.and_then(|marks| marks.get(NUMBERS_OF_MARK * nth + of_mark));
            cmd.arg(mark.copied().unwrap_or_default());
        }
        for number in account.numbers {
            cmd.arg(number);
        }
    }
    cmd
}

fn evalsha(keys: &[String]) -> Cmd {
    let mut cmd = redis::cmd("EVALSHA");
    cmd.arg(script::hash()).arg(keys.len());
    for key in keys {
        cmd.arg(key);
    }
    cmd
}

/// How the script knows a charge's account.
struct Account {
    /// The algorithm's letter, and what tells the account from those of the tier's other quotas, and of other windows.
    id: String,
    numbers: Numbers,
    is_trail: bool,
}

impl Account {
    fn of(charge: &Charge<'_>) -> Self {
        let (quota, nth) = (charge.quota, charge.nth);
        let terms = Terms::new(quota, charge.key);
        let (limit, period, rate) = (quota.limit(), quota.period_micros(), quota.rate());
        let (id, numbers): (_, &[u64]) = match quota.algorithm() {
            Algorithm::TokenBucket => (format!("t{nth}"), &[rate.l, rate.p, rate.cap, rate.tick]),
            Algorithm::SteppedBucket { step, .. } => (
                format!("s{nth}"),
                &[rate.l, rate.p, rate.cap, rate.tick, step, terms.phase()],
            ),
            Algorithm::FixedWindow { aligned: true } => (format!("f{nth}x{period}"), &[limit, period]),
            Algorithm::FixedWindow { aligned: false } => (format!("o{nth}x{period}"), &[limit, period]),
            Algorithm::WeightedWindow => (format!("w{nth}x{period}"), &[limit, period, rate.tick]),
            Algorithm::SlidingWindow { .. } | Algorithm::SlidingLog { .. } => {
                let Shape { width, kept } = Shape::of(&terms);
                (format!("r{nth}x{width}x{kept}"), &[limit, width, kept])
            }
        };
        Self {
            is_trail: id.starts_with('r'),
            id,
            numbers: Numbers::from_slice(numbers),
        }
    }
}
