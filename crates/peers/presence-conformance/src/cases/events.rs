//! The presence protocol: many members, keys and events.

use super::*;

pub(super) fn the_snapshot_has_every_member(server: &Server) -> anyhow::Result<()> {
    let room = server.name("room");
    let mut members = Vec::new();
    let mut expected = Vec::new();
    for at in 0..10 {
        let user = format!("user-{at}");
        let (mut member, answer) = Member::join_with(server, &room, &user, &json!({"at": at}))?;
        expect_eq("members", array(&answer, "/snapshot")?.len(), at + 1)?;
        member.patches(&json!({"patched": at}))?;
        let state = json!({"at": at, "patched": at});
        expected.push(json!({"connId": member.id(), "userId": user, "state": state}));
        members.push(member);
    }
    expected.push(json!({"userId": "last"}));
    let (_, answer) = Member::join(server, &room, "last")?;
    let pattern = json!({"snapshot": expected});
    fits(&pattern, &answer, false, &mut Variables::new())
}

pub(super) fn many_keys_come_back(server: &Server) -> anyhow::Result<()> {
    let keys = (0..300).map(|at| (format!("key-{at}"), json!(at)));
    let state: Value = keys.collect();
    let (mut member, answer) = Member::join_with(server, &server.name("room"), "a", &state)?;
    expect_at(present(&answer, member.id())?, "/state", &state)?;
    expect_at(&member.event()?, "/state", &state)?;
    member.patches(&json!({"patch": state}))?;
    expect_at(&member.event()?, "/state/patch", &state)
}

/// Two members of a room see the same events of five clients that do not wait for each other, and none is missing.
pub(super) fn all_see_one_order(server: &Server) -> anyhow::Result<()> {
    let room = server.name("room");
    let (mut first, _) = Member::join(server, &room, "first")?;
    let (mut second, _) = Member::join(server, &room, "second")?;
    let clients: anyhow::Result<Vec<Member>> = (0..5).map(|_| Member::open(server)).collect();
    let mut clients = clients?;
    for round in 0..200 {
        for (at, client) in clients.iter_mut().enumerate() {
            let user = format!("client-{at}");
            let (event, argument) = match round % 4 {
                0 => ("presence:join", json!({"roomId": room, "userId": user})),
                3 => ("presence:leave", Value::Null),
                _ => (
                    "presence:heartbeat",
                    json!({"patchState": {"round": round}}),
                ),
            };
            client.emit(event, &argument)?;
        }
    }
    clients.iter_mut().try_for_each(Member::leave)?;
    let (_, answer) = Member::join(server, &room, "last")?;
    let last = seq(&answer)?;
    ensure!(last >= 1_000, "only {last} events");
    expect_eq("the first seq", seq(&first.event()?)?, 1)?;
    for expected in 2..=last {
        let [one, other]: [Value; 2] = [first.event()?, second.event()?];
        expect_eq("seq", seq(&one)?, expected)?;
        expect_eq("two members saw different events", one, other)?;
    }
    Ok(())
}

pub(super) fn snapshot_and_seq_fit(server: &Server) -> anyhow::Result<()> {
    let room = server.name("room");
    let (mut busy, _) = Member::join_with(server, &room, "busy", &json!({"number": 0}))?;
    for round in 0..20 {
        // Ten updates are under way while another client joins.
        for step in 0..10 {
            let patch = json!({"patchState": {"number": round * 10 + step + 1}});
            busy.emit("presence:heartbeat", &patch)?;
        }
        let (mut joiner, answer) = Member::join(server, &room, "joiner")?;
        let mut state = number(present(&answer, busy.id())?, "/state/number")?;
        let mut last = seq(&answer)?;
        // The snapshot includes its own join.
        expect_at(&joiner.event()?, "/connId", &joiner.id().into())?;
        while state < (round + 1) * 10 {
            let event = joiner.event()?;
            last += 1;
            expect_eq("seq", seq(&event)?, last)?;
            if event["connId"] == *busy.id() {
                state += 1;
                expect_at(&event, "/state/number", &state.into())?;
            }
        }
    }
    Ok(())
}
