//! The roles of the test program: it runs itself again to get a daemon or a harness in its own process.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use subject::daemon::{Daemon, Options};

use crate::usage::start_a_tree_and_wait_to_be_killed;

/// Returns a command that plays a role for a project.
pub(crate) fn command(role: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([
            "--exact",
            "plays_the_role_that_the_environment_names",
            "--nocapture",
        ])
        .env("DROVER_TEST_ROLE", role)
        .env("DROVER_TEST_ROOT", root);
    command
}

/// Plays the role that the environment names, if there is one.
pub(crate) fn play() {
    match std::env::var("DROVER_TEST_ROLE").as_deref() {
        Ok("seqpacket") => listen_on_a_unix_socket(SockType::SeqPacket),
        Ok("stream") => listen_on_a_unix_socket(SockType::Stream),
        Ok("http") => serve_http(),
        Ok("preparer") => prepare_what_is_trusted(),
        Ok("harness") => start_a_daemon_and_wait_to_be_killed(),
        Ok("tree") => start_a_tree_and_wait_to_be_killed(),
        Ok("builder") => build_a_daemon_and_wait_to_be_killed(),
        _ => {}
    }
}

/// Reports the number of bytes on each connection.
fn listen_on_a_unix_socket(kind: SockType) {
    let path = std::env::var("SOCKET").unwrap();
    let listener = socket(AddressFamily::Unix, kind, SockFlag::SOCK_CLOEXEC, None).unwrap();
    bind(
        listener.as_raw_fd(),
        &UnixAddr::new(Path::new(&path)).unwrap(),
    )
    .unwrap();
    listen(&listener, Backlog::new(8).unwrap()).unwrap();
    // Accepting does not ask for the type of the socket.
    for connection in UnixListener::from(listener).incoming() {
        let mut connection = connection.unwrap();
        let bytes = connection.read_to_end(&mut Vec::new()).unwrap();
        println_raw(&format!("{bytes} bytes"));
    }
}

/// Refuses the first three requests, then answers with the number of requests.
fn serve_http() {
    let port: u16 = std::env::var("PORT").unwrap().parse().unwrap();
    let listener = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
    for requests in 1.. {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        // A TCP probe sends nothing.
        if stream.read(&mut request).unwrap_or(0) == 0 {
            continue;
        }
        let status = if requests <= 3 {
            "503 Service Unavailable"
        } else {
            "200 OK"
        };
        let body = format!("requests {requests}\n");
        write!(
            stream,
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
    }
}

/// Prepares the daemon; its tools are checked whatever comes of the rest.
fn prepare_what_is_trusted() {
    let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
    let _ = Daemon::prepare(&root, "marks", "test", &mut |_| {});
}

fn start_a_daemon_and_wait_to_be_killed() {
    let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let prepared = Daemon::prepare(&root, "orphaned", "test", &mut |_| {}).unwrap();
        let daemon = prepared.start(&[], &Options::default()).await.unwrap();
        let guards = daemon
            .own_pids()
            .iter()
            .skip(1)
            .map(|pid| format!("{pid}\n"))
            .collect::<String>();
        let half_written = root.join("daemons/orphaned/half-written");
        std::fs::write(&half_written, guards).unwrap();
        std::fs::rename(&half_written, root.join("daemons/orphaned/started")).unwrap();
        daemon.exited().await;
    });
}

fn build_a_daemon_and_wait_to_be_killed() {
    let root = PathBuf::from(std::env::var("DROVER_TEST_ROOT").unwrap());
    let _ = Daemon::prepare(&root, "built", "test", &mut |_| {});
}

/// Prints a line that the test runner does not capture, as it captures `println!`.
fn println_raw(line: &str) {
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}").unwrap();
    stdout.flush().unwrap();
}
