//! A store that is out of reach.

use serde_json::json;

use super::*;
use crate::presence::cluster::{Outcome, Record};
use crate::presence::event::Kind;

#[test]
fn events_of_a_room_that_was_empty_since_reach_no_later_member() {
    let server = Server {
        presence: Presence::with_cluster(Settings::default()),
        now: START,
    };
    let bob = Client::new("b");
    let cluster = server.presence.cluster().unwrap();
    cluster.resync(true);
    let join = json!({"roomId": "r", "userId": "bob"}).to_string();
    let request = Request {
        name: "presence:join",
        arguments: &join,
        ack: Some(1),
        is_binary: false,
    };
    let (session, conn) = (&bob.session, &bob.conn);
    server
        .presence
        .request(session, conn, &bob, request, server.now);
    // The room is empty after this event, so that the join has the number 1 again.
    cluster.receive(&Record {
        room: "r",
        previous: 1,
        seq: 2,
        kind: Some(Kind::Update),
        time_us: 1_000,
        conn: "c",
        stored: "7 3 \"u\"{}",
    });
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
