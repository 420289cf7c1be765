//! An operation whose instructions are counted: an event of Socket.IO is read, parsed and audited.

#[path = "support/room.rs"]
mod room;
#[path = "support/server.rs"]
mod server;

use std::hint::black_box;

use harness_testing::operations;
use presence_load::protocol::presence::Incoming;
use presence_load::protocol::transport::{Event, Side};

fn main() {
    operations::run(&[("socket-io", event)]);
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
