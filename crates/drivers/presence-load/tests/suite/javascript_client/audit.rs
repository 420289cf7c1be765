//! Compares what clients have received with what was published.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, ensure};
use harness_testing::result::ResultFile;

use crate::javascript_client::clients::{Event, Report};
use crate::support::AUDITED;

/// Checks each client by itself, and that the clients of a room have seen the same events.
pub(crate) fn each_client(reports: &[Report]) -> anyhow::Result<()> {
    let mut published: BTreeMap<(&str, u64), (&Report, &Event)> = BTreeMap::new();
    for report in reports {
        let name = format!("{} over {}", report.user_id, report.transport);
        one_client(report).context(name)?;
        for event in &report.events {
            let key = (report.room_id.as_str(), event.seq);
            let (other, seen) = *published.entry(key).or_insert((report, event));
            ensure!(
                event == seen,
                "{} and {} have seen different events: {seen:?} and {event:?}",
                other.user_id,
                report.user_id
            );
        }
    }
    Ok(())
}

fn one_client(report: &Report) -> anyhow::Result<()> {
    let Report {
        joined, failures, ..
    } = report;
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    ensure!(joined["ok"] == true, "the answer to the join: {joined}");
    let expected = match report.transport.as_str() {
        "polling" => "polling",
        _ => "websocket",
    };
    ensure!(report.ended_on == expected, "ended on {}", report.ended_on);
    ensure!(joined["self"]["connId"] == report.conn_id.as_str());
    let snapshot = joined["snapshot"].as_array().context("no snapshot")?;
    let own = snapshot
        .iter()
        .filter(|it| it["connId"] == report.conn_id.as_str());
    ensure!(own.count() == 1, "not once in its own snapshot: {joined}");

    let first = joined["seq"].as_u64().context("no seq")?;
    let expected: Vec<u64> = (first..).take(report.events.len()).collect();
    let seen: Vec<u64> = report.events.iter().map(|event| event.seq).collect();
    ensure!(
        seen == expected,
        "lost, doubled or reordered events: {seen:?}"
    );
    let join = report.events.first().context("no event")?;
    ensure!(
        join.kind == "join" && join.conn_id == report.conn_id,
        "its own join has not the seq of the answer: {join:?}"
    );
    let stray = report
        .events
        .iter()
        .find(|event| event.room_id != report.room_id);
    ensure!(stray.is_none(), "an event of another room: {stray:?}");
    Ok(())
}

/// Checks that every client has seen the numbered updates of all clients in its room, from the first to the last.
pub(crate) fn updates_of_all(reports: &[Report], updates: usize) -> anyhow::Result<()> {
    for report in reports {
        for sender in reports.iter().filter(|it| it.room_id == report.room_id) {
            let numbers: Vec<u64> = report
                .events
                .iter()
                .filter(|event| event.kind == "update" && event.conn_id == sender.conn_id)
                .filter_map(|event| event.state["n"].as_u64())
                .collect();
            // The last one is the client's mark of the end, which does not change the number.
            let mut expected: Vec<u64> = (1..=updates as u64).collect();
            expected.push(updates as u64);
            ensure!(
                numbers == expected,
                "{} over {} has seen these updates of {}: {numbers:?}",
                report.user_id,
                report.transport,
                sender.user_id
            );
        }
    }
    Ok(())
}

/// Checks that a run of the driver had no errors, and found no fault of delivery.
pub(crate) fn is_faultless(result: &ResultFile) -> anyhow::Result<()> {
    ensure!(
        result.error_kinds().is_empty(),
        "errors: {}",
        result["errors"]
    );
    for fault in AUDITED {
        ensure!(result.count(fault) == 0, "{fault}: {}", result.count(fault));
    }
    Ok(())
}

/// Compares the events that JavaScript clients have seen with the counts of runs of the driver, each with a number of
/// users who joined, sent heartbeats and left meanwhile.
pub(crate) fn drivers(
    reports: &[Report],
    results: &[ResultFile],
    users: usize,
) -> anyhow::Result<()> {
    let members = members_of_drivers(reports);
    ensure!(
        members.len() == users * results.len(),
        "{} users of the driver",
        members.len()
    );
    let (mut updates, mut certain, mut possible) = (0, 0, 0);
    for ((room, connection), events) in &members {
        let member = one_member(events).with_context(|| format!("{connection} in {room}"))?;
        updates += member.updates;
        certain += member.certain;
        possible += member.possible;
    }
    let count = |name: &str| results.iter().map(|it| it.count(name)).sum::<u64>();
    let heartbeats = count("heartbeats") - count("keep_alives");
    ensure!(
        heartbeats == updates && (certain..=possible).contains(&count("events")),
        "the driver counted {heartbeats} updates and {} events; by the events of the JavaScript clients it sent {updates} and got {certain} to {possible}",
        count("events")
    );
    Ok(())
}

/// The events of one member of the driver.
struct MemberEvents {
    updates: u64,
    /// Events that it got for certain: the room's from its own join to its last update.
    certain: u64,
    /// The same to its leave. It may miss those that come after it has asked to leave.
    possible: u64,
}

/// Checks the events of one member of the driver.
fn one_member(events: &[&Event]) -> anyhow::Result<MemberEvents> {
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let [first, updates @ .., last] = events else {
        anyhow::bail!("only {kinds:?}");
    };
    ensure!(
        (first.kind.as_str(), last.kind.as_str()) == ("join", "leave")
            && last.reason.as_deref() == Some("leave")
            && updates.iter().all(|event| event.kind == "update"),
        "{kinds:?}, {:?}",
        last.reason
    );
    let numbers: Vec<Option<u64>> = updates.iter().map(|it| it.state["n"].as_u64()).collect();
    let expected: Vec<Option<u64>> = (1..=updates.len() as u64).map(Some).collect();
    ensure!(numbers == expected, "its updates: {numbers:?}");
    let last_own = updates.last().unwrap_or(first);
    Ok(MemberEvents {
        updates: updates.len() as u64,
        certain: last_own.seq - first.seq + 1,
        possible: last.seq - first.seq,
    })
}

/// Returns the events of each member that is not a JavaScript client, by room and connection, as one client of the room
/// has seen them. Every client has seen the same.
fn members_of_drivers(reports: &[Report]) -> BTreeMap<(&str, &str), Vec<&Event>> {
    let mut members: BTreeMap<(&str, &str), Vec<&Event>> = BTreeMap::new();
    let mut rooms = BTreeSet::new();
    for report in reports
        .iter()
        .filter(|report| rooms.insert(report.room_id.as_str()))
    {
        for event in &report.events {
            if !event.user_id.starts_with("javascript-") {
                let key = (event.room_id.as_str(), event.conn_id.as_str());
                members.entry(key).or_default().push(event);
            }
        }
    }
    members
}
