//! Waits until a daemon takes connections, or no longer can.

use std::fmt;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::group::Group;
use super::log::{Log, LogScanner};
use crate::manifest::Probe;
use crate::prometheus;

/// The pause between two probes: short at first, since most daemons are ready in milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A reason why a daemon is not ready.
#[derive(Debug)]
pub(super) enum Failure {
    Exited(String),
    /// The probe, and its last answer.
    Late(String),
}

/// Polls the probe without checking the process. Earlier output in the log is ignored.
pub(super) async fn poll(probe: &Probe, scanner: &mut LogScanner, limit: Duration) -> bool {
    let polled = async {
        while try_probe(probe, scanner).await.is_err() {
            tokio::time::sleep(FIRST_PAUSE).await;
        }
    };
    tokio::time::timeout(limit, polled).await.is_ok()
}

/// Returns true if a daemon that is still to be started seems ready: another program has its address.
pub(super) async fn answers(probe: &Probe, log: &Log) -> bool {
    let mut scanner = LogScanner::new(log);
    tokio::time::timeout(LONGEST_PAUSE, try_probe(probe, &mut scanner))
        .await
        .is_ok_and(|answer| answer.is_ok())
}

/// Polls the probe and checks the process, until the daemon is ready, has ended, or the limit is reached.
pub(super) async fn wait(
    group: &Group,
    probe: &Probe,
    log: &Log,
    limit: Duration,
) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    let mut scanner = LogScanner::new(log);
    let mut pause = FIRST_PAUSE;
    loop {
        let answer = tokio::time::timeout_at(deadline, try_probe(probe, &mut scanner)).await;
        // Checked after the probe: another program may have answered, on a port that this daemon could not bind.
        if let Some(status) = group.exit() {
            return Err(Failure::Exited(status));
        }
        let answer = match answer {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(answer)) => answer,
            Err(_) => "no answer".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(Failure::Late(format!(
                "{}, last: {answer}",
                ProbeText(probe)
            )));
        }
        tokio::select! {
            _ = group.exited() => {}
            () = tokio::time::sleep(pause) => pause = LONGEST_PAUSE.min(pause * 2),
        }
    }
}

async fn try_probe(probe: &Probe, scanner: &mut LogScanner) -> Result<(), String> {
    match probe {
        Probe::Unix(path) => unix(Path::new(path)).map_err(|errno| errno.desc().to_owned()),
        Probe::Tcp(address) => TcpStream::connect(address)
            .await
            .map(drop)
            .map_err(|error| error.to_string()),
        Probe::Http(url) => match prometheus::get(url).await {
            Ok((status, _)) if status.is_success() => Ok(()),
            Ok((status, _)) => Err(format!("status {status}")),
            Err(error) => Err(format!("{:#}", error.root_cause())),
        },
        Probe::Line(text) => match scanner.finds(text) {
            Ok(true) => Ok(()),
            Ok(false) => Err("not written yet".to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Connects and closes. The kernel itself refuses the wrong type of socket, and a full queue shows that a process
/// listens.
fn unix(path: &Path) -> Result<(), Errno> {
    let address = UnixAddr::new(path)?;
    let attempt = |kind| {
        let probe = socket(
            AddressFamily::Unix,
            kind,
            SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
            None,
        )?;
        match connect(probe.as_raw_fd(), &address) {
            Err(Errno::EAGAIN) => Ok(()),
            answer => answer,
        }
    };
    match attempt(SockType::SeqPacket) {
        Err(Errno::EPROTOTYPE) => attempt(SockType::Stream),
        answer => answer,
    }
}

/// A probe as part of a sentence.
pub(super) struct ProbeText<'a>(pub(super) &'a Probe);

impl fmt::Display for ProbeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Probe::Unix(path) => write!(f, "a connection to the socket {path}"),
            Probe::Tcp(address) => write!(f, "a connection to {address}"),
            Probe::Http(url) => write!(f, "a 2xx answer from {url}"),
            Probe::Line(text) => write!(f, "the text {text:?} in its output"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{Backlog, bind, listen};

    #[test]
    fn a_listening_socket_of_either_type_is_ready_even_with_a_full_queue() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        assert_eq!(unix(&path), Err(Errno::ENOENT));
        for kind in [SockType::SeqPacket, SockType::Stream] {
            let listener = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
            bind(listener.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
            assert_eq!(
                unix(&path),
                Err(Errno::ECONNREFUSED),
                "{kind:?} is bound but does not listen"
            );
            listen(&listener, Backlog::new(0).unwrap()).unwrap();
            for _ in 0..5 {
                assert_eq!(unix(&path), Ok(()), "{kind:?}");
            }
            std::fs::remove_file(&path).unwrap();
        }
    }
}
