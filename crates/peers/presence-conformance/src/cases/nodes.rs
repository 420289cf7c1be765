//! The presence protocol: members of one room on two nodes.

use super::*;
use crate::cases::expiry::{REAPER, TOLERANCE, TTL, with_observer};
use crate::member::Event;

pub(super) fn cases(case: Begin<'_>) {
    joins(case);
    events(case);
    leaves(case);
    order(case);
    users(case);
    empty_rooms(case);
    expiry(case);
}

/// Joins a member on each node to a new room.
fn pair(server: &Server) -> anyhow::Result<(String, [Member; 2])> {
    let room = server.name("room");
    let [here, there] = server.nodes()?;
    let (first, _) = Member::join(here, &room, "alice")?;
    let (second, _) = Member::join(there, &room, "bob")?;
    Ok((room, [first, second]))
}

/// Has each member publish an update, and returns the events that each receives up to the last of these updates. A
/// node gets the events of another one in order, so an event that is not among them was not sent.
fn received(members: &mut [Member]) -> anyhow::Result<Vec<Vec<Event>>> {
    let mark = Value::from(load::clock::now());
    for member in members.iter_mut() {
        member.patches(&json!({"mark": mark}))?;
    }
    let count = members.len();
    let until_last = |member: &mut Member| {
        let (mut events, mut marks) = (Vec::new(), 0);
        while marks < count {
            let event = member.event()?;
            marks += usize::from(event.0.pointer("/state/mark") == Some(&mark));
            events.push(event);
        }
        Ok(events)
    };
    members.iter_mut().map(until_last).collect()
}

/// Returns the events of [`received`] by their seqs. None may be missing or repeated. Only some cases are about
/// the order in which they arrive.
fn received_once(members: &mut [Member]) -> anyhow::Result<Vec<Vec<Event>>> {
    let mut lists = received(members)?;
    for events in &mut lists {
        events.sort_by_key(|event| event.seq().unwrap_or_default());
        has_no_gap(events)?;
    }
    Ok(lists)
}

/// Asserts that each event has the seq after that of the one before.
fn has_no_gap(events: &[Event]) -> anyhow::Result<()> {
    let seqs: Vec<u64> = events
        .iter()
        .map(Event::seq)
        .collect::<anyhow::Result<_>>()?;
    let is_consecutive = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
    ensure!(is_consecutive, "a gap or a repetition: seqs {seqs:?}");
    Ok(())
}

/// Returns the only event of this type about this connection.
fn only<'a>(events: &'a [Event], kind: &str, connection: &str) -> anyhow::Result<&'a Event> {
    let mut found = events.iter().filter(|it| it.is(kind, connection).is_ok());
    let only = found.next();
    let only = only.with_context(|| format!("no {kind} of {connection} in {events:?}"))?;
    ensure!(found.next().is_none(), "a second {kind} of {connection}");
    Ok(only)
}

fn joins(case: Begin<'_>) {
    case("presence, nodes: a snapshot has the members of the other node, with their merged states")
        .on(Setup::TwoNodes)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            let (mut alice, first) = Member::join_with(here, &room, "alice", &json!({"a": 1}))?;
            alice.patches(&json!({"b": 2}))?;
            let (bob, answer) = Member::join(there, &room, "bob")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 2)?;
            present(&answer, bob.id())?;
            let entry = present(&answer, alice.id())?;
            expect_at(entry, "/userId", &"alice".into())?;
            expect_at(entry, "/state", &json!({"a": 1, "b": 2}))?;
            expect_at(entry, "/epoch", &first["self"]["epoch"])?;
            expect_absent(&answer, "degraded")
        });
    case("presence, nodes: a join is seen on the other node, once, with the seq of the answer")
        .on(Setup::TwoNodes)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            let (alice, first) = Member::join(here, &room, "alice")?;
            let (bob, second) = Member::join_with(there, &room, "bob", &json!({"b": 2}))?;
            let seqs = [number(&first, "/seq")?, number(&second, "/seq")?];
            expect_eq("seqs of the answers", seqs, [1, 2])?;
            let bob_id = bob.id().to_owned();
            for events in received_once(&mut [alice, bob])? {
                let join = only(&events, "join", &bob_id)?;
                expect_eq("seq", join.seq()?, 2)?;
                expect_at(&join.0, "/userId", &"bob".into())?;
                expect_at(&join.0, "/state", &json!({"b": 2}))?;
                expect_at(&join.0, "/epoch", &second["self"]["epoch"])?;
            }
            Ok(())
        });
    case("presence, nodes: joins on both nodes at once have snapshots that fit their seqs")
        .on(Setup::TwoNodes)
        .check(|server| {
            let nodes = server.nodes()?;
            let room = server.name("room");
            let mut members: Vec<Member> = (0..10)
                .map(|at| Member::open(nodes[at % 2]))
                .collect::<anyhow::Result<_>>()?;
            let request = json!({"roomId": room, "userId": "someone"});
            let mut ids = Vec::new();
            for member in &mut members {
                let arguments = std::slice::from_ref(&request);
                ids.push(member.socket.emit("presence:join", arguments)?);
            }
            let mut seqs = std::collections::BTreeSet::new();
            for (member, id) in members.iter_mut().zip(ids) {
                let answer = member.socket.acknowledged(id)?.remove(0);
                let seq = number(&answer, "/seq")?;
                let count = array(&answer, "/snapshot")?.len() as u64;
                expect_eq("members of a snapshot after this many joins", count, seq)?;
                seqs.insert(seq);
            }
            expect_eq("seqs", seqs, (1..=10).collect())
        });
}

