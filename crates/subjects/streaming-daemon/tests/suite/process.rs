//! Tests of the command: options, signals, exit codes, the socket file, the limit of open files.

use std::fs;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use daemon_kit::open_files;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{self, AddressFamily, Backlog, SockFlag, SockType, UnixAddr};
use nix::unistd::Pid;
use streaming_daemon::SocketType;
use tempfile::TempDir;
use test_kit::assert_contains;

use test_kit::wait_until;

use crate::support::{BOTH_TYPES, PAYLOAD, client, connect, hand_over, is_hung_up, pass, read_all};

const BINARY: &str = env!("CARGO_BIN_EXE_streaming-daemon");

/// The daemon as a separate process, killed with the test.
pub(crate) struct Process {
    child: Child,
    pub(crate) socket: PathBuf,
    _folder: Option<TempDir>,
}

impl Process {
    /// Starts the daemon from a shell that first runs `prelude`, and waits until it listens.
    pub(crate) fn start(prelude: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_with(prelude, "--benchmark", variables)
    }

    /// Starts it with these arguments.
    pub(crate) fn start_with(prelude: &str, arguments: &str, variables: &[(&str, &str)]) -> Self {
        open_files::raise_limit().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("handoff.sock");
        let child = Command::new("sh")
            .args(["-c", &format!("{prelude} exec {BINARY} {arguments}")])
            .env("DAEMON_SOCKET_PATH", &socket)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Owned before the wait, so that it is killed if it never listens.
        let process = Self {
            child,
            socket,
            _folder: Some(folder),
        };
        wait_until("listening", || {
            UnixAddr::new(&process.socket).is_ok_and(|address| try_connect(&address))
        });
        process
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn hand_over(&self) -> UnixStream {
        hand_over(&self.socket, SocketType::Seqpacket, PAYLOAD)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the end. Returns the exit code and the output.
    pub(crate) fn wait(&mut self) -> (Option<i32>, String) {
        let mut status = None;
        wait_until("the end of the process", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let mut printed = String::new();
        let mut stdout = self.child.stdout.take().unwrap();
        stdout.read_to_string(&mut printed).unwrap();
        (status.unwrap().code(), printed)
    }

    /// Returns its stderr, once it has ended.
    pub(crate) fn notes(&mut self) -> String {
        let mut notes = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut notes).unwrap();
        notes
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn try_connect(address: &UnixAddr) -> bool {
    let kind = SockType::SeqPacket;
    let probe = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    let connected = socket::connect(probe.as_raw_fd(), address);
    // The other type of socket listens, too.
    matches!(connected, Ok(()) | Err(Errno::EPROTOTYPE))
}

fn run(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(BINARY);
    command
        .args(arguments)
        .envs(variables.iter().copied())
        .output()
        .unwrap()
}

#[test]
fn a_second_signal_ends_at_once() {
    let mut daemon = Process::start(
        "",
        &[
            ("DAEMON_MESSAGE_DELAY", "1h"),
            ("DAEMON_SHUTDOWN_GRACE", "1h"),
        ],
    );
    let mut client = daemon.hand_over();
    client.read_exact(&mut [0; 119]).unwrap();
    daemon.signal(Signal::SIGINT);
    wait_until("the end of the socket file", || !daemon.socket.exists());
    daemon.signal(Signal::SIGINT);
    let (code, printed) = daemon.wait();
    assert_eq!(code, Some(0));
    assert_contains(&printed, &["started: 1\ncompleted: 0\nfailed: 1\n"]);
    read_all(client);
}

/// Otherwise SIGTERM would be the second signal, which ends the stream.
#[test]
fn a_hang_up_that_is_ignored_at_the_start_stays_ignored() {
    let mut daemon = Process::start("trap '' HUP;", &[("DAEMON_MESSAGE_DELAY", "20ms")]);
    let mut client = daemon.hand_over();
    client.read_exact(&mut [0; 119]).unwrap();
    daemon.signal(Signal::SIGHUP);
    daemon.signal(Signal::SIGTERM);
    let (code, printed) = daemon.wait();
    assert_eq!(code, Some(0));
    assert!(printed.contains("completed: 1\n"), "{printed}");
}

#[test]
fn the_benchmark_summary_adds_up() {
    let mut daemon = Process::start("", &[("DAEMON_MESSAGE_COUNT", "0")]);
    for _ in 0..3 {
        assert_eq!(read_all(daemon.hand_over()).len(), 133);
    }
    daemon.signal(Signal::SIGTERM);
    let (code, printed) = daemon.wait();
    assert_eq!(code, Some(0));
    assert_contains(
        &printed,
        &["started: 3\ncompleted: 3\nfailed: 0\nbytes: 399\n"],
    );
}

#[test]
fn the_socket_has_the_mode_of_its_variable_whatever_the_umask() {
    let daemon = Process::start("umask 0077;", &[("DAEMON_SOCKET_MODE", "0666")]);
    let mode = fs::metadata(&daemon.socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o666);
}

#[test]
fn wrong_calls_exit_2_and_say_what_to_do() {
    for (arguments, variables, words) in [
        (
            &["--backend-provider", "openai", "--openai-base", "unix:/a"][..],
            &[("OPENAI_API_KEY", "two\nlines")][..],
            ["OPENAI_API_KEY", "the key alone"],
        ),
        (
            &["--backend-provider", "openai", "--openai-base", "unix:/a"],
            &[("DAEMON_BACKEND_TIMEOUT", "0")],
            ["DAEMON_BACKEND_TIMEOUT", "30s"],
        ),
        (&["--no-such-option"], &[], ["--no-such-option", "--help"]),
    ] {
        let output = run(arguments, variables);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{complaint}");
        assert_contains(&complaint, &words);
    }
}

#[test]
fn a_socket_path_or_address_that_cannot_be_used_is_named() {
    for (arguments, word) in [
        (
            ["--socket", "/no/such/a.sock", "--metrics-enabled", "false"],
            "/no/such",
        ),
        (
            [
                "--socket",
                "/no/such/a.sock",
                "--metrics-addr",
                "192.0.2.1:1",
            ],
            "DAEMON_METRICS_ADDR",
        ),
    ] {
        let output = run(&arguments, &[]);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        assert!(complaint.contains(word), "{word} is not in: {complaint}");
    }
}

/// With a limit of 80 there is room for about 60 connections. One shard, because with two the probe's connection could
/// still be open while they run out.
#[test]
fn without_free_descriptors_accepting_pauses_and_goes_on_when_there_are_some() {
    let daemon = Process::start("ulimit -n 80;", &[("DAEMON_WORKERS", "1")]);
    let kind = SocketType::Seqpacket;
    let silent: Vec<_> = (0..100).map(|_| connect(&daemon.socket, kind)).collect();
    // Each number is checked, because the shell may have passed on one above the limit.
    let is_open = |number: u32| {
        let link = format!("/proc/{}/fd/{number}", daemon.child.id());
        fs::symlink_metadata(link).is_ok()
    };
    wait_until("running out", || (0..80).all(is_open));
    // An accepted connection sends: there is no room for its client's descriptor, and both are closed.
    let (ours, theirs) = client();
    pass(&silent[0], PAYLOAD, &[theirs.as_raw_fd()]);
    drop(theirs);
    assert_eq!(read_all(ours), "");
    assert!(is_hung_up(&silent[0]));
    drop(silent);
    // A handoff that is accepted before the others are closed has no room for its client's descriptor either.
    wait_until("room", || open_below_80(&daemon) < 40);
    assert_eq!(read_all(daemon.hand_over()).len(), 1226);
}

/// Starts a daemon with a limit of 80 and one free descriptor, and the senders that hold the others.
fn start_with_one_descriptor_left() -> (Process, Vec<OwnedFd>) {
    let variables = [("DAEMON_MESSAGE_DELAY", "0"), ("DAEMON_WORKERS", "1")];
    let daemon = Process::start("ulimit -n 80;", &variables);
    let mut silent = Vec::new();
    // The readiness probe may still be open, and connecting takes a moment: so the number is approached until it is
    // stable.
    let mut rounds = 0;
    wait_until("one descriptor is left", || {
        rounds += 1;
        match open_below_80(&daemon) {
            79 => return rounds > 20,
            80.. => drop(silent.pop()),
            _ => silent.push(connect(&daemon.socket, SocketType::Seqpacket)),
        }
        rounds = 0;
        // The daemon publishes nothing about the connection that it takes or loses now.
        thread::sleep(Duration::from_millis(5));
        false
    });
    (daemon, silent)
}

/// Counts the open descriptors below 80: the shell may have passed on one above the limit.
fn open_below_80(daemon: &Process) -> usize {
    let link = |number: &u32| format!("/proc/{}/fd/{number}", daemon.child.id());
    let is_open = |number: &u32| fs::symlink_metadata(link(number)).is_ok();
    (0..80).filter(is_open).count()
}

#[test]
fn when_a_client_is_lost_for_lack_of_room_the_others_wait_in_the_queue() {
    let (daemon, silent) = start_with_one_descriptor_left();
    daemon.signal(Signal::SIGSTOP);
    let mut clients: Vec<_> = (0..400).map(|_| daemon.hand_over()).collect();
    daemon.signal(Signal::SIGCONT);
    assert_eq!(read_all(clients.remove(0)), "");
    drop(silent);
    let answers: Vec<_> = clients.into_iter().map(read_all).collect();
    let lost = answers.iter().filter(|answer| answer.is_empty()).count();
    // A batch of handoffs would be more.
    assert!(lost < 50, "{lost} of 400 are lost");
}

#[test]
fn connections_queued_at_a_daemon_without_descriptors_are_served_after_sigterm() {
    let (mut daemon, silent) = start_with_one_descriptor_left();
    // This one takes the last descriptor, so that later ones wait in the queue.
    let last = connect(&daemon.socket, SocketType::Seqpacket);
    wait_until("running out", || open_below_80(&daemon) == 80);
    let clients: Vec<_> = (0..10).map(|_| daemon.hand_over()).collect();
    daemon.signal(Signal::SIGTERM);
    wait_until("the end of the socket file", || !daemon.socket.exists());
    // For many pauses it can't accept them, and must not give up; no condition shows that.
    thread::sleep(Duration::from_millis(100));
    daemon.signal(Signal::SIGSTOP);
    drop((silent, last));
    daemon.signal(Signal::SIGCONT);
    // Some may be lost, if they arrive before there is room for their clients too; a queue that is given up loses all.
    let answers: Vec<_> = clients.into_iter().map(read_all).collect();
    assert!(answers.iter().any(|answer| answer.len() == 1226));
    assert_eq!(daemon.wait().0, Some(0));
}

/// The limit of open files limits the streams if it is lower: 100 − 64.
#[test]
fn more_streams_than_descriptors_are_answered_503() {
    let daemon = Process::start("ulimit -n 100;", &[("DAEMON_MESSAGE_DELAY", "1h")]);
    let held: Vec<_> = (0..36).map(|_| daemon.hand_over()).collect();
    for mut client in &held {
        client.read_exact(&mut [0; 119]).unwrap();
    }
    assert!(read_all(daemon.hand_over()).starts_with("HTTP/1.1 503 "));
}

/// Listens on a socket instead of an init system and starts the daemon with it as descriptor 3; the shell that becomes
/// the daemon sets `LISTEN_PID`.
fn activate(listener: &OwnedFd, count: &str) -> Command {
    let script =
        format!("LISTEN_PID=$$ LISTEN_FDS={count} exec {BINARY} --benchmark 3<&0 </dev/null");
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    command
        .env("DAEMON_SOCKET_PATH", "/no/such/folder/is-not-used.sock")
        .stdin(listener.try_clone().unwrap())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn listen(path: &Path, socket_type: SocketType) -> OwnedFd {
    let kind = match socket_type {
        SocketType::Seqpacket => SockType::SeqPacket,
        SocketType::Stream => SockType::Stream,
    };
    let listener = socket::socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    socket::bind(listener.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    socket::listen(&listener, Backlog::new(100).unwrap()).unwrap();
    listener
}

#[test]
fn a_passed_socket_is_served_left_in_place_and_served_again_by_the_next_daemon() {
    for socket_type in BOTH_TYPES {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passed.sock");
        let listener = listen(&path, socket_type);
        for _ in 0..2 {
            // Before the daemon starts: the handoff waits in the accept queue.
            let early = hand_over(&path, socket_type, PAYLOAD);
            let child = activate(&listener, "1").spawn().unwrap();
            let mut daemon = Process {
                child,
                socket: path.clone(),
                _folder: None,
            };
            assert_eq!(read_all(early).len(), 1226);
            daemon.signal(Signal::SIGTERM);
            let (code, printed) = daemon.wait();
            assert_eq!(code, Some(0));
            assert!(printed.contains("started: 1\ncompleted: 1\n"), "{printed}");
            let notes = daemon.notes();
            assert!(notes.contains(path.to_str().unwrap()), "{notes}");
            assert!(path.exists());
        }
    }
}

#[test]
fn a_passed_descriptor_that_is_not_open_exits_2_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let listener = listen(&folder.path().join("passed.sock"), SocketType::Seqpacket);
    let output = activate(&listener, "900").output().unwrap();
    let complaint = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert_contains(&complaint, &["LISTEN_FDS", "cannot be used"]);
}
