//! HTTP responses: the head of a handshake, and the framed bodies of polls.

use httparse::{EMPTY_HEADER, Header, Response, Status};

use super::ProtocolError;

/// Maximum length of a head, and of a line between chunks.
const LIMIT: usize = 16 << 10;
/// Maximum number of fields in a head.
const FIELDS: usize = 64;

/// The part of a head that decides how the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// Number of bytes of the head.
    pub(super) length: usize,
    pub(super) status: u16,
    /// True if another request may be sent on the connection.
    pub(super) keep_alive: bool,
    pub(super) body: Body,
}

/// The framing of a body (RFC 9112 §6.3), and the part that is still to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    /// The number of bytes that follow.
    Sized(u64),
    /// A line with the size of a chunk follows.
    ChunkSize,
    /// The rest of a chunk follows, with its end of line.
    Chunk(u64),
    /// Trailers follow, up to an empty line.
    Trailers,
    /// The body ends with the connection.
    UntilEnd,
}

/// Parses a head, and calls `field` with each of its fields. Returns its length, its status, and true for HTTP/1.1, or
/// `None` if it is incomplete.
pub(super) fn parse_fields<'a>(
    input: &'a [u8],
    field: impl FnMut(&Header<'a>),
) -> Result<Option<(usize, u16, bool)>, ProtocolError> {
    let mut fields = [EMPTY_HEADER; FIELDS];
    let mut response = Response::new(&mut fields);
    let input = &input[..input.len().min(LIMIT)];
    match response.parse(input).map_err(|_| ProtocolError::Head)? {
        Status::Partial if input.len() < LIMIT => Ok(None),
        Status::Partial => Err(ProtocolError::Head),
        Status::Complete(length) => {
            let status = response.code.ok_or(ProtocolError::Head)?;
            let is_1_1 = response.version == Some(1);
            response.headers.iter().for_each(field);
            Ok(Some((length, status, is_1_1)))
        }
    }
}

impl Head {
    /// Parses the head of a response that may have a body. Interim responses are skipped.
    pub(super) fn parse(input: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let mut skipped = 0;
        while let Some(mut head) = Self::parse_one(&input[skipped..])? {
            skipped += head.length;
            if head.status >= 200 {
                head.length = skipped;
                return Ok(Some(head));
            }
        }
        Ok(None)
    }

    fn parse_one(input: &[u8]) -> Result<Option<Self>, ProtocolError> {
        let (mut close, mut kept) = (false, false);
        let (mut size, mut coding) = (None, None);
        let parsed = parse_fields(input, |field| {
            if field.name.eq_ignore_ascii_case("connection") {
                close |= has_token(field.value, "close");
                kept |= has_token(field.value, "keep-alive");
            } else if field.name.eq_ignore_ascii_case("content-length") {
                let number = number(field.value);
                let is_same = size.is_none_or(|other| other == number);
                size = Some(number.filter(|_| is_same));
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                let chunked = field.value.eq_ignore_ascii_case(b"chunked");
                coding = Some(chunked && coding.is_none());
            }
        })?;
        let Some((length, status, is_1_1)) = parsed else {
            return Ok(None);
        };
        let body = match (coding, size) {
            _ if matches!(status, ..200 | 204 | 304) => Body::Sized(0),
            (Some(true), None) => Body::ChunkSize,
            (None, Some(Some(size))) => Body::Sized(size),
            (None, None) => Body::UntilEnd,
            _ => return Err(ProtocolError::Body),
        };
        Ok(Some(Self {
            length,
            status,
            keep_alive: !close && (is_1_1 || kept) && body != Body::UntilEnd,
            body,
        }))
    }
}

impl Body {
    /// Reads the body into `content`, which may have `limit` bytes. Returns the number of bytes consumed, and true at the
    /// end of the body.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        content: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(usize, bool), ProtocolError> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            match *self {
                Self::Sized(left) => {
                    let length = append(rest, left, content, limit)?;
                    *self = Self::Sized(left - length as u64);
                    return Ok((taken + length, left == length as u64));
                }
                Self::UntilEnd => {
                    let length = append(rest, u64::MAX, content, limit)?;
                    return Ok((taken + length, false));
                }
                Self::Chunk(0) => {
                    let Some(line) = line(rest)? else {
                        return Ok((taken, false));
                    };
                    if !line.is_empty() {
                        return Err(ProtocolError::Body);
                    }
                    taken += 2;
                    *self = Self::ChunkSize;
                }
                Self::Chunk(left) => {
                    let length = append(rest, left, content, limit)?;
                    taken += length;
                    *self = Self::Chunk(left - length as u64);
                    if length == 0 {
                        return Ok((taken, false));
                    }
                }
                Self::ChunkSize => {
                    let Some(line) = line(rest)? else {
                        return Ok((taken, false));
                    };
                    taken += line.len() + 2;
                    *self = match chunk_size(line).ok_or(ProtocolError::Body)? {
                        0 => Self::Trailers,
                        size => Self::Chunk(size),
                    };
                }
                Self::Trailers => {
                    let Some(line) = line(rest)? else {
                        return Ok((taken, false));
                    };
                    taken += line.len() + 2;
                    if line.is_empty() {
                        return Ok((taken, true));
                    }
                }
            }
        }
    }
}