fn events(case: Begin<'_>) {
    case("presence, nodes: an update is seen on the other node, once, with the whole state")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (_, mut members) = pair(server)?;
            received_once(&mut members)?;
            members[1].patches(&json!({"b": 2}))?;
            members[1].patches(&json!({"c": 3}))?;
            let id = members[1].id().to_owned();
            for events in received_once(&mut members)? {
                let updates = events.iter().filter(|it| it.is("update", &id).is_ok());
                let updates: Vec<&Event> = updates.collect();
                expect_eq("updates", updates.len(), 3)?;
                expect_at(&updates[0].0, "/state/b", &2.into())?;
                expect_absent(&updates[0].0["state"], "c")?;
                expect_at(&updates[1].0, "/state/b", &2.into())?;
                expect_at(&updates[1].0, "/state/c", &3.into())?;
            }
            Ok(())
        });
    case("presence, nodes: a heartbeat that changes nothing is seen nowhere")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (_, mut members) = pair(server)?;
            members[1].patches(&json!({"b": 2}))?;
            received_once(&mut members)?;
            for request in [json!({"patchState": {"b": 2}}), Value::Null] {
                let answer = members[1].heartbeat(&request)?;
                expect_at(&answer, "/changed", &false.into())?;
            }
            for events in received_once(&mut members)? {
                expect_eq("events", events.len(), 2)?;
            }
            Ok(())
        });
    case("presence, nodes: the events of another room on the other node are not seen")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (_, mut members) = pair(server)?;
            received_once(&mut members)?;
            let (mut other, _) = Member::join(server.nodes()?[1], &server.name("room"), "bob")?;
            other.patches(&json!({"a": 1}))?;
            for events in received_once(&mut members)? {
                expect_eq("events", events.len(), 2)?;
            }
            Ok(())
        });
}

fn leaves(case: Begin<'_>) {
    case("presence, nodes: a leave is seen on the other node, once, with state null and reason leave")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (room, [mut alice, mut bob]) = pair(server)?;
            expect_at(&alice.leave()?, "/ok", &true.into())?;
            let (carol, answer) = Member::join(server, &room, "carol")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 2)?;
            present(&answer, bob.id())?;
            let leave = loop {
                let event = bob.event()?;
                if event.0["type"] == "leave" {
                    break event;
                }
            };
            leave.is_leave(alice.id(), "leave")?;
            expect_at(&leave.0, "/state", &Value::Null)?;
            expect_at(&leave.0, "/userId", &"alice".into())?;
            expect_eq("the seq", leave.seq()?, 3)?;
            for events in received_once(&mut [bob, carol])? {
                let has_leave = events.iter().any(|event| event.0["type"] == "leave");
                ensure!(!has_leave, "a second leave in {events:?}");
            }
            Ok(())
        });
    case("presence, nodes: the end of a connection is a leave with reason disconnect on the other node")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (room, [alice, mut bob]) = pair(server)?;
            let id = alice.id().to_owned();
            alice.socket.transport.disconnect()?;
            let leave = bob.event_of_other()?;
            leave.is_leave(&id, "disconnect")?;
            expect_eq("the seq", leave.seq()?, 3)?;
            let (_, answer) = Member::join(server.nodes()?[1], &room, "carol")?;
            ensure!(entry(&answer, &id)?.is_none(), "it is still in {answer}");
            Ok(())
        });
}

