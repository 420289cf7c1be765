//! Import of oha's JSON (`--output-format json`, in older versions `--json` or `-j`). Times are in seconds.
//!
//! Sources: real output of oha 1.16.0, and its `printer.rs` and `result_data.rs`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Rate, Times, ToolReport, length, to_count};

const TIMES: &str = "service time of all answers of any status, not from the intended start unless \
    --latency-correction was given, which oha does not say";
const PERCENTILES: [&str; 6] = ["p50", "p75", "p90", "p95", "p99", "p99.9"];
/// oha's text for a request that its deadline aborted.
const DEADLINE: &str = "aborted due to deadline";

/// The fields that are read. `null` means that a figure was not measured.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    summary: Summary,
    #[serde(default)]
    latency_percentiles: BTreeMap<String, Option<f64>>,
    #[serde(default)]
    first_byte_percentiles: BTreeMap<String, Option<f64>>,
    #[serde(default)]
    details: Value,
    status_code_distribution: BTreeMap<String, f64>,
    error_distribution: BTreeMap<String, f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    success_rate: Option<f64>,
    total: f64,
    slowest: Option<f64>,
    fastest: Option<f64>,
    average: Option<f64>,
    total_data: Option<f64>,
    requests_per_sec: Option<f64>,
    size_per_sec: Option<f64>,
}

pub(super) fn read(text: &Value) -> Result<ToolReport, String> {
    let report = Report::deserialize(text).map_err(|error| format!("{error}"))?;
    let mut run = ToolReport {
        driver: "oha",
        wall_s: report.summary.total,
        sentence: "its output does not describe the load".to_owned(),
        times: TIMES.to_owned(),
        ..ToolReport::default()
    };
    let problem = || format!("`summary.total` is {}, not the length of a run", run.wall_s);
    length(run.wall_s).ok_or_else(problem)?;
    let answers = statuses(&report, &mut run)?;
    run.counts.insert("answers".to_owned(), answers);
    errors(&report, &mut run)?;
    add_pitfalls(&report, &mut run);
    let summary = &report.summary;
    run.count("body_bytes", summary.total_data);
    let bytes = run.counts.get("body_bytes").copied();
    for (name, stated, count) in [
        (
            "requestsPerSec",
            summary.requests_per_sec,
            Some(run.started()),
        ),
        ("sizePerSec", summary.size_per_sec, bytes),
    ] {
        let rate = stated.zip(count).map(|(stated, count)| Rate {
            name,
            stated,
            count,
        });
        run.rates.extend(rate);
    }
    let service = [summary.fastest, summary.slowest, summary.average];
    let first_byte =
        ["fastest", "slowest", "average"].map(|name| report.details["firstByte"][name].as_f64());
    run.series = vec![
        times("service", &report.latency_percentiles, answers, service),
        times("ttfb", &report.first_byte_percentiles, answers, first_byte),
    ];
    Ok(run)
}

/// Counts answers by status, and returns their total.
fn statuses(report: &Report, run: &mut ToolReport) -> Result<u64, String> {
    let mut answers: u64 = 0;
    for (status, number) in &report.status_code_distribution {
        let count = count("statusCodeDistribution", status, *number)?;
        answers = answers.saturating_add(count);
        let code: u16 = status.parse().map_err(|_| {
            format!("`statusCodeDistribution` has `{status}`, which is not a status code")
        })?;
        if (200..300).contains(&code) {
            run.ok += count;
        } else {
            run.fail("status", count);
        }
    }
    Ok(answers)
}

fn errors(report: &Report, run: &mut ToolReport) -> Result<(), String> {
    for (error, number) in &report.error_distribution {
        let count = count("errorDistribution", error, *number)?;
        if error == DEADLINE {
            run.unfinished = count;
        } else {
            run.fail(kind(error), count);
        }
    }
    Ok(())
}

/// Maps the text of an error of hyper or of the system to an error kind.
fn kind(error: &str) -> &'static str {
    const PARTS: [(&str, &str); 8] = [
        ("refused", "refused"),
        ("reset", "reset"),
        ("broken pipe", "reset"),
        ("closed", "early_close"),
        ("end of file", "early_close"),
        ("eof", "early_close"),
        ("timeout", "timeout"),
        ("timed out", "timeout"),
    ];
    let error = error.to_lowercase();
    let found = PARTS.into_iter().find(|(part, _)| error.contains(part));
    found.map_or("unspecified", |(_, kind)| kind)
}

/// Checks a count of a distribution. The limit prevents sums of many counts from overflowing.
fn count(distribution: &str, name: &str, number: f64) -> Result<u64, String> {
    let fits = to_count(number).filter(|count| *count < 1 << 40);
    fits.ok_or_else(|| format!("`{distribution}` has {number} for `{name}`, which is not a count"))
}

fn add_pitfalls(report: &Report, run: &mut ToolReport) {
    let other = run.errors.get("status").copied().unwrap_or(0);
    if other > 0 {
        let called = report.summary.success_rate.map_or(String::new(), |rate| {
            format!(": oha calls the run {:.2} % successful", rate * 100.0)
        });
        run.pitfalls.push(format!(
            "{other} answers have a status other than 2xx and count as failed here{called}"
        ));
    }
    if run.unfinished > 0 {
        run.pitfalls.push(
            "oha excludes requests aborted by its deadline from its success rate and percentiles, so a server that hangs looks fine"
                .to_owned(),
        );
    }
}

/// Returns the times of a series; only its name is set if nothing was measured.
fn times(
    name: &'static str,
    percentiles: &BTreeMap<String, Option<f64>>,
    answers: u64,
    [fastest, slowest, average]: [Option<f64>; 3],
) -> Times {
    let others = [("min", fastest), ("max", slowest), ("mean", average)];
    let figures = PERCENTILES
        .into_iter()
        .map(|name| (name, percentiles.get(name).copied().flatten()))
        .chain(others)
        .filter_map(|(name, seconds)| Some((name, seconds?)));
    let figures: BTreeMap<_, _> = figures.filter(|_| answers > 0).collect();
    Times {
        name,
        count: (!figures.is_empty()).then_some(answers),
        figures,
    }
}
