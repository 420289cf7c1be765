//! Engine.IO 4: the upgrade from polling to a WebSocket.

use super::*;
use crate::cases::handshake::is_refused;

pub(super) fn cases(case: Begin<'_>) {
    succeeds(case);
    afterwards(case);
    fails(case);
}

fn succeeds(case: Begin<'_>) {
    case("Engine.IO 4, upgrade: the probe is answered, the open GET ends with a noop, packets follow")
        .check(|server| {
            let engine = Engine::upgrade(Polling::open(server)?)?;
            Socket::connect_over(engine.socket).map(drop)
        });
    case("Engine.IO 4, upgrade: a connected client keeps its id and its room").check(|server| {
        let mut member = Member::over(Socket::connect_over(Polling::open(server)?)?);
        let room = server.name("room");
        let answer = member.ask_to_join(&room, "a")?;
        expect_at(&answer, "/self/connId", &member.id().into())?;
        expect_eq("the event", member.event()?.connection()?, member.id())?;
        let id = member.id().to_owned();
        let engine = Engine::upgrade(member.socket.transport)?;
        let mut member = Member::over(Socket::over(engine.socket));
        member.patches(&json!({"upgraded": true}))?;
        member.event()?.is("update", &id)
    });
    case("Engine.IO 4, upgrade: a packet that was not polled arrives on the WebSocket").check(
        |server| {
            let mut member = Member::over(Socket::connect_over(Polling::open(server)?)?);
            let room = server.name("room");
            member.ask_to_join(&room, "a")?;
            member.event()?;
            let (other, _) = Member::join(server, &room, "b")?;
            let first = member.event()?;
            first.is("join", other.id())?;
            let polling = &member.socket.transport;
            let mut socket = polling.probe()?;
            socket.send_text("2probe")?;
            expect_eq(
                "the answer",
                socket.receive()?,
                Received::Text("3probe".to_owned()),
            )?;
            // Nobody polls now.
            drop(other);
            std::thread::sleep(std::time::Duration::from_millis(50));
            socket.send_text("5")?;
            let mut upgraded = Member::over(Socket::over(socket));
            upgraded.event()?.is("leave", first.connection()?)
        },
    );
}

fn afterwards(case: Begin<'_>) {
    case("Engine.IO 4, upgrade: afterwards the session takes no GET and no POST").check_robust(
        |server| {
            let polling = Polling::open(server)?;
            let target = polling.target();
            let mut engine = Engine::upgrade(polling)?;
            http::get(server, &target)?.response()?.has_status(&[400])?;
            http::request(server, "POST", &target, b"40")?
                .response()?
                .has_status(&[400])?;
            engine.transport().send("40")?;
            engine.transport().text().map(drop)
        },
    );
    case("Engine.IO 4, upgrade: afterwards the session takes no second WebSocket").check_robust(
        |server| {
            let polling = Polling::open(server)?;
            let target = polling.probe_target();
            let mut engine = Engine::upgrade(polling)?;
            is_refused(server, &target)?;
            engine.transport().send("40")?;
            engine.transport().text().map(drop)
        },
    );
    case("Engine.IO 4, upgrade: the end of the WebSocket ends the session").check(|server| {
        let polling = Polling::open(server)?;
        let target = polling.target();
        Engine::upgrade(polling)?.socket.disconnect()?;
        http::get(server, &target)?.response()?.has_status(&[400])
    });
}

/// Asserts that a session still works over polling.
fn goes_on(polling: Polling) -> anyhow::Result<()> {
    let socket = Socket::connect_over(polling);
    socket.map(drop).context("polling after a failed upgrade")
}

fn fails(case: Begin<'_>) {
    for packet in ["2", "2wrong", "4text", "40", "1", "6", ""] {
        case(&format!("Engine.IO 4, upgrade: {packet:?} instead of the probe ends the WebSocket, not the session"))
            .check_robust(move |server| {
                let polling = Polling::open(server)?;
                let mut socket = polling.probe()?;
                socket.send_text(packet)?;
                ensure!(
                    matches!(socket.receive()?, Received::Closed(_)),
                    "the WebSocket goes on after {packet:?}"
                );
                goes_on(polling)
            });
    }
    case("Engine.IO 4, upgrade: a WebSocket that ends before the probe leaves the session on polling").check_robust(
        |server| {
            let polling = Polling::open(server)?;
            polling.probe()?.disconnect()?;
            goes_on(polling)
        },
    );
    case(
        "Engine.IO 4, upgrade: a WebSocket that ends after the probe leaves the session on polling",
    )
    .check_robust(|server| {
        let polling = Polling::open(server)?;
        let mut socket = polling.probe()?;
        socket.send_text("2probe")?;
        expect_eq(
            "the answer",
            socket.receive()?,
            Received::Text("3probe".to_owned()),
        )?;
        socket.disconnect()?;
        goes_on(polling)
    });
    case("Engine.IO 4, upgrade: a new attempt after an aborted one succeeds").check(|server| {
        let polling = Polling::open(server)?;
        let mut socket = polling.probe()?;
        socket.send_text("2probe")?;
        expect_eq(
            "the answer",
            socket.receive()?,
            Received::Text("3probe".to_owned()),
        )?;
        socket.disconnect()?;
        // The server may see the end of the first WebSocket later than the second, which it then refuses or closes.
        let probe = || {
            let mut socket = polling.probe()?;
            socket.send_text("2probe")?;
            let answer = socket.receive()?;
            expect_eq("the answer", answer, Received::Text("3probe".to_owned()))?;
            Ok(socket)
        };
        let began = Stopwatch::new();
        let mut socket = loop {
            match probe() {
                Ok(socket) => break socket,
                Err(error) if began.elapsed() > crate::server::LIMIT => return Err(error),
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        socket.send_text("5")?;
        socket.is_alive()
    });
}
