//! The presence protocol: heartbeats and leaves.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    merging(case);
    unchanged(case);
    effects(case);
    epochs(case);
    without_a_room(case);
    leaves(case);
    disconnections(case);
}

/// Joins a room with a state and reads the event of the join. Returns the member and its epoch.
fn joined(server: &Server, state: &Value) -> anyhow::Result<(Member, u64)> {
    let (mut member, answer) = Member::join_with(server, &server.name("room"), "alice", state)?;
    member.event()?;
    Ok((member, number(&answer, "/self/epoch")?))
}

fn merging(case: Begin<'_>) {
    for (what, before, patch, after) in [
        (
            "a new key is added",
            json!({"a": 1}),
            json!({"b": 2}),
            json!({"a": 1, "b": 2}),
        ),
        (
            "a known key is replaced",
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"a": 2}),
        ),
        (
            "an object is replaced as a whole",
            json!({"a": {"x": 1}}),
            json!({"a": {"y": 2}}),
            json!({"a": {"y": 2}}),
        ),
        (
            "null is a value",
            json!({"a": 1}),
            json!({"a": null}),
            json!({"a": null}),
        ),
        (
            "a number may become a text",
            json!({"a": 1}),
            json!({"a": "1"}),
            json!({"a": "1"}),
        ),
        (
            "an array is replaced",
            json!({"a": [1, 2]}),
            json!({"a": [2]}),
            json!({"a": [2]}),
        ),
        (
            "the order of an array counts",
            json!({"a": [1, 2]}),
            json!({"a": [2, 1]}),
            json!({"a": [2, 1]}),
        ),
    ] {
        case(&format!(
            "presence, heartbeat: {what}, and update has the whole state"
        ))
        .check(move |server| {
            let (mut member, epoch) = joined(server, &before)?;
            let answer = member.heartbeat(&json!({"patchState": patch, "epoch": epoch}))?;
            expect_eq(
                "the answer",
                answer,
                json!({"ok": true, "changed": true, "epoch": epoch}),
            )?;
            let event = member.event()?;
            event.is("update", member.id())?;
            expect_at(&event.0, "/state", &after)?;
            expect_at(&event.0, "/epoch", &epoch.into())?;
            expect_absent(&event.0, "reason")
        });
    }
}

fn unchanged(case: Begin<'_>) {
    for (what, before, request) in [
        (
            "an equal value",
            json!({"a": 1}),
            json!({"patchState": {"a": 1}}),
        ),
        (
            "an equal object",
            json!({"a": {"x": 1, "y": [2]}}),
            json!({"patchState": {"a": {"y": [2], "x": 1}}}),
        ),
        ("an empty patch", json!({"a": 1}), json!({"patchState": {}})),
        ("no patch", json!({"a": 1}), json!({})),
        ("null as the request", json!({"a": 1}), Value::Null),
    ] {
        case(&format!(
            "presence, heartbeat: {what} changes nothing and publishes nothing"
        ))
        .check(move |server| {
            let (mut member, epoch) = joined(server, &before)?;
            let answer = member.heartbeat(&request)?;
            expect_eq(
                "the answer",
                answer,
                json!({"ok": true, "changed": false, "epoch": epoch}),
            )?;
            let events = member.events_until_own_update()?;
            ensure!(events.is_empty(), "unexpected events: {events:?}");
            Ok(())
        });
    }
}

