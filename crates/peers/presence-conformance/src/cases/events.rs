//! The presence protocol: the order of events, and their rooms.

use super::*;

pub(super) fn cases(case: Begin<'_>) {
    order(case);
    rooms(case);
    busy_rooms(case);
}

fn order(case: Begin<'_>) {
    case("presence, events: seq has no gaps over 1,000 events of five clients, and all see one order").check(|server| {
        let room = server.name("room");
        let (mut observers, seqs) = two_observers(server, &room)?;
        let last = publish_mixed_events(server, &room, 200)?;
        let seen = observers
            .iter_mut()
            .zip(seqs)
            .map(|(observer, seq)| events_up_to(observer, seq, last))
            .collect::<anyhow::Result<Vec<_>>>()?;
        // The second observer began later, with its own join.
        let skipped = seen[0].len() - seen[1].len();
        ensure!(seen[0][skipped..] == seen[1][..], "two members saw different events");
        ensure!(last >= 1_000, "only {last} events");
        Ok(())
    });
}

fn rooms(case: Begin<'_>) {
    case("presence, events: they stay in their room").check(|server| {
        let rooms = [
            server.name("room"),
            server.name("room"),
            server.name("room"),
        ];
        let mut members = Vec::new();
        for room in &rooms {
            for user in ["alice", "bob"] {
                members.push(Member::join(server, room, user)?.0);
            }
        }
        for (at, member) in members.iter_mut().enumerate() {
            for number in 0..10 {
                member.patches(&json!({"at": at, "number": number}))?;
            }
        }
        for (at, member) in members.iter_mut().enumerate() {
            for event in member.events_until_own_update()? {
                expect_at(&event.0, "/roomId", &rooms[at / 2].as_str().into())?;
            }
        }
        Ok(())
    });
}

fn busy_rooms(case: Begin<'_>) {
    case("presence, events: snapshot and seq are taken together while the room is busy").check(
        |server| {
            let room = server.name("room");
            let (mut busy, _) = Member::join_with(server, &room, "busy", &json!({"number": 0}))?;
            for round in 0..20 {
                // Ten updates are under way while another client joins.
                for step in 0..10 {
                    let patch = json!({"patchState": {"number": round * 10 + step + 1}});
                    busy.socket.emit("presence:heartbeat", &[patch])?;
                }
                let (mut joiner, answer) = Member::join(server, &room, "joiner")?;
                let mut state = number(present(&answer, busy.id())?, "/state/number")?;
                let mut seq = number(&answer, "/seq")?;
                while state < (round + 1) * 10 {
                    let event = joiner.event()?;
                    if event.seq()? <= number(&answer, "/seq")? {
                        // Its own join, which the snapshot includes.
                        event.is("join", joiner.id())?;
                        continue;
                    }
                    expect_eq("seq", event.seq()?, seq + 1)?;
                    seq += 1;
                    if event.connection()? == busy.id() {
                        state += 1;
                        expect_at(&event.0, "/state/number", &state.into())?;
                    }
                }
            }
            Ok(())
        },
    );
    case("presence, events: a member that reads nothing for a while misses nothing").check(
        |server| {
            let room = server.name("room");
            let (mut idle, answer) = Member::join(server, &room, "idle")?;
            let (mut busy, _) = Member::join(server, &room, "busy")?;
            for number in 0..500 {
                busy.patches(&json!({"number": number, "padding": "x".repeat(100)}))?;
            }
            let first = number(&answer, "/seq")?;
            for expected in first..first + 502 {
                expect_eq("seq", idle.event()?.seq()?, expected)?;
            }
            Ok(())
        },
    );
}

/// Joins a room with two members. Returns them with the seq of the first event that each gets.
fn two_observers(server: &Server, room: &str) -> anyhow::Result<(Vec<Member>, Vec<u64>)> {
    let (mut observers, mut seqs) = (Vec::new(), Vec::new());
    for user in ["first", "second"] {
        let (observer, answer) = Member::join(server, room, user)?;
        seqs.push(number(&answer, "/seq")?);
        observers.push(observer);
    }
    Ok((observers, seqs))
}

/// Sends joins, updates and leaves of five clients that do not wait for each other. Returns the seq of the last event.
fn publish_mixed_events(server: &Server, room: &str, rounds: u32) -> anyhow::Result<u64> {
    let clients: anyhow::Result<Vec<Member>> = (0..5).map(|_| Member::open(server)).collect();
    let mut clients = clients?;
    for round in 0..rounds {
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
            client.socket.emit(event, &[argument])?;
        }
    }
    for client in &mut clients {
        client.leave()?;
    }
    let (_, answer) = Member::join(server, room, "last")?;
    number(&answer, "/seq")
}

/// Reads the events from one seq to another, and asserts that none is missing. Returns the seq, the type and the
/// connection of each.
fn events_up_to(
    observer: &mut Member,
    first: u64,
    last: u64,
) -> anyhow::Result<Vec<(u64, String, String)>> {
    (first..=last)
        .map(|expected| {
            let event = observer.event()?;
            expect_eq("seq", event.seq()?, expected)?;
            let kind = text(&event.0, "/type")?.to_owned();
            Ok((expected, kind, event.connection()?.to_owned()))
        })
        .collect()
}
