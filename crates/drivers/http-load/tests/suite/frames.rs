//! Frames of HTTP/2, for servers that a test plays.

mod text;

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;

pub(crate) use text::frames;

/// Types of frames (RFC 9113 §6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
/// Flags.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
/// The preface of a client (RFC 9113 §3.4), in bytes.
const PREFACE: usize = 24;

pub(crate) fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &id.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Builds a GOAWAY without an error.
pub(crate) fn goaway(last: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat())
}

/// Begins a connection: reads the preface of the client, and sends settings.
pub(crate) fn begin(stream: &mut TcpStream) -> io::Result<()> {
    // An answer has several frames, which must not wait for an acknowledgement of the first.
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0; PREFACE])?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))
}

/// Reads frames up to the head of a request, and returns the number of its stream. Acknowledges settings.
pub(crate) fn next_request(stream: &mut TcpStream) -> io::Result<u32> {
    Ok(next_block(stream)?.0)
}

/// Returns the header block too.
pub(crate) fn next_block(stream: &mut TcpStream) -> io::Result<(u32, Vec<u8>)> {
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        match (head[3], head[4]) {
            (HEADERS, _) => {
                let id = [head[5], head[6], head[7], head[8]];
                return Ok((u32::from_be_bytes(id), payload));
            }
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            _ => {}
        }
    }
}
