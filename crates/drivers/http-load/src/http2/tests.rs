//! A connection fed with the bytes of a server, and the bytes that it sends.

mod faults;

use load::net::url::ServerUrl;
use traffic::{Names, Values};

use super::frame::{FrameHead, HEAD, MAX_PAYLOAD, flag, kind, setting};
use super::hpack::{Decoder, Encoded};
use super::{
    Connection, Event, Fault, MOST_UNSENT, OwnPart, RequestBlocks, Response, Sink, Table, WINDOW,
};
use crate::roles::cookies::Cookies;
use crate::settings::Settings;
use crate::shared::parse_url;

/// The number of a request, with the parts of its response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    number: u64,
    heads: Vec<u16>,
    fields: Vec<String>,
    body: Vec<u8>,
}

/// Receives all parts of responses.
struct All;

impl Sink<Request> for All {
    fn head(&mut self, request: &mut Request, status: u16) {
        request.heads.push(status);
    }

    fn needs(&self, name: &[u8]) -> bool {
        name != b"unneeded"
    }

    fn field(&mut self, request: &mut Request, name: &[u8], value: &[u8]) {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let field = format!("{}: {}", text(name), text(value));
        request.fields.push(field);
    }

    fn body(&mut self, request: &mut Request, piece: &[u8]) -> Result<(), &'static str> {
        assert!(!piece.is_empty());
        request.body.extend_from_slice(piece);
        Ok(())
    }
}

/// Receives nothing.
struct Nothing;

impl Sink<Request> for Nothing {}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let head = FrameHead {
        length: payload.len(),
        kind,
        flags,
        stream,
    };
    head.put(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let pairs = settings.iter();
    let pairs = pairs.map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    frame(kind::SETTINGS, 0, 0, &pairs.collect::<Vec<_>>().concat())
}

/// A client with the requests of some settings.
struct Client {
    connection: Connection<Request>,
    blocks: RequestBlocks,
    next: u64,
}

impl Client {
    fn new(settings: &Settings) -> Self {
        let server: ServerUrl = parse_url("http://127.0.0.1:80/x").unwrap();
        Self {
            connection: Connection::new(Table::Empty),
            blocks: RequestBlocks::new(settings, &server, &Names::default()).unwrap(),
            next: 0,
        }
    }

    /// Opens a stream; returns the frames that were sent since the last call, as types, streams and lengths.
    fn open(&mut self) {
        let request = Request {
            number: self.next,
            ..Request::default()
        };
        let (values, mut own) = (Values::from_number(self.next), OwnPart::default());
        self.blocks.write(values, Cookies::NONE, None, &mut own);
        self.connection.open(request, &self.blocks, &own);
        self.next += 1;
    }

    /// Takes received bytes; returns the events.
    fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event<Request>>, Fault> {
        let (mut taken, mut events) = (0, Vec::new());
        while taken < bytes.len() {
            let (used, event) = self.connection.take(&bytes[taken..], &mut All)?;
            assert!(event.is_some() || taken + used == bytes.len());
            taken += used;
            events.extend(event);
        }
        Ok(events)
    }

    /// Sends everything that may be sent; returns the heads of its frames with their payloads.
    fn sent(&mut self) -> Vec<(FrameHead, Vec<u8>)> {
        let mut frames = Vec::new();
        loop {
            self.connection.upload();
            let mut output = self.connection.output().to_vec();
            if output.is_empty() {
                return frames;
            }
            self.connection.advance(output.len());
            if output.starts_with(b"PRI") {
                output.drain(..super::PREFACE.len());
            }
            while let Some(head) = FrameHead::parse(&output) {
                let payload = output[HEAD..HEAD + head.length].to_vec();
                frames.push((head, payload));
                output.drain(..HEAD + head.length);
            }
        }
    }

    fn sent_kinds(&mut self) -> Vec<SentFrame> {
        let frames = self.sent().into_iter();
        frames
            .map(|(head, _)| (head.kind, head.stream, head.length))
            .collect()
    }
}

fn get() -> Settings {
    Settings::default()
}

/// Decodes a block that a request sent.
fn decode(decoder: &mut Decoder, block: &[u8]) -> Vec<String> {
    let mut fields = Vec::new();
    let decoded = decoder.decode(block, |name, value: Encoded<'_>, _| {
        let value = value.decode()?.into_owned();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        fields.push(format!("{}: {}", text(name), text(&value)));
        Ok(())
    });
    decoded.unwrap();
    fields
}

