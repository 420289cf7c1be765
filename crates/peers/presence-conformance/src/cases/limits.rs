//! Limits of a server: rooms, members and connections.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::*;
use crate::server::LIMIT;
use crate::setup::MOST;

/// The pause before a server is asked again.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn cases(case: Begin<'_>) {
    room_members(case);
    rooms(case);
    users(case);
    connections(case);
    connection_ends(case);
}

/// Waits until no other case uses up a limit of a whole server.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // A case that panicked has left nothing half done.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Repeats an attempt that fails while the server still counts clients of an earlier case.
fn until_free<T>(attempt: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let began = Stopwatch::new();
    loop {
        match attempt() {
            Err(_) if began.elapsed() < LIMIT => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
}

/// Joins [`MOST`] members, each in the room that `room` names.
fn fill(server: &Server, room: impl Fn(usize) -> String) -> anyhow::Result<Vec<Member>> {
    (0..MOST)
        .map(|at| {
            let room = room(at);
            until_free(|| Member::join(server, &room, &format!("user-{at}"))).map(|(it, _)| it)
        })
        .collect()
}

fn room_members(case: Begin<'_>) {
    case("presence, limits: a join of a full room is room_full, and its members see nothing")
        .on(Setup::SmallRooms)
        .check(|server| {
            let room = server.name("room");
            let mut members = fill(server, |_| room.clone())?;
            members[0].events_of_others()?;
            let mut late = Member::open(server)?;
            expect_refused(&late.ask_to_join(&room, "late")?, "room_full")?;
            let events = members[0].events_of_others()?;
            ensure!(events.is_empty(), "unexpected events: {events:?}");
            expect_refused(&late.heartbeat(&Value::Null)?, "not_joined")?;
            late.has_no_events()
        });
    case("presence, limits: who was refused may join another room")
        .on(Setup::SmallRooms)
        .check(|server| {
            let room = server.name("room");
            let _members = fill(server, |_| room.clone())?;
            let mut late = Member::open(server)?;
            expect_refused(&late.ask_to_join(&room, "late")?, "room_full")?;
            let answer = late.ask_to_join(&server.name("room"), "late")?;
            present(&answer, late.id()).map(drop)
        });
    case("presence, limits: a second connection of a user counts")
        .on(Setup::SmallRooms)
        .check(|server| {
            let room = server.name("room");
            let _members = fill(server, |_| room.clone())?;
            let mut second = Member::open(server)?;
            expect_refused(&second.ask_to_join(&room, "user-0")?, "room_full")
        });
    case("presence, limits: a member may join its full room again")
        .on(Setup::SmallRooms)
        .check(|server| {
            let room = server.name("room");
            let mut members = fill(server, |_| room.clone())?;
            let answer = members[0].ask_to_join(&room, "user-0")?;
            expect_at(&answer, "/ok", &true.into())?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), MOST)
        });
    case("presence, limits: after a leave a full room takes one more")
        .on(Setup::SmallRooms)
        .check(|server| {
            let room = server.name("room");
            let mut members = fill(server, |_| room.clone())?;
            members[1].leave()?;
            let (_late, answer) = Member::join(server, &room, "late")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), MOST)?;
            let mut later = Member::open(server)?;
            expect_refused(&later.ask_to_join(&room, "later")?, "room_full")
        });
}

fn rooms(case: Begin<'_>) {
    case("presence, limits: a further room is too_many_rooms, and the others take more members")
        .on(Setup::FewRooms)
        .check(|server| {
            let _alone = alone();
            let names: Vec<String> = (0..MOST).map(|_| server.name("room")).collect();
            let _members = fill(server, |at| names[at].clone())?;
            let mut late = Member::open(server)?;
            let refused = late.ask_to_join(&server.name("room"), "late")?;
            expect_refused(&refused, "too_many_rooms")?;
            for name in &names {
                let (_, answer) = Member::join(server, name, "late")?;
                ensure!(
                    array(&answer, "/snapshot")?.len() > 1,
                    "another room: {answer}"
                );
            }
            let answer = late.ask_to_join(&names[0], "late")?;
            present(&answer, late.id()).map(drop)
        });
    case("presence, limits: a room that is empty makes place for another")
        .on(Setup::FewRooms)
        .check(|server| {
            let _alone = alone();
            let mut members = fill(server, |_| server.name("room"))?;
            members[0].leave()?;
            let (_late, answer) = Member::join(server, &server.name("room"), "late")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 1)?;
            let refused = members[0].ask_to_join(&server.name("room"), "user-0")?;
            expect_refused(&refused, "too_many_rooms")
        });
}

fn users(case: Begin<'_>) {
    case("presence, limits: a further member is too_many_users, in every room")
        .on(Setup::FewUsers)
        .check(|server| {
            let _alone = alone();
            let rooms = [server.name("room"), server.name("room")];
            let mut members = fill(server, |at| rooms[at % 2].clone())?;
            let mut late = Member::open(server)?;
            for room in [&rooms[0], &rooms[1], &server.name("room")] {
                expect_refused(&late.ask_to_join(room, "user-0")?, "too_many_users")?;
            }
            // A member that joins again is no further one.
            let answer = members[0].ask_to_join(&rooms[0], "user-0")?;
            expect_at(&answer, "/ok", &true.into())
        });
    case("presence, limits: a member that leaves makes place for another, in another room too")
        .on(Setup::FewUsers)
        .check(|server| {
            let _alone = alone();
            let room = server.name("room");
            let mut members = fill(server, |_| room.clone())?;
            members[0].leave()?;
            let (_late, _) = Member::join(server, &server.name("room"), "late")?;
            let refused = members[0].ask_to_join(&room, "user-0")?;
            expect_refused(&refused, "too_many_users")
        });
    case("presence, limits: a member whose connection ends makes place for another")
        .on(Setup::FewUsers)
        .check(|server| {
            let _alone = alone();
            let room = server.name("room");
            let mut members = fill(server, |_| room.clone())?;
            drop(members.remove(0));
            until_free(|| Member::join(server, &room, "late")).map(drop)
        });
}

