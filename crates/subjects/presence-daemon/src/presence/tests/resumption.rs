//! Connections that break and come back.

use serde_json::json;

use super::*;

fn patient() -> Settings {
    Settings {
        resume_grace: std::time::Duration::from_secs(5),
        ..Settings::default()
    }
}

/// A room of two, whose first connection has broken, and its token.
fn broken() -> (Server, Client, String) {
    let server = Server::new(patient());
    let (ann, bob) = (Client::new("a"), Client::new("b"));
    let answer = server.join(&ann, "r");
    server.join(&bob, "r");
    server.heartbeat(&ann, &json!({"x": 1}));
    bob.events();
    server.presence.disconnect(&ann.session, true, server.now);
    (server, bob, answer["resume"].as_str().unwrap().to_owned())
}

fn resume(server: &Server, client: &Client, token: &str, state: Option<Value>) -> Value {
    let mut request = json!({"roomId": "r", "userId": "user of a", "resume": token});
    if let Some(state) = state {
        request["state"] = state;
    }
    server.request(client, "join", &request)
}

#[test]
fn a_client_that_comes_back_in_time_keeps_its_place_unseen() {
    let (mut server, bob, token) = broken();
    server.pass(4_999);
    server.presence.remove_expired(server.now);
    let back = Client::new("a2");
    let answer = resume(&server, &back, &token, None);
    assert_eq!(
        (&answer["resumed"], &answer["seq"]),
        (&json!(true), &json!(3))
    );
    assert_eq!(answer["self"], json!({"connId": "a", "epoch": START + 1}));
    assert_eq!(answer["snapshot"][0]["state"], json!({"x": 1}));
    assert_ne!(answer["resume"], token);
    assert_eq!((bob.announced(), back.announced()), (vec![], vec![]));
    server.heartbeat(&back, &json!({"x": 2}));
    assert_eq!(
        (bob.announced(), back.announced()),
        (vec!["update a 4".to_owned()], vec!["update a 4".to_owned()])
    );
    assert_eq!(server.metric("presence_members"), 2);
}

#[test]
fn a_state_that_comes_with_the_resumption_is_an_update() {
    let (server, bob, token) = broken();
    let back = Client::new("a2");
    let answer = resume(&server, &back, &token, Some(json!({"y": 2})));
    assert_eq!(
        (&answer["resumed"], &answer["seq"]),
        (&json!(true), &json!(4))
    );
    assert_eq!(bob.events()[0]["state"], json!({"y": 2}));
}

#[test]
fn after_the_grace_time_the_member_has_left_and_the_token_is_worth_nothing() {
    let (mut server, bob, token) = broken();
    server.pass(5_000);
    let answer = resume(&server, &Client::new("a2"), &token, None);
    assert_eq!(
        (answer.get("resumed"), &answer["self"]["connId"]),
        (None, &json!("a2"))
    );
    let events = bob.events();
    assert_eq!(
        (&events[0]["type"], &events[0]["reason"]),
        (&json!("leave"), &json!("disconnect"))
    );
    assert_eq!(events[1]["type"], "join");
}

#[test]
fn a_token_serves_its_own_user_once() {
    let (server, _bob, token) = broken();
    let other = json!({"roomId": "r", "userId": "mallory", "resume": token});
    let answer = server.request(&Client::new("m"), "join", &other);
    assert_eq!(answer.get("resumed"), None);
    assert_eq!(
        resume(&server, &Client::new("a2"), &token, None)["resumed"],
        true
    );
    assert_eq!(
        resume(&server, &Client::new("a3"), &token, None).get("resumed"),
        None
    );
}

#[test]
fn a_client_may_be_back_before_the_server_knows_that_its_connection_broke() {
    let server = Server::new(patient());
    let ann = Client::new("a");
    let answer = server.join(&ann, "r");
    ann.events();
    let back = Client::new("a2");
    let answer = resume(&server, &back, answer["resume"].as_str().unwrap(), None);
    assert_eq!(answer["resumed"], true);
    server.heartbeat(&back, &json!({"x": 1}));
    assert_eq!(ann.announced(), [""; 0]);
    assert_eq!(server.heartbeat(&ann, &json!({}))["code"], "expired");
    server.presence.disconnect(&ann.session, true, server.now);
    assert_eq!(server.heartbeat(&back, &json!({}))["ok"], true);
}

#[test]
fn a_client_that_takes_its_leave_is_not_waited_for() {
    let server = Server::new(patient());
    let (ann, bob) = (Client::new("a"), Client::new("b"));
    server.join(&ann, "r");
    server.join(&bob, "r");
    bob.events();
    server.presence.disconnect(&ann.session, false, server.now);
    assert_eq!(bob.announced(), ["leave a 3"]);
}

#[test]
fn no_tokens_are_issued_without_a_grace_time() {
    let (server, clients) = room_of(&["a"], Settings::default());
    assert_eq!(server.join(&clients[0], "r").get("resume"), None);
}
