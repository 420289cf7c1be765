//! Import of k6's end-of-test summary, in its three formats.
//!
//! Sources: real output of k6 1.8.1. `--summary-export` has `metrics.NAME.count`, and for a threshold whether it was
//! *crossed*. The data passed to `handleSummary` has `metrics.NAME.values.count`, and `{"ok": …}` for a threshold.
//! `--new-machine-readable-summary` has `results.metrics[].values`, percentiles without brackets and no thresholds.
//! Times are in milliseconds.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Rate, ThresholdResult, Times, ToolReport, length, to_count};

/// k6's trend metrics and this project's names of them.
const TRENDS: [(&str, &str); 6] = [
    ("http_req_blocked", "blocked"),
    ("http_req_connecting", "connecting"),
    ("http_req_tls_handshaking", "tls"),
    ("http_req_sending", "sending"),
    ("http_req_waiting", "waiting"),
    ("http_req_receiving", "receiving"),
];
const DURATION: &str = "http_req_duration";
const EXPECTED: &str = "http_req_duration{expected_response:true}";
/// Our names of the figures, and the names that they have in the formats.
const FIGURES: [(&str, &[&str]); 9] = [
    ("min", &["min"]),
    ("mean", &["avg"]),
    ("p50", &["med", "p(50)", "p50"]),
    ("p75", &["p(75)", "p75"]),
    ("p90", &["p(90)", "p90"]),
    ("p95", &["p(95)", "p95"]),
    ("p99", &["p(99)", "p99"]),
    ("p99.9", &["p(99.9)", "p99.9"]),
    ("max", &["max"]),
];
const COUNTERS: [(&str, &str); 3] = [
    ("data_received", "bytes"),
    ("data_sent", "bytes_sent"),
    ("iterations", "iterations"),
];

/// A metric in any of the formats.
#[derive(Debug)]
struct Metric<'a> {
    values: &'a Value,
    thresholds: Option<&'a Value>,
}

impl Metric<'_> {
    /// Returns the number under the first of these names that exists.
    fn number(&self, names: &[&str]) -> Option<f64> {
        names
            .iter()
            .find_map(|name| self.values.get(*name)?.as_f64())
    }

    fn count(&self, names: &[&str]) -> Option<u64> {
        to_count(self.number(names)?)
    }
}

/// The metrics of a file, by name.
type Metrics<'a> = BTreeMap<&'a str, Metric<'a>>;

/// Returns the number under the first of these names that a metric has, if it is a count.
fn count_of(metrics: &Metrics<'_>, metric: &str, names: &[&str]) -> Option<u64> {
    metrics.get(metric)?.count(names)
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Export,
    Handled,
    Readable,
}

pub(super) fn read(text: &Value) -> Result<ToolReport, String> {
    let (shape, metrics) = metrics(text)?;
    let requests = metrics.get("http_reqs").ok_or(
        "expected the metric `http_reqs`: use the summary of a test that makes HTTP requests",
    )?;
    let total = requests
        .count(&["count"])
        .ok_or("expected a count in `http_reqs`")?;
    let failed = failed(&metrics, shape)?;
    let mut run = ToolReport {
        driver: "k6",
        version: text["metadata"]["k6_version"].as_str().unwrap_or_default().to_owned(),
        wall_s: wall_s(text, requests).ok_or(
            "expected the length of the test: `state.testRunDurationMs`, `config.duration` or a rate in `http_reqs`",
        )?,
        missed: count_of(&metrics, "dropped_iterations", &["count"]).unwrap_or(0),
        thresholds: thresholds(&metrics),
        ..ToolReport::default()
    };
    run.ok = total
        .checked_sub(failed.unwrap_or(0))
        .ok_or("`http_req_failed` counts more requests than `http_reqs`: check whether the file was edited")?;
    run.fail("unspecified", failed.unwrap_or(0));
    run.sentence = "its script".to_owned();
    users(&metrics, &mut run);
    counted(&metrics, shape, &mut run);
    add_pitfalls(&metrics, total, failed, &mut run);
    times(&metrics, total, &mut run);
    Ok(run)
}

