//! Summary in the format of wrk.

use std::fmt::Write as _;

use load::duration;

use super::{Run, size, time};
use crate::outcome::{self, count};
use crate::settings::open_loop;

/// The quantiles that wrk's `--latency` shows.
const QUANTILES: [(&str, f64); 4] = [("50%", 0.5), ("75%", 0.75), ("90%", 0.9), ("99%", 0.99)];
/// Kinds of failed connection attempts.
const CONNECT: [&str; 5] = [
    outcome::REFUSED,
    outcome::CONNECT_TIMEOUT,
    outcome::CONNECT,
    outcome::DESCRIPTORS,
    outcome::PORTS,
];
/// Kinds of redirects that were not followed.
const REDIRECTS: [&str; 3] = [
    outcome::REDIRECT_ELSEWHERE,
    outcome::TOO_MANY_REDIRECTS,
    outcome::REDIRECT_WITHOUT_LOCATION,
];

/// Renders the summary. `requests` are those answered in the measured time with any status; a redirected request counts
/// once. The latency is the response time, from the intended start if there is a rate.
pub(super) fn block(run: &Run<'_>) -> String {
    let result = run.result;
    let connections = if open_loop(&run.plan) {
        run.plan.driver.connections
    } else {
        run.plan.groups.iter().map(|group| group.clients).sum()
    };
    let mut text = format!(
        "Running {} test @ {}\n  {} threads and {connections} connections\n",
        duration::format(run.plan.timeline.measure),
        result.daemon.target,
        result.threads
    );
    let latency = result
        .series("response")
        .and_then(|of| of.distribution().ok());
    if let Some(latency) = latency {
        text.push_str("  Latency Distribution\n");
        for (name, quantile) in QUANTILES {
            let value = latency.quantile(quantile).unwrap_or(0);
            let _ = writeln!(text, "  {name:>6} {:>9}", time(value as f64));
        }
    }
    let throughput = &run.throughput;
    let answers = throughput
        .count(count::ANSWERS)
        .saturating_sub(throughput.count(count::REDIRECTS));
    let bytes = throughput.count(count::BYTES);
    let _ = writeln!(
        text,
        "  {answers} requests in {:.2}s, {} read",
        throughput.measured_s,
        size(bytes as f64, 1024.0, "")
    );
    events(run, &mut text);
    failures(run, &mut text);
    let _ = writeln!(text, "Requests/sec: {:>10.2}", run.per_second(answers));
    let transferred = size(run.per_second(bytes), 1024.0, "");
    let _ = write!(text, "Transfer/sec: {transferred:>10}");
    if let Some(headline) = result.overload() {
        let _ = write!(text, "\n{headline}");
    }
    text
}

/// Appends lines for the records of event streams, and for the tokens that their servers report, if there were any.
fn events(run: &Run<'_>, text: &mut String) {
    let count = |counter| run.throughput.count(counter);
    let (records, reads, tokens) = (
        count(count::EVENTS),
        count(count::EVENT_READS),
        count(count::TOKENS),
    );
    if records > 0 {
        let _ = writeln!(
            text,
            "  {records} records of event streams, {:.2} in each read, {:.2}/sec",
            records as f64 / reads.max(1) as f64,
            run.per_second(records)
        );
    }
    if tokens > 0 {
        let rate = run.per_second(tokens);
        let _ = writeln!(
            text,
            "  {tokens} tokens, as the server counts them, {rate:.2}/sec"
        );
    }
}

/// Appends lines for failures, if there were any.
fn failures(run: &Run<'_>, text: &mut String) {
    let of_responses: [(&str, &[&str]); 6] = [
        (
            if run.plan.driver.expect_status.is_empty() {
                "Non-2xx or 3xx responses"
            } else {
                "Responses with an unexpected status"
            },
            &[outcome::STATUS],
        ),
        ("Responses with an unexpected length", &[outcome::LENGTH]),
        ("Responses with an unexpected body", &[outcome::BODY]),
        ("Redirects that were not followed", &REDIRECTS),
        ("Event streams that failed", &outcome::OF_STREAMS),
        ("TLS errors", &[outcome::TLS]),
    ];
    let of_responses = of_responses.map(|(what, kinds)| (what, run.failed(kinds)));
    let connect = run.failed(&CONNECT);
    let timeout = run.failed(&[outcome::TIMEOUT]);
    let named: u64 = of_responses.iter().map(|(_, number)| number).sum();
    // The other failures are resets, early closes and invalid responses.
    let read = run.result.errors.values().sum::<u64>() - connect - timeout - named;
    if connect + read + timeout > 0 {
        let _ = writeln!(
            text,
            "  Socket errors: connect {connect}, read {read}, timeout {timeout}"
        );
    }
    for (what, number) in of_responses.iter().filter(|(_, number)| *number > 0) {
        let _ = writeln!(text, "  {what}: {number}");
    }
}