/// Joins two members on each node to a room, and has all of them send updates at once.
fn busy(server: &Server) -> anyhow::Result<Vec<Member>> {
    let nodes = server.nodes()?;
    let room = server.name("room");
    let mut members: Vec<Member> = (0..4)
        .map(|at| Ok(Member::join(nodes[at % 2], &room, &format!("user-{at}"))?.0))
        .collect::<anyhow::Result<_>>()?;
    received(&mut members)?;
    let mut last = vec![0; members.len()];
    for number in 0..UPDATES {
        for (member, last) in members.iter_mut().zip(&mut last) {
            let request = json!({"patchState": {"number": number}});
            *last = member.socket.emit("presence:heartbeat", &[request])?;
        }
    }
    for (member, last) in members.iter_mut().zip(last) {
        member.socket.acknowledged(last)?;
    }
    Ok(members)
}

/// The updates of each member in [`busy`].
const UPDATES: usize = 50;

fn order(case: Begin<'_>) {
    case(
        "presence, nodes: updates on both nodes at once reach all, once, and are the same for all",
    )
    .on(Setup::TwoNodes)
    .check(|server| {
        let mut members = busy(server)?;
        let expected = members.len() * (UPDATES + 1);
        let lists = received_once(&mut members)?;
        for events in &lists {
            expect_eq("events", events.len(), expected)?;
            let differs = events
                .iter()
                .zip(&lists[0])
                .find(|(one, other)| one != other);
            ensure!(
                differs.is_none(),
                "two members got different events: {differs:?}"
            );
        }
        Ok(())
    });
    case("presence, nodes: updates on both nodes at once arrive in the order of seq")
        .on(Setup::TwoNodes)
        .check(|server| {
            for events in received(&mut busy(server)?)? {
                has_no_gap(&events)?;
            }
            Ok(())
        });
    case("presence, nodes: after a join during updates on the other node no event is missing")
        .on(Setup::TwoNodes)
        .check(|server| {
            joins_during_updates(server, |seq, mut events| {
                events.sort_by_key(|event| event.seq().unwrap_or_default());
                // Earlier events, which the snapshot includes, are no loss.
                events.retain(|event| event.seq().is_ok_and(|found| found >= seq));
                expect_eq("the first seq", events[0].seq()?, seq)?;
                has_no_gap(&events)
            })
        });
    case("presence, nodes: after a join during updates on the other node events arrive in the order of seq")
        .on(Setup::TwoNodes)
        .check(|server| {
            joins_during_updates(server, |seq, events| {
                expect_eq("the first seq", events[0].seq()?, seq)?;
                has_no_gap(&events)
            })
        });
}

/// Joins members on one node while a member on the other sends updates. Passes the seq of each answer, and the events
/// that follow, to `check`.
fn joins_during_updates(
    server: &Server,
    check: impl Fn(u64, Vec<Event>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [here, there] = server.nodes()?;
    let room = server.name("room");
    let (mut busy, _) = Member::join(here, &room, "busy")?;
    for at in 0..10 {
        for number in 0..10 {
            let request = json!({"patchState": {"number": [at, number]}});
            busy.socket.emit("presence:heartbeat", &[request])?;
        }
        let (joiner, answer) = Member::join(there, &room, "joiner")?;
        let mut members = [busy, joiner];
        let events = received(&mut members)?.remove(1);
        check(number(&answer, "/seq")?, events)?;
        members[1].leave()?;
        [busy, _] = members;
    }
    Ok(())
}

fn users(case: Begin<'_>) {
    case("presence, nodes: a user's second device on the other node is a member of its own")
        .on(Setup::TwoNodes)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            let (mut phone, _) = Member::join_with(here, &room, "alice", &json!({"on": "phone"}))?;
            let state = json!({"on": "laptop"});
            let (laptop, answer) = Member::join_with(there, &room, "alice", &state)?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 2)?;
            phone.patches(&json!({"battery": 50}))?;
            let (_bob, answer) = Member::join(there, &room, "bob")?;
            expect_at(present(&answer, laptop.id())?, "/state", &state)?;
            let found = present(&answer, phone.id())?;
            expect_at(found, "/state", &json!({"on": "phone", "battery": 50}))?;
            let id = laptop.id().to_owned();
            drop(laptop);
            let leave = loop {
                let event = phone.event()?;
                if event.0["type"] == "leave" {
                    break event;
                }
            };
            leave.is_leave(&id, "disconnect")?;
            let (_, answer) = Member::join(there, &room, "carol")?;
            present(&answer, phone.id())?;
            ensure!(entry(&answer, &id)?.is_none(), "{id} is still in {answer}");
            expect_at(&phone.heartbeat(&Value::Null)?, "/ok", &true.into())
        });
    case("presence, nodes: the epoch of the user's other device is stale_epoch")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (room, [mut alice, mut bob]) = pair(server)?;
            let own = number(&bob.ask_to_join(&room, "bob")?, "/self/epoch")?;
            // Two joins in one millisecond have one epoch; a join again raises it.
            let other = loop {
                let epoch = number(&alice.ask_to_join(&room, "bob")?, "/self/epoch")?;
                if epoch != own {
                    break epoch;
                }
            };
            let patch = json!({"b": 2});
            let stale = bob.heartbeat(&json!({"epoch": other, "patchState": patch}))?;
            expect_refused(&stale, "stale_epoch")?;
            let right = bob.heartbeat(&json!({"epoch": own}))?;
            expect_at(&right, "/changed", &false.into())?;
            let (_, answer) = Member::join(server, &room, "carol")?;
            let entry = present(&answer, bob.id())?;
            expect_at(entry, "/epoch", &own.into())?;
            expect_at(entry, "/state", &json!({}))
        });
}

