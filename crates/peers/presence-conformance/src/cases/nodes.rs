//! The presence protocol: many events of two nodes.

use super::*;
use crate::member::Event;

pub(super) fn cases(case: Begin<'_>) {
    joins(case);
    order(case);
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

fn joins(case: Begin<'_>) {
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
