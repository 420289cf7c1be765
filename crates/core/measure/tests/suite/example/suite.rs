//! A handmade suite: daemons that differ in known ways, so that every figure of a report is predictable.

use std::sync::LazyLock;

use measure::result::{
    Cost, FaultResult, Resources, RunResult, Second, SecondSeries, SeriesResult, ThresholdResult,
};
use measure::suite::{Suite, Unreached};
use measure::tally::Distribution;
use measure::warning::{Severity, Warning, verdict};

use super::result;

/// The shape of the suite.
pub(crate) struct Shape {
    pub(crate) daemons: &'static [&'static str],
    pub(crate) levels: &'static [u64],
    pub(crate) runs: u64,
    /// Rows per run; the streams start within the first tenth of them.
    pub(crate) seconds: u64,
}

pub(crate) const FOUR: &[&str] = &[
    "go-streaming",
    "python-streaming",
    "php-streaming",
    "rust-streaming",
];
/// Encoded histograms of seconds, whose medians lie from 50 to 120 µs.
static HISTOGRAMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let medians = (0..8).map(|step| 50.0 + 10.0 * f64::from(step));
    medians
        .map(|median| tailed(50, median, 0.4).encode())
        .collect()
});
const SERIES: [(&str, f64); 8] = [
    ("connect", 0.3),
    ("handoff", 0.2),
    ("take", 0.5),
    ("first_byte", 1.0),
    ("first_event", 1.2),
    ("gap", 300.0),
    ("stream", 4_000.0),
    ("drift", 2.0),
];

/// KiB per connection, CPU µs per stream, median first byte in µs, width of its tail.
fn nature(daemon: &str) -> (f64, f64, f64, f64) {
    match daemon {
        "go-streaming" => (6.0, 390.0, 80.0, 0.30),
        "python-streaming" => (5.0, 620.0, 260.0, 0.55),
        "php-streaming" => (10.0, 500.0, 90.0, 0.35),
        _ => (0.5, 120.0, 25.0, 0.28),
    }
}

/// Builds every daemon at every level, with memory that grows by a known amount per connection.
pub(crate) fn build(shape: &Shape) -> Suite {
    let mut results = Vec::new();
    for run in 0..shape.runs {
        for &level in shape.levels {
            for daemon in shape.daemons {
                results.push(one(daemon, level, run, shape.seconds));
            }
        }
    }
    Suite {
        name: "quick".to_owned(),
        question: Some("Which daemon holds the most streams for the least memory?".to_owned()),
        command: Some("drover run configs/fdpass/quick.toml".to_owned()),
        planned: None,
        control: None,
        looks: 0,
        sides: Vec::new(),
        capacities: Vec::new(),
        results,
        made_again: 0,
        unreached: vec![Unreached {
            daemon: "python-streaming".to_owned(),
            level: "100000".to_owned(),
            reason: "20,000 open files allowed, 100,010 are needed: raise the hard limit or add instances".to_owned(),
        }],
    }
}

/// Builds a run. Its figures differ from another repetition's by a few known percent.
pub(crate) fn one(daemon: &str, level: u64, run: u64, seconds: u64) -> RunResult {
    let (kib, cpu_us, median_us, width) = nature(daemon);
    let wobble = 1.0 + 0.02 * (run as f64 - 1.0);
    let crowd = 1.0 + (level as f64 / 10_000.0).sqrt();
    let mut result = result::full();
    result.daemon.name = daemon.to_owned();
    result.daemon.about = Some(format!("{daemon}, made by hand"));
    result.level = level.to_string();
    result.run_id = format!("{daemon}-{level}-{run}");
    result.started_at = format!("2026-01-31T12:{:02}:{run:02}Z", level % 60);
    result.plan_sentence = format!("{level} streams of {seconds} s, begun within a tenth of it");
    result.operations.started = level;
    result.operations.ok = level;
    result.operations.failed = 0;
    result.operations.unfinished = 0;
    result.operations.peak_active = level;
    result.errors.clear();
    result.warnings.clear();
    result.verdict = verdict(&[]);
    result.series = SERIES
        .iter()
        .filter_map(|(name, scale)| {
            let values = tailed(
                level.clamp(100, 2_000),
                median_us * scale * crowd * wobble,
                width,
            );
            SeriesResult::from_distribution(name, &values)
        })
        .collect();
    result.seconds = (0..seconds)
        .map(|second| {
            row(
                second,
                seconds,
                level,
                median_us * crowd * wobble * noise(second ^ run << 8),
            )
        })
        .collect();
    let peak_kb = 4_096.0 + kib * level as f64 * wobble;
    let usage = result.usage.daemon.as_mut().unwrap();
    usage.rss_baseline_kb = 4_096;
    usage.rss_peak_kb = peak_kb as u64;
    usage.user_s = cpu_us * level as f64 * wobble / 2e6;
    usage.system_s = usage.user_s;
    usage.cpu_avg_pct = 200.0 * usage.user_s / seconds as f64;
    usage.cpu_peak_pct = usage.cpu_avg_pct * 2.0;
    usage.gauges_peak = [("daemon_peak_streams".to_owned(), level as f64)].into();
    result.resources = (0..=seconds)
        .map(|second| {
            look(
                second,
                seconds,
                level,
                peak_kb,
                result.usage.daemon.as_ref().unwrap().cpu_avg_pct,
            )
        })
        .collect();
    result.thresholds = vec![ThresholdResult {
        text: "first_byte.p99 <= 50ms".to_owned(),
        measured: Some("1.20ms".to_owned()),
        met: true,
    }];
    result
}

