//! Results with a calibration of their driver.

use insta::assert_snapshot;
use measure::calibration::{Calibration, Ceiling, Limit};
use measure::imported::SeriesSummary;
use measure::report::{Format, Options};
use measure::result::RunResult;
use measure::throughput::Throughput;
use measure::warning::{Kind, Severity, Warning};

use crate::assert_contains;
use crate::example::result as example;

fn floor(name: &str, p50_ns: u64, p99_ns: u64) -> SeriesSummary {
    SeriesSummary {
        name: name.to_owned(),
        count: Some(4_000),
        p50_ns: Some(p50_ns),
        p99_ns: Some(p99_ns),
        ..SeriesSummary::default()
    }
}

/// Returns the example, whose first bytes have a p50 of 169 µs and a p99 of 375 µs, at 398 streams per second.
fn calibrated(p50_ns: u64, p99_ns: u64, per_s: f64) -> RunResult {
    let limit = Limit::Driver;
    RunResult {
        throughput: Some(Throughput {
            measured_s: 2.5,
            ok: 995,
            ..Throughput::default()
        }),
        calibration: Some(Calibration {
            measured_at: "2026-01-30T09:00:00.000Z".to_owned(),
            floor: vec![floor("first_byte", p50_ns, p99_ns), floor("gap", 1, 1)],
            ceiling: Some(Ceiling { per_s, limit }),
            cpu_each_ns: Some(12_300.0),
            ..Calibration::default()
        }),
        ..example::full()
    }
}

fn render(format: &str, results: &[RunResult]) -> String {
    let options = Options {
        width: Some(80),
        ..Options::default()
    };
    let format: Format = format.parse().unwrap();
    format.render_suite(&results.into(), &options).unwrap()
}

#[test]
fn figures_stand_beside_what_driver_and_machine_need_alone() {
    let result = calibrated(90_000, 150_000, 60_000.0);
    let screen = render("terminal", std::slice::from_ref(&result));
    let latency = screen.split("  memory").next().unwrap();
    let latency = &latency[latency.find("  latency").unwrap()..];
    assert_snapshot!(latency, @"
    latency   TTFB p50 169 µs, of which 90.0 µs is driver and machine, p99 375 µs,
              max 381 µs
    ");
    let whole = render("markdown", std::slice::from_ref(&result));
    let of_calibration = whole
        .lines()
        .filter(|line| line.contains("alone") || line.contains("calibration"));
    assert_snapshot!(of_calibration.collect::<Vec<_>>().join("\n"), @"
    - **calibration:** first_byte p50 90.0 µs, p99 150 µs, at most 60,000 operations/s (driver full), 12.3 µs of its CPU time each, measured 2026-01-30T09:00:00.000Z
    | first_byte: driver and machine alone | 4,000 | 90.0 µs | – | – | – | 150 µs | – | – |
    ");
    let page = render("html", std::slice::from_ref(&result));
    assert_contains(
        &page,
        &["calibration", "driver and machine alone", "90.0 µs"],
    );
    let mut other = result.clone();
    other.daemon.name = "go-streaming".to_owned();
    let both = render("markdown", &[result, other]);
    let rows = both
        .lines()
        .filter(|line| line.starts_with("| driver and machine alone"));
    assert_snapshot!(rows.collect::<Vec<_>>().join("\n"), @"| driver and machine alone | TTFB | 4,000 | 0.0900 | – | – | – | 0.150 | – | – |");
}

#[test]
fn times_within_twice_the_floor_and_rates_above_half_of_the_ceiling_are_noted() {
    let noted = |p50_ns, p99_ns, per_s| {
        let warnings = Warning::of_calibration(&calibrated(p50_ns, p99_ns, per_s));
        assert!(
            warnings
                .iter()
                .all(|warning| warning.severity == Severity::Note)
        );
        let kinds = warnings.iter().map(|warning| warning.kind);
        (
            kinds.collect::<Vec<_>>(),
            warnings.first().map(|warning| warning.message.clone()),
        )
    };
    assert_eq!(noted(80_000, 150_000, 800.0), (Vec::new(), None));
    let (kinds, message) = noted(90_000, 150_000, 790.0);
    assert_eq!(kinds, [Kind::NearFloor, Kind::NearCeiling]);
    assert_snapshot!(message.unwrap(), @"within 2 × of the floor: first_byte p50 169 µs (floor 90.0 µs): mostly driver and machine");
    assert_eq!(noted(80_000, 190_000, 800.0).0, [Kind::NearFloor]);
    assert_eq!(Warning::of_calibration(&example::full()), []);
}

#[test]
fn a_calibration_tells_which_side_was_full() {
    let mut run = calibrated(1, 1, 1.0);
    let limit = |run: &RunResult| {
        Calibration::from_runs(run, Some(run))
            .ceiling
            .unwrap()
            .limit
    };
    assert_eq!(limit(&run), Limit::Neither);
    run.usage.daemon.as_mut().unwrap().busiest_thread_pct = Some(97.0);
    assert_eq!(limit(&run), Limit::Peer);
    run.audit_inputs.worker_cpu_pct = Some(96.0);
    assert_eq!(limit(&run), Limit::Driver);
    let whole = Calibration::from_runs(&run, Some(&run));
    assert_eq!(whole.ceiling.unwrap().per_s, 398.0);
    assert_eq!(
        whole.floor("first_byte").unwrap().p50_ns,
        Some(run.series("first_byte").unwrap().p50_ns)
    );
    assert!(Calibration::from_runs(&run, None).ceiling.is_none());
}
