//! Cases about the shutdown of a daemon.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use harness::signals::ignores_hang_up;
use harness::verify::conformance::Skip;
use load::clock;
use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::Pid;

use super::case::{Case, Needs};
use super::subject::{PAYLOAD, Subject};
use fdpass_client::client::hand_over;
use fdpass_client::handoff::ClientKind;

/// Number of open streams.
const OPEN: usize = 3;
/// Handoffs before the signal, and in total at most.
const BEFORE: usize = 200;
const MOST: usize = 4_000;
/// Pause between two handoffs: 5,000 a second, so that the signal comes between two.
const PAUSE: Duration = Duration::from_micros(200);
/// Streams of 1.7 s, which end within any grace time.
const DRAIN: Needs = Needs {
    ends: true,
    seconds: 15,
    ..Needs::launch(&[("DAEMON_MESSAGE_DELAY", "100ms")])
};
const DRAIN_QUICKLY: Needs = Needs {
    settings: &[("DAEMON_MESSAGE_DELAY", "5ms")],
    ..DRAIN
};

pub(super) const CASES: &[Case] = &[
    Case::new("on SIGTERM: open streams finish", DRAIN, streams_finish),
    Case::new("on SIGTERM: further handoffs are refused", DRAIN, refuses),
    Case::new(
        "on SIGTERM: no handoff is lost",
        DRAIN_QUICKLY,
        nothing_lost,
    ),
    Case::new("on SIGTERM: exit code 0", DRAIN, exit_code),
    Case::new("on SIGTERM: the socket file is removed", DRAIN, socket_file),
    Case::new("on SIGHUP: open streams finish", DRAIN, hang_up),
];

/// Sends SIGTERM once to all of its processes: a second signal may end it at once.
fn ask_to_end(subject: &Subject<'_>) -> anyhow::Result<()> {
    send(subject, Signal::SIGTERM)
}

fn send(subject: &Subject<'_>, signal: Signal) -> anyhow::Result<()> {
    let daemon = subject.daemon.context("the daemon was not launched")?;
    let group = Pid::from_raw(daemon.pid().cast_signed());
    killpg(group, signal).with_context(|| format!("sending {signal}"))
}

/// Returns how it exited.
fn ended(subject: &Subject<'_>) -> anyhow::Result<String> {
    let daemon = subject.daemon.context("the daemon was not launched")?;
    let left = Duration::from_nanos(subject.until.saturating_sub(clock::now()));
    let exited = async { tokio::time::timeout(left, daemon.exited()).await };
    let status = subject.launcher.wait(exited);
    status.map_err(|_| anyhow::anyhow!("it did not exit, though its streams last 1.7 s"))
}

/// The clients read nothing before the signal.
fn streams_finish(subject: &Subject<'_>) -> anyhow::Result<()> {
    let clients = subject.open(OPEN)?;
    ask_to_end(subject)?;
    for client in &clients {
        subject.answer(client)?.says("User ID: 1")?;
    }
    Ok(())
}

/// Open streams continue meanwhile.
fn refuses(subject: &Subject<'_>) -> anyhow::Result<()> {
    let clients = subject.open(OPEN)?;
    ask_to_end(subject)?;
    await_refusal(subject)?;
    for client in &clients {
        ensure!(
            !has_ended(client),
            "it refused connections only after its streams had ended"
        );
    }
    clients
        .iter()
        .try_for_each(|client| subject.answer(client).map(drop))
}

fn await_refusal(subject: &Subject<'_>) -> anyhow::Result<()> {
    while !is_refused(subject.endpoint.connect().map(drop))? {
        subject.rest(|| "it still accepts connections".to_owned())?;
    }
    Ok(())
}

/// Sends two, as the shell and the kernel do when a terminal closes.
fn hang_up(subject: &Subject<'_>) -> anyhow::Result<()> {
    if ignores_hang_up() {
        return Err(Skip("SIGHUP is ignored here, as under nohup").into());
    }
    let clients = subject.open(OPEN)?;
    send(subject, Signal::SIGHUP)?;
    await_refusal(subject)?;
    send(subject, Signal::SIGHUP)?;
    for client in &clients {
        subject.answer(client)?.says("User ID: 1")?;
    }
    expect_success(subject)
}

/// Returns true if the end marker has come; the data is peeked, not consumed.
fn has_ended(client: &OwnedFd) -> bool {
    let mut all = vec![0; 64 * 1024];
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    let length = recv(client.as_raw_fd(), &mut all, flags).unwrap_or(0);
    all[..length].ends_with(b"data: [DONE]\n\n")
}

/// Returns true if no process listens any more; any other failure is an error.
fn is_refused(connected: nix::Result<()>) -> anyhow::Result<bool> {
    match connected {
        Ok(()) | Err(Errno::EAGAIN) => Ok(false),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(true),
        Err(errno) => Err(errno).context("connecting"),
    }
}

/// Continues with handoffs until they are refused: every connected one must be served.
fn nothing_lost(subject: &Subject<'_>) -> anyhow::Result<()> {
    let mut clients = Vec::new();
    for number in 0..MOST {
        if number == BEFORE {
            ask_to_end(subject)?;
        }
        match subject.endpoint.connect() {
            Ok(handoff) => {
                let client = hand_over(&handoff, ClientKind::Unix, PAYLOAD).with_context(|| {
                    format!("handoff {number} was connected and then refused; SIGTERM came before {BEFORE}")
                })?;
                clients.push(client);
            }
            Err(errno) if is_refused(Err(errno))? => break,
            Err(_) => {}
        }
        std::thread::sleep(PAUSE);
    }
    ensure!(
        clients.len() < MOST,
        "it still accepts handoffs, {} after SIGTERM",
        MOST - BEFORE
    );
    let errors = clients
        .iter()
        .filter_map(|client| subject.answer(client).err());
    let errors: Vec<anyhow::Error> = errors.collect();
    if let Some(reason) = errors.first() {
        bail!(
            "{} of {} handoffs were lost, {} of them before SIGTERM: {reason:#}",
            errors.len(),
            clients.len(),
            BEFORE.min(clients.len())
        );
    }
    Ok(())
}

fn exit_code(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _clients = subject.open(OPEN)?;
    ask_to_end(subject)?;
    expect_success(subject)
}

fn expect_success(subject: &Subject<'_>) -> anyhow::Result<()> {
    let status = ended(subject)?;
    ensure!(
        status == "exited with status 0",
        "it {status}, expected status 0"
    );
    Ok(())
}

fn socket_file(subject: &Subject<'_>) -> anyhow::Result<()> {
    let _clients = subject.open(OPEN)?;
    ask_to_end(subject)?;
    ended(subject)?;
    let found = std::fs::symlink_metadata(subject.endpoint.path());
    ensure!(found.is_err(), "its socket file is still there");
    Ok(())
}
