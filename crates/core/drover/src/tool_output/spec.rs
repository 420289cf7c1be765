//! The specification of the other tools: the names that this project gives to their series and counters.

use std::borrow::Cow;

use measure::spec::CounterRole::{
    Answers, BodyBytes, BytesReceived, BytesSent, ChecksFailed, ChecksPassed,
};
use measure::spec::SeriesRole::{self, Headline, Main};
use measure::spec::{CounterSpec, OperationKind, SeriesSpec, Spec};

/// The specification of a tool that sends requests.
pub(super) static SPEC: Spec = Spec {
    operation: OperationKind::Request,
    series: Cow::Borrowed(&[
        SeriesSpec::with_note(
            "response",
            "response",
            Headline,
            "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
        ),
        SeriesSpec::new("service", Main),
        SeriesSpec::new("blocked", SeriesRole::Detail),
        SeriesSpec::new("connecting", SeriesRole::Detail),
        SeriesSpec::new("tls", SeriesRole::Detail),
        SeriesSpec::new("sending", SeriesRole::Detail),
        SeriesSpec::new("waiting", SeriesRole::Detail),
        SeriesSpec::new("receiving", SeriesRole::Detail),
    ]),
    counters: Cow::Borrowed(&[
        CounterSpec::new("answers", "answers", Answers),
        CounterSpec::new("bytes", "read", BytesReceived),
        CounterSpec::new("bytes_sent", "sent", BytesSent),
        CounterSpec::new("body_bytes", "body bytes", BodyBytes),
        CounterSpec::new("checks_passed", "checks passed", ChecksPassed),
        CounterSpec::new("checks_failed", "checks failed", ChecksFailed),
    ]),
    ..Spec::UNKNOWN
};
