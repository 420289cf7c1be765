//! Incremental parser of HTTP/1.1 responses. It does no I/O, reads no clock, and allocates only if a head arrives in
//! pieces.
//!
//! Source: RFC 9112; sections are cited where they decide. Where the RFC leaves a choice to the client:
//!
//! - `Transfer-Encoding` and `Content-Length` together are a fault ([`ResponseError::Length`]): §6.3 lets the first win
//!   and says that the message "ought to be handled as an error"; a measured server has no excuse, and the rest of the
//!   connection can't be trusted.
//! - Any transfer coding except a single `chunked` is a fault ([`ResponseError::Coding`]): drivers send no `TE`, so none
//!   may be applied (§6.1, §7.4). So is `Transfer-Encoding` of HTTP/1.0.
//! - In a head, a bare LF ends a line (§2.2), folded fields are accepted (§5.2), empty lines before it are skipped, and
//!   the reason phrase may be missing together with its space (§4). A space before the colon is a fault (§5.1).
//! - In chunks and trailers, only CRLF ends a line, and folding is not accepted.
//! - Fields that frame a body are ignored if there can't be one: `HEAD`, 204, 304.
//!
//! hyper accepts the same (`tests/suite/answers.rs` of `http-load`) if it is built with
//! `allow_obsolete_multiline_headers_in_responses(true)` and `max_header_size(64 KiB)`, and if its leniencies are
//! checked afterwards: 101, both framings together, codings other than `chunked`. The remaining differences are rare,
//! and all but the last are errors for both:
//!
//! | response | here | hyper |
//! | --- | --- | --- |
//! | `Content-Length` of 2^64 − 1 or − 2 | `early_close` | `protocol_head_too_large`: reserves these values |
//! | LF alone after the last chunk | `protocol_trailer` | `early_close`: waits for CR |
//! | more than 100 trailers | fine | `protocol_trailer` |

mod chunks;
mod fault;
mod field;
mod head;

use self::chunks::ChunkState;
pub use self::fault::{EARLY_CLOSE, KINDS, Missing, ResponseError};
pub use self::field::parse_field;
use self::head::{Body, Parsed};

/// The facts about a request that the parser needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// True for `HEAD`, whose responses have no body (RFC 9112 §6.3).
    pub head: bool,
}

/// A receiver of the parts of a response. `()` ignores everything and costs nothing.
pub trait Sink {
    /// Receives the head: once per response, never of an interim one, and only if it frames the body correctly. The
    /// value of a folded field contains its line ends.
    fn head(&mut self, _status: u16, _headers: &[httparse::Header<'_>]) {}

    /// Receives a piece of the body, without chunk framing; never empty.
    fn body(&mut self, _piece: &[u8]) {}
}

impl Sink for () {}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The status code, 100 to 999.
    pub status: u16,
    /// Length of the body in bytes, without chunk framing.
    pub body: u64,
    /// True if the connection may be used for another request (RFC 9112 §9.3).
    pub keep_alive: bool,
}

/// The result of parsing some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to this response: all, unless it is complete. The rest belongs to the next one, if one was
    /// requested.
    pub used: usize,
    /// The response, once it is complete.
    pub done: Option<Answer>,
}

/// The parser's state, in 24 bytes. After a complete response it is ready for the next one.
///
/// It must not be used after a fault: the rest of the connection can't be interpreted.
#[derive(Debug)]
pub struct Reader {
    state: ReaderState,
}

/// The parts of the [`Answer`] that are known from its head.
#[derive(Debug, Clone, Copy)]
struct Facts {
    status: u16,
    keep_alive: bool,
}

#[derive(Debug)]
enum ReaderState {
    Head {
        #[expect(
            clippy::box_collection,
            reason = "a Vec is 24 bytes, and of a million readers nearly none holds one"
        )]
        held: Option<Box<Vec<u8>>>,
        /// True after an interim response.
        interim: bool,
    },
    Sized {
        facts: Facts,
        length: u64,
        left: u64,
    },
    UntilClose {
        facts: Facts,
        body: u64,
    },
    Chunked {
        facts: Facts,
        at: ChunkState,
        extra: u16,
        left: u64,
        body: u64,
    },
}

