//! A daemon with capacity for two streams that receives a third.

use std::os::fd::{AsRawFd as _, OwnedFd};

use anyhow::{Context as _, ensure};
use load::clock;
use nix::sys::socket::send;

use super::answer::{Answer, shown};
use super::case::{Case, Needs};
use super::subject::{PAYLOAD, Subject};
use fdpass_client::client::read_some;
use fdpass_client::handoff::{ClientKind, SEND_FLAGS};

/// A daemon with capacity for two streams.
const FULL: Needs = Needs::launch(&[
    ("DAEMON_MAX_CONNECTIONS", "2"),
    ("DAEMON_MESSAGE_DELAY", "100ms"),
]);
/// The same, with streams that outlast two clients that linger.
const FULL_FOR_LONG: Needs = Needs::launch(&[
    ("DAEMON_MAX_CONNECTIONS", "2"),
    ("DAEMON_MESSAGE_DELAY", "500ms"),
]);
/// Time for which a refused client may send at least, in nanoseconds. The daemons in `daemons/` give it twice as long.
const LINGERS: u64 = 1_000_000_000;
const COUNTED: Needs = Needs {
    metrics: true,
    ..FULL
};

pub(super) const CASES: &[Case] = &[
    Case::new("at capacity: one more client is refused", FULL, refused),
    Case::new(
        "at capacity: the refusal is 503 with Retry-After",
        FULL,
        with_503,
    ),
    Case::new(
        "at capacity: a client that still sends reads the refusal",
        FULL_FOR_LONG,
        while_sending,
    ),
    Case::new("at capacity: the refusal is counted", COUNTED, counted),
    Case::new("at capacity: open streams go on", FULL, others_go_on),
    Case::new(
        "at capacity: a place that becomes free is used",
        FULL,
        freed,
    ),
];

/// Opens two streams; returns the clients and the data they have read.
fn fill(subject: &Subject<'_>) -> anyhow::Result<Vec<(OwnedFd, Vec<u8>)>> {
    (0..2)
        .map(|_| {
            let client = subject.hand_over(PAYLOAD)?;
            let first = subject.begins(&client)?;
            ensure!(
                first.starts_with(b"HTTP/1.1 200"),
                "one of the first two streams was answered {}",
                shown(&first)
            );
            Ok((client, first))
        })
        .collect()
}

/// Returns the answer to one more client.
fn one_more(subject: &Subject<'_>) -> anyhow::Result<Vec<u8>> {
    let client = subject.hand_over(PAYLOAD)?;
    subject.read(&client)
}

/// Accepts a refusal with or without an answer: the reference's daemons close without one.
fn refused(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    let answer = one_more(subject)?;
    ensure!(
        answer.is_empty() || answer.starts_with(b"HTTP/1.1 503"),
        "the third of two streams was answered {}",
        shown(&answer)
    );
    Ok(())
}

fn with_503(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    let answer = one_more(subject)?;
    let text = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    let fields = ["retry-after: 1", "connection: close", "content-length: 0"];
    let has = |field: &&str| text.lines().any(|line| line == *field);
    ensure!(
        text.starts_with("http/1.1 503 ") && text.ends_with("\r\n\r\n") && fields.iter().all(has),
        "the refusal is {}, expected 503 with {}",
        shown(&answer),
        fields.join(", ")
    );
    Ok(())
}

/// The client may send for a while after it has read the refusal, and not for ever.
fn while_sending(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _open = fill(subject)?;
    for kind in ClientKind::BOTH {
        let client = loop {
            let begun = clock::now();
            match sends_after_refusal(subject, kind) {
                Ok(client) => break client,
                Err(error) if clock::now() - begun < LINGERS => return Err(error),
                // This machine was too busy.
                Err(error) => subject.rest(|| format!("{error:#}"))?,
            }
        };
        while send(client.as_raw_fd(), b"x", SEND_FLAGS).is_ok() {
            subject.rest(|| "the daemon never closes a refused client that sends".to_owned())?;
        }
    }
    Ok(())
}

fn sends_after_refusal(subject: &Subject<'_>, kind: ClientKind) -> anyhow::Result<OwnedFd> {
    let client = subject.hand_over_with_unread(kind)?;
    let answer = subject.read(&client)?;
    ensure!(
        answer.starts_with(b"HTTP/1.1 503"),
        "it read {}",
        shown(&answer)
    );
    // A reset is noticed by the send after the one that caused it.
    for _ in 0..2 {
        send(client.as_raw_fd(), b"x", SEND_FLAGS).context("sending after the refusal")?;
    }
    Ok(client)
}

fn counted(subject: &Subject<'_>) -> anyhow::Result<()> {
    let rejected = subject.watch("daemon_connections_rejected_total")?;
    let _open = fill(subject)?;
    one_more(subject)?;
    one_more(subject)?;
    rejected.rises_by(2.0)
}

fn others_go_on(subject: &Subject<'_>) -> anyhow::Result<()> {
    let open = fill(subject)?;
    one_more(subject)?;
    for (client, mut answer) in open {
        answer.extend(subject.read(&client)?);
        Answer::parse(&answer)?;
    }
    Ok(())
}

fn freed(subject: &Subject<'_>) -> anyhow::Result<()> {
    let mut open = fill(subject)?;
    // The other client stays, so that its end does not free the capacity.
    open.truncate(1);
    loop {
        let client = subject.hand_over(PAYLOAD)?;
        let first = read_some(&client, subject.until)?;
        if first.starts_with(b"HTTP/1.1 200") {
            break;
        }
        subject.rest(|| "the capacity of a disconnected client is not reused".to_owned())?;
    }
    ensure!(
        read_some(&open[0].0, subject.until).is_ok_and(|bytes| !bytes.is_empty()),
        "the capacity came from another stream, which has ended"
    );
    Ok(())
}