/// Responses of all kinds on three streams, between other frames.
fn script() -> Vec<u8> {
    let fields = [
        // 200, with a new field that is added to the table, and a length in Huffman's code: 5.
        b"\x88\x40\x03x-a\x03yes\x5c\x81\x6f".as_slice(),
        b"\x00\x08unneeded\x85\xff\xff\xff\xff\xff",
    ];
    let block = fields[0];
    [
        settings(&[(setting::MAX_CONCURRENT_STREAMS, 128), (99, 1)]),
        // An interim response, then a head in three pieces, with padding and a priority.
        frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x08\x03103"),
        frame(
            kind::HEADERS,
            flag::PADDED | flag::PRIORITY,
            1,
            &[&[2, 0, 0, 0, 0, 9], &block[..2], &[0, 0]].concat(),
        ),
        frame(kind::CONTINUATION, 0, 1, &block[2..9]),
        frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[9..]),
        frame(kind::DATA, flag::PADDED, 1, b"\x03hel\0\0\0"),
        frame(kind::PING, 0, 0, b"12345678"),
        frame(0xbe, 0xff, 77, b"grease"),
        // The added field by its index; no body.
        frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            3,
            &[&[0x89, 0xbf], fields[1]].concat(),
        ),
        frame(kind::PRIORITY, 0, 5, b"\0\0\0\0\x01"),
        frame(kind::DATA, 0, 1, b"lo"),
        frame(kind::DATA, flag::END_STREAM | flag::PADDED, 1, b"\x01\0"),
        frame(kind::HEADERS, flag::END_HEADERS, 5, b"\x88"),
        frame(kind::DATA, 0, 5, b"hello"),
        // Trailers.
        frame(
            kind::HEADERS,
            flag::END_HEADERS | flag::END_STREAM,
            5,
            b"\x00\x05x-sum\x011",
        ),
        frame(kind::GOAWAY, 0, 0, b"\0\0\0\x05\0\0\0\0bye"),
    ]
    .concat()
}

/// The type, the stream and the length of a frame.
type SentFrame = (u8, u32, usize);

fn played(pieces: impl Iterator<Item = Vec<u8>>) -> (Vec<Event<Request>>, Vec<SentFrame>) {
    let mut client = Client::new(&get());
    (0..3).for_each(|_| client.open());
    client.sent();
    let mut events = Vec::new();
    for piece in pieces {
        events.extend(client.take(&piece).unwrap());
    }
    (events, client.sent_kinds())
}

#[test]
fn responses_mean_the_same_however_their_bytes_are_split() {
    let script = script();
    let (events, sent) = played([script.clone()].into_iter());
    let answered = |number, fields: &[&str], body: &str, status| {
        let request = Request {
            number,
            heads: vec![status],
            fields: fields.iter().map(|field| (*field).to_owned()).collect(),
            body: body.into(),
        };
        let body = body.len() as u64;
        Event::Answered(request, Response { status, body })
    };
    let expected = [
        answered(1, &["x-a: yes"], "", 204),
        answered(0, &["x-a: yes", "content-length: 5"], "hello", 200),
        answered(2, &[], "hello", 200),
        Event::Closing,
    ];
    assert_eq!(events, expected);
    assert_eq!(sent, [(kind::SETTINGS, 0, 0), (kind::PING, 0, 8)]);
    for cut in 1..script.len() {
        let pieces = [script[..cut].to_vec(), script[cut..].to_vec()];
        assert_eq!(played(pieces.into_iter()).0, events, "{cut}");
    }
    let bytes = script.chunks(1).map(<[u8]>::to_vec);
    assert_eq!(played(bytes), (events, sent));
}

#[test]
fn a_request_body_follows_the_windows_of_the_server() {
    let post = Settings {
        method: "POST".to_owned(),
        body: vec!["x".repeat(100_000)],
        ..Settings::default()
    };
    let mut client = Client::new(&post);
    client
        .take(&settings(&[(setting::INITIAL_WINDOW_SIZE, 20_000)]))
        .unwrap();
    (0..2).for_each(|_| client.open());
    let data = |frames: Vec<SentFrame>| {
        let frames = frames.into_iter().filter(|(kind, ..)| *kind == kind::DATA);
        frames
            .map(|(_, stream, length)| (stream, length))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        data(client.sent_kinds()),
        [(1, 16_384), (1, 3_616), (3, 16_384), (3, 3_616)]
    );
    let update = |stream, more: u32| frame(kind::WINDOW_UPDATE, 0, stream, &more.to_be_bytes());
    // A smaller initial window makes the windows negative; they must grow above 0 first.
    client
        .take(&settings(&[(setting::INITIAL_WINDOW_SIZE, 5_000)]))
        .unwrap();
    client.take(&update(1, 15_000)).unwrap();
    assert_eq!(data(client.sent_kinds()), []);
    client.take(&update(1, 10)).unwrap();
    assert_eq!(data(client.sent_kinds()), [(1, 10)]);
    // The window of the connection has 25,525 bytes left.
    client.take(&update(1, 100_000)).unwrap();
    assert_eq!(data(client.sent_kinds()), [(1, 16_384), (1, 9_141)]);
    client.take(&update(0, 1_000_000)).unwrap();
    let sent = data(client.sent_kinds());
    let length: usize = sent.iter().map(|(_, length)| length).sum();
    assert_eq!((sent[0].0, length), (1, 100_000 - 20_010 - 25_525));
    // The server answers before it has the whole body: it is not sent.
    let whole = flag::END_HEADERS | flag::END_STREAM;
    client
        .take(&frame(kind::HEADERS, whole, 3, b"\x88"))
        .unwrap();
    client.take(&update(3, 100_000)).unwrap_or_default();
    assert_eq!(client.sent_kinds(), [(kind::RST_STREAM, 3, 4)]);
}

