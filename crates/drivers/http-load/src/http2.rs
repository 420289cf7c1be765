//! The client's side of a connection of HTTP/2 (RFC 9113), without I/O and without a clock: bytes of the server go in,
//! events come out, and so do bytes for the server.
//!
//! - Streams are opened up to the server's limit, and up to 100 until it has named one (§6.5.2 recommends no fewer).
//! - The server may send nearly 1 GiB before it must wait, on each stream and on the connection. So a WINDOW_UPDATE is
//!   rare, and what is measured is not the client's flow control. h2load does the same.
//! - Frames of up to 16 KiB are sent and accepted; all sizes that a server may announce allow that.
//! - A malformed response (§8.1.1) fails alone: its stream is reset. So does a stream that the server resets. Anything
//!   else that is wrong is a [`Fault`], after which the connection can't be used.
//! - Values of fields are decoded if they are needed; what is wrong only in another Huffman code stays unnoticed.

mod blocks;
mod frame;
mod hpack;
mod receive;
mod response;
mod send;
mod streams;
#[cfg(test)]
mod tests;

use bytes::Bytes;

use self::frame::{FrameHead, code, kind, setting};
use self::hpack::Decoder;
use self::response::OpenBlock;
use self::streams::Streams;

pub(crate) use self::blocks::{OwnPart, RequestBlocks, Table};
pub(crate) use self::frame::Fault;

/// The beginning of a connection (§3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The bytes that the server may send on a stream, and on the connection, before it is told to go on.
const WINDOW: u32 = (1 << 30) - 1;
/// The window of a connection, and of a stream before settings, in bytes (§6.9.2).
const INITIAL_WINDOW: u32 = 65_535;
/// Number of open streams before the server has named its limit.
const INITIAL_STREAMS: usize = 100;
/// Number of unsent bytes from which on no more requests are added.
const ENOUGH_UNSENT: usize = 64 * 1024;
/// Number of unsent bytes at which the server is accused of a flood: it makes the client answer, and does not read.
const MOST_UNSENT: usize = 4 * ENOUGH_UNSENT;
/// The highest number of a stream (§5.1.1).
const LAST_STREAM: u32 = 0x7fff_ffff;

/// A receiver of the parts of responses. It gets the item of their stream.
pub(crate) trait Sink<T> {
    /// Receives the status of a head that is not interim.
    fn head(&mut self, _item: &mut T, _status: u16) {}

    /// Returns true if the value of a field with this name is needed.
    fn needs(&self, _name: &[u8]) -> bool {
        false
    }

    /// Receives a field that is needed, of a head that is not interim.
    fn field(&mut self, _item: &mut T, _name: &[u8], _value: &[u8]) {}

    /// Receives a piece of a body; never empty.
    ///
    /// # Errors
    /// The kind of failure of a stream that is not needed any more: it is reset.
    fn body(&mut self, _item: &mut T, _piece: &[u8]) -> Result<(), &'static str> {
        Ok(())
    }
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Length of the body in bytes.
    pub(crate) body: u64,
}

/// The end of a stream, or of the time in which streams can be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<T> {
    Answered(T, Response),
    /// The stream failed, with the kind of the failure; the connection goes on.
    Failed(T, &'static str),
    /// The server has not looked at the request, so it can be repeated (§8.7).
    Refused(T),
    /// No more streams can be opened, and some may be [excluded](Connection::pop_excluded).
    Closing,
}

/// The rest of a frame that is handled piece by piece.
#[derive(Debug)]
enum Input {
    Frame,
    /// Data of a stream, with the number of bytes that are left, and of padding after them.
    Data {
        stream: u32,
        left: usize,
        padding: usize,
        ends: bool,
    },
    Ignored(usize),
}

/// A connection whose streams each have an item.
#[derive(Debug)]
pub(crate) struct Connection<T> {
    input: Input,
    /// The beginning of a frame that is not complete.
    held: Vec<u8>,
    /// A header block whose end has not come.
    block: Option<Box<OpenBlock>>,
    decoder: Decoder,
    streams: Streams<T>,
    /// The rest of the bodies of requests that are not sent, by stream.
    uploads: Vec<(u32, Bytes)>,
    /// The number of the next stream.
    next: u32,
    /// The highest stream that the server serves, after a GOAWAY.
    last: Option<u32>,
    has_settings: bool,
    /// True once a stream was given up that the server may still serve.
    has_reset: bool,
    table: Table,
    most_streams: usize,
    initial_window: i64,
    window: i64,
    /// Number of received bytes that the server has not been told of.
    unreported: u32,
    out: Vec<u8>,
    /// Number of bytes of `out` that were sent.
    sent: usize,
}

