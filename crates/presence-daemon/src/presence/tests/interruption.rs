//! A store that is out of reach.

use serde_json::json;

use super::*;

#[test]
fn heartbeats_that_waited_for_the_store_publish_the_state_that_each_made() {
    let server = Server {
        presence: Presence::with_link(Settings::default()),
        now: START,
    };
    let (ann, bob) = (Client::new("a"), Client::new("b"));
    server.join(&ann, "r");
    server.join(&bob, "r");
    bob.events();
    server.presence.link.as_ref().unwrap().open();
    server.presence.reunite(true);
    for number in 1..=3 {
        let request = json!({"patchState": {"n": number}}).to_string();
        let request = Request {
            name: "presence:heartbeat",
            arguments: &request,
            ack: Some(number),
            is_binary: false,
        };
        let (session, conn) = (&ann.session, &ann.conn);
        server
            .presence
            .request(session, conn, &ann, request, server.now);
    }
    assert!(bob.events().is_empty());
    server.presence.interrupt(Vec::new(), server.now);
    let states: Vec<_> = bob
        .events()
        .iter()
        .map(|event| (event["state"]["n"].clone(), event["seq"].clone()))
        .collect();
    let expected = [(1, 3), (2, 4), (3, 5)].map(|(n, seq)| (json!(n), json!(seq)));
    assert_eq!(states, expected);
    let answers = ann.answers.lock().unwrap();
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| answer["degraded"] == true));
}
