//! Reads an HTTP/1.1 answer from the pieces that it comes in. No socket, no clock; no allocation unless a head is cut.
//!
//! Source: RFC 9112; sections are named where they decide. Where it leaves a choice to the client:
//!
//! - `Transfer-Encoding` and `Content-Length` together are a fault ([`Fault::Length`]): §6.3 lets the first win and says
//!   that the message "ought to be handled as an error"; a measured server has no excuse, and what follows on the
//!   connection can't be trusted.
//! - Any transfer coding but one `chunked` is a fault ([`Fault::Coding`]): the driver sends no `TE`, so none may be
//!   applied (§6.1, §7.4). So is `Transfer-Encoding` of HTTP/1.0.
//! - In a head a bare LF ends a line (§2.2), folded fields are read (§5.2), empty lines before it are skipped, and the
//!   reason phrase may be missing together with its space (§4). A space before the colon is a fault (§5.1).
//! - In chunks and trailers only CRLF ends a line, and nothing is folded.
//! - Fields that frame a body are not looked at where none may come: `HEAD`, 204, 304.
//!
//! hyper reads the same (`tests/answers.rs`) if it is built with `allow_obsolete_multiline_headers_in_responses(true)` and
//! `max_header_size(64 KiB)`, and if what it lets pass is looked at afterwards: 101, both framings together, codings but
//! `chunked`. What then still differs is rare, and an error to both but for the last:
//!
//! | answer | here | hyper |
//! | --- | --- | --- |
//! | `Content-Length` of 2^64 − 1 or − 2 | `early_close` | `protocol_head_too_large`: it means something else by them |
//! | LF alone after the last chunk | `protocol_trailer` | `early_close`: it waits for CR |
//! | more than 100 trailers | fine | `protocol_trailer` |

mod chunks;
mod fault;
mod head;

use self::chunks::At;
pub use self::fault::{Fault, KINDS, Missing};
use self::head::{Body, Parsed};

/// What an answer is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// `HEAD`, whose answers have no body (RFC 9112 §6.3).
    pub head: bool,
}

/// Gets what the caller wants to look at; `()` looks at nothing and costs nothing.
pub trait Sink {
    /// The head of the answer: once for each, never of an interim one, and only if it frames a body correctly. The value
    /// of a folded field holds its line ends.
    fn head(&mut self, _status: u16, _headers: &[httparse::Header<'_>]) {}

    /// A piece of the content, without the framing of chunks; never empty.
    fn body(&mut self, _piece: &[u8]) {}
}

impl Sink for () {}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// 100 to 999.
    pub status: u16,
    /// Bytes of content, without the framing of chunks.
    pub body: u64,
    /// Whether the connection may be used for another request (RFC 9112 §9.3).
    pub keep_alive: bool,
}

/// What became of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that belong to this answer: all, unless it is done. The rest belongs to the next one, if any was asked for.
    pub used: usize,
    /// The answer, once it is complete.
    pub done: Option<Answer>,
}

/// Where the reading of one answer stands: 24 bytes. When one is done, it stands before the next.
///
/// After a fault it must not be used again: what follows on the connection can't be told apart.
#[derive(Debug)]
pub struct Reader {
    state: State,
}

/// What goes into the [`Answer`] and is known with its head.
#[derive(Debug, Clone, Copy)]
struct Facts {
    status: u16,
    keep_alive: bool,
}

#[derive(Debug)]
enum State {
    Head {
        #[expect(
            clippy::box_collection,
            reason = "a Vec is 24 bytes, and of a million readers nearly none holds one"
        )]
        held: Option<Box<Vec<u8>>>,
        /// An interim answer came.
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
        at: At,
        extra: u16,
        left: u64,
        body: u64,
    },
}

