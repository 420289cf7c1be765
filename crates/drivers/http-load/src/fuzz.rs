//! Fuzz target: the frames of a server of HTTP/2.

use traffic::{Names, Values};

use crate::http2::{Connection, Event, Fault, OwnPart, RequestBlocks, Sink, Table};
use crate::roles::cookies::Cookies;
use crate::settings::Settings;
use crate::shared::parse_url;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("http2", http2)];

/// More bytes than a connection holds for a server that does not read.
const MOST_HELD: usize = 1 << 20;
/// Settings, without which a server begins nothing.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// The parts of a response.
type Parts = Vec<Vec<u8>>;

struct All;

impl Sink<Parts> for All {
    fn head(&mut self, parts: &mut Parts, status: u16) {
        parts.push(status.to_be_bytes().into());
        parts.push(Vec::new());
    }

    fn needs(&self, name: &[u8]) -> bool {
        name.len().is_multiple_of(2)
    }

    fn field(&mut self, parts: &mut Parts, name: &[u8], value: &[u8]) {
        parts.insert(0, [name, value].concat());
    }

    fn body(&mut self, parts: &mut Parts, piece: &[u8]) -> Result<(), &'static str> {
        assert!(!piece.is_empty());
        // The pieces depend on how the bytes are split, not their content.
        parts.last_mut().expect("after a head").extend(piece);
        Ok(())
    }
}

/// All that came of the bytes of a server.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    events: Vec<Event<Parts>>,
    fault: Option<Fault>,
    sent: Vec<u8>,
}

fn read<'a>(blocks: &RequestBlocks, pieces: impl Iterator<Item = &'a [u8]>) -> Seen {
    let mut connection = Connection::new(Table::Empty);
    for number in 0..3 {
        let mut own = OwnPart::default();
        blocks.write(Values::from_number(number), Cookies::NONE, None, &mut own);
        connection.open(Parts::new(), blocks, &own);
    }
    let mut events = Vec::new();
    for mut piece in [SETTINGS].into_iter().chain(pieces) {
        while !piece.is_empty() {
            match connection.take(piece, &mut All) {
                Ok((used, event)) => {
                    assert!(event.is_some() || used == piece.len());
                    piece = &piece[used..];
                    // A malformed response may be noticed after a part of its body, or before.
                    events.extend(event.map(|event| match event {
                        Event::Failed(_, kind) => Event::Failed(Parts::new(), kind),
                        event => event,
                    }));
                    while let Some(parts) = connection.pop_excluded() {
                        events.push(Event::Refused(parts));
                    }
                }
                Err(fault) => {
                    return Seen {
                        events,
                        fault: Some(fault),
                        // A fault may be noticed before or after an earlier frame is complete.
                        sent: Vec::new(),
                    };
                }
            }
        }
        assert!(connection.output().len() < MOST_HELD);
    }
    Seen {
        events,
        fault: None,
        sent: connection.output().to_vec(),
    }
}

/// Frames have one meaning, however they are divided into reads.
pub fn http2(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let server = parse_url("http://127.0.0.1:80/").expect("the URL is right");
    let blocks = RequestBlocks::new(&Settings::default(), &server, &Names::default())
        .expect("the settings are right");
    let whole = read(&blocks, [stream].into_iter());
    assert_eq!(read(&blocks, stream.chunks(usize::from(size) + 1)), whole);
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        harness_testing::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
