//! Frames of HTTP/2 (RFC 9113 §4, §6), and the faults of a server that breaks their rules.

use thiserror::Error;

use crate::outcome;

/// Length of the head of a frame in bytes.
pub(super) const HEAD: usize = 9;
/// Maximum length of a payload (§4.2): the default of both sides, which neither raises here.
pub(super) const MAX_PAYLOAD: usize = 16_384;

/// Types of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Flags of frames.
pub(super) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings (§6.5.2).
pub(super) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
}

/// Error codes (§7).
pub(super) mod code {
    pub(crate) const PROTOCOL_ERROR: u32 = 1;
    pub(crate) const REFUSED_STREAM: u32 = 7;
    pub(crate) const CANCEL: u32 = 8;
}

/// A fault that makes a connection unusable (§5.4.1). Errors of one stream that are the server's fault are treated so
/// too, as the RFC allows, except for a malformed response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Fault {
    #[error("a frame that is not allowed there, or has an invalid value (PROTOCOL_ERROR)")]
    Protocol,
    #[error("a window above 2^31 - 1 bytes (FLOW_CONTROL_ERROR)")]
    FlowControl,
    #[error("a frame for a stream that has ended (STREAM_CLOSED)")]
    StreamClosed,
    #[error("a frame whose length its type does not allow, or above 16 KiB (FRAME_SIZE_ERROR)")]
    FrameSize,
    #[error("header fields that can't be decoded (COMPRESSION_ERROR)")]
    Compression,
    #[error("header fields of more than 64 KiB")]
    HeadTooLarge,
    #[error("more frames to be acknowledged than are read (ENHANCE_YOUR_CALM)")]
    Flood,
}

impl Fault {
    /// Returns the error code that the server is told (§7).
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Protocol => code::PROTOCOL_ERROR,
            Self::FlowControl => 3,
            Self::StreamClosed => 5,
            Self::FrameSize => 6,
            Self::Compression => 9,
            Self::HeadTooLarge | Self::Flood => 11,
        }
    }

    /// Returns the outcome of the connection's requests.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::HeadTooLarge => load::net::http1::ResponseError::HeadTooLarge.kind(),
            _ => outcome::HTTP2,
        }
    }
}

/// The head of a frame (§4.1).
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// 0 for a frame of the connection.
    pub(super) stream: u32,
}

impl FrameHead {
    /// Parses the head at the beginning of these bytes; `None` if there are fewer than 9.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<HEAD>()?;
        Some(Self {
            length: u32::from_be_bytes([0, *a, *b, *c]) as usize,
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes(*stream) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns true if the payload is handed on piece by piece: data, and frames of unknown types, which are ignored
    /// (§4.1).
    pub(super) fn is_streamed(self) -> bool {
        self.kind == kind::DATA || self.kind > kind::CONTINUATION
    }

    /// Returns the number of bytes to hold before the frame can be handled, its head included.
    pub(super) fn needed(self) -> usize {
        match self.kind {
            kind::DATA => HEAD + usize::from(self.has(flag::PADDED)).min(self.length),
            _ if self.is_streamed() => HEAD,
            _ => HEAD + self.length,
        }
    }

    /// Appends this head.
    pub(super) fn put(self, out: &mut Vec<u8>) {
        let [_, a, b, c] = (self.length as u32).to_be_bytes();
        out.extend_from_slice(&[a, b, c, self.kind, self.flags]);
        out.extend_from_slice(&self.stream.to_be_bytes());
    }
}

/// Appends a frame without flags whose payload is one number.
pub(super) fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    let head = FrameHead {
        length: 4,
        kind,
        flags: 0,
        stream,
    };
    head.put(out);
    out.extend_from_slice(&number.to_be_bytes());
}

/// Reads the number at the beginning of a payload (RFC 9113 §6.4, §6.8, §6.9).
pub(super) fn number(payload: &[u8]) -> Result<u32, Fault> {
    let bytes = payload.first_chunk().ok_or(Fault::FrameSize)?;
    Ok(u32::from_be_bytes(*bytes))
}

/// Returns the payload of a HEADERS frame without padding and priority (§6.2).
pub(super) fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], Fault> {
    let mut payload = payload;
    if head.has(flag::PADDED) {
        let (padding, rest) = payload.split_first().ok_or(Fault::FrameSize)?;
        let length = rest.len().checked_sub(usize::from(*padding));
        payload = &rest[..length.ok_or(Fault::Protocol)?];
    }
    if head.has(flag::PRIORITY) {
        payload = payload.get(5..).ok_or(Fault::FrameSize)?;
    }
    Ok(payload)
}