const START: State = State::Head {
    held: None,
    interim: false,
};

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Before the first byte of an answer.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: START }
    }

    /// Whether nothing of the answer has come yet, no interim answer either.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        matches!(
            self.state,
            State::Head {
                held: None,
                interim: false
            }
        )
    }

    /// Takes bytes that came, up to the end of the answer. Interim answers (1xx but 101) are skipped.
    ///
    /// # Errors
    /// What makes the answer unreadable. How the bytes are cut has no influence on which fault it is; it may come
    /// with a later call, but not later than [`Reader::end`].
    #[inline]
    pub fn take(
        &mut self,
        asked: Asked,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<Progress, Fault> {
        let mut used = 0;
        while let State::Head { .. } = self.state {
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

    /// The server has closed its side: completes an answer that is delimited by that.
    ///
    /// # Errors
    /// What is missing; or, of a head that is cut, what is wrong with it.
    pub fn end(&mut self) -> Result<Answer, Fault> {
        let early = |missing| Err(Fault::Early { missing });
        match std::mem::replace(&mut self.state, START) {
            State::Head {
                held: Some(held), ..
            } => {
                head::parse(Asked { head: false }, &held, &mut ())?;
                early(Missing::Head)
            }
            State::Head { interim: true, .. } => early(Missing::Head),
            State::Head { .. } => early(Missing::Everything),
            State::Sized { left, .. } => early(Missing::Body(left)),
            State::Chunked { .. } => early(Missing::Chunks),
            State::UntilClose { facts, body } => Ok(answer(facts, body)),
        }
    }

    /// Reads on in a head; returns how many of the bytes belong to it.
    #[inline]
    fn take_head(
        &mut self,
        asked: Asked,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<usize, Fault> {
        let State::Head { held, interim } = &mut self.state else {
            return Ok(0);
        };
        let (parsed, before) = match held {
            None => (head::parse(asked, bytes, sink)?, 0),
            Some(held) => {
                let before = held.len();
                let piece = &bytes[..bytes.len().min(head::LIMIT - before)];
                held.extend_from_slice(piece);
                // A head ends with a line, and is not read again for each byte of one.
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
                self.state = State::of(facts, body);
                Ok(length - before)
            }
        }
    }

    /// Reads on in a body; returns how many of the bytes belong to it, and the answer if it ends there.
    #[inline]
    fn take_body(
        &mut self,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) -> Result<(usize, Option<Answer>), Fault> {
        match &mut self.state {
            State::Head { .. } => Ok((0, None)),
            State::Sized {
                facts,
                length,
                left,
            } => {
                let used = give(bytes, *left, sink);
                *left -= used as u64;
                let done = (*left == 0).then(|| answer(*facts, *length));
                Ok((used, done))
            }
            State::UntilClose { body, .. } => {
                *body += give(bytes, u64::MAX, sink) as u64;
                Ok((bytes.len(), None))
            }
            State::Chunked {
                facts,
                at,
                extra,
                left,
                body,
            } => {
                let mut used = 0;
                while used < bytes.len() {
                    if *at == At::Data {
                        let piece = give(&bytes[used..], *left, sink);
                        used += piece;
                        *body += piece as u64;
                        *left -= piece as u64;
                        if *left == 0 {
                            *at = At::DataCr;
                        }
                    } else {
                        *at = at.next(bytes[used], left, extra)?;
                        used += 1;
                        if *at == At::End {
                            return Ok((used, Some(answer(*facts, *body))));
                        }
                    }
                }
                Ok((used, None))
            }
        }
    }
}

impl State {
    fn of(facts: Facts, body: Body) -> Self {
        match body {
            Body::Sized(length) => Self::Sized {
                facts,
                length,
                left: length,
            },
            Body::Chunked => Self::Chunked {
                facts,
                at: At::First,
                extra: 0,
                left: 0,
                body: 0,
            },
            Body::UntilClose => Self::UntilClose { facts, body: 0 },
        }
    }
}

fn answer(facts: Facts, body: u64) -> Answer {
    Answer {
        status: facts.status,
        body,
        keep_alive: facts.keep_alive,
    }
}

/// Gives at most `left` of the bytes to the sink; returns how many.
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
