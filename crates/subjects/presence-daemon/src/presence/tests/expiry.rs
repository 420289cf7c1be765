//! Members without heartbeats.

use serde_json::json;

use super::*;

#[test]
fn a_silent_member_leaves_the_room_and_the_snapshot_in_one_act() {
    let (mut server, clients) = room_of(&["a", "b"], Settings::default());
    server.pass(29_999);
    server.heartbeat(&clients[1], &json!({}));
    server.presence.remove_expired(server.now);
    assert_eq!(clients[1].announced(), [""; 0]);
    server.pass(1);
    server.presence.remove_expired(server.now);
    let event = &clients[1].events()[0];
    assert_eq!(
        (&event["type"], &event["reason"]),
        (&json!("leave"), &json!("expired"))
    );
    assert_eq!(
        (&event["ts"], &event["seq"]),
        (&json!(server.now), &json!(3))
    );
    assert_eq!(clients[0].announced(), [""; 0]);
    assert_eq!(server.heartbeat(&clients[0], &json!({}))["code"], "expired");
    assert_eq!(server.heartbeat(&clients[0], &json!({}))["code"], "expired");
    assert_eq!(server.join(&clients[0], "r")["ok"], true);
    assert_eq!(server.heartbeat(&clients[0], &json!({}))["ok"], true);
}

#[test]
fn a_snapshot_has_no_member_past_its_ttl_though_nothing_checked_before() {
    let (mut server, clients) = room_of(&["a", "b"], Settings::default());
    server.pass(10_000);
    server.heartbeat(&clients[1], &json!({}));
    server.pass(20_000);
    let late = Client::new("c");
    let answer = server.join(&late, "r");
    let snapshot = answer["snapshot"].as_array().unwrap().iter();
    let mut conns: Vec<_> = snapshot
        .map(|member| member["connId"].as_str().unwrap())
        .collect();
    conns.sort_unstable();
    assert_eq!(conns, ["b", "c"]);
    assert_eq!(clients[1].announced(), ["leave a 3", "join c 4"]);
    assert_eq!(answer["seq"], 4);
}

#[test]
fn a_heartbeat_past_the_ttl_is_too_late() {
    let (mut server, clients) = room_of(&["a", "b"], Settings::default());
    server.pass(20_000);
    server.heartbeat(&clients[1], &json!({}));
    server.pass(10_000);
    assert_eq!(
        server.heartbeat(&clients[0], &json!({"x": 1}))["code"],
        "expired"
    );
    assert_eq!(clients[1].announced(), ["leave a 3"]);
    server.presence.remove_expired(server.now);
    assert_eq!(server.metric("presence_leaves_total"), 1);
    server.pass(30_000);
    server.presence.remove_expired(server.now);
    assert_eq!(server.metric("presence_rooms"), 0);
}
