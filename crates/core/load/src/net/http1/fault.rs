//! Faults of responses; sections refer to RFC 9112.

use thiserror::Error;

/// The kind of error of a connection that was closed before the response was complete.
pub const EARLY_CLOSE: &str = "early_close";

/// A fault that makes a response unreadable, and its connection unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ResponseError {
    /// The status line of HTTP/1.0 or 1.1 is missing or invalid (§4).
    #[error("the response does not begin with a status line of HTTP/1.0 or HTTP/1.1")]
    StatusLine,
    /// A line of the head is not a header field (§5).
    #[error("the response head contains a line that is not a header field")]
    Header,
    /// The head is longer than 64 KiB or 100 fields.
    #[error("the response head is longer than 64 KiB or 100 header fields")]
    HeadTooLarge,
    /// `Content-Length` is not a number, is given twice with different numbers, or stands beside `Transfer-Encoding`
    /// (§6.3).
    #[error(
        "Content-Length is not a number, contradicts itself, or stands beside Transfer-Encoding"
    )]
    Length,
    /// A chunk's size is not a number, is too large or does not match its data; or chunk extensions reach 16 KiB
    /// (§7.1).
    #[error("a chunk of the response has an invalid size line or does not end where its size says")]
    Chunk,
    /// A trailer is not a header field, or trailers reach 64 KiB (§7.1.2).
    #[error("the response trailers contain a line that is not a header field, or reach 64 KiB")]
    Trailer,
    /// The transfer coding was not requested (§6.1).
    #[error("Transfer-Encoding is not `chunked`, or comes with HTTP/1.0")]
    Coding,
    /// The server switched protocols (101), which no request asks for.
    #[error("the server switched to a protocol that was not requested (101)")]
    Upgrade,
    /// The server closed the connection before the end of the response (§8).
    #[error("the server closed the connection early: {missing}")]
    Early {
        /// The missing part.
        missing: Missing,
    },
}

impl ResponseError {
    /// Returns the kind of error that is counted. It does not depend on where in the response the server closed: not
    /// every client can tell.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::StatusLine => "protocol_status_line",
            Self::Header => "protocol_header",
            Self::HeadTooLarge => "protocol_head_too_large",
            Self::Length => "protocol_length",
            Self::Chunk => "protocol_chunk",
            Self::Trailer => "protocol_trailer",
            Self::Coding => "protocol_coding",
            Self::Upgrade => "protocol_upgrade",
            Self::Early { .. } => EARLY_CLOSE,
        }
    }
}

/// All kinds of faults.
pub const KINDS: &[&str] = &[
    ResponseError::StatusLine.kind(),
    ResponseError::Header.kind(),
    ResponseError::HeadTooLarge.kind(),
    ResponseError::Length.kind(),
    ResponseError::Chunk.kind(),
    ResponseError::Trailer.kind(),
    ResponseError::Coding.kind(),
    ResponseError::Upgrade.kind(),
    EARLY_CLOSE,
];

/// The part of a response that was missing when its connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Missing {
    /// No byte arrived.
    #[error("no byte of the response arrived")]
    Everything,
    /// The rest of the head, or the response after an interim one.
    #[error("its head is incomplete")]
    Head,
    /// This number of bytes of `Content-Length`.
    #[error("{0} bytes of the body are missing")]
    Body(u64),
    /// The last chunk, or the trailers after it.
    #[error("its last chunk is missing")]
    Chunks,
}
