//! Socket.IO 5: namespaces, CONNECT and DISCONNECT.

use super::*;
use crate::cases::sessions::ends_or_answers;

pub(super) fn cases(case: Begin<'_>) {
    connecting(case);
    disconnecting(case);
    unconnected(case);
}

fn connecting(case: Begin<'_>) {
    case("Socket.IO 5, connect: the answer has a sid, which is not the session's").check(
        |server| {
            let mut engine = Engine::open(server)?;
            engine.transport().send("40")?;
            let answer = engine.transport().text()?;
            let packet = Packet::parse(&answer[1..])?;
            expect_eq("the type", packet.kind, Kind::Connect)?;
            let sid = text(&packet.data, "/sid")?;
            // Other clients see it, and the session's id gives access to the session.
            ensure!(sid != engine.handshake.sid, "both ids are {sid}");
            Ok(())
        },
    );
    for auth in [
        r#"{}"#,
        r#"{"token":"123"}"#,
        r#"{"deep":{"a":[1,2,{"b":null}]}}"#,
    ] {
        case(&format!(
            "Socket.IO 5, connect: with the credentials {auth}"
        ))
        .check(move |server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send(&format!("0{auth}"))?;
            expect_eq("the answer", socket.packet()?.kind, Kind::Connect)
        });
    }
    case("Socket.IO 5, connect: an unknown namespace is refused with a message, and / is not")
        .check(|server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send("0/nonesuch,")?;
            let refused = socket.packet()?;
            let seen = (refused.kind, &*refused.namespace);
            expect_eq(
                "type and namespace",
                seen,
                (Kind::ConnectError, "/nonesuch"),
            )?;
            ensure!(
                !text(&refused.data, "/message")?.is_empty(),
                "an empty message"
            );
            socket.send("0")?;
            expect_eq("the answer of /", socket.packet()?.kind, Kind::Connect)
        });
    case("Socket.IO 5, connect: an unknown namespace with credentials is refused too").check(
        |server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send(r#"0/nonesuch,{"token":"123"}"#)?;
            expect_eq("the answer", socket.packet()?.kind, Kind::ConnectError)
        },
    );
    case("Socket.IO 5, connect: a second CONNECT to a namespace ends the connection or is ignored")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send("0")?;
            ends_or_answers(&mut socket)
        });
    case("Socket.IO 5, connect: a namespace with a query is its path").check_robust(|server| {
        let mut socket = WebSocketClient::open(server)?;
        socket.send("0/nonesuch?a=b,")?;
        // Servers differ in whether the answer repeats the query.
        expect_eq("the answer", socket.packet()?.kind, Kind::ConnectError)
    });
}

fn disconnecting(case: Begin<'_>) {
    case("Socket.IO 5, disconnect: afterwards the session takes a new CONNECT, with a new id")
        .check(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            let old = socket.id.clone();
            socket.send("1")?;
            socket.transport.is_alive()?;
            socket.send("0")?;
            let answer = socket.packet()?;
            expect_eq("the answer", answer.kind, Kind::Connect)?;
            let new = text(&answer.data, "/sid")?;
            ensure!(new != old, "the id {old} again");
            Ok(())
        });
    case("Socket.IO 5, disconnect: afterwards an event ends the connection").check_robust(
        |server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send("1")?;
            socket.transport.is_alive()?;
            socket.send("20[\"presence:leave\",null]")?;
            socket.ends()
        },
    );
    case("presence, leave: DISCONNECT is a leave with reason disconnect").check(|server| {
        let room = server.name("room");
        let (mut observer, _) = Member::join(server, &room, "observer")?;
        let (mut leaver, _) = Member::join(server, &room, "leaver")?;
        observer.event_of_other()?.is("join", leaver.id())?;
        leaver.socket.send("1")?;
        observer
            .event_of_other()?
            .is_leave(leaver.id(), "disconnect")
    });
}

fn unconnected(case: Begin<'_>) {
    for (what, packet) in [
        ("an event", "20[\"presence:leave\",null]"),
        ("an event without an id", "2[\"presence:leave\",null]"),
        ("an acknowledgement", "30[]"),
        (
            "an event for a namespace that nobody knows",
            "2/nonesuch,[\"a\"]",
        ),
    ] {
        case(&format!(
            "Socket.IO 5, connect: {what} before CONNECT ends the connection"
        ))
        .check_robust(move |server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send(packet)?;
            socket.ends()
        });
    }
    case("Socket.IO 5, connect: a DISCONNECT before CONNECT ends the connection or is ignored")
        .check_robust(|server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send("1")?;
            socket.send("0")?;
            if let Some(answer) = socket.try_packet()? {
                expect_eq("the answer", answer.kind, Kind::Connect)?;
            }
            Ok(())
        });
    case("Socket.IO 5, connect: an event for another namespace than the connected one ends the connection or is ignored")
        .check_robust(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            socket.send("2/nonesuch,[\"a\"]")?;
            ends_or_answers(&mut socket)
        });
}
