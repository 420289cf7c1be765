//! The presence protocol: the answers in compatibility mode.

use std::time::Duration;

use super::*;
use crate::setup::{REAPER_MS, TTL_MS};

pub(super) fn cases(case: Begin<'_>) {
    answers(case);
    heartbeats(case);
}

fn answers(case: Begin<'_>) {
    case("presence, compatibility: the answer to a join has ok, snapshot and self alone")
        .on(Setup::Compat)
        .check(|server| {
            let (_, answer) = Member::join(server, &server.name("room"), "alice")?;
            let object = answer.as_object().context("an answer that is no object")?;
            let mut fields: Vec<&str> = object.keys().map(String::as_str).collect();
            fields.sort_unstable();
            expect_eq("the fields", fields, ["ok", "self", "snapshot"])
        });
    case("presence, compatibility: errors have no code")
        .on(Setup::Compat)
        .check(|server| {
            let mut member = Member::open(server)?;
            let answer = member.call("presence:join", &json!({"roomId": 1}))?;
            expect_at(&answer, "/ok", &false.into())?;
            ensure!(!text(&answer, "/error")?.is_empty(), "an empty error");
            expect_absent(&answer, "code")
        });
    case("presence, compatibility: events have no seq and no reason")
        .on(Setup::Compat)
        .check(|server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "observer")?;
            let (mut member, _) = Member::join(server, &room, "alice")?;
            member.patches(&json!({"a": 1}))?;
            member.leave()?;
            for kind in ["join", "update", "leave"] {
                let event = observer.event_of_other()?;
                event.is(kind, member.id())?;
                expect_absent(&event.0, "seq")?;
                expect_absent(&event.0, "reason")?;
            }
            Ok(())
        });
    case("presence, compatibility: another room is still refused")
        .on(Setup::Compat)
        .check(|server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "alice")?;
            let answer = member.ask_to_join(&server.name("room"), "alice")?;
            expect_at(&answer, "/ok", &false.into())?;
            expect_absent(&answer, "code")
        });
}

fn heartbeats(case: Begin<'_>) {
    let unchanged = || json!({"ok": true, "changed": false});
    for request in [
        Value::Null,
        json!({"patchState": {"a": 1}}),
        json!({"epoch": 1}),
    ] {
        case(&format!(
            "presence, compatibility: the heartbeat {request} without a join is ok"
        ))
        .on(Setup::Compat)
        .check(move |server| {
            let mut member = Member::open(server)?;
            expect_eq("the answer", member.heartbeat(&request)?, unchanged())
        });
    }
    case("presence, compatibility: a heartbeat with a lower epoch is ok and has no effect")
        .on(Setup::Compat)
        .check(move |server| {
            let (mut member, answer) = Member::join(server, &server.name("room"), "alice")?;
            let epoch = number(&answer, "/self/epoch")?;
            let request = json!({"epoch": epoch - 1, "patchState": {"a": 1}});
            let answer = member.heartbeat(&request)?;
            expect_at(&answer, "/ok", &true.into())?;
            expect_at(&answer, "/changed", &false.into())?;
            member.event()?;
            let events = member.events_until_own_update()?;
            ensure!(events.is_empty(), "unexpected events: {events:?}");
            Ok(())
        });
    case("presence, compatibility: a higher epoch is adopted")
        .on(Setup::Compat)
        .check(|server| {
            let room = server.name("room");
            let (mut member, answer) = Member::join(server, &room, "alice")?;
            let higher = number(&answer, "/self/epoch")? + 1_000;
            let request = json!({"epoch": higher, "patchState": {"a": 1}});
            let answer = member.heartbeat(&request)?;
            expect_at(&answer, "/changed", &true.into())?;
            expect_at(&answer, "/epoch", &higher.into())?;
            let (_, answer) = Member::join(server, &room, "bob")?;
            expect_at(present(&answer, member.id())?, "/epoch", &higher.into())
        });
    case("presence, compatibility: a heartbeat after an expiry is ok")
        .on(Setup::CompatShortTtl)
        .check(move |server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "late")?;
            std::thread::sleep(Duration::from_millis(TTL_MS + REAPER_MS + 20));
            let answer = member.heartbeat(&json!({"patchState": {"a": 1}}))?;
            expect_eq("the answer", answer, unchanged())
        });
}
