//! The presence protocol: clients that join again with their token after their connection broke.

use std::time::Duration;

use super::*;
use crate::setup::GRACE_MS;

const GRACE: Duration = Duration::from_millis(GRACE_MS);
/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(10);

/// A member whose connection broke, and the observer that has seen it join.
struct Broken {
    room: String,
    observer: Member,
    answer: Value,
    id: String,
}

impl Broken {
    /// Joins as `alice` with a state and cuts the connection.
    fn new(server: &Server) -> anyhow::Result<Self> {
        let room = server.name("room");
        let (mut observer, _) = Member::join(server, &room, "observer")?;
        let (member, answer) = Member::join_with(server, &room, "alice", &json!({"a": 1}))?;
        let id = member.id().to_owned();
        observer.event_of_other()?.is("join", &id)?;
        member.socket.transport.reset()?;
        Ok(Self {
            room,
            observer,
            answer,
            id,
        })
    }

    /// Returns a join request with the token, changed by `change`.
    fn request(&self, change: Value) -> Value {
        let mut request =
            json!({"roomId": self.room, "userId": "alice", "resume": self.answer["resume"]});
        if let (Value::Object(request), Value::Object(change)) = (&mut request, change) {
            request.extend(change);
        }
        request
    }

    /// Joins on a new connection with the token. The server may see the end of the old connection after the request,
    /// so a join that is not a resumption is repeated.
    fn resume(&self, server: &Server, change: &Value) -> anyhow::Result<(Member, Value)> {
        let began = Stopwatch::new();
        loop {
            let mut member = Member::open(server)?;
            let answer = member.joins(&self.request(change.clone()))?;
            if answer["resumed"] == true || began.elapsed() > GRACE / 2 {
                expect_at(&answer, "/resumed", &true.into())?;
                return Ok((member, answer));
            }
        }
    }
}

pub(super) fn cases(case: Begin<'_>) {
    accepted(case);
    continued(case);
    refused(case);
    ends(case);
}

fn accepted(case: Begin<'_>) {
    case("presence, resume: a join is answered with a token")
        .on(Setup::Resume)
        .check(|server| {
            let (_, first) = Member::join(server, &server.name("room"), "alice")?;
            let (_, second) = Member::join(server, &server.name("room"), "alice")?;
            let (first, second) = (text(&first, "/resume")?, text(&second, "/resume")?);
            ensure!(first.len() >= 16, "the token {first:?} can be guessed");
            ensure!(first != second, "two members have the token {first}");
            Ok(())
        });
    case("presence, resume: the token keeps the connection id and the state, and raises the epoch by one").on(Setup::Resume).check(|server| {
        let broken = Broken::new(server)?;
        let (member, answer) = broken.resume(server, &json!({}))?;
        expect_at(&answer, "/self/connId", &broken.id.as_str().into())?;
        ensure!(member.id() != broken.id, "the new connection has the old one's id");
        let epoch = number(&broken.answer, "/self/epoch")?;
        expect_eq("the epoch", number(&answer, "/self/epoch")?, epoch + 1)?;
        expect_at(present(&answer, &broken.id)?, "/state", &json!({"a": 1}))?;
        expect_eq("members", array(&answer, "/snapshot")?.len(), 2)
    });
    case("presence, resume: the others see neither leave nor join")
        .on(Setup::Resume)
        .check(|server| {
            let mut broken = Broken::new(server)?;
            let (_member, _) = broken.resume(server, &json!({}))?;
            let events = broken.observer.events_of_others()?;
            ensure!(events.is_empty(), "unexpected events: {events:?}");
            Ok(())
        });
    case("presence, resume: a state in the request replaces the old one")
        .on(Setup::Resume)
        .check(|server| {
            let broken = Broken::new(server)?;
            let (_member, answer) = broken.resume(server, &json!({"state": {"b": 2}}))?;
            expect_at(present(&answer, &broken.id)?, "/state", &json!({"b": 2}))
        });
}

