//! The specification of the driver: its series, errors and counters.

use std::borrow::Cow;

use measure::spec::ErrorCause::{Exhausted, Failure, Fault};
use measure::spec::SeriesRole::{Headline, Main};
use measure::spec::{ErrorSpec, OperationKind, SeriesSpec, Spec};

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

measure::series! {
    /// Time from the intended start of an operation of a scenario to the last of its answers.
    OPERATION = SeriesSpec::with_note(
        "operation",
        "operation",
        Headline,
        "The time of an operation is measured from the instant at which it was due to the last of its answers; the times of create, update, show, list, ready, batch, ping and claim from sending the request to its answer.",
    );
    /// Time from sending a `create` to its answer; the others are times of the operations of their names.
    CREATE = SeriesSpec::new("create", Main);
    UPDATE = SeriesSpec::new("update", Main);
    SHOW = SeriesSpec::new("show", Main);
    LIST = SeriesSpec::new("list", Main);
    READY = SeriesSpec::new("ready", Main);
    BATCH = SeriesSpec::new("batch", Main);
    PING = SeriesSpec::new("ping", Main);
    CLAIM = SeriesSpec::new("claim", Main);
    /// Time to write a page and sync it, on the driver's own file after the load.
    SYNC = SeriesSpec::with_note(
        "sync",
        "sync",
        Main,
        "A sync writes 4 KiB in place to a file of the driver in the folder for temporary files, and syncs it: a probe of the disk after the load.",
    );
}

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
    fn every_outcome_is_specified() {
        for kind in outcome::ALL {
            assert!(SPEC.errors.iter().any(|error| error.name == kind), "{kind}");
        }
    }
}
