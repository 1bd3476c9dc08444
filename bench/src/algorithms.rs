//! Each algorithm of ours.

use std::time::Duration;

use tower_throttle::Quota;

use crate::load::{Contender, Load};
use crate::peers::tower_throttle_by;
use crate::rounds::Rounds;

/// By name, each with a limit that nobody meets; a log is as long as what is asked in its period.
pub(crate) fn algorithms() -> [(&'static str, Quota); 8] {
    let second = Duration::from_secs(1);
    let plenty = Quota::new(1_000_000_000, second);
    [
        (
            "token bucket",
            Quota::new(1, Duration::from_micros(10)).burst(1_000_000_000),
        ),
        (
            "token bucket, of which a token takes 10/3 µs",
            Quota::new(300_000, second).burst(1_000_000_000),
        ),
        (
            "token bucket in steps",
            Quota::new(1_000_000, second).burst(1_000_000_000).in_steps(second / 10),
        ),
        ("fixed window", plenty.fixed_window()),
        ("fixed window from the first request", plenty.fixed_window_from_first()),
        ("weighted window", plenty.weighted_window()),
        ("sliding window of 10", plenty.sliding_window(10)),
        (
            "sliding log",
            Quota::new(1_000_000, Duration::from_millis(1)).sliding_log_up_to(1_000_000),
        ),
    ]
}

pub(crate) fn table() -> String {
    let loads = [Load::new(1_000, 1), Load::new(1_000, 2)];
    let contenders =
        algorithms().map(|(name, quota)| -> (&str, Contender) { (name, tower_throttle_by(false, [quota; 3])) });
    Rounds::new(&loads, contenders.into()).run(40).table()
}
