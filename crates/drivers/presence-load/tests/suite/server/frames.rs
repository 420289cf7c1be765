//! WebSocket as a server speaks it: the handshake, and frames of text.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use tungstenite::handshake::derive_accept_key;

/// Reads the handshake of WebSocket and answers it. Returns its key.
pub(super) fn upgrade(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let (_, key) = fields.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"))?;
    let accept = derive_accept_key(key.as_bytes());
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    stream.write_all(response.as_bytes()).ok()?;
    Some(key.to_owned())
}

/// The frames of a client.
pub(super) struct Frames {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Frames {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            unread: Vec::new(),
        }
    }

    /// Returns the next text message, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let [first, length] = self.take(2)?.try_into().ok()?;
            let length = match length & 0x7f {
                126 => u16::from_be_bytes(self.take(2)?.try_into().ok()?).into(),
                127 => return None,
                length => usize::from(length),
            };
            let mask = self.take(4)?;
            let mut payload = self.take(length)?;
            let masked = payload.iter_mut().zip(mask.iter().cycle());
            masked.for_each(|(byte, key)| *byte ^= key);
            match first & 0x0f {
                1 => return String::from_utf8(payload).ok(),
                8 => return None,
                _ => {}
            }
        }
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let mut buffer = [0; 4096];
        while self.unread.len() < length {
            let read = self
                .stream
                .read(&mut buffer)
                .ok()
                .filter(|read| *read > 0)?;
            self.unread.extend_from_slice(&buffer[..read]);
        }
        let rest = self.unread.split_off(length);
        Some(std::mem::replace(&mut self.unread, rest))
    }
}

/// Sends a text frame.
pub(super) fn send(stream: &mut TcpStream, text: &str) {
    let mut frame = vec![0x81];
    match text.len() {
        length @ ..=125 => frame.push(length as u8),
        length => {
            frame.push(126);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(text.as_bytes());
    // A client that has gone is noticed by its reader.
    let _ = stream.write_all(&frame);
}
