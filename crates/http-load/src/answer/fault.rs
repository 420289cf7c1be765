//! What makes an answer unreadable; sections are those of RFC 9112.

use thiserror::Error;

use crate::outcome::EARLY_CLOSE;

/// What makes an answer unreadable, and its connection unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Fault {
    /// No status line of HTTP/1.0 or 1.1 (§4).
    #[error("the answer does not begin with a status line of HTTP/1.0 or HTTP/1.1")]
    StatusLine,
    /// A line of the head that is no header field (§5).
    #[error("the answer's head holds a line that is no header field")]
    Header,
    /// A head of more than 64 KiB or 100 fields.
    #[error("the answer's head is longer than 64 KiB or 100 header fields")]
    HeadTooLarge,
    /// `Content-Length` is no number, is given twice with different numbers, or stands beside `Transfer-Encoding` (§6.3).
    #[error("Content-Length is no number, contradicts itself, or stands beside Transfer-Encoding")]
    Length,
    /// A chunk whose size is no number, is too large or is not what came; or chunk extensions of 16 KiB (§7.1).
    #[error("a chunk of the answer has a bad size line or does not end where its size says")]
    Chunk,
    /// A trailer that is no header field, or trailers of 64 KiB (§7.1.2).
    #[error("the answer's trailers hold a line that is no header field, or 64 KiB")]
    Trailer,
    /// A transfer coding that was not asked for (§6.1).
    #[error("Transfer-Encoding is not `chunked`, or comes with HTTP/1.0")]
    Coding,
    /// 101: no request asks for another protocol.
    #[error("the server switched to a protocol that was not asked for (101)")]
    Upgrade,
    /// The server closed the connection before the answer's end (§8).
    #[error("the server closed the connection early: {missing}")]
    Early {
        /// What had not come.
        missing: Missing,
    },
}

impl Fault {
    /// The kind of error that is counted. Where in the answer the server closed makes no difference: not every client
    /// can tell.
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

/// All kinds that there are.
pub const KINDS: &[&str] = &[
    Fault::StatusLine.kind(),
    Fault::Header.kind(),
    Fault::HeadTooLarge.kind(),
    Fault::Length.kind(),
    Fault::Chunk.kind(),
    Fault::Trailer.kind(),
    Fault::Coding.kind(),
    Fault::Upgrade.kind(),
    EARLY_CLOSE,
];

/// What of an answer had not come when its connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Missing {
    /// Not one byte came.
    #[error("no byte of the answer came")]
    Everything,
    /// The rest of the head, or the answer after an interim one.
    #[error("its head is incomplete")]
    Head,
    /// This many bytes of `Content-Length`.
    #[error("{0} bytes of the body are missing")]
    Body(u64),
    /// The last chunk or what follows it.
    #[error("its last chunk did not come")]
    Chunks,
}
