//! A small daemon with one fault, launched like any other: the test program starts itself with `FAULT` set.
//!
//! Apart from the fault it follows the transcript; it drains nothing on SIGTERM.

#![allow(clippy::print_stderr, reason = "a daemon has a log")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fdpass_client::transcript::Transcript;
use harness_testing::program::{ended_with, words};
use harness_testing::rows;
use nix::sys::socket::{SockFlag, SockType};
use tempfile::TempDir;

use crate::handoffs::{accepted, listening, received};

/// The fault of the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No fault that the tests look for.
    None,
    /// The user id of the default payload is 2.
    OneByte,
    /// Clients beyond the limit are served.
    NoLimit,
    /// Clients beyond the limit are closed without an answer.
    SilentLimit,
    /// The second of two descriptors stays open.
    Leak,
    /// The daemon exits on a payload of one NUL.
    DiesOnNul,
    /// The daemon serves one client after the other.
    OneByOne,
    /// The daemon answers nothing.
    Mute,
    /// The metrics stay at 0.
    Miscount,
}

impl Fault {
    const ALL: [Self; 9] = [
        Self::None,
        Self::OneByte,
        Self::NoLimit,
        Self::SilentLimit,
        Self::Leak,
        Self::DiesOnNul,
        Self::OneByOne,
        Self::Mute,
        Self::Miscount,
    ];
}

/// Creates a folder with a project that has only this daemon.
pub(crate) fn project(fault: Fault) -> TempDir {
    let program = std::env::current_exe().unwrap();
    let metrics = "metrics = 'http://127.0.0.1:{port}/metrics'";
    let manifest = format!(
        "about = 'does something wrong'\nserves = ['fdpass']\n\
         run = ['{}', '--exact', 'is_the_daemon_where_it_was_launched_as_one', '--nocapture']\n\
         ready = {{ unix = '{{socket}}' }}\n\
         env = {{ FAULT = '{fault:?}', DAEMON_SOCKET_PATH = '{{socket}}', METRICS = '127.0.0.1:{{port}}' }}\n{}\n",
        program.display(),
        if fault == Fault::Miscount {
            metrics
        } else {
            ""
        },
    );
    project_with(&manifest)
}

/// Creates a folder with a project whose only daemon is `faulty`.
pub(crate) fn project_with(manifest: &str) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("daemons/faulty");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("daemon.toml"), manifest).unwrap();
    root
}

/// Returns the program, in a project.
pub(crate) fn program(root: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fdpass-gen"));
    command
        .current_dir(root)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("DROVER_REQUIRE_ALL")
        .args(words(arguments));
    command
}

/// Returns how a program exited, its output, and its notes.
pub(crate) fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Checks that the program refuses arguments with these words, and prints nothing.
#[track_caller]
pub(crate) fn refused(table: &str) {
    for (arguments, parts) in rows(table) {
        let root = project(Fault::None);
        let output = program(root.path(), arguments).output().unwrap();
        ended_with(&output, 2, &parts, &arguments);
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

/// Runs the daemon if this program was launched as one; it never returns then.
pub(crate) fn serve_if_launched() {
    let Ok(named) = std::env::var("FAULT") else {
        return;
    };
    let fault = Fault::ALL
        .into_iter()
        .find(|fault| format!("{fault:?}") == named)
        .unwrap();
    let variable = |name: &str| std::env::var(name).ok();
    let kind = match variable("DAEMON_SOCKET_TYPE").as_deref() {
        Some("stream") => SockType::Stream,
        _ => SockType::SeqPacket,
    };
    let number = |name: &str, or: usize| variable(name).map_or(or, |text| text.parse().unwrap());
    let delay = variable("DAEMON_MESSAGE_DELAY")
        .map_or(Duration::ZERO, |text| load::duration::parse(&text).unwrap());
    if let Some(address) = variable("METRICS") {
        let listener = TcpListener::bind(address).unwrap();
        thread::spawn(move || serve_zeros(&listener));
    }
    Server {
        fault,
        messages: number("DAEMON_MESSAGE_COUNT", 18) as u32,
        delay,
        capacity: number("DAEMON_MAX_CONNECTIONS", 1_000_000),
    }
    .serve(
        &PathBuf::from(variable("DAEMON_SOCKET_PATH").unwrap()),
        kind,
    );
}

/// Runs the daemon in a thread of the test, for as long as the test lasts.
pub(crate) fn serve_here(path: &Path, kind: SockType, fault: Fault) {
    let server = Server {
        fault,
        messages: 18,
        delay: Duration::ZERO,
        capacity: 1_000_000,
    };
    let listener = listening(path, kind, SockFlag::empty());
    thread::spawn(move || server.accept_all(&listener));
}

fn serve_zeros(listener: &TcpListener) {
    let body = "daemon_handoffs_total 0\n";
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let _ = stream.read(&mut [0; 1024]);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes());
    }
}

#[derive(Debug, Clone, Copy)]
struct Server {
    fault: Fault,
    messages: u32,
    delay: Duration,
    capacity: usize,
}

/// Clients that are being served.
static OPEN: AtomicUsize = AtomicUsize::new(0);

impl Server {
    fn serve(self, path: &Path, kind: SockType) -> ! {
        self.accept_all(&listening(path, kind, SockFlag::empty()))
    }

    fn accept_all(self, listener: &OwnedFd) -> ! {
        loop {
            let connection = accepted(listener).unwrap();
            if self.fault == Fault::OneByOne {
                self.take(&connection);
            } else {
                thread::spawn(move || self.take(&connection));
            }
        }
    }

    fn take(self, connection: &OwnedFd) {
        let (payload, mut clients) = received(connection);
        if self.fault == Fault::DiesOnNul && payload == b"\0" {
            eprintln!("a NUL, of all things");
            std::process::exit(7);
        }
        if clients.is_empty() {
            return;
        }
        let client = UnixStream::from(clients.remove(0));
        match self.fault {
            Fault::Leak => std::mem::forget(clients),
            Fault::Mute => return std::mem::forget(client),
            _ => drop(clients),
        }
        let is_full = OPEN.fetch_add(1, Ordering::SeqCst) >= self.capacity;
        match self.fault {
            Fault::SilentLimit if is_full => {}
            _ if is_full && self.fault != Fault::NoLimit => refuse(&client),
            _ => self.answer(&client, &payload),
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
    }

    fn answer(self, mut client: &UnixStream, payload: &[u8]) {
        let golden = Transcript::golden();
        // An empty payload means the defaults.
        let payload = if payload.is_empty() { b"\0" } else { payload };
        let case = golden
            .cases
            .iter()
            .find(|case| case.messages == self.messages && case.payload == payload)
            .unwrap_or(&golden.cases[0]);
        for piece in &case.answer {
            let piece = match self.fault {
                Fault::OneByte => piece.replace("User ID: 1", "User ID: 2"),
                _ => piece.clone(),
            };
            if client.write_all(piece.as_bytes()).is_err() {
                return;
            }
            // The delay that the daemon was started with.
            thread::sleep(self.delay);
        }
    }
}

fn refuse(mut client: &UnixStream) {
    let _ = client.write_all(
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
    );
}
