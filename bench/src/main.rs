//! What a request costs: tower-throttle and its peers, on the same requests, in one process, in turns.
//!
//! ```text
//! cargo run --release -p bench
//! ```
//!
//! Figures are nanoseconds per request over a service that does nothing, the least of all rounds; ratios are of these.

mod load;
mod peers;

use load::{Contender, Load, NoOp, contender};
use peers::{Refusing, axum_governor, tower_governor, tower_throttle};

const ROUNDS: usize = 40;

fn main() {
    // Under a tool that counts instructions: `bench <contender> <requests>`.
    let mut args = std::env::args().skip(1);
    if let (Some(name), Some(requests)) = (args.next(), args.next()) {
        let mut contender = match name.as_str() {
            "plain" => tower_throttle(false, Refusing::None),
            "headers" => tower_throttle(true, Refusing::None),
            "refused" => tower_throttle(true, Refusing::Last),
            "governor" => tower_governor(false, Refusing::None),
            _ => contender(NoOp),
        };
        let requests = requests.parse::<usize>().expect("a number");
        for _ in 0..requests / 2_000 {
            contender(Load {
                users: 1_000,
                threads: 1,
            });
        }
        return;
    }
    if std::env::args().nth(1).as_deref() == Some("quick") {
        quick();
        return;
    }
    println!("| | 1 user | 1,000 users | 1,000, 2 threads | 1,000,000 | 1,000,000, 2 threads |");
    println!("|---|---|---|---|---|---|");
    table("admitted, no headers", || {
        vec![
            ("tower-throttle", tower_throttle(false, Refusing::None)),
            ("tower_governor", tower_governor(false, Refusing::None)),
        ]
    });
    table("admitted, headers", || {
        vec![
            ("tower-throttle", tower_throttle(true, Refusing::None)),
            ("tower_governor", tower_governor(true, Refusing::None)),
            ("axum-governor", axum_governor(Refusing::None)),
        ]
    });
    for (name, refusing) in [
        ("refused by the first", Refusing::First),
        ("refused by the last", Refusing::Last),
    ] {
        table(name, || {
            vec![
                ("tower-throttle", tower_throttle(true, refusing)),
                ("tower_governor", tower_governor(true, refusing)),
                ("axum-governor", axum_governor(refusing)),
            ]
        });
    }
}

/// Rows of the table: each contender, and its ratio to ours.
fn table(name: &str, contenders: impl Fn() -> Vec<(&'static str, Contender)>) {
    let loads = [(1, 1), (1_000, 1), (1_000, 2), (1_000_000, 1), (1_000_000, 2)];
    let mut contenders = contenders();
    contenders.insert(0, ("no-op", contender(NoOp)));
    let mut least = vec![vec![f64::INFINITY; loads.len()]; contenders.len()];
    for (column, (users, threads)) in loads.into_iter().enumerate() {
        for _ in 0..ROUNDS {
            for (row, (_, contender)) in contenders.iter_mut().enumerate() {
                let cost = contender(Load { users, threads });
                least[row][column] = least[row][column].min(cost);
            }
        }
    }
    for (row, (contender, _)) in contenders.iter().enumerate().skip(1) {
        let cells = (0..loads.len()).map(|column| {
            let cost = least[row][column] - least[0][column];
            let ours = least[1][column] - least[0][column];
            if row == 1 {
                format!("{cost:.0}")
            } else {
                format!("{cost:.0} ({:.2} ×)", ours / cost)
            }
        });
        println!("| {name}: {contender} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn quick() {
    let mut contenders = vec![
        ("no-op", contender(NoOp)),
        ("plain", tower_throttle(false, Refusing::None)),
        ("plain governor", tower_governor(false, Refusing::None)),
        ("headers", tower_throttle(true, Refusing::None)),
        ("headers governor", tower_governor(true, Refusing::None)),
        ("headers axum-governor", axum_governor(Refusing::None)),
        ("refused", tower_throttle(true, Refusing::Last)),
    ];
    let loads = [(1, 1), (1_000, 1), (1_000, 2)];
    let mut least = vec![vec![f64::INFINITY; loads.len()]; contenders.len()];
    for (column, (users, threads)) in loads.into_iter().enumerate() {
        for _ in 0..60 {
            for (row, (_, contender)) in contenders.iter_mut().enumerate() {
                let cost = contender(Load { users, threads });
                least[row][column] = least[row][column].min(cost);
            }
        }
    }
    for (row, (name, _)) in contenders.iter().enumerate() {
        let cells: Vec<_> = (0..loads.len())
            .map(|c| format!("{:7.0}", least[row][c] - if row == 0 { 0.0 } else { least[0][c] }))
            .collect();
        println!("{name:25} {}", cells.join(" "));
    }
    for (one, other) in [(1, 2), (3, 4), (3, 5)] {
        let cells: Vec<_> = (0..loads.len())
            .map(|c| {
                format!(
                    "{:7.2}",
                    (least[one][c] - least[0][c]) / (least[other][c] - least[0][c])
                )
            })
            .collect();
        println!("{:25} {}", contenders[other].0, cells.join(" "));
    }
}
