//! Every fuzz target: each program is this file, and feeds the target that has its name, as `crate-target`.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of each crate.
const CRATES: &[(&str, &[Target])] = &[
    ("amqp-client", amqp_client::fuzz::TARGETS),
    ("amqp-perftest", amqp_perftest::fuzz::TARGETS),
    ("broker-daemon", broker_daemon::fuzz::TARGETS),
    ("event-stream", event_stream::fuzz::TARGETS),
    ("fdpass-client", fdpass_client::fuzz::TARGETS),
    ("harness", harness::fuzz::TARGETS),
    ("http-daemon", http_daemon::fuzz::TARGETS),
    ("http-load", http_load::fuzz::TARGETS),
    ("issue-rpc", issue_rpc::fuzz::TARGETS),
    ("load", load::fuzz::TARGETS),
    ("measure", measure::fuzz::TARGETS),
    ("presence-load", presence_load::fuzz::TARGETS),
    ("socketio-server", socketio_server::fuzz::TARGETS),
    ("streaming-daemon", streaming_daemon::fuzz::TARGETS),
    ("subject", subject::fuzz::TARGETS),
];

/// The target of this program.
static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let program = env!("CARGO_BIN_NAME");
    let all = CRATES.iter().flat_map(|(name, targets)| {
        let targets = targets.iter();
        targets.map(move |(target, run)| (format!("{name}-{target}"), *run))
    });
    let mut found = all.filter(|(name, _)| name == program);
    found
        .next()
        .expect("the program has the name of a target")
        .1
});

fuzz_target!(|input: &[u8]| TARGET(input));