const START: ReaderState = ReaderState::Head {
    held: None,
    interim: false,
};

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Creates a parser before the first byte of a response.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: START }
    }

    /// Parses received bytes, up to the end of the response. Interim responses (1xx but 101) are skipped.
    ///
    /// # Errors
    /// The fault of the response. It does not depend on how the bytes are split; it may come with a later call, but not
    /// later than [`Reader::end`].
    #[inline]
    pub fn take(
        &mut self,
        asked: RequestInfo,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<Progress, ResponseError> {
        let mut used = 0;
        while let ReaderState::Head { .. } = self.state {
            if used == bytes.len() {
                return Ok(Progress { used, done: None });
            }
            used += self.take_head(asked, &bytes[used..], sink)?;
        }
        let (of_body, done) = self.take_body(&bytes[used..], sink)?;
        if done.is_some() {
            self.state = START;
        }
        Ok(Progress {
            used: used + of_body,
            done,
        })
    }

    /// Returns true if the head was read, and the body ends when the server closes.
    #[must_use]
    pub const fn is_until_close(&self) -> bool {
        matches!(self.state, ReaderState::UntilClose { .. })
    }

    /// Ends the input, since the server has closed: completes a response that is delimited by the close.
    ///
    /// # Errors
    /// The missing part; or the fault of an incomplete head.
    pub fn end(&mut self) -> Result<Answer, ResponseError> {
        let early = |missing| Err(ResponseError::Early { missing });
        match std::mem::replace(&mut self.state, START) {
            ReaderState::Head {
                held: Some(held), ..
            } => {
                head::parse(RequestInfo { head: false }, &held, &mut ())?;
                early(Missing::Head)
            }
            ReaderState::Head { interim: true, .. } => early(Missing::Head),
            ReaderState::Head { .. } => early(Missing::Everything),
            ReaderState::Sized { left, .. } => early(Missing::Body(left)),
            ReaderState::Chunked { .. } => early(Missing::Chunks),
            ReaderState::UntilClose { facts, body } => Ok(answer(facts, body)),
        }
    }

    /// Parses more of a head; returns the number of bytes that belong to it.
    #[inline]
    fn take_head(
        &mut self,
        asked: RequestInfo,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, ResponseError> {
        let ReaderState::Head { held, interim } = &mut self.state else {
            return Ok(0);
        };
        let (parsed, before) = match held {
            None => (head::parse(asked, bytes, sink)?, 0),
            Some(held) => {
                let before = held.len();
                let piece = &bytes[..bytes.len().min(head::LIMIT - before)];
                held.extend_from_slice(piece);
                // A head can only end at a line end, so it is not parsed again for each byte.
                if !piece.contains(&b'\n') && held.len() < head::LIMIT {
                    return Ok(bytes.len());
                }
                (head::parse(asked, held, sink)?, before)
            }
        };
        match parsed {
            Parsed::Cut => {
                if held.is_none() {
                    *held = Some(Box::new(bytes.to_vec()));
                }
                Ok(bytes.len())
            }
            Parsed::Interim { length } => {
                *held = None;
                *interim = true;
                Ok(length - before)
            }
            Parsed::Final {
                length,
                facts,
                body,
            } => {
                self.state = ReaderState::from_body(facts, body);
                Ok(length - before)
            }
        }
    }

    /// Parses more of a body; returns the number of bytes that belong to it, and the response if it ends there.
    #[inline]
    fn take_body(
        &mut self,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, Option<Answer>), ResponseError> {
        match &mut self.state {
            ReaderState::Head { .. } => Ok((0, None)),
            ReaderState::Sized {
                facts,
                length,
                left,
            } => {
                let used = give(bytes, *left, sink);
                *left -= used as u64;
                let done = (*left == 0).then(|| answer(*facts, *length));
                Ok((used, done))
            }
            ReaderState::UntilClose { body, .. } => {
                *body += give(bytes, u64::MAX, sink) as u64;
                Ok((bytes.len(), None))
            }
            ReaderState::Chunked {
                facts,
                at,
                extra,
                left,
                body,
            } => {
                let mut used = 0;
                while used < bytes.len() {
                    if *at == ChunkState::Data {
                        let piece = give(&bytes[used..], *left, sink);
                        used += piece;
                        *body += piece as u64;
                        *left -= piece as u64;
                        if *left == 0 {
                            *at = ChunkState::DataCr;
                        }
                    } else {
                        *at = at.next(bytes[used], left, extra)?;
                        used += 1;
                        if *at == ChunkState::End {
                            return Ok((used, Some(answer(*facts, *body))));
                        }
                    }
                }
                Ok((used, None))
            }
        }
    }
}

impl ReaderState {
    #[inline]
    fn from_body(facts: Facts, body: Body) -> Self {
        match body {
            Body::Sized(length) => Self::Sized {
                facts,
                length,
                left: length,
            },
            Body::Chunked => Self::Chunked {
                facts,
                at: ChunkState::First,
                extra: 0,
                left: 0,
                body: 0,
            },
            Body::UntilClose => Self::UntilClose { facts, body: 0 },
        }
    }
}

#[inline]
fn answer(facts: Facts, body: u64) -> Answer {
    Answer {
        status: facts.status,
        body,
        keep_alive: facts.keep_alive,
    }
}

/// Passes at most `left` of the bytes to the sink; returns their number.
fn give(bytes: &[u8], left: u64, sink: &mut impl Sink) -> usize {
    let length = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    if length > 0 {
        sink.body(&bytes[..length]);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_takes_no_more_than_24_bytes() {
        assert!(size_of::<Reader>() <= 24, "{}", size_of::<Reader>());
    }
}
