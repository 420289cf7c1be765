//! Simulated runs, steady and not, and the loads that are not judged.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use test_kit::scaled;

use super::*;
use crate::result::{AuditInputs, FaultResult, PlannedPhases, Second, SeriesResult};
use crate::tally::Distribution;
use crate::throughput::{Overload, Throughput};

/// Lengths of simulated runs, seconds.
const LENGTHS: [usize; 4] = [10, 12, 30, 60];

/// Noise of a second, as a logarithm. Each value keeps a share of the one before.
fn noise(random: &mut StdRng, kept: f64, deviation: f64) -> impl FnMut() -> f64 {
    let scale = deviation * (1.0 - kept * kept).sqrt();
    let mut normal = move || (0..12).map(|_| random.random_range(-0.5..0.5)).sum::<f64>();
    let mut value = deviation * normal();
    move || {
        value = kept * value + scale * normal();
        value
    }
}

/// Creates a run whose medians are `level(second)` seconds and whose longest times are 5 times as long.
fn samples(seconds: usize, mut level: impl FnMut(f64) -> f64) -> Vec<Sample> {
    let sample = |second| {
        let median_s = level(second as f64);
        Sample {
            at_s: second as f64,
            median_s,
            longest_s: 5.0 * median_s,
        }
    };
    (0..seconds).map(sample).collect()
}

/// Returns how many of a hundred runs, or more, satisfy a condition, in percent.
fn share(mut holds: impl FnMut(&mut StdRng) -> bool) -> f64 {
    let runs = scaled(400).max(200);
    let found = (0..runs).filter(|seed| holds(&mut StdRng::seed_from_u64(*seed)));
    100.0 * found.count() as f64 / runs as f64
}

#[test]
fn false_alarms_are_at_most_1_percent_whatever_seconds_depend_on() {
    for length in LENGTHS {
        for (kept, deviation) in [(0.0, 0.1), (0.0, 0.3), (0.5, 0.15), (0.9, 0.2)] {
            let alarms = share(|random| {
                let mut noise = noise(random, kept, deviation);
                Unsteady::find(&samples(length, |_| 1e-3 * noise().exp())).is_some()
            });
            assert!(alarms <= 1.0, "{length} {kept} {deviation}: {alarms} %");
        }
    }
}

#[test]
fn heavy_tails_and_spikes_cause_at_most_1_percent_of_false_alarms() {
    for length in LENGTHS {
        let heavy = share(|random| {
            // Pareto with an exponent of 1.5: its variance is infinite.
            let mut pareto = || random.random_range(0.0..1.0_f64).max(1e-9).powf(-1.0 / 1.5);
            Unsteady::find(&samples(length, |_| 1e-3 * (1.0 + 0.2 * pareto()))).is_some()
        });
        assert!(heavy <= 1.0, "{length}: {heavy} %");
        let spiked = share(|random| {
            let mut spiked = || {
                let is_spike = random.random_range(0.0..1.0) < 0.08;
                let factor = random.random_range(2.0..20.0);
                if is_spike { factor } else { 1.0 }
            };
            let run = samples(length, |_| 1e-3 * spiked());
            let stalled = run.into_iter().map(|sample| Sample {
                longest_s: 30.0 * sample.longest_s,
                ..sample
            });
            Unsteady::find(&stalled.collect::<Vec<_>>()).is_some()
        });
        assert!(spiked <= 1.0, "{length}: {spiked} %");
        // Seconds in two states without phases: the percentiles are the same in each part of the run.
        let two = share(|random| {
            let mut is_slow = || random.random_range(0.0..1.0) < 0.1;
            Unsteady::find(&samples(length, |_| if is_slow() { 0.01 } else { 1e-3 })).is_some()
        });
        assert!(two <= 1.0, "{length}: {two} %");
    }
}

#[test]
fn a_server_that_slows_by_5_ms_each_second_is_found() {
    for length in LENGTHS {
        let found = share(|random| {
            let mut noise = noise(random, 0.5, 0.05);
            let run = samples(length, |at| (1e-3 + 5e-3 * at) * noise().exp());
            matches!(Unsteady::find(&run), Some(Unsteady::Drift(growth)) if growth > 0.0)
        });
        assert!(found >= 95.0, "{length}: {found} %");
    }
    let warning = Unsteady::Drift(0.0049).warning(1.0);
    assert_eq!(
        warning.message,
        "no steady state: response grew by 4.90 ms per second"
    );
}

#[test]
fn a_server_that_turns_from_1_to_100_ms_is_found_with_its_second() {
    for length in LENGTHS {
        let found = share(|random| {
            let mut noise = noise(random, 0.5, 0.15);
            let run = samples(length, |at| {
                (if at < 4.0 { 1e-3 } else { 0.1 }) * noise().exp()
            });
            matches!(Unsteady::find(&run), Some(Unsteady::Jump { at_s: 4.0, .. }))
        });
        assert!(found >= 95.0, "{length}: {found} %");
    }
    let run = samples(12, |at| if at < 4.0 { 1e-3 } else { 0.1 });
    let warning = Unsteady::find(&run).unwrap().warning(1.0);
    assert_eq!(
        warning.message,
        "no steady state: response rose from 1.00 ms to 100 ms at second 4 of the measured time"
    );
}

