//! HTTP/1.1 without TLS: the three files that all servers of the project have.

use load::slots::Id;
use memchr::memmem::{self, Finder};

use crate::connections::Connections;
use crate::server::{Malformed, Protocol, Taken};

/// The files, with their lengths: zero bytes, as `http-daemon` makes them.
const FILES: [(&str, usize); 3] = [
    ("/1kb.txt", 1_024),
    ("/10kb.txt", 10_240),
    ("/100kb.txt", 102_400),
];
/// Fields of a request that is parsed.
const FIELDS: usize = 64;

/// The protocol.
#[derive(Debug)]
pub(crate) struct Http {
    /// The responses for the files, and the one for all other paths.
    responses: Vec<Response>,
    close: Finder<'static>,
}

#[derive(Debug)]
struct Response {
    bytes: Vec<u8>,
    head: usize,
}

/// The properties of a request that its response depends on.
#[derive(Debug)]
pub(crate) struct Request {
    /// The index of the response.
    response: usize,
    is_head: bool,
    closes: bool,
}

impl Response {
    fn new(status: &str, length: usize) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n"
        );
        Self {
            bytes: [head.as_bytes(), &vec![0; length]].concat(),
            head: head.len(),
        }
    }
}

impl Http {
    pub(crate) fn new() -> Self {
        let files = FILES
            .iter()
            .map(|(_, length)| Response::new("200 OK", *length));
        Self {
            responses: files.chain([Response::new("404 Not Found", 0)]).collect(),
            close: Finder::new("onnection: close\r\n"),
        }
    }
}

impl Protocol for Http {
    type State = ();
    type Request = Request;

    fn take(&mut self, (): &mut (), input: &[u8]) -> Result<Option<Taken<Request>>, Malformed> {
        let Some((head, bytes)) = request_length(input)? else {
            return Ok(None);
        };
        let head = &input[..head];
        let mut words = head.splitn(3, |byte| *byte == b' ');
        let (method, path) = (words.next(), words.next());
        let file = FILES
            .iter()
            .position(|(name, _)| path == Some(name.as_bytes()));
        let request = Request {
            response: file.unwrap_or(FILES.len()),
            is_head: method == Some(b"HEAD"),
            closes: self.close.find(head).is_some(),
        };
        Ok((bytes <= input.len()).then(|| Taken::held(bytes, request)))
    }

    fn answer(&mut self, id: Id, request: Request, connections: &mut Connections<()>) -> Id {
        let Response { bytes, head } = &self.responses[request.response];
        let length = if request.is_head { *head } else { bytes.len() };
        connections.append(id, &bytes[..length]);
        if request.closes {
            connections.close(id);
        }
        id
    }
}

/// Returns the lengths of the head of a request and of all of it, once the head is complete.
pub(crate) fn request_length(input: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(end) = memmem::find(input, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = end + 4;
    let has_body = !input.starts_with(b"GET ") && !input.starts_with(b"HEAD ");
    let body = if has_body {
        body_length(&input[..head])?
    } else {
        0
    };
    Ok(Some((head, head + body)))
}

/// Returns the length of the body of a request. One in chunks is not supported.
fn body_length(head: &[u8]) -> Result<usize, Malformed> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    request.parse(head).map_err(|_| Malformed)?;
    let value = |name: &str| {
        let mut fields = request.headers.iter();
        let field = fields.find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| String::from_utf8_lossy(field.value))
    };
    match (value("transfer-encoding"), value("content-length")) {
        (Some(_), _) => Err(Malformed),
        (None, length) => length.map_or(Ok(0), |digits| digits.parse().map_err(|_| Malformed)),
    }
}
