//! Handmade specifications of drivers: of streams, of requests and of messages.

#![allow(dead_code, reason = "each test program that includes it uses its part")]

use std::borrow::Cow;

use measure::spec::CounterRole::{self, Answers, DependentRate, Rate};
use measure::spec::ErrorCause::{Expected, Failure, Fault};
use measure::spec::SeriesRole::{Detail, Headline, Main};
use measure::spec::{CounterSpec, ErrorSpec, OperationKind, SeriesSpec, Spec};

pub(crate) static STREAMS: Spec = Spec {
    driver: Cow::Borrowed("fdpass-gen"),
    protocol: Cow::Borrowed("fdpass"),
    operation: OperationKind::Connection,
    peak_gauge: Some(Cow::Borrowed("daemon_peak_streams")),
    series: Cow::Borrowed(&[
        SeriesSpec::new("connect", Detail),
        SeriesSpec::new("handoff", Main),
        SeriesSpec::new("take", Main),
        SeriesSpec::with_note(
            "first_byte",
            "TTFB",
            Headline,
            "TTFB is the series first_byte: from the end of the handoff to the first byte of the answer.",
        ),
        SeriesSpec::new("first_event", Main),
        SeriesSpec::new("gap", Detail),
        SeriesSpec::new("stream", Detail),
        SeriesSpec::new("drift", Detail),
    ]),
    errors: Cow::Borrowed(&[
        ErrorSpec::new("rejected", Failure),
        ErrorSpec::new("reset", Failure),
        ErrorSpec::loss("lost", Fault),
        ErrorSpec::new("aborted", Expected),
    ]),
    counters: Cow::Borrowed(&[
        CounterSpec::new("bytes", "read", CounterRole::BytesReceived),
        CounterSpec::new("retries", "retries", CounterRole::Retries),
        CounterSpec::new("warmup", "warm-up", CounterRole::Warmup),
    ]),
    ..Spec::UNKNOWN
};

pub(crate) static REQUESTS: Spec = Spec {
    driver: Cow::Borrowed("http-load"),
    protocol: Cow::Borrowed("http"),
    operation: OperationKind::Request,
    series: Cow::Borrowed(&[
        SeriesSpec::with_note(
            "response",
            "response",
            Headline,
            "The response time is measured from the instant a request was due, so it includes every delay by the driver and by earlier requests; the service time is measured from sending.",
        ),
        SeriesSpec::new("service", Main),
        SeriesSpec::new("connecting", Detail),
        SeriesSpec::new("sending", Detail),
        SeriesSpec::new("waiting", Detail),
        SeriesSpec::new("receiving", Detail),
    ]),
    counters: Cow::Borrowed(&[
        CounterSpec::new("answers", "answers", Answers),
        CounterSpec::new("bytes", "read", CounterRole::BytesReceived),
        CounterSpec::new("bytes_sent", "sent", CounterRole::BytesSent),
        CounterSpec::new("body_bytes", "body bytes", CounterRole::BodyBytes),
        CounterSpec::new(
            "expected_body_bytes",
            "expected body bytes",
            CounterRole::ExpectedBodyBytes,
        ),
        CounterSpec::new("opened", "opened", CounterRole::Opened),
        CounterSpec::new("closed", "closed", CounterRole::Closed),
        CounterSpec::new("held", "held", CounterRole::Held),
        CounterSpec::new("lost", "lost", CounterRole::Lost),
        CounterSpec::new("retries", "retries", CounterRole::Retries),
        CounterSpec::new("warmup", "warm-up", CounterRole::Warmup),
        CounterSpec::new("checks_passed", "checks passed", CounterRole::ChecksPassed),
        CounterSpec::new("checks_failed", "checks failed", CounterRole::ChecksFailed),
        CounterSpec::new(
            "failed_a_check",
            "failed a check",
            CounterRole::OperationsFailingChecks,
        ),
    ]),
    ..Spec::UNKNOWN
};

pub(crate) static MESSAGES: Spec = Spec {
    driver: Cow::Borrowed("amqp-perftest"),
    protocol: Cow::Borrowed("amqp"),
    operation: OperationKind::Message,
    single_process: true,
    series: Cow::Borrowed(&[
        SeriesSpec::new("publish", Main),
        SeriesSpec::new("confirm", Main),
        SeriesSpec::new("end_to_end", Headline),
    ]),
    counters: Cow::Borrowed(&[
        CounterSpec::new("published", "published", Rate),
        CounterSpec::new("confirmed", "confirmed", DependentRate),
        CounterSpec::new("consumed", "consumed", Rate),
        CounterSpec::new("lost", "lost", CounterRole::DeliveryError),
        CounterSpec::new("duplicated", "duplicated", CounterRole::DeliveryError),
        CounterSpec::new("out_of_order", "out of order", CounterRole::DeliveryError),
        CounterSpec::new("redelivered", "redelivered", CounterRole::DeliveryEvent),
        CounterSpec::new("reconnects", "reconnects", CounterRole::Reconnects),
    ]),
    ..Spec::UNKNOWN
};
