//! A handmade result: every field is set, and every figure is known.

use std::collections::BTreeMap;

use measure::isolation::Isolation;
use measure::machine::Machine;
use measure::result::{
    AuditInputs, DaemonInfo, Operations, RunResult, SCHEMA, Second, SecondSeries, SeriesResult,
    Usage,
};
use measure::tally::Distribution;
use measure::usage::UsageSummary;
use measure::warning::{EndedBy, Warning, verdict};

#[path = "spec.rs"]
pub(crate) mod spec;

/// Builds three seconds of 400, 400 and 200 streams; 3 failed and 2 were left open.
pub(crate) fn full() -> RunResult {
    let warnings: Vec<Warning> = [
        Warning::unfinished(2, EndedBy::Plan),
        Warning::few_samples("first_byte", 995),
    ]
    .into_iter()
    .flatten()
    .collect();
    RunResult {
        schema: SCHEMA,
        run_id: "20260131-120000-7f3a".to_owned(),
        driver: "fdpass-gen".to_owned(),
        spec: spec::STREAMS.clone(),
        phases: None,
        started_at: "2026-01-31T12:00:00.250Z".to_owned(),
        wall_s: 3.125,
        plan: serde_json::json!({ "groups": [{ "name": "streams", "clients": 1000 }], "timeline": { "measure_s": 3.0 } }),
        plan_sentence: "1,000 streams, begun evenly over 2.5 s, each of 18 events 5 ms apart; a stream may take 120 s, the drain phase 10 s"
            .to_owned(),
        commands: vec!["fdpass-gen --daemon rust-streaming --connections 1000 --set 'level=\"1000\"'".to_owned()],
        level: "1000".to_owned(),
        daemon: DaemonInfo {
            name: "rust-streaming".to_owned(),
            about: Some("Tokio, streams due at one tick share a timer".to_owned()),
            version: Some("streaming-daemon 0.1.0".to_owned()),
            target: "/tmp/drover/streaming.sock".to_owned(),
            instances: 1,
            metrics: vec!["http://127.0.0.1:9090/metrics".to_owned()],
            process: None,
            program_sha256: None,
        },
        machine: machine(),
        processes: 1,
        threads: 2,
        isolation: Isolation::default(),
        cpu_samples: named(&[]),
        calibration: None,
        verdict: verdict(&warnings),
        warnings,
        operations: Operations { started: 1_000, ok: 995, failed: 3, unfinished: 2, missed: 0, peak_active: 84 },
        throughput: None,
        counts: named(&[("bytes", 995 * 1_226), ("events", 995 * 18), ("ok", 995), ("started", 1_000), ("unfinished", 2)]),
        errors: named(&[("rejected", 2), ("reset", 1)]),
        series: series(),
        lag: SeriesResult::from_distribution("lag", &whole("lag")),
        seconds: vec![second(0, 400, 396, &[]), second(1, 400, 402, &[("rejected", 2)]), second(2, 200, 197, &[("reset", 1)])],
        services: Vec::new(),
        usage: Usage { daemon: Some(usage(4_096, 4_640, 0.12)), driver: Some(usage(9_000, 11_048, 0.03)), ..Usage::default() },
        resources: Vec::new(),
        thresholds: Vec::new(),
        faults: Vec::new(),
        answer: None,
        imported: None,
        audit_inputs: AuditInputs::default(),
        part: None,
        shards: Vec::new(),
    }
}

/// Records `count` values, `step` apart starting at `from`, in nanoseconds.
pub(crate) fn spread(count: u64, from: u64, step: u64) -> Distribution {
    let mut values = Distribution::default();
    (0..count).for_each(|place| values.record(from + place * step));
    values
}

/// Splits a series into seconds that add up to the whole.
fn parts(name: &str) -> [Distribution; 3] {
    let counts = [396, 402, 197];
    match name {
        "lag" => [400, 400, 200].map(|count| spread(count, 2_000, 55)),
        "handoff" => counts.map(|count| spread(count, 9_000, 35)),
        "first_byte" => counts.map(|count| spread(count, 20_000, 900)),
        _ => counts.map(|count| spread(count, 85_000_000, 12_000)),
    }
}

fn whole(name: &str) -> Distribution {
    let mut whole = Distribution::default();
    parts(name).iter().for_each(|part| whole.merge(part));
    whole
}

fn series() -> Vec<SeriesResult> {
    let of = |name| SeriesResult::from_distribution(name, &whole(name));
    ["handoff", "first_byte", "stream"]
        .into_iter()
        .filter_map(of)
        .collect()
}

fn second(second: u64, started: u64, ok: u64, errors: &[(&str, u64)]) -> Second {
    let of = |name: &str| SecondSeries::from_distribution(name, &parts(name)[second as usize]);
    Second {
        second,
        active: [4, 0, 2][second as usize],
        active_peak: [40, 84, 20][second as usize],
        active_mean: None,
        counts: named(&[
            ("bytes", ok * 1_226),
            ("events", ok * 18),
            ("ok", ok),
            ("started", started),
        ]),
        errors: named(errors),
        series: ["handoff", "first_byte", "stream", "lag"]
            .into_iter()
            .filter_map(of)
            .collect(),
        ..Second::default()
    }
}

fn named(counts: &[(&str, u64)]) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

fn usage(baseline: u64, peak: u64, cpu_s: f64) -> UsageSummary {
    UsageSummary {
        samples: 4,
        rss_baseline_kb: baseline,
        rss_peak_kb: peak,
        user_s: cpu_s / 4.0,
        system_s: cpu_s * 3.0 / 4.0,
        cpu_avg_pct: cpu_s * 100.0 / 3.0,
        cpu_peak_pct: cpu_s * 50.0,
        threads_peak: 3,
        fds_peak: 97,
        voluntary_switches: 5_210,
        involuntary_switches: 31,
        processes_peak: 1,
        backlog_peak: None,
        gauges_peak: [("daemon_active_streams".to_owned(), 84.0)].into(),
        ..UsageSummary::default()
    }
}

fn machine() -> Machine {
    Machine {
        hostname: "bench-1".to_owned(),
        os: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        kernel: "6.1.0-28-amd64".to_owned(),
        kernel_command_line: Some("ro quiet".to_owned()),
        cpu_model: Some("AMD EPYC 7763".to_owned()),
        cpus: 2,
        smt: Some(false),
        governor: Some("performance".to_owned()),
        clocksource: Some("tsc".to_owned()),
        virtualization: Some("kvm".to_owned()),
        memory_bytes: 8 << 30,
        transparent_huge_pages: Some("madvise".to_owned()),
        load1: Some(0.08),
        nofile_soft: 20_000,
        nofile_hard: 20_000,
        fs_nr_open: Some(1_048_576),
        fs_file_max: Some(9_223_372_036_854_775_807),
        somaxconn: Some(4_096),
        max_map_count: Some(65_530),
        port_range: Some((32_768, 60_999)),
        cgroup_memory_bytes: Some(8 << 30),
        cgroup_cpus: Some(2.0),
        git_commit: Some("2562a1f0c4d5e6f708192a3b4c5d6e7f80912233".to_owned()),
        git_dirty: Some(true),
        build_profile: "release".to_owned(),
        version: "0.1.0".to_owned(),
        steal_pct: Some(0.1),
    }
}
