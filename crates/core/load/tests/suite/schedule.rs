//! Tests the due times of operations: exact, in order, and the same for one machine and for many.

use std::time::Duration;

use load::plan::{Group, Plan, PlannedStage, Timeline};
use load::schedule::{Arrival, Due, Schedule, Share, Stage};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn steady(rate: f64, over: Duration) -> [Stage; 1] {
    [Stage {
        from: rate,
        to: rate,
        over,
    }]
}

fn constant(stages: &[Stage]) -> Schedule {
    Schedule::rate(stages, Arrival::Constant, 0, Share::ALL)
}

fn times(schedule: Schedule) -> Vec<u64> {
    schedule.map(|due| due.at).collect()
}

#[test]
fn a_fixed_set_spread_over_ten_seconds_begins_at_0_and_ends_one_gap_before_the_end() {
    let dues: Vec<Due> = Schedule::spread(10_000, seconds(10), Share::ALL).collect();
    assert_eq!(dues.len(), 10_000);
    assert_eq!(dues[0], Due { at: 0, index: 0 });
    assert_eq!(
        dues[9_999],
        Due {
            at: 9_999 * MILLISECOND,
            index: 9_999
        }
    );
}

#[test]
fn a_fixed_set_over_no_time_is_a_burst() {
    let burst = Schedule::spread(5, Duration::ZERO, Share::ALL);
    assert!(burst.is_burst());
    assert_eq!(times(burst), [0; 5]);
    assert!(!Schedule::spread(5, seconds(1), Share::ALL).is_burst());
    assert!(times(Schedule::spread(0, seconds(1), Share::ALL)).is_empty());
}

#[test]
fn a_spread_whose_product_exceeds_64_bits_stays_exact() {
    let ops = 7_000_000_000;
    let share = Share {
        index: ops - 1,
        of: ops,
    };
    let last = Schedule::spread(ops, seconds(3600), share).next().unwrap();
    // The gap is 514.28 ns.
    assert_eq!(last.at, 3600 * SECOND - 515);
}

#[test]
fn a_constant_rate_has_not_drifted_by_a_nanosecond_after_an_hour_at_a_million_a_second() {
    let last = 3_599_999_999;
    let share = Share {
        index: last,
        of: last + 1,
    };
    let mut schedule = Schedule::rate(&steady(1e6, seconds(3600)), Arrival::Constant, 0, share);
    assert_eq!(
        schedule.next(),
        Some(Due {
            at: last * 1000,
            index: last
        })
    );
    assert_eq!(schedule.next(), None);
}

#[test]
fn a_rate_that_divides_nothing_is_rounded_and_not_accumulated() {
    let dues = times(constant(&steady(3.0, seconds(1000))));
    assert_eq!(dues.len(), 3000);
    for (index, at) in dues.iter().enumerate() {
        let exact = index as u64 * SECOND / 3;
        assert!(
            at.abs_diff(exact) <= 1,
            "operation {index} is due at {at}, not at {exact}"
        );
    }
}

#[test]
fn one_operation_in_a_hundred_seconds_is_a_rate_too() {
    assert_eq!(
        times(constant(&steady(0.01, seconds(300)))),
        [0, 100 * SECOND, 200 * SECOND]
    );
}

#[test]
fn a_rate_that_climbs_stays_and_falls_makes_due_what_lies_under_its_curve() {
    let stages = [
        Stage {
            from: 0.0,
            to: 100.0,
            over: seconds(10),
        },
        Stage {
            from: 100.0,
            to: 100.0,
            over: seconds(10),
        },
        Stage {
            from: 100.0,
            to: 0.0,
            over: seconds(10),
        },
    ];
    let dues = times(constant(&stages));
    let before = |second: u64| dues.iter().filter(|at| **at < second * SECOND).count();
    assert_eq!(dues.len(), 2000);
    assert_eq!(
        [before(5), before(10), before(20), before(25)],
        [125, 500, 1500, 1875]
    );
    // Operation 125 has the area of half the climb before it; operation 1510 comes 100 ms after the plateau.
    assert_eq!(dues[125], 5 * SECOND);
    assert_eq!(dues[1000], 15 * SECOND);
    let gap = dues[1510] - dues[1500];
    assert!(
        (100_400_000..100_600_000).contains(&gap),
        "10 starts took {gap} ns"
    );
}

