//! Thresholds in k6's spelling, and what they mean here.
//!
//! | k6 | here |
//! | --- | --- |
//! | `http_req_duration`, also `{expected_response:true}` | `service`: sending, waiting and receiving. Answers that are not as they should be are failures here and have no time |
//! | `http_req_blocked`, `_sending`, `_waiting`, `_receiving` | the series of that name, which are measured then |
//! | `http_req_connecting`, `http_req_tls_handshaking` | `connecting`, `tls`: of the connections that were opened; k6 counts 0 for each request over one that was there |
//! | `iteration_duration` | `response`, from the intended start |
//! | `http_req_failed` | `errors.rate` |
//! | `errors`, the rate that k6's scripts add to where a check fails | `checks.errors`: requests that failed themselves or a check, of all that were started |
//! | `checks` | `checks`: those that passed, of all that were made |
//! | `http_reqs`, `iterations` | `started` as a count, `rate` a second: those that ended as they should |
//! | `dropped_iterations` | `missed` |
//! | `data_received`, `data_sent` | `counts.bytes`, `counts.bytes_sent` |
//!
//! Where redirects are followed (`--follow`), k6 counts and times each hop as a request, and here they are one: `http_reqs`,
//! `http_req_duration` and `http_req_failed` are of the whole, `http_req_sending`, `_waiting` and `_receiving` of each hop.
//!
//! Times are in milliseconds, as k6 has them, and shares between 0 and 1.

/// What k6 measures as a trend, and our series.
const TRENDS: [(&str, &str); 8] = [
    ("http_req_duration", "service"),
    ("http_req_blocked", "blocked"),
    ("http_req_connecting", "connecting"),
    ("http_req_tls_handshaking", "tls"),
    ("http_req_sending", "sending"),
    ("http_req_waiting", "waiting"),
    ("http_req_receiving", "receiving"),
    ("iteration_duration", "response"),
];
/// What k6 measures as a rate, and our figure in percent.
const RATES: [(&str, &str); 3] = [
    ("http_req_failed", "errors.rate"),
    ("errors", "checks.errors"),
    ("checks", "checks"),
];
/// What k6 counts, and our figures: how many, and how many a second.
const COUNTERS: [(&str, &str, Option<&str>); 5] = [
    ("http_reqs", "started", Some("rate")),
    ("iterations", "started", Some("rate")),
    ("dropped_iterations", "missed", None),
    ("data_received", "counts.bytes", None),
    ("data_sent", "counts.bytes_sent", None),
];
/// Longer ones first: `<=` begins with `<`.
const OPERATORS: [(&str, &str); 8] = [
    ("===", "=="),
    ("!==", "!="),
    ("<=", "<="),
    (">=", ">="),
    ("==", "=="),
    ("!=", "!="),
    ("<", "<"),
    (">", ">"),
];
/// The one tag that makes no difference here.
const EXPECTED: &str = "{expected_response:true}";

/// A threshold in our spelling, whichever it is in: k6's has a colon after its metric.
///
/// # Errors
/// What is wrong with one of k6's, and what can be written.
pub(crate) fn threshold(text: &str) -> Result<String, String> {
    // A tag has a colon of its own.
    let colon = match text.find(EXPECTED) {
        Some(tag) => text[tag + EXPECTED.len()..]
            .find(':')
            .map(|place| tag + EXPECTED.len() + place),
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
    let place = condition.find(['<', '>', '=', '!']);
    let (statistic, rest) = condition.split_at(place.unwrap_or(condition.len()));
    let statistic = statistic.trim();
    let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
    let (sign, operator) =
        operator.ok_or("has no operator: write it as http_req_duration: p(95)<5")?;
    let bound = rest[sign.len()..].trim();
    let number: f64 = bound.parse().map_err(|_| {
        format!("`{bound}` is no number: milliseconds, a share between 0 and 1, or a count")
    })?;
    let figure = |figure: &str, bound: String| Ok(format!("{figure} {operator} {bound}"));
    let known = |names: &str| Err(format!("`{metric}` has no `{statistic}`: take {names}"));
    if let Some((_, series)) = TRENDS.iter().find(|(name, _)| *name == metric) {
        return match trend(statistic).as_deref() {
            Some("count") => figure(&format!("{series}.count"), plain(number)),
            Some(statistic) => figure(
                &format!("{series}.{statistic}"),
                format!("{}ms", plain(number)),
            ),
            None => known("avg, min, med, max, count or p(N), as in p(95)"),
        };
    }
    if let Some((_, share)) = RATES.iter().find(|(name, _)| *name == metric) {
        return match statistic {
            "rate" => figure(share, format!("{}%", plain(100.0 * number))),
            _ => known("rate"),
        };
    }
    if let Some((_, count, rate)) = COUNTERS.iter().find(|(name, ..)| *name == metric) {
        return match (statistic, rate) {
            ("count", _) => figure(count, plain(number)),
            ("rate", Some(rate)) => figure(rate, plain(number)),
            (_, Some(_)) => known("count or rate"),
            (_, None) => known("count"),
        };
    }
    Err(format!(
        "there is no metric `{metric}`: take one of {}",
        metrics().join(", ")
    ))
}

/// Every metric of k6 that there is here.
fn metrics() -> Vec<&'static str> {
    let trends = TRENDS.iter().map(|(name, _)| *name);
    let rates = RATES.iter().map(|(name, _)| *name);
    trends
        .chain(rates)
        .chain(COUNTERS.iter().map(|(name, ..)| *name))
        .collect()
}

/// Our name of a trend's statistic.
fn trend(statistic: &str) -> Option<String> {
    match statistic {
        "avg" => Some("mean".to_owned()),
        "med" => Some("p50".to_owned()),
        "min" | "max" | "count" => Some(statistic.to_owned()),
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

/// A number without what floating point adds to it.
fn plain(number: f64) -> String {
    format!("{}", (number * 1e9).round() / 1e9)
}

/// Whether a threshold in our spelling is about a phase that is measured only where that is asked for.
pub(crate) fn is_of_a_phase(threshold: &str) -> bool {
    let series = threshold.trim_start().split('.').next().unwrap_or_default();
    matches!(series, "blocked" | "sending" | "waiting" | "receiving")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_k6_s_users_type_becomes_ours() {
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
            // Ours stays as it is.
            ("response.p99 <= 50ms", "response.p99 <= 50ms"),
            ("errors == 0", "errors == 0"),
        ] {
            assert_eq!(threshold(typed).unwrap(), ours, "{typed}");
        }
    }

    #[test]
    fn what_is_none_of_k6_s_says_what_there_is() {
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
            ("checks: count>5", ["`count`", "take rate"]),
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
        for metric in metrics() {
            let mut all = statistics
                .iter()
                .filter_map(|of| threshold(&format!("{metric}: {of}")).ok());
            assert!(all.all(|ours| {
                measure::threshold::Threshold::parse(&ours, crate::series::NAMES).is_ok()
            }));
            assert!(
                statistics
                    .iter()
                    .any(|of| threshold(&format!("{metric}: {of}")).is_ok())
            );
        }
    }
}
