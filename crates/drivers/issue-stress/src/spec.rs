//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Failure, Fault};
use measure::spec::SeriesRole::{Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};
use measure::tally::Series;

use crate::outcome::{self, count};

/// The specification of the driver. Its workers share one account of what was written, so they run in one process.
pub(crate) static SPEC: Spec = Spec {
    driver: Cow::Borrowed("issue-stress"),
    protocol: Cow::Borrowed("issue"),
    operation: OperationKind::Request,
    single_process: true,
    open_gauge: Some(Cow::Borrowed("issue_daemon_connections")),
    peak_gauge: None,
    series: Cow::Borrowed(SERIES),
    errors: Cow::Borrowed(ERRORS),
    counters: Cow::Borrowed(count::COUNTERS),
};

/// Time from the intended start of an operation of a scenario to the last of its answers.
pub(crate) const OPERATION: Series = Series(0);
/// Time from sending a `create` to its answer; the others are times of the operations of their names.
pub(crate) const CREATE: Series = Series(1);
pub(crate) const UPDATE: Series = Series(2);
pub(crate) const SHOW: Series = Series(3);
pub(crate) const LIST: Series = Series(4);
pub(crate) const READY: Series = Series(5);
pub(crate) const BATCH: Series = Series(6);
pub(crate) const PING: Series = Series(7);
pub(crate) const CLAIM: Series = Series(8);
/// Time to write a page and sync it, on the driver's own file after the load.
pub(crate) const SYNC: Series = Series(9);

const SERIES: &[SeriesSpec] = &[
    SeriesSpec::with_note(
        "operation",
        "operation",
        Headline,
        "The time of an operation is measured from the instant at which it was due to the last of its answers; the times of create, update, show, list, ready, batch, ping and claim from sending the request to its answer.",
    ),
    SeriesSpec::new("create", Main),
    SeriesSpec::new("update", Main),
    SeriesSpec::new("show", Main),
    SeriesSpec::new("list", Main),
    SeriesSpec::new("ready", Main),
    SeriesSpec::new("batch", Main),
    SeriesSpec::new("ping", Main),
    SeriesSpec::new("claim", Main),
    SeriesSpec::with_note(
        "sync",
        "sync",
        Main,
        "A sync writes 4 KiB in place to a file of the driver in the folder for temporary files, and syncs it: a probe of the disk after the load.",
    ),
];

/// The kinds of failures. A daemon that was stopped or started again causes the faults among them.
const ERRORS: &[ErrorSpec] = &[
    ErrorSpec::new(outcome::REFUSED, Failure),
    ErrorSpec::new(outcome::BUSY, Failure),
    ErrorSpec::new(outcome::TIMEOUT, Fault),
    ErrorSpec::new(outcome::CONNECT, Fault),
    ErrorSpec::loss(outcome::CONNECTION_LOST, Fault),
    ErrorSpec::new(outcome::MALFORMED, Failure),
    ErrorSpec::new(outcome::FOREIGN_ANSWER, Failure),
    ErrorSpec::new(outcome::WRONG_ANSWER, Failure),
    ErrorSpec::new(outcome::DESCRIPTORS, Exhausted),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indices_are_those_of_the_specification() {
        for (series, name) in [
            (OPERATION, "operation"),
            (CREATE, "create"),
            (UPDATE, "update"),
            (SHOW, "show"),
            (LIST, "list"),
            (READY, "ready"),
            (BATCH, "batch"),
            (PING, "ping"),
            (CLAIM, "claim"),
            (SYNC, "sync"),
        ] {
            assert_eq!(SPEC.series[series.0].name, name);
        }
    }

    #[test]
    fn every_outcome_is_specified() {
        for kind in outcome::ALL {
            assert!(SPEC.errors.iter().any(|error| error.name == kind), "{kind}");
        }
    }
}
