//! Clients that reset their connection at any state of the protocol.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::net::UnixStream;

use harness_testing::processes::wait_until;
use nix::libc::linger;
use nix::sys::socket::{setsockopt, sockopt};

use super::requests::{self, CREATE_ISSUE};
use super::{Subject, on_each_daemon};

/// Lets the close of a TCP connection be a reset. A Unix socket is reset by a close if answers are unread.
fn reset_at_close(socket: &impl AsFd) {
    let linger = linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(socket, sockopt::Linger, &linger).unwrap();
}

/// Sends a part of a request, waits for the first byte of an answer if one comes, and resets the connection.
fn reset_after(subject: &Subject, request: &[u8], is_answered: bool) {
    if subject.protocol == "issue" {
        let stream = UnixStream::connect(subject.socket()).unwrap();
        return exchange(stream, request, is_answered);
    }
    let stream = subject.connect().unwrap();
    reset_at_close(&stream);
    exchange(stream, request, is_answered);
}

fn exchange(mut stream: impl Read + Write, request: &[u8], is_answered: bool) {
    stream.write_all(request).unwrap();
    if is_answered {
        stream.read_exact(&mut [0]).unwrap();
    }
}

/// Returns a TCP connection: the end that is handed over, and the other.
fn tcp_pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    Ok((listener.accept()?.0, ours))
}

/// Resets handoffs and their clients: before the message, with a message that has no client, before the daemon reads
/// the message, and while events are sent.
fn reset_handoffs(subject: &Subject) -> io::Result<()> {
    drop(requests::handoff(&subject.socket())?);
    requests::pass(&requests::handoff(&subject.socket())?, &[])?;
    for is_read in [false, true] {
        let (theirs, mut ours) = tcp_pair()?;
        reset_at_close(&ours);
        requests::pass(
            &requests::handoff(&subject.socket())?,
            &[theirs.as_raw_fd()],
        )?;
        drop(theirs);
        if is_read {
            ours.read_exact(&mut [0; 150])?;
        }
    }
    Ok(())
}

#[test]
fn a_reset_at_every_state_of_the_protocol_leaves_nothing() {
    let get = |rest: &str| format!("GET {rest}\r\nHost: localhost\r\n\r\n").into_bytes();
    let upgrade = "/socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==";
    on_each_daemon(|subject| {
        let mut command = subject.command(&[]);
        command.env("DAEMON_MESSAGE_DELAY", "20ms");
        let process = subject.start_by(command);
        let (request, open) = match subject.protocol {
            "fdpass" => (Vec::new(), "daemon_active_streams"),
            "amqp" => (requests::publishing(), "broker_connections"),
            "http" => (get("/100kb.txt HTTP/1.1"), "http_connections_open"),
            "presence" => (get(upgrade), "presence_connections_open"),
            _ => (CREATE_ISSUE.to_vec(), "issue_daemon_connections"),
        };
        // The session of the request that found it ready.
        let idle = u64::from(subject.protocol == "presence");
        for length in 0..request.len() {
            reset_after(subject, &request[..length], false);
        }
        match subject.protocol {
            "fdpass" => (0..20).for_each(|_| reset_handoffs(subject).unwrap()),
            _ => reset_after(subject, &request, true),
        }
        wait_until("nothing is left", || subject.metric(open) == idle);
        assert!(subject.serves());
        assert!(
            !subject.logged().contains("panicked"),
            "{}",
            subject.logged()
        );
        assert_eq!(process.stop(), Some(0));
    });
}
