//! The presence protocol: joins and snapshots.

use std::time::Duration;

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    answers(case);
    several_members(case);
    several_connections(case);
    again(case);
    other_rooms(case);
    transports(case);
}

fn answers(case: Begin<'_>) {
    case("presence, join: the answer has the snapshot, self and seq").check(|server| {
        let room = server.name("room");
        let state = json!({"status": "here"});
        let (member, answer) = Member::join_with(server, &room, "alice", &state)?;
        expect_at(&answer, "/self/connId", &member.id().into())?;
        let epoch = number(&answer, "/self/epoch")?;
        expect_eq("members", array(&answer, "/snapshot")?.len(), 1)?;
        let own = &answer["snapshot"][0];
        expect_at(own, "/connId", &member.id().into())?;
        expect_at(own, "/userId", &"alice".into())?;
        expect_at(own, "/state", &state)?;
        expect_at(own, "/epoch", &epoch.into())?;
        expect_eq("seq of a new room", number(&answer, "/seq")?, 1)
    });
    case("presence, join: the first epoch and lastSeenMs are the server's time").check(|server| {
        let (_, answer) = Member::join(server, &server.name("room"), "alice")?;
        let now = load::clock::unix_ns() / 1_000_000;
        for pointer in ["/self/epoch", "/snapshot/0/lastSeenMs"] {
            let seen = number(&answer, pointer)?;
            ensure!(
                seen.abs_diff(now) < 60_000,
                "{pointer} is {seen}, and the time {now}"
            );
        }
        Ok(())
    });
    case("presence, join: without a state it is an empty object").check(|server| {
        let mut member = Member::open(server)?;
        let answer = member.ask_to_join(&server.name("room"), "alice")?;
        expect_at(&answer, "/snapshot/0/state", &json!({}))
    });
    case("presence, join: the connection id is the id of the namespace").check(|server| {
        let mut member = Member::open(server)?;
        let answer = member.ask_to_join(&server.name("room"), "alice")?;
        expect_at(&answer, "/self/connId", &member.id().into())
    });
    case(
        "presence, join: without a grace time there is no token, and no field resumed or degraded",
    )
    .check(|server| {
        let (_, answer) = Member::join(server, &server.name("room"), "alice")?;
        expect_absent(&answer, "resume")?;
        expect_absent(&answer, "resumed")?;
        expect_absent(&answer, "degraded")
    });
    case("presence, join: unknown fields are ignored").check(|server| {
        let mut member = Member::open(server)?;
        let room = server.name("room");
        let request =
            json!({"roomId": room, "userId": "a", "other": [1], "connId": "x", "epoch": 5});
        let answer = member.joins(&request)?;
        expect_at(&answer, "/self/connId", &member.id().into())
    });
}

fn several_members(case: Begin<'_>) {
    case("presence, join: the joiner gets its own join, with the seq of the answer").check(
        |server| {
            let room = server.name("room");
            let state = json!({"a": 1});
            let (mut member, answer) = Member::join_with(server, &room, "alice", &state)?;
            let event = member.event()?;
            event.is("join", member.id())?;
            expect_at(&event.0, "/roomId", &room.into())?;
            expect_at(&event.0, "/userId", &"alice".into())?;
            expect_at(&event.0, "/state", &state)?;
            expect_at(&event.0, "/seq", &answer["seq"])?;
            expect_at(&event.0, "/epoch", &answer["self"]["epoch"])
        },
    );
    case("presence, join: the members of the room get the event, once").check(|server| {
        let room = server.name("room");
        let (mut first, _) = Member::join(server, &room, "alice")?;
        let (second, _) = Member::join(server, &room, "bob")?;
        let events = first.events_of_others()?;
        expect_eq("events", events.len(), 1)?;
        events[0].is("join", second.id())?;
        expect_at(&events[0].0, "/userId", &"bob".into())?;
        expect_absent(&events[0].0, "reason")
    });
    case("presence, join: the snapshot has every member, with the states that were merged before")
        .check(|server| {
            let room = server.name("room");
            let mut members = Vec::new();
            for at in 0..10 {
                let (mut member, answer) =
                    Member::join_with(server, &room, &format!("user-{at}"), &json!({"at": at}))?;
                expect_eq("members", array(&answer, "/snapshot")?.len(), at + 1)?;
                member.patches(&json!({"patched": at}))?;
                members.push(member);
            }
            let (_, answer) = Member::join(server, &room, "last")?;
            for (at, member) in members.iter().enumerate() {
                let entry = present(&answer, member.id())?;
                expect_at(entry, "/userId", &format!("user-{at}").into())?;
                expect_at(entry, "/state", &json!({"at": at, "patched": at}))?;
            }
            expect_eq("members", array(&answer, "/snapshot")?.len(), 11)
        });
    case("presence, join: the next event has the seq after the answer's").check(|server| {
        let room = server.name("room");
        let (mut busy, _) = Member::join(server, &room, "busy")?;
        for number in 0..5 {
            busy.patches(&json!({"number": number}))?;
        }
        let (mut joiner, answer) = Member::join(server, &room, "joiner")?;
        let seq = number(&answer, "/seq")?;
        expect_eq("seq after 1 join, 5 updates and this join", seq, 7)?;
        busy.patches(&json!({"number": 99}))?;
        expect_eq("seq of its own join", joiner.event()?.seq()?, seq)?;
        expect_eq("seq of the next event", joiner.event()?.seq()?, seq + 1)
    });
}

