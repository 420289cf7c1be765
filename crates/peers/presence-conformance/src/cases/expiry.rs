//! The presence protocol: members without a heartbeat.

use std::time::Duration;

use super::*;

const TTL: Duration = Duration::from_secs(2);
const REAPER: Duration = Duration::from_millis(200);
/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);

/// Calls `act` with a member whose lease is renewed by heartbeats that ask for no answer.
fn with_observer<T>(
    server: &Server,
    room: &str,
    act: impl FnOnce(&mut Member) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (mut observer, _) = Member::join(server, room, "observer")?;
    let _heartbeats = observer
        .websocket()?
        .repeat("42[\"presence:heartbeat\",null]", TTL / 5)?;
    act(&mut observer).map_err(|error| {
        let answer = observer.heartbeat(&Value::Null);
        match answer {
            Ok(answer) if answer["ok"] == true => error,
            other => error.context(format!("the observer has left itself: {other:?}")),
        }
    })
}

pub(super) fn cases(case: Begin<'_>) {
    removal(case);
    late_removal(case);
    leases(case);
}

fn removal(case: Begin<'_>) {
    case("presence, expiry: it leaves the snapshot and publishes leave in one act")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            with_observer(server, &room, |observer| {
                let (silent, _) = Member::join(server, &room, "silent")?;
                let snapshots = snapshots_until_it_left(server, &room, silent.id())?;
                let leave = loop {
                    let event = observer.event()?;
                    if event.is("leave", silent.id()).is_ok() {
                        break event.seq()?;
                    }
                };
                for (seq, is_present) in snapshots {
                    expect_eq(
                        &format!(
                            "whether the snapshot of seq {seq} has it, with a leave of seq {leave}"
                        ),
                        is_present,
                        seq < leave,
                    )?;
                }
                Ok(())
            })
        });
}

fn late_removal(case: Begin<'_>) {
    case("presence, expiry: several silent members leave once each")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            with_observer(server, &room, |observer| {
                let silent: anyhow::Result<Vec<Member>> = (0..5)
                    .map(|at| Ok(Member::join(server, &room, &format!("silent-{at}"))?.0))
                    .collect();
                let silent = silent?;
                let mut expected: Vec<&str> = silent.iter().map(Member::id).collect();
                while !expected.is_empty() {
                    let event = observer.event_of_other()?;
                    if event.0["type"] == "leave" {
                        expect_at(&event.0, "/reason", &"expired".into())?;
                        let connection = event.connection()?;
                        let before = expected.len();
                        expected.retain(|id| *id != connection);
                        ensure!(expected.len() < before, "a second leave of {connection}");
                    }
                }
                // Their connections end later, which is no second leave.
                drop(silent);
                std::thread::sleep(REAPER);
                let events = observer.events_of_others()?;
                ensure!(events.is_empty(), "unexpected events: {events:?}");
                Ok(())
            })
        });
}

/// Reads snapshots until one is without a member. Returns the seq of each, with true if it contains the member.
fn snapshots_until_it_left(
    server: &Server,
    room: &str,
    id: &str,
) -> anyhow::Result<Vec<(u64, bool)>> {
    let began = Stopwatch::new();
    let mut prober = Member::open(server)?;
    let mut snapshots = Vec::new();
    loop {
        let answer = prober.ask_to_join(room, "prober")?;
        let is_present = entry(&answer, id)?.is_some();
        snapshots.push((number(&answer, "/seq")?, is_present));
        prober.socket.take_events();
        if !is_present {
            return Ok(snapshots);
        }
        ensure!(
            began.elapsed() < TTL + REAPER + SLACK,
            "it is still in the snapshot"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn leases(case: Begin<'_>) {
    case("presence, expiry: a join again keeps a member")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            let (mut member, _) = Member::join(server, &room, "alive")?;
            let began = Stopwatch::new();
            while began.elapsed() < TTL * 2 {
                member.ask_to_join(&room, "alive")?;
                std::thread::sleep(TTL / 10);
            }
            expect_at(&member.heartbeat(&Value::Null)?, "/ok", &true.into())
        });
}
