//! Instructions for each request, counted by valgrind: they do not depend on what else the machine does.

use std::process::Command;

use crate::load::{Contender, Load, NoOp, contender};
use crate::peers::{Refusing, axum_governor, tower_governor, tower_throttle};

const NAMES: [&str; 9] = [
    "no-op",
    "tower-throttle, admitted, no headers",
    "tower-throttle, admitted, headers",
    "tower-throttle, refused by the first tier",
    "tower-throttle, refused by the last tier",
    "tower_governor, admitted, no headers",
    "tower_governor, admitted, headers",
    "tower_governor, refused by the last tier",
    "axum-governor, admitted, headers",
];

/// Has a contender answer so many requests, and nothing else.
pub(crate) fn serve(name: &str, requests: usize) {
    let mut contender = by_name(name);
    for _ in 0..requests / crate::load::REQUESTS {
        contender(Load::new(1_000, 1));
    }
}

fn by_name(name: &str) -> Contender {
    match NAMES.iter().position(|known| *known == name) {
        Some(1) => tower_throttle(false, Refusing::None),
        Some(2) => tower_throttle(true, Refusing::None),
        Some(3) => tower_throttle(true, Refusing::First),
        Some(4) => tower_throttle(true, Refusing::Last),
        Some(5) => tower_governor(false, Refusing::None),
        Some(6) => tower_governor(true, Refusing::None),
        Some(7) => tower_governor(true, Refusing::Last),
        Some(8) => axum_governor(Refusing::None),
        _ => contender(NoOp),
    }
}

pub(crate) fn table() -> String {
    let Some(noop) = per_request(NAMES[0]) else {
        return "\nNot counted: that takes valgrind.\n".to_owned();
    };
    let mut text = "\n| | instructions |\n|---|---|\n".to_owned();
    for name in &NAMES[1..] {
        if let Some(count) = per_request(name) {
            text += &format!("| {name} | {:.0} |\n", count - noop);
        }
    }
    text
}

/// The difference of two runs, so that making the contender does not count, nor asking every user for the first time.
fn per_request(name: &str) -> Option<f64> {
    let (few, many) = (4_000, 14_000);
    Some((counted(name, many)? - counted(name, few)?) as f64 / (many - few) as f64)
}

fn counted(name: &str, requests: usize) -> Option<i64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        // Only while a request is being answered.
        .arg("--toggle-collect=bench::load::answer*")
        .arg(std::env::current_exe().ok()?)
        .args(["serve", name, &requests.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let count = text.lines().find_map(|line| line.split("Collected :").nth(1))?;
    count.trim().parse().ok()
}
