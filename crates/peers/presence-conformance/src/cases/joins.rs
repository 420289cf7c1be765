//! The presence protocol: many members, joins and keys.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
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
    case("presence, state: 300 keys come back as they are").check(|server| {
        let keys = (0..300).map(|at| (format!("key-{at}"), json!(at)));
        let state: Value = keys.collect();
        let (mut member, answer) = Member::join_with(server, &server.name("room"), "a", &state)?;
        expect_at(present(&answer, member.id())?, "/state", &state)?;
        expect_at(&member.event()?.0, "/state", &state)?;
        member.patches(&json!({"patch": state}))?;
        expect_at(&member.event()?.0, "/state/patch", &state)
    });
    case("presence, state: patches that add up to too much are refused, and the state stays")
        .on(Setup::LimitedStates)
        .check(|server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "a")?;
            for at in 0..60 {
                let part = format!("part-{at}");
                let patch = json!({part: "x".repeat(4_000)});
                let answer = member.heartbeat(&json!({"patchState": patch}))?;
                if answer["ok"] == false {
                    expect_refused(&answer, "state_too_large")?;
                    return member.patches(&json!({"part-0": "small"}));
                }
                member.event()?;
            }
            bail!("the server accepts 240,000 bytes")
        });
}
