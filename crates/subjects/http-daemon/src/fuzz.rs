//! Fuzz targets: the requests of clients over HTTP/1.

use hyper::header::{HeaderValue, RANGE};
use hyper::{HeaderMap, Method};
use memchr::memmem;

use crate::conditions::{Selection, select};
use crate::faults::Fault;
use crate::files::Facts;
use crate::http1::{content::Content, head};
use crate::service::is_host;
use crate::sink::count_heads;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("request", request)];

/// Heads and chunks are read alike, however they are divided into reads; a host has no white space; any fault has an
/// answer; a range is within its file.
pub fn request(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let mut matched = 0;
    let pieces = || stream.chunks(usize::from(size) + 1);
    let heads: u32 = pieces().map(|piece| count_heads(&mut matched, piece)).sum();
    assert_eq!(
        heads as usize,
        memmem::find_iter(stream, b"\r\n\r\n").count()
    );
    if is_host(stream) {
        assert!(stream.iter().all(u8::is_ascii_graphic));
    }
    if let Ok(Some((_, length))) = head::parse(stream, stream.len()) {
        let part = head::parse(&stream[..length - 1], stream.len());
        assert!(matches!(part, Ok(None)));
    }
    assert_eq!(read_chunks([stream].into_iter()), read_chunks(pieces()));
    if let Ok(range) = HeaderValue::from_bytes(stream) {
        let facts = Facts {
            length: size.into(),
            modified: 0,
            kind: "",
        };
        let headers = HeaderMap::from_iter([(RANGE, range)]);
        let ranges = match select(&Method::GET, &headers, &facts) {
            Selection::Part(range) => vec![range],
            Selection::Parts(ranges) => ranges,
            _ => Vec::new(),
        };
        for range in ranges {
            assert!(range.start < range.end && range.end <= facts.length);
        }
    }
    if let Ok(text) = str::from_utf8(stream) {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let _ = Fault::parse(name, query);
    }
}

/// Returns the length of content in chunks, and what follows it; `None` if it is not valid or not complete.
fn read_chunks<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Option<(u64, Vec<u8>)> {
    let (mut content, mut received, mut length) = (Content::chunked(), Vec::new(), 0);
    for piece in pieces {
        received.extend_from_slice(piece);
        length += content.take(&mut received).ok()?;
    }
    content.is_complete().then_some((length, received))
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