fn effects(case: Begin<'_>) {
    case("presence, heartbeat: lastSeenMs of the snapshot follows it").check(|server| {
        let room = server.name("room");
        let (mut member, first) = Member::join(server, &room, "alice")?;
        let before = number(present(&first, member.id())?, "/lastSeenMs")?;
        std::thread::sleep(std::time::Duration::from_millis(30));
        member.heartbeat(&Value::Null)?;
        let (_, answer) = Member::join(server, &room, "bob")?;
        let after = number(present(&answer, member.id())?, "/lastSeenMs")?;
        ensure!(after >= before + 20, "{after} after {before} and 30 ms");
        Ok(())
    });
    case("presence, heartbeat: without an acknowledgement id it is carried out").check(|server| {
        let (mut member, _) = joined(server, &json!({}))?;
        member
            .socket
            .send(r#"2["presence:heartbeat",{"patchState":{"a":1}}]"#)?;
        expect_at(&member.event()?.0, "/state", &json!({"a": 1}))
    });
    case("presence, heartbeat: every member gets the update, once").check(|server| {
        let room = server.name("room");
        let (mut first, _) = Member::join(server, &room, "alice")?;
        let (mut second, _) = Member::join(server, &room, "bob")?;
        first.patches(&json!({"a": 1}))?;
        let events = second.events_of_others()?;
        expect_eq("events", events.len(), 1)?;
        events[0].is("update", first.id())?;
        let own = first.events_until_own_update()?;
        let updates = own
            .iter()
            .filter(|event| event.is("update", first.id()).is_ok());
        expect_eq("its own updates", updates.count(), 1)
    });
}

fn epochs(case: Begin<'_>) {
    case("presence, heartbeat: a lower epoch is stale_epoch and has no effect").check(|server| {
        let (mut member, epoch) = joined(server, &json!({"a": 1}))?;
        let request = json!({"patchState": {"a": 2}, "epoch": epoch - 1});
        expect_refused(&member.heartbeat(&request)?, "stale_epoch")?;
        let events = member.events_until_own_update()?;
        ensure!(events.is_empty(), "unexpected events: {events:?}");
        Ok(())
    });
    case("presence, heartbeat: a higher epoch is stale_epoch, as the server issues epochs").check(
        |server| {
            let (mut member, epoch) = joined(server, &json!({"a": 1}))?;
            let request = json!({"patchState": {"a": 2}, "epoch": epoch + 1});
            expect_refused(&member.heartbeat(&request)?, "stale_epoch")?;
            let answer = member.heartbeat(&json!({"epoch": epoch}))?;
            expect_eq(
                "with the right one",
                answer,
                json!({"ok": true, "changed": false, "epoch": epoch}),
            )
        },
    );
    case("presence, heartbeat: the epoch of the join before is stale_epoch").check(|server| {
        let room = server.name("room");
        let (mut member, first) = Member::join(server, &room, "alice")?;
        let second = member.ask_to_join(&room, "alice")?;
        let old = json!({"epoch": first["self"]["epoch"]});
        expect_refused(&member.heartbeat(&old)?, "stale_epoch")?;
        let new = json!({"epoch": second["self"]["epoch"]});
        expect_at(&member.heartbeat(&new)?, "/ok", &true.into())
    });
    for epoch in [0, u64::from(u32::MAX), 9_007_199_254_740_991] {
        case(&format!(
            "presence, heartbeat: epoch {epoch} is stale_epoch"
        ))
        .check(move |server| {
            let (mut member, _) = joined(server, &json!({}))?;
            expect_refused(&member.heartbeat(&json!({"epoch": epoch}))?, "stale_epoch")
        });
    }
}

fn without_a_room(case: Begin<'_>) {
    for (what, request) in [
        ("null", Value::Null),
        ("a patch", json!({"patchState": {"a": 1}})),
        ("an epoch", json!({"epoch": 1})),
    ] {
        case(&format!(
            "presence, heartbeat: {what} without a join is not_joined"
        ))
        .check(move |server| {
            let mut member = Member::open(server)?;
            expect_refused(&member.heartbeat(&request)?, "not_joined")
        });
    }
    case("presence, heartbeat: after a leave it is not_joined").check(|server| {
        let (mut member, _) = joined(server, &json!({}))?;
        member.leave()?;
        expect_refused(&member.heartbeat(&Value::Null)?, "not_joined")
    });
}

fn leaves(case: Begin<'_>) {
    case("presence, leave: the answer is ok, with and without a room").check(|server| {
        let mut member = Member::open(server)?;
        expect_eq("without a room", member.leave()?, json!({"ok": true}))?;
        member.ask_to_join(&server.name("room"), "alice")?;
        expect_eq("with a room", member.leave()?, json!({"ok": true}))?;
        expect_eq("again", member.leave()?, json!({"ok": true}))
    });
    case(
        "presence, leave: the others get it, with state null and reason leave; the leaver does not",
    )
    .check(|server| {
        let room = server.name("room");
        let (mut observer, _) = Member::join(server, &room, "bob")?;
        let (mut member, answer) = Member::join_with(server, &room, "alice", &json!({"a": 1}))?;
        member.event()?;
        member.leave()?;
        observer.event_of_other()?.is("join", member.id())?;
        let event = observer.event_of_other()?;
        event.is_leave(member.id(), "leave")?;
        expect_at(&event.0, "/state", &Value::Null)?;
        expect_at(&event.0, "/userId", &"alice".into())?;
        expect_at(&event.0, "/roomId", &room.into())?;
        expect_at(&event.0, "/epoch", &answer["self"]["epoch"])?;
        // An answer orders what the server sent before it.
        member.leave()?;
        member.has_no_events()
    });
    case("presence, leave: a leaver is in no snapshot and gets no event of the room").check(
        |server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "bob")?;
            let (mut member, _) = Member::join(server, &room, "alice")?;
            member.event()?;
            member.leave()?;
            observer.patches(&json!({"a": 1}))?;
            let (_, answer) = Member::join(server, &room, "carol")?;
            ensure!(
                entry(&answer, member.id())?.is_none(),
                "the leaver is in {answer}"
            );
            member.leave()?;
            member.has_no_events()
        },
    );
    case("presence, leave: without an acknowledgement id it is carried out").check(|server| {
        let room = server.name("room");
        let (mut observer, _) = Member::join(server, &room, "bob")?;
        let (mut member, _) = Member::join(server, &room, "alice")?;
        member.socket.send(r#"2["presence:leave",null]"#)?;
        observer.event_of_other()?.is("join", member.id())?;
        observer.event_of_other()?.is_leave(member.id(), "leave")
    });
}

