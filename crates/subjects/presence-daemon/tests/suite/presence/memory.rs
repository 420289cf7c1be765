//! One daemon without other nodes.

use serde_json::json;

use super::client::{Client, conns, seqs};
use super::daemon::Daemon;
use crate::support::http;

#[test]
fn members_see_each_other_come_change_and_go() {
    let daemon = Daemon::start(&[]);
    let (mut ann, _) = Client::join(daemon.address, "r", "ann");
    let (mut bob, answer) = Client::join(daemon.address, "r", "bob");
    assert_eq!(conns(&answer).len(), 2);
    let answer = bob.heartbeat(&json!({"x": 1.50}));
    assert_eq!(
        (&answer["ok"], &answer["changed"]),
        (&json!(true), &json!(true))
    );
    let events = ann.events_until("update", &bob.conn);
    assert_eq!(seqs(&events), [1, 2, 3]);
    assert_eq!(events[2]["state"], json!({"x": 1.5}));
    let conn = bob.conn.clone();
    drop(bob);
    let leave = ann.events_until("leave", &conn).pop().unwrap();
    assert_eq!(leave["reason"], "disconnect");
    assert_eq!(ann.request("leave", &json!(null)), json!({"ok": true}));
    assert_eq!(ann.heartbeat(&json!({}))["code"], "not_joined");
    assert_eq!(daemon.metric("presence_members"), 0);
    assert_eq!(daemon.metric("presence_rooms"), 0);
    assert_eq!(daemon.metric("presence_joins_total"), 2);
    assert_eq!(daemon.metric("presence_leaves_total"), 2);
}

#[test]
fn a_silent_member_expires_and_its_connection_stays() {
    let daemon = Daemon::start(&["--ttl-ms", "2000"]);
    let (mut ann, _) = Client::join(daemon.address, "r", "ann");
    let (mut bob, _) = Client::join(daemon.address, "r", "bob");
    let leave = loop {
        assert_eq!(bob.heartbeat(&json!({}))["ok"], true);
        let leaves = bob
            .events_now()
            .into_iter()
            .find(|event| event["type"] == "leave");
        if let Some(leave) = leaves {
            break leave;
        }
    };
    assert_eq!(
        (&leave["connId"], &leave["reason"]),
        (&json!(ann.conn), &json!("expired"))
    );
    assert_eq!(ann.heartbeat(&json!({}))["code"], "expired");
    assert_eq!(
        ann.request("join", &json!({"roomId": "r", "userId": "ann"}))["ok"],
        true
    );
}

#[test]
fn a_connection_that_is_cut_comes_back_to_its_place() {
    let daemon = Daemon::start(&["--resume-grace-ms", "20000"]);
    let (ann, answer) = Client::join(daemon.address, "r", "ann");
    let (mut bob, _) = Client::join(daemon.address, "r", "bob");
    let conn = ann.conn.clone();
    bob.events_now();
    drop(ann);
    let mut back = Client::connect(daemon.address);
    let request = json!({"roomId": "r", "userId": "ann", "resume": answer["resume"]});
    let answer = back.request("join", &request);
    assert_eq!(
        (&answer["resumed"], &answer["self"]["connId"]),
        (&json!(true), &json!(conn))
    );
    assert_eq!(bob.events_now(), [json!(null); 0]);
    back.heartbeat(&json!({"x": 1}));
    assert_eq!(bob.event()["connId"], json!(conn));
}

#[test]
fn deep_and_strange_states_harm_nobody() {
    let daemon = Daemon::start(&[]);
    let (mut ann, _) = Client::join(daemon.address, "r", "ann");
    let (mut bob, _) = Client::join(daemon.address, "r", "bob");
    let mut deep = json!(1);
    for _ in 0..120 {
        deep = json!([deep]);
    }
    let answer = ann.heartbeat(&json!({ "x": deep }));
    assert_eq!(answer["code"], "invalid_argument");
    let large = json!({"x": "y".repeat(20_000)});
    assert_eq!(ann.heartbeat(&large)["code"], "state_too_large");
    for argument in [
        json!(7),
        json!([]),
        json!({"patchState": 1}),
        json!({"epoch": -1}),
    ] {
        assert_eq!(
            ann.request("heartbeat", &argument)["code"],
            "invalid_argument"
        );
    }
    assert_eq!(ann.heartbeat(&json!({"\"\\\n": "\u{1}ü"}))["changed"], true);
    let update = bob.events_until("update", &ann.conn).pop().unwrap();
    assert_eq!(update["state"], json!({"\"\\\n": "\u{1}ü"}));
}

#[test]
fn a_state_with_binary_values_is_refused() {
    let daemon = Daemon::start(&[]);
    let (mut ann, _) = Client::join(daemon.address, "r", "ann");
    ann.events_until("join", &ann.conn.clone());
    let packet =
        r#"451-7["presence:heartbeat",{"patchState":{"x":{"_placeholder":true,"num":0}}}]"#;
    let answer = ann.request_with_binary(packet);
    assert_eq!(answer["code"], "invalid_argument", "{answer}");
    assert_eq!(ann.heartbeat(&json!({}))["changed"], false);
}

#[test]
fn a_room_is_joinable_whatever_the_length_of_its_snapshot() {
    let limit = 50_000;
    let outbound = limit.to_string();
    let daemon = Daemon::start(&["--outbound-limit", &outbound, "--ttl-ms", "600000"]);
    let state = json!({"x": "y".repeat(16_000)});
    let join = |user: usize| json!({"roomId": "r", "userId": user.to_string(), "state": state});
    let mut members: Vec<Client> = (0..12).map(|_| Client::connect(daemon.address)).collect();
    for (user, member) in members.iter_mut().enumerate() {
        let answer = member.request("join", &join(user));
        assert_eq!(conns(&answer).len(), user + 1);
        member.events_now();
    }
    let polling = "/socket.io/?EIO=4&transport=polling";
    let open = http(daemon.address, "GET", polling, b"").1;
    let open: serde_json::Value = serde_json::from_str(&open[1..]).unwrap();
    let polling = format!("{polling}&sid={}", open["sid"].as_str().unwrap());
    let ask = format!("40\x1e421[\"presence:join\",{}]", join(12));
    let asked = http(daemon.address, "POST", &polling, ask.as_bytes());
    assert_eq!(asked, (200, "ok".to_owned()));
    let (status, body) = http(daemon.address, "GET", &polling, b"");
    assert_eq!(status, 200);
    let answer = body.split('\x1e').find(|packet| packet.starts_with("431["));
    assert!(answer.is_some_and(|answer| answer.len() > 3 * limit));
    let closed = "presence_connections_closed_total{reason=\"slow_consumer\"}";
    assert_eq!(daemon.metric(closed), 0);
}
