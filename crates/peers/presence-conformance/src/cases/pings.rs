//! Engine.IO 4: pings, and connections that do not answer them.

use std::time::Duration;

use super::*;
use crate::server::LIMIT;
use crate::setup::{PING_INTERVAL_MS, PING_TIMEOUT_MS};

/// The largest difference between the clocks of two processes.
const TOLERANCE: Duration = Duration::from_millis(20);
/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(PING_INTERVAL_MS);
const TIMEOUT: Duration = Duration::from_millis(PING_TIMEOUT_MS);

pub(super) fn cases(case: Begin<'_>) {
    first_ping(case);
    no_pong(case);
    case("Engine.IO 4, heartbeat: a client's own ping is refused or ignored, as the server sends them").check_robust(
        |server| {
            let mut member = Member::open(server)?;
            member.socket.transport.send_text("2")?;
            super::sessions::ends_or_answers(&mut member.socket)
        },
    );
    case("Engine.IO 4, heartbeat: a pong without a ping is ignored").check(|server| {
        let mut member = Member::open(server)?;
        member.socket.transport.send_text("3")?;
        expect_at(&member.leave()?, "/ok", &true.into())
    });
}

fn first_ping(case: Begin<'_>) {
    case("Engine.IO 4, heartbeat: the first ping on a WebSocket comes after pingInterval, not at once")
        .on(Setup::ShortPing)
        .check(|server| {
            let began = Stopwatch::new();
            let engine = Engine::open(server)?;
            let mut socket = engine.socket;
            comes_in_time(&mut socket, began)?;
            socket.send_text("3")?;
            is_ping(&socket.receive()?)?;
            let after = began.elapsed();
            ensure!(after + TOLERANCE >= INTERVAL * 2, "the second ping after {after:?}");
            Ok(())
        });
    case(
        "Engine.IO 4, heartbeat: the first ping over polling comes after pingInterval, not at once",
    )
    .on(Setup::ShortPing)
    .check(|server| {
        let began = Stopwatch::new();
        let mut polling = Polling::open(server)?;
        comes_in_time(&mut polling, began)
    });
    case("Engine.IO 4, heartbeat: a CONNECT does not hasten the first ping")
        .on(Setup::ShortPing)
        .check(|server| {
            let began = Stopwatch::new();
            let mut socket = WebSocketClient::connect(server)?;
            comes_in_time(&mut socket.transport, began)
        });
    case("Engine.IO 4, heartbeat: a client that answers pings stays")
        .on(Setup::ShortPing)
        .check(|server| {
            let mut member = Member::open(server)?;
            let began = Stopwatch::new();
            while began.elapsed() < (INTERVAL + TIMEOUT) * 2 {
                match member.socket.transport.receive()? {
                    Received::Text(text) if text == "2" => {
                        member.socket.transport.send_text("3")?
                    }
                    other => bail!("expected a ping, got {other:?}"),
                }
            }
            expect_at(&member.leave()?, "/ok", &true.into())
        });
}

/// Asserts that the next packet is a ping, and that it comes neither at once nor late.
fn comes_in_time(transport: &mut impl Transport, began: Stopwatch) -> anyhow::Result<()> {
    is_ping(&transport.receive()?)?;
    let after = began.elapsed();
    ensure!(
        after + TOLERANCE >= INTERVAL,
        "the first ping after {after:?}, announced {INTERVAL:?}"
    );
    ensure!(
        after <= INTERVAL + SLACK,
        "the first ping after {after:?}, announced {INTERVAL:?}"
    );
    Ok(())
}

fn is_ping(packet: &Received) -> anyhow::Result<()> {
    ensure!(
        *packet == Received::Text("2".to_owned()),
        "expected a ping, got {packet:?}"
    );
    Ok(())
}

fn no_pong(case: Begin<'_>) {
    case("Engine.IO 4, heartbeat: a WebSocket without a pong ends after pingInterval and pingTimeout")
        .on(Setup::ShortPing)
        .check(|server| {
            let began = Stopwatch::new();
            let mut socket = Engine::open(server)?.socket;
            is_ping(&socket.receive()?)?;
            while !matches!(socket.receive()?, Received::Closed(_)) {}
            ended_in_time(began)
        });
    case("Engine.IO 4, heartbeat: a polling session without a pong ends")
        .on(Setup::ShortPing)
        .check(|server| {
            let began = Stopwatch::new();
            let mut polling = Polling::open(server)?;
            is_ping(&polling.receive()?)?;
            loop {
                match polling.receive()? {
                    Received::Closed(_) => break,
                    // A GET that is open at the end is answered with a close packet or a noop.
                    Received::Text(text) if matches!(&*text, "1" | "6") => {}
                    other => bail!("expected the end, got {other:?}"),
                }
            }
            ended_in_time(began)?;
            polling.is_unknown()
        });
    case("Engine.IO 4, heartbeat: a client that never polls is forgotten")
        .on(Setup::ShortPing)
        .check(|server| {
            let polling = Polling::open(server)?;
            let began = Stopwatch::new();
            // A POST does not prolong the session.
            while polling.post(b"6")?.status != 400 {
                ensure!(began.elapsed() < LIMIT, "the session goes on");
                std::thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        });
    case("presence, events: a member without a pong leaves with reason disconnect")
        .on(Setup::ShortPing)
        .check(|server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "observer")?;
            let (silent, _) = Member::join(server, &room, "silent")?;
            let id = silent.id().to_owned();
            observer.event_of_other()?.is("join", &id)?;
            observer.event_of_other()?.is_leave(&id, "disconnect")
        });
}

fn ended_in_time(began: Stopwatch) -> anyhow::Result<()> {
    let after = began.elapsed();
    let expected = INTERVAL + TIMEOUT;
    ensure!(
        after + TOLERANCE >= expected,
        "ended after {after:?}, announced {expected:?}"
    );
    ensure!(
        after <= expected + SLACK,
        "ended after {after:?}, announced {expected:?}"
    );
    Ok(())
}
