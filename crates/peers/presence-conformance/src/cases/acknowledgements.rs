//! Socket.IO 5: acknowledgements.

use super::*;
use crate::cases::sessions::ends_or_answers;

/// The largest integer that every JSON reader knows.
const LARGEST: u64 = 9_007_199_254_740_991;

pub(super) fn cases(case: Begin<'_>) {
    answers(case);
    unusual_packets(case);
}

fn answers(case: Begin<'_>) {
    for id in [0, 1, 9, 10, 999_999, 4_294_967_295, 4_294_967_296, LARGEST] {
        case(&format!("Socket.IO 5, ack: the id {id} is returned")).check(move |server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send(&format!("2{id}[\"presence:leave\",null]"))?;
            let answer = socket.acknowledged(id)?;
            expect_eq("the answer", answer, [json!({"ok": true})])
        });
    }
    case("Socket.IO 5, ack: an id of 30 digits ends the connection or is answered").check_robust(
        |server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send(&format!("2{}[\"presence:leave\",null]", "9".repeat(30)))?;
            // The answer has some large number, which `Packet` does not read.
            let transport: &mut dyn Transport = &mut socket.transport;
            transport.packet()?;
            Ok(())
        },
    );
    case("Socket.IO 5, ack: the same id twice is answered twice").check(|server| {
        let mut socket = WebSocketClient::connect(server)?;
        for _ in 0..2 {
            socket.send("27[\"presence:leave\",null]")?;
        }
        socket.acknowledged(7)?;
        socket.acknowledged(7).map(drop)
    });
    case("Socket.IO 5, ack: 1,000 requests at once are answered in their order").check(|server| {
        let mut socket = WebSocketClient::connect(server)?;
        for _ in 0..1_000 {
            socket.emit("presence:leave", &[Value::Null])?;
        }
        for id in 0..1_000 {
            socket.acknowledged(id)?;
        }
        Ok(())
    });
    case("Socket.IO 5, ack: a request without an id is carried out and not answered").check(
        |server| {
            let mut member = Member::open(server)?;
            let request = json!(["presence:join", {"roomId": server.name("room"), "userId": "a"}]);
            member.socket.send(&format!("2{request}"))?;
            member.event()?.is("join", member.id())?;
            // An answer would arrive before this one.
            let answer = member.heartbeat(&json!({}))?;
            expect_at(&answer, "/ok", &true.into())
        },
    );
}

fn unusual_packets(case: Begin<'_>) {
    case("Socket.IO 5, ack: an unknown event is not answered and harms nothing").check(|server| {
        let mut member = Member::open(server)?;
        member.socket.send("288[\"nonesuch\",1,2]")?;
        expect_at(&member.leave()?, "/ok", &true.into())
    });
    for packet in ["30[]", "3999999[1]", "30[{\"a\":1},2]"] {
        case(&format!(
            "Socket.IO 5, ack: {packet}, for which nobody waits, is ignored"
        ))
        .check_robust(move |server| {
            let mut member = Member::open(server)?;
            member.socket.send(packet)?;
            expect_at(&member.leave()?, "/ok", &true.into())
        });
    }
    case("Socket.IO 5, ack: further arguments of a request end the connection or are ignored")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.emit("presence:leave", &[Value::Null, json!(1), json!("b")])?;
            ends_or_answers(&mut socket)
        });
    case("Socket.IO 5, ack: a request without an argument ends the connection or is answered")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            for event in ["presence:join", "presence:heartbeat", "presence:leave"] {
                socket.emit(event, &[])?;
            }
            ends_or_answers(&mut socket)
        });
}
