//! Contenders in turns.

use crate::load::{Contender, Load, NoOp, contender};

/// Contenders that are measured in one run, the service that does nothing before them.
pub(crate) struct Rounds {
    contenders: Vec<(String, Contender)>,
    loads: Vec<Load>,
    /// By contender and load, nanoseconds; the least so far.
    least: Vec<Vec<f64>>,
}

impl Rounds {
    pub(crate) fn new(loads: &[Load], contenders: Vec<(&str, Contender)>) -> Self {
        let noop = ("no-op", contender(NoOp));
        let contenders: Vec<_> = std::iter::once(noop)
            .chain(contenders)
            .map(|(name, contender)| (name.to_owned(), contender))
            .collect();
        Self {
            least: vec![vec![f64::INFINITY; loads.len()]; contenders.len()],
            contenders,
            loads: loads.to_vec(),
        }
    }

    /// So many rounds more.
    pub(crate) fn run(mut self, rounds: usize) -> Self {
        for (column, load) in self.loads.iter().enumerate() {
            for _ in 0..rounds {
                for ((_, contender), least) in self.contenders.iter_mut().zip(&mut self.least) {
                    least[column] = least[column].min(contender(*load));
                }
            }
        }
        self
    }

    /// All but the first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.contenders.iter().skip(1).map(|(name, _)| name.as_str())
    }

    pub(crate) fn noop(&self, column: usize) -> f64 {
        self.least[0][column]
    }

    /// What a contender, counted from 1, costs over the service that does nothing.
    pub(crate) fn cost(&self, contender: usize, column: usize) -> f64 {
        self.least[contender][column] - self.least[0][column]
    }

    /// A row for each contender, without comparing them.
    pub(crate) fn table(&self) -> String {
        let heads = self.loads.iter().map(|load| format!(" {load} |"));
        let mut text = format!(
            "\n| |{}\n|---|{}\n",
            heads.collect::<String>(),
            "---|".repeat(self.loads.len())
        );
        for (nth, name) in self.names().enumerate() {
            let cells = (0..self.loads.len()).map(|column| format!(" {:.0} |", self.cost(nth + 1, column)));
            text += &format!("| {name} |{}\n", cells.collect::<String>());
        }
        text
    }
}
