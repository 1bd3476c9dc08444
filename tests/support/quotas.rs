//! Quotas of all algorithms and variants, for traces.

use std::time::Duration;

use tower_throttle::Quota;

const DAY: Duration = Duration::from_secs(86_400);

/// From 1 per day to 10 million per second, with limits that divide nothing.
pub(crate) fn rates() -> Vec<Quota> {
    let second = Duration::from_secs(1);
    vec![
        Quota::per_day(1),
        Quota::per_day(7),
        Quota::per_day(999_983),
        Quota::per_hour(1_000),
        Quota::per_hour(10_007),
        Quota::per_minute(3),
        Quota::per_minute(600),
        Quota::new(5, second * 10),
        Quota::new(7, second * 3),
        Quota::new(97, second * 60),
        Quota::per_second(1),
        Quota::per_second(300_000),
        Quota::per_second(299_993),
        Quota::per_second(10_000_000),
        Quota::new(13, Duration::from_micros(999)),
        Quota::new(3, Duration::from_millis(100)),
    ]
}

pub(crate) fn token_buckets() -> Vec<Quota> {
    let rates = rates();
    let bursts = rates.iter().flat_map(|quota| {
        let most = quota.limit();
        [1, most / 3 + 1, most + 5, most * 2].map(|burst| quota.burst(burst))
    });
    rates
        .iter()
        .copied()
        .chain(bursts)
        .filter(|quota| quota.check().is_ok())
        .collect()
}

pub(crate) fn stepped_buckets() -> Vec<Quota> {
    let ms = Duration::from_millis;
    vec![
        Quota::per_minute(600).in_steps(ms(1_000)),
        Quota::per_minute(600).burst(35).in_steps(ms(3_000)),
        Quota::per_minute(3).in_steps(ms(20_000)),
        Quota::per_day(7).in_steps(DAY),
        Quota::per_second(300_000).in_steps(ms(1)),
        Quota::new(7, ms(3_000)).in_steps(ms(3_000)),
        Quota::per_minute(600).in_aligned_steps(ms(1_000)),
        // In milliseconds: 999,983 an hour, 24 times a day, divide nothing.
        Quota::per_day(999_983 * 24).in_steps(ms(3_600_000)),
        Quota::per_day(999_983 * 24)
            .burst(2_000_003)
            .in_aligned_steps(ms(3_600_000)),
        Quota::per_minute(12).burst(50).in_aligned_steps(ms(15_000)),
        Quota::per_second(10_000_000).in_aligned_steps(ms(500)),
    ]
}

pub(crate) fn sliding_windows() -> impl Iterator<Item = Quota> {
    let rates = rates().into_iter();
    rates
        .flat_map(|quota| [1, 3, 10, 60].map(|buckets| quota.sliding_window(buckets)))
        .filter(|quota| quota.check().is_ok())
}

pub(crate) fn weighted_windows() -> impl Iterator<Item = Quota> {
    rates().into_iter().map(Quota::weighted_window)
}

pub(crate) fn sliding_logs() -> impl Iterator<Item = Quota> {
    rates().into_iter().map(|quota| quota.sliding_log_up_to(u64::MAX))
}

pub(crate) fn all() -> Vec<Quota> {
    let mut all = token_buckets();
    all.extend(stepped_buckets());
    all.extend(rates().into_iter().map(Quota::fixed_window));
    all.extend(rates().into_iter().map(Quota::fixed_window_from_first));
    all.extend(sliding_windows());
    all.extend(weighted_windows());
    all.extend(sliding_logs());
    all
}

/// Quotas that an account is charged by in turn, as plans and new versions of a configuration do.
pub(crate) fn changing() -> Vec<Vec<Quota>> {
    let minute = Duration::from_secs(60);
    let by: [fn(Quota) -> Quota; 5] = [
        Quota::fixed_window,
        Quota::fixed_window_from_first,
        |quota| quota.sliding_window(6),
        Quota::weighted_window,
        Quota::sliding_log,
    ];
    let mut changes: Vec<Vec<Quota>> = by
        .iter()
        .map(|by| [10, 3, 97, 1].map(|limit| by(Quota::new(limit, minute))).to_vec())
        .collect();
    changes.push(vec![
        Quota::per_minute(60),
        Quota::per_second(10),
        Quota::per_hour(5).burst(40),
        Quota::per_second(1).burst(1),
    ]);
    changes.push(vec![
        Quota::per_minute(7),
        Quota::per_minute(13).burst(2),
        Quota::per_minute(97),
    ]);
    changes.push(
        [(600, 600), (300, 20), (60, 1_000)]
            .map(|(limit, burst)| Quota::per_minute(limit).burst(burst).in_steps(Duration::from_secs(1)))
            .to_vec(),
    );
    changes
}