/// Returns the metrics by name, and their format.
fn metrics(text: &Value) -> Result<(Shape, Metrics<'_>), String> {
    if let Some(listed) = text["results"]["metrics"].as_array() {
        let named = listed.iter().filter_map(|metric| {
            let values = metric.get("values")?;
            let thresholds = metric.get("thresholds");
            Some((metric["name"].as_str()?, Metric { values, thresholds }))
        });
        return Ok((Shape::Readable, named.collect()));
    }
    let metrics = text["metrics"]
        .as_object()
        .ok_or("expected `metrics` with one object for each metric")?;
    let handled = metrics
        .values()
        .any(|metric| metric.get("values").is_some());
    let shape = if handled {
        Shape::Handled
    } else {
        Shape::Export
    };
    let named = metrics.iter().map(|(name, metric)| {
        let values = metric.get("values").unwrap_or(metric);
        let thresholds = metric.get("thresholds");
        (name.as_str(), Metric { values, thresholds })
    });
    Ok((shape, named.collect()))
}

/// Returns the duration in seconds: as stated, or computed from a count and its rate, which k6 averages over the whole
/// test.
fn wall_s(text: &Value, requests: &Metric<'_>) -> Option<f64> {
    let stated = || {
        let handled = text["state"]["testRunDurationMs"].as_f64();
        handled
            .map(|ms| ms / 1e3)
            .or(text["config"]["duration"].as_f64())
    };
    let computed = || Some(requests.number(&["count"])? / requests.number(&["rate"])?);
    length(stated().or_else(computed)?)
}

/// Returns the requests that k6 counts as failed, or `None` if the script disabled that metric.
fn failed(metrics: &Metrics<'_>, shape: Shape) -> Result<Option<u64>, String> {
    let Some(metric) = metrics.get("http_req_failed") else {
        return Ok(None);
    };
    let count = metric.count(&[true_count_field(shape)]);
    count.map(Some).ok_or_else(|| {
        format!(
            "expected a count `{}` in `http_req_failed`",
            true_count_field(shape)
        )
    })
}

/// Returns the field name that a rate uses for its true samples.
fn true_count_field(shape: Shape) -> &'static str {
    match shape {
        Shape::Export | Shape::Handled => "passes",
        Shape::Readable => "matches",
    }
}

fn users(metrics: &Metrics<'_>, run: &mut ToolReport) {
    if let Some(users) = count_of(metrics, "vus_max", &["max", "value"]) {
        run.level = users.to_string();
        run.plan.insert("users_max", json!(users));
        run.sentence = format!("its script with up to {users} users");
    }
}

fn counted(metrics: &Metrics<'_>, shape: Shape, run: &mut ToolReport) {
    for (theirs, ours) in COUNTERS {
        let Some(metric) = metrics.get(theirs) else {
            continue;
        };
        run.count(ours, metric.number(&["count"]));
    }
    for name in ["http_reqs", "data_received", "data_sent", "iterations"] {
        let rate = metrics.get(name).and_then(|metric| {
            let (stated, count) = (metric.number(&["rate"])?, metric.count(&["count"])?);
            Some(Rate {
                name,
                stated,
                count,
            })
        });
        run.rates.extend(rate);
    }
    let (metric, name) = match shape {
        Shape::Readable => ("checks_failed", "matches"),
        Shape::Export | Shape::Handled => ("checks", "fails"),
    };
    let failed = metrics
        .get(metric)
        .and_then(|metric| metric.number(&[name]));
    run.count("checks_failed", failed);
}

