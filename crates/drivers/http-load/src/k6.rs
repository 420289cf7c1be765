//! Translation of thresholds from k6's syntax.
//!
//! | k6 | here |
//! | --- | --- |
//! | `http_req_duration`, also `{expected_response:true}` | `service`: sending, waiting and receiving. Unexpected responses are failures here and have no time |
//! | `http_req_blocked`, `_sending`, `_waiting`, `_receiving` | the series of that name, which are then measured |
//! | `http_req_connecting`, `http_req_tls_handshaking` | `connecting`, `tls`: of the connections that were opened; k6 records 0 for each request over an existing connection |
//! | `iteration_duration` | `response`, from the intended start |
//! | `http_req_failed` | `errors.rate` |
//! | `errors`, the rate that k6 scripts increment if a check fails | `checks.errors`: requests that failed or failed a check, as a share of all started |
//! | `checks` | `checks`: checks that passed, as a share of all evaluated |
//! | `http_reqs`, `iterations` | `started` as a count, `rate` per second: successful requests |
//! | `dropped_iterations` | `missed` |
//! | `data_received`, `data_sent` | `counts.bytes`, `counts.bytes_sent` |
//!
//! If redirects are followed (`--follow`), k6 counts and times each hop as a request, but here they are one request:
//! `http_reqs`, `http_req_duration` and `http_req_failed` apply to the whole chain, `http_req_sending`, `_waiting` and
//! `_receiving` to each hop.
//!
//! Times are in milliseconds, as in k6, and shares between 0 and 1.

use self::Kind::{Counter, Rate, Trend};

