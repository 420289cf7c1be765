//! Fuzz targets: the frames, payloads and packets of clients.

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::engine::frame::Frame;
use crate::engine::payload;
use crate::engine::websocket::{Decoder, Fault, Message};
use crate::socket::packet::{Packet, has_numeric_name, is_array, split_event};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[
    ("packet", packet),
    ("polling", polling),
    ("websocket", websocket),
];

/// The longest message, in bytes.
const LIMIT: usize = 1000;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, Option<Fault>) {
    let (mut decoder, mut messages) = (Decoder::new(LIMIT), Vec::new());
    for piece in pieces {
        let fed = decoder.feed(&mut piece.to_vec(), |message| {
            messages.push(format!("{message:?}"));
            Ok(())
        });
        if let Err(fault) = fed {
            return (messages, Some(fault));
        }
    }
    (messages, None)
}

/// Frames have one meaning, however they are divided into reads.
pub fn websocket(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let whole = read([stream].into_iter());
    assert_eq!(read(stream.chunks(usize::from(size) + 1)), whole);
}

/// The packets of a payload are the same after they were written again.
pub fn polling(body: &[u8]) {
    let packets = |body: &[u8]| {
        let mut frames = Vec::new();
        let decoded = payload::decode(body, |message| {
            frames.push(match message {
                Message::Text(text) => Frame::from_text(text),
                Message::Binary(bytes) => Frame::from_binary(bytes),
                other => panic!("{other:?} is in no payload"),
            });
            Ok(())
        });
        decoded.map(|()| frames)
    };
    // A packet has a type, so none is empty.
    let is_packet = |frame: &Frame| frame.is_binary() || !frame.payload().is_empty();
    if let Ok(frames) = packets(body)
        && frames.iter().all(is_packet)
    {
        assert_eq!(packets(&payload::encode(&frames)), Ok(frames));
    }
}

/// The data of a packet is what serde_json makes of it.
pub fn packet(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let Some(packet) = Packet::parse(text) else {
        return;
    };
    assert!(packet.namespace.starts_with('/'));
    if let Some((name, arguments)) = split_event(packet.data) {
        let name = Value::from(name.as_ref());
        let comma = if arguments.is_empty() { "" } else { "," };
        let again = format!("[{name}{comma}{arguments}]");
        // Numbers beyond the range of a value are JSON too.
        serde_json::from_str::<IgnoredAny>(packet.data).expect("an event is JSON");
        let [whole, again] =
            [packet.data, &again].map(|text| serde_json::from_str::<Value>(text).ok());
        assert_eq!(again, whole);
    } else if has_numeric_name(packet.data) || is_array(packet.data) {
        assert!(packet.data.trim_start().starts_with('['));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        test_kit::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