/// Returns values with a heavy tail (log-logistic), the same each time.
pub(crate) fn tailed(count: u64, median_us: f64, width: f64) -> Distribution {
    let mut values = Distribution::default();
    for place in 0..count {
        let share = (place as f64 + 0.5) / count as f64;
        values.record((median_us * 1e3 * (share / (1.0 - share)).powf(width)) as u64);
    }
    values
}

/// Returns a deterministic factor from 0.6 to 1.4 that looks random.
fn noise(seed: u64) -> f64 {
    let mixed = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    0.6 + 0.8 * mixed as f64 / f64::from(1 << 24)
}

/// Returns the streams open at the end of a second: they start within the first tenth and end within the last.
fn open(second: u64, seconds: u64, level: u64) -> u64 {
    let tenth = (seconds / 10).max(1);
    level * (second + 1).min(tenth).min(seconds - second) / tenth
}

fn row(second: u64, seconds: u64, level: u64, median_us: f64) -> Second {
    let tenth = (seconds / 10).max(1);
    let mut row = Second {
        second,
        active: open(second, seconds, level),
        active_peak: open(second, seconds, level),
        ..Second::default()
    };
    let begun = if second < tenth { level / tenth } else { 0 };
    row.counts.insert("started".to_owned(), begun);
    row.counts.insert(
        "ok".to_owned(),
        if second + tenth >= seconds {
            level / tenth
        } else {
            0
        },
    );
    // A wave, so that a chart has something to show, and one outlier second.
    let wave =
        1.0 + 0.3 * (second as f64 / 7.0).sin() + 4.0 * f64::from(u8::from(second == seconds / 2));
    for (name, scale) in SERIES {
        let median = median_us * scale * wave * 1e3;
        row.series.push(SecondSeries {
            name: name.to_owned(),
            count: 100,
            p50_ns: median as u64,
            p99_ns: (median * 4.0) as u64,
            max_ns: (median * 6.0) as u64,
            clamped: 0,
            // Only the headline series has a heat map.
            histogram: match name {
                "first_byte" => HISTOGRAMS[second as usize % HISTOGRAMS.len()].clone(),
                _ => String::new(),
            },
        });
    }
    row
}

fn look(second: u64, seconds: u64, level: u64, peak_kb: f64, cpu_pct: f64) -> Resources {
    let open = open(second.min(seconds - 1), seconds, level) as f64;
    let cost = Cost {
        rss_kb: (4_096.0 + (peak_kb - 4_096.0) * noise(second) / 1.4 * open / level as f64) as u64,
        cpu_pct: cpu_pct * noise(second + level) * (1.0 + 0.2 * (second as f64 / 5.0).cos()),
        threads: 3,
        fds: 20 + open as u64,
        ..Cost::default()
    };
    Resources {
        at_s: second as f64 + 0.3,
        daemon: Some(cost),
        driver: Some(cost),
        active: Some(open),
        backlog: Some(if second == 1 {
            level / 50
        } else {
            (noise(second) * 8.0) as u64 - 4
        }),
        ..Resources::default()
    }
}

/// Makes the run INVALID by a warning about the driver.
pub(crate) fn invalidate(result: &mut RunResult) {
    result.warnings = vec![
        Warning::generator_cpu_bound(Severity::Invalid, 97.0, 0, 10),
        Warning::debug_build(),
    ];
    result.verdict = verdict(&result.warnings);
}

/// Adds a kill and restart of the daemon.
pub(crate) fn kill(result: &mut RunResult) {
    result.faults = vec![FaultResult {
        what: "SIGKILL and a new start".to_owned(),
        at_s: 5.0,
        back_s: Some(5.75),
    }];
    result.operations.ok -= 42;
    result.operations.failed += 42;
    result.errors.insert("lost".to_owned(), 40);
    result.errors.insert("reset".to_owned(), 2);
    result.counts.insert("retries".to_owned(), 17);
}

/// Makes the run miss its threshold.
pub(crate) fn miss(result: &mut RunResult) {
    result.thresholds = vec![ThresholdResult {
        text: "first_byte.p99 <= 50ms".to_owned(),
        measured: Some("61.2ms".to_owned()),
        met: false,
    }];
}