fn continued(case: Begin<'_>) {
    case("presence, resume: the new connection gets events, and its heartbeats count")
        .on(Setup::Resume)
        .check(|server| {
            let mut broken = Broken::new(server)?;
            let (mut member, answer) = broken.resume(server, &json!({}))?;
            let old = json!({"epoch": broken.answer["self"]["epoch"]});
            expect_refused(&member.heartbeat(&old)?, "stale_epoch")?;
            let new = json!({"epoch": answer["self"]["epoch"], "patchState": {"b": 2}});
            expect_at(&member.heartbeat(&new)?, "/changed", &true.into())?;
            for receiver in [&mut member, &mut broken.observer] {
                let event = loop {
                    let event = receiver.event()?;
                    if event.0["type"] == "update" {
                        break event;
                    }
                };
                event.is("update", &broken.id)?;
                expect_at(&event.0, "/state", &json!({"a": 1, "b": 2}))?;
            }
            Ok(())
        });
    case("presence, resume: the next event has the seq after the answer's")
        .on(Setup::Resume)
        .check(|server| {
            let mut broken = Broken::new(server)?;
            broken.observer.patches(&json!({"while": "away"}))?;
            let (mut member, answer) = broken.resume(server, &json!({}))?;
            broken.observer.patches(&json!({"while": "back"}))?;
            loop {
                let event = member.event()?;
                if event.0["type"] == "update" {
                    return expect_eq("seq", event.seq()?, number(&answer, "/seq")? + 1);
                }
            }
        });
    case("presence, resume: a member may break and resume three times")
        .on(Setup::Resume)
        .check(|server| {
            let mut broken = Broken::new(server)?;
            for _ in 0..3 {
                let (member, answer) = broken.resume(server, &json!({}))?;
                let epoch = number(&broken.answer, "/self/epoch")?;
                expect_eq("the epoch", number(&answer, "/self/epoch")?, epoch + 1)?;
                broken.answer = answer;
                member.socket.transport.disconnect()?;
            }
            let events = broken.observer.events_of_others()?;
            ensure!(events.is_empty(), "unexpected events: {events:?}");
            Ok(())
        });
}

fn refused(case: Begin<'_>) {
    for (what, change) in [
        (
            "an unknown token",
            json!({"resume": "unknown-token-0123456789"}),
        ),
        ("an empty token", json!({"resume": ""})),
        ("another user", json!({"userId": "mallory"})),
        ("no token", json!({"resume": null})),
    ] {
        case(&format!("presence, resume: {what} makes an ordinary join"))
            .on(Setup::Resume)
            .check(move |server| {
                let broken = Broken::new(server)?;
                let mut member = Member::open(server)?;
                let mut request = broken.request(change.clone());
                if let Value::Object(fields) = &mut request {
                    fields.retain(|_, value| !value.is_null());
                }
                is_ordinary(&member.joins(&request)?, &member)
            });
    }
    case("presence, resume: the token of another room makes an ordinary join")
        .on(Setup::Resume)
        .check(|server| {
            let broken = Broken::new(server)?;
            let mut member = Member::open(server)?;
            let request = broken.request(json!({"roomId": server.name("room")}));
            is_ordinary(&member.joins(&request)?, &member)
        });
    case("presence, resume: a token serves once")
        .on(Setup::Resume)
        .check(|server| {
            let broken = Broken::new(server)?;
            let (_member, _) = broken.resume(server, &json!({}))?;
            let mut thief = Member::open(server)?;
            is_ordinary(&thief.joins(&broken.request(json!({})))?, &thief)
        });
    case("presence, resume: after a leave the token makes an ordinary join")
        .on(Setup::Resume)
        .check(|server| {
            let room = server.name("room");
            let (mut member, answer) = Member::join(server, &room, "alice")?;
            member.leave()?;
            let mut later = Member::open(server)?;
            let request = json!({"roomId": room, "userId": "alice", "resume": answer["resume"]});
            is_ordinary(&later.joins(&request)?, &later)
        });
    case("presence, resume: after the grace time the token makes an ordinary join")
        .on(Setup::Resume)
        .check(|server| {
            let mut broken = Broken::new(server)?;
            broken
                .observer
                .event_of_other()?
                .is_leave(&broken.id, "disconnect")?;
            let mut member = Member::open(server)?;
            is_ordinary(&member.joins(&broken.request(json!({})))?, &member)
        });
}

/// Asserts that the answer to a join is not a resumption.
fn is_ordinary(answer: &Value, member: &Member) -> anyhow::Result<()> {
    expect_absent(answer, "resumed")?;
    expect_at(answer, "/self/connId", &member.id().into())?;
    present(answer, member.id()).map(drop)
}

fn ends(case: Begin<'_>) {
    case("presence, resume: a client that does not come back leaves after the grace time, with reason disconnect").on(Setup::Resume).check(|server| {
        let began = Stopwatch::new();
        let mut broken = Broken::new(server)?;
        broken.observer.event_of_other()?.is_leave(&broken.id, "disconnect")?;
        let after = began.elapsed();
        ensure!(after >= GRACE, "it left after {after:?}, and the grace time is {GRACE:?}");
        ensure!(after <= GRACE + SLACK, "it left after {after:?}, and the grace time is {GRACE:?}");
        Ok(())
    });
    case("presence, resume: the snapshot has the member during the grace time")
        .on(Setup::Resume)
        .check(|server| {
            let broken = Broken::new(server)?;
            let (_, answer) = Member::join(server, &broken.room, "bob")?;
            present(&answer, &broken.id).map(drop)
        });
    case("presence, resume: a requested leave does not wait for the grace time")
        .on(Setup::Resume)
        .check(|server| {
            let room = server.name("room");
            let (mut observer, _) = Member::join(server, &room, "observer")?;
            let (mut member, _) = Member::join(server, &room, "alice")?;
            member.leave()?;
            let events = observer.events_of_others()?;
            expect_eq("events", events.len(), 2)?;
            events[1].is_leave(member.id(), "leave")
        });
}
