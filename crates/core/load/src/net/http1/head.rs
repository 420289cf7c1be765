//! Parser of response heads: the framing of the body and the persistence of the connection.

use std::mem::MaybeUninit;

use httparse::{Error, Header, ParserConfig, Response, Status};

use super::{Facts, RequestInfo, ResponseError, Sink};

/// Maximum length of a head, including empty lines before it.
pub(super) const LIMIT: usize = 64 * 1024;

/// Maximum number of fields: hyper's default, so that both engines agree.
const FIELDS: usize = 100;

/// The head found at the beginning of some bytes.
pub(super) enum Parsed {
    /// The head is incomplete.
    Cut,
    /// An interim response, which is followed by another one.
    Interim { length: usize },
    /// The head of the response, which is `length` bytes long.
    Final {
        length: usize,
        facts: Facts,
        body: Body,
    },
}

/// The framing of a body (RFC 9112 §6.3).
#[derive(Clone, Copy)]
pub(super) enum Body {
    Sized(u64),
    Chunked,
    UntilClose,
}

/// Parses a head and passes it to the sink.
#[inline]
pub(super) fn parse(
    asked: RequestInfo,
    bytes: &[u8],
    sink: &mut impl Sink,
) -> Result<Parsed, ResponseError> {
    let bytes = &bytes[..bytes.len().min(LIMIT)];
    let mut slots = [const { MaybeUninit::uninit() }; FIELDS];
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let mut response = Response::new(&mut []);
    let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut slots);
    let length = match parsed.map_err(fault)? {
        Status::Complete(length) => length,
        Status::Partial if bytes.len() < LIMIT => return Ok(Parsed::Cut),
        Status::Partial => return Err(ResponseError::HeadTooLarge),
    };
    let status = response.code.expect("a complete head has a status");
    match status {
        0..=99 => Err(ResponseError::StatusLine),
        101 => Err(ResponseError::Upgrade),
        100..=199 => Ok(Parsed::Interim { length }),
        _ => {
            let is_1_1 = response.version == Some(1);
            let (facts, body) = understand(asked, status, is_1_1, response.headers)?;
            sink.head(status, response.headers);
            Ok(Parsed::Final {
                length,
                facts,
                body,
            })
        }
    }
}

fn fault(error: Error) -> ResponseError {
    match error {
        Error::Version | Error::Status => ResponseError::StatusLine,
        Error::TooManyHeaders => ResponseError::HeadTooLarge,
        _ => ResponseError::Header,
    }
}

/// The values of the fields that matter.
#[derive(Default)]
struct Fields {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

impl Fields {
    /// Reads the options of a `Connection` field (RFC 9110 §7.6.1); usually there is one.
    #[inline]
    fn take_options(&mut self, value: &[u8]) {
        if value.eq_ignore_ascii_case(b"keep-alive") {
            self.keep_alive = true;
            return;
        }
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
}

/// Determines the framing of the body and the persistence of the connection (RFC 9112 §6.3, §9.3).
#[inline]
fn understand(
    asked: RequestInfo,
    status: u16,
    is_1_1: bool,
    headers: &[Header<'_>],
) -> Result<(Facts, Body), ResponseError> {
    let bodyless = asked.head || matches!(status, 204 | 304);
    let fields = fields(headers, !bodyless)?;
    let body = match (fields.chunked, fields.length) {
        _ if bodyless => Body::Sized(0),
        (true, Some(_)) => return Err(ResponseError::Length),
        (true, None) if !is_1_1 => return Err(ResponseError::Coding),
        (true, None) => Body::Chunked,
        (false, Some(length)) => Body::Sized(length),
        (false, None) => Body::UntilClose,
    };
    let persistent = !fields.close && (is_1_1 || fields.keep_alive);
    let facts = Facts {
        status,
        keep_alive: persistent && !matches!(body, Body::UntilClose),
    };
    Ok((facts, body))
}

/// Finds the fields that matter. The length of the name is compared first, which rules out most fields.
#[inline]
fn fields(headers: &[Header<'_>], framed: bool) -> Result<Fields, ResponseError> {
    let mut fields = Fields::default();
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        match header.name.len() {
            10 if is("connection") => {
                fields.take_options(header.value);
            }
            14 if framed && is("content-length") => {
                let length = length(header.value)?;
                if fields.length.is_some_and(|other| other != length) {
                    return Err(ResponseError::Length);
                }
                fields.length = Some(length);
            }
            17 if framed && is("transfer-encoding") => {
                if fields.chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ResponseError::Coding);
                }
                fields.chunked = true;
            }
            _ => {}
        }
    }
    Ok(fields)
}

/// Parses one number, or the same one repeated (RFC 9112 §6.3, RFC 9110 §8.6).
#[inline]
fn length(value: &[u8]) -> Result<u64, ResponseError> {
    if let Some(number) = number(value) {
        return Ok(number);
    }
    let mut numbers = value.split(|byte| *byte == b',').map(number);
    let first = numbers.next().flatten().ok_or(ResponseError::Length)?;
    if numbers.all(|number| number == Some(first)) {
        Ok(first)
    } else {
        Err(ResponseError::Length)
    }
}

/// Parses digits only: `u64::from_str` would accept a sign.
#[inline]
fn number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| byte - b'0')?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
