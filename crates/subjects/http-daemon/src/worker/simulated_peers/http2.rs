//! The frames of a simulated client of HTTP/2 (RFC 9113), with as much of HPACK (RFC 7541) as its requests need.

use std::collections::BTreeMap;

use super::{Ask, BODY, Body, Expected};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();
/// The statuses that HPACK has in its static table, from index 8 on.
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
/// The window of the connection, so large that a stream that is not read does not hold up others.
const WINDOW: u32 = 1 << 24;
/// Streams that a client resets at most: with many, the daemon ends the connection.
const RESETS: usize = 10;

/// A connection as its client sees it.
#[derive(Debug, Default)]
pub(super) struct Http2 {
    streams: BTreeMap<u32, Stream>,
    next: u32,
    resets: usize,
}

#[derive(Debug)]
struct Stream {
    status: u16,
    body: Body,
    received: Vec<u8>,
    is_withheld: bool,
    /// Bytes that were received and not returned to the daemon's window.
    owed: u32,
    /// The stream must have no response.
    is_stalled: bool,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn window_update(stream: u32, bytes: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
}

/// Appends a field without compression: its name by the index in the static table, and its value.
fn field(block: &mut Vec<u8>, name: u8, value: &str) {
    block.extend([name, value.len() as u8]);
    block.extend_from_slice(value.as_bytes());
}

impl Http2 {
    /// Returns the beginning of a connection.
    pub(super) fn preface() -> Vec<u8> {
        let settings = frame(SETTINGS, 0, 0, &[]);
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        [&preface[..], &settings, &window_update(0, WINDOW)].concat()
    }

    /// Returns the number of streams that wait for the rest of their response.
    pub(super) fn waiting(&self) -> usize {
        let streams = self.streams.values();
        streams.filter(|stream| !stream.is_stalled).count()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    /// Makes a request, if it is one that both versions have.
    pub(super) fn request(&mut self, ask: Ask, id: u64, out: &mut Vec<u8>) {
        let is_stalled = ask == Ask::Stall;
        let (status, body) = match ask.expected(id) {
            Expected::Nothing => (0, Body::Bytes(Vec::new())),
            // It needs the socket itself.
            Expected::Bytes(_) | Expected::Anything | Expected::Answer(400 | 431 | 501, _) => {
                return;
            }
            Expected::Answer(status, body) => (status, body),
        };
        let number = 2 * self.next + 1;
        self.next += 1;
        let has_body = matches!(body, Body::Echo(_));
        let mut block = Vec::new();
        match ask {
            Ask::Head(_) => field(&mut block, 2, "HEAD"),
            Ask::Post(_) => block.push(0x83),
            _ if has_body => block.push(0x83),
            _ => block.push(0x82),
        }
        block.push(0x86);
        field(&mut block, 1, "a");
        field(&mut block, 4, &ask.path(id));
        if let Ask::Part(_) = ask {
            // `range`, which has index 50.
            block.extend(*b"\x0f\x23\x08bytes=1-");
        }
        let flags = if has_body { 0 } else { END_STREAM };
        out.extend(frame(HEADERS, flags | END_HEADERS, number, &block));
        if has_body {
            out.extend(frame(DATA, END_STREAM, number, &[b'b'; BODY]));
        }
        let stream = Stream {
            status,
            body,
            received: Vec::new(),
            is_withheld: false,
            owed: 0,
            is_stalled,
        };
        self.streams.insert(number, stream);
    }

    /// Takes all whole frames.
    pub(super) fn take(&mut self, received: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), String> {
        let mut at = 0;
        while let Some(head) = received.get(at..at + 9) {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let Some(payload) = received.get(at + 9..at + 9 + length) else {
                break;
            };
            self.frame(kind, flags, number, payload, out)?;
            at += 9 + length;
        }
        received.drain(..at);
        Ok(())
    }

    fn frame(
        &mut self,
        kind: u8,
        flags: u8,
        number: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        match kind {
            SETTINGS if flags & ACK == 0 => out.extend(frame(SETTINGS, ACK, 0, &[])),
            PING if flags & ACK == 0 => out.extend(frame(PING, ACK, 0, payload)),
            DATA | HEADERS if number > 2 * self.next => {
                return Err(format!("a frame of stream {number}, which was not begun"));
            }
            DATA => {
                let length = payload.len() as u32;
                if length > 0 {
                    out.extend(window_update(0, length));
                }
                // A stream that was reset may still receive.
                if let Some(stream) = self.streams.get_mut(&number) {
                    stream.received.extend_from_slice(payload);
                    stream.owed += length;
                }
            }
            HEADERS => {
                if let Some(stream) = self.streams.get(&number) {
                    let index =
                        usize::from(payload.first().copied().unwrap_or(0)).wrapping_sub(0x88);
                    let status = STATUSES.get(index).copied().unwrap_or(stream.status);
                    if status != stream.status || stream.is_stalled {
                        return Err(format!("the status {status} for {stream:?}"));
                    }
                }
            }
            RST_STREAM if self.streams.contains_key(&number) => {
                return Err(format!("stream {number} was reset: {payload:?}"));
            }
            GOAWAY if payload.get(4..8) != Some(&[0; 4]) => {
                return Err(format!(
                    "the daemon ended the connection: {}",
                    payload.escape_ascii()
                ));
            }
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            if let Some(stream) = self.streams.remove(&number) {
                stream.body.check(&stream.received)?;
            }
        } else {
            self.update_windows(out);
        }
        Ok(())
    }

    fn update_windows(&mut self, out: &mut Vec<u8>) {
        let owing = |(_, stream): &(&u32, &mut Stream)| stream.owed > 0 && !stream.is_withheld;
        for (number, stream) in self.streams.iter_mut().filter(owing) {
            out.extend(window_update(*number, stream.owed));
            stream.owed = 0;
        }
    }

    pub(super) fn reset_last(&mut self, out: &mut Vec<u8>) {
        if self.resets < RESETS
            && let Some((number, _)) = self.streams.pop_last()
        {
            self.resets += 1;
            out.extend(frame(RST_STREAM, 0, number, &CANCEL));
        }
    }

    pub(super) fn withhold_last(&mut self) {
        if let Some(mut last) = self.streams.last_entry() {
            last.get_mut().is_withheld = true;
        }
    }

    pub(super) fn release(&mut self, out: &mut Vec<u8>) {
        for stream in self.streams.values_mut() {
            stream.is_withheld = false;
        }
        self.update_windows(out);
    }
}
