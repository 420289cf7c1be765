//! WebSocket frames against tungstenite, in both directions.

use std::io::{Cursor, Read, Write};

use presence_load::protocol::ProtocolError;
use presence_load::protocol::websocket::{
    Masks, Message, Opcode, Reader, append_close, append_frame,
};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert_eq, proptest};
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::protocol::{Role, WebSocket, WebSocketConfig};

const LIMIT: usize = 200_000;

/// A stream that reads what the client wrote, and keeps what the server writes.
#[derive(Default)]
struct Wire {
    from_client: Cursor<Vec<u8>>,
    to_client: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.from_client.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.to_client.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn server(from_client: Vec<u8>) -> WebSocket<Wire> {
    let wire = Wire {
        from_client: Cursor::new(from_client),
        to_client: Vec::new(),
    };
    let config = WebSocketConfig::default().max_message_size(None);
    WebSocket::from_raw_socket(wire, Role::Server, Some(config))
}

/// Returns what tungstenite writes for these frames.
fn written(frames: Vec<Frame>) -> Vec<u8> {
    let mut server = server(Vec::new());
    for frame in frames {
        server.write(tungstenite::Message::Frame(frame)).unwrap();
    }
    server.flush().unwrap();
    std::mem::take(&mut server.get_mut().to_client)
}

/// Describes all messages in pieces of a stream, each presented with what was left of the one before.
fn described(pieces: &[&[u8]]) -> Result<Vec<String>, ProtocolError> {
    let mut reader = Reader::default();
    let mut kept = Vec::new();
    let mut messages = Vec::new();
    for piece in pieces {
        kept.extend_from_slice(piece);
        let mut taken = 0;
        loop {
            let (length, message) = reader.next(&kept[taken..], LIMIT)?;
            taken += length;
            match message {
                Some(message) => messages.push(format!("{message:?}")),
                None => break,
            }
        }
        kept.drain(..taken);
    }
    Ok(messages)
}

/// Two messages in fragments with control frames between them, then a close frame.
fn fragmented() -> (Vec<u8>, Vec<String>) {
    let data = |bytes: &'static str, kind, last| Frame::message(bytes, OpCode::Data(kind), last);
    let frames = vec![
        data("h\u{e9}l", Data::Text, false),
        Frame::ping("are you there"),
        data("", Data::Continue, false),
        data("lo", Data::Continue, true),
        data("whole", Data::Text, true),
        data("by", Data::Binary, false),
        Frame::pong(""),
        data("tes", Data::Continue, true),
        Frame::close(Some(CloseFrame {
            code: 1001.into(),
            reason: "restart".into(),
        })),
    ];
    let messages = [
        Message::Ping(b"are you there"),
        Message::Text("h\u{e9}llo".into()),
        Message::Text("whole".into()),
        Message::Pong(b""),
        Message::Binary(b"bytes".into()),
        Message::Close(Some(1001)),
    ];
    let messages = messages.iter().map(|message| format!("{message:?}"));
    (written(frames), messages.collect())
}

#[test]
fn fragments_are_read_the_same_wherever_the_stream_is_split() {
    let (stream, messages) = fragmented();
    assert_eq!(described(&[&stream]).unwrap(), messages);
    for at in 0..=stream.len() {
        let (first, second) = stream.split_at(at);
        assert_eq!(described(&[first, second]).unwrap(), messages, "at {at}");
    }
    let bytes: Vec<_> = stream.chunks(1).collect();
    assert_eq!(described(&bytes).unwrap(), messages);
}

#[test]
fn a_complete_text_is_not_copied() {
    let stream = written(vec![Frame::message("text", OpCode::Data(Data::Text), true)]);
    let (_, message) = Reader::default().next(&stream, LIMIT).unwrap();
    let borrowed = std::borrow::Cow::Borrowed("text");
    assert!(
        matches!(message, Some(Message::Text(text)) if text == borrowed && matches!(text, std::borrow::Cow::Borrowed(_)))
    );
}

#[test]
fn a_server_that_breaks_the_protocol_is_named_for_it() {
    use ProtocolError::{
        CloseCode, Continuation, Control, Length, Masked, Opcode, ReservedBits, TooLarge, Utf8,
    };
    let cases: &[(&[u8], ProtocolError)] = &[
        (&[0xC1, 0], ReservedBits),
        (&[0xA1, 0], ReservedBits),
        (&[0x91, 0], ReservedBits),
        (&[0x83, 0], Opcode),
        (&[0x8B, 0], Opcode),
        (&[0x81, 0x80, 0, 0, 0, 0], Masked),
        (&[0x09, 0], Control),
        (&[0x89, 126, 0, 126], Control),
        (&[0x81, 126, 0, 125], Length),
        (&[0x81, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], Length),
        (&[0x81, 127, 0x80, 0, 0, 0, 0, 1, 0, 0], Length),
        (&[0x81, 127, 0, 0, 0, 0, 0, 4, 0, 0], TooLarge),
        (&[0x80, 0], Continuation),
        (&[0x01, 1, b'a', 0x81, 0], Continuation),
        (&[0x01, 1, b'a', 0x82, 0], Continuation),
        (&[0x81, 1, 0xFF], Utf8),
        (&[0x01, 1, 0xC3, 0x80, 1, b'a'], Utf8),
        (&[0x88, 3, 3, 0xE8, 0xFF], Utf8),
        (&[0x88, 1, 3], CloseCode),
        (&[0x88, 2, 3, 0xED], CloseCode),
        (&[0x88, 2, 0, 1], CloseCode),
        (&[0x88, 2, 0x13, 0x88], CloseCode),
    ];
    for (stream, error) in cases {
        assert_eq!(described(&[stream]), Err(*error), "{stream:x?}");
    }
}

#[test]
fn the_fragments_of_a_message_may_not_exceed_the_limit_together() {
    let mut reader = Reader::default();
    let fragments = [0x01, 3, b'a', b'b', b'c', 0x80, 3, b'd', b'e', b'f'];
    assert_eq!(reader.next(&fragments, 5), Err(ProtocolError::TooLarge));
    let mut reader = Reader::default();
    assert!(matches!(
        reader.next(&fragments, 6),
        Ok((10, Some(Message::Text(_))))
    ));
}

/// The lengths around the limits of the three encodings, and others.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![
        0..300_usize,
        124..128_usize,
        65_530..65_540_usize,
        0..150_000_usize
    ];
    (length, any::<u8>()).prop_map(|(length, first)| {
        let bytes = (0..length).map(|at| first.wrapping_add(at as u8) & 0x7F);
        bytes.collect()
    })
}

