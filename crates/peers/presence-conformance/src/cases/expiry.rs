//! The presence protocol: members without a heartbeat. The TTL is 2 s.

use std::thread::sleep;
use std::time::Duration;

use super::*;
use crate::websocket::Repeater;

/// Joins a member whose lease is renewed by heartbeats that ask for no answer.
fn observer(server: &Server, room: &str) -> anyhow::Result<(Member, Repeater)> {
    let (mut observer, _) = Member::join(server, room, "observer")?;
    let renewal = observer.renew()?;
    Ok((observer, renewal))
}

/// Compares the snapshots until one is without a silent member with the seq of its leave.
pub(super) fn snapshots_fit_the_leave(server: &Server) -> anyhow::Result<()> {
    let room = server.name("room");
    let (mut observer, _renewal) = observer(server, &room)?;
    let (silent, _) = Member::join(server, &room, "silent")?;
    let mut prober = Member::open(server)?;
    let request = json!({"roomId": room, "userId": "prober"});
    let began = Stopwatch::new();
    let mut snapshots = Vec::new();
    loop {
        let answer = prober.accepted("presence:join", &request)?;
        let is_present = entry(&answer, silent.id())?.is_some();
        snapshots.push((seq(&answer)?, is_present));
        if !is_present {
            break;
        }
        ensure!(began.elapsed() < LIMIT, "it is still in the snapshot");
        sleep(Duration::from_millis(10));
    }
    let leave = loop {
        let event = observer.event()?;
        if event["type"] == "leave" && event["connId"] == *silent.id() {
            break seq(&event)?;
        }
    };
    for (seq, is_present) in snapshots {
        let what = format!("whether the snapshot of seq {seq} has it, with a leave of seq {leave}");
        expect_eq(&what, is_present, seq < leave)?;
    }
    Ok(())
}

pub(super) fn several_members_leave_once(server: &Server) -> anyhow::Result<()> {
    let room = server.name("room");
    let (mut observer, _renewal) = observer(server, &room)?;
    let silent: anyhow::Result<Vec<Member>> = (0..5)
        .map(|at| Ok(Member::join(server, &room, &format!("silent-{at}"))?.0))
        .collect();
    let silent = silent?;
    let mut expected: Vec<&str> = silent.iter().map(Member::id).collect();
    while !expected.is_empty() {
        let event = observer.event_of_other()?;
        if event["type"] == "leave" {
            expect_at(&event, "/reason", &"expired".into())?;
            let connection = text(&event, "/connId")?;
            let before = expected.len();
            expected.retain(|id| *id != connection);
            ensure!(expected.len() < before, "a second leave of {connection}");
        }
    }
    // Their connections end later, which is no second leave.
    drop(silent);
    sleep(Duration::from_millis(200));
    observer.sees_nothing()
}