#[test]
fn streams_are_opened_up_to_the_limit_of_the_server() {
    let mut client = Client::new(&get());
    let fill = |client: &mut Client| {
        while client.connection.can_open() {
            client.open();
        }
        client.connection.open_streams()
    };
    assert_eq!(
        fill(&mut client),
        100,
        "before the server has named its limit"
    );
    let limit = |most| settings(&[(setting::MAX_CONCURRENT_STREAMS, most)]);
    client.take(&limit(128)).unwrap();
    assert_eq!(fill(&mut client), 128);
    client.take(&limit(0)).unwrap();
    let whole = flag::END_HEADERS | flag::END_STREAM;
    client
        .take(&frame(kind::HEADERS, whole, 1, b"\x88"))
        .unwrap();
    assert_eq!(fill(&mut client), 127);
}

#[test]
fn a_goaway_excludes_streams_and_a_later_one_no_fewer() {
    let goaway = |last: u32| frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    let mut client = Client::new(&get());
    (0..4).for_each(|_| client.open());
    client.take(&settings(&[])).unwrap();
    let excluded = |client: &mut Client, last| {
        assert_eq!(client.take(&goaway(last)).unwrap(), [Event::Closing]);
        let pop = || client.connection.pop_excluded();
        std::iter::from_fn(pop)
            .map(|request| request.number)
            .collect::<Vec<_>>()
    };
    assert!(excluded(&mut client, 0x7fff_ffff).is_empty());
    assert!(client.connection.is_closing() && !client.connection.can_open());
    assert_eq!(excluded(&mut client, 3), [3, 2]);
    assert!(excluded(&mut client, 5).is_empty());
    assert_eq!(excluded(&mut client, 0), [1, 0]);
}

#[test]
fn a_server_that_asks_for_answers_and_does_not_read_them_is_left() {
    for question in [frame(kind::PING, 0, 0, &[0; 8]), settings(&[])] {
        let mut client = Client::new(&get());
        client.take(&settings(&[])).unwrap();
        let flood = question.repeat(MOST_UNSENT);
        assert_eq!(client.take(&flood), Err(Fault::Flood));
        assert!(client.connection.output().len() < 2 * MOST_UNSENT);
    }
}

#[test]
fn windows_are_widened_in_large_steps() {
    let mut client = Client::new(&get());
    client.open();
    client.take(&settings(&[])).unwrap();
    client
        .take(&frame(kind::HEADERS, flag::END_HEADERS, 1, b"\x88"))
        .unwrap();
    client.sent();
    let piece = frame(kind::DATA, 0, 1, &[b'x'; MAX_PAYLOAD]);
    let steps = WINDOW as usize / 2 / MAX_PAYLOAD + 1;
    for step in 0..steps {
        assert!(client.connection.output().is_empty(), "{step}");
        client.connection.take(&piece, &mut Nothing).unwrap();
    }
    let update = |stream| (kind::WINDOW_UPDATE, stream, 4);
    assert_eq!(client.sent_kinds(), [update(0), update(1)]);
}

