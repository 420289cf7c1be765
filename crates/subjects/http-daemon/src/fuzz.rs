//! Fuzz targets: the requests of clients, as far as hyper does not read them.

use memchr::memmem;

use crate::faults::Fault;
use crate::service::is_host;
use crate::sink::count_heads;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("request", request)];

/// Heads are counted alike, however they are divided into reads; a host has no white space; any fault has an answer.
pub fn request(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let mut matched = 0;
    let pieces = stream.chunks(usize::from(size) + 1);
    let heads: u32 = pieces.map(|piece| count_heads(&mut matched, piece)).sum();
    assert_eq!(
        heads as usize,
        memmem::find_iter(stream, b"\r\n\r\n").count()
    );
    if is_host(stream) {
        assert!(stream.iter().all(u8::is_ascii_graphic));
    }
    if let Ok(text) = str::from_utf8(stream) {
        let (name, query) = text.split_once('?').unwrap_or((text, ""));
        let _ = Fault::parse(name, query);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