/// Opens [`MOST`] sessions: the first over polling, the others over WebSocket.
fn open_sessions(server: &Server) -> anyhow::Result<(Polling, Vec<WebSocketClient>)> {
    let polling = until_free(|| Polling::open(server))?;
    let sockets = (1..MOST).map(|_| until_free(|| WebSocketClient::connect(server)));
    Ok((polling, sockets.collect::<anyhow::Result<_>>()?))
}

/// Asserts that a further session is refused, over both transports.
fn is_full(server: &Server) -> anyhow::Result<()> {
    let response = http::get(server, &server.target(POLLING))?.response()?;
    response.has_status(&[503])?;
    match WebSocket::try_open(server, &server.target(WEBSOCKET))? {
        websocket::Opened::Refused(Some(503)) => Ok(()),
        other => bail!("a WebSocket beyond the limit: {other:?}"),
    }
}

fn connections(case: Begin<'_>) {
    case("Engine.IO 4, limits: a handshake beyond the limit of connections is 503")
        .on(Setup::FewConnections)
        .check(|server| {
            let _alone = alone();
            let (polling, _sockets) = open_sessions(server)?;
            is_full(server)?;
            polling.send_all(&["1"])
        });
    case("Engine.IO 4, limits: at the limit of connections the open ones are served")
        .on(Setup::FewConnections)
        .check(|server| {
            let _alone = alone();
            let (polling, sockets) = open_sessions(server)?;
            is_full(server)?;
            let room = server.name("room");
            for socket in sockets {
                let answer = Member::over(socket).ask_to_join(&room, "someone")?;
                expect_at(&answer, "/ok", &true.into())?;
            }
            let mut member = Member::over(Socket::connect_over(polling)?);
            let answer = member.ask_to_join(&room, "someone")?;
            expect_at(&answer, "/ok", &true.into())?;
            member.socket.transport.send_all(&["1"])
        });
    case("Engine.IO 4, limits: at the limit of connections a session may be upgraded")
        .on(Setup::FewConnections)
        .check(|server| {
            let _alone = alone();
            let (polling, _sockets) = open_sessions(server)?;
            let mut engine = Engine::upgrade(polling)?;
            is_full(server)?;
            engine.socket.is_alive()
        });
    case("Engine.IO 4, limits: a connection that ends makes place for another")
        .on(Setup::FewConnections)
        .check(|server| {
            let _alone = alone();
            let (polling, mut sockets) = open_sessions(server)?;
            is_full(server)?;
            drop(sockets.pop());
            let _next = until_free(|| WebSocketClient::connect(server))?;
            polling.send_all(&["1"])?;
            let next = until_free(|| Polling::open(server))?;
            next.send_all(&["1"])
        });
}

/// The time after which a client must be connected to a namespace.
const CONNECT: Duration = Duration::from_millis(setup::CONNECT_MS);
/// The largest difference between the clocks of two processes.
const TOLERANCE: Duration = Duration::from_millis(20);

/// Asserts that a session without a namespace ends, and not before its time.
fn ends_unconnected(
    open: impl FnOnce() -> anyhow::Result<Box<dyn Transport>>,
) -> anyhow::Result<()> {
    let began = Stopwatch::new();
    open()?.ends()?;
    let after = began.elapsed();
    ensure!(
        after + TOLERANCE >= CONNECT,
        "it ended after {after:?}, and the timeout is {CONNECT:?}"
    );
    Ok(())
}

fn connection_ends(case: Begin<'_>) {
    case("Socket.IO 5, connect: a WebSocket that connects to no namespace ends after the timeout")
        .on(Setup::ShortConnect)
        .check(|server| ends_unconnected(|| Ok(Box::new(Engine::open(server)?.socket))));
    case("Socket.IO 5, connect: a polled session that connects to no namespace ends too")
        .on(Setup::ShortConnect)
        .check(|server| {
            let polling = Polling::open(server)?;
            ends_unconnected(|| Ok(Box::new(polling.clone())))?;
            polling.is_unknown()
        });
    case("Socket.IO 5, connect: a session whose namespaces are all unknown ends too")
        .on(Setup::ShortConnect)
        .check(|server| {
            let mut socket = WebSocketClient::open(server)?;
            socket.send("0/nonesuch,")?;
            expect_eq("the answer", socket.packet()?.kind, Kind::ConnectError)?;
            socket.ends()
        });
    case("Socket.IO 5, connect: a client that has connected stays after the timeout")
        .on(Setup::ShortConnect)
        .check(|server| {
            let mut socket = WebSocketClient::connect(server)?;
            let polling = Socket::connect_over(Polling::open(server)?)?;
            std::thread::sleep(CONNECT + Duration::from_millis(500));
            socket.transport.is_alive()?;
            polling.transport.send_all(&["3"])
        });
}
