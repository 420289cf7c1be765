//! A handmade HTTP suite: requests over held connections, of daemons that differ in known ways.

use measure::result::{RunResult, Second, SecondSeries, SeriesResult};
use measure::suite::Suite;
use measure::system::{System, TcpCounters};

use super::{phases, result, suite};

/// Answers per second, CPU µs per request, memory per connection in KiB, median response in µs.
fn nature(daemon: &str) -> (f64, f64, f64, f64) {
    match daemon {
        "nginx" => (50_000.0, 8.0, 0.5, 900.0),
        "http-daemon" => (60_000.0, 6.0, 11.0, 700.0),
        _ => (20_000.0, 25.0, 40.0, 2_400.0),
    }
}

/// Rows of a run; the last one covers a part of a second.
const SECONDS: u64 = 12;

/// Builds every daemon at every level of connections.
pub(crate) fn build(daemons: &[&str], levels: &[u64], runs: u64) -> Suite {
    let mut results = Vec::new();
    for run in 0..runs {
        for &level in levels {
            results.extend(daemons.iter().map(|daemon| one(daemon, level, run)));
        }
    }
    Suite {
        name: "throughput".to_owned(),
        question: Some("How many requests a second does each server answer?".to_owned()),
        command: Some(
            "drover run configs/http/throughput.toml --daemon nginx,http-daemon --repeat 5"
                .to_owned(),
        ),
        planned: None,
        control: None,
        looks: 0,
        sides: Vec::new(),
        capacities: Vec::new(),
        results,
        made_again: 0,
        unreached: Vec::new(),
    }
}

/// Builds a run. All daemons of the same repetition share its disturbance, with a small individual one.
pub(crate) fn one(daemon: &str, level: u64, run: u64) -> RunResult {
    let (rate, cpu_us, kib, median_us) = nature(daemon);
    let own = (daemon.len() as u64 * 7 + run * 5) % 4;
    let wobble = 1.0 + 0.05 * (run as f64 - 2.0) + 0.002 * own as f64;
    let rate = (rate * wobble).round() as u64;
    let mut result = suite::one(daemon, level, 1, SECONDS);
    result.driver = "http-load".to_owned();
    result.spec = result::spec::REQUESTS.clone();
    result.run_id = format!("{daemon}-{level}-{run}");
    result.phases = phases(1.0, 10.0, 5.0);
    result.plan_sentence = format!("GET /1kb.txt over {level} connections, as fast as they answer");
    // A foreign server has no metrics page.
    for look in &mut result.resources {
        look.active = None;
        look.backlog = None;
    }
    result.wall_s = 11.5;
    result.thresholds.clear();
    let scales = [
        ("response", 1.0),
        ("service", 0.9),
        ("connecting", 0.1),
        ("sending", 0.01),
        ("waiting", 0.8),
        ("receiving", 0.05),
    ];
    let of = |(name, scale): (&str, f64)| {
        let values = suite::tailed(2_000, median_us * scale / wobble, 0.25);
        SeriesResult::from_distribution(name, &values)
    };
    result.series = scales.into_iter().filter_map(of).collect();
    result.seconds = (0..SECONDS)
        .map(|second| row(second, rate, level, median_us / wobble))
        .collect();
    let sum = |name: &str| {
        result
            .seconds
            .iter()
            .filter_map(|row| row.counts.get(name))
            .sum::<u64>()
    };
    let names = [
        "answers",
        "bytes",
        "body_bytes",
        "bytes_sent",
        "opened",
        "closed",
        "lost",
    ];
    let answers = sum("answers");
    result.counts = names.map(|name| (name.to_owned(), sum(name))).into();
    (result.operations.started, result.operations.ok) = (answers, answers);
    result.operations.peak_active = level;
    let daemon = result.usage.daemon.as_mut().unwrap();
    daemon.gauges_peak.clear();
    daemon.rss_peak_kb = daemon.rss_baseline_kb + (kib * level as f64) as u64;
    daemon.user_s = cpu_us * answers as f64 / 4e6 * (2.0 - wobble);
    daemon.system_s = daemon.user_s * 3.0;
    let driver = result.usage.driver.as_mut().unwrap();
    driver.rss_peak_kb = driver.rss_baseline_kb + level / 4;
    driver.user_s = answers as f64 * 1e-6;
    driver.system_s = driver.user_s * 3.0;
    let growth = (kib * level as f64) as u64 + level / 4;
    result.usage.system = Some(System {
        available_baseline_kb: 20_000_000,
        // 8 KiB of kernel memory per connection, both ends.
        available_min_kb: 20_000_000 - growth - 8 * level,
        slab_baseline_kb: 100_000,
        slab_peak_kb: 100_000 + 7 * level,
        tcp: TcpCounters {
            retransmits: 3,
            timeouts: 1,
            ..TcpCounters::default()
        },
        ..System::default()
    });
    result
}

/// Returns a second of the run. All connections are opened in the first second; one is lost in the sixth and reopened in
/// the seventh.
fn row(second: u64, rate: u64, level: u64, median_us: f64) -> Second {
    let answers = if second == 11 { rate / 2 } else { rate };
    let counts = [
        ("answers", answers),
        ("bytes", answers * 1_264),
        ("body_bytes", answers * 1_024),
        ("bytes_sent", answers * 60),
        (
            "opened",
            if second == 0 {
                level
            } else {
                u64::from(second == 7)
            },
        ),
        ("lost", u64::from(second == 6)),
        ("closed", if second == 11 { level } else { 0 }),
    ];
    let wave = 1.0 + 0.2 * (second as f64 / 2.0).sin();
    let series = |(name, scale): (&str, f64)| {
        let median = median_us * 1e3 * scale * wave;
        SecondSeries {
            name: name.to_owned(),
            count: answers,
            p50_ns: median as u64,
            p99_ns: (median * 3.0) as u64,
            max_ns: (median * 7.0) as u64,
            clamped: 0,
            histogram: String::new(),
        }
    };
    Second {
        second,
        active: level,
        active_peak: level,
        counts: counts.map(|(name, count)| (name.to_owned(), count)).into(),
        series: [("response", 1.0), ("service", 0.9)].map(series).into(),
        ..Second::default()
    }
}