/// A kind of metric, with the corresponding figures of this project.
pub(crate) enum Kind {
    /// A series.
    Trend(&'static str),
    /// A figure in percent.
    Rate(&'static str),
    /// A count, and the rate per second.
    Counter(&'static str, Option<&'static str>),
}

/// k6's metrics.
pub(crate) const METRICS: [(&str, Kind); 16] = [
    ("http_req_duration", Trend("service")),
    ("http_req_blocked", Trend("blocked")),
    ("http_req_connecting", Trend("connecting")),
    ("http_req_tls_handshaking", Trend("tls")),
    ("http_req_sending", Trend("sending")),
    ("http_req_waiting", Trend("waiting")),
    ("http_req_receiving", Trend("receiving")),
    ("iteration_duration", Trend("response")),
    ("http_req_failed", Rate("errors.rate")),
    ("errors", Rate("checks.errors")),
    ("checks", Rate("checks")),
    ("http_reqs", Counter("started", Some("rate"))),
    ("iterations", Counter("started", Some("rate"))),
    ("dropped_iterations", Counter("missed", None)),
    ("data_received", Counter("counts.bytes", None)),
    ("data_sent", Counter("counts.bytes_sent", None)),
];
/// Longer operators first: `<=` begins with `<`. The third sign of JavaScript's has no meaning here.
const OPERATORS: [&str; 8] = ["===", "!==", "<=", ">=", "==", "!=", "<", ">"];
/// The only tag that makes no difference here.
const EXPECTED: &str = "{expected_response:true}";

/// Returns a threshold in the project's syntax, whichever syntax it has. k6's has a colon after the metric.
pub(crate) fn threshold(text: &str) -> Result<String, String> {
    // A tag has a colon of its own.
    let colon = match text.find(EXPECTED) {
        Some(tag) => text[tag + EXPECTED.len()..]
            .find(':')
            .map(|index| tag + EXPECTED.len() + index),
        None => text.find(':'),
    };
    let operator = text.find(['<', '>', '=', '!']).unwrap_or(text.len());
    let Some(colon) = colon.filter(|colon| *colon < operator) else {
        return Ok(text.to_owned());
    };
    let metric = text[..colon].trim();
    let metric = metric.strip_suffix(EXPECTED).unwrap_or(metric).trim();
    translate(metric, text[colon + 1..].trim()).map_err(|problem| format!("`{text}`: {problem}"))
}

fn translate(metric: &str, condition: &str) -> Result<String, String> {
    let index = condition.find(['<', '>', '=', '!']);
    let (statistic, rest) = condition.split_at(index.unwrap_or(condition.len()));
    let statistic = statistic.trim();
    let mut operators = OPERATORS.iter();
    let sign = operators.find(|sign| rest.starts_with(**sign));
    let sign = sign.ok_or("has no operator: write it as http_req_duration: p(95)<5")?;
    let operator = &sign[..sign.len().min(2)];
    let bound = rest[sign.len()..].trim();
    let number: f64 = bound.parse().map_err(|_| {
        format!(
            "`{bound}` is not a number: write milliseconds, a share between 0 and 1, or a count"
        )
    })?;
    let figure = |figure: &str, bound: String| Ok(format!("{figure} {operator} {bound}"));
    let known = |names: &str| Err(format!("`{metric}` has no `{statistic}`: use {names}"));
    let Some((_, kind)) = METRICS.iter().find(|(name, _)| *name == metric) else {
        let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        return Err(format!("there is no metric `{metric}`: use one of {names}"));
    };
    match (kind, statistic) {
        (Trend(series), "count") => figure(&format!("{series}.count"), plain(number)),
        (Trend(series), _) => match trend(statistic) {
            Some(statistic) => {
                let bound = format!("{}ms", plain(number));
                figure(&format!("{series}.{statistic}"), bound)
            }
            None => known("avg, min, med, max, count or p(N), as in p(95)"),
        },
        (Rate(share), "rate") => figure(share, format!("{}%", plain(100.0 * number))),
        (Rate(_), _) => known("rate"),
        (Counter(count, _), "count") => figure(count, plain(number)),
        (Counter(_, Some(rate)), "rate") => figure(rate, plain(number)),
        (Counter(_, Some(_)), _) => known("count or rate"),
        (Counter(_, None), _) => known("count"),
    }
}

/// Returns the project's name of a trend's statistic.
fn trend(statistic: &str) -> Option<String> {
    match statistic {
        "avg" => Some("mean".to_owned()),
        "med" => Some("p50".to_owned()),
        "min" | "max" => Some(statistic.to_owned()),
        _ => {
            let percentile = statistic.strip_prefix("p(")?.strip_suffix(')')?.trim();
            let number: f64 = percentile.parse().ok()?;
            (0.0..=100.0).contains(&number).then(|| match number {
                0.0 => "min".to_owned(),
                100.0 => "max".to_owned(),
                _ => format!("p{}", plain(number)),
            })
        }
    }
}

/// Formats a number without floating-point noise.
fn plain(number: f64) -> String {
    format!("{}", (number * 1e9).round() / 1e9)
}

/// Returns true if a threshold in the project's syntax uses a phase that is measured only on request.
pub(crate) fn uses_phase(threshold: &str) -> bool {
    let series = threshold.trim_start().split('.').next().unwrap_or_default();
    matches!(series, "blocked" | "sending" | "waiting" | "receiving")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_in_k6_s_spelling_become_ours() {
        for (typed, ours) in [
            ("http_req_duration: p(50)<1", "service.p50 < 1ms"),
            (
                "http_req_duration:p(99.9) <= 0.75",
                "service.p99.9 <= 0.75ms",
            ),
            (
                "http_req_duration{expected_response:true}: med<2",
                "service.p50 < 2ms",
            ),
            ("http_req_waiting: avg<200", "waiting.mean < 200ms"),
            ("http_req_tls_handshaking: p(0)>1", "tls.min > 1ms"),
            ("http_req_connecting: max<=20", "connecting.max <= 20ms"),
            ("http_req_failed: rate<0.01", "errors.rate < 1%"),
            ("http_req_failed: rate<0.07", "errors.rate < 7%"),
            ("errors: rate<0.1", "checks.errors < 10%"),
            ("checks: rate>0.9", "checks > 90%"),
            ("checks: rate===1", "checks == 100%"),
            ("http_reqs: count>1000", "started > 1000"),
            ("iterations: rate>100", "rate > 100"),
            ("dropped_iterations: count==0", "missed == 0"),
            ("data_received: count>=1024", "counts.bytes >= 1024"),
            ("http_req_duration: p(97.5)<1", "service.p97.5 < 1ms"),
            // The project's own syntax is unchanged.
            ("response.p99 <= 50ms", "response.p99 <= 50ms"),
            ("errors == 0", "errors == 0"),
        ] {
            assert_eq!(threshold(typed).unwrap(), ours, "{typed}");
        }
    }

    #[test]
    fn wrong_thresholds_of_k6_are_refused_with_a_remedy() {
        for (typed, parts) in [
            (
                "http_req_size: p(95)<5",
                ["`http_req_size`", "http_req_waiting"],
            ),
            ("my_trend: avg<5", ["`my_trend`", "iteration_duration"]),
            ("http_req_duration: p95<5", ["`p95`", "p(95)"]),
            ("http_req_duration: p(101)<5", ["`p(101)`", "p(95)"]),
            ("http_req_duration: p(95)", ["operator", "p(95)<5"]),
            ("http_req_duration: p(95)<5ms", ["`5ms`", "milliseconds"]),
            ("checks: count>5", ["`count`", "use rate"]),
            (
                "http_req_duration{status:200}: p(95)<5",
                ["`http_req_duration{status`", "http_req_duration"],
            ),
        ] {
            let error = threshold(typed).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn every_metric_makes_a_threshold_that_is_read() {
        let statistics = ["avg<1", "rate<0.5", "count<1"];
        for (metric, _) in METRICS {
            let mut all = statistics
                .iter()
                .filter_map(|of| threshold(&format!("{metric}: {of}")).ok());
            assert!(all.all(|ours| {
                measure::threshold::Threshold::parse(&ours, &crate::spec::SPEC.series_names())
                    .is_ok()
            }));
            assert!(
                statistics
                    .iter()
                    .any(|of| threshold(&format!("{metric}: {of}")).is_ok())
            );
        }
    }
}