impl<T> Connection<T> {
    /// Creates a connection whose first bytes are to be sent. With a table that is unused, its requests may be of several
    /// blocks.
    pub(crate) fn new(table: Table) -> Self {
        let mut out = PREFACE.to_vec();
        let settings = [
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, WINDOW),
        ];
        let head = FrameHead {
            length: 6 * settings.len(),
            kind: kind::SETTINGS,
            flags: 0,
            stream: 0,
        };
        head.put(&mut out);
        for (setting, value) in settings {
            out.extend_from_slice(&setting.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        frame::put_number(&mut out, kind::WINDOW_UPDATE, 0, WINDOW - INITIAL_WINDOW);
        Self {
            input: Input::Frame,
            held: Vec::new(),
            block: None,
            decoder: Decoder::new(),
            streams: Streams::new(),
            uploads: Vec::new(),
            next: 1,
            last: None,
            has_settings: false,
            has_reset: false,
            table,
            most_streams: INITIAL_STREAMS,
            initial_window: INITIAL_WINDOW.into(),
            window: INITIAL_WINDOW.into(),
            unreported: 0,
            out,
            sent: 0,
        }
    }

    /// Returns the bytes to send next.
    pub(crate) fn output(&self) -> &[u8] {
        &self.out[self.sent..]
    }

    /// Removes the first bytes of the output, which were sent.
    pub(crate) fn advance(&mut self, length: usize) {
        self.sent += length;
        if self.sent == self.out.len() {
            self.sent = 0;
            self.out.clear();
            // Room for a few requests is kept, not for bodies.
            self.out.shrink_to(4096);
        }
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns true if the connection takes no more streams, and ends with those that are open.
    pub(crate) fn is_closing(&self) -> bool {
        self.last.is_some() || self.next > LAST_STREAM
    }

    /// Returns true if a stream can be opened now.
    pub(crate) fn can_open(&self) -> bool {
        !self.is_closing()
            && self.streams.len() < self.most_streams
            && self.output().len() < ENOUGH_UNSENT
    }

    /// Returns the number and the item of the stream that was opened first.
    pub(crate) fn first(&self) -> Option<(u32, &T)> {
        self.streams.first()
    }

    /// Returns the item with the least key. It looks at all.
    pub(crate) fn min_by_key(&self, key: impl Fn(&T) -> u64) -> Option<(u32, &T)> {
        self.streams.iter().min_by_key(|(_, item)| key(item))
    }

    /// Gives up a stream, and tells the server.
    pub(crate) fn cancel(&mut self, id: u32) -> Option<T> {
        self.reset(id, code::CANCEL)
    }

    /// Removes a stream that a GOAWAY excludes.
    pub(crate) fn pop_excluded(&mut self) -> Option<T> {
        let stream = self.streams.pop_above(self.last?)?;
        self.has_reset = true;
        Some(stream.item)
    }

    /// Removes a stream, since the connection has ended.
    pub(crate) fn pop(&mut self) -> Option<T> {
        Some(self.streams.pop_above(0)?.item)
    }

    /// Tells the server why the connection ends.
    pub(crate) fn abort(&mut self, fault: Fault) {
        let head = FrameHead {
            length: 8,
            kind: kind::GOAWAY,
            flags: 0,
            stream: 0,
        };
        head.put(&mut self.out);
        self.out.extend_from_slice(&[0; 4]);
        self.out.extend_from_slice(&fault.code().to_be_bytes());
    }

    fn reset(&mut self, id: u32, code: u32) -> Option<T> {
        let stream = self.streams.remove(id)?;
        self.end_upload(id);
        self.has_reset = true;
        frame::put_number(&mut self.out, kind::RST_STREAM, id, code);
        Some(stream.item)
    }
}
