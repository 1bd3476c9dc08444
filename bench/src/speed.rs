//! Three tiers in memory: admitted and refused, by users and threads.

use std::fmt::Write as _;

use crate::floors::{Floor, floor};
use crate::load::{Contender, Load};
use crate::peers::{Refusing, axum_governor, governor, tower_governor, tower_throttle};
use crate::rounds::Rounds;

pub(crate) const LOADS: [Load; 6] = [
    Load::new(1, 1),
    Load::new(1, 2),
    Load::new(1_000, 1),
    Load::new(1_000, 2),
    Load::new(1_000_000, 1),
    Load::new(1_000_000, 2),
];

const ROUNDS: usize = 40;

/// What was measured, as text and as numbers to draw.
pub(crate) struct Tables {
    pub(crate) text: String,
    /// Titles, and for each the names and costs at 1,000 users and 1 thread.
    pub(crate) bars: Vec<(String, Vec<(String, f64)>)>,
}

pub(crate) fn tables() -> Tables {
    let mut tables = Tables {
        text: String::new(),
        bars: Vec::new(),
    };
    tables.add("Admitted, no headers", || {
        vec![
            ("tower-throttle", tower_throttle(false, Refusing::None)),
            ("tower_governor", tower_governor(false, Refusing::None)),
            ("governor, by hand", governor()),
            ("floor: a layer that asks nobody", floor(Floor::Layer)),
            ("floor: … and draws the keys", floor(Floor::Keys)),
            ("floor: … and locks, reads the clock, counts", floor(Floor::Counts)),
        ]
    });
    tables.add("Admitted, with headers", || {
        vec![
            ("tower-throttle", tower_throttle(true, Refusing::None)),
            ("tower_governor", tower_governor(true, Refusing::None)),
            ("axum-governor", axum_governor(Refusing::None)),
            ("floor: counts, and two headers", floor(Floor::Headers)),
        ]
    });
    for (title, refusing) in [
        ("Refused by the first tier", Refusing::First),
        ("Refused by the last tier", Refusing::Last),
    ] {
        tables.add(title, || {
            vec![
                ("tower-throttle", tower_throttle(true, refusing)),
                ("tower_governor", tower_governor(true, refusing)),
                ("axum-governor", axum_governor(refusing)),
                ("floor: counts; body, headers, extension", floor(Floor::Refusal)),
            ]
        });
    }
    tables
}

impl Tables {
    fn add(&mut self, title: &str, contenders: impl Fn() -> Vec<(&'static str, Contender)>) {
        let rounds = Rounds::new(&LOADS, contenders()).run(ROUNDS);
        let text = &mut self.text;
        let _ = write!(text, "\n**{title}**\n\n| |");
        for load in LOADS {
            let _ = write!(text, " {load} |");
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(LOADS.len()));
        for (nth, name) in rounds.names().enumerate() {
            let _ = write!(text, "| {name} |");
            for column in 0..LOADS.len() {
                let (cost, ours) = (rounds.cost(nth + 1, column), rounds.cost(1, column));
                let _ = match nth {
                    0 => write!(text, " **{cost:.0}** |"),
                    _ => write!(text, " {cost:.0} ({:.2}) |", ours / cost),
                };
            }
            let _ = writeln!(text);
        }
        let peers = rounds
            .names()
            .enumerate()
            .filter(|(_, name)| !name.starts_with("floor"));
        let column = 2;
        let costs = peers.map(|(nth, name)| (name.to_owned(), rounds.cost(nth + 1, column)));
        self.bars.push((title.to_owned(), costs.collect()));
    }
}

/// A few numbers, soon.
pub(crate) fn quick() -> String {
    let loads = [Load::new(1, 1), Load::new(1_000, 1), Load::new(1_000, 2)];
    let contenders = vec![
        ("no headers", tower_throttle(false, Refusing::None)),
        ("no headers: tower_governor", tower_governor(false, Refusing::None)),
        ("no headers: floor", floor(Floor::Counts)),
        ("headers", tower_throttle(true, Refusing::None)),
        ("headers: tower_governor", tower_governor(true, Refusing::None)),
        ("headers: axum-governor", axum_governor(Refusing::None)),
        ("headers: floor", floor(Floor::Headers)),
        ("refused", tower_throttle(true, Refusing::Last)),
        ("refused: floor", floor(Floor::Refusal)),
    ];
    let rounds = Rounds::new(&loads, contenders).run(60);
    let mut text = format!(
        "{:32} {:6.0} {:6.0} {:6.0}\n",
        "no-op",
        rounds.noop(0),
        rounds.noop(1),
        rounds.noop(2)
    );
    for (nth, name) in rounds.names().enumerate() {
        let cost = |column| rounds.cost(nth + 1, column);
        let _ = writeln!(text, "{name:32} {:6.0} {:6.0} {:6.0}", cost(0), cost(1), cost(2));
    }
    text
}
