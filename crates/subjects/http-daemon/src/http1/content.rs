//! The content of a request, which is counted and not kept (RFC 9112, sections 6 and 7).

use std::io;

/// Maximum length of the line before a chunk, and of the trailer.
const LONGEST_LINE: usize = 4096;

/// The rest of the content of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// This many bytes are missing.
    Length(u64),
    Chunked(Chunks),
}

/// The position within chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// Before the line with the length of a chunk.
    Line,
    /// Within a chunk: this many bytes are missing.
    Data(u64),
    /// At the end of a chunk.
    End,
    /// Within the trailer, of which this many bytes have come.
    Trailer(usize),
}

impl Content {
    pub(crate) fn chunked() -> Self {
        Self::Chunked(Chunks::Line)
    }

    pub(crate) fn is_complete(&self) -> bool {
        *self == Self::Length(0)
    }

    /// Takes what is there of the content from the front of the received bytes. Returns the number of bytes of content.
    ///
    /// # Errors
    /// Chunks that are not valid.
    pub(crate) fn take(&mut self, received: &mut Vec<u8>) -> io::Result<u64> {
        let mut used = 0;
        let mut length = 0;
        loop {
            let rest = &received[used..];
            match self {
                Self::Length(left) | Self::Chunked(Chunks::Data(left)) => {
                    let taken = (rest.len() as u64).min(*left);
                    *left -= taken;
                    length += taken;
                    used += taken as usize;
                    if *left > 0 || matches!(self, Self::Length(_)) {
                        break;
                    }
                    *self = Self::Chunked(Chunks::End);
                }
                Self::Chunked(chunks) => {
                    let Some(line) = line(rest)? else { break };
                    used += line.len() + 2;
                    *self = match chunks {
                        Chunks::End if line.is_empty() => Self::chunked(),
                        Chunks::Line => match chunk_length(line) {
                            Some(0) => Self::Chunked(Chunks::Trailer(0)),
                            Some(length) => Self::Chunked(Chunks::Data(length)),
                            None => return Err(io::ErrorKind::InvalidData.into()),
                        },
                        Chunks::Trailer(_) if line.is_empty() => Self::Length(0),
                        Chunks::Trailer(length) if *length + line.len() < LONGEST_LINE => {
                            Self::Chunked(Chunks::Trailer(*length + line.len() + 2))
                        }
                        _ => return Err(io::ErrorKind::InvalidData.into()),
                    };
                }
            }
        }
        received.drain(..used);
        Ok(length)
    }
}

/// Returns the first line without its end, if it is complete. The end must be CR LF, and nowhere else a CR or LF:
/// others might find another end.
fn line(bytes: &[u8]) -> io::Result<Option<&[u8]>> {
    let seen = &bytes[..bytes.len().min(LONGEST_LINE)];
    match memchr::memchr2(b'\r', b'\n', seen) {
        Some(end) if bytes[end..].starts_with(b"\r\n") => Ok(Some(&bytes[..end])),
        Some(end) if bytes[end..] == *b"\r" => Ok(None),
        None if bytes.len() < LONGEST_LINE => Ok(None),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Parses the length of a chunk, and ignores its extensions.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?.trim_ascii_end();
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the bytes in pieces of this size; returns the length, and what is left behind the content.
    fn read(bytes: &[u8], piece: usize) -> io::Result<Option<(u64, Vec<u8>)>> {
        let (mut content, mut received) = (Content::chunked(), Vec::new());
        let mut length = 0;
        for piece in bytes.chunks(piece) {
            received.extend_from_slice(piece);
            if !content.is_complete() {
                length += content.take(&mut received)?;
            }
        }
        Ok(content.is_complete().then_some((length, received)))
    }

    #[test]
    fn chunks_are_counted_whatever_pieces_they_come_in() {
        let bytes = b"5;x=1\r\nhello\r\n1 \r\na\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\nGET";
        for piece in 1..=bytes.len() {
            assert_eq!(read(bytes, piece).unwrap(), Some((6, b"GET".to_vec())));
        }
        assert_eq!(read(&bytes[..bytes.len() - 5], 1).unwrap(), None);
    }

    #[test]
    fn chunks_that_others_could_read_in_another_way_are_refused() {
        let long_line = format!("5;{}", "x".repeat(LONGEST_LINE));
        let long_trailer = "0\r\n".to_owned() + &"X: 1\r\n".repeat(LONGEST_LINE / 6 + 1);
        for bytes in [
            "\r\nhello",
            "5\nhello",
            "5;\nx\r\nhello\r\n",
            "5\r\nhello\n",
            "5\r\nhelloworld\r\n",
            "+5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            "-1\r\n",
            "5 5\r\nhello\r\n",
            "11111111111111111\r\n",
            "g\r\n",
            "0\r\nX: 1\n\r\n",
            &long_line,
            &long_trailer,
        ] {
            assert!(read(bytes.as_bytes(), usize::MAX).is_err(), "{bytes}");
            assert!(read(bytes.as_bytes(), 1).is_err(), "{bytes}");
        }
    }
}
