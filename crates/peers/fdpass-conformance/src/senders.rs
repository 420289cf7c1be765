//! Cases about senders, and the daemon as they observe it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use load::clock;

use super::answer::Answer;
use super::case::{Case, FRESH, FRESH_WITH_METRICS, NOTHING, Needs, OPEN};
use super::subject::{PAYLOAD, Subject};
use fdpass_client::client::{hand_over, read_some};
use fdpass_client::handoff::ClientKind;

/// Number of handoffs in a burst.
const BURST: usize = 1_000;
/// The daemon closes a silent sender after 5 s. The range allows for a busy machine and a coarse clock of the daemon.
const CLOSE_AFTER: std::ops::Range<Duration> = Duration::from_secs(4)..Duration::from_secs(9);
const SLOW: Needs = Needs {
    seconds: 15,
    ..NOTHING
};
const BUSY: Needs = Needs {
    seconds: 30,
    ..NOTHING
};

pub(super) const CASES: &[Case] = &[
    Case::new("socket file is closed to others", FRESH, socket_mode),
    Case::new("handoff connection is closed at once", OPEN, closed_at_once),
    Case::new("close before send", NOTHING, close_before_send),
    Case::new(
        "close before send is counted quietly",
        FRESH_WITH_METRICS,
        quiet,
    ),
    Case::new("silent sender", SLOW, silent),
    Case::new("1,000 handoffs at once", BUSY, many),
];

fn socket_mode(subject: &Subject<'_>) -> anyhow::Result<()> {
    let mode = fs::metadata(subject.endpoint.path())
        .context("reading the permissions of the socket file")?
        .permissions()
        .mode();
    ensure!(
        mode & 0o007 == 0,
        "its permissions are {:04o}, but the default is 0660",
        mode & 0o7777
    );
    Ok(())
}

/// The close must come long before the stream ends: senders take it as the time of the handoff.
fn closed_at_once(subject: &Subject<'_>) -> anyhow::Result<()> {
    let handoff = subject.connect()?;
    let ours = hand_over(&handoff, ClientKind::Unix, PAYLOAD)?;
    subject.closes(&handoff, "the handoff connection")?;
    let mut came = Vec::new();
    while let Ok(piece) = read_some(&ours, clock::now()) {
        ensure!(
            !piece.is_empty(),
            "the handoff connection was closed only after the stream"
        );
        came.extend(piece);
    }
    came.extend(subject.read(&ours)?);
    Answer::parse(&came).map(drop)
}

fn close_before_send(subject: &Subject<'_>) -> anyhow::Result<()> {
    let empty = subject.watch_handoffs("empty")?;
    for _ in 0..3 {
        drop(subject.connect()?);
    }
    subject.goes_on()?;
    // The readiness probe may be counted only now.
    empty.rises_by_at_least(3.0)
}

/// A readiness probe does the same, so it must not be logged.
fn quiet(subject: &Subject<'_>) -> anyhow::Result<()> {
    let daemon = subject.daemon.context("the daemon was not launched")?;
    subject.goes_on()?;
    let lines = || daemon.last_lines(1_000);
    let before = lines();
    close_before_send(subject)?;
    let after = lines();
    ensure!(
        before.lines().count() == after.lines().count(),
        "it wrote to its log: {}",
        after.lines().last().unwrap_or_default()
    );
    Ok(())
}

fn silent(subject: &Subject<'_>) -> anyhow::Result<()> {
    let given_up = subject.watch_handoffs("timeout")?;
    let handoff = subject.connect()?;
    let since = clock::now();
    for _ in 0..3 {
        subject.goes_on().context("while a sender is silent")?;
    }
    subject.closes(&handoff, "the handoff connection")?;
    let waited = Duration::from_nanos(clock::now() - since);
    ensure!(
        CLOSE_AFTER.contains(&waited),
        "it was closed after {:.1} s, expected 5 s",
        waited.as_secs_f64()
    );
    given_up.rises_by(1.0)
}

fn many(subject: &Subject<'_>) -> anyhow::Result<()> {
    let handoffs = subject.watch("daemon_handoffs_total")?;
    let clients = subject.open(BURST)?;
    for (at, client) in clients.iter().enumerate() {
        let whole = subject.answer(client);
        whole.with_context(|| format!("client {} of {BURST}", at + 1))?;
    }
    handoffs.rises_by(BURST as f64)
}