/// Returns k6's own threshold outcomes. In the format of `--summary-export`, true means crossed.
fn thresholds(metrics: &Metrics<'_>) -> Vec<ThresholdResult> {
    let mut judged = Vec::new();
    for (name, metric) in metrics {
        for (text, outcome) in metric
            .thresholds
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let crossed = outcome.as_bool();
            let Some(met) = outcome["ok"].as_bool().or(crossed.map(|crossed| !crossed)) else {
                continue;
            };
            let figure = text
                .split(['<', '>', '=', '!'])
                .next()
                .unwrap_or_default()
                .trim();
            let names: &[&str] = if figure == "rate" {
                &["rate", "value"]
            } else {
                &[figure]
            };
            judged.push(ThresholdResult {
                text: format!("{name}: {text}"),
                measured: metric.number(names).map(|number| measured(name, number)),
                met,
            });
        }
    }
    judged
}

/// Formats a figure of a metric, with its unit if it is known to be a time.
fn measured(metric: &str, number: f64) -> String {
    let name = metric.split('{').next().unwrap_or(metric);
    let is_time = TRENDS.iter().any(|(theirs, _)| *theirs == name)
        || [DURATION, "iteration_duration"].contains(&name);
    if is_time {
        format!("{number:.3} ms")
    } else {
        number.to_string()
    }
}

fn add_pitfalls(metrics: &Metrics<'_>, total: u64, failed: Option<u64>, run: &mut ToolReport) {
    let pitfalls = &mut run.pitfalls;
    pitfalls.push(
        "k6's times for connecting and TLS are 0 for requests on a connection that was already open"
            .to_owned(),
    );
    match failed {
        None => pitfalls.push("the script disabled the metric `http_req_failed`, so all requests count as ok".to_owned()),
        Some(0) => {}
        Some(_) => pitfalls.push("k6 does not report why requests failed, and gives a request without an answer a time of 0".to_owned()),
    }
    let judged = metrics.get("http_req_failed").map_or(total, |metric| {
        let both = || Some(metric.count(&["passes"])? + metric.count(&["fails"])?);
        metric.count(&["total"]).or_else(both).unwrap_or(total)
    });
    if judged < total {
        pitfalls.push(format!(
            "`http_req_failed` covers {judged} of {total} requests, and the others count as ok"
        ));
    }
    for (name, metric) in metrics {
        // `check(…) || rate.add(1)` adds nothing for a check that passes.
        let builtin = [
            "checks",
            "http_req_failed",
            "checks_failed",
            "checks_succeeded",
        ];
        let all_true = metric.number(&["value", "rate"]) == Some(1.0);
        let trues = metric.count(&["passes", "matches"]);
        if all_true
            && trues.is_some_and(|trues| trues > 0 && trues < run.ok)
            && !builtin.contains(name)
        {
            pitfalls.push(format!("the rate `{name}` only received true values, so its 100 % is not a share of the requests"));
        }
    }
}

fn times(metrics: &Metrics<'_>, total: u64, run: &mut ToolReport) {
    let failed = total > run.ok;
    let expected = metrics.get(EXPECTED).filter(|_| failed);
    let of = match (failed, expected) {
        (false, _) => "all requests",
        (true, Some(_)) => "successful requests (`expected_response:true`)",
        (true, None) => "all requests, including failed ones",
    };
    run.times =
        format!("service time (sending, waiting, receiving) of {of}, not from the intended start");
    if total == 0 {
        return;
    }
    let service = expected.or_else(|| metrics.get(DURATION));
    let phases = TRENDS
        .into_iter()
        .map(|(theirs, ours)| (metrics.get(theirs), ours));
    run.series = [(service, "service")]
        .into_iter()
        .chain(phases)
        .filter_map(|(metric, name)| Some((metric?, name)))
        // A phase that is 0 throughout did not happen, or its requests got no answer.
        .filter(|(metric, _)| metric.number(&["max"]).is_none_or(|most| most > 0.0))
        .map(|(metric, name)| times_of(metric, name))
        .collect();
}

fn times_of(metric: &Metric<'_>, name: &'static str) -> Times {
    let figures = FIGURES.into_iter();
    let figures = figures.filter_map(|(ours, theirs)| Some((ours, metric.number(theirs)? / 1e3)));
    Times {
        name,
        count: metric.count(&["count"]),
        figures: figures.collect(),
    }
}
