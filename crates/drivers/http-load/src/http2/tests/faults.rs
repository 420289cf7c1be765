//! Servers that break the rules of the protocol.

use super::{Client, frame, get, settings};
use crate::http2::frame::{MAX_PAYLOAD, flag, kind, setting};
use crate::http2::{Event, Fault};

#[test]
fn faults_of_the_connection_have_their_code() {
    let first = |bytes: Vec<u8>| Client::new(&get()).take(&bytes);
    let http1 = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    assert_eq!(first(http1), Err(Fault::FrameSize));
    assert_eq!(
        first(frame(kind::PING, 0, 0, &[0; 8])),
        Err(Fault::Protocol)
    );
    let headers = flag::END_HEADERS | flag::END_STREAM;
    let long = vec![b'x'; MAX_PAYLOAD];
    let block = |flags, payload: &[u8]| frame(kind::HEADERS, flags, 1, payload);
    for (name, bytes, fault) in [
        (
            "a frame above 16 KiB",
            vec![0, 0x40, 1, 0, 0, 0, 0, 0, 1],
            Fault::FrameSize,
        ),
        (
            "settings in halves",
            frame(kind::SETTINGS, 0, 0, &[0; 5]),
            Fault::FrameSize,
        ),
        (
            "settings of a stream",
            frame(kind::SETTINGS, 0, 1, &[]),
            Fault::Protocol,
        ),
        (
            "an acknowledgement with settings",
            frame(kind::SETTINGS, flag::ACK, 0, &[0; 6]),
            Fault::FrameSize,
        ),
        (
            "pushes allowed by a server",
            settings(&[(setting::ENABLE_PUSH, 1)]),
            Fault::Protocol,
        ),
        (
            "a window above its limit",
            settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]),
            Fault::FlowControl,
        ),
        (
            "frames below their least",
            settings(&[(setting::MAX_FRAME_SIZE, 16_383)]),
            Fault::Protocol,
        ),
        (
            "frames above their most",
            settings(&[(setting::MAX_FRAME_SIZE, 1 << 24)]),
            Fault::Protocol,
        ),
        (
            "a push",
            frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, b"\0\0\0\x02\x82"),
            Fault::Protocol,
        ),
        (
            "a short ping",
            frame(kind::PING, 0, 0, &[0; 7]),
            Fault::FrameSize,
        ),
        (
            "a ping of a stream",
            frame(kind::PING, 0, 1, &[0; 8]),
            Fault::Protocol,
        ),
        (
            "a short GOAWAY",
            frame(kind::GOAWAY, 0, 0, &[0; 7]),
            Fault::FrameSize,
        ),
        (
            "a short priority",
            frame(kind::PRIORITY, 0, 1, &[0; 4]),
            Fault::FrameSize,
        ),
        (
            "a reset of the connection",
            frame(kind::RST_STREAM, 0, 0, &[0; 4]),
            Fault::Protocol,
        ),
        (
            "a reset of a stream to come",
            frame(kind::RST_STREAM, 0, 3, &[0; 4]),
            Fault::Protocol,
        ),
        (
            "a long reset",
            frame(kind::RST_STREAM, 0, 1, &[0; 5]),
            Fault::FrameSize,
        ),
        (
            "a window that does not grow",
            frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4]),
            Fault::Protocol,
        ),
        (
            "a window that grows too far",
            frame(kind::WINDOW_UPDATE, 0, 1, &[0x7f, 0xff, 0xff, 0xff]),
            Fault::FlowControl,
        ),
        (
            "data without a head",
            frame(kind::DATA, 0, 1, b"x"),
            Fault::Protocol,
        ),
        (
            "data of the connection",
            frame(kind::DATA, 0, 0, b"x"),
            Fault::Protocol,
        ),
        (
            "a stream of the server",
            frame(kind::HEADERS, headers, 2, b"\x88"),
            Fault::Protocol,
        ),
        (
            "a stream to come",
            frame(kind::HEADERS, headers, 3, b"\x88"),
            Fault::Protocol,
        ),
        (
            "a stream that has ended",
            [block(headers, b"\x88"), block(headers, b"\x88")].concat(),
            Fault::StreamClosed,
        ),
        (
            "more padding than data",
            [
                block(4, b"\x88"),
                frame(kind::DATA, flag::PADDED, 1, b"\x02x"),
            ]
            .concat(),
            Fault::Protocol,
        ),
        (
            "padding without its length",
            [block(4, b"\x88"), frame(kind::DATA, flag::PADDED, 1, b"")].concat(),
            Fault::FrameSize,
        ),
        (
            "more padding than fields",
            block(headers | flag::PADDED, b"\x02\x88"),
            Fault::Protocol,
        ),
        (
            "a frame within a head",
            [block(0, b"\x88"), frame(kind::PING, 0, 0, &[0; 8])].concat(),
            Fault::Protocol,
        ),
        (
            "the rest of another head",
            [block(0, b""), frame(kind::CONTINUATION, 4, 3, b"\x88")].concat(),
            Fault::Protocol,
        ),
        (
            "the rest of no head",
            frame(kind::CONTINUATION, 4, 1, b"\x88"),
            Fault::Protocol,
        ),
        (
            "a head without end",
            [
                block(0, &long),
                frame(kind::CONTINUATION, 0, 1, &long).repeat(4),
            ]
            .concat(),
            Fault::HeadTooLarge,
        ),
        (
            "an index of nothing",
            block(headers, b"\x80"),
            Fault::Compression,
        ),
        (
            "an index beyond the table",
            block(headers, b"\xbe"),
            Fault::Compression,
        ),
        (
            "an endless integer",
            block(headers, b"\xff\xff\xff\xff\xff\xff\x01"),
            Fault::Compression,
        ),
        (
            "a string beyond the block",
            block(headers, b"\x88\x0f\x0d\x05x"),
            Fault::Compression,
        ),
        (
            "a table above its limit",
            block(headers, b"\x3f\xe2\x1f\x88"),
            Fault::Compression,
        ),
        (
            "a table resized too late",
            block(headers, b"\x88\x20"),
            Fault::Compression,
        ),
        (
            "a name that is not in Huffman's code",
            block(headers, b"\x88\x00\x81\x00\x00"),
            Fault::Compression,
        ),
    ] {
        let mut client = Client::new(&get());
        client.open();
        let bytes = [settings(&[]), bytes].concat();
        assert_eq!(client.take(&bytes).map(|_| ()), Err(fault), "{name}");
        client.connection.abort(fault);
        let sent = client.sent();
        let (head, payload) = sent.last().unwrap();
        assert_eq!(head.kind, kind::GOAWAY);
        assert_eq!(payload[4..], fault.code().to_be_bytes(), "{name}");
    }
}