#[test]
fn phases_in_another_state_are_found_with_their_seconds() {
    for (length, from, to) in [(12, 4, 7), (16, 4, 12), (60, 50, 53), (250, 100, 103)] {
        let found = share(|random| {
            let mut noise = noise(random, 0.5, 0.15);
            let slow = from as f64..to as f64;
            let run = samples(length, |at| {
                (if slow.contains(&at) { 13e-3 } else { 60e-6 }) * noise().exp()
            });
            let Some(Unsteady::Phases {
                at_s,
                back_s,
                changes: 2,
                ..
            }) = Unsteady::find(&run)
            else {
                return false;
            };
            at_s == slow.start && back_s == slow.end
        });
        assert!(found >= 95.0, "{length}: {found} %");
    }
    let message = |run: &[Sample]| Unsteady::find(run).unwrap().warning(1.0).message;
    let to_and_fro = samples(24, |at| {
        if ((at / 4.0) as u64).is_multiple_of(2) {
            1e-3
        } else {
            0.1
        }
    });
    let rose = "no steady state: response rose from 1.00 ms to 100 ms at second 4 of the measured time, and back at second 8";
    assert_eq!(message(&to_and_fro), format!("{rose}; it changed 5 times"));
    // The last phase may be cut off.
    let run = samples(16, |at| if (5.0..14.0).contains(&at) { 0.1 } else { 1e-3 });
    assert!(
        message(&run).ends_with("at second 5 of the measured time, and back at second 14"),
        "{}",
        message(&run)
    );
    // One usual second, or one slow second elsewhere, does not hide a phase.
    let slow = |at: f64| (4.0..14.0).contains(&at) && at != 8.0 || at == 20.0;
    let run = samples(40, |at| if slow(at) { 0.1 } else { 1e-3 });
    assert!(
        message(&run).ends_with("and back at second 14"),
        "{}",
        message(&run)
    );
    // Two slow seconds are a disturbance, and three of a long run are in no percentile.
    for (length, to) in [(20, 7.0), (400, 8.0)] {
        let run = samples(
            length,
            |at| if (5.0..to).contains(&at) { 0.1 } else { 1e-3 },
        );
        assert_eq!(Unsteady::find(&run), None, "{length}");
    }
}

#[test]
fn a_warm_up_that_was_too_short_is_named_with_the_option_that_fixes_it() {
    let run = samples(12, |at| if at < 4.0 { 0.05 } else { 0.005 });
    let warning = Unsteady::find(&run).unwrap().warning(1.5);
    assert!(
        warning
            .message
            .ends_with("at second 4 of the measured time: the warm-up was too short"),
        "{warning:?}"
    );
    assert!(warning.hint.ends_with("--warmup 6s"), "{warning:?}");
}

#[test]
fn a_pause_every_10_seconds_is_noted() {
    let found = share(|random| {
        let mut run = {
            let mut noise = noise(random, 0.5, 0.15);
            samples(40, |_| 1e-3 * noise().exp())
        };
        let first = random.random_range(0..10);
        for pause in run.iter_mut().skip(first).step_by(10) {
            pause.longest_s = random.random_range(0.9..1.1);
        }
        matches!(Unsteady::find(&run), Some(Unsteady::Pauses { period_s, .. }) if period_s == 10.0)
    });
    assert!(found >= 95.0, "{found} %");
}

/// A run of 4 s of 1 ms and 8 s of 100 ms after a warm-up of 1 s.
fn jumping() -> RunResult {
    let at = |ms: u64, count: u64| {
        let mut values = Distribution::default();
        (0..count).for_each(|_| values.record(ms * 1_000_000));
        values
    };
    let second = |second| Second {
        second,
        series: SecondSeries::from_distribution(
            "headline",
            &at(if second < 5 { 1 } else { 100 }, 20),
        )
        .into_iter()
        .collect(),
        ..Second::default()
    };
    RunResult {
        phases: Some(PlannedPhases {
            warmup_s: 1.0,
            measure_s: 12.0,
            drain_s: 1.0,
        }),
        throughput: Some(Throughput {
            measured_s: 12.0,
            offered: Some(240),
            ..Throughput::default()
        }),
        audit_inputs: AuditInputs {
            steady_from_s: Some(0.0),
            ..AuditInputs::default()
        },
        series: SeriesResult::from_distribution("headline", &at(100, 240))
            .into_iter()
            .collect(),
        seconds: (1..13).map(second).collect(),
        ..RunResult::default()
    }
}

#[test]
fn only_a_steady_load_without_faults_and_overload_is_judged() {
    let is_found = |change: fn(&mut RunResult)| {
        let mut run = jumping();
        change(&mut run);
        run.unsteady("headline").is_some()
    };
    assert!(is_found(|_| ()));
    assert!(!is_found(|run| run.audit_inputs.steady_from_s = None));
    assert!(!is_found(|run| run.audit_inputs.steady_from_s = Some(8.0)));
    assert!(!is_found(|run| run.audit_inputs.steady_to_s = Some(8.0)));
    assert!(!is_found(|run| run.faults.push(FaultResult::default())));
    assert!(!is_found(|run| {
        run.throughput.as_mut().unwrap().overload = Some(Overload::default());
    }));
    assert!(!is_found(
        |run| run.throughput.as_mut().unwrap().offered = None
    ));
    assert!(!is_found(|run| run
        .throughput
        .as_mut()
        .unwrap()
        .measured_s = 9.0));
}
