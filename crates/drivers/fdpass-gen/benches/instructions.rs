//! An operation whose instructions are counted: a record of a stream is read.

#[path = "support/streams.rs"]
mod streams;

use std::hint::black_box;

use fdpass_client::sse::Reader;
use harness_testing::operations;

fn main() {
    operations::run(&[("sse", read)]);
}

/// Reads streams of 18 records. Their heads and end markers count as reads too.
fn read(count: u64) {
    let pieces = streams::pieces();
    let (mut reader, mut rest) = (Reader::default(), None);
    for piece in pieces.iter().cycle().take(count as usize) {
        if reader.done() {
            reader = Reader::default();
        }
        let seen = reader.read(black_box(piece.as_bytes()), &mut rest, |_| Ok(()));
        black_box(seen).expect("the stream is right");
    }
}
