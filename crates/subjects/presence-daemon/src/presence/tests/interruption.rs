//! A store that is out of reach.

use std::pin::pin;
use std::task::{Context, Waker};

use serde_json::json;

use super::*;
use crate::presence::cluster::{Outcome, Record};
use crate::presence::event::Kind;

/// Sends a join of a client, whose answer waits for the store.
fn join(server: &Server, client: &Client) {
    let join = json!({"roomId": "r", "userId": "user"}).to_string();
    let request = Request {
        name: "presence:join",
        arguments: &join,
        ack: Some(1),
        is_binary: false,
    };
    let (session, conn) = (&client.session, &client.conn);
    server
        .presence
        .request(session, conn, client, request, server.now);
}

fn update(seq: u64) -> Record<'static> {
    Record {
        room: "r",
        previous: seq - 1,
        seq,
        kind: Some(Kind::Update),
        time_us: 1_000,
        conn: "c",
        stored: "7 3 \"u\"{}",
    }
}

#[test]
fn events_of_a_room_that_was_empty_since_reach_no_later_member() {
    let server = Server {
        presence: Presence::with_cluster(Settings::default()),
        now: START,
    };
    let bob = Client::new("b");
    let cluster = server.presence.cluster().unwrap();
    cluster.resync(true);
    join(&server, &bob);
    // The room is empty after this event, so that the join has the number 1 again.
    cluster.receive(&update(2));
    let mut writes = Vec::new();
    cluster.queue().take(1, &mut writes);
    let outcome = Outcome {
        is_known: true,
        kind: Some(Kind::Join),
        seq: 1,
        ..Outcome::default()
    };
    cluster.complete(writes.remove(0), outcome, 1_001);
    assert_eq!(bob.announced(), ["join b 1"]);
}

#[test]
fn an_event_that_waits_while_others_join_is_not_missing() {
    let server = Server {
        presence: Presence::with_cluster(Settings::default()),
        now: START,
    };
    let cluster = server.presence.cluster().unwrap();
    cluster.resync(true);
    let is_missing = || {
        let mut context = Context::from_waker(Waker::noop());
        pin!(cluster.queue().gap.notified())
            .poll(&mut context)
            .is_ready()
    };
    join(&server, &Client::new("b"));
    cluster.receive(&update(2));
    for conn in ["d", "e", "f"] {
        join(&server, &Client::new(conn));
    }
    assert!(!is_missing());
    // The maintenance looks twice.
    server.presence.remove_expired(server.now);
    assert!(!is_missing());
    server.presence.remove_expired(server.now);
    assert!(is_missing());
}

#[test]
fn requests_that_waited_for_the_store_publish_the_state_that_each_made() {
    let server = Server {
        presence: Presence::with_cluster(Settings::default()),
        now: START,
    };
    let (ann, bob) = (Client::new("a"), Client::new("b"));
    server.join(&bob, "r");
    bob.events();
    let cluster = server.presence.cluster().unwrap();
    cluster.resync(true);
    let requests = [
        (
            "presence:join",
            json!({"roomId": "r", "userId": "ann", "state": {"n": 0}}),
        ),
        ("presence:heartbeat", json!({"patchState": {"n": 1}})),
        ("presence:heartbeat", json!({"patchState": {"n": 2}})),
    ];
    for (name, argument) in requests {
        let request = Request {
            name,
            arguments: &argument.to_string(),
            ack: Some(1),
            is_binary: false,
        };
        let (session, conn) = (&ann.session, &ann.conn);
        server
            .presence
            .request(session, conn, &ann, request, server.now);
    }
    assert!(bob.events().is_empty());
    cluster.interrupt(Vec::new(), server.now);
    let states: Vec<_> = bob
        .events()
        .iter()
        .map(|event| (event["state"]["n"].clone(), event["seq"].clone()))
        .collect();
    let expected = [(0, 2), (1, 3), (2, 4)].map(|(n, seq)| (json!(n), json!(seq)));
    assert_eq!(states, expected);
    let answers = ann.answers.lock().unwrap();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer["degraded"] == true));
}
