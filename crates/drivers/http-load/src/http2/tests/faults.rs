//! Servers that break the rules of the protocol.

use harness_testing::rows;

use super::{Client, get, settings};
use crate::http2::frame::kind;
use crate::http2::{Event, Fault};

#[path = "../../../tests/suite/frames/text.rs"]
mod text;
use text::frames;

#[test]
fn faults_of_the_connection_have_their_code() {
    let first = |bytes: Vec<u8>| Client::new(&get()).take(&bytes);
    let http1 = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
    assert_eq!(first(http1), Err(Fault::FrameSize));
    let ping = frames("PING 0 0 00*8");
    assert_eq!(first(ping), Err(Fault::Protocol));
    let table = r#"
        a frame above 16 KiB: raw 00 40 01 00 00 00 00 00 01 => FrameSize
        settings in halves: SETTINGS 0 0 00*5 => FrameSize
        settings of a stream: SETTINGS 0 1 => Protocol
        an acknowledgement with settings: SETTINGS 1 0 00*6 => FrameSize
        pushes allowed by a server: SETTINGS 0 0 00 02 00 00 00 01 => Protocol
        a window above its limit: SETTINGS 0 0 00 04 80 00 00 00 => FlowControl
        frames below their least: SETTINGS 0 0 00 05 00 00 3f ff => Protocol
        frames above their most: SETTINGS 0 0 00 05 01 00 00 00 => Protocol
        a push: PUSH_PROMISE 4 1 00 00 00 02 82 => Protocol
        a short ping: PING 0 0 00*7 => FrameSize
        a ping of a stream: PING 0 1 00*8 => Protocol
        a short GOAWAY: GOAWAY 0 0 00*7 => FrameSize
        a short priority: PRIORITY 0 1 00*4 => FrameSize
        a reset of the connection: RST_STREAM 0 0 00*4 => Protocol
        a reset of a stream to come: RST_STREAM 0 3 00*4 => Protocol
        a long reset: RST_STREAM 0 1 00*5 => FrameSize
        a window that does not grow: WINDOW_UPDATE 0 0 00*4 => Protocol
        a window that grows too far: WINDOW_UPDATE 0 1 7f ff ff ff => FlowControl
        data without a head: DATA 0 1 "x" => Protocol
        data of the connection: DATA 0 0 "x" => Protocol
        a stream of the server: HEADERS 5 2 88 => Protocol
        a stream to come: HEADERS 5 3 88 => Protocol
        a stream that has ended: HEADERS 5 1 88 + HEADERS 5 1 88 => StreamClosed
        more padding than data: HEADERS 4 1 88 + DATA 8 1 02 "x" => Protocol
        padding without its length: HEADERS 4 1 88 + DATA 8 1 => FrameSize
        more padding than fields: HEADERS d 1 02 88 => Protocol
        a frame within a head: HEADERS 0 1 88 + PING 0 0 00*8 => Protocol
        the rest of another head: HEADERS 0 1 + CONTINUATION 4 3 88 => Protocol
        the rest of no head: CONTINUATION 4 1 88 => Protocol
        a head without end: HEADERS 0 1 78*16384 + CONTINUATION 0 1 78*16384 + CONTINUATION 0 1 78*16384 + CONTINUATION 0 1 78*16384 + CONTINUATION 0 1 78*16384 => HeadTooLarge
        an index of nothing: HEADERS 5 1 80 => Compression
        an index beyond the table: HEADERS 5 1 be => Compression
        an endless integer: HEADERS 5 1 ff ff ff ff ff ff 01 => Compression
        a string beyond the block: HEADERS 5 1 88 0f 0d 05 "x" => Compression
        a table above its limit: HEADERS 5 1 3f e2 1f 88 => Compression
        a table resized too late: HEADERS 5 1 88 20 => Compression
        a name that is not in Huffman's code: HEADERS 5 1 88 00 81 00 00 => Compression
    "#;
    for (text, parts) in rows(table) {
        let (name, text) = text.split_once(": ").unwrap();
        let mut client = Client::new(&get());
        client.open();
        let bytes = [settings(&[]), frames(text)].concat();
        let fault = client.take(&bytes).map(|_| ()).unwrap_err();
        assert_eq!(format!("{fault:?}"), parts[0], "{name}");
        client.connection.abort(fault);
        let sent = client.sent();
        let (head, payload) = sent.last().unwrap();
        assert_eq!(head.kind, kind::GOAWAY);
        assert_eq!(payload[4..], fault.code().to_be_bytes(), "{name}");
    }
}

#[test]
fn a_malformed_response_fails_alone() {
    let table = r#"
        no status: HEADERS 5 1 5c 01 "0"
        two: HEADERS 5 1 88 88
        a status of letters: HEADERS 5 1 08 03 "2OO"
        a status below 100: HEADERS 5 1 08 03 "099"
        101: HEADERS 5 1 08 03 "101"
        a status after a field: HEADERS 5 1 5c 01 "0" 88
        a field of requests: HEADERS 5 1 88 82
        an interim response at the end: HEADERS 5 1 08 03 "103"
        a name in upper case: HEADERS 5 1 88 00 01 "A" 01 "b"
        an empty name: HEADERS 5 1 88 00 00 01 "b"
        a field of connections: HEADERS 5 1 88 00 0a "connection" 05 "close"
        a line end in a value: HEADERS 5 1 88 00 01 "a" 01 0a
        a length of letters: HEADERS 5 1 88 5c 02 "no"
        an empty length: HEADERS 5 1 88 5c 00
        two lengths: HEADERS 5 1 88 5c 01 "0" 5c 01 "1"
        no body of a length: HEADERS 5 1 88 5c 01 "1"
        a body that is too short: HEADERS 4 1 88 5c 01 "2" + DATA 1 1 "x"
        a body that is too long: HEADERS 4 1 88 5c 01 "2" + DATA 1 1 "xyz"
        a body that may not be: HEADERS 4 1 89 + DATA 1 1 "x"
        a second head: HEADERS 4 1 88 + HEADERS 4 1 88
        trailers without end: HEADERS 4 1 88 + HEADERS 4 1 00 01 "a" 01 "b"
    "#;
    for row in table.trim().lines() {
        let (name, text) = row.split_once(": ").unwrap();
        let mut client = Client::new(&get());
        (0..2).for_each(|_| client.open());
        client.take(&settings(&[])).unwrap();
        client.sent();
        let events = client.take(&frames(text)).unwrap();
        let [Event::Failed(request, "protocol_http2")] = &events[..] else {
            panic!("{name}: {events:?}");
        };
        assert_eq!(request.number, 0, "{name}");
        assert_eq!(client.sent_kinds(), [(kind::RST_STREAM, 1, 4)], "{name}");
        // What was under way is ignored, and the other stream goes on.
        let late = frames("HEADERS 4 1 88 + DATA 1 1 78");
        client.take(&late).unwrap();
        let other = frames("HEADERS 5 3 88");
        let events = client.take(&other).unwrap();
        assert!(matches!(events[..], [Event::Answered(..)]), "{name}");
    }
}
