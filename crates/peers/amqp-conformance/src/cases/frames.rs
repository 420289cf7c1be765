//! Frames and methods that are malformed or misplaced: sections 2.3.5 and 4.2.

use super::*;
use crate::wire::{BODY, Frame, HEADER, HEARTBEAT, METHOD};

/// queue.declare up to its arguments: reserved, an empty name, no bit.
const DECLARE: &[u8] = &[0, 50, 0, 10, 0, 0, 0, 0];
/// The header of an empty content of class basic without properties.
const EMPTY: &[u8] = &[0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Input on channel 1, which is open, and the reply code that must close the connection.
const BROKEN: [(&str, u8, u16, &[u8], u16); 10] = [
    ("an unknown frame type", 9, 1, b"", 501),
    ("frame type 0", 0, 1, b"", 501),
    ("frame type 4", 4, 1, b"x", 501),
    ("a content header without a method", HEADER, 1, EMPTY, 505),
    ("a body without a header", BODY, 1, b"x", 505),
    ("a body on channel 0", BODY, 0, b"x", 505),
    ("a content header on channel 0", HEADER, 0, EMPTY, 505),
    ("a heartbeat on channel 1", HEARTBEAT, 1, b"", 505),
    ("a heartbeat with a payload", HEARTBEAT, 0, b"x", 501),
    ("a body on a channel that is not open", BODY, 7, b"x", 505),
];

/// Payloads of method frames on channel 1, which is open, that must close the connection with 501.
const BROKEN_METHODS: [(&str, &[u8]); 6] = [
    ("a method frame without payload", b""),
    ("a method frame of 3 bytes", &[0, 50, 0]),
    ("a method without its arguments", &[0, 50, 0, 10]),
    (
        "a method that is cut in a string",
        &[0, 50, 0, 10, 0, 0, 9, b'x'],
    ),
    (
        "a method with more than its arguments",
        &[0, 20, 0, 10, 0, 1],
    ),
    (
        "a table longer than the frame",
        &[0, 50, 0, 10, 0, 0, 0, 0, 0, 0, 0, 9],
    ),
];

/// Input that must end the connection, with or without a reply code: RabbitMQ gives none.
const NOT_UNDERSTOOD: [(&str, &[u8]); 6] = [
    ("an unknown class", &[0, 99, 0, 10]),
    ("class 0", &[0, 0, 0, 0]),
    ("an unknown method of queue", &[0, 50, 0, 99]),
    ("an unknown method of basic", &[0, 60, 0, 1]),
    (
        "a table with an unknown type",
        &[0, 50, 0, 10, 0, 0, 0, 0, 0, 0, 0, 3, 1, b'a', b'?'],
    ),
    (
        "a table with a cut value",
        &[0, 50, 0, 10, 0, 0, 0, 0, 0, 0, 0, 4, 1, b'a', b'I', 0],
    ),
];

pub(super) fn cases(case: Begin<'_>) {
    case("frame: heartbeats at any time change nothing").on_connection(|connection| {
        let heartbeat = Frame::new(HEARTBEAT, 0, b"").bytes();
        connection.wire.write(&heartbeat)?;
        let channel = connection.channel()?;
        connection.wire.write(&heartbeat)?;
        channel.close()
    });
    case("frame: two methods in one packet, one in two").on_connection(|connection| {
        let channel = connection.channel()?;
        let arguments = [DECLARE, &[0, 0, 0, 0]].concat();
        let frame = Frame::new(METHOD, channel.id, &arguments).bytes();
        let bytes = [&frame[..], &frame[..], &frame[..9]].concat();
        connection.wire.write(&bytes)?;
        channel.answer::<queue::DeclareOk>()?;
        channel.answer::<queue::DeclareOk>()?;
        connection.wire.write(&frame[9..])?;
        channel.answer::<queue::DeclareOk>()
    });
    case("frame: an end octet other than CE is 501").breaks(501, |channel| {
        let frame = Frame::new(HEARTBEAT, 0, b"");
        channel.connection.wire.write(&frame.bytes_ending_in(0))
    });
    case("frame: the end octet of a method is checked before it is done").on_broker(|scope| {
        let connection = scope.connect()?;
        let channel = connection.channel()?;
        let name = scope.name();
        let mut payload = vec![0, 50, 0, 10, 0, 0, u8::try_from(name.len())?];
        payload.extend(name.as_bytes());
        payload.extend([0, 0, 0, 0, 0]);
        let frame = Frame::new(METHOD, channel.id, &payload);
        connection.wire.write(&frame.bytes_ending_in(0xCF))?;
        connection.breaks(501)?;
        let after = scope.connect()?;
        after.channel()?.refuses(404, passive(&name))
    });
    case("frame: a payload larger than frame_max is 501").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.frame_max = 4096)?;
        connection.channel()?;
        // RabbitMQ tolerates the 8 bytes around a payload.
        let head = &Frame::new(METHOD, 1, &[0; 4097]).bytes()[..11];
        connection.wire.write(head)?;
        connection.breaks(501)
    });
    case("frame: a length of 4 GiB is 501").breaks(501, |channel| {
        let head = [BODY, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF];
        channel.connection.wire.write(&head)
    });
    case("frame: exactly frame_max is taken").on_broker(|scope| {
        let connection = Connection::open_with(scope, |tune| tune.frame_max = 4096)?;
        let channel = connection.channel()?;
        let queue = channel.queue()?;
        channel.publish("", &queue, &"x".repeat(4088))?;
        expect_eq("the body", channel.take(&queue)?.body().len(), 4088)?;
        connection.close()
    });
    case("frame: a method of a class other than connection on channel 0")
        .on_broker(|scope| scope.connect()?.breaks_on(0, 504, named("")));
    case("frame: a method of connection on channel 1 is 503").on_broker(|scope| {
        let connection = scope.connect()?;
        let channel = connection.channel()?;
        connection.breaks_on(channel.id, 503, connection.open_vhost("/"))
    });
    case("frame: a method that only brokers send is 503").fatal(503, queue::DeclareOk::default());
    case("frame: connection.start from a client is 504").on_broker(|scope| {
        scope
            .connect()?
            .breaks_on(0, 504, connection::Start::default())
    });
    case("frame: a delivery from a client is 503").breaks(503, |channel| {
        channel.send(basic::Deliver::default())?;
        channel.send_raw(HEADER, EMPTY)
    });
    for (what, kind, channel, payload, code) in BROKEN {
        case(&format!("frame: {what} is {code}")).breaks(code, move |opened| {
            opened.connection.wire.send(kind, channel, payload)
        });
    }
    for (what, payload) in BROKEN_METHODS {
        case(&format!("frame: {what} is 501"))
            .breaks(501, move |channel| channel.send_raw(METHOD, payload));
    }
    for (what, payload) in NOT_UNDERSTOOD {
        case(&format!("frame: {what} ends the connection")).on_broker(move |scope| {
            let connection = scope.connect()?;
            connection.channel()?;
            connection.wire.send(METHOD, 1, payload)?;
            connection.is_given_up()
        });
    }
}
