//! Thresholds evaluated for a handmade result.

use measure::report::markdown;
use measure::result::{Cost, FaultResult, Resources, RunResult, Second};
use measure::threshold::Threshold;
use measure::throughput::Throughput;

use crate::example::result as example;

const SERIES: &[&str] = &["handoff", "first_byte", "stream", "gap"];

/// Returns the measured value, and whether it met the threshold.
fn judged(result: &RunResult, text: &str) -> (Option<String>, bool) {
    let judged = Threshold::parse(text, SERIES).unwrap().judge(result);
    assert_eq!(judged.text, text);
    (judged.measured, judged.met)
}

/// Asserts the measured value, and whether it met the threshold.
#[track_caller]
fn assert_judged(result: &RunResult, text: &str, measured: &str, met: bool) {
    let expected = (Some(measured.to_owned()), met);
    assert_eq!(judged(result, text), expected, "{text}");
}

#[test]
fn a_threshold_on_a_counter_that_the_driver_does_not_have_is_refused_with_those_that_it_has() {
    let spec = example::full().spec;
    let parse = |text: &str| Threshold::parse_for(text, &spec);
    for known in spec.counter_names() {
        assert!(parse(&format!("counts.{known} < 5")).is_ok(), "{known}");
    }
    let refused = parse("counts.nothing < 5").unwrap_err().to_string();
    assert!(
        refused.starts_with("`counts.nothing < 5`: there is no counter `nothing`: use one of"),
        "{refused}"
    );
    for name in spec.counter_names() {
        assert!(refused.contains(name), "{name}: {refused}");
    }
}

/// The example: 1,000 started, 995 ok, 2 rejected, 1 reset, 2 unfinished; `first_byte` has a p99 of 375 µs.
#[test]
fn each_figure_is_read_where_it_stands_and_held_against_its_bound() {
    let mut result = example::full();
    result.usage.daemon.as_mut().unwrap().backlog_peak = Some(37);
    // 995 operations succeeded, but only 500 of them in the measured time.
    result.throughput = Some(Throughput {
        measured_s: 2.5,
        ok: 500,
        ..Throughput::default()
    });
    for (text, measured, met) in [
        ("first_byte.p99 <= 374us", "375 µs", false),
        ("first_byte.p99 <= 375us", "375 µs", true),
        ("first_byte.count == 995", "995", true),
        ("stream.p99.9 > 89ms", "89.8 ms", true),
        ("lag.max < 1ms", "24.0 µs", true),
        ("errors == 3", "3", true),
        ("errors.reset == 1", "1", true),
        ("errors.incomplete == 0", "0", true),
        ("errors.rate < 0.3%", "0.300 %", false),
        ("errors.rate <= 0.3%", "0.300 %", true),
        ("success >= 100%", "99.500 %", false),
        ("unfinished == 0", "2", false),
        ("missed == 0", "0", true),
        ("peak >= 84", "84", true),
        ("rate >= 200", "200.0/s", true),
        ("rate > 200", "200.0/s", false),
        ("counts.events == 17910", "17,910", true),
        ("counts.nothing == 0", "0", true),
        ("daemon.rss.peak <= 4640KiB", "4.53 MiB", true),
        ("daemon.rss.growth < 544KiB", "544 KiB", false),
        ("daemon.cpu.average <= 4%", "4.000 %", true),
        ("driver.cpu.peak < 1.5%", "1.500 %", false),
        ("backlog.peak <= 37", "37", true),
        ("backlog.peak < 37", "37", false),
        ("verdict == VALID", "SUSPECT", false),
        ("verdict != INVALID", "SUSPECT", true),
    ] {
        assert_judged(&result, text, measured, met);
    }
}