fn several_connections(case: Begin<'_>) {
    case("presence, join: a second connection of a user is a member of its own").check(|server| {
        let room = server.name("room");
        let (mut phone, _) = Member::join_with(server, &room, "alice", &json!({"on": "phone"}))?;
        let (laptop, answer) = Member::join_with(server, &room, "alice", &json!({"on": "laptop"}))?;
        expect_eq("members", array(&answer, "/snapshot")?.len(), 2)?;
        expect_at(present(&answer, phone.id())?, "/state/on", &"phone".into())?;
        expect_at(
            present(&answer, laptop.id())?,
            "/state/on",
            &"laptop".into(),
        )?;
        drop(laptop);
        phone.event_of_other()?;
        expect_at(&phone.event_of_other()?.0, "/type", &"leave".into())?;
        let (_, answer) = Member::join(server, &room, "bob")?;
        present(&answer, phone.id()).map(drop)
    });
    case("presence, join: one user may be in two rooms with two connections").check(|server| {
        let (first, second) = (server.name("room"), server.name("room"));
        let (mut one, _) = Member::join(server, &first, "alice")?;
        let (_two, answer) = Member::join(server, &second, "alice")?;
        expect_eq(
            "members of the second room",
            array(&answer, "/snapshot")?.len(),
            1,
        )?;
        let events = one.events_of_others()?;
        ensure!(events.is_empty(), "events of the other room: {events:?}");
        Ok(())
    });
}

fn again(case: Begin<'_>) {
    case("presence, join: the same room again replaces the state, raises the epoch and publishes join").check(
        |server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "observer")?;
            let (mut member, first) = Member::join_with(server, &room, "alice", &json!({"a": 1}))?;
            let request = json!({"roomId": room, "userId": "alice", "state": {"b": 2}});
            let second = member.joins(&request)?;
            let (old, new) = (number(&first, "/self/epoch")?, number(&second, "/self/epoch")?);
            ensure!(new > old, "epoch {new} after {old}");
            let entry = present(&second, member.id())?;
            expect_at(entry, "/state", &json!({"b": 2}))?;
            expect_at(entry, "/epoch", &new.into())?;
            expect_eq("members", array(&second, "/snapshot")?.len(), 2)?;
            observer.event_of_other()?.is("join", member.id())?;
            let event = observer.event_of_other()?;
            event.is("join", member.id())?;
            expect_at(&event.0, "/epoch", &new.into())?;
            expect_at(&event.0, "/state", &json!({"b": 2}))
        },
    );
    case("presence, join: ten joins of a room at once have rising epochs").check(|server| {
        let room = server.name("room");
        let mut member = Member::open(server)?;
        let request = json!({"roomId": room, "userId": "alice"});
        let ids: Vec<u64> = (0..10)
            .map(|_| {
                member
                    .socket
                    .emit("presence:join", std::slice::from_ref(&request))
            })
            .collect::<anyhow::Result<_>>()?;
        let mut last = 0;
        for id in ids {
            let answer = member.socket.acknowledged(id)?;
            let epoch = number(&answer[0], "/self/epoch")?;
            ensure!(epoch > last, "epoch {epoch} after {last}");
            last = epoch;
        }
        Ok(())
    });
}

fn other_rooms(case: Begin<'_>) {
    case("presence, join: another room is refused with already_joined, and the member stays")
        .check(|server| {
            let (room, other) = (server.name("room"), server.name("room"));
            let (mut member, _) = Member::join(server, &room, "alice")?;
            expect_refused(&member.ask_to_join(&other, "alice")?, "already_joined")?;
            let (_, answer) = Member::join(server, &room, "bob")?;
            present(&answer, member.id())?;
            let (_, answer) = Member::join(server, &other, "bob")?;
            ensure!(
                entry(&answer, member.id())?.is_none(),
                "it is in the other room"
            );
            Ok(())
        });
    case("presence, join: after a leave another room is allowed").check(|server| {
        let (mut member, _) = Member::join(server, &server.name("room"), "alice")?;
        member.leave()?;
        let answer = member.ask_to_join(&server.name("room"), "bob")?;
        expect_at(&answer, "/snapshot/0/userId", &"bob".into())
    });
    case("presence, join: a room whose last member has left is empty for the next one").check(
        |server| {
            let room = server.name("room");
            let (mut member, _) = Member::join(server, &room, "alice")?;
            member.leave()?;
            std::thread::sleep(Duration::from_millis(5));
            let (_, answer) = Member::join(server, &room, "bob")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 1)
        },
    );
}

fn transports(case: Begin<'_>) {
    case("presence, join: over polling as over a WebSocket").check(|server| {
        let room = server.name("room");
        let (mut first, _) = Member::join(server, &room, "alice")?;
        let mut second = Member::over(Socket::connect_over(Polling::open(server)?)?);
        let answer = second.ask_to_join(&room, "bob")?;
        expect_eq("members", array(&answer, "/snapshot")?.len(), 2)?;
        first.event_of_other()?.is("join", second.id())?;
        second.event()?.is("join", second.id())?;
        second.patches(&json!({"a": 1}))?;
        first.event_of_other()?.is("update", second.id())?;
        second.event()?.is("update", second.id())?;
        expect_at(&second.leave()?, "/ok", &true.into())?;
        first.event_of_other()?.is_leave(second.id(), "leave")
    });
    case("presence, join: over a session that was upgraded").check(|server| {
        let engine = Engine::upgrade(Polling::open(server)?)?;
        let mut member = Member::over(Socket::connect_over(engine.socket)?);
        member.ask_to_join(&server.name("room"), "alice")?;
        member.event()?.is("join", member.id())
    });
}
