//! Runs a daemon under test, and the other ends of its sockets.

use std::io::{IoSlice, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Parser as _;
use daemon_kit::{MetricsPage, open_files};
use nix::sys::socket::{
    self, AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, sendmsg,
};
use streaming_daemon::{Config, Daemon, Metrics, Options, SocketType, Summary};
use tempfile::TempDir;
use test_kit::metrics;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub(crate) const PAYLOAD: &[u8] = br#"{"prompt":"benchmark test","user_id":1}"#;
pub(crate) const BOTH_TYPES: [SocketType; 2] = [SocketType::Seqpacket, SocketType::Stream];

/// A generous timeout: on a busy machine everything takes longer, but a hang must still end.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A daemon in a thread of this process.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) socket_type: SocketType,
    pub(crate) metrics: Arc<Metrics>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<Summary>,
    _folder: TempDir,
}

/// Starts a daemon with events a millisecond apart, after `change` has adjusted the settings.
pub(crate) fn start(change: impl FnOnce(&mut Config)) -> Running {
    // The other ends of thousands of clients are in this process.
    open_files::raise_limit().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("handoff.sock");
    let options = Options::parse_from(["streaming-daemon", "--benchmark"]);
    let mut config = Config {
        socket_path: socket.clone(),
        message_delay: Duration::from_millis(1),
        workers: 2.try_into().unwrap(),
        ..options.config().unwrap()
    };
    change(&mut config);
    let socket_type = config.socket_type;
    let daemon = Daemon::bind(config).unwrap();
    let metrics = daemon.metrics();
    let (stop, stopped) = oneshot::channel();
    let shutdown = async { drop(stopped.await) };
    let thread = thread::spawn(|| {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(daemon.run(shutdown)).unwrap()
    });
    Running {
        socket,
        socket_type,
        metrics,
        stop,
        thread,
        _folder: folder,
    }
}

impl Running {
    /// Hands over a new client and returns its other end.
    pub(crate) fn hand_over(&self, payload: &[u8]) -> UnixStream {
        hand_over(&self.socket, self.socket_type, payload)
    }

    /// Hands over a new client and returns its whole response.
    pub(crate) fn ask(&self, payload: &[u8]) -> String {
        read_all(self.hand_over(payload))
    }

    /// Connects to the handoff socket.
    pub(crate) fn connect(&self) -> OwnedFd {
        connect(&self.socket, self.socket_type)
    }

    /// Returns the value of a metric, named as on the page.
    pub(crate) fn metric(&self, name: &str) -> u64 {
        metrics::value(&self.metrics.render(&MetricsPage::new()), name)
    }

    pub(crate) fn handoff_errors(&self, reason: &str) -> u64 {
        self.metric(&format!(
            "daemon_handoff_errors_total{{reason=\"{reason}\"}}"
        ))
    }

    pub(crate) fn stream_errors(&self, reason: &str) -> u64 {
        self.metric(&format!(
            "daemon_stream_errors_total{{reason=\"{reason}\"}}"
        ))
    }

    /// Stops the daemon and waits until it has ended.
    pub(crate) fn stop(self) -> Summary {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap()
    }
}

pub(crate) fn connect(path: &Path, socket_type: SocketType) -> OwnedFd {
    let kind = match socket_type {
        SocketType::Seqpacket => SockType::SeqPacket,
        SocketType::Stream => SockType::Stream,
    };
    let sender = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let address = UnixAddr::new(path).unwrap();
    socket::connect(sender.as_raw_fd(), &address).unwrap();
    sender
}

/// Sends a payload with descriptors. Gives up silently if the daemon has hung up on it.
pub(crate) fn pass(sender: &OwnedFd, payload: &[u8], descriptors: &[RawFd]) {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let control = if descriptors.is_empty() {
        &[][..]
    } else {
        &rights[..]
    };
    let part = [IoSlice::new(payload)];
    let flags = MsgFlags::MSG_NOSIGNAL;
    let sent = sendmsg::<()>(sender.as_raw_fd(), &part, control, flags, None);
    assert!(sent.is_ok_and(|sent| sent == payload.len()) || is_hung_up(sender));
}

/// Returns true if the daemon has closed its end. Waits for it, and fails if it sends anything.
pub(crate) fn is_hung_up(sender: &OwnedFd) -> bool {
    let mut byte = [0];
    match socket::recv(sender.as_raw_fd(), &mut byte, MsgFlags::empty()) {
        Ok(count) => count == 0,
        Err(errno) => errno == nix::errno::Errno::ECONNRESET,
    }
}

pub(crate) fn hand_over(path: &Path, socket_type: SocketType, payload: &[u8]) -> UnixStream {
    let (ours, theirs) = client();
    pass(&connect(path, socket_type), payload, &[theirs.as_raw_fd()]);
    ours
}

/// Creates a client: the end that reads, and the end to hand over.
pub(crate) fn client() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(TIMEOUT)).unwrap();
    (ours, theirs)
}

pub(crate) fn read_all(mut client: UnixStream) -> String {
    let mut all = String::new();
    client.read_to_string(&mut all).unwrap();
    all
}
