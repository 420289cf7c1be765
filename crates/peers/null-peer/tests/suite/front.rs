//! The front of a streaming daemon: who answers, and with what.

use std::fs::File;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;

use fdpass_client::handoff::{DEFAULT_DATA, HandoffEndpoint, SocketType};
use null_peer::{Delays, Peer, Serving, Stall};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketAddrUnix, accept,
    bind, listen, recvmsg, socket,
};

/// Listens as a streaming daemon does.
fn daemon(path: &Path) -> OwnedFd {
    let daemon = socket(
        AddressFamily::UNIX,
        rustix::net::SocketType::SEQPACKET,
        None,
    )
    .unwrap();
    bind(&daemon, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&daemon, 8).unwrap();
    daemon
}

/// Takes the next handoff: its payload, and the client.
fn taken(daemon: &OwnedFd) -> (String, File) {
    let handoff = accept(daemon).unwrap();
    let mut payload = [0; 4096];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let pieces = &mut [IoSliceMut::new(&mut payload)];
    let message = recvmsg(handoff, pieces, &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    let client = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let payload = String::from_utf8(payload[..message.bytes].to_vec()).unwrap();
    (payload, File::from(client.unwrap()))
}

/// Starts a front for the daemon at a path, and sends a request.
fn asked(path: &Path, request: &str) -> (Serving, TcpStream) {
    let endpoint = HandoffEndpoint::new(path, SocketType::Auto).unwrap();
    let front = Peer::front(([127, 0, 0, 1], 0).into(), endpoint).unwrap();
    let mut client = TcpStream::connect(front.address().unwrap()).unwrap();
    let front = front.start(Delays::new(&[], Stall::default())).unwrap();
    client.write_all(request.as_bytes()).unwrap();
    (front, client)
}

#[test]
fn the_daemon_gets_the_body_and_answers_the_client_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.sock");
    let daemon = daemon(&path);
    let post = "POST /v1/chat HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{\"prompt\":1}";
    for (request, payload) in [
        (post, r#"{"prompt":1}"#),
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", DEFAULT_DATA),
    ] {
        let (front, mut client) = asked(&path, request);
        let (handed, mut taken) = taken(&daemon);
        assert_eq!(handed, payload);
        // The front has no part in it any more.
        front.stop().unwrap();
        taken.write_all(b"answer").unwrap();
        drop(taken);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    }
}

#[test]
fn without_a_daemon_the_client_is_answered_with_503() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("daemon.sock");
    let (_front, mut client) = asked(&path, "GET / HTTP/1.1\r\n\r\n");
    client.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
}
