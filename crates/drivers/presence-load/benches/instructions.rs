//! Operations whose instructions are counted: an event of Socket.IO is read, parsed and audited, as one of presence, and as
//! one of a conversation, whose message is written as well.

#[path = "support/room.rs"]
mod room;
#[path = "support/server.rs"]
mod server;

use std::hint::black_box;
use std::io::Write as _;

use harness_testing::operations;
use presence_load::ChatRoom;
use presence_load::protocol::presence::Incoming;
use presence_load::protocol::transport::{Event, Side};
use serde_json::json;

fn main() {
    operations::run(&[("socket-io", event), ("conversation", push)]);
}

fn event(count: u64) {
    let (mut transport, mut cx) = server::open_transport();
    let mut room = room::joined();
    let frame = server::frame(&server::event_packet(room::UPDATE));
    for number in 1..=count {
        let event = transport.next(Side::Main, black_box(&frame), &mut 0, &mut cx);
        let Ok(Some(Event::Message(text))) = event else {
            panic!("the frame is a message");
        };
        let Ok(Incoming::Presence(mut update)) = Incoming::parse(&text) else {
            panic!("the message is an event");
        };
        black_box(room::receive(&mut room, &mut update, number));
    }
    assert!(room.is_right());
}

/// The number before the first one: all have as many digits.
const SENT: u32 = 1_000_000;

fn push(count: u64) {
    let message = json!([{ "user": "{{user}}", "n": "{id}", "text": "hello" }]);
    let settings = serde_json::from_value(json!({ "conversation": {
        "fan_out": { "event": "chat", "sender": "/0/user", "number": "/0/n", "to": "room" },
        "steps": [{ "emit": "chat", "data": message }],
    }}));
    let settings = settings.expect("the settings are valid");
    let room = ChatRoom::new(&settings, 10, SENT).expect("the conversation is valid");
    let mut room = room.expect("there is one");
    let (mut transport, mut cx) = server::open_transport();
    let mut frame = server::frame(&format!(
        r#"42["chat",{{"user":"user-1-1","n":{SENT},"text":"hello"}}]"#
    ));
    let digits = SENT.to_string();
    let digits = frame
        .windows(digits.len())
        .position(|at| at == digits.as_bytes());
    let digits = digits.expect("the frame has its number");
    let mut sent = Vec::new();
    for number in (SENT + 1..).take(count as usize) {
        sent.clear();
        room.send(number, &mut sent);
        write!(&mut frame[digits..], "{number}").expect("memory takes it");
        let event = transport.next(Side::Main, black_box(&frame), &mut 0, &mut cx);
        let Ok(Some(Event::Message(text))) = event else {
            panic!("the frame is a message");
        };
        assert!(room.receive(1, &text).is_some());
        black_box(&sent);
    }
    assert!(room.is_right());
}