#[test]
fn a_slope_too_small_to_see_does_not_disturb_the_gaps() {
    let stages = [Stage {
        from: 1e6,
        to: 1e6 + 1.0,
        over: seconds(3600),
    }];
    let share = Share {
        index: 0,
        of: 1_000_000,
    };
    let dues = times(Schedule::rate(&stages, Arrival::Constant, 0, share));
    for (second, at) in dues.iter().enumerate() {
        // The rate rises by a millionth within the hour, so that second s comes s² / 7200 µs early.
        let exact = second as f64 * 1e9 - (second * second) as f64 / 7200.0 * 1e3;
        assert!(
            (*at as f64 - exact).abs() < 3.0,
            "second {second} is due at {at}, not at {exact}"
        );
    }
}

#[test]
fn nothing_is_due_while_the_rate_is_0() {
    let stages = [
        Stage {
            from: 0.0,
            to: 0.0,
            over: seconds(1),
        },
        Stage {
            from: 10.0,
            to: 10.0,
            over: seconds(1),
        },
        Stage {
            from: 500.0,
            to: 500.0,
            over: Duration::ZERO,
        },
        Stage {
            from: 0.0,
            to: 0.0,
            over: seconds(5),
        },
        Stage {
            from: 2.0,
            to: 2.0,
            over: seconds(1),
        },
    ];
    let dues = times(constant(&stages));
    assert_eq!(dues[0], SECOND);
    assert_eq!(dues[9], 1900 * MILLISECOND);
    assert_eq!(dues[10..], [7 * SECOND, 7500 * MILLISECOND]);
    assert!(times(constant(&steady(0.0, seconds(5)))).is_empty());
    assert!(times(constant(&[])).is_empty());
}

#[test]
fn starts_due_less_than_a_nanosecond_before_the_end_are_left_out() {
    let schedule = constant(&steady(1.000_000_000_3, seconds(1)));
    assert_eq!(times(schedule), [0]);
}

#[test]
fn poisson_gaps_have_the_mean_and_the_variance_of_an_exponential_distribution() {
    let dues = times(Schedule::rate(
        &steady(1000.0, seconds(100)),
        Arrival::Poisson,
        7,
        Share::ALL,
    ));
    let gaps: Vec<f64> = dues
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e6)
        .collect();
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
    let above_mean = gaps.iter().filter(|gap| **gap > 1.0).count() as f64 / count;
    // Four standard errors at n = 100,000: 1/√n of the count and the mean, √(8/n) of the variance, and of a
    // share of 1/e.
    assert!((count / 1e5 - 1.0).abs() < 0.0127, "{count} gaps");
    assert!((mean - 1.0).abs() < 0.0127, "mean {mean} ms");
    assert!((variance - 1.0).abs() < 0.0358, "variance {variance} ms²");
    assert!(
        (above_mean - (-1.0f64).exp()).abs() < 0.0061,
        "{above_mean} of the gaps exceed the mean"
    );
}

#[test]
fn bursts_have_the_mean_and_the_variance_of_a_gamma_distribution() {
    for (shape, variance) in [(0.25, 4.0), (1.0, 1.0), (4.0, 0.25)] {
        let arrival = format!("gamma:{shape}").parse().unwrap();
        let stages = steady(1000.0, seconds(100));
        let dues = times(Schedule::rate(&stages, arrival, 7, Share::ALL));
        let gaps = dues.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6);
        let (count, sum, squares) = gaps.fold((0.0, 0.0, 0.0), |(count, sum, squares), gap| {
            (count + 1.0, sum + gap, squares + gap * gap)
        });
        let mean: f64 = sum / count;
        let found = squares / count - mean * mean;
        // Four standard errors at n = 100,000; the variance has √((6/shape + 2)/n), as a share of itself.
        let error = 4.0 / 100_000f64.sqrt();
        assert!(
            (mean - 1.0).abs() < error * f64::sqrt(variance),
            "{shape}: mean {mean} ms"
        );
        let slack = variance * error * f64::sqrt(6.0 / shape + 2.0);
        assert!(
            (found - variance).abs() < slack,
            "{shape}: variance {found} ms²"
        );
    }
}

#[test]
fn poisson_arrivals_follow_the_curve() {
    let climb = [Stage {
        from: 0.0,
        to: 1000.0,
        over: seconds(100),
    }];
    let dues = times(Schedule::rate(&climb, Arrival::Poisson, 3, Share::ALL));
    let early = dues.iter().filter(|at| **at < 50 * SECOND).count() as f64;
    let late = dues.len() as f64 - early;
    // Four standard deviations of Poisson counts.
    assert!(
        (early - 12_500.0).abs() < 4.0 * 12_500f64.sqrt(),
        "{early} in the first half"
    );
    assert!(
        (late - 37_500.0).abs() < 4.0 * 37_500f64.sqrt(),
        "{late} in the second half"
    );
}

