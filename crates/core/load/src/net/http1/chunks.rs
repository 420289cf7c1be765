//! Parser of the lines between the chunks of a body, and of the trailers after the last (RFC 9112 §7.1), byte by byte.

use super::ResponseError;

/// Number of bytes of chunk extensions at which a response is rejected. hyper's limit, so that both engines agree.
const EXTENSIONS: u16 = 16 * 1024;
/// Number of bytes of trailers at which a response is rejected: one less than the limit of a head, as in hyper.
const TRAILERS: u16 = u16::MAX;

/// The element that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum ChunkState {
    /// The first digit of a size.
    First,
    Size,
    /// White space after a size.
    Gap,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// A trailer, or the empty line that ends the body.
    Line,
    Name,
    Value,
    LineLf,
    EndLf,
    /// Nothing: the body is complete.
    End,
}

impl ChunkState {
    /// Processes a byte that is not data. `left` is the chunk size parsed so far; `extra` counts the bytes of
    /// extensions, then the bytes of trailers.
    #[inline]
    pub(super) fn next(
        self,
        byte: u8,
        left: &mut u64,
        extra: &mut u16,
    ) -> Result<Self, ResponseError> {
        if self >= Self::Line {
            return self.next_of_trailer(byte, extra);
        }
        match (self, byte) {
            (Self::First | Self::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                *left = append(*left, byte).ok_or(ResponseError::Chunk)?;
                Ok(Self::Size)
            }
            (Self::Size | Self::Gap, b' ' | b'\t') => Ok(Self::Gap),
            (Self::Size | Self::Gap, b';') => Ok(Self::Extension),
            (Self::Size | Self::Gap | Self::Extension, b'\r') => Ok(Self::SizeLf),
            (Self::Extension, byte) if byte != b'\n' => {
                count(extra, EXTENSIONS).ok_or(ResponseError::Chunk)?;
                Ok(Self::Extension)
            }
            (Self::SizeLf, b'\n') if *left == 0 => {
                *extra = 0;
                Ok(Self::Line)
            }
            (Self::SizeLf, b'\n') => Ok(Self::Data),
            (Self::DataCr, b'\r') => Ok(Self::DataLf),
            (Self::DataLf, b'\n') => Ok(Self::First),
            _ => Err(ResponseError::Chunk),
        }
    }

    fn next_of_trailer(self, byte: u8, extra: &mut u16) -> Result<Self, ResponseError> {
        count(extra, TRAILERS).ok_or(ResponseError::Trailer)?;
        match (self, byte) {
            (Self::Line, b'\r') => Ok(Self::EndLf),
            (Self::EndLf, b'\n') => Ok(Self::End),
            (Self::Line | Self::Name, byte) if is_token(byte) => Ok(Self::Name),
            (Self::Name, b':') => Ok(Self::Value),
            (Self::Value, b'\r') => Ok(Self::LineLf),
            (Self::Value, byte) if is_value(byte) => Ok(Self::Value),
            (Self::LineLf, b'\n') => Ok(Self::Line),
            _ => Err(ResponseError::Trailer),
        }
    }
}

/// Appends a hexadecimal digit to a size; `None` if the result exceeds 64 bits.
#[inline]
fn append(size: u64, digit: u8) -> Option<u64> {
    let digit = char::from(digit).to_digit(16)?;
    size.checked_mul(16)?.checked_add(u64::from(digit))
}

#[inline]
fn count(extra: &mut u16, limit: u16) -> Option<()> {
    *extra += 1;
    (*extra < limit).then_some(())
}

/// Returns true if a byte may appear in a field name (RFC 9110 §5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns true if a byte may appear in a field value (RFC 9110 §5.5).
fn is_value(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}
