//! Cases with too many, too few, or wrong descriptors.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use anyhow::ensure;
use nix::fcntl::OFlag;
use nix::unistd::pipe2;

use super::answer::Answer;
use super::case::{Case, NOTHING};
use super::subject::{PAYLOAD, Subject};

pub(super) const CASES: &[Case] = &[
    Case::new("two descriptors", NOTHING, two),
    Case::new("64 descriptors", NOTHING, |subject| many(subject, 64)),
    // The kernel accepts 253 (unix(7), `SCM_MAX_FD`).
    Case::new("250 descriptors", NOTHING, |subject| many(subject, 250)),
    Case::new("pipe instead of a socket", NOTHING, pipe),
    Case::new("datagram socket", NOTHING, datagram),
    Case::new("no descriptor", NOTHING, none),
];

/// The first is used, the others are closed: the peer of a closed one reads the end.
fn two(subject: &Subject<'_>) -> anyhow::Result<()> {
    let surplus = subject.watch_handoffs("surplus_descriptors")?;
    let ours = hand_over_many(subject, 2)?;
    subject.closes(&ours[1], "the second client of two")?;
    subject.answer(&ours[0])?.says("User ID: 1")?;
    surplus.rises_by(1.0)
}

/// No daemon needs room for this many: the kernel truncates the control message (`MSG_CTRUNC`), and the daemon closes
/// all. A daemon with room uses the first and closes the others.
fn many(subject: &Subject<'_>, count: usize) -> anyhow::Result<()> {
    let truncated = subject.watch_handoffs("truncated")?;
    let surplus = subject.watch_handoffs("surplus_descriptors")?;
    let ours = hand_over_many(subject, count)?;
    for (at, client) in ours.iter().enumerate().skip(1) {
        subject.closes(client, &format!("client {} of {count}", at + 1))?;
    }
    let first = subject.read(&ours[0])?;
    if first.is_empty() {
        surplus.rises_by(0.0)?;
        return truncated.rises_by(1.0);
    }
    Answer::parse(&first)?;
    truncated.rises_by(0.0)?;
    surplus.rises_by(1.0)
}

/// Hands over `count` clients in one message.
fn hand_over_many(subject: &Subject<'_>, count: usize) -> anyhow::Result<Vec<OwnedFd>> {
    let clients = (0..count).map(|_| subject.client());
    let clients: anyhow::Result<Vec<(OwnedFd, OwnedFd)>> = clients.collect();
    let (ours, theirs): (Vec<OwnedFd>, Vec<OwnedFd>) = clients?.into_iter().unzip();
    let theirs_raw: Vec<RawFd> = theirs.iter().map(|theirs| theirs.as_raw_fd()).collect();
    subject.send(PAYLOAD, &theirs_raw)?;
    Ok(ours)
}

fn pipe(subject: &Subject<'_>) -> anyhow::Result<()> {
    let refused = subject.watch_handoffs("not_a_stream_socket")?;
    let (ours, theirs) = pipe2(OFlag::O_CLOEXEC)?;
    drop(subject.send(PAYLOAD, &[theirs.as_raw_fd()])?);
    drop(theirs);
    subject.closes(&ours, "the pipe")?;
    refused.rises_by(1.0)
}

/// Sending to a datagram socket fails once its peer was closed.
fn datagram(subject: &Subject<'_>) -> anyhow::Result<()> {
    let refused = subject.watch_handoffs("not_a_stream_socket")?;
    let (ours, theirs) = UnixDatagram::pair()?;
    ours.set_nonblocking(true)?;
    drop(subject.send(PAYLOAD, &[theirs.as_raw_fd()])?);
    drop(theirs);
    let is_closed = |error: io::Error| {
        use ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
        [BrokenPipe, ConnectionRefused, ConnectionReset].contains(&error.kind())
    };
    while !ours.send(b"?").is_err_and(is_closed) {
        subject.rest(|| "the datagram socket is still open".to_owned())?;
    }
    ensure!(
        ours.recv(&mut [0; 64]).unwrap_or(0) == 0,
        "the daemon wrote to the datagram socket"
    );
    refused.rises_by(1.0)
}

fn none(subject: &Subject<'_>) -> anyhow::Result<()> {
    let refused = subject.watch_handoffs("no_descriptor")?;
    let handoff = subject.send(PAYLOAD, &[])?;
    subject.closes(&handoff, "the handoff connection")?;
    refused.rises_by(1.0)
}