fn empty_rooms(case: Begin<'_>) {
    case("presence, nodes: seq goes on while the other node has a member")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (room, [mut alice, _bob]) = pair(server)?;
            alice.leave()?;
            let answer = alice.ask_to_join(&room, "alice")?;
            expect_eq(
                "seq after 2 joins, a leave and a join",
                number(&answer, "/seq")?,
                4,
            )
        });
    case("presence, nodes: a room that is empty on both nodes begins again")
        .on(Setup::TwoNodes)
        .check(|server| {
            let (room, [mut alice, mut bob]) = pair(server)?;
            alice.leave()?;
            bob.leave()?;
            let (_, answer) = Member::join(server.nodes()?[1], &room, "carol")?;
            expect_eq("members", array(&answer, "/snapshot")?.len(), 1)?;
            expect_eq("seq", number(&answer, "/seq")?, 1)
        });
}

fn expiry(case: Begin<'_>) {
    case("presence, nodes: a silent member leaves once on both nodes, with reason expired")
        .on(Setup::TwoNodesShortTtl)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            with_observer(here, &room, |near| {
                with_observer(there, &room, |far| {
                    let (silent, _) = Member::join(here, &room, "silent")?;
                    let mut seqs = Vec::new();
                    for observer in [&mut *near, &mut *far] {
                        let leave = loop {
                            let event = observer.event()?;
                            if event.0["type"] == "leave" {
                                break event;
                            }
                        };
                        leave.is_leave(silent.id(), "expired")?;
                        expect_at(&leave.0, "/state", &Value::Null)?;
                        seqs.push(leave.seq()?);
                    }
                    expect_eq("the seq on both nodes", seqs[0], seqs[1])?;
                    // The other node looks for silent members too, and the end of the connection is no second leave.
                    drop(silent);
                    std::thread::sleep(REAPER * 2);
                    for observer in [near, far] {
                        for event in observer.events_until_own_update()? {
                            ensure!(event.0["type"] != "leave", "a second leave: {event:?}");
                        }
                    }
                    Ok(())
                })
            })
        });
    case("presence, nodes: no snapshot of the other node has a member past its TTL")
        .on(Setup::TwoNodesSlowReaper)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            let (mut silent, _) = Member::join(here, &room, "silent")?;
            std::thread::sleep(TTL + TOLERANCE);
            let (_, answer) = Member::join(there, &room, "late")?;
            ensure!(entry(&answer, silent.id())?.is_none(), "it is in {answer}");
            expect_refused(&silent.heartbeat(&Value::Null)?, "expired")
        });
    case("presence, nodes: heartbeats on one node keep a member in the snapshots of the other")
        .on(Setup::TwoNodesShortTtl)
        .check(|server| {
            let [here, there] = server.nodes()?;
            let room = server.name("room");
            with_observer(here, &room, |alive| {
                std::thread::sleep(TTL * 2);
                let (_, answer) = Member::join(there, &room, "other")?;
                present(&answer, alive.id()).map(drop)
            })
        });
}