#[test]
fn a_request_is_a_few_indices_after_the_first_one() {
    let settings_of = Settings {
        method: "POST".to_owned(),
        path: Some("/items/{id:100}".to_owned()),
        headers: [
            "X-A: b",
            "X-Id: {id}",
            "Host: example.org",
            "Connection: close",
        ]
        .map(str::to_owned)
        .into(),
        body: vec!["{id}".to_owned(), String::new()],
        ..Settings::default()
    };
    let mut client = Client::new(&settings_of);
    let mut decoder = Decoder::new();
    let fields = |number: u64, length: usize| {
        vec![
            ":method: POST".to_owned(),
            ":scheme: http".to_owned(),
            ":authority: example.org".to_owned(),
            format!(":path: /items/{}", number % 100),
            format!("x-id: {number}"),
            format!("content-length: {length}"),
            "x-a: b".to_owned(),
        ]
    };
    let mut lengths = Vec::new();
    for (number, length) in [(0, 1), (1, 0), (2, 1)] {
        client.open();
        let sent = client.sent();
        let headers = sent.iter().find(|(head, _)| head.kind == kind::HEADERS);
        let (head, block) = headers.unwrap();
        assert_eq!(decode(&mut decoder, block), fields(number, length));
        assert_eq!(head.has(flag::END_STREAM), length == 0);
        lengths.push(block.len());
    }
    assert!(
        lengths[1] + 15 < lengths[0] && lengths[2] == lengths[1],
        "{lengths:?}"
    );
    // A server that makes its table smaller is told that it is not used any more.
    client
        .take(&settings(&[(setting::HEADER_TABLE_SIZE, 100)]))
        .unwrap();
    for number in [3, 4] {
        client.open();
        let sent = client.sent();
        let headers = sent.iter().find(|(head, _)| head.kind == kind::HEADERS);
        let block = &headers.unwrap().1;
        assert_eq!(block[0] == 0x20, number == 3);
        let mut anew = Decoder::new();
        assert_eq!(
            decode(&mut anew, block),
            fields(number, 1 - number as usize % 2)
        );
    }
}

#[test]
fn a_long_head_of_a_request_is_continued() {
    let settings = Settings {
        headers: vec![format!("x: {}", "y".repeat(40_000))],
        ..Settings::default()
    };
    let mut client = Client::new(&settings);
    client.open();
    let sent = client.sent();
    let frames = sent.iter().filter(|(head, _)| head.stream == 1);
    let kinds = frames.clone().map(|(head, _)| (head.kind, head.flags));
    let (headers, more) = (kind::HEADERS, kind::CONTINUATION);
    assert!(kinds.eq([
        (headers, flag::END_STREAM),
        (more, 0),
        (more, flag::END_HEADERS)
    ]));
    let block: Vec<u8> = frames.flat_map(|(_, payload)| payload.clone()).collect();
    let fields = decode(&mut Decoder::new(), &block);
    assert_eq!(fields.last().map(String::len), Some(40_003));
}

/// The responses of RFC 7541 C.6: in Huffman's code, with a table that is too small for all of their fields.
#[test]
fn the_examples_of_the_rfc_are_decoded() {
    let hex = |text: &str| -> Vec<u8> {
        let text: String = text.split_whitespace().collect();
        let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digits).collect()
    };
    let mut decoder = Decoder::new();
    // The size of the table in the examples, 256, is said first.
    let first = "3fe101 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3";
    let date = "date: Mon, 21 Oct 2013 20:13:2";
    let fixed = [
        "cache-control: private",
        "location: https://www.example.com",
    ];
    let expect = |status: &str, second: u32| {
        let mut fields = vec![format!(":status: {status}"), fixed[0].to_owned()];
        fields.push(format!("{date}{second} GMT"));
        fields.push(fixed[1].to_owned());
        fields
    };
    assert_eq!(decode(&mut decoder, &hex(first)), expect("302", 1));
    assert_eq!(
        decode(&mut decoder, &hex("4883 640e ffc1 c0bf")),
        expect("307", 1)
    );
    let third = "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07";
    let mut fields = expect("200", 2);
    fields.push("content-encoding: gzip".to_owned());
    fields.push("set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1".to_owned());
    assert_eq!(decode(&mut decoder, &hex(third)), fields);
}

/// A server may add far more fields than the table holds before it uses one, and may name a field by another one.
#[test]
fn a_table_that_is_used_late_has_the_newest_fields() {
    let mut decoder = Decoder::new();
    let added = |number: usize| {
        let text = format!("{number:0>30}");
        [b"\x40\x02x-\x1e", text.as_bytes()].concat()
    };
    for more in [1, 127, 128, 129, 255, 256, 300] {
        for number in 0..more {
            decode(&mut decoder, &added(number));
        }
        // 64 bytes each, so the newest 64 are there: 62 is the last one.
        let field = |back: usize| format!("x-: {:0>30}", more - 1 - back);
        assert_eq!(decode(&mut decoder, b"\xbe"), [field(0)]);
        if more > 64 {
            assert_eq!(decode(&mut decoder, b"\xfd"), [field(63)]);
            let beyond = decoder.decode(b"\xfe", |_, _, _| Ok(()));
            assert_eq!(beyond, Err(Fault::Compression), "{more}");
        }
        // The name of the newest field, with another value, becomes the newest one.
        decode(&mut decoder, b"\x7e\x03new");
        assert_eq!(
            decode(&mut decoder, b"\xbe\xbf"),
            ["x-: new".to_owned(), field(0)]
        );
    }
}