/// Adds a case about a connection that ends: its leave has the reason disconnect. The name begins with the source.
fn disconnection(case: Begin<'_>, name: &str, end: fn(Member) -> anyhow::Result<()>) {
    case(&format!("{name} is a leave with reason disconnect")).check(move |server| {
        let room = server.name("room");
        let (mut observer, _) = Member::join(server, &room, "bob")?;
        let (member, _) = Member::join(server, &room, "alice")?;
        let id = member.id().to_owned();
        end(member)?;
        observer.event_of_other()?.is("join", &id)?;
        let event = observer.event_of_other()?;
        event.is_leave(&id, "disconnect")?;
        expect_at(&event.0, "/state", &Value::Null)?;
        let (_, answer) = Member::join(server, &room, "carol")?;
        ensure!(entry(&answer, &id)?.is_none(), "the leaver is in {answer}");
        Ok(())
    });
}

fn disconnections(case: Begin<'_>) {
    disconnection(case, "presence, leave: a close frame", |mut member| {
        member.socket.transport.send_close(1000)?;
        member.socket.ends()
    });
    disconnection(
        case,
        "presence, leave: the end of the TCP connection",
        |member| member.socket.transport.disconnect(),
    );
    disconnection(case, "presence, leave: a TCP reset", |member| {
        member.socket.transport.reset()
    });
    disconnection(
        case,
        "presence, leave: a close packet of Engine.IO",
        |mut member| {
            member.socket.transport.send_text("1")?;
            member.socket.transport.disconnect()
        },
    );
    disconnection(
        case,
        "Socket.IO 5, packet: a malformed one of a member",
        |mut member| {
            member.socket.send("9")?;
            member.socket.ends()
        },
    );
    disconnection(
        case,
        "RFC 6455, 5.1: an unmasked frame of a member",
        |mut member| {
            let transport = &mut member.socket.transport;
            let frame = websocket::unmasked_frame(websocket::FIN | websocket::TEXT, b"3");
            transport.send_raw(&frame)?;
            transport.ends_with(&[1002])
        },
    );
    case("presence, leave: the end of a polling session is a leave with reason disconnect").check(
        |server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "bob")?;
            let mut member = Member::over(Socket::connect_over(Polling::open(server)?)?);
            member.ask_to_join(&room, "alice")?;
            member.socket.transport.send_all(&["1"])?;
            observer.event_of_other()?.is("join", member.id())?;
            observer
                .event_of_other()?
                .is_leave(member.id(), "disconnect")
        },
    );
}
