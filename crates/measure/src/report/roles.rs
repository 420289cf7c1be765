//! The meaning of the names that drivers give to series, counters and errors.

use crate::result::RunResult;
use crate::suite::Suite;

use super::text::plain;

/// The driver's own lateness, shown after its series.
pub(super) const LAG: &str = "lag";
/// Operations that a fault cost.
pub(super) const LOST: &str = "lost";
/// The rate of a driver whose operations are requests over connections that it holds.
const ANSWERS: &str = "answers";
/// Counters shown as rates.
const RATES: [&str; 5] = [ANSWERS, "published", "confirmed", "consumed", "churned"];
/// Byte counters, and the names of their rates.
const TRANSFERS: [(&str, &str); 2] = [("bytes", "MiB/s read"), ("bytes_sent", "MiB/s sent")];
/// Delivery errors of messages; they are also shown if they are 0.
const DELIVERY_ERRORS: [&str; 3] = ["lost", "duplicated", "out_of_order"];
/// Events that may happen to messages, connections and consumers.
const DELIVERY_EVENTS: [&str; 13] = [
    "redelivered",
    "nacked",
    "returned",
    "unconfirmed",
    "arrived_late",
    "given_back",
    "foreign",
    "cancelled",
    "blocked",
    "blocked_ms",
    "disconnects",
    "reconnects",
    "gap_ms",
];
/// The main series of streaming drivers.
const STREAMING: &[&str] = &["handoff", "take", "first_byte", "first_event"];
/// The main series of drivers that send requests.
const REQUESTS: &[&str] = &["response", "service"];
/// The series to show if only one is shown: the time to first byte, the end-to-end time of a message.
const HEADLINES: [&str; 2] = ["first_byte", "end_to_end"];
/// Counters that have their own columns, and one that is reported each second and has no sum.
const SHOWN_ELSEWHERE: [&str; 5] = ["started", "ok", "unfinished", "missed", "held"];

/// Returns the main series of these: those of streaming or of requests, otherwise all in the driver's order.
pub(super) fn main_series<'a>(all: Vec<&'a str>) -> Vec<&'a str> {
    let among = |names: &'static [&'static str]| -> Vec<&'a str> {
        let found = names.iter().filter(|name| all.contains(name));
        found.copied().collect()
    };
    let kinds = [STREAMING, REQUESTS].map(among);
    let found = kinds.into_iter().find(|found| !found.is_empty());
    found.unwrap_or(all)
}

/// Returns true if the series is the most important one of its driver.
pub(super) fn is_headline(series: &str) -> bool {
    HEADLINES.contains(&series)
}

/// Returns the display name of a series; `first_byte` is shown as TTFB.
pub(super) fn series_label(series: &str) -> String {
    match series {
        "first_byte" => "TTFB".to_owned(),
        other => plain(other),
    }
}

/// Returns the definition of a series that readers may know by another name or meaning.
pub(super) fn definition(series: &str) -> Option<&'static str> {
    match series {
        "first_byte" => Some(
            "TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.",
        ),
        "response" => Some(
            "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
        ),
        _ => None,
    }
}

/// Returns the counters that are rates and that some run counted.
pub(super) fn rates(suite: &Suite) -> Vec<&'static str> {
    let counted = |name: &&str| any(suite, |run| run.count(name) > 0);
    RATES.into_iter().filter(counted).collect()
}

/// Returns the byte counters that some run counted, with the heads of their rates in MiB per second.
pub(super) fn transfers(suite: &Suite) -> Vec<(&'static str, &'static str)> {
    let counted = |(name, _): &(&str, &str)| any(suite, |run| run.count(name) > 0);
    TRANSFERS.into_iter().filter(counted).collect()
}

/// Returns true if a rate is compared with that of the first daemon.
pub(super) fn is_compared(rate: &str) -> bool {
    rate != "confirmed"
}

/// Returns true if the operations are messages: they do not hold connections, and memory is that of the backlog.
pub(super) fn has_messages(suite: &Suite) -> bool {
    rates(suite).iter().any(|name| *name != ANSWERS)
}

/// Returns the counters of delivery errors that some run has, and of events that some run counted.
pub(super) fn delivery(suite: &Suite) -> Vec<&'static str> {
    let known = |name: &&str| any(suite, |run| run.counts.contains_key(*name));
    let counted = |name: &&str| any(suite, |run| run.count(name) > 0);
    let errors = DELIVERY_ERRORS.into_iter().filter(known);
    let events = DELIVERY_EVENTS.into_iter().filter(counted);
    errors.chain(events).collect()
}

/// Returns true if some run counted the connections that it opened.
pub(super) fn holds_connections(suite: &Suite) -> bool {
    any(suite, |run| run.count("opened") > 0)
}

/// Returns the counter of what was repeated after faults: connections, or operations.
pub(super) fn repeated_counter<'a>(mut runs: impl Iterator<Item = &'a RunResult>) -> &'static str {
    if runs.any(|run| run.count("reconnects") > 0) {
        "reconnects"
    } else {
        "retries"
    }
}

/// Returns true if a counter is not shown elsewhere.
pub(super) fn is_further_counter(name: &str) -> bool {
    !SHOWN_ELSEWHERE.contains(&name)
}

/// Returns true if a counter counts bytes.
pub(super) fn counts_bytes(name: &str) -> bool {
    name.ends_with("bytes") || name.starts_with("bytes_")
}

fn any(suite: &Suite, holds: impl Fn(&RunResult) -> bool) -> bool {
    suite.results.iter().any(holds)
}