#[test]
fn a_seed_draws_the_same_arrivals_again_and_another_seed_others() {
    let draw = |seed| {
        times(Schedule::rate(
            &steady(100.0, seconds(5)),
            Arrival::Poisson,
            seed,
            Share::ALL,
        ))
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn workers_of_a_closed_loop_begin_evenly_over_the_ramp() {
    let closed = || Schedule::closed(4, seconds(2), Share::ALL);
    assert_eq!(
        times(closed()),
        [0, 500 * MILLISECOND, 1000 * MILLISECOND, 1500 * MILLISECOND]
    );
    assert!(closed().is_closed() && !closed().is_burst());
    let own = Schedule::closed(4, seconds(2), Share { index: 3, of: 4 });
    assert_eq!(
        own.collect::<Vec<_>>(),
        [Due {
            at: 1500 * MILLISECOND,
            index: 3
        }]
    );
    assert!(times(closed().limited(0)).is_empty());
}

#[test]
fn a_limit_cuts_the_whole_and_each_share_with_it() {
    let share = Share { index: 1, of: 3 };
    let limited =
        Schedule::rate(&steady(10.0, seconds(10)), Arrival::Constant, 0, share).limited(8);
    assert_eq!(limited.map(|due| due.index).collect::<Vec<_>>(), [1, 4, 7]);
    let fewer = Schedule::spread(5, seconds(1), Share::ALL).limited(100);
    assert_eq!(fewer.count(), 5);
}

#[test]
fn the_ops_of_a_group_with_a_rate_are_those_of_the_whole_group() {
    let timeline = Timeline::new(seconds(10), Duration::ZERO);
    let group = |rate: Option<f64>, stages: Vec<PlannedStage>, arrival| Group {
        name: "any".to_owned(),
        clients: 0,
        ramp: Duration::ZERO,
        rate,
        arrival,
        stages,
        ops: Some(7),
    };
    let stage = PlannedStage::to_rate(100.0, seconds(10));
    let groups = vec![
        group(Some(100.0), Vec::new(), Arrival::Constant),
        group(Some(100.0), Vec::new(), Arrival::Poisson),
        group(None, vec![stage], Arrival::Constant),
    ];
    let plan = Plan::new("any", timeline, groups, ());
    for share in [Share { index: 0, of: 2 }, Share { index: 1, of: 2 }] {
        let starts = plan.schedules(share).into_iter().map(Iterator::count);
        let expected = 4 - share.index as usize;
        assert_eq!(starts.collect::<Vec<_>>(), [expected; 3]);
    }
}

#[test]
#[should_panic(expected = "there is no share 3 of 3")]
fn a_share_beyond_the_last_is_refused() {
    let _ = Schedule::spread(1, Duration::ZERO, Share { index: 3, of: 3 });
}

prop_compose! {
    fn stages()(drawn in prop::collection::vec((0.0..5000.0f64, 0.0..5000.0f64, 0u64..400, 0u8..4), 1..6)) -> Vec<Stage> {
        let stage = |(from, to, over, shape): (f64, f64, u64, u8)| {
            let (from, to) = match shape {
                0 => (from, from),
                1 => (0.0, to),
                2 => (from, 0.0),
                _ => (from, to),
            };
            Stage { from, to, over: Duration::from_millis(over) }
        };
        drawn.into_iter().map(stage).collect()
    }
}

fn arrival() -> impl Strategy<Value = Arrival> {
    prop_oneof![
        Just(Arrival::Constant),
        Just(Arrival::Poisson),
        (1u8..=100).prop_filter_map("a shape", |shape| format!(
            "gamma:{}",
            f32::from(shape) / 10.0
        )
        .parse()
        .ok())
    ]
}

fn merged(shares: impl Iterator<Item = Schedule>) -> Vec<Due> {
    let mut dues: Vec<Due> = shares.flatten().collect();
    dues.sort_by_key(|due| due.index);
    dues
}

proptest! {
    #[test]
    fn n_machines_replay_exactly_the_schedule_of_one(stages in stages(), arrival in arrival(), seed: u64, n in 1u64..9) {
        let whole: Vec<Due> = Schedule::rate(&stages, arrival, seed, Share::ALL).collect();
        let shares = (0..n).map(|index| Schedule::rate(&stages, arrival, seed, Share { index, of: n }));
        prop_assert_eq!(merged(shares), whole);
    }

    #[test]
    fn due_times_never_run_backwards_and_end_with_the_stages(stages in stages(), arrival in arrival(), seed: u64) {
        let over: Duration = stages.iter().map(|stage| stage.over).sum();
        let dues = times(Schedule::rate(&stages, arrival, seed, Share::ALL));
        prop_assert!(dues.is_sorted());
        prop_assert!(dues.last().is_none_or(|last| u128::from(*last) < over.as_nanos()));
    }

    #[test]
    fn a_fixed_set_is_spread_the_same_over_any_number_of_machines(ops in 0u64..5000, over in 0u64..10_000, n in 1u64..9) {
        let over = Duration::from_millis(over);
        let shares = (0..n).map(|index| Schedule::spread(ops, over, Share { index, of: n }));
        prop_assert_eq!(merged(shares), Schedule::spread(ops, over, Share::ALL).collect::<Vec<_>>());
    }

    #[test]
    fn threads_share_what_their_process_has(index in 0u64..5, more in 1u64..5, threads in 1u64..6, ops in 0u64..500) {
        let process = Share { index, of: index + more };
        let own = |share| Schedule::spread(ops, Duration::from_secs(1), share);
        let shares = (0..threads).map(|index| own(process.within(Share { index, of: threads })));
        prop_assert_eq!(merged(shares), own(process).collect::<Vec<_>>());
    }
}

#[test]
fn workers_that_begin_at_random_keep_their_interval_without_drift() {
    let (most, interval) = (seconds(5), Duration::from_nanos(333_333_333));
    let drawn = |share| Schedule::drawn(7, most, Some(interval), 3, share);
    let dues: Vec<Due> = drawn(Share::ALL).take(7_000).collect();
    assert!(dues.is_sorted_by_key(|due| due.at));
    let mut beginnings = Vec::new();
    for worker in 0..7 {
        let own: Vec<&Due> = dues.iter().filter(|due| due.index % 7 == worker).collect();
        assert!(own[0].at < 5 * SECOND);
        beginnings.push(own[0].at);
        for (number, due) in own.iter().enumerate() {
            assert_eq!(due.index, number as u64 * 7 + worker);
            let due_at = own[0].at + number as u64 * 333_333_333;
            assert!(due.at.abs_diff(due_at) <= 1, "{due:?} {due_at}");
        }
    }
    beginnings.sort_unstable();
    beginnings.dedup();
    assert_eq!(beginnings.len(), 7, "each has its own");
    assert!(beginnings[6] - beginnings[0] > SECOND, "{beginnings:?}");
    // Two shares together have the operations of the whole.
    let mut both: Vec<Due> = (0..2)
        .flat_map(|index| drawn(Share { index, of: 2 }).take(4_000))
        .collect();
    both.sort_unstable_by_key(|due| (due.at, due.index));
    let mut whole = dues[..5_000].to_vec();
    whole.sort_unstable_by_key(|due| (due.at, due.index));
    let until = whole[4_000].at;
    assert!(
        both.iter()
            .take_while(|due| due.at < until)
            .eq(whole.iter().take_while(|due| due.at < until))
    );
}

#[test]
fn workers_that_begin_at_random_and_go_on_by_themselves_begin_once_each() {
    let schedule = Schedule::drawn(100, seconds(2), None, 1, Share::ALL);
    assert!(schedule.is_closed() && !schedule.is_burst());
    let dues: Vec<Due> = schedule.collect();
    assert!(dues.is_sorted_by_key(|due| due.at));
    assert!(dues[0].at < SECOND && dues[99].at > SECOND && dues[99].at < 2 * SECOND);
    let mut workers: Vec<u64> = dues.iter().map(|due| due.index).collect();
    workers.sort_unstable();
    assert!(workers.into_iter().eq(0..100));
}

#[test]
fn a_worker_that_begins_late_does_as_many_operations_as_the_others() {
    let interval = Some(Duration::from_millis(10));
    let schedule = Schedule::drawn(5, seconds(1), interval, 9, Share::ALL).limited(20);
    let mut each = [0; 5];
    for due in schedule {
        each[(due.index % 5) as usize] += 1;
    }
    assert_eq!(each, [20; 5]);
}
