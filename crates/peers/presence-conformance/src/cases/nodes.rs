//! The presence protocol: many events of two nodes.

use std::collections::BTreeSet;

use super::*;

/// Has each member publish an update, and returns the events that each receives up to the last of these updates. A
/// node gets the events of another one in order, so an event that is not among them was not sent.
fn received(members: &mut [Member]) -> anyhow::Result<Vec<Vec<Value>>> {
    let mark = Value::from(load::clock::now());
    for member in members.iter_mut() {
        member.patches(&json!({"mark": mark}))?;
    }
    let count = members.len();
    let until_last = |member: &mut Member| {
        let (mut events, mut marks) = (Vec::new(), 0);
        while marks < count {
            let event = member.event()?;
            marks += usize::from(event.pointer("/state/mark") == Some(&mark));
            events.push(event);
        }
        Ok(events)
    };
    members.iter_mut().map(until_last).collect()
}

/// Returns the events of [`received`] by their seqs. None may be missing or repeated. Only some cases are about
/// the order in which they arrive.
fn received_once(members: &mut [Member]) -> anyhow::Result<Vec<Vec<Value>>> {
    let mut lists = received(members)?;
    for events in &mut lists {
        events.sort_by_key(|event| seq(event).unwrap_or_default());
        has_no_gap(events)?;
    }
    Ok(lists)
}

/// Asserts that each event has the seq after the one before.
fn has_no_gap(events: &[Value]) -> anyhow::Result<()> {
    let seqs: Vec<u64> = events.iter().map(seq).collect::<anyhow::Result<_>>()?;
    let is_consecutive = seqs.windows(2).all(|pair| pair[1] == pair[0] + 1);
    ensure!(is_consecutive, "a gap or a repetition: seqs {seqs:?}");
    Ok(())
}

pub(super) fn snapshots_fit_their_seqs(server: &Server) -> anyhow::Result<()> {
    let nodes = server.nodes()?;
    let request = json!({"roomId": server.name("room"), "userId": "someone"});
    let mut members = Vec::new();
    for at in 0..10 {
        let mut member = Member::open(nodes[at % 2])?;
        let id = member.emit("presence:join", &request)?;
        members.push((member, id));
    }
    let mut seqs = BTreeSet::new();
    for (member, id) in &mut members {
        let answer = member.acknowledged(*id)?;
        let joins = seq(&answer)?;
        let count = array(&answer, "/snapshot")?.len() as u64;
        expect_eq("members of a snapshot after this many joins", count, joins)?;
        seqs.insert(joins);
    }
    expect_eq("seqs", seqs, (1..=10).collect())
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
            *last = member.emit("presence:heartbeat", &request)?;
        }
    }
    for (member, last) in members.iter_mut().zip(last) {
        member.acknowledged(last)?;
    }
    Ok(members)
}

/// The updates of each member in [`busy`].
const UPDATES: usize = 50;

pub(super) fn all_get_the_same_updates(server: &Server) -> anyhow::Result<()> {
    let mut members = busy(server)?;
    let expected = members.len() * (UPDATES + 1);
    let lists = received_once(&mut members)?;
    for events in &lists {
        expect_eq("events", events.len(), expected)?;
        let mut pairs = events.iter().zip(&lists[0]);
        let differs = pairs.find(|(one, other)| one != other);
        ensure!(
            differs.is_none(),
            "two members got different events: {differs:?}"
        );
    }
    Ok(())
}

pub(super) fn updates_arrive_in_order(server: &Server) -> anyhow::Result<()> {
    let lists = received(&mut busy(server)?)?;
    lists.iter().try_for_each(|events| has_no_gap(events))
}

pub(super) fn no_update_is_missing_after_a_join(server: &Server) -> anyhow::Result<()> {
    joins_during_updates(server, |first, mut events| {
        events.sort_by_key(|event| seq(event).unwrap_or_default());
        // Earlier events, which the snapshot includes, are no loss.
        events.retain(|event| seq(event).is_ok_and(|seq| seq >= first));
        expect_eq("the first seq", seq(&events[0])?, first)?;
        has_no_gap(&events)
    })
}

pub(super) fn updates_arrive_in_order_after_a_join(server: &Server) -> anyhow::Result<()> {
    joins_during_updates(server, |first, events| {
        expect_eq("the first seq", seq(&events[0])?, first)?;
        has_no_gap(&events)
    })
}

/// Joins members on one node while a member on the other sends updates. Passes the seq of each answer, and the events
/// that follow, to `check`.
fn joins_during_updates(
    server: &Server,
    check: impl Fn(u64, Vec<Value>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [here, there] = server.nodes()?;
    let room = server.name("room");
    let (mut busy, _) = Member::join(here, &room, "busy")?;
    for at in 0..10 {
        for number in 0..10 {
            let request = json!({"patchState": {"number": [at, number]}});
            busy.emit("presence:heartbeat", &request)?;
        }
        let (joiner, answer) = Member::join(there, &room, "joiner")?;
        let mut members = [busy, joiner];
        let events = received(&mut members)?.remove(1);
        check(seq(&answer)?, events)?;
        members[1].leave()?;
        [busy, _] = members;
    }
    Ok(())
}
