//! Fuzz targets: the answers of streaming daemons.

use crate::sse::{Fault, Reader};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("event_stream", event_stream)];

/// Reads an answer up to its end or its first fault. Returns the records, their number, and true after the end marker.
fn read<'a>(mut pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<u8>, u32, bool, Option<Fault>) {
    let (mut reader, mut rest, mut records) = (Reader::default(), None, Vec::new());
    let mut ended = false;
    let fault = loop {
        let Some(piece) = pieces.next() else {
            break None;
        };
        // The caller closes the connection then.
        if ended {
            break Some(Fault::Trailing);
        }
        let seen = reader.read(piece, &mut rest, |taken| {
            records.extend_from_slice(taken);
            Ok(())
        });
        match seen {
            Ok(seen) => ended = seen.ended || seen.rejected,
            Err(fault) => {
                fault.explain(rest.as_deref());
                break Some(fault);
            }
        }
    };
    (records, reader.records(), reader.done(), fault)
}

/// An answer has one meaning, however it is divided into reads.
pub fn event_stream(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let whole = read([stream].into_iter());
    let pieces = read(stream.chunks(usize::from(size) + 1));
    match (whole.3, pieces.3) {
        // A head that has no line end yet is not read. A refusal is complete without its body.
        (Some(Fault::Http(_)), None) | (None, Some(Fault::Trailing)) => {}
        (whole, pieces) => assert_eq!(whole, pieces),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
