//! The presence protocol: members without a heartbeat.

use std::time::Duration;

use super::*;
use crate::setup::{REAPER_MS, TTL_MS};

pub(super) const TTL: Duration = Duration::from_millis(TTL_MS);
pub(super) const REAPER: Duration = Duration::from_millis(REAPER_MS);
/// The largest difference between the clocks of two processes.
pub(super) const TOLERANCE: Duration = Duration::from_millis(20);
/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(4);

/// Calls `act` with a member whose lease is renewed by heartbeats that ask for no answer.
pub(super) fn with_observer<T>(
    server: &Server,
    room: &str,
    act: impl FnOnce(&mut Member) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (mut observer, _) = Member::join(server, room, "observer")?;
    let _heartbeats = observer
        .socket
        .transport
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
    late_heartbeats(case);
    leases(case);
}

fn removal(case: Begin<'_>) {
    case("presence, expiry: a silent member leaves after the TTL, at most a reaper interval late")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            with_observer(server, &room, |observer| {
                let began = Stopwatch::new();
                let (silent, _) = Member::join(server, &room, "silent")?;
                observer.event_of_other()?.is("join", silent.id())?;
                let event = observer.event_of_other()?;
                let after = began.elapsed();
                event.is_leave(silent.id(), "expired")?;
                expect_at(&event.0, "/state", &Value::Null)?;
                expect_at(&event.0, "/userId", &"silent".into())?;
                ensure!(
                    after + TOLERANCE >= TTL,
                    "it left after {after:?}, and the TTL is {TTL:?}"
                );
                let latest = TTL + REAPER + SLACK;
                ensure!(
                    after <= latest,
                    "it left after {after:?}, expected at most {latest:?}"
                );
                Ok(())
            })
        });
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
    case("presence, expiry: no snapshot has a member past its TTL, however late the reaper is")
        .on(Setup::SlowReaper)
        .check(|server| {
            let room = server.name("room");
            with_observer(server, &room, |observer| {
                let (silent, _) = Member::join(server, &room, "silent")?;
                std::thread::sleep(TTL + TOLERANCE);
                let (_, answer) = Member::join(server, &room, "late")?;
                ensure!(entry(&answer, silent.id())?.is_none(), "it is in {answer}");
                // It has left before the snapshot was taken.
                observer.event_of_other()?.is("join", silent.id())?;
                let leave = observer.event_of_other()?;
                leave.is_leave(silent.id(), "expired")?;
                ensure!(
                    leave.seq()? < number(&answer, "/seq")?,
                    "the leave comes after the snapshot"
                );
                Ok(())
            })
        });
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

fn late_heartbeats(case: Begin<'_>) {
    for (setup, what) in [
        (Setup::ShortTtl, "after its leave"),
        (Setup::SlowReaper, "before the reaper has seen it"),
    ] {
        case(&format!(
            "presence, expiry: a heartbeat {what} is expired, until the next join"
        ))
        .on(setup)
        .check(move |server| {
            let room = server.name("room");
            let (mut member, first) = Member::join(server, &room, "late")?;
            member.event()?;
            std::thread::sleep(TTL + REAPER + TOLERANCE);
            expect_refused(
                &member.heartbeat(&json!({"patchState": {"a": 1}}))?,
                "expired",
            )?;
            expect_refused(
                &member.heartbeat(&json!({"epoch": first["self"]["epoch"]}))?,
                "expired",
            )?;
            // The member does not get its own leave.
            member.has_no_events()?;
            let answer = member.ask_to_join(&room, "late")?;
            let (old, new) = (
                number(&first, "/self/epoch")?,
                number(&answer, "/self/epoch")?,
            );
            ensure!(new > old, "epoch {new} after {old}");
            member.patches(&json!({"a": 1}))
        });
    }
    case("presence, expiry: after it another room may be joined")
        .on(Setup::ShortTtl)
        .check(|server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "late")?;
            std::thread::sleep(TTL + REAPER + TOLERANCE);
            let began = Stopwatch::new();
            loop {
                let answer = member.ask_to_join(&server.name("room"), "late")?;
                if answer["ok"] == true {
                    return Ok(());
                }
                ensure!(began.elapsed() < SLACK, "it is still refused: {answer}");
                std::thread::sleep(Duration::from_millis(10));
            }
        });
    case("presence, expiry: a leave after it is ok")
        .on(Setup::ShortTtl)
        .check(|server| {
            let (mut member, _) = Member::join(server, &server.name("room"), "late")?;
            std::thread::sleep(TTL + REAPER + TOLERANCE);
            expect_eq("the answer", member.leave()?, json!({"ok": true}))
        });
}

fn leases(case: Begin<'_>) {
    case("presence, expiry: heartbeats keep a member, with and without a change")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            let (mut member, _) = Member::join(server, &room, "alive")?;
            let began = Stopwatch::new();
            while began.elapsed() < TTL * 2 {
                let answer = member.heartbeat(&Value::Null)?;
                expect_at(&answer, "/ok", &true.into())?;
                std::thread::sleep(TTL / 10);
            }
            let (_, answer) = Member::join(server, &room, "other")?;
            present(&answer, member.id()).map(drop)
        });
    case("presence, expiry: a refused heartbeat does not keep a member")
        .on(Setup::ShortTtl)
        .check(|server| {
            let (mut member, answer) = Member::join(server, &server.name("room"), "wrong")?;
            let epoch = number(&answer, "/self/epoch")? + 1;
            let began = Stopwatch::new();
            loop {
                let answer = member.heartbeat(&json!({"epoch": epoch}))?;
                if answer["code"] == "expired" {
                    return Ok(());
                }
                expect_refused(&answer, "stale_epoch")?;
                ensure!(began.elapsed() < TTL + REAPER + SLACK, "it never expires");
                std::thread::sleep(TTL / 10);
            }
        });
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
    case("presence, expiry: neither events nor pings keep a member")
        .on(Setup::ShortTtl)
        .check(|server| {
            let room = server.name("room");
            with_observer(server, &room, |observer| {
                let (mut silent, _) = Member::join(server, &room, "silent")?;
                observer.event_of_other()?.is("join", silent.id())?;
                let began = Stopwatch::new();
                while began.elapsed() < TTL + REAPER {
                    silent
                        .socket
                        .transport
                        .send_raw(&websocket::frame(websocket::FIN | websocket::PING, b""))?;
                    silent.socket.transport.send_text("3")?;
                    std::thread::sleep(TTL / 10);
                }
                observer.event_of_other()?.is_leave(silent.id(), "expired")
            })
        });
}