#[test]
fn a_malformed_response_fails_alone() {
    let whole = flag::END_HEADERS | flag::END_STREAM;
    let fields = |flags, block: &[u8]| frame(kind::HEADERS, flags, 1, block);
    let head = |block: &[u8]| fields(flag::END_HEADERS, block);
    let data = |body: &[u8]| frame(kind::DATA, flag::END_STREAM, 1, body);
    for (name, bytes) in [
        ("no status", fields(whole, b"\x5c\x010")),
        ("two", fields(whole, b"\x88\x88")),
        ("a status of letters", fields(whole, b"\x08\x032OO")),
        ("a status below 100", fields(whole, b"\x08\x03099")),
        ("101", fields(whole, b"\x08\x03101")),
        ("a status after a field", fields(whole, b"\x5c\x010\x88")),
        ("a field of requests", fields(whole, b"\x88\x82")),
        (
            "an interim response at the end",
            fields(whole, b"\x08\x03103"),
        ),
        ("a name in upper case", fields(whole, b"\x88\x00\x01A\x01b")),
        ("an empty name", fields(whole, b"\x88\x00\x00\x01b")),
        (
            "a field of connections",
            fields(whole, b"\x88\x00\x0aconnection\x05close"),
        ),
        (
            "a line end in a value",
            fields(whole, b"\x88\x00\x01a\x01\n"),
        ),
        ("a length of letters", fields(whole, b"\x88\x5c\x02no")),
        ("an empty length", fields(whole, b"\x88\x5c\x00")),
        ("two lengths", fields(whole, b"\x88\x5c\x010\x5c\x011")),
        ("no body of a length", fields(whole, b"\x88\x5c\x011")),
        (
            "a body that is too short",
            [head(b"\x88\x5c\x012"), data(b"x")].concat(),
        ),
        (
            "a body that is too long",
            [head(b"\x88\x5c\x012"), data(b"xyz")].concat(),
        ),
        (
            "a body that may not be",
            [head(b"\x89"), data(b"x")].concat(),
        ),
        ("a second head", [head(b"\x88"), head(b"\x88")].concat()),
        (
            "trailers without end",
            [head(b"\x88"), head(b"\x00\x01a\x01b")].concat(),
        ),
    ] {
        let mut client = Client::new(&get());
        (0..2).for_each(|_| client.open());
        client.take(&settings(&[])).unwrap();
        client.sent();
        let events = client.take(&bytes).unwrap();
        let [Event::Failed(request, "protocol_http2")] = &events[..] else {
            panic!("{name}: {events:?}");
        };
        assert_eq!(request.number, 0, "{name}");
        assert_eq!(client.sent_kinds(), [(kind::RST_STREAM, 1, 4)], "{name}");
        // What was under way is ignored, and the other stream goes on.
        client.take(&[head(b"\x88"), data(b"x")].concat()).unwrap();
        let other = frame(kind::HEADERS, whole, 3, b"\x88");
        assert!(matches!(
            client.take(&other).unwrap()[..],
            [Event::Answered(..)]
        ));
    }
}