proptest! {
    #[test]
    fn tungstenite_reads_what_the_client_writes(payloads in vec(payload(), 1..4), seed in any::<u64>(), code in 3000..4000_u16) {
        let mut masks = Masks::new(seed);
        let mut out = Vec::new();
        for payload in &payloads {
            append_frame(&mut out, Opcode::Text, payload, &mut masks);
            append_frame(&mut out, Opcode::Binary, payload, &mut masks);
            append_frame(&mut out, Opcode::Pong, &payload[..payload.len().min(125)], &mut masks);
        }
        append_close(&mut out, Some(code), &mut masks);
        let mut server = server(out);
        for payload in payloads {
            let text = server.read().unwrap();
            prop_assert_eq!(&text.into_data()[..], &payload);
            let binary = server.read().unwrap();
            prop_assert_eq!(&binary.into_data()[..], &payload);
            let pong = server.read().unwrap();
            prop_assert_eq!(&pong.into_data()[..], &payload[..payload.len().min(125)]);
        }
        let close = server.read().unwrap();
        let tungstenite::Message::Close(Some(frame)) = close else { panic!("{close:?}") };
        prop_assert_eq!(u16::from(frame.code), code);
    }

    #[test]
    fn the_client_reads_what_tungstenite_writes(
        payloads in vec((payload(), 0..4_usize), 1..4),
        splits in vec(0..200_000_usize, 0..6),
    ) {
        let mut frames = Vec::new();
        let mut expected = Vec::new();
        for (payload, pieces) in payloads {
            let size = payload.len() / (pieces + 1) + 1;
            let chunks: Vec<_> = payload.chunks(size).collect();
            let chunks = if chunks.is_empty() { vec![&[][..]] } else { chunks };
            for (at, chunk) in chunks.iter().enumerate() {
                let kind = if at == 0 { Data::Text } else { Data::Continue };
                frames.push(Frame::message(chunk.to_vec(), OpCode::Data(kind), at + 1 == chunks.len()));
            }
            expected.push(format!("Text({:?})", String::from_utf8(payload).unwrap()));
        }
        let stream = written(frames);
        let mut splits: Vec<_> = splits.into_iter().map(|at| at % (stream.len() + 1)).collect();
        splits.sort_unstable();
        let ends = splits.iter().copied().chain([stream.len()]);
        let starts = [0].into_iter().chain(splits.iter().copied());
        let pieces: Vec<_> = starts.zip(ends).map(|(start, end)| &stream[start..end]).collect();
        prop_assert_eq!(described(&pieces).unwrap(), expected);
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(stream in vec(any::<u8>(), 0..300), at in 0..300_usize) {
        let (first, second) = stream.split_at(at.min(stream.len()));
        prop_assert_eq!(described(&[&stream]), described(&[first, second]));
    }
}
