//! Socket.IO 5: malformed and unusual packets.

use super::*;
use crate::cases::sessions::ends_or_answers;

/// Packets after which the connection must end, each with a description.
const FATAL: [(&str, &str); 14] = [
    ("an unknown type", "9[\"a\"]"),
    ("a letter as its type", "abc"),
    ("half a JSON array", "2[\"a\""),
    ("an object as its payload", "2{\"a\":1}"),
    ("a text as its payload", "2\"a\""),
    ("an empty array", "2[]"),
    ("null as the name of an event", "2[null]"),
    ("an object as the name of an event", "2[{\"a\":1}]"),
    ("an array as the name of an event", "2[[\"a\"]]"),
    ("letters as its id", "2abc[\"a\"]"),
    ("an object in an acknowledgement", "30{\"a\":1}"),
    ("a CONNECT_ERROR from a client", "4{\"message\":\"a\"}"),
    ("text after the JSON", "2[\"a\"]b"),
    ("NaN in the JSON", "2[\"a\",NaN]"),
];

/// Packets after which the connection may end or stay open, each with a description.
const ODD: [(&str, &str); 14] = [
    ("an event with an id and no payload", "212"),
    ("an event without a payload", "2"),
    ("nothing", ""),
    ("a number as the name of an event", "2[1,2]"),
    ("a namespace without an end", "2/nonesuch"),
    ("a namespace of 10,000 bytes", ""),
    ("a DISCONNECT with a payload", "1{\"a\":1}"),
    ("the reserved event connect", "2[\"connect\"]"),
    ("the reserved event connect_error", "2[\"connect_error\"]"),
    ("the reserved event disconnect", "2[\"disconnect\",\"a\"]"),
    ("the reserved event disconnecting", "2[\"disconnecting\"]"),
    ("the reserved event newListener", "2[\"newListener\"]"),
    ("the reserved event removeListener", "2[\"removeListener\"]"),
    (
        "the event __proto__",
        "2[\"__proto__\",{\"__proto__\":{\"a\":1}}]",
    ),
];

pub(super) fn cases(case: Begin<'_>) {
    for (what, packet) in FATAL {
        case(&format!("Socket.IO 5, packet: {what} ends the connection")).check_robust(
            move |server| {
                let mut socket = WebSocketClient::connect(server)?;
                socket.send(packet)?;
                socket.ends()
            },
        );
        case(&format!(
            "Socket.IO 5, packet: {what} over polling ends the session"
        ))
        .check_robust(move |server| {
            let mut socket = Socket::connect_over(Polling::open(server)?)?;
            let response = socket.transport.post(format!("4{packet}").as_bytes())?;
            response.has_status(&[200, 400])?;
            socket.ends()
        });
    }
    for (what, packet) in ODD {
        let packet = match what {
            "a namespace of 10,000 bytes" => format!("2/{},[\"a\"]", "n".repeat(10_000)),
            _ => packet.to_owned(),
        };
        case(&format!(
            "Socket.IO 5, packet: {what} ends the connection or is ignored"
        ))
        .check_robust(move |server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send(&packet)?;
            ends_or_answers(&mut socket)
        });
    }
    case("Socket.IO 5, packet: credentials that are no object end the connection or are ignored")
        .check_robust(|server| {
            for credentials in ["[1]", "\"a\"", "1", "{"] {
                let mut socket = WebSocketClient::open(server)?;
                socket.send(&format!("0{credentials}"))?;
                socket.try_packet()?;
            }
            Ok(())
        });
    case("Socket.IO 5, packet: arrays 100,000 deep end the connection or are answered")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
            socket.send(&format!("20[\"presence:join\",{deep}]"))?;
            ends_or_answers(&mut socket)
        });
    attachments(case);
}

fn attachments(case: Begin<'_>) {
    case("Socket.IO 5, binary: a binary message without a packet before it ends the connection")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.transport.send_binary(&[1, 2, 3])?;
            socket.ends()
        });
    case("Socket.IO 5, binary: a text packet instead of an attachment ends the connection")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send("51-[\"a\",{\"_placeholder\":true,\"num\":0}]")?;
            socket.send("20[\"presence:leave\",null]")?;
            socket.ends()
        });
    for (what, packet) in [
        ("without a number of attachments", "5-[\"a\"]"),
        ("with letters as the number of attachments", "5a-[\"a\"]"),
        (
            "without the hyphen",
            "51[\"a\",{\"_placeholder\":true,\"num\":0}]",
        ),
    ] {
        case(&format!(
            "Socket.IO 5, binary: a binary event {what} ends the connection"
        ))
        .check_robust(move |server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send(packet)?;
            socket.ends()
        });
    }
    for (what, number) in [
        ("beyond the attachments", "1"),
        ("below 0", "-1"),
        ("that is a text", "\"0\""),
    ] {
        case(&format!("Socket.IO 5, binary: a placeholder with a number {what} ends the connection or is ignored"))
            .check_robust(move |server| {
                let mut socket = WebSocketClient::connect(server)?;
                socket.send(&format!("51-[\"a\",{{\"_placeholder\":true,\"num\":{number}}}]"))?;
                socket.transport.send_binary(&[1])?;
                ends_or_answers(&mut socket)
            });
    }
    case("Socket.IO 5, binary: a packet that announces 999,999,999 attachments ends the connection or waits")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send("5999999999-[\"a\"]")?;
            // A text ends it, if the number did not.
            socket.send("20[\"presence:leave\",null]")?;
            socket.ends()
        });
    case("Socket.IO 5, binary: an attachment in a presence request ends the connection or is answered").check_robust(
        |server| {
            let mut socket = WebSocketClient::connect(server)?;
            let state = r#"{"a":{"_placeholder":true,"num":0}}"#;
            let room = server.name("room");
            let request = format!(r#"["presence:join",{{"roomId":"{room}","userId":"a","state":{state}}}]"#);
            socket.send(&format!("51-0{request}"))?;
            socket.transport.send_binary(&[1, 2, 3])?;
            ends_or_answers(&mut socket)
        },
    );
}