/// Appends as much of a body as is there.
fn append(
    input: &[u8],
    left: u64,
    content: &mut Vec<u8>,
    limit: usize,
) -> Result<usize, ProtocolError> {
    let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    if content.len() + length > limit {
        return Err(ProtocolError::TooLarge);
    }
    content.extend_from_slice(&input[..length]);
    Ok(length)
}

/// Returns a line without its end, or `None` if it is incomplete.
fn line(input: &[u8]) -> Result<Option<&[u8]>, ProtocolError> {
    let input = &input[..input.len().min(LIMIT)];
    match input.iter().position(|byte| *byte == b'\n') {
        None if input.len() == LIMIT => Err(ProtocolError::Body),
        None => Ok(None),
        Some(end) => input[..end]
            .strip_suffix(b"\r")
            .map(Some)
            .ok_or(ProtocolError::Body),
    }
}

/// Parses the size of a chunk, without its extensions.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |size, byte| {
        Some(size << 4 | u64::from(char::from(*byte).to_digit(16)?))
    })
}

fn number(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    text.parse().ok()
}

/// Returns true if a list of tokens has this one.
pub(super) fn has_token(value: &[u8], token: &str) -> bool {
    let mut tokens = value.split(|byte| *byte == b',');
    tokens.any(|one| one.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] = b"5;a=b\r\nhello\r\n06 \r\n world\r\n0\r\nA: b\r\n\r\nrest";

    #[test]
    fn a_chunked_body_is_read_whole_wherever_the_reads_end() {
        for cut in 0..=CHUNKED.len() {
            let (mut body, mut content) = (Body::ChunkSize, Vec::new());
            let (taken, done) = body.read(&CHUNKED[..cut], &mut content, 100).unwrap();
            let (more, ended) = if done {
                (0, true)
            } else {
                body.read(&CHUNKED[taken..], &mut content, 100).unwrap()
            };
            assert!(ended);
            assert_eq!(
                (&content[..], &CHUNKED[taken + more..]),
                (&b"hello world"[..], &b"rest"[..])
            );
        }
    }

    #[test]
    fn a_malformed_chunk_and_a_body_beyond_the_limit_are_refused() {
        let read = |input: &[u8]| Body::ChunkSize.read(input, &mut Vec::new(), 4);
        for input in [
            "x\r\n",
            "\r\n",
            "1\n",
            "1\r\nab\r\n",
            "11111111111111111\r\n",
        ] {
            assert_eq!(
                read(input.as_bytes()),
                Err(ProtocolError::Body),
                "{input:?}"
            );
        }
        assert_eq!(read(b"5\r\nhello"), Err(ProtocolError::TooLarge));
        assert_eq!(
            Body::Sized(5).read(b"hello", &mut Vec::new(), 4),
            Err(ProtocolError::TooLarge)
        );
    }

    #[test]
    fn a_head_tells_the_framing_of_its_body_and_what_becomes_of_the_connection() {
        let parse = |fields: &str| {
            let head = format!("HTTP/1.1 200 OK\r\n{fields}\r\nbody");
            Head::parse(head.as_bytes()).map(|head| head.map(|head| (head.keep_alive, head.body)))
        };
        assert_eq!(
            parse("Content-Length: 4\r\n"),
            Ok(Some((true, Body::Sized(4))))
        );
        assert_eq!(
            parse("Transfer-Encoding: Chunked\r\n"),
            Ok(Some((true, Body::ChunkSize)))
        );
        assert_eq!(
            parse("Connection: a, Close\r\ncontent-length: 0\r\n"),
            Ok(Some((false, Body::Sized(0))))
        );
        assert_eq!(parse(""), Ok(Some((false, Body::UntilEnd))));
        for wrong in [
            "Content-Length: 4\r\nContent-Length: 5\r\n",
            "Content-Length: +4\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
        ] {
            assert_eq!(parse(wrong), Err(ProtocolError::Body), "{wrong}");
        }
        let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        let head = Head::parse(interim).unwrap().unwrap();
        assert_eq!(
            (head.length, head.status, head.body),
            (interim.len(), 204, Body::Sized(0))
        );
        assert_eq!(Head::parse(&interim[..30]), Ok(None));
        assert_eq!(
            Head::parse(b"HTTP/9.9 200\r\n\r\n"),
            Err(ProtocolError::Head)
        );
        assert_eq!(Head::parse(b"H"), Ok(None));
    }
}