/// A number that only grows may still become large enough, and the verdict and the daemon's use are known at the end.
#[test]
fn a_run_that_goes_on_misses_only_what_it_can_no_longer_meet_or_does_not_meet_now() {
    let mut result = example::full();
    result.usage.daemon = None;
    for (text, missed) in [
        ("first_byte.p99 <= 374us", true),
        ("first_byte.p99 <= 375us", false),
        ("first_byte.count >= 2000", false),
        ("first_byte.count <= 900", true),
        ("errors == 4", false),
        ("errors == 2", true),
        ("errors != 3", false),
        ("errors.rate < 0.3%", true),
        ("success >= 100%", true),
        ("verdict == INVALID", false),
        ("daemon.rss.peak <= 1KiB", false),
    ] {
        let threshold = Threshold::parse(text, SERIES).unwrap();
        assert_eq!(threshold.missed_by_now(&result).is_some(), missed, "{text}");
    }
}

/// The result has 1,000 operations: 3 failed, 995 were checked twice, 10 answers failed at least one check, 15 checks
/// failed.
#[test]
fn checks_and_the_operations_that_failed_one_are_shares() {
    let mut result = example::full();
    for text in ["checks > 0%", "checks == 0%"] {
        assert_eq!(judged(&result, text), (None, false), "{text}");
    }
    assert_judged(&result, "checks.errors <= 0.3%", "0.300 %", true);
    result.spec = example::spec::REQUESTS.clone();
    for (name, count) in [
        ("checks_passed", 1975),
        ("checks_failed", 15),
        ("failed_a_check", 10),
    ] {
        result.counts.insert(name.to_owned(), count);
    }
    for (text, measured, met) in [
        ("checks > 99%", "99.246 %", true),
        ("checks > 99.3%", "99.246 %", false),
        ("checks.errors < 1.3%", "1.300 %", false),
        ("checks.errors <= 1.3%", "1.300 %", true),
    ] {
        assert_judged(&result, text, measured, met);
    }
}

#[test]
fn a_threshold_on_an_unmeasured_figure_is_not_met() {
    let mut result = example::full();
    result.usage.daemon = None;
    for text in [
        "daemon.rss.peak < 1GB",
        "backlog.peak == 0",
        "gap.p99 < 1s",
        "down < 1h",
        "daemon.rss.trend < 1GB",
    ] {
        let text = text.replace("1h", "60m");
        assert_eq!(judged(&result, &text), (None, false), "{text}");
    }
    result.throughput = Some(Throughput::default());
    assert_eq!(judged(&result, "rate >= 0"), (None, false));
}

#[test]
fn the_time_down_is_that_of_all_faults_together() {
    let mut result = example::full();
    let fault = |at_s, back_s| FaultResult {
        what: "SIGKILL and a new start".to_owned(),
        at_s,
        back_s,
    };
    result.faults = vec![fault(1.0, Some(1.25)), fault(2.0, Some(2.5))];
    assert_judged(&result, "down <= 750ms", "750 ms", true);
    result.faults.push(fault(2.75, None));
    assert_eq!(judged(&result, "down <= 1s"), (None, false));
}

/// `first_byte` of the example has a value every 900 ns from 20 µs on: 402 values, at most three times each.
#[test]
fn any_percentile_is_read_from_the_histogram() {
    let result = example::full();
    let whole = result.series("first_byte").unwrap().distribution().unwrap();
    for (member, quantile) in [
        ("p97.5", 0.975),
        ("p0", 0.0),
        ("p1", 0.01),
        ("p75", 0.75),
        ("p99.99", 0.9999),
        ("p100", 1.0),
    ] {
        let ns = whole.quantile(quantile).unwrap();
        for (operator, bound, met) in [("<=", ns, true), ("<", ns, false), ("<=", ns - 1, false)] {
            let text = format!("first_byte.{member} {operator} {bound}ns");
            let shown = measure::units::duration(ns);
            assert_judged(&result, &text, &shown, met);
        }
    }
    // Both spellings give the same figure.
    let both = ["p99", "p99.0"].map(|member| judged(&result, &format!("stream.{member} < 1s")));
    assert_eq!(both[0], both[1]);
}

