//! Cases about clients and their behaviour.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, ensure};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{setsockopt, sockopt};

use super::case::{Case, NOTHING, Needs, OPEN};
use super::subject::{PAYLOAD, Subject};
use fdpass_client::client::hand_over;
use fdpass_client::handoff::ClientKind;

/// The smallest send buffer that Linux makes (socket(7)): room for a handful of events.
const SMALLEST: usize = 2_048;
/// Other clients that are served meanwhile.
const OTHERS: usize = 5;
/// Streams larger than the buffers of a client.
const LONG: Needs = Needs::launch(&[
    ("DAEMON_MESSAGE_COUNT", "20000"),
    ("DAEMON_MESSAGE_DELAY", "0"),
    ("DAEMON_WRITE_TIMEOUT", "300ms"),
]);

pub(super) const CASES: &[Case] = &[
    Case::new("client in blocking mode", NOTHING, |subject| {
        in_mode(subject, OFlag::empty())
    }),
    Case::new("client in non-blocking mode", NOTHING, |subject| {
        in_mode(subject, OFlag::O_NONBLOCK)
    }),
    Case::new("TCP client", NOTHING, tcp),
    Case::new("client with unread data", NOTHING, |subject| {
        ClientKind::BOTH.iter().try_for_each(|kind| {
            let ours = subject.hand_over_with_unread(*kind)?;
            subject.answer(&ours)?.says("User ID: 1")
        })
    }),
    Case::new("client that leaves", OPEN, leaves),
    Case::new(
        "client that never reads holds up nobody",
        NOTHING,
        never_reads,
    ),
    Case::new(
        "client that never reads and is made blocking",
        NOTHING,
        made_blocking,
    ),
    Case::new("client that never reads is given up", LONG, given_up),
];

fn in_mode(subject: &Subject<'_>, mode: OFlag) -> anyhow::Result<()> {
    let (ours, theirs) = subject.client()?;
    fcntl(&theirs, FcntlArg::F_SETFL(mode)).context("setting the client's mode")?;
    subject.hand_over_this(PAYLOAD, theirs)?;
    subject.answer(&ours)?.says("User ID: 1")
}

fn tcp(subject: &Subject<'_>) -> anyhow::Result<()> {
    let ours = hand_over(&subject.connect()?, ClientKind::Tcp, PAYLOAD)?;
    subject.answer(&ours)?.says("User ID: 1")
}

/// The daemon notices it at the next write.
fn leaves(subject: &Subject<'_>) -> anyhow::Result<()> {
    let gone = subject.watch_streams("client_disconnected")?;
    let open = subject.watch("daemon_active_streams")?;
    let client = subject.hand_over(PAYLOAD)?;
    subject.begins(&client)?;
    drop(client);
    gone.rises_by(1.0)?;
    open.returns()
}

/// Returns a client whose buffer is full after a few events: our end, and the other one, which shares its mode with the
/// daemon's.
fn full(subject: &Subject<'_>) -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = subject.client()?;
    setsockopt(&theirs, sockopt::SndBuf, &SMALLEST).context("shrinking the client's buffer")?;
    subject.hand_over_this(PAYLOAD, &theirs)?;
    Ok((ours, theirs))
}

fn others_are_served(subject: &Subject<'_>) -> anyhow::Result<()> {
    (0..OTHERS)
        .try_for_each(|_| subject.goes_on())
        .context("while a client does not read")
}

fn never_reads(subject: &Subject<'_>) -> anyhow::Result<()> {
    let clients = (0..8)
        .map(|_| full(subject).map(|(ours, _)| ours))
        .collect::<anyhow::Result<Vec<OwnedFd>>>()?;
    others_are_served(subject)?;
    // Clients that finally read have missed nothing.
    clients
        .iter()
        .try_for_each(|client| subject.answer(client)?.says("User ID: 1"))
}

/// `O_NONBLOCK` belongs to the open file description, which the sender shares: it may clear the flag at any time.
fn made_blocking(subject: &Subject<'_>) -> anyhow::Result<()> {
    let mut clients = Vec::new();
    for _ in 0..8 {
        let (ours, theirs) = full(subject)?;
        subject.begins(&ours)?;
        fcntl(&theirs, FcntlArg::F_SETFL(OFlag::empty())).context("clearing O_NONBLOCK")?;
        clients.push(ours);
    }
    others_are_served(subject)
}

/// The daemon is launched with a write timeout of 0.3 s.
fn given_up(subject: &Subject<'_>) -> anyhow::Result<()> {
    let timeouts = subject.watch_streams("timeout")?;
    let open = subject.watch("daemon_active_streams")?;
    let (ours, _) = full(subject)?;
    others_are_served(subject)?;
    timeouts.rises_by(1.0)?;
    open.returns()?;
    let rest = subject.read(&ours)?;
    ensure!(
        !rest.ends_with(b"data: [DONE]\n\n"),
        "the client received its whole stream"
    );
    Ok(())
}
