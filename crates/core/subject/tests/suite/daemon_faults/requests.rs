//! A request of each protocol: written as one piece, answered as the protocol says.

use std::io::{self, BufRead as _, BufReader, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, connect, sendmsg, socket,
};

use super::Subject;

/// Time for an answer: a daemon that answers nothing is noticed on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Subject {
    /// Makes a request of its protocol. A broker stores a message and the issue daemon an issue; returns how many are
    /// stored then, and 0 for daemons that store nothing.
    pub(super) fn request(&self) -> io::Result<u64> {
        match self.protocol {
            "fdpass" => self.hand_over().and_then(expect_stream),
            "amqp" => publish(self.connect()?),
            "http" => self.get("/1kb.txt", "\r\n\r\n"),
            "presence" => self.get("/socket.io/?EIO=4&transport=polling", "\"sid\""),
            "issue" => create_issue(UnixStream::connect(self.socket())?),
            other => unreachable!("{other} has no request"),
        }
    }

    /// Connects to the port of clients.
    pub(super) fn connect(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.port()))?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(stream)
    }

    fn get(&self, path: &str, part: &str) -> io::Result<u64> {
        let answer = get(([127, 0, 0, 1], self.port()).into(), path)?;
        let is_whole = answer.starts_with("HTTP/1.1 200") && answer.contains(part);
        is_whole
            .then_some(0)
            .ok_or_else(|| io::Error::other(answer))
    }

    /// Passes the end of a socket pair, and returns the other.
    pub(super) fn hand_over(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        pass(&handoff(&self.socket())?, &[theirs.as_raw_fd()])?;
        Ok(ours)
    }
}

/// Returns a page, with its head.
pub(super) fn get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Connects to a handoff socket.
pub(super) fn handoff(path: &Path) -> io::Result<OwnedFd> {
    let sender = socket(
        AddressFamily::Unix,
        SockType::SeqPacket,
        SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    connect(sender.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(sender)
}

/// Sends a message with descriptors, or without any.
pub(super) fn pass(sender: &OwnedFd, clients: &[RawFd]) -> io::Result<usize> {
    let control = [ControlMessage::ScmRights(clients)];
    let control = if clients.is_empty() {
        &[]
    } else {
        &control[..]
    };
    let payload = [IoSlice::new(b"{}")];
    let flags = MsgFlags::MSG_NOSIGNAL;
    Ok(sendmsg::<()>(
        sender.as_raw_fd(),
        &payload,
        control,
        flags,
        None,
    )?)
}

fn expect_stream(mut client: UnixStream) -> io::Result<u64> {
    client.set_read_timeout(Some(TIMEOUT))?;
    let mut answer = String::new();
    client.read_to_string(&mut answer)?;
    let is_whole = answer.starts_with("HTTP/1.1 200") && answer.contains("[DONE]");
    is_whole
        .then_some(0)
        .ok_or_else(|| io::Error::other(answer))
}

/// Lines that store an issue and count all of them.
pub(super) const CREATE_ISSUE: &[u8] =
    b"{\"operation\":\"create\",\"args\":{\"title\":\"a\"},\"actor\":\"me\"}\n\
    {\"operation\":\"count\",\"args\":{},\"actor\":\"me\"}\n";

fn create_issue(mut stream: UnixStream) -> io::Result<u64> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(CREATE_ISSUE)?;
    let mut lines = BufReader::new(stream).lines();
    let mut counted = None;
    for _ in 0..2 {
        let line = lines.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        if !line.contains("\"success\":true") {
            return Err(io::Error::other(line));
        }
        counted = number_behind(&line, "\"count\":");
    }
    counted.ok_or_else(|| io::Error::other("no count"))
}

fn number_behind(text: &str, key: &str) -> Option<u64> {
    let (_, rest) = text.split_once(key)?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest[..end].parse().ok()
}

/// Returns the bytes of a client that logs in, declares a queue, and publishes a persistent message with a confirm.
pub(super) fn publishing() -> Vec<u8> {
    let mut bytes = b"AMQP\0\0\x09\x01".to_vec();
    let mut frame = |kind: u8, channel: u16, payload: &[&[u8]]| {
        let payload = payload.concat();
        bytes.push(kind);
        bytes.extend(channel.to_be_bytes());
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        bytes.push(0xCE);
    };
    // connection.start-ok, tune-ok and open, channel.open
    let login = b"\x05PLAIN\0\0\0\x0c\0guest\0guest\x05en_US";
    frame(1, 0, &[&[0, 10, 0, 11, 0, 0, 0, 0], login]);
    frame(1, 0, &[&[0, 10, 0, 31, 0, 8, 0, 2, 0, 0, 0, 0]]);
    frame(1, 0, &[&[0, 10, 0, 40], b"\x01/\0\0"]);
    frame(1, 1, &[&[0, 20, 0, 10, 0]]);
    // queue.declare (durable), confirm.select, basic.publish with its header (persistent) and body
    frame(1, 1, &[&[0, 50, 0, 10, 0, 0], b"\x04kept\x02\0\0\0\0"]);
    frame(1, 1, &[&[0, 85, 0, 10, 0]]);
    frame(1, 1, &[&[0, 60, 0, 40, 0, 0, 0], b"\x04kept\0"]);
    frame(2, 1, &[&[0, 60, 0, 0], &4_u64.to_be_bytes(), &[0x10, 0, 2]]);
    frame(3, 1, &[b"body"]);
    bytes
}

/// Publishes a message, and waits for its confirm. Returns the messages in the queue.
fn publish(mut stream: TcpStream) -> io::Result<u64> {
    stream.write_all(&publishing())?;
    let mut stored = 0;
    loop {
        let mut head = [0; 7];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes(head[3..].try_into().unwrap());
        let mut payload = vec![0; length as usize + 1];
        stream.read_exact(&mut payload)?;
        match (head[0], &payload[..payload.len().min(4)]) {
            // queue.declare-ok: the name, the messages, and the consumers
            (1, [0, 50, 0, 11]) => {
                let count = payload[9..13].try_into().unwrap();
                stored = u64::from(u32::from_be_bytes(count)) + 1;
            }
            // basic.ack
            (1, [0, 60, 0, 80]) => return Ok(stored),
            // connection.close, channel.close, basic.nack
            (1, [0, 10, 0, 50] | [0, 20, 0, 40] | [0, 60, 0, 120]) => {
                return Err(io::Error::other(String::from_utf8_lossy(&payload)));
            }
            _ => {}
        }
    }
}