#[test]
fn a_percentile_of_a_histogram_that_can_not_be_read_is_not_met() {
    let mut result = example::full();
    result.series[1].histogram = "cut".to_owned();
    assert_eq!(judged(&result, "first_byte.p97.5 < 1s"), (None, false));
    assert!(judged(&result, "first_byte.p99 < 1s").1);
}

/// Builds a hundred seconds of 100 operations each; the daemon keeps 2 KiB and a hundredth of a file per operation.
fn leaking() -> RunResult {
    let second = |second: u64| Second {
        second,
        active: 50,
        active_peak: 60,
        counts: [("started", 100), ("ok", 100)]
            .map(|(name, count)| (name.to_owned(), count))
            .into(),
        ..Second::default()
    };
    let look = |second: u64| Resources {
        at_s: second as f64,
        daemon: Some(Cost {
            rss_kb: 5_000 + 200 * second,
            fds: 20 + second,
            ..Cost::default()
        }),
        ..Resources::default()
    };
    RunResult {
        seconds: (0..100).map(second).collect(),
        resources: (0..100).map(look).collect(),
        ..example::full()
    }
}

#[test]
fn growth_per_hour_is_judged_and_reported() {
    // 200 KiB and a file in each second.
    assert_judged(&leaking(), "daemon.rss.trend <= 0", "703 MiB", false);
    assert!(judged(&leaking(), "daemon.fds.trend <= 3601").1);
    assert_judged(&leaking(), "daemon.threads.trend <= 0", "0", true);
    assert_eq!(judged(&leaking(), "driver.rss.trend <= 0"), (None, false));
    let shown = markdown::render(&[leaking()][..].into());
    let (_, growth) = shown.split_once("## Growth under steady load").unwrap();
    let rows: Vec<&str> = growth.lines().skip(4).take(4).collect();
    let ends = [
        "| daemon.rss | 703 MiB | 703 MiB | 703 MiB | grows |",
        " | grows |",
        "| daemon.threads | 0 | 0 | 0 | flat |",
        "| daemon.cpu.each | 0 ns | 0 ns | 0 ns | flat |",
    ];
    for (row, end) in rows.iter().zip(ends) {
        assert!(row.ends_with(end), "{shown}");
    }
}

#[test]
fn a_load_that_rises_or_is_short_has_no_trend() {
    let trend = |run: &RunResult| judged(run, "daemon.rss.trend <= 0").0;
    let mut rising = leaking();
    for (place, second) in rising.seconds.iter_mut().enumerate() {
        second.active_peak = place as u64;
    }
    assert_eq!(trend(&rising), None);
    let mut short = leaking();
    short.seconds.truncate(30);
    assert_eq!(trend(&short), None);
    assert_eq!(trend(&example::full()), None);
}

#[test]
fn reports_list_thresholds_faults_and_what_the_daemon_saw() {
    let mut result = example::full();
    result.thresholds = ["errors == 3", "gap.p99 < 1ms"]
        .map(|text| Threshold::parse(text, SERIES).unwrap().judge(&result))
        .into();
    result.faults = vec![FaultResult {
        what: "SIGSTOP for 500ms".to_owned(),
        at_s: 1.0,
        back_s: Some(1.5),
    }];
    let daemon = result.usage.daemon.as_mut().unwrap();
    let peak = ("daemon_peak_streams".to_owned(), 83.0);
    daemon.gauges_peak.extend([peak]);
    let shown = markdown::render(&[result][..].into());
    for row in [
        "| errors == 3 | met | 3 |",
        "| gap.p99 &lt; 1ms | MISSED | – |",
        "| SIGSTOP for 500ms | 1.00 | 1.50 | 0.500 | 0 | 0 |",
        "| 1,000 | 995 | 3 | 99.50 | 84 | 83 | 2 | 0 |",
    ] {
        assert!(shown.lines().any(|line| line == row), "{row}: {shown}");
    }
}
